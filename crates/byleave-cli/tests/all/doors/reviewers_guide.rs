//! The page docs/guide/reviewers.md (R11). Its settings, its rule and its programs are the ones that run here.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, text, workspace};
use crate::hooks::{PATIENT_MS, ended, is_denied, rewritten, said, start};

/// Returns the block of the page after this mark.
fn block(mark: &str) -> String {
    let page = fs::read_to_string(crate::guide::docs().join("reviewers.md")).unwrap();
    let found = page.split_once(&format!("<!-- {mark} -->\n```"));
    let (_, rest) = found.unwrap_or_else(|| panic!("the page has no `{mark}`"));
    let (_, body) = rest.split_once('\n').unwrap();
    body.split_once("```\n").unwrap().0.to_owned()
}

/// A user with the settings of an example and the MCP server of the shop.
fn shop(example: &str) -> DoorFixture {
    let doors = DoorFixture::new("", "");
    doors.accept_server_as("shop");
    let home = doors.home().to_str().unwrap().to_owned();
    let settings = block(&format!("settings: {example}"));
    doors.set_up(&settings.replace("/home/ann", &home).replace("/usr/local/bin", &home));
    doors
}

fn call(doors: &DoorFixture, tool: &str, arguments: &Value) -> Output {
    doors.run(&["call", tool, "--mode", "yolo", "--args", &args(arguments)])
}

#[test]
fn every_example_of_the_page_is_tried() {
    let page = fs::read_to_string(crate::guide::docs().join("reviewers.md")).unwrap();
    let examples = page.lines().filter(|line| *line == "```toml" || *line == "```python").count();
    assert_eq!(examples, page.matches("<!-- ").count(), "a block without a mark is tried by no test");
    assert_eq!(page.matches("<!-- settings: ").count(), 5);
}

// req: R11, R5, R12
// door: program
#[test]
fn a_delete_is_confirmed_at_the_terminal() {
    let doors = DoorFixture::new(&block("settings: confirm-delete"), &block("policy: confirm-delete"));
    let words = ["call", "delete_file", "--args", r#"{"path": "notes.txt"}"#];
    let alone = doors.run(&words);
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    assert!(text(&alone.stderr).contains("no-approver"), "{alone:?}");
    let file = doors.stand.file("notes.txt");
    let mut sitting = doors.at_terminal(&words);
    assert!(sitting.asks());
    sitting.await_shown("May this call of “delete_file” run?");
    sitting.await_shown("a delete needs your yes");
    assert!(file.exists());
    sitting.press("\u{1b}[F");
    sitting.choose("y", "yes");
    let (code, seen) = sitting.end();
    assert_eq!((code, file.exists()), (Some(0), false), "{seen}");
}

// req: R11, R1, R2, R12
// door: program
#[test]
fn sql_is_stripped() {
    let doors = shop("strip-sql");
    let ran = call(&doors, "mcp_shop_query", &json!({"sql": "select 1; drop table t--"}));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert_eq!(text(&ran.stdout).trim(), "ran: select 1 drop table t");
    assert!(text(&ran.stderr).contains("note: reviewer `no-sql-tricks` changed the arguments"), "{ran:?}");
}

// req: R11, R1, R2, R12
// door: program
#[test]
fn fields_are_dropped() {
    let doors = shop("drop-fields");
    let ran = call(&doors, "mcp_shop_account", &json!({}));
    assert_eq!((ran.status.code(), text(&ran.stdout).trim()), (Some(0), r#"{"user":"ann"}"#), "{ran:?}");
}

/// The service of the page, stopped with the test.
struct Service {
    child: Child,
    port: String,
}

impl Service {
    /// Starts the service and points the settings at it.
    fn set_up(doors: &DoorFixture) -> Self {
        let secret = "../.config/byleave/review.secret";
        doors.put(secret, "a secret that both sides know\n");
        fs::set_permissions(doors.stand.file(secret), fs::Permissions::from_mode(0o600)).unwrap();
        let service = Self::start(doors);
        let settings = fs::read_to_string(doors.home().join(".config/byleave/config.toml")).unwrap();
        assert!(settings.contains(":8400/"), "{settings}");
        doors.set_up(&settings.replace(":8400/", &format!(":{}/", service.port)));
        service
    }

    fn start(doors: &DoorFixture) -> Self {
        let listens = r#"HTTPServer(("127.0.0.1", 8400), Reviews).serve_forever()"#;
        let program = block("file: service").replace("/home/ann", doors.home().to_str().unwrap());
        assert!(program.contains(listens), "{program}");
        // Any free port, which it prints.
        let any = "server = HTTPServer((\"127.0.0.1\", 0), Reviews)\nprint(server.server_port, flush=True)\nserver.serve_forever()";
        let program = program.replace(listens, any);
        let mut command = Command::new("python3");
        command.args(["-c", &program]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

// req: R11, R1, R3, R12
// door: program
#[test]
fn another_service_approves() {
    let doors = shop("service");
    let service = Service::set_up(&doors);
    let deploy = |version: &str| call(&doors, "mcp_shop_deploy", &json!({ "version": version }));
    let ran = deploy("v1");
    assert_eq!((ran.status.code(), text(&ran.stdout).trim()), (Some(0), "deployed v1"), "{ran:?}");
    let refused = deploy("v2");
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    let why = "refused: reviewer `change-tickets` refused the arguments: there is no change ticket for v2 (review-denied)";
    assert!(text(&refused.stderr).contains(why), "{refused:?}");
    // A service that does not answer approves nothing.
    drop(service);
    let alone = deploy("v1");
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    assert!(text(&alone.stderr).contains("review-failed"), "{alone:?}");
}

// req: R11, R1, R2, R12
// door: program
#[test]
fn input_and_output_are_reviewed_together() {
    let doors = shop("both");
    doors.put_program("../review-customers", &block("file: both"));
    let query = |sql: &str| call(&doors, "mcp_shop_query", &json!({ "sql": sql }));
    let orders = query("select * from orders");
    assert_eq!(text(&orders.stdout).trim(), "ran: select * from orders", "{orders:?}");
    let private = query("select * from customers");
    assert_eq!(private.status.code(), Some(3), "{private:?}");
    assert!(text(&private.stderr).contains("the table `customers` is private"), "{private:?}");
    let masked = query("select 'ann@shop.example'");
    assert_eq!(text(&masked.stdout).trim(), "ran: select '(e-mail)'", "{masked:?}");
    assert!(text(&masked.stderr).contains("e-mail addresses are masked"), "{masked:?}");
    let redacted = query("select 'token=abc12345'");
    assert!(!text(&redacted.stdout).contains("abc12345"), "{redacted:?}");
    assert!(text(&redacted.stdout).contains("[redacted: secret]"), "{redacted:?}");
}

/// A user with the settings of an example for the tools of an agent with a hook.
fn hooked(example: &str, tools: &[(&str, &str)]) -> DoorFixture {
    let doors = DoorFixture::new("", "");
    let home = doors.home().to_str().unwrap().to_owned();
    let mut settings = block(&format!("settings: {example}")).replace("/home/ann", &home);
    for (tool, name) in tools {
        assert!(settings.contains(tool), "{settings}");
        settings = settings.replace(tool, name);
    }
    doors.set_up(&format!("mode = \"yolo\"\n{}", settings.replace("/usr/local/bin", &home)));
    doors
}

/// Asks as Claude Code does before it uses a tool.
fn ask(doors: &DoorFixture, tool: &str, input: &Value) -> Output {
    let cwd = workspace(doors).to_str().unwrap().to_owned();
    doors
        .stand
        .asks_until_judged(AgentKind::ClaudeCode, &said(AgentKind::ClaudeCode, &cwd, tool, input, None))
}

/// Returns the input with which the agent goes on.
fn updated(told: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
    answer["hookSpecificOutput"]["updatedInput"].clone()
}

/// Runs a command as the agent does after the hook.
fn shell(doors: &DoorFixture, command: &str) -> Output {
    let told = ask(doors, "Bash", &bash(command));
    doors
        .stand
        .shell(&rewritten(AgentKind::ClaudeCode, &told).unwrap_or_else(|| panic!("{command}: {told:?}")))
}

// req: R11, R5, R12
// door: hook
#[test]
fn a_delete_by_an_agent_with_a_hook_is_confirmed() {
    let doors = DoorFixture::new(&block("settings: confirm-delete"), &block("policy: confirm-delete"));
    let cwd = workspace(&doors).to_str().unwrap().to_owned();
    let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &bash("rm notes.txt"), None);
    let _gate = doors.stand.serve();
    let hook = start(doors.stand.hook(AgentKind::ClaudeCode, PATIENT_MS), asks.to_string().as_bytes());
    let question = doors.stand.question();
    let shown = text(&doors.run(&["inbox", "show", &question]).stdout);
    assert!(shown.contains("a delete needs your yes"), "{shown}");
    assert!(doors.stand.file("notes.txt").exists());
    let yes = doors.run(&["inbox", "answer", &question, "yes"]);
    // The hook that asked may be faster to continue the call.
    assert!(matches!(yes.status.code(), Some(0 | 3 | 4)), "{yes:?}");
    let line = rewritten(AgentKind::ClaudeCode, &ended(hook)).unwrap();
    let ran = doors.stand.shell(&line);
    assert!(ran.status.success() && !doors.stand.file("notes.txt").exists(), "{ran:?}");
}

// req: R11, R1, R2, R12
// door: hook
#[test]
fn sql_and_fields_of_an_agent_with_a_hook_are_reviewed() {
    let doors = hooked("strip-sql", &[("mcp_shop_query", "claude-code:mcp__shop__query")]);
    let told = ask(&doors, "mcp__shop__query", &json!({"sql": "select 1; drop table t--"}));
    assert_eq!(updated(&told), json!({"sql": "select 1 drop table t"}), "{told:?}");
    let doors = hooked("drop-fields", &[("mcp_shop_*", "bash")]);
    doors.put("account.json", r#"{"user": "ann", "password": "abc", "token": "def"}"#);
    let ran = shell(&doors, "cat account.json");
    // A note before the result says what a reviewer changed.
    let printed = text(&ran.stdout);
    let account: Value = serde_json::from_str(printed.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(account, json!({"user": "ann"}));
}

// req: R11, R1, R3, R12
// door: hook
#[test]
fn another_service_approves_calls_of_an_agent_with_a_hook() {
    let doors = hooked("service", &[("mcp_shop_deploy", "claude-code:mcp__shop__deploy")]);
    let service = Service::set_up(&doors);
    let deploy = |version: &str| ask(&doors, "mcp__shop__deploy", &json!({ "version": version }));
    let passed = deploy("v1");
    assert!(!is_denied(AgentKind::ClaudeCode, &passed), "{passed:?}");
    let refused = deploy("v2");
    assert!(is_denied(AgentKind::ClaudeCode, &refused), "{refused:?}");
    assert!(text(&refused.stderr).contains("there is no change ticket for v2"), "{refused:?}");
    drop(service);
    let alone = deploy("v1");
    assert!(is_denied(AgentKind::ClaudeCode, &alone), "{alone:?}");
}

// req: R11, R1, R2, R12
// door: hook
#[test]
fn input_and_output_of_an_agent_with_a_hook_are_reviewed_together() {
    let doors = hooked("both", &[("mcp_shop_query", "bash"), ("mcp_shop_*", "mcp_*")]);
    doors.put_program("../review-customers", &block("file: both").replace(r#"["sql"]"#, r#"["command"]"#));
    let private = ask(&doors, "Bash", &bash("echo customers"));
    assert!(is_denied(AgentKind::ClaudeCode, &private), "{private:?}");
    assert!(text(&private.stderr).contains("the table `customers` is private"), "{private:?}");
    let masked = shell(&doors, "echo ann@shop.example");
    assert_eq!(text(&masked.stdout).lines().last(), Some("(e-mail)"), "{masked:?}");
    let redacted = shell(&doors, "echo token=abc12345");
    assert!(!text(&redacted.stdout).contains("abc12345"), "{redacted:?}");
}

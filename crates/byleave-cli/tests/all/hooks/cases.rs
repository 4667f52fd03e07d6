//! Each dialect, from the question in the inbox to the agent's input. Also tests of what all dialects have in common.

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::{HookFixture, PATIENT_MS, ended, is_denied, rewritten, said, start, tools};

/// Makes a call that asks a person, within the patience of this agent.
fn the_whole_way(dialect: AgentKind) {
    let stand = HookFixture::new();
    let _served = stand.serve();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let (shell, write, path) = tools(dialect);

    // A shell command: a person is asked, and it runs confined. Its output and exit code are those of the command.
    let input = json!({"command": "echo made; touch made; exit 7"});
    let asks = said(dialect, &cwd, shell, &input, None);
    let hook = start(stand.hook(dialect, PATIENT_MS), asks.to_string().as_bytes());
    stand.answers(&["yes"]);
    let told = ended(hook);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let ran_input = match rewritten(dialect, &told) {
        Some(line) => {
            assert!(line.starts_with('/') && line.contains(" exec "), "{line}");
            assert!(!stand.file("made").exists(), "it ran before the agent ran it");
            let ran = stand.shell(&line);
            let printed = String::from_utf8_lossy(&ran.stdout);
            assert_eq!((ran.status.code(), printed.starts_with("made\n")), (Some(7), true), "{ran:?}");
            assert!(stand.file("made").exists(), "what was shown is what counts");
            // One answer allows one run.
            std::fs::remove_file(stand.file("made")).unwrap();
            assert_eq!(stand.shell(&line).status.code(), Some(125));
            assert!(!stand.file("made").exists());
            json!({ "command": line })
        }
        None => {
            assert_eq!(dialect, AgentKind::Goose, "{told:?}");
            assert!(told.stdout.is_empty(), "{told:?}");
            input
        }
    };
    let after = said(dialect, &cwd, shell, &ran_input, Some(&json!({"output": "made"})));
    let told = stand.asks(dialect, &after, PATIENT_MS);
    assert_eq!((told.status.code(), told.stdout.is_empty()), (Some(0), true), "{told:?}");

    // A file: a person is asked, the call is passed on, and the hook says so.
    let target = format!("{cwd}/new.txt");
    let mut input = json!({ path: target });
    if dialect == AgentKind::Codex {
        input = json!({"command": format!("*** Begin Patch\n*** Add File: {target}\n+x\n*** End Patch")});
    } else if dialect == AgentKind::Goose {
        input["command"] = "write".into();
    } else {
        input["content"] = "x".into();
    }
    if dialect == AgentKind::Copilot {
        input = json!({"path": target, "file_text": "x"});
    }
    let asks = said(dialect, &cwd, write, &input, None);
    let hook = start(stand.hook(dialect, PATIENT_MS), asks.to_string().as_bytes());
    stand.answers(&["yes"]);
    let told = ended(hook);
    assert!(told.status.code() == Some(0) && !is_denied(dialect, &told), "{told:?}");
    assert_eq!(rewritten(dialect, &told), None);

    // A no is reported with the person's words.
    let mut input = input.clone();
    for value in input.as_object_mut().unwrap().values_mut() {
        *value = value.as_str().unwrap().replace("new.txt", "other.txt").into();
    }
    let asks = said(dialect, &cwd, write, &input, None);
    let hook = start(stand.hook(dialect, PATIENT_MS), asks.to_string().as_bytes());
    stand.answers(&["no", "--feedback", "use the old one"]);
    let told = ended(hook);
    assert!(is_denied(dialect, &told), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("use the old one"), "{told:?}");

    let book = stand.json(&["log", "--json"]);
    let calls: Vec<(&str, &str)> = book
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["tool"].as_str().unwrap(), call["outcome"].as_str().unwrap_or_default()))
        .collect();
    let foreign = format!("{}:{write}", dialect.name());
    let ours = if dialect == AgentKind::Goose { format!("goose:{shell}") } else { "bash".to_owned() };
    let came = if dialect == AgentKind::Goose { "completed" } else { "failed" };
    let wanted =
        [(&*foreign, "refused"), (&*foreign, "completed"), ("agent_ran", "completed"), (&*ours, came)];
    assert_eq!(calls, wanted, "{book}");
    let passed = show(&stand, &book[1]);
    assert!(passed.contains("evaluated, not enforced"), "{passed}");
    let linked = show(&stand, &book[2]);
    assert!(linked.contains(book[3]["call"].as_str().unwrap()), "{linked}");
}

fn show(stand: &HookFixture, call: &Value) -> String {
    let told = stand.byleave(&["log", "show", call["call"].as_str().unwrap(), "--json"]);
    String::from_utf8(told.stdout).unwrap()
}

macro_rules! the_whole_way {
    ($($name:ident: $dialect:ident,)*) => {
        $(
            // req: M2
            #[test]
            fn $name() {
                the_whole_way(AgentKind::$dialect);
            }
        )*

        #[test]
        fn every_dialect_goes_the_whole_way() {
            assert_eq!([$(AgentKind::$dialect),*].as_slice(), AgentKind::ALL.as_slice());
        }
    };
}

the_whole_way! {
    claude_code_from_the_question_to_the_answer: ClaudeCode,
    codex_from_the_question_to_the_answer: Codex,
    gemini_from_the_question_to_the_answer: Gemini,
    cursor_from_the_question_to_the_answer: Cursor,
    goose_from_the_question_to_the_answer: Goose,
    copilot_from_the_question_to_the_answer: Copilot,
}

// req: M2
#[test]
fn a_late_answer_is_found_by_the_same_call_once() {
    let stand = HookFixture::new();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let dialect = AgentKind::ClaudeCode;
    let asks = said(dialect, &cwd, "Bash", &json!({"command": "touch late"}), None);
    // A hook that runs out of time does not record a refusal. The next hook judges the same call.
    for timeout_ms in [1, 20, 60, 100, 150, 200, 300] {
        let mut hook = stand.desk.command(&["hook", "claude-code"]);
        hook.args(["--timeout-ms", &timeout_ms.to_string()]);
        assert!(is_denied(dialect, &ended(start(hook, asks.to_string().as_bytes()))));
    }
    let told = stand.asks_until_judged(dialect, &asks);
    assert!(is_denied(dialect, &told), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("must answer question"), "{told:?}");
    let question = stand.question();
    let said_so = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        said_so.contains(question.split_at(question.len() - 8).1) && said_so.contains("again"),
        "{said_so}"
    );
    // Only the agent starts the call. Neither an answer nor `byleave resume` does.
    stand.answers(&["yes"]);
    assert_eq!(stand.byleave(&["resume"]).status.code(), Some(0));
    assert!(!stand.file("late").exists());

    let told = stand.asks(dialect, &asks, PATIENT_MS);
    let line = rewritten(dialect, &told).unwrap_or_else(|| panic!("{told:?}"));
    assert_eq!(stand.shell(&line).status.code(), Some(0));
    assert!(stand.file("late").exists());
    // The rewritten line may itself come through a second hook. Nobody else can make up such a line.
    let again = said(dialect, &cwd, "Bash", &json!({ "command": line }), None);
    assert_eq!(stand.asks(dialect, &again, PATIENT_MS).status.code(), Some(0));
    let made_up = line.replace(line.split_at(line.len() - 4).1, "ffff");
    let again = said(dialect, &cwd, "Bash", &json!({ "command": made_up }), None);
    assert!(is_denied(dialect, &stand.asks(dialect, &again, PATIENT_MS)));
    // The answer was good for one run.
    let told = stand.asks_until_judged(dialect, &asks);
    assert!(is_denied(dialect, &told), "{told:?}");
    assert_ne!(stand.question(), question);
}

// req: M2
#[test]
fn one_policy_is_about_the_tools_of_every_agent() {
    let stand = HookFixture::new();
    let _served = stand.serve();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let secret = format!("{cwd}/.env");
    let rows = [
        (AgentKind::ClaudeCode, "Read", json!({ "file_path": secret })),
        (AgentKind::ClaudeCode, "Bash", json!({"command": "cat .env"})),
        (AgentKind::ClaudeCode, "Grep", json!({"pattern": "KEY", "path": secret})),
        (AgentKind::ClaudeCode, "WebFetch", json!({"url": "http://169.254.169.254/", "prompt": "x"})),
        (
            AgentKind::Codex,
            "apply_patch",
            json!({"input": format!("*** Begin Patch\n*** Delete File: {secret}\n*** End Patch")}),
        ),
        (AgentKind::Gemini, "read_file", json!({ "absolute_path": secret })),
        (AgentKind::Cursor, "Read", json!({ "path": secret })),
        (AgentKind::Goose, "developer__shell", json!({"command": "cat .env"})),
        (AgentKind::Copilot, "view", json!({ "path": secret })),
    ];
    for (dialect, tool, input) in rows {
        let told = stand.asks(dialect, &said(dialect, &cwd, tool, &input, None), PATIENT_MS);
        assert!(is_denied(dialect, &told), "{tool} {input}: {told:?}");
        assert!(String::from_utf8_lossy(&told.stderr).contains("denied"), "{told:?}");
    }
    let notes = format!("{cwd}/notes.txt");
    for (dialect, tool, input) in [
        (AgentKind::ClaudeCode, "Read", json!({ "file_path": notes })),
        (AgentKind::Codex, "update_plan", json!({"plan": []})),
        (AgentKind::Gemini, "list_directory", json!({ "dir_path": cwd })),
        (AgentKind::Cursor, "Grep", json!({"pattern": "x"})),
        (AgentKind::Copilot, "view", json!({ "path": notes })),
        // The gateway judges its own tools when the call gets there.
        (AgentKind::ClaudeCode, "mcp__byleave__bash", json!({"command": "cat .env"})),
    ] {
        let told = stand.asks(dialect, &said(dialect, &cwd, tool, &input, None), PATIENT_MS);
        assert!(told.status.code() == Some(0) && !is_denied(dialect, &told), "{tool}: {told:?}");
    }
    // Anything unknown leads to a question: another server's tool, a new tool, a new argument.
    for (tool, input) in [
        ("mcp__github__push", json!({})),
        ("Frobnicate", json!({})),
        ("Read", json!({"file_path": notes, "as_root": true})),
    ] {
        let told =
            stand.asks(AgentKind::ClaudeCode, &said(AgentKind::ClaudeCode, &cwd, tool, &input, None), 1_500);
        assert!(is_denied(AgentKind::ClaudeCode, &told), "{tool}: {told:?}");
    }
}

/// A build, a test and a commit run without any setting. No cgroup is delegated where most tests run.
// req: E7, M2
#[test]
fn ordinary_work_runs_in_a_fresh_account_without_a_setting() {
    let stand = HookFixture::new();
    let told = stand.byleave(&["call", "bash", "--args", r#"{"command": "ls"}"#]);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stdout).contains("notes.txt"), "{told:?}");
    let workspace = stand.desk.world.workspace();
    let files = [
        ("main.c", "int main(void) { return 0; }\n"),
        ("Makefile", "main: main.c\n\tcc -o main main.c\n"),
        ("test_it.py", "import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n"),
    ];
    for (name, text) in files {
        std::fs::write(workspace.join(name), text).unwrap();
        stand.desk.give(&workspace.join(name));
    }
    let mut git = stand.desk.world.command(std::path::Path::new("git"));
    git.args(["init", "-q", "."]);
    assert!(ended(start(stand.desk.by_another(git), b"")).status.success());
    let commit = "git add main.c && git -c user.name=a -c user.email=a@b commit -qm first && git log --oneline | wc -l";
    let dialect = AgentKind::ClaudeCode;
    let cwd = workspace.to_str().unwrap();
    for (command, prints) in [("make", "cc -o main"), ("python3 -m unittest test_it", "OK"), (commit, "1")] {
        let asks = said(dialect, cwd, "Bash", &json!({ "command": command }), None);
        let mut told = stand.asks_until_judged(dialect, &asks);
        if is_denied(dialect, &told) {
            // Printed only if the test fails.
            eprintln!("{command}: {told:?}");
            stand.answers(&["yes"]);
            told = stand.asks(dialect, &asks, PATIENT_MS);
        }
        let line = rewritten(dialect, &told).unwrap_or_else(|| panic!("{command}: {told:?}"));
        let ran = stand.shell(&line);
        let both =
            format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && both.contains(prints), "{command}: {ran:?}");
    }
    assert!(workspace.join(".git/refs/heads").read_dir().unwrap().next().is_some(), "the commit counts");
}

// req: E7, A2
#[test]
fn nobody_is_asked_about_what_cannot_run() {
    let stand = HookFixture::new();
    let own = stand.desk.world.workspace().parent().unwrap().join(".config/byleave");
    std::fs::create_dir_all(&own).unwrap();
    // The call could never run, because its rule needs a guarantee that no backend gives.
    let rule = "[[rule]]\nid = \"mine\"\nverdict = \"allow\"\nrun = [\"touch\"]\nguarantees = [\"no-such-guarantee\"]\n";
    std::fs::write(own.join("policy.toml"), rule).unwrap();
    stand.desk.give(&own.join("policy.toml"));
    let told = stand.byleave(&["call", "bash", "--ask", "inbox", "--args", r#"{"command": "touch made"}"#]);
    assert_eq!(told.status.code(), Some(3), "{told:?}");
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(why.contains("(cannot-run)") && why.contains("no-such-guarantee"), "{why}");
    assert_eq!(stand.json(&["inbox", "--json"]), json!([]));
    assert!(!stand.file("made").exists());
}

/// Tests calls in another directory, because the model can choose that directory.
fn elsewhere_is_judged_from_the_workspace(served: bool) {
    let stand = HookFixture::new();
    let _served = served.then(|| stand.serve());
    let workspace = stand.desk.world.workspace();
    let rules = workspace.join(".byleave");
    let other = workspace.with_file_name("private");
    for directory in [&rules, &other] {
        std::fs::create_dir(directory).unwrap();
        stand.desk.give(directory);
    }
    let deny = "[[rule]]\nid = \"no-listing\"\nverdict = \"deny\"\nrun = [\"ls\"]\n";
    for (path, text) in [(rules.join("policy.toml"), deny), (other.join("diary.txt"), "top secret")] {
        std::fs::write(&path, text).unwrap();
        stand.desk.give(&path);
    }
    let other = other.to_str().unwrap();
    let agents =
        [AgentKind::ClaudeCode, AgentKind::Codex, AgentKind::Gemini, AgentKind::Goose, AgentKind::Copilot];
    for dialect in agents {
        let (shell, ..) = tools(dialect);
        // The project's rules hold in every directory that the model names.
        let told =
            stand.asks(dialect, &said(dialect, other, shell, &json!({"command": "ls"}), None), PATIENT_MS);
        assert!(is_denied(dialect, &told), "{dialect:?}: {told:?}");
        assert!(String::from_utf8_lossy(&told.stderr).contains("no-listing"), "{dialect:?}: {told:?}");
        // A file outside the workspace stays outside.
        let asks = said(dialect, other, shell, &json!({"command": "cat diary.txt"}), None);
        let told = stand.asks_until_judged(dialect, &asks);
        assert!(is_denied(dialect, &told), "{dialect:?}: {told:?}");
        let summary = stand.json(&["inbox", "--json"])[0]["summary"].as_str().unwrap().to_owned();
        assert!(summary.contains(&format!("{other}/diary.txt")), "{dialect:?}: {summary}");
        stand.answers(&["no"]);
    }
    // A relative name is resolved in the directory that the agent names.
    let (dialect, tool) = (AgentKind::Gemini, "write_file");
    let input = json!({"file_path": "made.txt", "content": "x"});
    let told = stand.asks_until_judged(dialect, &said(dialect, other, tool, &input, None));
    assert!(is_denied(dialect, &told), "{told:?}");
    let summary = stand.json(&["inbox", "--json"])[0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.contains(&format!("{other}/made.txt")), "{summary}");
}

// req: M2, P4
#[test]
fn the_model_does_not_choose_the_workspace() {
    elsewhere_is_judged_from_the_workspace(false);
}

// req: M2, P4
#[test]
fn the_model_does_not_choose_the_workspace_of_a_gate_that_serves() {
    elsewhere_is_judged_from_the_workspace(true);
}

// req: M2
#[test]
fn a_gate_that_is_not_as_the_hook_is_sends_it_away() {
    let stand = HookFixture::new();
    let mut served = stand.serve();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let asks = said(AgentKind::ClaudeCode, &cwd, "Bash", &json!({"command": "ls"}), None);
    // The hook's environment is stricter than the gate's. The hook judges alone, and strictly.
    let mut hook = stand.hook(AgentKind::ClaudeCode, 2_000);
    hook.env("BYLEAVE_MODE", "confirm-all");
    let told = ended(start(hook, asks.to_string().as_bytes()));
    assert!(is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
    assert!(
        rewritten(AgentKind::ClaudeCode, &stand.asks(AgentKind::ClaudeCode, &asks, PATIENT_MS)).is_some()
    );

    // A second gate finds the first.
    let second = stand.byleave(&["hook", "serve"]);
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("already"), "{second:?}");
    // A change of the settings ends the gate with a message. The hook still works.
    let settings = stand.json(&["config", "path", "--json"]);
    let text = settings.to_string();
    let own = stand.desk.world.workspace().parent().unwrap().join(".config/byleave/config.toml");
    assert!(text.contains(own.to_str().unwrap()), "{text}");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(&own, "mode = \"confirm-all\"\n").unwrap();
    let told = stand.asks(AgentKind::ClaudeCode, &asks, 2_000);
    assert!(is_denied(AgentKind::ClaudeCode, &told), "the new settings hold at once: {told:?}");
    let status = super::until("the gate ends", || served.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(3));
}

// req: M2
#[test]
fn what_is_allowed_only_with_a_guarantee_is_not_passed_on_without() {
    let stand = HookFixture::new();
    let cwd = stand.desk.world.workspace().to_str().unwrap().to_owned();
    let own = stand.desk.world.workspace().parent().unwrap().join(".config/byleave");
    std::fs::create_dir_all(&own).unwrap();
    let rule = |guarantees: &str| {
        let text =
            format!("[[rule]]\nid = \"mine\"\nverdict = \"allow\"\nwrite = [\"/**/free.txt\"]\n{guarantees}");
        std::fs::write(own.join("policy.toml"), text).unwrap();
        // The policy file must belong to the user.
        let about = std::fs::metadata(stand.desk.world.workspace()).unwrap();
        use std::os::unix::fs::{MetadataExt as _, chown};
        chown(own.join("policy.toml"), Some(about.uid()), Some(about.gid())).unwrap();
    };
    let input = json!({"file_path": format!("{cwd}/free.txt"), "content": "x"});
    let asks = said(AgentKind::ClaudeCode, &cwd, "Write", &input, None);
    rule("");
    let told = stand.asks(AgentKind::ClaudeCode, &asks, PATIENT_MS);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    rule("guarantees = [\"network-confined\"]\n");
    let told = stand.asks(AgentKind::ClaudeCode, &asks, PATIENT_MS);
    assert!(is_denied(AgentKind::ClaudeCode, &told), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("network-confined"), "{told:?}");
}

// req: M1
#[test]
fn the_hook_says_its_version_to_the_doctor() {
    let stand = HookFixture::new();
    let told = stand.desk.world.command(&stand.hook).arg("--version").output().unwrap();
    let wanted = format!("byleave-hook {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((told.status.code(), String::from_utf8_lossy(&told.stdout).as_ref()), (Some(0), &*wanted));
}

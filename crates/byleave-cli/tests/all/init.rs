//! `byleave init` on realistic settings: comments, odd indentation, servers with secrets, and existing hooks.

mod broken;
mod first_run;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::desk::put;
use crate::world::CliTestWorld;

/// Every agent, with the files that it has beforehand.
const AGENTS: [(&str, &[(&str, &str)]); 6] = [
    (
        "claude-code",
        &[
            (".claude.json", include_str!("init/claude.json")),
            (".claude/settings.json", include_str!("init/claude-settings.json")),
        ],
    ),
    (
        "codex",
        &[
            (".codex/config.toml", include_str!("init/codex.toml")),
            (".codex/hooks.json", include_str!("init/codex-hooks.json")),
        ],
    ),
    ("gemini", &[(".gemini/settings.json", include_str!("init/gemini.json"))]),
    (
        "cursor",
        &[
            (".cursor/mcp.json", include_str!("init/cursor-mcp.json")),
            (".cursor/hooks.json", include_str!("init/cursor-hooks.json")),
        ],
    ),
    ("goose", &[(".config/goose/config.yaml", include_str!("init/goose.yaml"))]),
    ("copilot", &[(".copilot/mcp-config.json", include_str!("init/copilot.json"))]),
];

/// A home directory with the program and its hook in it, and a stand-in for Codex.
struct InitFixture {
    world: CliTestWorld,
    program: PathBuf,
}

impl InitFixture {
    fn new() -> Self {
        let world = CliTestWorld::new();
        let bin = world.workspace().with_file_name("bin");
        fs::create_dir(&bin).unwrap();
        let program = bin.join("byleave");
        let built = Path::new(env!("CARGO_BIN_EXE_byleave"));
        put(built, &program);
        let home = Self { world, program };
        home.real_hook();
        home.script("codex", include_str!("init/codex.py"));
        home
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let home = Self::new();
        for (name, text) in files {
            home.write(name, text);
        }
        home
    }

    fn real_hook(&self) {
        let hook = self.program.with_file_name("byleave-hook");
        drop(fs::remove_file(&hook));
        put(Path::new(env!("CARGO_BIN_EXE_byleave-hook")), &hook);
    }

    fn hook(&self, says: &str) {
        self.hook_script(&format!("echo '{says}'"));
    }

    fn hook_script(&self, script: &str) {
        self.script("byleave-hook", &format!("#!/bin/sh\n{script}\n"));
    }

    /// Writes a program beside ours, where it is found before an installed one.
    fn script(&self, name: &str, text: &str) {
        let path = self.program.with_file_name(name);
        // The built program may be a link to the same file.
        drop(fs::remove_file(&path));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = self.world.command(&self.program);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.program.parent().unwrap().display()));
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.workspace().with_file_name(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command().args(words).output().unwrap()
    }

    fn told(&self, words: &[&str]) -> String {
        let told = self.run(words);
        let mut text = format!("$ byleave {}\n{}", words.join(" "), String::from_utf8(told.stdout).unwrap());
        let mut lines: Vec<&str> = std::str::from_utf8(&told.stderr).unwrap().lines().collect();
        // Some machines print this, for example when the user is root.
        if lines.first().is_some_and(|line| line.starts_with("no shell command can run here:")) {
            lines.drain(..2);
        }
        for line in lines {
            writeln!(text, "! {line}").unwrap();
        }
        format!("{text}[{}]\n\n", told.status.code().unwrap())
    }

    fn done(&self, words: &[&str]) -> String {
        let told = self.told(words);
        assert!(told.ends_with("[0]\n\n"), "{told}");
        told
    }

    fn json(&self, words: &[&str]) -> Value {
        let told = self.run(words);
        serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"))
    }

    /// Returns the doctor's report on an agent.
    fn doctor(&self, agent: &str) -> Value {
        let told = self.json(&["doctor", "--json"]);
        let found = told["findings"].as_array().unwrap().iter().find(|finding| finding["subject"] == agent);
        found.unwrap_or_else(|| panic!("{told:#}")).clone()
    }

    /// Returns every file of the user with its text, except the program's own files.
    fn files(&self) -> Vec<(PathBuf, String)> {
        fn walk(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let name = entry.file_name();
                if entry.path().is_dir() {
                    // A directory that remains is reported too.
                    found.push((entry.path(), String::new()));
                    if name != "state" && name != "bin" {
                        walk(&entry.path(), found);
                    }
                } else {
                    found.push((entry.path(), fs::read_to_string(entry.path()).unwrap()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.path(""), &mut found);
        found.retain(|(path, _)| !path.ends_with("state") && !path.ends_with("byleave/mcp.toml.lock"));
        found.sort();
        found
    }
}

// req: M1, M2
#[test]
fn every_agent_is_set_up_once_and_everything_comes_back_byte_for_byte() {
    for (agent, files) in AGENTS {
        let home = InitFixture::of(files);
        let before = home.files();
        let mut told = home.done(&["init", agent, "--dry-run"]);
        assert_eq!(home.files(), before, "{agent}: a dry run changes nothing");
        told += &home.done(&["init", agent]);
        let after = home.files();
        assert_ne!(after, before);
        told += &home.done(&["init", agent]);
        assert_eq!(home.files(), after, "{agent}: twice changes nothing");
        assert!(told.contains("is set up; nothing was changed\n"), "{told}");
        assert!(!told.contains("hunter"), "{agent}: a secret is shown: {told}");
        let json = home.json(&["init", agent, "--dry-run", "--json"]);
        assert_eq!((&json["changed"], &json["agent"]), (&false.into(), &agent.into()), "{json:#}");
        for (path, text) in after.iter().filter(|file| !before.contains(file)) {
            writeln!(told, "--- {}\n{}", path.display(), text.replace("hunter", "secret")).unwrap();
        }
        // The file that the secrets were moved to, and its permissions.
        let servers = home.path(".config/byleave/mcp.toml");
        assert!(fs::read_to_string(&servers).unwrap().contains("from = "));
        assert_eq!(servers.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let well = home.doctor(agent);
        if agent != "claude-code" && agent != "gemini" {
            assert_eq!(well["ok"], true, "{well:#}");
        } else {
            assert!(well["message"].as_str().unwrap().contains("bypasses the gateway"), "{well:#}");
        }
        told += &home.done(&["init", "--undo", agent]);
        assert_eq!(home.files(), before, "{agent}: everything is as it was");
        assert!(home.done(&["init", "--undo", agent]).contains("nothing was set up"));
        insta::assert_snapshot!(format!("set_up_{agent}"), home.world.named(&told));
    }
}

/// The agents whose hook blocks a call by the way it is started. For each, the file and the location in it.
const BLOCKING: [(&str, &str, &str); 5] = [
    ("claude-code", ".claude/settings.json", "/hooks/PreToolUse"),
    ("codex", ".codex/hooks.json", "/hooks/PreToolUse"),
    ("gemini", ".gemini/settings.json", "/hooks/BeforeTool"),
    ("goose", ".agents/plugins/byleave/hooks/hooks.json", "/hooks/PreToolUse"),
    ("copilot", ".copilot/hooks/byleave.json", "/hooks/preToolUse"),
];

// req: M2
#[test]
fn a_hook_that_does_not_answer_blocks_the_call() {
    for (agent, file, at) in BLOCKING {
        let home = InitFixture::new();
        home.done(&["init", agent]);
        let settings: Value = serde_json::from_str(&home.read(file)).unwrap();
        let groups = settings.pointer(at).unwrap().as_array().unwrap();
        let matcher = groups[0]["matcher"].as_str();
        let expected = match agent {
            "gemini" | "goose" => Some(".*"),
            "copilot" => None,
            _ => Some("*"),
        };
        assert_eq!(matcher, expected, "{agent}");
        let handler = groups[0].pointer("/hooks/0").unwrap_or(&groups[0]);
        let line = handler.get("command").or(handler.get("bash")).unwrap().as_str().unwrap();
        let run_line = |shell: &str, line: &str| {
            let mut command = home.world.command(Path::new(shell));
            let mut child = command
                .args(["-c", line])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The program may end without reading its input.
            drop(child.stdin.take().unwrap().write_all(b"asked\n"));
            let told = child.wait_with_output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (told.status.code(), text(told.stdout), text(told.stderr))
        };
        let run = |shell: &str| run_line(shell, line);
        for shell in ["/bin/sh", "/bin/bash"] {
            // The output of the hook reaches the agent unchanged.
            home.hook_script(r#"read -r said; echo "$0 $1 $said""#);
            let program = home.program.with_file_name("byleave-hook");
            let passed = format!("{} {agent} asked\n", program.display());
            assert_eq!(run(shell), (Some(0), passed, String::new()), "{agent}");
            home.hook_script("echo no >&2; exit 2");
            assert_eq!(run(shell), (Some(2), String::new(), "no\n".into()), "{agent}");
            for broken in ["exit 1", "exit 127", "kill -SEGV $$", "kill -KILL $$"] {
                home.hook_script(broken);
                let (code, _, why) = run(shell);
                assert_eq!(code, Some(2), "{agent}, {broken}: {why}");
                assert!(why.contains("the hook failed, so the call is blocked"), "{agent}: {why}");
            }
            // Before the agent gives up on a hook that hangs, the call is blocked.
            home.hook_script("kill -STOP $$");
            assert!(line.contains("sleep 595"), "{agent}: {line}");
            let (code, _, why) = run_line(shell, &line.replace("sleep 595", "sleep 0.1"));
            assert_eq!(code, Some(2), "{agent}, it hangs: {why}");
            assert!(why.contains("the hook failed, so the call is blocked"), "{agent}: {why}");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
            assert_eq!(run(shell).0, Some(2), "{agent}: it cannot be started");
            fs::remove_file(&program).unwrap();
            assert_eq!(run(shell).0, Some(2), "{agent}: it is gone");
        }
        // Older versions started the hook like this. The agent then continues if the hook is missing.
        home.real_hook();
        let old = line.split_once("' ").unwrap().1;
        home.write(
            file,
            &home.read(file).replace(&Value::from(line).to_string(), &Value::from(old).to_string()),
        );
        let found = home.doctor(agent);
        assert!(found["message"].as_str().unwrap().contains("was changed after setup"), "{found:#}");
        home.done(&["init", agent]);
        assert_eq!(serde_json::from_str::<Value>(&home.read(file)).unwrap(), settings, "{agent}");
        assert_eq!(home.doctor(agent)["ok"], true, "{agent}");
    }
}

/// The pages that list the agents.
const PAGES: [&str; 5] = [
    "README.md",
    "docs/guide/agents.md",
    "docs/guide/hooks.md",
    "docs/book/what.md",
    "docs/book/start-agents.md",
];

// req: M1
#[test]
fn no_agent_is_left_out_here_or_on_a_page() {
    let there = InitFixture::new().json(&["init", "--json"]);
    let there: Vec<&str> =
        there.as_array().unwrap().iter().map(|one| one["agent"].as_str().unwrap()).collect();
    assert_eq!(there, AGENTS.map(|(agent, _)| agent));
    for page in PAGES {
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)).unwrap();
        for agent in &there {
            // Matches `claude-code` and Claude Code.
            let name = regex::Regex::new(&format!(r"(?i)\b{}\b", agent.replace('-', r"[-\s]"))).unwrap();
            assert!(name.is_match(&text), "{page} does not name {agent}");
        }
    }
}

// req: M1
#[test]
fn what_was_changed_since_stays_when_it_is_taken_back() {
    for (agent, files) in AGENTS {
        let home = InitFixture::of(files);
        home.done(&["init", agent]);
        // The user adds something at the end of every file, and something in the middle of the first.
        let changed = |name: &str| -> String {
            let text = home.read(name);
            match Path::new(name).extension().unwrap().to_str().unwrap() {
                "toml" => format!("{text}\n# mine\n[history]\npersistence = \"none\"\n"),
                "yaml" => format!("{text}MINE: 'é' # mine\n"),
                _ => {
                    let (start, end) = text.trim_end().rsplit_once('}').unwrap();
                    let comma = if start.trim_end().ends_with(',') { "" } else { "," };
                    format!("{}{comma} \"mine\": [1.0, \"é\"]{end}\n}}\n", start.trim_end())
                }
            }
        };
        for (name, _) in files {
            home.write(name, &changed(name));
        }
        let told = home.done(&["init", "--undo", agent]);
        assert!(told.contains("was changed after setup"), "{agent}: {told}");
        assert!(!told.contains("hunter"), "{told}");
        for (name, before) in files {
            let now = home.read(name);
            assert!(now.contains("mine") || now.contains("MINE"), "{agent}: {now}");
            assert!(!now.contains("byleave"), "{agent}: {now}");
            let is_comment = |line: &&str| [" # ", "# ", "// ", "/* "].iter().any(|sign| line.contains(sign));
            for line in before.lines().filter(is_comment) {
                assert!(now.contains(line.trim()), "{agent}: `{line}` is not in {now}");
            }
            for word in before.split(['"', '\'', ' ', '\n']).filter(|word| word.contains("hunter")) {
                assert!(now.contains(word), "{agent}: `{word}` is not in {now}");
            }
        }
        assert!(!home.path(".config/byleave/mcp.toml").exists(), "{agent}");
        assert!(!home.path("state/agents").join(agent).exists());
    }
}

// req: M1
#[test]
fn the_doctor_sees_what_was_taken_out_or_came_back() {
    let (agent, files) = AGENTS[3];
    let home = InitFixture::of(files);
    home.done(&["init", agent]);
    let (servers, hooks) = (home.read(".cursor/mcp.json"), home.read(".cursor/hooks.json"));
    let says = |what: &str| {
        let found = home.doctor(agent);
        assert_eq!(found["ok"], false, "{found:#}");
        assert!(found["message"].as_str().unwrap().contains(what), "{found:#}");
        assert!(found["hint"].as_str().unwrap().contains("byleave init cursor"), "{found:#}");
    };
    home.write(".cursor/mcp.json", "{\"mcpServers\": {}}");
    says("the gateway is missing");
    home.write(
        ".cursor/mcp.json",
        &servers.replace("\"byleave\": {", "\"new\": {\"command\": \"x\"}, \"byleave\": {"),
    );
    says("MCP server `new`");
    home.write(".cursor/mcp.json", &servers);
    home.write(".cursor/hooks.json", &hooks.replace("preToolUse", "preToolUsed"));
    says("the hook `preToolUse` is missing");
    home.write(".cursor/hooks.json", &hooks.replace("\"failClosed\": true", "\"failClosed\": false"));
    says("the hook `preToolUse` in");
    home.write(".cursor/hooks.json", &hooks);
    home.hook("byleave-hook 0.0.1");
    says("has the version `byleave-hook 0.0.1`");
    fs::remove_file(home.program.with_file_name("byleave-hook")).unwrap();
    says("does not run");
    assert!(home.told(&["init", agent]).contains("there is no `"));
    home.real_hook();
    // A server that came back is moved as well, and undo reverts all steps together.
    home.write(
        ".cursor/mcp.json",
        &servers.replace("\"byleave\": {", "\"new\": {\"command\": \"x\"}, \"byleave\": {"),
    );
    let told = home.done(&["init", agent]);
    assert!(told.contains("moved   new"), "{told}");
    assert_eq!(home.doctor(agent)["ok"], true);
    home.done(&["init", "--undo"]);
    let now: Value = serde_json::from_str(&home.read(".cursor/mcp.json")).unwrap();
    let names: Vec<&String> = now["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 3, "{now:#}");
    assert_eq!(home.read(".cursor/hooks.json"), files[1].1);
}

// req: M1
#[test]
fn what_is_in_doubt_is_refused_and_nothing_is_changed() {
    let cases = [
        (
            ".cursor/mcp.json",
            "{\"mcpServers\": {\"byleave\": {\"command\": \"other\"}}}",
            "a different server named `byleave`",
        ),
        (
            ".cursor/mcp.json",
            "{\"mcpServers\": {\"a b\": {\"command\": \"x\"}, \"a-b\": {\"command\": \"y\"}}}",
            "differs from the one that",
        ),
        (
            ".cursor/mcp.json",
            "{\"mcpServers\": {\"a b\": {\"command\": \"x\"}, \"a-b\": {\"command\": \"x\"}}}",
            "would get the same name",
        ),
        (".cursor/mcp.json", "{\"mcpServers\": {\"é\": {\"command\": \"x\"}}}", "without letters or digits"),
        (".cursor/mcp.json", "{\"mcpServers\": []}", "has an unexpected structure"),
        (".cursor/mcp.json", "{\"mcpServers\": ", "cannot be parsed"),
        (".cursor/hooks.json", "{\"hooks\": {\"preToolUse\": {}}}", "has an unexpected structure"),
        (".config/byleave/mcp.toml", "[server", "cannot change"),
    ];
    for (name, text, why) in cases {
        let home = InitFixture::of(&[(name, text)]);
        home.write(".cursor/other", "x");
        if name.ends_with("toml") {
            home.write(".cursor/mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}");
        }
        let before = home.files();
        let told = home.told(&["init", "cursor"]);
        assert!(told.contains(why) && !told.ends_with("[0]\n\n"), "{text}: {told}");
        assert_eq!(home.files(), before, "{text}");
    }
    // A dangling link is refused. A link to an existing file is followed and kept.
    let home = InitFixture::of(&[("dotfiles/mcp.json", "{}")]);
    fs::create_dir(home.path(".cursor")).unwrap();
    std::os::unix::fs::symlink("../nowhere", home.path(".cursor/mcp.json")).unwrap();
    assert!(home.told(&["init", "cursor"]).contains("cannot resolve the link"));
    fs::remove_file(home.path(".cursor/mcp.json")).unwrap();
    std::os::unix::fs::symlink("../dotfiles/mcp.json", home.path(".cursor/mcp.json")).unwrap();
    home.done(&["init", "cursor"]);
    assert!(home.read("dotfiles/mcp.json").contains("byleave"));
    assert!(home.path(".cursor/mcp.json").symlink_metadata().unwrap().is_symlink());
    home.done(&["init", "--undo", "cursor"]);
    assert_eq!(home.read("dotfiles/mcp.json"), "{}");
}

// req: M1
#[test]
fn a_project_has_settings_of_its_own_and_a_server_is_shared() {
    let home = InitFixture::new();
    let here = home.world.workspace();
    let server = r#"{"mcpServers": {"shared": {"command": "x"}}}"#;
    home.write(".cursor/mcp.json", server);
    home.write(".gemini/settings.json", server);
    let local = serde_json::json!({ "projects": { here.to_str().unwrap(): { "mcpServers": { "local": { "command": "./y" } } } } });
    home.write(".claude.json", &local.to_string());
    home.write("w/.mcp.json", r#"{"mcpServers": {"team": {"command": "./z"}}}"#);
    let before = home.files();
    assert!(home.done(&["init"]).contains("claude-code  no"));
    assert!(home.told(&["init", "--dry-run"]).contains("no agent was given"));
    let told = home.done(&["init", "claude-code", "--project"]);
    assert!(told.contains("moved   team") && told.contains("moved   local"), "{told}");
    let servers = home.read(".config/byleave/mcp.toml");
    assert!(servers.contains(&format!("cwd = \"{}\"", here.display())), "{servers}");
    assert!(home.read("w/.mcp.json").contains("mcp\", \"serve"));
    assert!(home.path("w/.claude/settings.json").exists() && !home.path(".claude").exists());
    home.done(&["init", "cursor"]);
    home.done(&["init", "gemini"]);
    assert!(home.done(&["init"]).contains("in 1 projects"));
    // The agent that brought the server may be undone. The remaining agent still needs the server.
    let told = home.done(&["init", "--undo", "cursor"]);
    assert!(told.contains("server `shared` stays behind the gateway: gemini uses it too"), "{told}");
    assert!(home.read(".config/byleave/mcp.toml").contains("[server.shared]"));
    let json = home.json(&["init", "--undo", "--json"]);
    assert_eq!(json["undone"].as_array().unwrap().len(), 2, "{json:#}");
    let left: Vec<_> = home.files().into_iter().filter(|file| !before.contains(file)).collect();
    let names: Vec<&Path> = left.iter().map(|(path, _)| path.as_path()).collect();
    // Only the user may remove the server that was shared last.
    assert!(names.iter().all(|path| path.starts_with(home.path(".config"))), "{names:?}");
}

#[test]
fn homes_that_the_environment_names_are_used() {
    let home = InitFixture::new();
    for (agent, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("copilot", "COPILOT_HOME", "hooks/byleave.json"),
    ] {
        let dir = home.path("elsewhere").join(variable);
        let mut command = home.command();
        let told = command.args(["init", agent]).env(variable, &dir).output().unwrap();
        assert!(told.status.success(), "{told:?}");
        assert!(fs::read_to_string(dir.join(file)).unwrap().contains("byleave"), "{agent}");
    }
}

// req: M1, M2
#[test]
fn codex_runs_our_hooks_and_our_commands_or_the_doctor_says_so() {
    let home = InitFixture::of(&[(".codex/config.toml", "model = \"m\"\n")]);
    let before = home.files();
    home.done(&["init", "codex"]);
    let settings = home.read(".codex/config.toml");
    assert_eq!(settings.matches("trusted_hash = \"sha256:").count(), 3, "{settings}");
    assert_eq!(home.doctor("codex")["ok"], true, "{:#}", home.doctor("codex"));
    let again = home.files();
    assert!(home.done(&["init", "codex"]).contains("nothing was changed"));
    assert_eq!(home.files(), again);

    let says = |what: &str| {
        let found = home.doctor("codex");
        assert_eq!(found["ok"], false, "{what}: {found:#}");
        assert!(found["message"].as_str().unwrap().contains(what), "{what}: {found:#}");
    };
    let untrusted = settings.split("\n[hooks.state").next().unwrap();
    // A program that answers something else, one that answers nothing, and none at all.
    home.script("codex", "#!/bin/sh\necho '{\"id\":2,\"result\":{}}'\n");
    says("this version of codex does not list its hooks");
    home.script("codex", "#!/bin/sh\nexit 1\n");
    says("codex did not list its hooks");
    fs::remove_file(home.program.with_file_name("codex")).unwrap();
    if !Path::new("/usr/bin/codex").exists() {
        home.write(".codex/config.toml", untrusted);
        says("Codex skips our hooks, because nobody trusted them");
        let told = home.done(&["init", "codex"]);
        assert!(told.contains("the program `codex` was not found") && told.contains("`/hooks`"), "{told}");
    }
    // Codex itself has written into its settings since.
    home.write(".codex/config.toml", &format!("{settings}\n[projects.\"/w\"]\ntrust_level = \"trusted\"\n"));
    home.done(&["init", "--undo", "codex"]);
    assert_eq!(
        home.read(".codex/config.toml"),
        "model = \"m\"\n\n[projects.\"/w\"]\ntrust_level = \"trusted\"\n"
    );
    home.write(".codex/config.toml", "model = \"m\"\n");
    assert_eq!(home.files(), before);
}

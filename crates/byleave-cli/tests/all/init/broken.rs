//! Everything that can keep a hook or the gateway from working is broken on purpose, for every agent, and the doctor must say so.
//!
//! No agent is installed here; `init/codex.py` stands in for Codex. `scripts/agents` does the same with the real programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::{AGENTS, InitFixture};

/// The files of an agent: that with its hooks, and that with the gateway.
const FILES: [(&str, &str, &str); 6] = [
    ("claude-code", ".claude/settings.json", ".claude.json"),
    ("codex", ".codex/hooks.json", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json", ".gemini/settings.json"),
    ("cursor", ".cursor/hooks.json", ".cursor/mcp.json"),
    ("goose", ".agents/plugins/byleave/hooks/hooks.json", ".config/goose/config.yaml"),
    ("copilot", ".copilot/hooks/byleave.json", ".copilot/mcp-config.json"),
];

/// A way to break one agent: the file, its new text given the old one, and what the doctor must say.
type FileBreak = (String, Box<dyn Fn(&str) -> String>, &'static str);

/// Returns each way to break the files of this agent.
fn file_breaks(agent: &'static str) -> Vec<FileBreak> {
    let (_, hooks, servers) = FILES.into_iter().find(|(name, ..)| *name == agent).unwrap();
    let replace = |file: &str, from: &'static str, to: &'static str, says: &'static str| -> FileBreak {
        (file.to_owned(), Box::new(move |text: &str| text.replace(from, to)), says)
    };
    let write = |file: &str, text: &'static str, says: &'static str| -> FileBreak {
        (file.to_owned(), Box::new(move |_: &str| text.to_owned()), says)
    };
    let (before, matcher) = match agent {
        "claude-code" | "codex" => ("PreToolUse", r#""matcher": "*""#),
        "gemini" => ("BeforeTool", r#""matcher": ".*""#),
        "cursor" => ("preToolUse", r#""matcher": "*""#),
        "goose" => ("PreToolUse", r#""matcher": ".*""#),
        _ => ("preToolUse", "no matcher"),
    };
    let mut all = vec![
        replace(hooks, before, "Never", "is missing"),
        replace(hooks, "exit 2' ", "exit 0' ", "is missing"),
        replace(hooks, "--timeout-ms 600000", "", "was changed after setup"),
        write(hooks, "{", "cannot be parsed"),
        replace(servers, "mcp", "other", "the gateway"),
        replace(servers, agent, "nobody", "the gateway"),
    ];
    if agent != "copilot" {
        all.push(replace(hooks, matcher, r#""matcher": "Never""#, "was changed after setup"));
    }
    if agent == "cursor" {
        all.retain(|(_, change, _)| change("exit 2' --timeout-ms 600000") == "exit 2' --timeout-ms 600000");
        all.push(replace(
            hooks,
            r#""failClosed": true"#,
            r#""failClosed": false"#,
            "was changed after setup",
        ));
    }
    let switched = "switches our hooks or the gateway off";
    match agent {
        "claude-code" => all.extend([
            write("w/.claude/settings.json", r#"{"disableAllHooks": true}"#, switched),
            write("w/.claude/settings.local.json", r#"{"disableAllHooks": true}"#, switched),
            write(
                "w/.claude/settings.json",
                r#"{"deniedMcpServers": [{"serverName": "byleave"}]}"#,
                switched,
            ),
            replace(hooks, r#""permissions""#, r#""disableAllHooks": true, "permissions""#, switched),
        ]),
        "codex" => all.extend([
            replace(servers, "[mcp_servers", "[features]\nhooks = false\n[mcp_servers", switched),
            replace(
                servers,
                "trusted_hash = \"sha256:",
                "trusted_hash = \"sha256:0",
                "because nobody trusted it",
            ),
            replace(servers, "trusted_hash", "enabled = false\ntrusted_hash", "is switched off in Codex"),
            replace(
                ".codex/rules/byleave.rules",
                "\"allow\"",
                "\"prompt\"",
                "another rule of codex for byleave says `prompt`",
            ),
            replace(
                ".codex/rules/byleave.rules",
                "exec",
                "inbox",
                "the sandbox of Codex stops it: no rule of codex",
            ),
            write(".codex/rules/default.rules", "no rule", "codex cannot read its rules"),
            write(
                ".codex/rules/byleave.rules",
                "# nothing\n",
                "the sandbox of Codex stops it: no rule of codex",
            ),
        ]),
        "gemini" => all.extend([
            write("w/.gemini/settings.json", r#"{"hooksConfig": {"enabled": false}}"#, switched),
            write("w/.gemini/settings.json", r#"{"hooksConfig": {"disabled": ["byleave"]}}"#, switched),
            write("w/.gemini/settings.json", r#"{"tools": {"enableHooks": false}}"#, switched),
            write("w/.gemini/settings.json", r#"{"mcp": {"excluded": ["byleave"]}}"#, switched),
        ]),
        "copilot" => {
            all.extend([replace(hooks, r#""version""#, r#""disableAllHooks": true, "version""#, switched)])
        }
        _ => {}
    }
    all
}

/// Sets every agent up in one home directory.
fn all_set_up() -> InitFixture {
    let home = InitFixture::new();
    for (agent, _) in AGENTS {
        home.done(&["init", agent]);
    }
    home
}

fn findings(home: &InitFixture, variables: &[(&str, String)]) -> Value {
    let told = home.command().args(["doctor", "--json"]).envs(variables.iter().cloned()).output().unwrap();
    serde_json::from_slice::<Value>(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"))["findings"].clone()
}

/// Checks that the doctor says this of the agent, or that all is well.
fn check(found: &Value, agent: &str, says: Option<&str>) {
    let finding = found.as_array().unwrap().iter().find(|finding| finding["subject"] == agent).unwrap();
    assert_eq!(finding["ok"] == true, says.is_none(), "{agent}, {says:?}: {finding:#}");
    if let Some(says) = says {
        assert!(finding["message"].as_str().unwrap().contains(says), "{agent}, {says}: {finding:#}");
        assert!(finding["hint"].as_str().unwrap().contains(&format!("byleave init {agent}")), "{finding:#}");
    }
}

// req: M2
#[test]
fn the_doctor_is_red_for_every_broken_file_of_every_agent() {
    let home = all_set_up();
    let healthy = findings(&home, &[]);
    AGENTS.iter().for_each(|(agent, _)| check(&healthy, agent, None));
    let breaks = AGENTS.map(|(agent, _)| (agent, file_breaks(agent)));
    let rows = breaks.iter().map(|(_, breaks)| breaks.len()).max().unwrap();
    for row in 0..rows {
        // Every agent is broken in one way, so that one run sees all of them.
        let mut changed = Vec::new();
        for (agent, breaks) in &breaks {
            let Some((file, change, says)) = breaks.get(row) else { continue };
            let path = home.path(file);
            let before = fs::read_to_string(&path).ok();
            let after = change(before.as_deref().unwrap_or_default());
            assert_ne!(before.as_ref(), Some(&after), "{agent}, {says}: nothing is broken");
            home.write(file, &after);
            changed.push((agent, path, before, says));
        }
        let found = findings(&home, &[]);
        for (agent, path, before, says) in changed {
            check(&found, agent, Some(says));
            match before {
                Some(text) => fs::write(path, text).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
    }
    let elsewhere = |variable, dir: &str| (variable, home.path(dir).to_str().unwrap().to_owned());
    let moved = findings(
        &home,
        &[elsewhere("CLAUDE_CONFIG_DIR", "a"), elsewhere("CODEX_HOME", "b"), elsewhere("COPILOT_HOME", "c")],
    );
    for (agent, says) in [
        ("claude-code", Some("is missing")),
        ("codex", Some("is missing")),
        ("copilot", Some("is missing")),
        ("gemini", None),
    ] {
        check(&moved, agent, says);
    }
}

// req: M2
#[test]
fn the_doctor_is_red_for_every_broken_program_of_every_agent() {
    let home = all_set_up();
    let hook = home.program.with_file_name("byleave-hook");
    let version = format!("byleave-hook {}", env!("CARGO_PKG_VERSION"));
    // It knows its version, and fails at calls.
    let at_calls =
        |script: &str| format!("#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' && exit\n{script}\n");
    let rows = [
        ("#!/bin/sh\necho byleave-hook 0.0.1\n".to_owned(), 0o755, "has the version `byleave-hook 0.0.1`"),
        (format!("#!/bin/sh\necho {version}\n"), 0o644, "does not run"),
        ("#!/bin/sh\nexit 1\n".to_owned(), 0o755, "does not run"),
        ("#!/bin/sh\nkill -SEGV $$\n".to_owned(), 0o755, "does not run"),
        ("#!/bin/sh\nkill -STOP $$\n".to_owned(), 0o755, "did not answer within"),
        (at_calls("exit 1"), 0o755, "the hook"),
        (at_calls("kill -SEGV $$"), 0o755, "the hook"),
        (at_calls("exit 0"), 0o755, "lets a call pass"),
        (at_calls("echo no >&2; exit 2"), 0o755, "the hook does not evaluate calls: no"),
    ];
    for (script, mode, says) in rows {
        home.script("byleave-hook", &script);
        fs::set_permissions(&hook, fs::Permissions::from_mode(mode)).unwrap();
        let found = findings(&home, &[]);
        AGENTS.iter().for_each(|(agent, _)| check(&found, agent, Some(says)));
    }
    fs::remove_file(&hook).unwrap();
    let found = findings(&home, &[]);
    AGENTS.iter().for_each(|(agent, _)| check(&found, agent, Some("does not run")));
    home.real_hook();
    let found = findings(&home, &[]);
    AGENTS.iter().for_each(|(agent, _)| check(&found, agent, None));
}

//! Finds out whether the sandbox of Codex would keep a prepared command from running in ours. Then nobody is asked about it.
//!
//! It never allows anything. If nothing is known, the call is evaluated as usual.

use std::path::{Path, PathBuf};

use byleave_files::LinkPolicy;
use byleave_hook::HookRequest;
use serde_json::Value;

use crate::agent_configs::{CODEX_RULES, codex_rules};

/// The maximum size of the rules that `init` wrote.
const RULES_BYTES_MAX: u64 = 64 << 10;
/// The maximum size of a session file. A larger one is not read.
const SESSION_BYTES_MAX: u64 = 64 << 20;

/// Returns the reason why Codex would keep the command of this program with this state directory from running.
pub(super) fn obstacle(heard: &HookRequest, workspace: &str, program: &str, state: &str) -> Option<String> {
    let session = Path::new(heard.transcript.as_deref()?);
    let homes = [session_home(session)?, Path::new(workspace).join(".codex")];
    let wanted = codex_rules(program, state);
    let has_rules = |home: &PathBuf| {
        let rules = byleave_files::read_text(&home.join(CODEX_RULES), LinkPolicy::Follow, RULES_BYTES_MAX);
        rules.is_ok_and(|rules| rules == wanted)
    };
    if homes.iter().any(has_rules) {
        return None;
    }
    let session = byleave_files::read_text(session, LinkPolicy::Follow, SESSION_BYTES_MAX).ok()?;
    let sandbox =
        session_sandbox(&session).filter(|name| ["read-only", "workspace-write"].contains(&name.as_str()))?;
    Some(format!(
        "the sandbox of Codex (`{sandbox}`) would keep this command from running in the sandbox of byleave, and nobody was asked: \
         `byleave init codex` writes the rule that lets it run; then restart Codex"
    ))
}

/// Returns the settings directory of Codex, above its sessions.
fn session_home(session: &Path) -> Option<PathBuf> {
    let sessions =
        session.ancestors().find(|above| above.file_name().is_some_and(|name| name == "sessions"))?;
    sessions.parent().map(Path::to_owned)
}

/// Returns the sandbox of the last turn in a session file.
fn session_sandbox(session: &str) -> Option<String> {
    let turns = session.lines().rev().filter(|line| line.contains("turn_context"));
    let turns = turns.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut turns = turns.filter(|turn| turn.get("type").is_some_and(|kind| kind == "turn_context"));
    Some(turns.next()?.pointer("/payload/sandbox_policy/type")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use byleave_hook::{AgentKind, parse_request};
    use serde_json::json;

    use super::*;

    // req: M2
    #[test]
    fn a_command_that_the_sandbox_of_codex_stops_is_known_before_anybody_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join(".codex");
        let session = home.join("sessions/2026/11/19/rollout-1.jsonl");
        fs::create_dir_all(session.parent().unwrap()).unwrap();
        fs::create_dir_all(home.join("rules")).unwrap();
        let said = json!({
            "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "transcript_path": session,
            "tool_input": { "command": "touch x" },
        });
        let heard = parse_request(AgentKind::Codex, said.to_string().as_bytes()).unwrap();
        let found = || obstacle(&heard, "/w", "/bin/byleave", "/state");
        let turns = |kinds: &[&str]| {
            let turn = |kind: &&str| {
                json!({ "type": "turn_context", "payload": { "sandbox_policy": { "type": kind } } })
                    .to_string()
            };
            let lines: Vec<String> = kinds.iter().map(turn).collect();
            fs::write(
                &session,
                format!(
                    "{}\n{{\"type\":\"turn_context_of_a_model\"}}\nno json: turn_context\n",
                    lines.join("\n")
                ),
            )
            .unwrap();
        };
        assert_eq!(found(), None, "nothing is known");
        for (kinds, is_stopped) in [
            (&["read-only"][..], true),
            (&["danger-full-access", "workspace-write"], true),
            (&["workspace-write", "danger-full-access"], false),
            (&["external-sandbox"], false),
        ] {
            turns(kinds);
            assert_eq!(found().is_some(), is_stopped, "{kinds:?}");
        }
        turns(&["workspace-write"]);
        assert!(found().unwrap().contains("byleave init codex"));
        // Only the rule for this program and this state directory helps.
        fs::write(home.join(CODEX_RULES), codex_rules("/bin/byleave", "/elsewhere")).unwrap();
        assert!(found().is_some());
        fs::write(home.join(CODEX_RULES), codex_rules("/bin/byleave", "/state")).unwrap();
        assert_eq!(found(), None);
    }
}

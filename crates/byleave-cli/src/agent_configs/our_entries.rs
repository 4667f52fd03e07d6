//! The entries that Byleave writes into agents' settings: the gateway and the hook, in each agent's format.

use std::path::{Path, PathBuf};

use byleave_hook::AgentKind;
use serde_json::{Value, json};

/// The name of the gateway in every agent's settings.
pub(super) const NAME: &str = "byleave";
/// One hour, because a person may be at lunch.
const CALL_S: u32 = 3_600;
/// The hook itself denies before this time.
const HOOK_S: u32 = 600;
const AFTER_S: u32 = 60;
/// Starts a hook so that the agent blocks the call whenever the hook did not answer. That includes a missing hook, a crash, and
/// any exit code other than 0 and 2. Agents go ahead on other codes. The hook, its dialect and its options follow as words.
///
/// A hook that hangs is ended shortly before the agent gives up on it, because agents go ahead then, too. The second process that does
/// that has no output of the agent's, so that the agent does not wait for it.
///
/// It starts its own shell, because some agents start hooks with the person's shell, which may not be a POSIX shell.
const FAIL_CLOSED: &str = concat!(
    r#"/bin/sh -c 'exec 3<&0; "$0" "$@" <&3 3<&- & h=$!; "#,
    r#"(s=; trap "kill \$s; exit" TERM; sleep 595 & s=$!; wait $s; kill -0 $$ && kill -9 $h) 3<&- >/dev/null 2>&1 & w=$!; "#,
    r#"trap "kill -9 $h; kill $w; exit 2" HUP INT TERM; wait $h; r=$?; kill $w 2>/dev/null; [ $r = 0 ] && exit 0; "#,
    r#"[ $r = 2 ] || echo "byleave: the hook failed, so the call is blocked" >&2; exit 2' "#,
);
/// What Claude Code shows while a hook waits.
const STATUS_MESSAGE: &str = "byleave checks the call; if it asks, answer in byleave inbox";
/// When Claude Code asks its person.
const PERMISSION_EVENT: &str = "PermissionRequest";
/// How earlier versions started a hook.
const EARLIER: &str = r#"/bin/sh -c '"$0" "$1" || { [ $? = 2 ] || echo "byleave: the hook failed, so the call is blocked" >&2; exit 2; }' "#;

/// The programs that are named in the settings, and the state directory that they use.
#[derive(Clone, Debug)]
pub(crate) struct ProgramPaths {
    pub(crate) gateway: PathBuf,
    pub(crate) hook: PathBuf,
    pub(crate) state: PathBuf,
}

/// Returns the rules by which Codex runs a prepared call outside of its own sandbox, in which no other sandbox can begin.
///
/// They name no other command of ours, so everything else stays in the sandbox of Codex.
pub(crate) fn codex_rules(gateway: &str, state: &str) -> String {
    let pattern = json!([gateway, "--state", state, "exec"]);
    format!(
        "# Written by `byleave init codex`. A command that byleave evaluated runs in the sandbox of byleave,\n\
         # which cannot begin within the sandbox of Codex. Everything else stays there.\n\
         prefix_rule(pattern = {pattern}, decision = \"allow\", justification = \"byleave evaluated the command and confines it\")\n"
    )
}

/// Returns the program that an entry starts as our gateway, or `None` for another program's entry.
pub(crate) fn gateway_program(entry: &Value) -> Option<PathBuf> {
    let command = entry.get("command").or_else(|| entry.get("cmd"))?.as_str()?;
    let args = entry.get("args")?.as_array()?;
    let is_serve = args.iter().map(Value::as_str).take(2).eq([Some("mcp"), Some("serve")]);
    (is_serve && Path::new(command).file_name()? == NAME).then(|| PathBuf::from(command))
}

/// Returns the program that an item of a hook list starts as our hook, or `None` for another program's item.
pub(crate) fn hook_program(item: &Value) -> Option<PathBuf> {
    // A group to which somebody added a hook is no longer only ours.
    if let Some(handlers) = item.get("hooks").and_then(Value::as_array) {
        return match handlers.as_slice() {
            [only] => hook_program(only),
            _ => None,
        };
    }
    let command = hook_line(item)?;
    let line = [FAIL_CLOSED, EARLIER].iter().find_map(|start| command.strip_prefix(start));
    let program = unquoted(line.unwrap_or(command));
    (Path::new(&program).file_name()? == "byleave-hook").then(|| PathBuf::from(program))
}

/// Returns the line that an item of a hook list starts, if there is exactly one.
pub(super) fn hook_line(item: &Value) -> Option<&str> {
    if let Some(handlers) = item.get("hooks").and_then(Value::as_array) {
        return match handlers.as_slice() {
            [only] => hook_line(only),
            _ => None,
        };
    }
    item.get("command").or_else(|| item.get("bash"))?.as_str()
}

pub(super) fn is_our_hook(item: &Value) -> bool {
    hook_program(item).is_some()
}

/// Checks whether our hook, and no other program, learns of every question in the agent's window. Another hook could answer it.
///
/// `layers` are all settings that the agent reads. A plugin can have hooks that are in none of them.
pub(crate) fn sees_every_permission_request(layers: &[Value]) -> bool {
    let hooks = |layer: &Value| layer.get("hooks").and_then(|hooks| hooks.get(PERMISSION_EVENT)).cloned();
    let items = layers.iter().filter_map(hooks).flat_map(|list| match list {
        Value::Array(items) => items,
        other => vec![other],
    });
    let items: Vec<Value> = items.collect();
    let is_on = |plugin: &Value| plugin != &Value::Bool(false);
    let plugins = layers.iter().filter_map(|layer| layer.get("enabledPlugins"));
    let has_plugin = plugins.into_iter().any(|plugins| match plugins {
        Value::Object(plugins) => plugins.values().any(is_on),
        other => !other.is_null(),
    });
    !has_plugin && !items.is_empty() && items.iter().all(is_our_hook)
}

/// Returns the gateway's entry as an MCP server.
pub(super) fn gateway(agent: AgentKind, programs: &ProgramPaths) -> Value {
    let command = programs.gateway.to_string_lossy();
    let args = ["mcp", "serve", "--agent", agent.name()];
    match agent {
        AgentKind::ClaudeCode => {
            json!({ "type": "stdio", "command": command, "args": args, "env": {}, "timeout": CALL_S * 1_000 })
        }
        // `approve` and `trust`: Byleave asks whatever has to be asked.
        AgentKind::Codex => json!({
            "command": command, "args": args, "startup_timeout_sec": 30, "tool_timeout_sec": CALL_S,
            "default_tools_approval_mode": "approve",
        }),
        AgentKind::Gemini => {
            json!({ "command": command, "args": args, "timeout": CALL_S * 1_000, "trust": true })
        }
        AgentKind::Cursor => json!({ "type": "stdio", "command": command, "args": args }),
        AgentKind::Goose => json!({
            "name": NAME, "type": "stdio", "cmd": command, "args": args, "envs": {}, "env_keys": [], "enabled": true,
            "timeout": CALL_S, "bundled": null, "description": "MCP servers and tools, by your leave",
        }),
        AgentKind::Copilot => json!({ "type": "local", "command": command, "args": args, "tools": ["*"] }),
    }
}

/// Returns the hooks: the name of each list, and the item in it.
pub(super) fn hooks(agent: AgentKind, programs: &ProgramPaths) -> Vec<(&'static str, Value)> {
    let line = format!("{} {}", quoted(&programs.hook.to_string_lossy()), agent.name());
    // A hook after the call cannot block anything.
    let before = format!("{FAIL_CLOSED}{line} --timeout-ms {}", HOOK_S * 1_000);
    // At the end of a turn, exit code 2 would make the agent go on.
    let turn_end = format!("{line} || true");
    match agent {
        AgentKind::ClaudeCode | AgentKind::Codex | AgentKind::Goose => {
            // Goose reads a regular expression, and skips a hook whose matcher is not one.
            let matcher = if agent == AgentKind::Goose { ".*" } else { "*" };
            let group = |line: &str, timeout: u32| json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": line, "timeout": timeout }] });
            let mut lists =
                vec![("PreToolUse", group(&before, HOOK_S)), ("PostToolUse", group(&line, AFTER_S))];
            if agent == AgentKind::ClaudeCode {
                // It shows this while the hook waits.
                let first = lists.first_mut().and_then(|(_, group)| group.pointer_mut("/hooks/0"));
                if let Some(hook) = first.and_then(Value::as_object_mut) {
                    hook.insert("statusMessage".into(), STATUS_MESSAGE.into());
                }
                // It says that the agent has asked its person.
                lists.push((PERMISSION_EVENT, group(&line, AFTER_S)));
            }
            // Otherwise nobody would know of a tool that failed. Codex reports it as any other.
            if agent != AgentKind::Codex {
                lists.push(("PostToolUseFailure", group(&line, AFTER_S)));
            }
            // Goose shows nobody the output of a hook at this event.
            if agent != AgentKind::Goose {
                let handler = json!({ "type": "command", "command": turn_end, "timeout": AFTER_S });
                lists.push(("Stop", json!({ "hooks": [handler] })));
            }
            lists
        }
        AgentKind::Gemini => {
            let handler = |line: &str, timeout: u32| json!({ "type": "command", "name": NAME, "command": line, "timeout": timeout * 1_000 });
            let group =
                |line: &str, timeout: u32| json!({ "matcher": ".*", "hooks": [handler(line, timeout)] });
            vec![
                ("BeforeTool", group(&before, HOOK_S)),
                ("AfterTool", group(&line, AFTER_S)),
                ("AfterAgent", json!({ "hooks": [handler(&turn_end, AFTER_S)] })),
            ]
        }
        // It blocks the call by itself.
        AgentKind::Cursor => vec![
            ("preToolUse", json!({ "command": line, "matcher": "*", "failClosed": true, "timeout": HOOK_S })),
            ("postToolUse", json!({ "command": line, "matcher": "*", "timeout": AFTER_S })),
        ],
        AgentKind::Copilot => {
            let one =
                |line: &str, timeout: u32| json!({ "type": "command", "bash": line, "timeoutSec": timeout });
            vec![("preToolUse", one(&before, HOOK_S)), ("postToolUse", one(&line, AFTER_S))]
        }
    }
}

/// Quotes a path as one shell word.
fn quoted(path: &str) -> String {
    let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+,@".contains(letter));
    if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Returns the first word of a line that we wrote, or the whole line if it is one path.
fn unquoted(line: &str) -> String {
    match line.strip_prefix('\'') {
        Some(rest) => {
            let end = rest.rfind('\'').unwrap_or(rest.len());
            rest.get(..end).unwrap_or(rest).replace(r"'\''", "'")
        }
        None if line.ends_with("byleave-hook") => line.to_owned(),
        None => line.split(' ').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_we_wrote_is_known_again_wherever_the_program_lies() {
        for dir in ["/usr/bin", "/home/ann/my programs/it's", "/ü"] {
            let programs = ProgramPaths {
                gateway: format!("{dir}/byleave").into(),
                hook: format!("{dir}/byleave-hook").into(),
                state: "/state".into(),
            };
            for agent in AgentKind::ALL {
                assert_eq!(gateway_program(&gateway(agent, &programs)), Some(programs.gateway.clone()));
                for (_, item) in hooks(agent, &programs) {
                    assert_eq!(hook_program(&item), Some(programs.hook.clone()), "{item}");
                }
            }
        }
        let earlier = json!({ "command": format!("{EARLIER}/usr/bin/byleave-hook codex") });
        assert_eq!(hook_program(&earlier), Some("/usr/bin/byleave-hook".into()));
        for theirs in [json!({ "command": "byleave", "args": ["x"] }), json!({ "command": "sh" }), json!(3)] {
            assert_eq!(gateway_program(&theirs), None);
            assert_eq!(hook_program(&theirs), None);
        }
    }
}

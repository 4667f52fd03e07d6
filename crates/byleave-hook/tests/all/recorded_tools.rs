//! Holds the table of tools against the tools that real agents offered (`tests/agents/tools`, recorded by `scripts/agents record`).

use std::collections::BTreeMap;
use std::path::Path;

use byleave_hook::{ToolEffect, ToolKind, tool_effects};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
struct RecordedTool {
    args: Vec<String>,
}

/// The agents whose tools are recorded, and that Byleave supports.
const AGENTS: [&str; 5] = ["claude-code", "codex", "copilot", "gemini", "goose"];

/// Returns the tool and the arguments as the agent's hook has them. Codex reports its shell under another name.
fn as_hooked(agent: &str, tool: &str, args: Vec<String>) -> (String, Vec<String>) {
    match (agent, tool) {
        ("codex", "exec_command") => ("Bash".into(), vec!["command".into()]),
        ("codex", "apply_patch") => ("apply_patch".into(), vec!["command".into()]),
        _ => (tool.into(), args),
    }
}

// req: M2
#[test]
fn every_tool_and_argument_that_an_agent_offers_is_known() {
    let mut unknown = Vec::new();
    for agent in AGENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/agents/tools").join(agent);
        let text = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let tools: BTreeMap<String, RecordedTool> = serde_json::from_str(&text).unwrap();
        assert!(tools.len() > 5, "{agent}");
        for (tool, recorded) in tools {
            let (tool, args) = as_hooked(agent, &tool, recorded.args);
            let input: Map<String, Value> =
                args.into_iter().map(|name| (name, json!("https://a.example"))).collect();
            let effects = tool_effects(&tool, &input.into());
            if effects.kind == ToolKind::Unknown {
                unknown.push(format!("{agent}: {tool}"));
            }
            for effect in effects.effects {
                if let ToolEffect::Unknown(why) = effect {
                    unknown.push(format!("{agent}: {tool}: {why}"));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "add these to `agent_tools.rs`:\n{}", unknown.join("\n"));
}

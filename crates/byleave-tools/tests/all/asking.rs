//! The tools that ask under the built-in rules in the default mode (B8). The documentation pages of the tools rely on this.

use byleave_gate::core::call::Mode;
use byleave_gate::core::policy::{Layer, PathVariables, RuleFile, SkipExamples, load_rules};
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};

use crate::world::ToolTestWorld;
use byleave_testkit::user::unprivileged;

// req: B1, B2, B3, B4, B6, B8
#[test]
fn reading_asks_nobody_and_changing_asks_somebody() {
    if !unprivileged("asking::reading_asks_nobody_and_changing_asks_somebody") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = ToolTestWorld::with("", GateSettings::default());
        world.write("src/a", "one\n");
        let silent = [
            ("read_file", json!({"path": "src/a"})),
            ("list_dir", json!({})),
            ("list_files", json!({})),
            ("glob", json!({"pattern": "**/a"})),
            ("grep", json!({"pattern": "one"})),
            ("todo_read", json!({})),
            ("diagnostics", json!({})),
            ("tool_search", json!({"query": "read"})),
        ];
        for (tool, arguments) in silent {
            let played = world.call(tool, arguments, &[], Mode::ConfirmSensitive).await;
            assert!(
                played.asked.is_empty() && played.result.outcome.refusal().is_none(),
                "{tool}: {:?}",
                played.result
            );
        }
        let patch = "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch";
        let asks: [(&str, Value); 7] = [
            ("bash", json!({"command": "touch b"})),
            ("write_file", json!({"path": "b", "content": "x"})),
            ("edit", json!({"path": "src/a", "old": "one", "new": "two"})),
            ("multi_edit", json!({"path": "src/a", "edits": [{"old": "one", "new": "two"}]})),
            ("apply_patch", json!({"patch": patch})),
            ("delete_file", json!({"path": "src/a"})),
            ("web_fetch", json!({"url": "https://docs.example/"})),
        ];
        for (tool, arguments) in asks {
            let played = world.call(tool, arguments, &[], Mode::ConfirmSensitive).await;
            assert_eq!(played.asked.len(), 1, "{tool}: {:?}", played.result);
        }
        assert_eq!((world.read("src/a"), world.read("b")), ("one\n".into(), "<entity not found>".into()));
    });
}

// req: P8
#[test]
fn a_deny_of_a_tool_by_its_name_holds_or_is_no_rule() {
    if !unprivileged("asking::a_deny_of_a_tool_by_its_name_holds_or_is_no_rule") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The tools that can be named in rules. For other tools, a file must not contain a rule that could
        // never apply.
        let named = [
            ("bash_kill", json!({"job": "1"})),
            ("bash_output", json!({"job": "1"})),
            ("read_output", json!({"call": "5e0c3b6e-9a58-4a1e-8a53-0d6b8d6f2c11"})),
            ("todo_read", json!({})),
            ("todo_write", json!({"todos": []})),
            ("tool_search", json!({"query": "read"})),
        ];
        let mut unseen: Vec<&str> = named.iter().map(|(tool, _)| *tool).collect();
        for entry in ToolTestWorld::new().gate.catalog().list() {
            let tool = entry.manifest().name.as_str();
            let text = format!("[[rule]]\nid = \"never\"\nverdict = \"deny\"\ntool = \"{tool}\"\n");
            let file = RuleFile { name: "policy.toml", layer: Layer::User, text: &text };
            let read = load_rules(&file, &PathVariables::default(), &SkipExamples);
            let Some((_, arguments)) = named.iter().find(|(name, _)| *name == tool) else {
                let fault = read.err().unwrap_or_else(|| panic!("a rule about `{tool}` was taken"));
                assert!(fault.to_string().contains("evaluated by their effects"), "{fault}");
                continue;
            };
            unseen.retain(|name| *name != tool);
            let world = ToolTestWorld::with(&text, GateSettings::default());
            let played = world.call(tool, arguments.clone(), &[], Mode::ConfirmSensitive).await;
            let refusal = played.result.outcome.refusal().map(|refusal| refusal.to_string());
            assert!(refusal.is_some_and(|refusal| refusal.contains("never")), "{tool}: {:?}", played.result);
        }
        assert!(unseen.is_empty(), "not offered: {unseen:?}");
    });
}

//! Which tools ask, under the built-in rules, in the usual mode (B8): the pages of the tools say so, and this is what they rest on.

use byleave::core::call::Mode;
use byleave::settings::Settings;
use serde_json::{Value, json};

use crate::user::unprivileged;
use crate::world::World;

// req: B1, B2, B3, B4, B6, B8
#[test]
fn reading_asks_nobody_and_changing_asks_somebody() {
    if !unprivileged("asking::reading_asks_nobody_and_changing_asks_somebody") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::with("", Settings::default());
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
                played.asked.is_empty() && played.result.ending.refusal().is_none(),
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

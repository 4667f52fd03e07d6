//! Undoable work ends where its before-images would push others of the last days out of the store, or are larger than the store.

use byleave_gate::core::call::Mode;
use byleave_gate::core::rehearsal::BeforeImageRoom;
use byleave_gate::settings::GateSettings;
use serde_json::json;

use crate::attacks::as_user;
use crate::world::{ToolTestWorld, yes};

const UNDOABLE: &str = "[defaults]\nundoable = \"allow\"\n";
const BY_RULE: &str = "[[rule]]\nverdict = \"allow\"\nwrite = \"{workspace}/src/**\"\n";

/// A workspace with three files of 400,000 bytes, which are not text, and a store of a million.
fn world(rules: &str) -> ToolTestWorld {
    let world = ToolTestWorld::made(rules, GateSettings::default(), |mut workplace| {
        workplace.store_settings.quota_bytes = 1_000_000;
        workplace
    });
    for name in ["src/one", "src/two", "src/three"] {
        world.write(name, &"\0".repeat(400_000));
    }
    world
}

// req: E6, P1, E9
#[test]
fn work_that_would_push_out_recent_before_images_is_asked_about() {
    as_user("undo_room::work_that_would_push_out_recent_before_images_is_asked_about", async {
        let world = world(UNDOABLE);
        for name in ["one", "two"] {
            let passed = world.bash(&format!("echo 1 > src/{name}"), &[]).await;
            assert!(
                passed.asked.is_empty() && world.read(&format!("src/{name}")) == "1\n",
                "{}",
                passed.text()
            );
        }
        let asked = world.bash("echo 1 > src/three", &[]).await;
        assert_eq!(asked.seen().before_image_room, BeforeImageRoom::Displaces, "{}", asked.text());
        assert_eq!(world.read("src/three").len(), 400_000);
        // The file tools have the same limit.
        let edit = json!({"path": "src/three", "content": "1\n"});
        let asked = world.call("write_file", edit.clone(), &[], Mode::ConfirmSensitive).await;
        assert_eq!(asked.seen().before_image_room, BeforeImageRoom::Displaces, "{}", asked.text());
        // A small change with little to keep still passes.
        let small = world.bash("echo 1 > src/four", &[]).await;
        assert!(small.asked.is_empty() && world.read("src/four") == "1\n", "{}", small.text());
        // A yes keeps more than the limit, and drops nothing.
        let other = json!({"path": "src/three", "content": "2\n"});
        let done = world.call("write_file", other, &[yes()], Mode::ConfirmSensitive).await;
        assert_eq!(world.read("src/three"), "2\n", "{}", done.text());
        let settings = byleave_copy::CopySettings { quota_bytes: 1_000_000, ..Default::default() };
        let store = byleave_copy::CopyStore::open(&world.beside("state/copies"), settings).unwrap();
        assert_eq!(store.collect_garbage(std::time::SystemTime::now()).unwrap().dropped, []);
    });
}

// req: E6, P1, E9
#[test]
fn a_rule_covers_work_in_a_full_store_but_never_more_than_the_store_holds() {
    as_user("undo_room::a_rule_covers_work_in_a_full_store_but_never_more_than_the_store_holds", async {
        let world = world(BY_RULE);
        for name in ["one", "two", "three"] {
            let passed = world.bash(&format!("echo 1 > src/{name}"), &[]).await;
            assert!(
                passed.asked.is_empty() && world.read(&format!("src/{name}")) == "1\n",
                "{}",
                passed.text()
            );
        }
        world.write("src/large", &"\0".repeat(1_100_000));
        // Another text each time, because a declined call is not asked about again.
        for (mode, command) in
            [(Mode::ConfirmSensitive, "echo 1 > src/large"), (Mode::Yolo, "echo 2 > src/large")]
        {
            let asked = world.call("bash", json!({ "command": command }), &[], mode).await;
            assert_eq!(
                asked.seen().before_image_room,
                BeforeImageRoom::Exceeds,
                "{mode:?}: {}",
                asked.text()
            );
            assert_eq!(world.read("src/large").len(), 1_100_000, "{mode:?}");
        }
    });
}

//! Commands on copies: shown, committed, discarded, undone.

use std::fs;

use byleave_gate::approver::Reply;
use byleave_gate::core::call::Mode;
use byleave_gate::core::file_change::FileChangeKind;
use byleave_gate::core::question_view::RehearsalView;
use byleave_gate::core::refusal::Code;
use byleave_gate::result::CallOutcome;
use serde_json::json;

use crate::world::{ToolTestWorld, tree, yes};
use byleave_testkit::user::unprivileged;

macro_rules! as_user {
    ($name:literal, $body:expr) => {
        if unprivileged(concat!("rehearsing::", $name)) {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on($body);
        }
    };
}

// req: E5, E6
#[test]
fn a_yes_commits_what_was_seen_and_undo_takes_it_back() {
    as_user!("a_yes_commits_what_was_seen_and_undo_takes_it_back", async {
        let world = ToolTestWorld::new();
        world.write("src/a", "one\ntwo\n");
        world.write("src/b", "b\n");
        let before = tree(&world.at(""));
        let played =
            world.bash("sed -i s/two/2/ src/a; rm src/b; mkdir new; echo hi | tee new/c", &[yes()]).await;
        assert!(played.result.is_success(), "{:?}", played.result);
        assert_eq!(played.result.to_text().trim(), "hi");
        let seen = played.seen();
        let did: Vec<(String, FileChangeKind)> =
            seen.changes.list.iter().map(|one| (one.path.clone(), one.kind())).collect();
        let path = |name: &str| world.at(name).to_str().unwrap().to_owned();
        let wanted = [
            (path("new"), FileChangeKind::Created),
            (path("new/c"), FileChangeKind::Created),
            (path("src/a"), FileChangeKind::Modified),
            (path("src/b"), FileChangeKind::Deleted),
        ];
        assert_eq!(did, wanted);
        let diff = seen.changes.list[2].diff.as_deref().unwrap();
        assert!(diff.contains("-two") && diff.contains("+2"), "{diff}");
        assert_eq!(
            (world.read("src/a"), world.read("src/b")),
            ("one\n2\n".into(), "<entity not found>".into())
        );
        let after = tree(&world.at(""));

        let undone = world.call("undo", json!({"call": played.call}), &[yes()], Mode::ConfirmSensitive).await;
        assert!(undone.result.is_success(), "{:?}", undone.result);
        assert_eq!(tree(&world.at("")), before);
        let again = world.call("undo", json!({"call": undone.call}), &[yes()], Mode::ConfirmSensitive).await;
        assert!(again.result.is_success(), "{:?}", again.result);
        assert_eq!(tree(&world.at("")), after);
    });
}

// req: E5
#[test]
fn a_no_changes_nothing() {
    as_user!("a_no_changes_nothing", async {
        let world = ToolTestWorld::new();
        world.write("a", "a");
        let before = tree(&world.at(""));
        let played = world.bash("rm -rf ./*; echo x > y", &[]).await;
        assert!(
            matches!(&played.result.outcome, CallOutcome::Refused(refusal) if refusal.code == Code::Declined)
        );
        assert!(!played.seen().changes.is_empty());
        assert_eq!(tree(&world.at("")), before);
    });
}

// req: E5
#[test]
fn what_is_merely_not_understood_and_does_nothing_is_not_asked_about() {
    as_user!("what_is_merely_not_understood_and_does_nothing_is_not_asked_about", async {
        let world = ToolTestWorld::new();
        world.write("look.sh", "cat look.sh | wc -c");
        for command in ["bash look.sh", "python3 -c 'print(41 + 1)'", "X=ls; $X src"] {
            let played = world.bash(command, &[]).await;
            assert!(played.result.is_success() && played.asked.is_empty(), "{command}: {:?}", played.result);
        }
        // It may write to scratch, which belongs to the session. The user's directory does not change.
        world.write("Cargo.toml", "");
        let played = world.bash("python3 -c \"open('target/x', 'w').write('1')\"", &[]).await;
        assert!(
            played.result.is_success() && played.asked.is_empty(),
            "{:?} {:?}",
            played.result,
            played.asked
        );
        assert!(!world.at("target/x").exists());
        let played = world.bash("python3 -c \"print(open('target/x').read())\"", &[]).await;
        assert_eq!(played.result.to_text().trim(), "1", "the session finds it again");
    });
}

// req: E6
#[test]
fn what_a_rule_allows_can_be_undone_as_well() {
    as_user!("what_a_rule_allows_can_be_undone_as_well", async {
        let rules = "[[rule]]\nverdict = \"allow\"\nrun = \"rm\"\nwrite = \"{workspace}/\"\ndelete = \"{workspace}/\"\n";
        let world = ToolTestWorld::with(rules, Default::default());
        world.write("a/b", "b");
        let before = tree(&world.at(""));
        let played = world.bash("rm -rf a", &[]).await;
        assert!(played.result.is_success() && played.asked.is_empty(), "{:?}", played.result);
        assert!(!world.at("a").exists());
        let undone = world.call("undo", json!({"call": played.call}), &[yes()], Mode::ConfirmSensitive).await;
        assert!(undone.result.is_success(), "{:?}", undone.result);
        assert_eq!(tree(&world.at("")), before);
    });
}

// req: E6
#[test]
fn what_changed_underneath_is_a_conflict() {
    as_user!("what_changed_underneath_is_a_conflict", async {
        let world = ToolTestWorld::new();
        world.write("a", "one\n");
        // Somebody else writes while the person decides.
        let path = world.at("a");
        world.meanwhile(move || fs::write(&path, "else\n").unwrap());
        let played = world.bash("python3 -c \"open('a', 'w').write('two')\"", &[yes()]).await;
        assert!(!played.result.is_success(), "{:?}", played.result);
        assert!(played.text().contains("these files changed after the call began"), "{}", played.text());
        assert_eq!(world.read("a"), "else\n");

        let played = world.bash("python3 -c \"open('a', 'w').write('three\\n')\"", &[yes()]).await;
        assert!(played.result.is_success(), "{:?}", played.result);
        world.write("a", "mine\n");
        let undo = |force: bool| json!({"call": played.call, "force": force});
        let refused = world.call("undo", undo(false), &[yes()], Mode::ConfirmSensitive).await;
        assert!(
            !refused.result.is_success() && refused.text().contains("changed since"),
            "{}",
            refused.text()
        );
        assert!(refused.text().contains("mine") && refused.text().contains("else"), "{}", refused.text());
        assert_eq!(world.read("a"), "mine\n");
        let forced = world.call("undo", undo(true), &[yes()], Mode::ConfirmSensitive).await;
        assert!(forced.result.is_success(), "{:?}", forced.result);
        assert_eq!(world.read("a"), "else\n");
    });
}

// req: E5, E7
#[test]
fn without_overlays_there_are_whole_copies_up_to_a_size_and_then_none() {
    as_user!("without_overlays_there_are_whole_copies_up_to_a_size_and_then_none", async {
        let world = ToolTestWorld::made("", Default::default(), |mut workplace| {
            workplace.store_settings.max_tree_bytes = 1 << 20;
            workplace.with_full_copies()
        });
        world.write("a", "one");
        let played = world.bash("python3 -c \"open('a', 'w').write('two')\"", &[yes()]).await;
        assert!(played.result.is_success(), "{:?}", played.result);
        assert!(
            played.seen().missing_guarantees.iter().any(|why| why.contains("plain copy")),
            "{:?}",
            played.seen().missing_guarantees
        );
        assert_eq!(world.read("a"), "two");
        let undone = world.call("undo", json!({"call": played.call}), &[yes()], Mode::ConfirmSensitive).await;
        assert!(undone.result.is_success(), "{:?}", undone.result);
        assert_eq!(world.read("a"), "one");
        // A rehearsal on a plain copy never makes a question unnecessary.
        let played = world.bash("python3 -c 'print(1)'", &[yes()]).await;
        assert!(played.result.is_success() && played.asked.len() == 1, "{:?}", played.result);
        // Too large for a copy: it is asked about without a rehearsal, and the question says why.
        world.write("large", &"x".repeat(2 << 20));
        let played = world.bash("python3 -c 'print(1)'", &[]).await;
        let seen = played.asked.first().and_then(|sheet| sheet.rehearsal.as_ref());
        assert!(
            matches!(seen, Some(RehearsalView::Unavailable { reason: why }) if why.contains("larger than")),
            "{seen:?}"
        );
    });
}

// req: E5
#[test]
fn what_wanted_the_network_is_run_again_and_what_reads_by_leave_is_not_rehearsed() {
    as_user!("what_wanted_the_network_is_run_again_and_what_reads_by_leave_is_not_rehearsed", async {
        let world = ToolTestWorld::new();
        // The name does not exist. The second run has network access, and fails to resolve it.
        let played = world.bash("touch made; curl -s http://gone.invalid/; true", &[yes()]).await;
        assert!(played.result.is_success(), "{:?}", played.result);
        assert!(
            !played.seen().is_committable()
                && played.seen().known_blocked_hosts().any(|(host, _)| host == "gone.invalid")
        );
        assert!(world.at("made").exists(), "{}", played.text());
        let outside = world.beside("outside/notes");
        fs::write(&outside, "x").unwrap();
        let played = world.bash(&format!("cat {}", outside.display()), &[]).await;
        let seen = played.asked.first().and_then(|sheet| sheet.rehearsal.as_ref());
        assert!(
            matches!(seen, Some(RehearsalView::Unavailable { reason: why }) if why.contains("needs a question")),
            "{seen:?} {:?}",
            played.result
        );
    });
}

// req: E6
#[test]
fn a_part_can_be_kept() {
    as_user!("a_part_can_be_kept", async {
        let world = ToolTestWorld::new();
        let path = world.at("one").to_str().unwrap().to_owned();
        let part = Reply::Partial { paths: vec![path], note: None };
        let played = world.bash("touch one two", &[part]).await;
        assert!(played.result.is_success() && played.text().contains("1 of 2"), "{:?}", played.result);
        assert!(world.at("one").exists() && !world.at("two").exists());
    });
}

// req: B1
#[test]
fn a_command_that_is_given_nothing_does_not_take_it_for_a_pipe() {
    as_user!("a_command_that_is_given_nothing_does_not_take_it_for_a_pipe", async {
        let world = ToolTestWorld::new();
        let played = world.bash("[ -p /dev/stdin ] && echo a pipe; wc -c", &[yes()]).await;
        assert_eq!(played.text(), "0\n");
        world.write("src/a", "hello\n");
        assert_eq!(world.bash("rg hello", &[yes()]).await.text(), "src/a:hello\n");
    });
}

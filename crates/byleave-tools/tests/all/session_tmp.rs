//! The temporary directory of a session: what one command leaves there, the next one finds, and nothing of the real one is seen.

use std::fs;

use byleave_gate::core::call::Mode;
use serde_json::json;

use crate::attacks::{as_user, told, world_with};
use crate::world::{CallObservation, ToolTestWorld, yes};

/// Allows what everyday commands run, and nothing outside the workspace.
const RULES: &str = "[[rule]]\nverdict = \"allow\"\nrun = [\"bash\", \"python3\", \"mkdir\", \"rm\", \"touch\", \"mv\"]\nwrite = \"{workspace}/\"\ndelete = \"{workspace}/\"\n";

fn assert_passes(played: &CallObservation, why: &str) {
    assert!(played.asked.is_empty() && played.result.is_success(), "{why}: {}", told(played));
}

async fn in_session(world: &ToolTestWorld, session: &str, command: &str) -> CallObservation {
    world.call_in(session, "bash", json!({ "command": command }), &[], Mode::ConfirmSensitive).await
}

// req: E7, E9
#[test]
fn a_session_finds_what_it_left_in_its_tmp() {
    as_user("session_tmp::a_session_finds_what_it_left_in_its_tmp", async {
        let world = world_with(RULES);
        let name = format!("byleave-{}", std::process::id());
        let own = format!("/tmp/{name}");
        let real = tempfile::NamedTempFile::with_prefix_in("byleave-real-", "/tmp").unwrap();
        fs::write(real.path(), "REAL").unwrap();
        assert_passes(&world.bash(&format!("echo one > {own}"), &[]).await, "write");
        let read = world.bash(&format!("cat {own}"), &[]).await;
        assert_passes(&read, "read");
        assert!(read.text().contains("one"), "{}", told(&read));
        assert!(!fs::exists(&own).unwrap(), "the real directory is not written");
        // Another session has its own, and nobody sees the real one.
        let other = in_session(&world, "other", &format!("cat {own}")).await;
        assert!(!other.text().contains("one"), "{}", told(&other));
        let listed = world.bash("ls -a /tmp", &[]).await;
        assert_passes(&listed, "ls");
        assert!(
            listed.text().contains(&name) && !listed.text().contains("byleave-real-"),
            "{}",
            told(&listed)
        );
        // Names beneath the root are not shown, and nobody is asked about it.
        assert!(world.bash("ls /", &[]).await.asked.is_empty());
        let shown = world.bash(&format!("cat {}", real.path().display()), &[yes()]).await;
        assert!(!shown.text().contains("REAL"), "{}", told(&shown));
        // Removed, replaced and many files stay as they are.
        for number in 0..15 {
            let command =
                format!("mkdir -p {own}.d; echo {number} > {own}.d/{number}; rm -f {own}.d/{}", number - 2);
            assert_passes(&world.bash(&command, &[]).await, "layers");
        }
        let listed = world.bash(&format!("ls {own}.d; cat {own}"), &[]).await;
        assert!(listed.text().starts_with("13\n14\none"), "{}", told(&listed));
    });
}

// req: E7, P4
#[test]
fn rules_and_file_tools_do_not_know_the_tmp_of_a_session() {
    as_user("session_tmp::rules_and_file_tools_do_not_know_the_tmp_of_a_session", async {
        let world = world_with(RULES);
        let write = json!({ "path": "/tmp/byleave-file", "content": "x" });
        let played = world.call("write_file", write, &[], Mode::ConfirmSensitive).await;
        assert!(!played.result.is_success(), "{}", told(&played));
        // A rule that names the directory counts.
        let denied = format!("{RULES}[[rule]]\nverdict = \"deny\"\nwrite = \"/tmp/\"\nreason = \"r\"\n");
        let played = world_with(&denied).bash("echo x > /tmp/byleave-file", &[]).await;
        assert!(!played.result.is_success(), "{}", told(&played));
        // A secret by its name, and what is not in the directory.
        for command in [
            "cat /tmp/id_rsa",
            "cat /tmp/../root/x",
            "rm -rf /tmp",
            "echo x > /var/tmp/byleave-file",
            "cat /tmpx",
        ] {
            let played = world.bash(command, &[]).await;
            assert!(!played.result.is_success(), "{command}: {}", told(&played));
        }
        assert!(!fs::exists("/tmp/byleave-file").unwrap());
    });
}

// req: E5, E7
#[test]
fn a_granted_run_does_not_find_what_a_rehearsal_left() {
    as_user("session_tmp::a_granted_run_does_not_find_what_a_rehearsal_left", async {
        let world = world_with(RULES);
        // It asks about a hidden file, and the answer is no.
        let planted = world.bash("echo planted > /tmp/byleave-p; echo x > .newtool", &[]).await;
        assert!(planted.asked.len() == 1 && !planted.result.is_success(), "{}", told(&planted));
        let found = world.bash("cat /tmp/byleave-p", &[]).await;
        assert!(!found.text().contains("planted"), "{}", told(&found));
        let mine = world
            .bash("ln -s /etc /tmp/byleave-l; echo y > /tmp/byleave-q; cat /tmp/byleave-q", &[yes()])
            .await;
        assert!(!mine.text().contains("planted"), "{}", told(&mine));
    });
}

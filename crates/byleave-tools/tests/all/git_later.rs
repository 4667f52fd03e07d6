//! A call without a question cannot plant something that git would run later: commands in the todo list of a rebase, and directories
//! that become repositories. An everyday rebase still works.

use std::fs;
use std::process::Command;

use byleave_gate::core::call::Mode;
use serde_json::json;

use crate::attacks::{as_user, told, world_with};
use crate::world::ToolTestWorld;

const TODO: &str = ".git/rebase-merge/git-rebase-todo";

/// Allows running and writing everything in the workspace without a question, as a generous user policy would.
fn generous() -> ToolTestWorld {
    world_with(
        "[[rule]]\nverdict = \"allow\"\nrun = [\"git\", \"mkdir\", \"python3\", \"echo\", \"printf\"]\nwrite = \"{workspace}/\"\n",
    )
}

/// Runs git outside the gate, as a person would.
fn git(world: &ToolTestWorld, words: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(words);
    git.env("GIT_EDITOR", "true").env("HOME", world.beside("home")).current_dir(world.at(""));
    git.output().unwrap().status.success()
}

/// A repository with two branches that change the same line, in a rebase that has stopped at the conflict.
fn stopped_rebase(world: &ToolTestWorld) {
    assert!(git(world, &["init", "-q", "-b", "main", "."]));
    for (file, text, branch) in [
        ("f", "one\n", None),
        ("f", "two\n", Some("other")),
        ("g", "more\n", None),
        ("f", "three\n", Some("main")),
    ] {
        match branch {
            Some("other") => assert!(git(world, &["checkout", "-q", "-b", "other"])),
            Some(branch) => assert!(git(world, &["checkout", "-q", branch])),
            None => {}
        }
        world.write(file, text);
        assert!(git(world, &["add", "."]) && git(world, &["commit", "-q", "-m", text.trim()]));
    }
    assert!(git(world, &["checkout", "-q", "other"]));
    assert!(!git(world, &["rebase", "-q", "main"]), "there is no conflict");
    assert!(world.at(TODO).exists());
}

// req: E2, E5, E7
#[test]
fn a_command_in_the_list_of_a_rebase_is_not_kept_and_an_everyday_rebase_goes_on() {
    as_user(
        "git_later::a_command_in_the_list_of_a_rebase_is_not_kept_and_an_everyday_rebase_goes_on",
        async {
            let world = generous();
            stopped_rebase(&world);
            world.write("p.py", &format!("open('{TODO}', 'a').write('exec touch pwned\\n')"));
            let played = world.bash("python3 p.py", &[]).await;
            assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
            let list = json!({ "path": TODO, "content": "exec touch pwned\n" });
            let played = world.call("write_file", list, &[], Mode::ConfirmSensitive).await;
            assert!(!played.result.is_success(), "{}", told(&played));
            assert!(!world.read(TODO).contains("exec"), "{}", world.read(TODO));
            // The conflict is resolved and the rebase completes, on the copy and for the person.
            world.write("f", "both\n");
            let played = world.bash("git add f", &[]).await;
            assert!(played.asked.is_empty() && played.result.is_success(), "{}", told(&played));
            assert!(git(&world, &["rebase", "--continue"]));
            assert_eq!((world.read("f").as_str(), world.at("pwned").exists()), ("both\n", false));
        },
    );
}

// req: E2, E5, E7
#[test]
fn a_directory_does_not_become_a_repository_unasked() {
    as_user("git_later::a_directory_does_not_become_a_repository_unasked", async {
        let world = generous();
        let config = "[core]\\nbare = false\\nworktree = ..\\nfsmonitor = touch pwned";
        let played = world
            .bash(
                &format!("mkdir -p sub/objects sub/refs; echo 'ref: refs/heads/main' >sub/HEAD; printf '{config}' >sub/config"),
                &[],
            )
            .await;
        assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
        assert!(!world.at("sub/HEAD").exists() && !world.at("sub/config").exists());
        // Step by step, with the file tools.
        let write = |path: &str| json!({ "path": path, "content": "ref: refs/heads/main" });
        let mut done = Vec::new();
        for path in ["bare/objects/x", "bare/refs/x", "bare/config", "bare/HEAD"] {
            let played = world.call("write_file", write(path), &[], Mode::ConfirmSensitive).await;
            done.push((path, played.result.is_success()));
        }
        assert_eq!(done.last(), Some(&("bare/HEAD", false)), "{done:?}");
        assert!(fs::symlink_metadata(world.at("bare/HEAD")).is_err());
        // A file with such a name is ordinary elsewhere.
        let played = world.call("write_file", write("conf/config"), &[], Mode::ConfirmSensitive).await;
        assert!(played.result.is_success(), "{}", told(&played));
    });
}

//! What the paths of changes do not say: a file that a link leads to, a tracked file in a directory of build results, a file whose changes
//! git hides. And what a yes to another run covers. Commands are unpredictable Python, so only the observation can tell.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use byleave_core::approval_scopes::{ApprovalLimits, approval_for_question, approval_scopes};
use byleave_core::id::StandingApprovalId;
use byleave_gate::approver::Reply;
use byleave_gate::core as byleave_core;
use byleave_gate::core::call::Mode;
use serde_json::json;

use crate::attacks::{as_user, told, world_with};
use crate::world::{ToolTestWorld, yes};

/// Allows everything in the workspace that no built-in rule guards.
const GENEROUS: &str = "[[rule]]\nverdict = \"allow\"\nrun = [\"git\", \"python3\", \"echo\", \"cat\"]\nwrite = \"{workspace}/\"\ndelete = \"{workspace}/\"\n";

/// A repository with one commit of these files.
fn repository(world: &ToolTestWorld, files: &[&str]) {
    for file in files {
        world.write(file, &format!("{file}\n"));
    }
    let commands: [&[&str]; 3] =
        [&["init", "-q", "-b", "main", "."], &["add", "-f"], &["commit", "-q", "-m", "x"]];
    for command in commands {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(command);
        if command.contains(&"add") {
            git.args(files);
        }
        git.env("HOME", world.beside("home")).current_dir(world.at(""));
        assert!(git.output().unwrap().status.success(), "{command:?}");
    }
}

/// Writes a Python program that the rules cannot read, and runs it.
async fn python(world: &ToolTestWorld, code: &str, replies: &[Reply]) -> crate::world::CallObservation {
    world.write("p.py", code);
    world.bash("python3 p.py", replies).await
}

// req: P4, E5
#[test]
fn a_file_that_a_guarded_link_leads_to_is_guarded() {
    as_user("second_names::a_file_that_a_guarded_link_leads_to_is_guarded", async {
        let world = world_with(GENEROUS);
        world.write("config/ci.yml", "on: push\n");
        world.write("config/plain.yml", "plain\n");
        world.write("config/real", "SECRET_VALUE\n");
        fs::create_dir_all(world.at(".github/workflows")).unwrap();
        symlink("../../config/ci.yml", world.at(".github/workflows/ci.yml")).unwrap();
        symlink("../config/real", world.at("src/.env.production")).unwrap();
        let mode = Mode::ConfirmSensitive;
        // By a program that nobody can read, by a command that names the file, and by a file tool.
        let played = python(&world, "open('config/ci.yml', 'a').write('# one\\n')", &[]).await;
        assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
        let shown = format!("{:?}", played.asked);
        assert!(shown.contains(".github/workflows/ci.yml"), "{shown}");
        let played = world.bash("echo two >> config/ci.yml", &[]).await;
        assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
        let write = json!({ "path": "config/ci.yml", "content": "three\n" });
        let played = world.call("write_file", write, &[], mode).await;
        assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
        assert_eq!(world.read("config/ci.yml"), "on: push\n");
        // A file without such a link is an ordinary one.
        let played = python(&world, "open('config/plain.yml', 'a').write('# one\\n')", &[]).await;
        assert!(played.asked.is_empty() && played.result.is_success(), "{}", told(&played));
        // A read of what a hidden link leads to.
        let played = world.call("read_file", json!({ "path": "config/real" }), &[], mode).await;
        assert!(!played.result.is_success() || played.asked.len() == 1, "{}", told(&played));
        assert!(!played.text().contains("SECRET_VALUE"), "{}", told(&played));
        let played = world.bash("cat config/real", &[]).await;
        assert!(!played.text().contains("SECRET_VALUE"), "{}", told(&played));
    });
}

// req: E9
#[test]
fn tracked_files_are_never_scratch() {
    as_user("second_names::tracked_files_are_never_scratch", async {
        let world = world_with(GENEROUS);
        fs::remove_dir_all(world.at("target")).unwrap();
        repository(&world, &["Cargo.toml", "target/kept.txt"]);
        let played = python(&world, "open('target/kept.txt', 'w').write('changed\\n')", &[]).await;
        assert!(played.result.is_success(), "{}", told(&played));
        assert_eq!(world.read("target/kept.txt"), "changed\n", "the change is a change like any other");
        // Replaced as a whole, too.
        let code = "import shutil, os\nshutil.rmtree('target')\nos.mkdir('target')\nopen('target/kept.txt', 'w').write('other\\n')";
        let played = python(&world, code, &[yes()]).await;
        assert!(played.result.is_success(), "{}", told(&played));
        assert_eq!(world.read("target/kept.txt"), "other\n");
        // Results of an allowed build are on the disk, and no change that is asked about.
        let world = world_with(GENEROUS);
        repository(&world, &["Cargo.toml"]);
        let played = python(&world, "open('target/made.txt', 'w').write('made\\n')", &[]).await;
        assert!(played.asked.is_empty() && played.result.is_success(), "{}", told(&played));
        assert_eq!(world.read("target/made.txt"), "made\n");
    });
}

// req: E5, E9
#[test]
fn a_file_whose_changes_git_would_hide_is_asked_about() {
    as_user("second_names::a_file_whose_changes_git_would_hide_is_asked_about", async {
        for flag in ["--assume-unchanged", "--skip-worktree"] {
            let world = world_with(GENEROUS);
            repository(&world, &["Cargo.toml", "lib.rs"]);
            let code = format!(
                "import subprocess\nsubprocess.check_call(['git', 'update-index', '{flag}', 'lib.rs'])"
            );
            let played = python(&world, &code, &[]).await;
            assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
            let shown = format!("{:?}", played.asked);
            assert!(shown.contains("hidden_from_git: [") && shown.contains("lib.rs"), "{shown}");
            // Staging a file hides nothing.
            let played = python(&world, "import subprocess\nopen('lib.rs', 'a').write('x')\nsubprocess.check_call(['git', 'add', 'lib.rs'])", &[]).await;
            assert!(played.asked.is_empty() && played.result.is_success(), "{}", told(&played));
        }
    });
}

// req: E5, E9
#[test]
fn a_directory_can_be_renamed() {
    as_user("second_names::a_directory_can_be_renamed", async {
        let world = world_with(GENEROUS);
        repository(&world, &["Cargo.toml", "lib/a.rs", "lib/deep/b.rs"]);
        let played = world.bash("git mv lib core", &[yes()]).await;
        assert!(played.result.is_success(), "{}", told(&played));
        assert_eq!(
            (world.read("core/deep/b.rs").as_str(), world.at("lib").exists()),
            ("lib/deep/b.rs\n", false)
        );
        let played = python(&world, "import os\nos.rename('core', 'other')", &[yes()]).await;
        assert!(played.result.is_success(), "{}", told(&played));
        assert_eq!((world.read("other/a.rs").as_str(), world.at("core").exists()), ("lib/a.rs\n", false));
    });
}

/// Answers the next question with a standing approval of the narrowest scope, as it is offered.
fn with_narrowest_approval(played: &crate::world::CallObservation) -> Reply {
    let question = played.asked.first().unwrap();
    let offers = approval_scopes(question).unwrap();
    let id = StandingApprovalId::new(uuid::Uuid::new_v4());
    let scope = offers.first().unwrap().patterns.clone();
    Reply::StandingApproval(approval_for_question(id, question, scope, ApprovalLimits::default(), 0))
}

// req: P6, E5
#[test]
fn a_standing_approval_covers_the_changes_that_it_names_and_no_others() {
    as_user("second_names::a_standing_approval_covers_the_changes_that_it_names_and_no_others", async {
        let world = world_with("");
        // What the program does depends on a file, so that each run is the same call.
        world.write("p.py", "exec(open('todo.txt').read())");
        world.write("todo.txt", "open('src/made.txt', 'a').write('1')");
        let declined = world.bash("python3 p.py", &[]).await;
        assert_eq!(declined.asked.len(), 1, "{}", told(&declined));
        let mut approval = with_narrowest_approval(&declined);
        if let Reply::StandingApproval(approval) = &mut approval {
            approval.expires_at = None;
        }
        let played = world.bash("python3 p.py # again", &[approval]).await;
        assert!(played.asked.len() == 1 && played.result.is_success(), "{}", told(&played));
        world.write("todo.txt", "open('src/made.txt', 'a').write('2')");
        let played = world.bash("python3 p.py # for the third time", &[]).await;
        assert!(played.asked.is_empty() && played.result.is_success(), "{:?}", played.asked[0].decision);
        assert_eq!(world.read("src/made.txt"), "12");
        world.write("todo.txt", "open('src/other.txt', 'w').write('x')");
        let played = world.bash("python3 p.py # for the fourth time", &[]).await;
        assert!(played.asked.len() == 1 && !played.result.is_success(), "{}", told(&played));
        assert!(!world.at("src/other.txt").exists());
    });
}

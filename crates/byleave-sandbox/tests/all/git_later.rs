//! Commands that git would run later: in the todo list of a rebase, and in directories that are repositories by their
//! content.

use std::fs;
use std::path::PathBuf;

use crate::launch::confinement;
use crate::ways::ways;
use byleave_testkit::user::unprivileged;

const TODO: &str = ".git/rebase-merge/git-rebase-todo";
const BARE: &str =
    "mkdir -p sub/objects sub/refs; echo 'ref: refs/heads/main' >sub/HEAD; echo '[core]' >sub/config";

// req: E2
#[test]
fn a_command_in_the_list_of_a_rebase_is_put_out_of_action() {
    if !unprivileged("git_later::a_command_in_the_list_of_a_rebase_is_put_out_of_action") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    let rebasing = |list: Option<&str>| {
        drop(fs::remove_dir_all(root.join(".git")));
        fs::create_dir_all(root.join(".git/rebase-merge")).unwrap();
        if let Some(list) = list {
            fs::write(root.join(TODO), list).unwrap();
        }
    };
    for (way, run) in ways(&confinement(&root)) {
        let planted = |script: &str| -> Vec<PathBuf> {
            run(script).planted.into_iter().map(|planted| planted.path).collect()
        };
        for (list, script) in [
            // Appended in place, which does not change the directory.
            (Some("pick 1 a\n"), format!("echo 'exec touch x' >>{TODO}")),
            (Some("pick 1 a\n"), format!("printf 'pick 1 a\\n\\tx touch x\\n' >{TODO}")),
            (Some("exec make\n"), format!("echo 'exec touch x' >>{TODO}")),
            // Created from nothing.
            (None, format!("echo 'exec touch x' >{TODO}")),
            (None, format!("rm -r .git/rebase-merge; mkdir .git/rebase-merge; echo 'x touch x' >{TODO}")),
            (None, "mkdir .git/sequencer; echo 'exec touch x' >.git/sequencer/todo".to_owned()),
            // An unreadable file is not skipped.
            (Some("pick 1 a\n"), format!("rm {TODO}; mkfifo {TODO}")),
            (Some("pick 1 a\n"), format!("rm {TODO}; ln -s ../../list {TODO}; echo 'exec touch x' >list")),
            (Some("pick 1 a\n"), format!("truncate -s 900M {TODO}")),
        ] {
            rebasing(list);
            assert_eq!(planted(&script).len(), 1, "{way}: {script}");
            assert!(
                fs::symlink_metadata(root.join(TODO)).is_err() || script.contains("sequencer"),
                "{way}: {script}"
            );
            drop(fs::remove_file(root.join("list")));
        }
        // Everyday work still succeeds.
        for (list, script) in [
            (Some("exec make\npick 1 a\n"), format!("echo 'exec make' >{TODO}")),
            (None, format!("printf 'pick 1 exec\\nedit 2 b\\n' >{TODO}")),
        ] {
            rebasing(list);
            assert_eq!(planted(&script), Vec::<PathBuf>::new(), "{way}: {script}");
        }
    }
}

// req: E2
#[test]
fn a_directory_that_becomes_a_repository_is_put_out_of_action_and_the_settings_of_one_are_held() {
    if !unprivileged(
        "git_later::a_directory_that_becomes_a_repository_is_put_out_of_action_and_the_settings_of_one_are_held",
    ) {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    for (way, run) in ways(&confinement(&root)) {
        run(BARE);
        assert!(!root.join("sub/HEAD").exists(), "{way}");
        fs::remove_dir_all(root.join("sub")).unwrap();
        // An existing repository: no file that git obeys is changed or added.
        for directory in ["sub/objects", "sub/refs"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("sub/HEAD"), "ref: refs/heads/main").unwrap();
        fs::write(root.join("sub/config"), "theirs").unwrap();
        run(
            "echo evil >sub/config; mkdir sub/hooks; echo evil >sub/hooks/post-checkout; echo fine >sub/objects/a",
        );
        assert_eq!(fs::read_to_string(root.join("sub/config")).unwrap(), "theirs", "{way}");
        assert!(!root.join("sub/hooks").exists() && root.join("sub/objects/a").exists(), "{way}");
        // Other files in it are treated as everywhere.
        run("mkdir sub/src; echo evil >sub/src/.envrc");
        assert!(!root.join("sub/src/.envrc").exists(), "{way}");
        for vcs in [".hg", ".jj", ".sl"] {
            run(&format!("mkdir {vcs}"));
            assert!(!root.join(vcs).exists(), "{way}: {vcs}");
        }
        for entry in fs::read_dir(&root).unwrap() {
            fs::remove_dir_all(entry.unwrap().path()).unwrap();
        }
    }
}

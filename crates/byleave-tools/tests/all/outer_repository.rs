//! A repository beside or above the workspace: ordinary work passes and is undone, and nothing else there can be read or written.

use std::fs;
use std::path::Path;
use std::process::Command;

use byleave_gate::core::call::Mode;
use byleave_gate::settings::GateSettings;
use byleave_tools::OuterRepository;
use serde_json::json;

use crate::attacks::{as_user, told};
use crate::world::{CallObservation, ToolTestWorld, tree, yes};

const UNDOABLE: &str = "[defaults]\nundoable = \"allow\"\n";

/// Runs git outside the gate, as a person would. Returns what it printed.
fn git(directory: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"]);
    git.args(["-c", "init.defaultBranch=main"]).args(words).current_dir(directory);
    let ended = git.env("HOME", directory).env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap().trim_end().to_owned()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Makes a repository with a package and files beside it, and one commit.
fn commit_project(top: &Path) {
    fs::create_dir_all(top).unwrap();
    git(top, &["init", "-q", "."]);
    git(top, &["config", "user.name", "ada"]);
    git(top, &["config", "user.email", "ada@example.org"]);
    for (name, text) in [
        ("a", "one\n"),
        (".gitignore", "*.o\n"),
        ("packages/shop/b", "two\n"),
        ("packages/other/c", "three\n"),
    ] {
        write(&top.join(name), text);
    }
    git(top, &["add", "-A"]);
    git(top, &["commit", "-qm", "first"]);
    // Neither is for commands in the workspace.
    write(&top.join("packages/other/notes"), "beside-the-workspace\n");
    write(&top.join(".env"), "KEY=above-the-workspace\n");
}

type MakeLayout = fn(&Path);

/// The three layouts: the place of the workspace, and what makes it.
const LAYOUTS: [(&str, MakeLayout); 3] = [
    ("home/side", |root| {
        commit_project(&root.join("home/main"));
        git(&root.join("home/main"), &["worktree", "add", "-q", "-b", "side", "../side"]);
    }),
    ("home/over/app", |root| {
        commit_project(&root.join("home/main"));
        let over = root.join("home/over");
        fs::create_dir_all(&over).unwrap();
        git(&over, &["init", "-q", "."]);
        git(&over, &["submodule", "--quiet", "add", root.join("home/main").to_str().unwrap(), "app"]);
        git(&over, &["commit", "-qm", "over"]);
        git(&over.join("app"), &["config", "user.name", "ada"]);
        git(&over.join("app"), &["config", "user.email", "ada@example.org"]);
    }),
    ("home/repo/packages/shop", |root| commit_project(&root.join("home/repo"))),
];

fn world_in((place, prepare): (&'static str, fn(&Path))) -> ToolTestWorld {
    ToolTestWorld::made_in(place, UNDOABLE, GateSettings::default(), prepare, |mut workplace| {
        workplace.repository = OuterRepository::find(&workplace.workspace, workplace.home.as_deref());
        workplace
    })
}

#[track_caller]
fn assert_passes(played: &CallObservation, why: &str) {
    assert!(played.asked.is_empty() && played.result.is_success(), "{why}: {}", told(played));
}

// req: E5, E9
#[test]
fn ordinary_work_in_a_repository_outside_passes_and_is_undone() {
    as_user("outer_repository::ordinary_work_in_a_repository_outside_passes_and_is_undone", async {
        for layout in LAYOUTS {
            let world = world_in(layout);
            let (place, at) = (layout.0, world.at(""));
            let played = world.bash("git status --short && git log --oneline", &[]).await;
            assert_passes(&played, place);
            assert!(played.text().contains("first") && !played.text().contains(" D "), "{}", played.text());
            world.write("new", "new\n");
            let before = git(&at, &["rev-parse", "HEAD"]);
            let clean = git(&at, &["status", "--porcelain"]);
            let played = world.bash("git add -A && git commit -qm second && git status --short", &[]).await;
            assert_passes(&played, place);
            assert_eq!(git(&at, &["log", "-1", "--format=%s"]), "second", "{place}");
            let shown = git(&at, &["show", "--name-only", "--format=", "HEAD"]);
            assert!(shown == "new" || shown == "packages/shop/new", "{place}: {shown}");
            git(&at, &["fsck", "--no-dangling"]);
            let undo = json!({ "call": played.call });
            // A tool that is not a command asks about files outside of the workspace.
            let undone = world.call("undo", undo, &[yes()], Mode::ConfirmSensitive).await;
            assert!(undone.result.is_success(), "{place}: {}", told(&undone));
            assert_eq!(git(&at, &["rev-parse", "HEAD"]), before, "{place}");
            assert_eq!(git(&at, &["status", "--porcelain"]), clean, "{place}");
            for command in [
                "git switch -qc topic && git switch -q -",
                "git worktree add -q -b wt wt && cd wt && echo x > x && git add x && git commit -qm wt",
                "git stash push -qu && git stash pop -q",
            ] {
                assert_passes(&world.bash(command, &[]).await, &format!("{place}: {command}"));
            }
            git(&at, &["rev-parse", "--verify", "-q", "topic"]);
            assert_eq!(git(&at, &["log", "-1", "--format=%s", "refs/heads/wt"]), "wt", "{place}");
            git(&at.join("wt"), &["status", "--porcelain"]);
        }
    });
}

// req: E7, P5
#[test]
fn nothing_else_outside_can_be_read_or_written() {
    as_user("outer_repository::nothing_else_outside_can_be_read_or_written", async {
        for layout in LAYOUTS {
            let world = world_in(layout);
            let place = layout.0;
            let found = OuterRepository::find(&world.at("").join("").canonicalize().unwrap(), None).unwrap();
            let directory = found.directory.to_str().unwrap();
            let root = world.beside("");
            let home = world.beside("home");
            let before: Vec<String> = tree(&root.join("home"))
                .into_iter()
                .filter(|line| {
                    !line.contains(directory) || line.contains("/hooks/") || line.contains("/config")
                })
                .collect();
            for command in [
                format!(
                    "cat {h}/main/.env {h}/repo/.env {h}/main/packages/other/notes ../other/notes ../../.env",
                    h = home.display()
                ),
                "cd .. && cat */notes */.env".to_owned(),
                "python3 -c 'import os\nfor d, _, n in os.walk(\"../..\"):\n  for f in n:\n    try: print(open(os.path.join(d, f), \"rb\").read()[:99])\n    except OSError: pass'".to_owned(),
                format!("echo x >> {}/home/main/a; echo x >> ../other/c; echo x >> ../a", root.display()),
                format!("echo '#!/bin/sh' > {directory}/hooks/post-commit"),
                format!("printf '[core]\\n\\tfsmonitor = x\\n' >> {directory}/config"),
                format!("rm -rf {directory}/hooks"),
                "git config core.hooksPath x".to_owned(),
                "git config core.fsmonitor x".to_owned(),
            ] {
                // A yes to a change outside does not help. A yes to a read would name the file.
                let reads = ["cat", "cd", "python3"].iter().any(|word| command.starts_with(word));
                let replies = if reads { vec![] } else { vec![yes(), yes()] };
                let played = world.bash(&command, &replies).await;
                let text = played.text();
                assert!(
                    !text.contains("beside-the") && !text.contains("above-the"),
                    "{place} {command}: {text}"
                );
            }
            let after: Vec<String> = tree(&root.join("home"))
                .into_iter()
                .filter(|line| {
                    !line.contains(directory) || line.contains("/hooks/") || line.contains("/config")
                })
                .collect();
            assert_eq!(before, after, "{place}");
        }
    });
}

// req: E9
#[test]
fn a_package_changes_no_entry_of_the_index_beside_it() {
    as_user("outer_repository::a_package_changes_no_entry_of_the_index_beside_it", async {
        let world = world_in(LAYOUTS[2]);
        let (at, top) = (world.at(""), world.beside("home/repo"));
        git(&top, &["branch", "elsewhere"]);
        git(&top, &["switch", "-q", "elsewhere"]);
        write(&top.join("packages/other/c"), "changed\n");
        git(&top, &["commit", "-qam", "elsewhere"]);
        git(&top, &["switch", "-q", "main"]);
        let (head, state) = (git(&at, &["rev-parse", "HEAD"]), git(&top, &["status", "--porcelain"]));
        for command in
            ["git switch -q elsewhere", "git reset -q --hard elsewhere", "git rm -q --sparse --cached :/a"]
        {
            let played = world.bash(command, &[yes(), yes()]).await;
            assert!(!played.result.is_success(), "{command}: {}", told(&played));
            assert!(played.text().contains("outside of the workspace"), "{command}: {}", played.text());
            assert_eq!(git(&at, &["rev-parse", "HEAD"]), head, "{command}");
            assert_eq!(git(&top, &["status", "--porcelain"]), state, "{command}");
        }
        // What a person staged beside the workspace is left alone.
        write(&top.join("a"), "staged\n");
        git(&top, &["add", "a"]);
        assert_passes(&world.bash("echo x > x && git add -A", &[]).await, "git add");
        assert_eq!(git(&top, &["diff", "--cached", "--name-only"]), "a\npackages/shop/x");
        assert!(!git(&top, &["ls-files", "-v"]).contains("S "));
    });
}

// req: E7
#[test]
fn a_file_that_an_agent_writes_opens_no_repository() {
    as_user("outer_repository::a_file_that_an_agent_writes_opens_no_repository", async {
        for layout in LAYOUTS {
            let folder = tempfile::tempdir_in("/var/tmp").unwrap();
            let root = folder.path().canonicalize().unwrap();
            fs::create_dir_all(root.join("home")).unwrap();
            layout.1(&root);
            let (workspace, home) = (root.join(layout.0), root.join("home"));
            let find = |at: &Path| OuterRepository::find(at, Some(&home));
            assert!(find(&workspace).is_some(), "{}", layout.0);
            // Another directory that names the same repository.
            let other = root.join("home/other");
            fs::create_dir_all(&other).unwrap();
            let named = find(&workspace).unwrap().index.parent().unwrap().to_owned();
            fs::write(other.join(".git"), format!("gitdir: {}\n", named.display())).unwrap();
            assert_eq!(find(&other), None, "{}", layout.0);
            // A repository with settings and pointers of the agent's own.
            let planted = other.join("x/.git/modules/m");
            fs::create_dir_all(&planted).unwrap();
            fs::write(planted.join("config"), format!("[core]\n\tworktree = {}\n", other.display())).unwrap();
            fs::write(other.join(".git"), format!("gitdir: {}\n", planted.display())).unwrap();
            assert_eq!(find(&other), None, "inside the workspace, it is ordinary work");
            // A directory that no repository tracks.
            let above = find(&workspace).unwrap().top.join("untracked");
            fs::create_dir_all(&above).unwrap();
            assert_eq!(find(&above), None, "{}", layout.0);
            // The home directory stays closed.
            assert_eq!(OuterRepository::find(&workspace, Some(&find(&workspace).unwrap().directory)), None);
        }
        // A back pointer to another working tree.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        LAYOUTS[0].1(&root);
        let workspace = root.join("home/side");
        fs::write(root.join("home/main/.git/worktrees/side/gitdir"), "/elsewhere/.git\n").unwrap();
        assert_eq!(OuterRepository::find(&workspace, None), None);
        // Everybody could have written the repository.
        let made = root.join("again");
        LAYOUTS[0].1(&made);
        use std::os::unix::fs::PermissionsExt as _;
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(made.join("home/main/.git"), open).unwrap();
        assert_eq!(OuterRepository::find(&made.join("home/side"), None), None);
    });
}

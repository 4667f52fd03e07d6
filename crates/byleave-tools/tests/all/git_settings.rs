//! Settings of a repository by their names: a change that runs nothing passes and is undone, one that runs something never gets in.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use byleave_gate::core::call::Mode;
use byleave_gate::core::git_settings::{Setting, compare_settings, is_plain_key, parse_settings};
use proptest::prelude::*;
use serde_json::json;

use crate::attacks::{as_user, told, world_with};
use crate::world::{CallObservation, ToolTestWorld, yes};

/// Allows everything in the workspace that no built-in rule guards.
const GENEROUS: &str = "[[rule]]\nverdict = \"allow\"\nrun = [\"git\", \"python3\", \"echo\", \"cat\"]\nwrite = \"{workspace}/\"\ndelete = \"{workspace}/\"\n";
const ORIGIN: &str = "https://example.invalid/a.git";

/// Runs git outside the gate, as a person would. Returns what it printed.
fn git(world: &ToolTestWorld, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]).args(words);
    let output = git.env("HOME", world.beside("home")).current_dir(world.at("")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A repository with one commit, a remote, and a branch of it.
fn repository() -> ToolTestWorld {
    let world = world_with(GENEROUS);
    world.write("a", "a\n");
    git(&world, &["init", "-q", "-b", "main", "."]);
    git(&world, &["add", "a"]);
    git(&world, &["commit", "-q", "-m", "one"]);
    git(&world, &["remote", "add", "origin", ORIGIN]);
    git(&world, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    git(&world, &["update-ref", "refs/remotes/origin/feature", "HEAD"]);
    world
}

fn assert_passes(played: &CallObservation, why: &str) {
    assert!(played.asked.is_empty() && played.result.is_success(), "{why}: {}", told(played));
}

// req: E5, E9
#[test]
fn everyday_settings_pass_and_are_undone() {
    as_user("git_settings::everyday_settings_pass_and_are_undone", async {
        for (command, key, value) in [
            ("git config user.name 'Ada Lovelace'", "user.name", "Ada Lovelace"),
            ("git config --local user.email ada@example.org", "user.email", "ada@example.org"),
            ("git config set pull.rebase true", "pull.rebase", "true"),
            ("git remote add fork https://example.com/b.git", "remote.fork.url", "https://example.com/b.git"),
            ("git branch -u origin/main", "branch.main.merge", "refs/heads/main"),
            ("git switch -c x --track origin/feature", "branch.x.remote", "origin"),
            ("git checkout feature", "branch.feature.merge", "refs/heads/feature"),
            ("git checkout -b y origin/main", "branch.y.remote", "origin"),
        ] {
            let world = repository();
            let before = world.read(".git/config");
            let played = world.bash(command, &[]).await;
            assert_passes(&played, command);
            assert_eq!(git(&world, &["config", "--local", key]), value, "{command}");
            let undo = json!({ "call": played.call });
            let undone = world.call("undo", undo, &[], Mode::ConfirmSensitive).await;
            assert_passes(&undone, command);
            assert_eq!(world.read(".git/config"), before, "{command}");
        }
        let world = repository();
        git(&world, &["branch", "-q", "--track", "old", "origin/feature"]);
        // To delete a branch is asked about, and takes its settings with it.
        let played = world.bash("git branch -d old", &[yes()]).await;
        assert!(played.result.is_success(), "{}", told(&played));
        assert_eq!(git(&world, &["config", "--local", "branch.old.remote"]), "");
    });
}

// req: E5, P4
#[test]
fn a_person_decides_where_a_known_remote_leads() {
    as_user("git_settings::a_person_decides_where_a_known_remote_leads", async {
        // A new remote is told.
        let world = repository();
        let played = world.bash("git remote add fork https://u:pw@example.com/b.git", &[]).await;
        assert_passes(&played, "remote add");
        let line = "[byleave] remote `fork` now leads to `https://u@example.com/b.git`";
        assert!(played.text().contains(line), "{}", told(&played));
        for (command, shown) in [
            ("git remote set-url origin https://evil.invalid/a.git", "instead of"),
            ("git config remote.origin.url https://evil.invalid/a.git", "instead of"),
            ("git remote set-url --add origin https://evil.invalid/a.git", "instead of"),
            ("git remote remove origin", "no longer leads to"),
            ("git remote rename origin other", "no longer leads to"),
            ("git config branch.main.remote fork", "now follows the remote"),
        ] {
            let world = repository();
            let before = world.read(".git/config");
            let played = world.bash(command, &[]).await;
            assert!(played.asked.len() == 1 && !played.result.is_success(), "{command}: {}", told(&played));
            assert!(format!("{:?}", played.asked).contains(shown), "{command}: {}", told(&played));
            assert_eq!(world.read(".git/config"), before, "{command}");
            let again = json!({ "command": command });
            let played = world.call_in("other", "bash", again, &[yes()], Mode::ConfirmSensitive).await;
            assert!(played.asked.len() == 1 && played.result.is_success(), "{command}: {}", told(&played));
            assert_ne!(world.read(".git/config"), before, "{command}");
        }
    });
}

/// Ways to bring a setting that runs something into a repository.
const ATTACKS: &[(&str, &str)] = &[
    ("git config alias.x '!touch m'", ""),
    ("git config core.hooksPath h", ""),
    ("git config CORE.HOOKSPATH h", ""),
    ("git config --file .git/config alias.x '!touch m'", ""),
    ("git config --worktree alias.x '!touch m'", ""),
    ("git config url.https://evil/.insteadOf https://example.invalid/", ""),
    ("git config remote.origin.uploadpack 'touch m'", ""),
    ("git config remote.origin.pushurl https://evil.invalid/", ""),
    ("git config remote.origin.vcs x", ""),
    ("git config remote.origin.proxy http://evil.invalid", ""),
    ("git config branch.main.mergeOptions '-s x'", ""),
    ("git remote add o 'ext::sh -c touch% m'", ""),
    ("git remote add --mirror=push o https://example.com/", ""),
    ("git config user.name a; git config include.path ../settings", ""),
    ("git config user.name a; git config --rename-section user alias", ""),
    ("git config --rename-section branch.main alias", ""),
    ("git config user.name $'a\\n[alias]\\n\\tx = !touch m'; git config alias.x y", ""),
    ("GIT_CONFIG=.git/config git config alias.x '!touch m'", ""),
    ("GIT_DIR=.git git config alias.x '!touch m'", ""),
    ("GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=y git config alias.x y", ""),
    (
        "git config user.name a; python3 p.py",
        "open('.git/config', 'a').write('[alias]\\n\\tx = !touch m\\n')",
    ),
    (
        "git config user.name a; python3 p.py",
        "open('.git/config', 'a').write('[core]\\r\\n\\tpager = touch m\\r\\n')",
    ),
    (
        "git config user.name a; python3 p.py",
        "t = open('.git/config').read(); open('.git/config', 'w').write('\\ufeff' + t)",
    ),
    (
        "git config user.name a; python3 p.py",
        "open('.git/config', 'a').write('[user]\\n\\tname = a\\\\\\n b\\0\\n')",
    ),
    (
        "git config user.name a; python3 p.py",
        "open('.git/config', 'a').write('[user] name = \"a\\\\\\n\\n[core] pager = touch m')",
    ),
    (
        "git config user.name a; python3 p.py",
        "import os; os.rename('.git/config', 'c'); os.symlink('../c', '.git/config')",
    ),
    ("git config user.name a; python3 p.py", "import os; os.remove('.git/config'); os.mkdir('.git/config')"),
    ("git config user.name a; python3 p.py", "import os; os.chmod('.git/config', 0o666)"),
    ("git config user.name a; python3 p.py", "import os; os.remove('.git/config')"),
    (
        "git config user.name a; python3 p.py",
        "open('.git/config.worktree', 'w').write('[alias]\\n\\tx = !touch m\\n')",
    ),
    ("git config user.name a; python3 p.py", "open('.git/hooks/post-commit', 'w').write('touch m')"),
    // A command that does not say that it changes settings cannot.
    ("python3 p.py", "open('.git/config', 'a').write('[user]\\n\\tname = a\\n')"),
];

// req: E2, E5, E7
#[test]
fn a_setting_that_runs_something_never_gets_in() {
    as_user("git_settings::a_setting_that_runs_something_never_gets_in", async {
        let mut wrong = Vec::new();
        for (command, script) in ATTACKS {
            let world = repository();
            world.write("p.py", script);
            let state = |world: &ToolTestWorld| {
                let mode = fs::symlink_metadata(world.at(".git/config")).map(|found| {
                    use std::os::unix::fs::PermissionsExt as _;
                    (found.is_file(), found.permissions().mode())
                });
                let others = [".git/config.worktree", ".git/hooks/post-commit"].map(|path| world.read(path));
                (world.read(".git/config"), mode.ok(), others)
            };
            let before = state(&world);
            let played = world.bash(command, &[]).await;
            // A command may go on without the change, as one of several.
            let plain = git(&world, &["config", "--local", "--list"]);
            let is_harmless = state(&world) == before
                || plain.lines().all(|line| !line.contains("alias") && !line.contains("pager"))
                    && state(&world).2 == before.2
                    && compare_settings("/.git/config", &before.0, &state(&world).0).is_some();
            if !is_harmless || state(&world).1 != before.1 {
                wrong.push(format!("{command} {script}: {}", told(&played)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

// req: E5
#[test]
fn a_rule_can_deny_a_setting_by_its_name() {
    as_user("git_settings::a_rule_can_deny_a_setting_by_its_name", async {
        for path in ["**/.git/config/remote.*", "**/.git/config/"] {
            let rules =
                format!("{GENEROUS}[[rule]]\nverdict = \"deny\"\nwrite = \"{path}\"\nreason = \"r\"\n");
            let world = world_with(&rules);
            git(&world, &["init", "-q", "-b", "main", "."]);
            let before = world.read(".git/config");
            let played = world.bash("git remote add fork https://example.com/b.git", &[yes()]).await;
            assert!(!played.result.is_success(), "{path}: {}", told(&played));
            assert_eq!(world.read(".git/config"), before, "{path}");
        }
    });
}

/// What git reads from a file of settings, or nothing if it refuses the file.
fn listed_by_git(text: &str) -> Option<Vec<Setting>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    fs::write(&file, text).unwrap();
    let output = Command::new("git")
        .args(["config", "--list", "-z", "--file"])
        .arg(&file)
        .env("HOME", folder.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let one = |line: &str| match line.split_once('\n') {
        Some((key, value)) => Setting { key: key.into(), value: Some(value.into()) },
        None => Setting { key: line.into(), value: None },
    };
    Some(text.split_terminator('\0').map(one).collect())
}

/// Parts of settings, plain and not, in the ways in which they can be written.
fn settings_line() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "[user]\n",
        "[USER]\r\n",
        "[core]\n",
        "[core] ",
        "[alias]\n",
        "[remote \"origin\"]\n",
        "[remote \"fo rk\"]\n",
        "[branch \"main\"]\n",
        "[branch.Main]\n",
        "[include]\n",
        "[includeIf \"gitdir:/\"]\n",
        "[url \"https://e/\"]\n",
        "[remote \"a\\\"b\\\\c\"]\n",
        "[remote\t\"o\"] \n",
        "[filter \"x\"]\n",
        "\tname = Ada\n",
        "name=a b  c \n",
        "\tname = \" x \" y ; c\n",
        "name = a\\\n  b\n",
        "name = \"a\\\"b\"\n",
        "name\n",
        "name =\n",
        "name = a # \"\n",
        "NAME = \\\\\n",
        "\tname = a\\\r\n",
        "\temail = a@b\n",
        "\turl = https://a.invalid/x\n",
        "\turl = ext::sh\n",
        "\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
        "\tmerge = refs/heads/main\n",
        "\tremote = origin\n",
        "\tpager = touch m\n",
        "\thooksPath = h\n",
        "\tx = !touch m\n",
        "\tpath = y\n",
        "\tinsteadOf = z\n",
        "\tclean = q\n",
        "# comment\n",
        "; [alias] x = y\n",
        "\n",
        " ",
        "\t",
        "\r\n",
        "\\\n",
        "\"",
        "]",
        "[",
        "=",
        "\\t",
        "\\q",
        "é",
        "filemode = true\n",
    ]);
    prop::collection::vec(part, 0..7).prop_map(|parts| parts.concat())
}

/// A text with a part of it replaced.
fn edited() -> impl Strategy<Value = (String, String)> {
    (settings_line(), settings_line(), settings_line(), settings_line())
        .prop_map(|(head, old, new, tail)| (format!("{head}{old}{tail}"), format!("{head}{new}{tail}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    // req: E5
    #[test]
    fn settings_are_read_as_git_reads_them(text in settings_line()) {
        if let Some(read) = parse_settings(&text) {
            prop_assert_eq!(Some(read), listed_by_git(&text), "{:?}", text);
        }
    }

    // req: E5, E2
    #[test]
    fn a_plain_change_changes_only_listed_settings((before, after) in edited()) {
        if let Some(change) = compare_settings("/w/.git/config", &before, &after) {
            let (Some(before), Some(after)) = (listed_by_git(&before), listed_by_git(&after)) else {
                return Err(TestCaseError::fail("git refuses it"));
            };
            let others = |all: &[Setting]| -> Vec<Setting> {
                all.iter().filter(|one| !is_plain_key(&one.key)).cloned().collect()
            };
            prop_assert_eq!(others(&before), others(&after));
            let by_key = |all: &[Setting]| -> BTreeMap<String, Vec<Option<String>>> {
                let mut map: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
                all.iter().for_each(|one| map.entry(one.key.clone()).or_default().push(one.value.clone()));
                map
            };
            let (old, new) = (by_key(&before), by_key(&after));
            let differs = old.keys().chain(new.keys()).filter(|key| old.get(*key) != new.get(*key));
            for key in differs {
                prop_assert!(is_plain_key(key) && change.keys.contains(key), "{}", key);
            }
        }
    }
}

// req: E5, E9
#[test]
fn a_working_tree_is_added_used_and_removed() {
    as_user("git_settings::a_working_tree_is_added_used_and_removed", async {
        let world = repository();
        let played = world.bash("git worktree add -b side trees/side", &[]).await;
        assert_passes(&played, "worktree add");
        assert_eq!(world.read("trees/side/a"), "a\n");
        let link = format!("gitdir: {}\n", world.at(".git/worktrees/side").to_str().unwrap());
        assert_eq!(world.read("trees/side/.git"), link);
        let id = "-c user.name=ada -c user.email=ada@example.org";
        let commit = format!("cd trees/side && echo b > b && git add b && git {id} commit -q -m two");
        git(&world, &["config", "user.name", "ada"]);
        git(&world, &["config", "user.email", "ada@example.org"]);
        let played = world.bash(&commit.replace(id, ""), &[]).await;
        assert_passes(&played, "commit in it");
        assert_eq!(git(&world, &["log", "-1", "--format=%s", "side"]), "two");
        // A second one, and the end of both.
        let played = world.bash("git worktree add --detach trees/other", &[]).await;
        assert_passes(&played, "second");
        let removed = world.bash("git worktree remove trees/side", &[]).await;
        assert_passes(&removed, "remove");
        assert!(!world.at(".git/worktrees/side").exists() && world.at("trees/other/.git").exists());
        let undone = world.call("undo", json!({ "call": removed.call }), &[], Mode::ConfirmSensitive).await;
        assert_passes(&undone, "undo");
        assert_eq!(world.read("trees/side/.git"), link);
        assert!(git(&world, &["-C", "trees/side", "status", "--short", "--branch"]).starts_with("## side"));
    });
}

// req: E2, E5, E7
#[test]
fn a_working_tree_leads_only_to_its_own_repository() {
    as_user("git_settings::a_working_tree_leads_only_to_its_own_repository", async {
        let other = "import os; os.makedirs('evil'); ";
        for script in [
            "open('t/.git', 'w').write('gitdir: ../evil\\n')".to_owned(),
            "open('.git/worktrees/t/commondir', 'w').write('../../../evil\\n')".to_owned(),
            "open('.git/worktrees/t/commondir', 'w').write('../..\\n\\n')".to_owned(),
            "open('.git/worktrees/t/gitdir', 'w').write('/etc/.git\\n')".to_owned(),
            "open('.git/worktrees/t/config.worktree', 'w').write('[alias]\\n\\tx = !touch m\\n')".to_owned(),
            format!("{other}os.remove('t/.git'); os.symlink('../evil', 't/.git')"),
            format!("{other}os.rename('t/.git', 'evil/.git')"),
        ] {
            let world = repository();
            world.write("p.py", &script);
            let played = world.bash("git worktree add -q --detach t; python3 p.py", &[]).await;
            assert!(
                !played.result.is_success() || played.text().contains("Error"),
                "{script}: {}",
                told(&played)
            );
            assert!(!world.at("t/.git").exists() && !world.at(".git/worktrees").exists(), "{script}");
            // The same to one that exists.
            git(&world, &["worktree", "add", "-q", "--detach", "t"]);
            let files = [
                "t/.git",
                ".git/worktrees/t/commondir",
                ".git/worktrees/t/gitdir",
                ".git/worktrees/t/config.worktree",
            ];
            let before = files.map(|file| world.read(file));
            let played = world.bash("git worktree list; python3 p.py", &[]).await;
            assert_eq!(files.map(|file| world.read(file)), before, "{script}: {}", told(&played));
        }
    });
}

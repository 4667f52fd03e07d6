//! Attacks that try to hide a change, or to commit another change than was shown.

use std::collections::BTreeSet;
use std::fs;

use byleave_gate::core::question_view::RehearsalView;

use crate::attacks::{Attack, ExpectedOutcome, RAN, all, as_user, broken, play, told, world};
use crate::world::{ToolTestWorld, tree, yes};

const CHANGES: &[Attack] = &[
    Attack { name: "a time and nothing else", script: "touch -d 2001-01-01 src/a", expect: ExpectedOutcome::Asked("mode or time") },
    Attack {
        name: "as long as before, and as old",
        script: "touch -r src/a target/t; printf 'ONE\\nTWO\\n' > src/a; touch -r target/t src/a",
        expect: ExpectedOutcome::Asked("changed"),
    },
    Attack { name: "an empty directory", script: "mkdir docs/new", expect: ExpectedOutcome::Asked("docs/new") },
    Attack { name: "an empty directory less", script: "rmdir empty", expect: ExpectedOutcome::Asked("deleted") },
    Attack { name: "the mode of a directory", script: "chmod 1777 docs", expect: ExpectedOutcome::Asked("mode or time") },
    Attack { name: "a name that looks the same", script: "touch $'src/\\u0430' src/B", expect: ExpectedOutcome::Asked("src/B") },
    Attack { name: "a name of two lines", script: "touch $'src/x\\ny'", expect: ExpectedOutcome::Asked("created") },
    Attack { name: "a name that is no text", script: "touch $'docs/\\xff\\xfe'", expect: ExpectedOutcome::Asked("not rehearsed") },
    Attack { name: "a pipe", script: "mkfifo docs/pipe", expect: ExpectedOutcome::Asked("docs/pipe") },
    Attack { name: "a socket", script: "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('docs/s')\"", expect: ExpectedOutcome::Asked("docs/s") },
    Attack { name: "another name for a file", script: "ln src/a src/c", expect: ExpectedOutcome::Asked("src/c") },
    Attack { name: "a file in place of a directory", script: "rm -r docs; echo x > docs", expect: ExpectedOutcome::Asked("docs") },
    Attack { name: "a directory in place of a file", script: "rm src/b; mkdir src/b; echo x > src/b/c", expect: ExpectedOutcome::Asked("src/b/c") },
    Attack { name: "a directory in place of a link", script: "rm link; mkdir link; echo x > link/kept", expect: ExpectedOutcome::Asked("link/kept") },
    Attack { name: "a link that leads elsewhere", script: "ln -sfn $(cat where/outside) link", expect: ExpectedOutcome::Asked("link") },
    Attack { name: "a link in place of a file", script: "ln -sf $(cat where/outside)/kept src/b", expect: ExpectedOutcome::Asked("src/b") },
    Attack { name: "a link in place of scratch to be", script: "ln -s $(cat where/outside) docs/__pycache__", expect: ExpectedOutcome::Asked("docs/__pycache__") },
    Attack { name: "a tree that is gone and came back with less", script: "cp -a docs target/d; rm -r docs; cp -a target/d docs; rm docs/deep/f", expect: ExpectedOutcome::Asked("docs/deep/f") },
    Attack { name: "closed for those who look", script: "mkdir docs/closed; echo x > docs/closed/f; chmod 0 docs/closed/f docs/closed", expect: ExpectedOutcome::Asked("docs/closed/f") },
    Attack { name: "a hole of many bytes", script: "truncate -s 8M docs/hole", expect: ExpectedOutcome::Asked("docs/hole") },
    Attack {
        name: "an attribute",
        script: "python3 -c \"import os; os.setxattr('src/a', 'user.x', b'y')\"",
        expect: ExpectedOutcome::Asked("limit"),
    },
    Attack {
        name: "rights for others beside the mode",
        script: "python3 -c \"
import os, struct
e = [(1, 6, -1), (2, 7, os.getuid()), (4, 4, -1), (16, 7, -1), (32, 4, -1)]
os.setxattr('src/a', 'system.posix_acl_access', struct.pack('<I', 2) + b''.join(struct.pack('<HHi', *x) for x in e))
\"",
        expect: ExpectedOutcome::Asked("src/a"),
    },
    Attack {
        name: "marks of the layer, to hide what is listed",
        script: "python3 -c \"
import os
for path in ['docs', 'src/a', 'docs/deep', 'target']:
    for name, value in [('opaque', b'y'), ('opaque', b'x'), ('whiteouts', b'y'), ('whiteout', b'y'), ('redirect', b'/src'), ('metacopy', b''), ('origin', b'x')]:
        for space in ['user.overlay.', 'trusted.overlay.', 'user.overlay.overlay.']:
            try: os.setxattr(path, space + name, value)
            except OSError: pass
open('docs/empty', 'w').close(); os.setxattr('docs/empty', 'user.overlay.whiteout', b'y')
open('docs/d', 'w').close(); os.setxattr('docs/d', 'user.overlay.overlay.whiteout', b'y')
\"",
        expect: ExpectedOutcome::Asked("docs/empty"),
    },
];

const NO_CHANGES: &[Attack] = &[
    Attack {
        name: "a bit that runs it as somebody else",
        script: "chmod u+s src/a; chmod g+s src; install -m 4755 src/a target/s; python3 -c \"import os; os.setxattr('src/a', 'security.capability', b'\\\\x01' * 20)\"",
        expect: ExpectedOutcome::Nothing("ermission"),
    },
    Attack {
        name: "marks of removal made by hand",
        script: "mknod docs/d c 0 0; mknod docs/x c 0 0; mknod target/x c 0 0; mknod docs/disk b 254 0; ls docs",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "marks of the layer and nothing else",
        script: "python3 -c \"
import os
for name, value in [('opaque', b'y'), ('redirect', b'/src'), ('metacopy', b''), ('whiteouts', b'y')]:
    try: os.setxattr('docs', 'user.overlay.' + name, value)
    except OSError: pass
\"; ls docs/d",
        expect: ExpectedOutcome::Nothing("docs/d"),
    },
    Attack {
        name: "changed and put back",
        script: "cp -p src/a target/a; echo x > src/a; cp -p target/a src/a",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "renamed and back",
        script: "mv src/a docs/q; mv docs/q src/a",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "made and removed",
        script: "echo x > src/new; rm src/new",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "scratch itself replaced",
        script: "rm -rf target; mv target t; ln -sfn $(cat where/outside) target; echo x > target/kept; ls -ld target",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "through a link in scratch",
        script: "ln -s $(cat where/outside) target/out; echo x > target/out/kept; rm -rf target/out/",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "a file larger than a file may be",
        script: "truncate -s 2G target/large || echo no",
        expect: ExpectedOutcome::Nothing("no\n"),
    },
    Attack {
        name: "a flood",
        script: "yes | head -c 20000000",
        expect: ExpectedOutcome::Nothing("[byleave] cut: "),
    },
    Attack {
        name: "many files in scratch",
        script: "cd target; for i in $(seq 3000); do echo > f$i; done",
        expect: ExpectedOutcome::Nothing(RAN),
    },
    Attack {
        name: "beside the workspace",
        script: "echo x > ../x; echo x > $(cat where/outside)/kept; echo x > /etc/x; echo x > ~/.bashrc; ls ..",
        expect: ExpectedOutcome::Nothing(RAN),
    },
];

fn prepared(world: &ToolTestWorld) {
    for (path, text) in [("docs/d", "d\n"), ("docs/deep/f", "f\n")] {
        world.write(path, text);
    }
    fs::create_dir_all(world.at("empty")).unwrap();
    std::os::unix::fs::symlink("src", world.at("link")).unwrap();
}

// req: E5
#[test]
fn changes_that_a_listing_could_miss() {
    as_user("attacks_listing::changes_that_a_listing_could_miss", async {
        play(CHANGES, prepared).await;
    });
}

// req: E5
#[test]
fn what_comes_to_nothing_leaves_nothing() {
    as_user("attacks_listing::what_comes_to_nothing_leaves_nothing", async {
        play(NO_CHANGES, prepared).await;
    });
}

/// The paths at which two trees differ.
fn differ(one: &[String], other: &[String]) -> BTreeSet<String> {
    // A line is the path, the mode and the content, which is a list of numbers or a path without spaces.
    let plain = |tree: &[String]| tree.iter().map(|line| line.replace(", ", ",")).collect::<BTreeSet<_>>();
    let path = |line: &String| line.rsplitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    plain(one).symmetric_difference(&plain(other)).map(path).collect()
}

// req: E5, E6
#[test]
fn a_yes_commits_what_was_shown_and_nothing_else() {
    a_yes_commits_what_was_shown("attacks_listing::a_yes_commits_what_was_shown_and_nothing_else", 0);
}

// req: E5, E6
#[test]
fn a_yes_commits_what_was_shown_and_nothing_else_second_third() {
    a_yes_commits_what_was_shown(
        "attacks_listing::a_yes_commits_what_was_shown_and_nothing_else_second_third",
        1,
    );
}

// req: E5, E6
#[test]
fn a_yes_commits_what_was_shown_and_nothing_else_last_third() {
    a_yes_commits_what_was_shown(
        "attacks_listing::a_yes_commits_what_was_shown_and_nothing_else_last_third",
        2,
    );
}

/// Runs every third of the changes, from this one on. All of them in one test would take too long.
fn a_yes_commits_what_was_shown(test: &str, part: usize) {
    as_user(test, async {
        let mut wrong = Vec::new();
        for attack in CHANGES.iter().skip(part).step_by(3) {
            let world = world();
            prepared(&world);
            // The first run places the script, and checks that it is asked about.
            wrong.extend(broken(&world, attack).await);
            let before = all(&world);
            let played = world.bash("python3 go.py", &[yes()]).await;
            let shown: BTreeSet<String> =
                match played.asked.first().and_then(|sheet| sheet.rehearsal.as_ref()) {
                    Some(RehearsalView::Ran { rehearsal, .. }) => {
                        rehearsal.changes.list.iter().map(|change| change.path.clone()).collect()
                    }
                    _ => BTreeSet::new(),
                };
            let changed = differ(&before, &all(&world));
            let unseen: Vec<_> = changed.iter().filter(|path| !shown.contains(*path)).collect();
            println!("{} {}", if unseen.is_empty() { "held  " } else { "BROKEN" }, attack.name);
            if !unseen.is_empty() {
                wrong.push(format!("{}: {unseen:?}\n{}", attack.name, told(&played)));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

// req: E5
#[test]
fn a_tree_deeper_than_anybody_looks() {
    as_user("attacks_listing::a_tree_deeper_than_anybody_looks", async {
        // As many descriptors as a service has.
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        let limit = rustix::process::Rlimit { current: most, maximum: most };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        for above in ["src", "target", "src/__pycache__"] {
            let world = world();
            prepared(&world);
            let before = tree(&world.at(""));
            world.write(
                "deep.py",
                &format!("import os\nos.makedirs('{above}', exist_ok=True); os.chdir('{above}')\nfor _ in range(5000):\n  os.mkdir('d'); os.chdir('d')\nprint('deep')\n"),
            );
            let played = world.bash("python3 deep.py", &[]).await;
            println!("{above}: {}", told(&played).chars().take(300).collect::<String>());
            fs::remove_file(world.at("deep.py")).unwrap();
            assert_eq!(tree(&world.at("")), before, "{above}");
            // The gate continues to work, and so does the session.
            let store =
                byleave_copy::CopyStore::open(&world.at("../../state/copies"), Default::default()).unwrap();
            store.collect_garbage(std::time::SystemTime::now()).unwrap();
            let next = world.bash("python3 -c 'print(41 + 1)'", &[]).await;
            assert!(next.text().contains("42"), "{above}: {}", told(&next));
            store.scratch("s").remove_all().unwrap();
        }
    });
}

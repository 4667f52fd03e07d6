//! Attacks that aim at a later moment: at what an allowed command runs, at a delayed commit, and at undo.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::result::CallResult;
use serde_json::json;

use crate::attacks::{Attack, ExpectedOutcome, SECRET, all, as_user, broken, part, told, world, world_with};
use crate::world::{CallObservation, ToolTestWorld, tree, yes};

/// Everything outside the workspace, which must not change.
fn outside(world: &ToolTestWorld) -> Vec<String> {
    tree(&world.beside("outside"))
}

fn python(world: &ToolTestWorld, code: &str) -> &'static str {
    world.write("p.py", code);
    "python3 p.py"
}

/// Plants compiled code where the interpreter looks first, regardless of the source.
const PLANT: &str = "
import os, py_compile, sys
open('target/evil.py', 'w').write('open(\"src/a\", \"w\").write(\"planted\")')
cache = 'lib/__pycache__/helper.' + sys.implementation.cache_tag + '.pyc'
os.makedirs('lib/__pycache__', exist_ok=True)
py_compile.compile('target/evil.py', cfile=cache, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
open('target/run.sh', 'w').write('echo planted > src/a')
";

// req: E5
#[test]
fn planting_in_scratch_what_an_allowed_command_runs() {
    as_user("attacks_later::planting_in_scratch_what_an_allowed_command_runs", async {
        // The person trusts the workspace and allows these to run, so they are never asked about.
        let rules = "[[rule]]\nverdict = \"allow\"\nrun = [\"python3 lib/main.py\", \"bash target/run.sh\"]\nwrite = \"{workspace}/\"\n";
        for (name, allowed) in
            [("compiled code", "python3 lib/main.py"), ("a script that is built", "bash target/run.sh")]
        {
            let world = world_with(rules);
            world.write("lib/main.py", "import helper\n");
            world.write("lib/helper.py", "print('helps')\n");
            world.write("target/run.sh", "echo builds\n");
            world.write("plant.py", PLANT);
            let before = all(&world);
            let planted = world.bash("python3 plant.py", &[]).await;
            assert!(planted.asked.is_empty() && planted.result.is_success(), "{name}: {}", told(&planted));
            let ran = world.bash(allowed, &[]).await;
            assert!(ran.asked.is_empty(), "{name}: {}", told(&ran));
            // What the allowed run compiled itself is on the disk.
            let is_own = |line: &String| line.contains("/lib/__pycache__");
            let left = all(&world).into_iter().filter(|line| !before.contains(line) && !is_own(line));
            let left = left.collect::<Vec<_>>();
            assert!(left.is_empty(), "{name}: {left:?} {}", told(&ran));
            // It is what the source says: the person gets nothing that was planted.
            let main =
                std::process::Command::new("python3").arg("lib/main.py").current_dir(world.at("")).output();
            assert_eq!(String::from_utf8_lossy(&main.unwrap().stdout), "helps\n", "{name}");
            let script = fs::read_to_string(world.at("target/run.sh")).unwrap();
            assert_eq!(
                (script.as_str(), fs::read_to_string(world.at("src/a")).unwrap().as_str()),
                ("echo builds\n", "one\ntwo\n")
            );
            // Rehearsals detect it, and ask about its effects.
            let seen = world
                .bash(python(&world, "import subprocess\nsubprocess.run(['bash', 'target/run.sh'])"), &[])
                .await;
            assert!(!seen.seen().changes.is_empty(), "{name}: {}", told(&seen));
        }
    });
}

// req: E5
#[test]
fn scratch_whose_place_became_a_link() {
    as_user("attacks_later::scratch_whose_place_became_a_link", async {
        let world = world();
        fs::create_dir_all(world.at("docs")).unwrap();
        world.write("../../outside/__pycache__/kept", SECRET);
        let command =
            python(&world, "import os\nos.mkdir('docs/__pycache__')\nopen('docs/__pycache__/x', 'w')");
        assert!(world.bash(command, &[]).await.asked.is_empty());
        // Such a link could come from an approved call or from the person.
        fs::remove_dir(world.at("docs")).unwrap();
        symlink(world.beside("outside"), world.at("docs")).unwrap();
        let attack = Attack {
            name: "through it",
            script: "ls -la docs/ docs/__pycache__; cat docs/__pycache__/*; echo x > docs/__pycache__/kept; echo x > docs/__pycache__/new",
            expect: ExpectedOutcome::Nothing(""),
        };
        let before = outside(&world);
        let broken = broken(&world, &attack).await;
        assert_eq!(outside(&world), before);
        // It may be asked about, because such a directory cannot be copied.
        assert!(
            broken.as_ref().is_none_or(|why| why.contains("somebody was asked") && !why.contains(SECRET)),
            "{broken:?}"
        );
    });
}

// req: E5
#[test]
fn two_at_once_on_one_scratch() {
    as_user("attacks_later::two_at_once_on_one_scratch", async {
        let world = world();
        world.write(
            "p.py",
            "import os, sys\nfor n in range(200): open(f'target/{sys.argv[1]}-{n}', 'w').write('x')\n",
        );
        let before = all(&world);
        let (one, other) = tokio::join!(
            settled(&world, "python3 p.py a", CallId::new(uuid::Uuid::new_v4()), ""),
            settled(&world, "python3 p.py b", CallId::new(uuid::Uuid::new_v4()), "")
        );
        assert!(one.is_success() && other.is_success(), "{one:?} {other:?}");
        assert_eq!(all(&world), before);
        // Either one or both completely, and nothing in part.
        let found = world.bash(python(&world, "import os\nprint(len(os.listdir('target')))"), &[]).await;
        assert!(matches!(found.text().trim(), "201" | "401"), "{}", told(&found));
    });
}

/// A call in a directory of the home, with its own id.
async fn settled(world: &ToolTestWorld, command: &str, id: CallId, cwd: &str) -> CallResult {
    let call = Call {
        id,
        tenant: TenantId::new("local").unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("agent").unwrap(),
        tool: "bash".into(),
        arguments: json!({ "command": command }),
        reason: None,
        cwd: world.at(cwd).canonicalize().unwrap().to_str().unwrap().to_owned(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    };
    world.gate.settle(call).await
}

// req: E5
#[test]
fn one_id_for_two_calls() {
    as_user("attacks_later::one_id_for_two_calls", async {
        let world = world();
        world.write("p.py", "print('harmless')\n");
        world.write("q.py", "open('src/a', 'w').write('x')\n");
        let (before, id) = (all(&world), CallId::new(uuid::Uuid::new_v4()));
        let first = settled(&world, "python3 p.py", id, "").await;
        assert!(first.to_text().contains("harmless"), "{first:?}");
        // If a call needed no question once, another call with the same id does not inherit that.
        let second = settled(&world, "python3 q.py", id, "").await;
        assert!(second.to_text().contains("harmless") || !second.is_success(), "{second:?}");
        assert_eq!(all(&world), before);
    });
}

type AttackStep = fn(&ToolTestWorld);

// req: E5, E6
#[test]
fn the_ground_turned_while_somebody_thinks() {
    const EDIT: &str = "open('src/a', 'w').write('committed')\n";
    const MAKE: &str = "import os\nos.makedirs('fresh/inner'); open('fresh/inner/f', 'w').write('committed'); open('new', 'w').write('committed')\n";
    const REMOVE: &str = "import shutil\nshutil.rmtree('docs')\n";
    let cases: [(&str, &str, AttackStep); 10] = [
        (
            "a link is where something is made in",
            "open('docs/deep/new', 'w').write('committed')\n",
            |world| {
                fs::rename(world.at("docs"), world.at("was")).unwrap();
                symlink(world.beside("outside"), world.at("docs")).unwrap();
            },
        ),
        ("a file became a link", EDIT, |world| {
            fs::remove_file(world.at("src/a")).unwrap();
            symlink(world.beside("outside/a"), world.at("src/a")).unwrap();
        }),
        ("a file became another name of one outside", EDIT, |world| {
            fs::remove_file(world.at("src/a")).unwrap();
            fs::hard_link(world.beside("outside/a"), world.at("src/a")).unwrap();
        }),
        ("its directory became a link", EDIT, |world| {
            fs::rename(world.at("src"), world.at("was")).unwrap();
            symlink(world.beside("outside"), world.at("src")).unwrap();
        }),
        ("the workspace became a link", EDIT, |world| {
            fs::create_dir(world.beside("outside/src")).unwrap();
            fs::rename(world.beside("outside/a"), world.beside("outside/src/a")).unwrap();
            let (at, outside) = (world.at("").canonicalize().unwrap(), world.beside("outside"));
            fs::rename(&at, at.with_file_name("was")).unwrap();
            symlink(outside, &at).unwrap();
        }),
        ("what is above the workspace became a link", EDIT, |world| {
            let home = world.at("..").canonicalize().unwrap();
            let outside = world.beside("outside");
            fs::create_dir_all(outside.join("w/src")).unwrap();
            fs::rename(outside.join("a"), outside.join("w/src/a")).unwrap();
            fs::rename(&home, home.with_file_name("was")).unwrap();
            symlink(outside, &home).unwrap();
        }),
        ("a link lies where something is made", MAKE, |world| {
            symlink(world.beside("outside/a"), world.at("new")).unwrap()
        }),
        ("a link lies where a directory is made", MAKE, |world| {
            symlink(world.beside("outside"), world.at("fresh")).unwrap()
        }),
        ("what is removed became a link", REMOVE, |world| {
            fs::rename(world.at("docs"), world.at("was")).unwrap();
            symlink(world.beside("outside"), world.at("docs")).unwrap();
        }),
        ("something was put into what is removed", REMOVE, |world| world.write("docs/deep/mine", "mine")),
    ];
    as_user("attacks_later::the_ground_turned_while_somebody_thinks", async move {
        for (name, code, turn) in cases {
            let world = Arc::new(world());
            world.write("../../outside/a", "kept");
            world.write("docs/deep/f", "f");
            world.write("../../outside/deep/x", "x");
            let command = python(&world, code);
            let (seen, after) = (Arc::downgrade(&world), Arc::new(Mutex::new(None)));
            let kept = Arc::clone(&after);
            let root = world.beside("");
            let top = root.clone();
            world.meanwhile(move || {
                turn(&seen.upgrade().unwrap());
                *kept.lock().unwrap() = Some(beside_state(&top));
            });
            let played = world.bash(command, &[yes()]).await;
            assert_eq!(played.asked.len(), 1, "{name}: {}", told(&played));
            assert!(!played.result.is_success(), "{name}: {}", told(&played));
            // Nothing was changed, outside or inside.
            assert_eq!(Some(beside_state(&root)), *after.lock().unwrap(), "{name}: {}", told(&played));
            println!("held   {name}");
        }
    });
}

fn beside_state(root: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<String> =
        names.filter(|path| !path.ends_with("state")).flat_map(|path| tree(&path)).collect();
    all.sort();
    all
}

async fn undo(world: &ToolTestWorld, of: &CallObservation, force: bool) -> CallObservation {
    world.call("undo", json!({"call": of.call, "force": force}), &[yes()], Mode::ConfirmSensitive).await
}

// req: E6
#[test]
fn taking_back_through_a_link() {
    as_user("attacks_later::taking_back_through_a_link", async {
        let turns: [(&str, AttackStep); 3] = [
            ("the file is a link", |world| {
                fs::remove_file(world.at("src/a")).unwrap();
                symlink(world.beside("outside/a"), world.at("src/a")).unwrap();
            }),
            ("its directory is a link", |world| {
                fs::rename(world.at("src"), world.at("was")).unwrap();
                symlink(world.beside("outside"), world.at("src")).unwrap();
            }),
            ("the workspace is a link", |world| {
                let (at, outside) = (world.at("").canonicalize().unwrap(), world.beside("outside"));
                fs::create_dir(outside.join("src")).unwrap();
                fs::write(outside.join("src/a"), "committed").unwrap();
                fs::rename(&at, at.with_file_name("was")).unwrap();
                symlink(outside, &at).unwrap();
            }),
        ];
        for (name, turn) in turns {
            for force in [false, true] {
                let world = world();
                // The same content as the commit left, so that only the link differs.
                world.write("../../outside/a", "committed");
                let command = python(&world, "open('src/a', 'w').write('committed')");
                let played = world.bash(command, &[yes()]).await;
                assert!(played.result.is_success(), "{name}: {}", told(&played));
                turn(&world);
                let before = outside(&world);
                let undone = undo(&world, &played, force).await;
                assert_eq!(outside(&world), before, "{name}, {force}: {}", told(&undone));
            }
            println!("held   {name}");
        }
    });
}

// req: E6
#[test]
fn taking_back_into_a_link() {
    as_user("attacks_later::taking_back_into_a_link", async {
        for force in [false, true] {
            let world = world();
            world.write("docs/deep/d", "d");
            world.write("../../outside/deep/x", "x");
            let removed = world.bash(python(&world, "import os\nos.remove('docs/deep/d')"), &[yes()]).await;
            assert!(removed.result.is_success(), "{}", told(&removed));
            fs::remove_dir_all(world.at("docs")).unwrap();
            symlink(world.beside("outside"), world.at("docs")).unwrap();
            let before = all(&world);
            let undone = undo(&world, &removed, force).await;
            assert!(!undone.result.is_success(), "{}", told(&undone));
            assert_eq!(all(&world), before, "{force}: {}", told(&undone));
        }
    });
}

// req: E6
#[test]
fn taking_back_what_is_not_ones_own() {
    as_user("attacks_later::taking_back_what_is_not_ones_own", async {
        let world = world();
        world.write("../v/f", "before");
        // An undo in another workspace is asked about, with its paths.
        world.write("../v/p.py", "open('f', 'w').write('after')");
        let id = CallId::new(uuid::Uuid::new_v4());
        world.answers(&[yes()]);
        let done = settled(&world, "python3 p.py", id, "../v").await;
        assert!(done.is_success(), "{done:?}");
        assert_eq!(world.read("../v/f"), "after");
        let undone = world.call("undo", json!({"call": id}), &[], Mode::ConfirmSensitive).await;
        assert!(!undone.asked.is_empty() && !undone.result.is_success(), "{}", told(&undone));
        assert_eq!(world.read("../v/f"), "after");
        // A call that was declined or never existed, or an invalid id, cannot be undone.
        let declined = world.bash(python(&world, "open('src/a', 'w').write('x')"), &[]).await;
        let before = all(&world);
        for of in [
            declined.call.to_string(),
            uuid::Uuid::new_v4().to_string(),
            "../../outside".into(),
            format!("{id}/../.."),
        ] {
            let undone = world
                .call("undo", json!({"call": of, "force": true}), &[yes()], Mode::ConfirmSensitive)
                .await;
            assert!(!undone.result.is_success(), "{of}: {}", told(&undone));
            assert_eq!(all(&world), before, "{of}");
        }
    });
}

// req: E6
#[test]
fn scratch_does_not_drive_out_what_was_there_before() {
    as_user("attacks_later::scratch_does_not_drive_out_what_was_there_before", async {
        let world = world();
        let before = all(&world);
        let edited = world.bash("sed -i s/one/1/ src/a", &[yes()]).await;
        assert!(edited.result.is_success(), "{}", told(&edited));
        // Nobody is asked about scratch of any size, so scratch must not use up the space for undo.
        let filled = world.bash("python3 -c \"open('target/large', 'wb').write(b'x' * 3000000)\"", &[]).await;
        assert!(filled.asked.is_empty(), "{}", told(&filled));
        let settings = byleave_copy::CopySettings { quota_bytes: 2_000_000, ..Default::default() };
        let store = byleave_copy::CopyStore::open(&world.beside("state/copies"), settings).unwrap();
        let tidied = store.collect_garbage(std::time::SystemTime::now()).unwrap();
        assert!(tidied.dropped.is_empty() && tidied.stored_bytes < 2_000_000, "{tidied:?}");
        let undone = undo(&world, &edited, false).await;
        assert!(undone.result.is_success(), "{}", told(&undone));
        assert_eq!(all(&world), before);
    });
}

// req: E6
#[test]
fn a_part_that_is_none() {
    as_user("attacks_later::a_part_that_is_none", async {
        let world = world();
        world.write("../../outside/a", "kept");
        let command =
            python(&world, "open('src/a', 'w').write('committed'); open('src/b', 'w').write('committed')");
        let before = all(&world);
        let [w, o] = ["", "../../outside"]
            .map(|path| world.at(path).canonicalize().unwrap().to_str().unwrap().to_owned());
        let parts: [&[&str]; 6] = [
            &[&o],
            &[".."],
            &["src/a"],
            &[&format!("{w}/src/../../../outside/a")],
            &[&format!("{w}/src/a/../b")],
            &[&format!("{w}/sr"), &format!("{w}/src/a/"), "/etc/passwd"],
        ];
        for (number, paths) in parts.iter().enumerate() {
            let played = world.bash(command, &[part(paths)]).await;
            let wanted = if number == 5 { "committed" } else { "one\ntwo\n" };
            assert_eq!(world.read("src/a"), wanted, "{paths:?}: {}", told(&played));
            assert_eq!(world.read("src/b"), "b\n", "{paths:?}: {}", told(&played));
            world.write("src/a", "one\ntwo\n");
        }
        assert_eq!(all(&world), before);
    });
}

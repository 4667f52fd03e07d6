//! Commands where the kernel gives no namespaces: they run at the path of a full copy, behind Landlock alone.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;

use byleave_gate::result::CallOutcome;
use byleave_gate::settings::GateSettings;
use byleave_sandbox::backend::Backend;
use byleave_testkit::user::unprivileged;
use byleave_tools::ContainerTrust;
use serde_json::json;

use byleave_gate::core::call::Mode;

use crate::world::{ToolTestWorld, tree, yes};

/// Runs the test as an ordinary user, and as root if root runs the tests: root keeps its id here.
macro_rules! as_everybody {
    ($name:literal, $body:expr) => {
        if unprivileged(concat!("without_namespaces::", $name)) || rustix::process::geteuid().is_root() {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on($body);
        }
    };
}

fn world(rules: &str, container: ContainerTrust) -> ToolTestWorld {
    ToolTestWorld::made(rules, GateSettings::default(), |mut workplace| {
        workplace.container = container;
        workplace.with_backend(Backend::Landlock)
    })
}

// req: E2, E5, E6
#[test]
fn ordinary_commands_are_committed_and_undone() {
    as_everybody!("ordinary_commands_are_committed_and_undone", async {
        let world = world("", ContainerTrust::Trusted);
        world.write("src/a", "one\n");
        world.write("notes", "keep\n");
        let before = tree(&world.at(""));
        let workspace = world.at("").to_str().unwrap().trim_end_matches('/').to_owned();
        let script = format!(
            "cd {workspace}/src && sed -i s/one/two/ a && pwd && cat {workspace}/src/a && rm ../notes"
        );
        let played = world.bash(&script, &[yes()]).await;
        assert!(played.result.is_success(), "{}", played.text());
        assert_eq!(played.result.to_text(), format!("{workspace}/src\ntwo\n"));
        assert_eq!((world.read("src/a"), world.at("notes").exists()), ("two\n".into(), false));
        let undone = world.call("undo", json!({"call": played.call}), &[yes()], Mode::ConfirmSensitive).await;
        assert!(undone.result.is_success(), "{}", undone.text());
        assert_eq!(tree(&world.at("")), before);
        // What only reads asks nobody, also if it is merely not understood.
        let played = world.bash("/usr/bin/python3 -c 'print(open(\"src/a\").read())'", &[]).await;
        assert!(played.result.is_success() && played.asked.is_empty(), "{:?}", played.asked);
        assert_eq!(played.result.to_text(), "one\n\n");
    });
}

// req: E5
#[test]
fn what_a_command_writes_with_the_path_of_its_copy_names_the_workspace() {
    as_everybody!("what_a_command_writes_with_the_path_of_its_copy_names_the_workspace", async {
        let world = world("", ContainerTrust::Trusted);
        world.write("file", "x\n");
        let git = "git -c user.name=a -c user.email=a@b";
        let script = format!(
            "cd {} && git init -q . && {git} add file && {git} commit -qm one",
            world.at("").display()
        );
        assert!(std::process::Command::new("bash").args(["-c", &script]).status().unwrap().success());
        let script = "git worktree add -q -b side side && pwd >where && ln -s $PWD/file link";
        let played = world.bash(script, &[yes()]).await;
        assert!(played.result.is_success(), "{}", played.text());
        let workspace = world.at("").to_str().unwrap().trim_end_matches('/').to_owned();
        assert_eq!(world.read("where"), format!("{workspace}\n"));
        assert_eq!(world.read("side/.git"), format!("gitdir: {workspace}/.git/worktrees/side\n"));
        assert_eq!(std::fs::read_link(world.at("link")).unwrap(), world.at("file"));
        // A later command finds the worktree on its own copy, and nothing else changes.
        let modified = world.at("side/.git").metadata().unwrap().mtime_nsec();
        let script =
            format!("cd side && echo y >new && {git} add new && {git} commit -qm two && git log --format=%s");
        let played = world.bash(&script, &[yes()]).await;
        assert!(played.result.is_success(), "{}", played.text());
        assert_eq!(played.result.to_text(), "two\none\n");
        let changed = |name: &str| {
            let path = world.at(name).to_str().unwrap().to_owned();
            played.seen().changes.list.iter().any(|change| change.path == path)
        };
        assert!(
            changed("side/new") && !changed("side/.git") && !changed("link"),
            "{:?}",
            played.seen().changes
        );
        assert_eq!(world.at("side/.git").metadata().unwrap().mtime_nsec(), modified);
    });
}

// req: E2, E7
#[test]
fn what_is_hidden_is_in_no_copy_and_what_is_protected_is_judged() {
    as_everybody!("what_is_hidden_is_in_no_copy_and_what_is_protected_is_judged", async {
        let world = world("", ContainerTrust::Trusted);
        world.write(".env", "KEY=places-secret\n");
        world.write("deep/.env", "KEY=places-secret\n");
        world.write(".git/hooks/pre-commit", "#!/bin/sh\n");
        let before = tree(&world.at(""));
        let script = "/usr/bin/python3 - <<'END'\nimport os\nfor path in ['.env', 'deep/.env', os.environ['REAL'] + '/.env']:\n  try: print('read', open(path).read())\n  except OSError: pass\nEND";
        let script = format!("export REAL={}\n{script}", world.at("").display());
        let played = world.bash(&script, &[yes()]).await;
        assert!(!played.text().contains("places-secret"), "{}", played.text());
        assert_eq!(tree(&world.at("")), before);
        // The placeholders are no changes. Without them the files would be deleted.
        for script in ["rm -f deep/.env; true", "echo x >>.git/hooks/pre-commit"] {
            let played =
                world.bash(&format!("/usr/bin/python3 -c \"import os; os.system('{script}')\""), &[]).await;
            assert!(matches!(played.result.outcome, CallOutcome::Refused(_)), "{script}: {}", played.text());
            assert_eq!(tree(&world.at("")), before, "{script}");
        }
    });
}

// req: E7
#[test]
fn what_landlock_cannot_give_is_waived_by_name_or_by_a_trusted_container() {
    as_everybody!("what_landlock_cannot_give_is_waived_by_name_or_by_a_trusted_container", async {
        for (container, expected) in [
            (ContainerTrust::Untrusted, "`byleave doctor` says what waives them"),
            (
                ContainerTrust::NoWall("the container is privileged".into()),
                "no effect here: the container is privileged",
            ),
        ] {
            let played = world("", container).bash("echo ran", &[yes()]).await;
            assert!(!played.result.is_success(), "{}", played.text());
            for part in ["`writes-locked-twice`", "`processes-apart`", expected] {
                assert!(played.text().contains(part), "{part}: {}", played.text());
            }
            for given in ["`writes-confined`", "`secrets-hidden`", "`protected-kept`", "`network-confined`"] {
                assert!(!played.text().contains(given), "{given}: {}", played.text());
            }
        }
        let waiving = ToolTestWorld::made("", GateSettings::default(), |mut workplace| {
            workplace.waived.extend(ContainerTrust::WAIVES);
            workplace.with_backend(Backend::Landlock)
        });
        let played = waiving.bash("echo ran", &[yes()]).await;
        assert_eq!(played.result.to_text(), "ran\n", "{}", played.text());
    });
}

// req: E5
#[test]
fn a_workspace_that_is_too_large_to_copy_is_asked_about() {
    as_everybody!("a_workspace_that_is_too_large_to_copy_is_asked_about", async {
        let world = ToolTestWorld::made("", GateSettings::default(), |mut workplace| {
            workplace.container = ContainerTrust::Trusted;
            workplace.store_settings.max_tree_bytes = 1 << 20;
            workplace.with_backend(Backend::Landlock)
        });
        world.write("small", "x");
        let played = world.bash("cat small", &[]).await;
        assert!(played.result.is_success() && played.asked.is_empty(), "{}", played.text());
        std::fs::write(world.at("large"), vec![0; 2 << 20]).unwrap();
        let played = world.bash("cat small", &[]).await;
        assert!(!played.result.is_success() && played.asked.len() == 1, "{}", played.text());
        assert!(
            format!("{:?}", played.asked).contains("a full copy of a large workspace"),
            "{:?}",
            played.asked
        );
        let played = world.bash("cat ./small", &[yes()]).await;
        assert_eq!(played.result.to_text(), "x", "{}", played.text());
    });
}

// req: E4
#[test]
fn a_granted_port_of_this_machine_can_be_reached_and_no_other() {
    as_everybody!("a_granted_port_of_this_machine_can_be_reached_and_no_other", async {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [open, closed] = [0, 1].map(|at: usize| listeners[at].local_addr().unwrap().port());
        let rules = format!("[[rule]]\nid = \"port\"\nverdict = \"allow\"\nsend = [\"localhost:{open}\"]\n");
        let world = world(&rules, ContainerTrust::Trusted);
        let script = format!(
            "/usr/bin/python3 - <<'END'\nimport socket\nreached = 0\nfor port in [{open}, {closed}]:\n  try: socket.create_connection(('127.0.0.1', port), 5); print('reached', port); reached += 1\n  except OSError as error: print('refused', port, error)\nfor family, kind in [(socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)]:\n  try: socket.socket(family, kind); print('made')\n  except OSError: pass\nimport sys; sys.exit(reached == 0)\nEND"
        );
        let played = world.bash(&script, &[yes(), yes()]).await;
        let text = played.text();
        assert!(
            text.contains(&format!("reached {open}\nrefused {closed} [Errno 13]")),
            "{text} {:?}",
            played.asked
        );
        assert!(!text.contains("made"), "{text}");
    });
}

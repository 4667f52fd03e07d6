//! Attacks on skipped questions: commands that try to have an effect without a question. Each is a script that the rules do not
//! understand.
//!
//! The property is the same for all. If nobody was asked, nothing outside the session's scratch changed, nothing was reached and no
//! secret was read. Everything else was asked about or refused. Markers are harmless, and nothing leaves this machine.

use std::fs;

use byleave_gate::approver::Reply;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::result::CallOutcome;

use crate::world::{CallObservation, ToolTestWorld, tree};
use byleave_testkit::user::unprivileged;

/// A secret that no command may ever print.
pub(crate) const SECRET: &str = "MARKER-7f3a-secret";
/// A script prints this when it has completed.
pub(crate) const RAN: &str = "ran to its end";

/// A script, and the expected outcome if the person says no.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    pub(crate) expect: ExpectedOutcome,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedOutcome {
    /// Nobody is asked, because it has no effect. It ran, and this is printed.
    Nothing(&'static str),
    /// Somebody is asked, and this is in the question view.
    Asked(&'static str),
}

/// Runs a test as another user, on an async runtime.
pub(crate) fn as_user(test: &str, body: impl Future<Output = ()>) {
    if unprivileged(test) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(body);
    }
}

/// A fixture with a few files, including secrets.
pub(crate) fn world() -> ToolTestWorld {
    world_with("")
}

pub(crate) fn world_with(rules: &str) -> ToolTestWorld {
    let world = ToolTestWorld::with(rules, Default::default());
    for path in [
        ".env",
        "src/.env.local",
        "certs/server.key",
        "../.ssh/id_ed25519",
        "../../outside/kept",
        "../../state/key",
    ] {
        world.write(path, SECRET);
    }
    fs::hard_link(world.at(".env"), world.at("notes.txt")).unwrap();
    std::os::unix::fs::symlink(".env", world.at("settings")).unwrap();
    for (path, text) in
        [("src/a", "one\ntwo\n"), ("src/b", "b\n"), ("Cargo.toml", "[package]\n"), ("target/old", "old\n")]
    {
        world.write(path, text);
    }
    // The paths, for scripts that need them.
    for (name, path) in [("outside", "../../outside"), ("state", "../../state"), ("home", "..")] {
        let path = world.at(path).canonicalize().unwrap();
        world.write(&format!("where/{name}"), path.to_str().unwrap());
    }
    world
}

/// Everything that an attack must not change: the home, the workspace, and the directories next to them.
pub(crate) fn all(world: &ToolTestWorld) -> Vec<String> {
    let [home, outside] = ["..", "../../outside"].map(|path| world.at(path).canonicalize().unwrap());
    let mut all = tree(&home);
    all.extend(tree(&outside));
    all
}

/// Runs an attack in a fixture. Returns how it broke the property.
pub(crate) async fn broken(world: &ToolTestWorld, attack: &Attack) -> Option<String> {
    world.write("attack.sh", &format!("{}\necho {RAN}\n", attack.script));
    // The rules parse shell scripts, but not what an interpreter starts.
    world.write("go.py", "import os\nos.execv('/bin/bash', ['bash', 'attack.sh'])\n");
    let before = all(world);
    let played = world.bash("python3 go.py", &[]).await;
    let (after, told) = (all(world), told(&played));
    let why = if after != before {
        let differs: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
        format!("something changed: {differs:?}")
    } else if told.contains(SECRET) || played.asked.iter().any(|sheet| format!("{sheet:?}").contains(SECRET))
    {
        "a secret was told".to_owned()
    } else {
        match attack.expect {
            ExpectedOutcome::Nothing(_) if !played.asked.is_empty() => "somebody was asked".to_owned(),
            ExpectedOutcome::Nothing(prints) if !told.contains(prints) => "it did not run so".to_owned(),
            ExpectedOutcome::Asked(_) if played.asked.is_empty() => "nobody was asked".to_owned(),
            ExpectedOutcome::Asked(shown) if !told.contains(shown) => format!("`{shown}` was not shown"),
            ExpectedOutcome::Asked(_) if told.starts_with("done") => "it was released".to_owned(),
            _ => return None,
        }
    };
    Some(format!("{}: {why}\n{told}", attack.name))
}

/// Runs every attack in its own fixture, and fails with all that broke the property.
pub(crate) async fn play(attacks: &[Attack], prepared: impl Fn(&ToolTestWorld)) {
    let mut wrong = Vec::new();
    for attack in attacks {
        let world = world();
        prepared(&world);
        let broken = broken(&world, attack).await;
        println!("{} {}", if broken.is_some() { "BROKEN" } else { "held  " }, attack.name);
        wrong.extend(broken);
    }
    assert!(wrong.is_empty(), "{} of {} attacks:\n{}", wrong.len(), attacks.len(), wrong.join("\n\n"));
}

/// The outcome of a call in lines: how it ended, what was shown, and its output.
pub(crate) fn told(played: &CallObservation) -> String {
    let ended = match &played.result.outcome {
        CallOutcome::Refused(refusal) => format!("refused {:?}", refusal.code),
        _ if played.result.is_success() => "done".to_owned(),
        _ => "done, and failed".to_owned(),
    };
    let mut told = vec![ended, played.text()];
    told.extend(played.asked.iter().map(shown));
    told.join("\n")
}

fn shown(sheet: &QuestionView) -> String {
    match &sheet.rehearsal {
        None => "shown: nothing".into(),
        Some(RehearsalView::Unavailable { reason: why }) => format!("shown: not rehearsed: {why}"),
        Some(RehearsalView::Ran { rehearsal, .. }) => {
            let mut all = Vec::new();
            all.extend(rehearsal.changes.list.iter().map(|one| format!("{} {}", one.kind(), one.path)));
            all.extend(rehearsal.changes.caveats.iter().map(|limit| format!("limit {limit}")));
            all.extend(
                rehearsal.blocked_hosts.iter().map(|want| {
                    format!("wanted {}:{}", want.host.as_deref().unwrap_or("somewhere"), want.port)
                }),
            );
            all.extend((rehearsal.leftover_processes > 0).then(|| "left running".into()));
            all.extend(rehearsal.missing_guarantees.iter().map(|weaker| format!("weaker {weaker}")));
            format!("shown: {:?} {:?}\nprinted: {}", rehearsal.status, all, rehearsal.output.text)
        }
    }
}

pub(crate) fn part(paths: &[&str]) -> Reply {
    Reply::Partial { paths: paths.iter().map(|&path| path.into()).collect(), note: None }
}

// req: E5
#[test]
fn behaving_delaying_and_staying() {
    const LEFT: ExpectedOutcome = ExpectedOutcome::Asked("left running");
    const ATTACKS: &[Attack] = &[
        Attack {
            name: "behaves where it sees an overlay",
            script: "if grep -q ' overlay ' /proc/self/mountinfo; then :; else rm -rf src; echo otherwise; fi",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "behaves where it is the first process but one",
            script: "[ \"$PPID\" -le 1 ] || [ $$ -lt 20 ] || rm -rf src",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack { name: "waits for another year", script: "[ $(date +%Y) -ge 2999 ] && rm -rf src", expect: ExpectedOutcome::Nothing(RAN) },
        Attack { name: "a job of the shell", script: "(sleep 300; rm -rf src) &", expect: LEFT },
        Attack { name: "setsid", script: "setsid -f sh -c 'sleep 300; rm -rf src' </dev/null >/dev/null 2>&1", expect: LEFT },
        Attack { name: "nohup", script: "nohup sh -c 'sleep 300; rm -rf src' >/dev/null 2>&1 &", expect: LEFT },
        Attack {
            name: "forks twice and lets go of everything",
            script: "python3 -c \"
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in range(3): os.close(fd)
time.sleep(300)
\"; sleep 0.3",
            expect: LEFT,
        },
        Attack {
            name: "a daemon that waits for the end of all others and ignores every signal",
            script: "python3 -c \"
import os, signal, time
if os.fork(): os._exit(0)
os.setsid()
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
for fd in range(3): os.close(fd)
while len([p for p in os.listdir('/proc') if p.isdigit()]) > 2: time.sleep(0.01)
open('src/a', 'w').write('late')
\"; sleep 0.2",
            expect: LEFT,
        },
        Attack {
            name: "stays by holding the mount, and writes for ever",
            script: "(exec 9<src; cd src; while :; do echo x > a; done) >/dev/null 2>&1 & sleep 0.2",
            expect: LEFT,
        },
        Attack {
            name: "kills the first process",
            script: "for signal in TERM INT HUP QUIT USR1 SEGV KILL STOP; do kill -$signal 1; done 2>/dev/null; echo lives",
            expect: ExpectedOutcome::Nothing("lives"),
        },
        Attack {
            name: "traces the first process",
            script: "python3 -c \"
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print('attached' if libc.ptrace(16, 1, 0, 0) == 0 else 'not attached')
try: open('/proc/1/mem', 'r+b'); print('opened')
except OSError: print('not opened')
\"",
            expect: ExpectedOutcome::Nothing("not attached\nnot opened"),
        },
        Attack {
            name: "looks into the first process",
            script: "ls /proc/1/fd /proc/1/cwd/ /proc/1/root/ 2>&1 | grep -c 'copies'; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep -i secret",
            expect: ExpectedOutcome::Nothing("0"),
        },
        Attack { name: "ends with everything", script: "kill -KILL -1", expect: ExpectedOutcome::Nothing(RAN) },
        Attack { name: "pretends to have been killed", script: "kill -SEGV $$", expect: ExpectedOutcome::Nothing("ended by signal 11") },
        Attack {
            name: "plans for later with the system's clocks",
            script: "for place in /var/spool/cron/crontabs /etc/cron.d /etc/systemd/system ~/.config/systemd/user ~/.config/autostart; do
mkdir -p $place; echo '* * * * * touch /tmp/late' > $place/late; done 2>/dev/null; echo 'touch late' | at now 2>/dev/null; crontab late 2>/dev/null; :",
            expect: ExpectedOutcome::Nothing(RAN),
        },
        Attack {
            name: "mounts something else over what is listed",
            script: "mount -t tmpfs none src || unshare -rm mount -t tmpfs none src || umount . || umount -l target; ls src/a",
            expect: ExpectedOutcome::Nothing("src/a"),
        },
    ];
    as_user("attacks::behaving_delaying_and_staying", async {
        play(ATTACKS, |_| {}).await;
        // A command that behaves well the first time is checked the second time as well.
        let world = world();
        let script = "if [ -e target/seen ]; then rm src/a; else touch target/seen; fi";
        let first =
            broken(&world, &Attack { name: "first", script, expect: ExpectedOutcome::Nothing(RAN) }).await;
        let second =
            broken(&world, &Attack { name: "second", script, expect: ExpectedOutcome::Asked("deleted") })
                .await;
        assert_eq!((first, second), (None, None));
    });
}

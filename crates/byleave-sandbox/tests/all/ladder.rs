//! Backends: every backend ends commands alike, and none runs a command with weaker confinement than requested.
//!
//! Needs user namespaces for the unprivileged, the system's bwrap, and Landlock; the test fails if one is
//! missing.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::{Confinement, CopiedPath, CopySource, Network, ReadScope};
use byleave_sandbox::guarantee::{Enforcement, Guarantee};
use byleave_sandbox::launch::{CommandOutcome, CommandStatus, LaunchError, RunAs};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::plan::CommandSpec;
use byleave_sandbox::probe::{BackendError, ProbeReport};

use crate::forms::unprivileged_as_own_user;
use crate::launch::{bash, confinement, text};

fn waiving_all(workspace: &std::path::Path) -> Confinement {
    let mut confinement = confinement(workspace);
    confinement.waived.extend(Guarantee::ALL);
    confinement
}

fn run(rung: Backend, script: &str, change: impl Fn(&mut Confinement)) -> CommandOutcome {
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = waiving_all(workspace.path());
    change(&mut confinement);
    let running = backend::start_on(rung, &confinement, &bash(script), RunAs::Caller);
    let running = running.unwrap_or_else(|error| panic!("{rung}: {error}"));
    running.finish().unwrap_or_else(|error| panic!("{rung}: {error}"))
}

// req: E7
#[test]
fn every_rung_stands_here_and_says_what_it_is_worth() {
    if !unprivileged_as_own_user("ladder::every_rung_stands_here_and_says_what_it_is_worth") {
        return;
    }
    let probe = ProbeReport::run_all(RunAs::Caller);
    for tried in &probe.backends {
        println!("{} {:?}", tried.backend, tried.start_time);
        tried.enforcement.iter().for_each(|(guarantee, given)| println!("    {guarantee} {given:?}"));
        assert!(tried.start_time.is_ok(), "{tried:?}");
        assert_eq!(tried.enforcement.len(), Guarantee::ALL.len());
    }
    let fully = |rung: usize| {
        probe.backends[rung].enforcement.iter().filter(|(_, given)| *given == Enforcement::Full).count()
    };
    assert!(fully(0) >= fully(1) && fully(1) > fully(2), "the strongest first");
}

// req: E2
#[test]
fn every_rung_ends_commands_alike() {
    if !unprivileged_as_own_user("ladder::every_rung_ends_commands_alike") {
        return;
    }
    for rung in Backend::ALL {
        let outcome = run(rung, "echo out; echo err >&2; exit 7", |_| {});
        assert_eq!(
            (outcome.status, text(&outcome.stdout).as_str()),
            (CommandStatus::Exited(7), "out\n"),
            "{rung}"
        );
        assert_eq!((text(&outcome.stderr).as_str(), outcome.limit_exceeded), ("err\n", None), "{rung}");
        assert_eq!(run(rung, "kill -SEGV $$", |_| {}).status, CommandStatus::Signalled(11), "{rung}");
        assert_eq!(run(rung, "kill $$; sleep 5", |_| {}).status, CommandStatus::Signalled(15), "{rung}");
        let flood =
            run(rung, "head -c 3000000 /dev/zero", |confinement| confinement.limits.output_bytes = 1000);
        assert_eq!((flood.stdout.bytes.len(), flood.stdout.dropped_bytes), (1000, 2_999_000), "{rung}");
        let spin = run(rung, "exec bash -c 'while :; do :; done'", |confinement| {
            confinement.limits.cpu_time = Duration::from_secs(1);
        });
        // The kernel's limit for one process, or our limit for all of them together, whichever comes first.
        assert_eq!(spin.limit_exceeded, Some(LimitKind::Cpu), "{rung}: {:?}", spin.status);
        let workspace = tempfile::tempdir().unwrap();
        let start = |command: &CommandSpec| {
            let running = backend::start_on(rung, &waiving_all(workspace.path()), command, RunAs::Caller);
            running.unwrap_or_else(|error| panic!("{rung}: {error}"))
        };
        let nothing = CommandSpec { argv: vec!["no-such-program".into()], ..CommandSpec::default() };
        assert_eq!(start(&nothing).finish().unwrap().status, CommandStatus::NotStarted(2), "{rung}");
        let cat =
            CommandSpec { argv: vec!["cat".into()], stdin: vec![b'x'; 300_000], ..CommandSpec::default() };
        assert_eq!(start(&cat).finish().unwrap().stdout.bytes, cat.stdin, "{rung}");
        let seen = |script: &str| text(&run(rung, script, |_| {}).stdout);
        assert_eq!(seen("ls /proc/self/fd"), "0\n1\n2\n3\n", "{rung}: 3 is `ls` looking");
        let variables = seen("env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^TMPDIR=/tmp/byleave-");
        assert_eq!(variables, "PATH=/usr/bin:/bin\n", "{rung}");
        assert_eq!(
            seen(
                "grep -e NoNewPrivs -e ^Seccomp: -e CapEff -e CapPrm /proc/self/status | tr -s '\\t\\n0' ' ' "
            ),
            "CapPrm: CapEff: NoNewPrivs: 1 Seccomp: 2 ",
            "{rung}"
        );
        let written =
            "touch x ${TMPDIR:-/tmp}/y && echo ok; touch /etc/x /var/tmp/../x 2>/dev/null || echo no";
        assert_eq!(seen(written), "ok\nno\n", "{rung}");
    }
}

/// A process that is not related to the sandbox.
struct UnrelatedProcess(std::process::Child);

impl UnrelatedProcess {
    fn new() -> Self {
        let mut sleep = std::process::Command::new("sleep");
        sleep.arg("4747").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(sleep.spawn().unwrap())
    }
}

impl Drop for UnrelatedProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

pub(crate) fn anything_runs(needle: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut commands =
        processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    commands.any(|command| command.contains(needle))
}

// req: E2
#[test]
fn nothing_outlives_a_command_on_any_rung() {
    if !unprivileged_as_own_user("ladder::nothing_outlives_a_command_on_any_rung") {
        return;
    }
    // A process of the same user outside the sandbox must survive.
    let mut bystander = UnrelatedProcess::new();
    for rung in Backend::ALL {
        let workspace = tempfile::tempdir().unwrap();
        let script = "trap '' TERM; for i in $(seq 50); do setsid sleep 45451 & done; (setsid sleep 45451 &); echo on; ";
        let outcome = run(rung, script, |_| {});
        assert_eq!(
            (outcome.status, text(&outcome.stdout).as_str()),
            (CommandStatus::Exited(0), "on\n"),
            "{rung}"
        );
        assert!(!anything_runs("sleep\u{0}45451"), "{rung}: after its end");
        let late = run(rung, &format!("{script} wait"), |confinement| {
            confinement.limits.wall_time = Duration::from_secs(1)
        });
        assert_eq!(
            (late.status, late.limit_exceeded),
            (CommandStatus::Signalled(9), Some(LimitKind::Wall)),
            "{rung}"
        );
        assert!(!anything_runs("sleep\u{0}45451"), "{rung}: after its time");
        // It cannot kill or stop its supervisor.
        let parent = run(rung, "kill -9 $PPID; kill -STOP $PPID; kill -9 -1; sleep 46461 & echo on", |_| {});
        assert!(
            matches!(parent.status, CommandStatus::Exited(0) | CommandStatus::Signalled(9)),
            "{rung}: {parent:?}"
        );
        assert!(!anything_runs("sleep\u{0}46461"), "{rung}");
        let confined = waiving_all(workspace.path());
        let start = || backend::start_on(rung, &confined, &bash("sleep 48481"), RunAs::Caller).unwrap();
        drop(start());
        assert!(!anything_runs("sleep\u{0}48481"), "{rung}: dropped");
        let running = start();
        let stopper = running.stopper().unwrap();
        let ender = std::thread::spawn(move || stopper.stop());
        assert_eq!(running.finish().unwrap().status, CommandStatus::Signalled(9), "{rung}");
        ender.join().unwrap().unwrap();
    }
    assert!(bystander.0.try_wait().unwrap().is_none(), "somebody else was killed");
    let printed = text(&run(Backend::Landlock, "mkdir -m 0 $TMPDIR/locked; echo $TMPDIR", |_| {}).stdout);
    assert!(
        printed.starts_with("/tmp/byleave-") && !std::path::Path::new(printed.trim()).exists(),
        "{printed}"
    );
}

// req: E2
#[test]
fn memory_of_a_process_that_nobody_may_look_into_counts() {
    if !unprivileged_as_own_user("ladder::memory_of_a_process_that_nobody_may_look_into_counts") {
        return;
    }
    let take = "import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nfd = os.memfd_create('x')\nfor n in range(100): os.write(fd, bytes(1 << 20))\ntime.sleep(1000)";
    let ended = run(Backend::Landlock, &format!("exec python3 -c \"{take}\""), |confinement| {
        confinement.limits.memory_bytes = 64 << 20;
        confinement.limits.wall_time = Duration::from_secs(120);
    });
    assert_eq!(ended.limit_exceeded, Some(LimitKind::Memory), "{ended:?}");
}

// req: E2
#[test]
fn a_fork_bomb_that_no_limit_of_the_kernel_holds_is_ended() {
    // The kernel does not count the processes of root.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let few = |confinement: &mut Confinement| {
        confinement.limits.pids = 200;
        confinement.limits.wall_time = Duration::from_secs(120);
    };
    let ended = run(Backend::Landlock, "exec perl -e 'fork for 1..11; sleep 45471'", few);
    assert_eq!(ended.limit_exceeded, Some(LimitKind::Pids), "{ended:?}");
    // A command beside many processes of others is stopped while its own are counted, and goes on.
    let mut others = std::process::Command::new("perl");
    let mut others = others
        .args(["-e", "for (1..150) { fork or do { sleep 45481; exit } } $| = 1; print \"x\"; sleep 45481"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = "for n in 1 2 3 4 5 6 7 8; do sleep 0.2; done; echo on";
    let beside = run(Backend::Landlock, script, few);
    let group = std::process::Command::new("pkill").args(["-P", &others.id().to_string()]).status().unwrap();
    others.kill().unwrap();
    others.wait().unwrap();
    assert!(group.success());
    assert_eq!(
        (beside.status, text(&beside.stdout).as_str()),
        (CommandStatus::Exited(0), "on\n"),
        "{beside:?}"
    );
}

// req: E7
#[test]
fn the_highest_rung_that_gives_everything_is_taken_or_none() {
    if !unprivileged_as_own_user("ladder::the_highest_rung_that_gives_everything_is_taken_or_none") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let mut probe = ProbeReport::run_all(RunAs::Caller);
    let mut asked = confinement(workspace.path());
    let chosen = |probe: &ProbeReport, asked: &Confinement| probe.choose(asked);
    assert_eq!(chosen(&probe, &asked).unwrap(), Backend::Native);
    let fall = |probe: &mut ProbeReport, at: usize| {
        probe.backends[at].start_time =
            Err(BackendError { reason: "not today".into(), remedies: Vec::new() });
    };
    fall(&mut probe, 0);
    let refused = chosen(&probe, &asked).unwrap_err().to_string();
    assert!(refused.contains("`tmp-limited`") && !refused.contains("writes"), "{refused}");
    asked.waived.insert(Guarantee::TmpLimited);
    assert_eq!(chosen(&probe, &asked).unwrap(), Backend::Bwrap);
    asked.network = Network::Proxied;
    let refused = chosen(&probe, &asked).unwrap_err().to_string();
    assert!(refused.contains("`network-confined`") && !refused.contains("writes"), "{refused}");
    asked.network = Network::Off;
    fall(&mut probe, 1);
    let refused = probe.run(&asked, &bash("true")).unwrap_err();
    let LaunchError::Unenforceable(lacking) = &refused else { panic!("{refused}") };
    let names: Vec<&str> = lacking.missing.iter().map(|(guarantee, _)| guarantee.name()).collect();
    let expected = ["writes-locked-twice", "processes-apart", "privileges-dropped"];
    assert_eq!(names, expected);
    asked.waived.extend(lacking.missing.iter().map(|(guarantee, _)| *guarantee));
    assert_eq!(probe.run(&asked, &bash("exit 3")).unwrap().status, CommandStatus::Exited(3));
    fall(&mut probe, 2);
    let refused = probe.run(&asked, &bash("true")).unwrap_err();
    assert!(
        matches!(refused, LaunchError::NoBackend { .. }) && refused.to_string().contains("not today"),
        "{refused}"
    );
}

// req: E2
#[test]
fn root_has_no_capabilities_behind_landlock_alone_and_does_not_run_in_bwrap() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let waiving = waiving_all(&workspace.path().canonicalize().unwrap());
    let refused = backend::start_on(Backend::Bwrap, &waiving, &bash("true"), RunAs::Caller);
    assert!(matches!(refused, Err(LaunchError::Root)));
    let probe = ProbeReport::run_all(RunAs::Caller);
    assert_eq!(probe.available().collect::<Vec<_>>(), [Backend::Native, Backend::Landlock]);
    let script =
        "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status; id -u; cat /etc/shadow && echo read";
    let command = bash(script);
    let outcome =
        backend::start_on(Backend::Landlock, &waiving, &command, RunAs::Caller).unwrap().finish().unwrap();
    let printed = text(&outcome.stdout);
    assert_eq!(printed.matches("\t0000000000000000").count(), 4, "{printed}");
    assert!(printed.contains("NoNewPrivs:\t1\n0\n") && !printed.contains("read"), "{printed}");
    let advice = &probe.backends[1].start_time.as_ref().unwrap_err().remedies;
    assert!(advice.join("").contains("another user"), "{advice:?}");
}

/// A workspace with a full copy of it, as a store makes one: without the content of what is hidden.
fn copied(folder: &std::path::Path) -> Confinement {
    let (workspace, tree) = (folder.join("w"), folder.join("store/tree"));
    for directory in [&workspace, &tree] {
        fs::create_dir_all(directory.join("sub")).unwrap();
        fs::write(directory.join("a"), "a").unwrap();
    }
    fs::write(workspace.join(".env"), "secret").unwrap();
    let mut confinement = confinement(&workspace);
    confinement.environment.insert("HOME".into(), "/nonexistent".into());
    confinement.files.cwd = workspace.join("sub");
    confinement.files.readable = ReadScope::Only(vec![workspace.clone()]);
    confinement.files.hidden = vec![workspace.join(".env"), folder.join("store")];
    confinement.files.copies = vec![CopiedPath { root: workspace, source: CopySource::Tree { path: tree } }];
    confinement.waived = [
        Guarantee::WritesLockedTwice,
        Guarantee::ProcessesApart,
        Guarantee::PrivilegesDropped,
        Guarantee::TmpLimited,
    ]
    .into();
    confinement
}

// req: E2, E5
#[test]
fn without_namespaces_a_command_works_at_the_path_of_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let confinement = copied(&folder);
    let script = format!(
        "pwd; cat {0}/w/a; cat {0}/w/.env ../.env; echo b >../b; echo b >{0}/w/b; rm {0}/w/a; echo x >~/x && echo home; ln ../b linked && mv linked ../moved && python3 -c 'import os; os.rename(\"../moved\", \"renamed\"); print(\"renamed\")'",
        folder.display()
    );
    let outcome = backend::start_on(Backend::Landlock, &confinement, &bash(&script), RunAs::Caller);
    let outcome = outcome.unwrap().finish().unwrap();
    let tree = folder.join("store/tree");
    let expected = format!("{}\na", tree.join("sub").display());
    assert_eq!(text(&outcome.stdout), format!("{expected}home\nrenamed\n"), "{outcome:?}");
    assert!(tree.join("b").exists() && !folder.join("w/b").exists() && folder.join("w/a").exists());
    // What the copy must not have does not run, whoever made the copy.
    fs::write(tree.join(".env"), "secret").unwrap();
    let refused = backend::start_on(Backend::Landlock, &confinement, &bash("true"), RunAs::Caller);
    assert!(matches!(refused, Err(LaunchError::HiddenInCopy(path)) if path == folder.join("w/.env")));
}

/// Changes modes, owners, times and attributes in every way that Python has, and prints those that were refused.
const CHANGES: &str = r#"
import fcntl, os, struct, sys
def tries(what, change):
    try:
        change()
    except OSError as error:
        print(what, error.errno)
def change_all(path, name):
    directory, entry = os.path.split(path)
    at, fd = os.open(directory, os.O_PATH), os.open(path, os.O_RDONLY)
    tries("chmod", lambda: os.chmod(path, 0o601))
    tries("fchmod", lambda: os.fchmod(fd, 0o601))
    tries("fchmodat", lambda: os.chmod(entry, 0o601, dir_fd=at))
    tries("own-fd", lambda: os.chmod("/proc/self/fd/%d" % fd, 0o601))
    tries("chown", lambda: os.chown(path, os.getuid(), -1))
    tries("fchown", lambda: os.fchown(fd, -1, os.getgid()))
    tries("lchown", lambda: os.lchown(path, -1, -1))
    tries("utime", lambda: os.utime(path, (5, 6)))
    tries("utime-fd", lambda: os.utime(fd, (5, 6)))
    tries("utime-now", lambda: os.utime(path))
    tries("utime-at", lambda: os.utime(entry, (5, 6), dir_fd=at, follow_symlinks=False))
    tries("setxattr", lambda: os.setxattr(path, "user.byleave", b"x"))
    tries("fsetxattr", lambda: os.setxattr(fd, "user.byleave", b"y"))
    tries("removexattr", lambda: os.removexattr(path, "user.byleave"))
    print(name, "done")
change_all(sys.argv[1], "inside")
os.symlink(sys.argv[2], "link")
for path in [sys.argv[2], os.path.abspath("link"), os.path.relpath(sys.argv[2])]:
    change_all(path, "outside")
os.chdir(os.path.dirname(sys.argv[2]))
change_all("./" + os.path.basename(sys.argv[2]), "outside")
fd = os.open(sys.argv[2], os.O_RDONLY)
tries("flags", lambda: fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x40)))
tries("set-id", lambda: os.chmod(sys.argv[1], 0o4755))
tries("privileges", lambda: os.setxattr(sys.argv[1], "security.capability", b"x" * 20))
"#;

/// Returns what a change of a file leaves: mode, owner, time of modification, attributes.
fn metadata_of(path: &std::path::Path) -> (u32, u32, i64, usize) {
    use std::os::unix::fs::MetadataExt as _;
    let found = fs::metadata(path).unwrap();
    let attributes = rustix::fs::listxattr(path, &mut [0u8; 0][..]).unwrap_or_default();
    (found.mode(), found.uid(), found.mtime(), attributes)
}

fn confines_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut confinement = copied(&folder);
    let outside = folder.join("outside");
    fs::create_dir(&outside).unwrap();
    let (inside, outside) = (folder.join("store/tree/a"), outside.join("a"));
    fs::write(&outside, "outside").unwrap();
    let ReadScope::Only(readable) = &mut confinement.files.readable else { panic!("all is readable") };
    readable.push(outside.parent().unwrap().to_path_buf());
    let before = metadata_of(&outside);
    let command = CommandSpec {
        argv: ["python3", "-c", CHANGES, inside.to_str().unwrap(), outside.to_str().unwrap()]
            .map(Into::into)
            .into(),
        ..CommandSpec::default()
    };
    let outcome = backend::start_on(Backend::Landlock, &confinement, &command, RunAs::Caller).unwrap();
    let outcome = outcome.finish().unwrap();
    let printed = text(&outcome.stdout);
    let (in_copy, rest) = printed.split_once("inside done\n").unwrap_or_else(|| panic!("{outcome:?}"));
    assert_eq!(in_copy, "", "all of it works on a copy");
    let refused: Vec<&str> = rest.lines().filter(|line| line.ends_with(" 1")).collect();
    // The link itself is in the copy: its own owner and times can be changed.
    let allowed = ["lchown", "utime-at"];
    for what in [
        "chmod",
        "fchmod",
        "fchmodat",
        "own-fd",
        "chown",
        "fchown",
        "utime",
        "utime-fd",
        "utime-now",
        "setxattr",
        "fsetxattr",
    ] {
        let count = refused.iter().filter(|line| line.split(' ').next() == Some(what)).count();
        assert_eq!(count, 4, "{what}: {printed}");
    }
    for what in allowed {
        let count = refused.iter().filter(|line| line.split(' ').next() == Some(what)).count();
        assert_eq!(count, 3, "{what}: {printed}");
    }
    for what in ["flags 1", "set-id 1", "privileges 1"] {
        assert!(refused.contains(&what), "{what}: {printed}");
    }
    assert_eq!(rest.matches("outside done").count(), 4, "{printed}");
    assert_eq!(metadata_of(&outside), before);
    assert_eq!(metadata_of(&inside).0 & 0o7777, 0o601);
    assert_eq!(metadata_of(&inside).2, 6);
}

// req: E2
#[test]
fn without_namespaces_modes_owners_times_and_attributes_change_only_on_the_copy() {
    confines_metadata();
    // If this is root, another user as well.
    unprivileged_as_own_user(
        "ladder::without_namespaces_modes_owners_times_and_attributes_change_only_on_the_copy",
    );
}

// req: E2
#[test]
fn without_namespaces_archives_and_copies_keep_modes_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let script = "cd .. && mkdir t && echo x >t/run && chmod 751 t/run && touch -d 2001-02-03T04:05:06Z t/run && tar cf t.tar t && rm -r t && tar xpf t.tar && \
        cp -a t u && stat -c '%a %Y' t/run u/run && python3 -c 'import shutil; shutil.copy2(\"u/run\", \"v\")' && stat -c '%a %Y' v && install -m 640 v w && stat -c %a w";
    let outcome = backend::start_on(Backend::Landlock, &copied(&folder), &bash(script), RunAs::Caller);
    let outcome = outcome.unwrap().finish().unwrap();
    let expected = "751 981173106\n751 981173106\n751 981173106\n640\n";
    assert_eq!((text(&outcome.stdout).as_str(), text(&outcome.stderr).as_str()), (expected, ""));
}

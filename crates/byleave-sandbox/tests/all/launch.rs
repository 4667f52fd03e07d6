//! The launcher: how commands end, their environment, and that nothing is left of them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use byleave_sandbox::confinement::{Confinement, FileConfinement, Network, SandboxPorts};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, CommandOutcome, CommandStatus, RunAs};
use byleave_sandbox::limits::{LimitKind, ResourceLimits};
use byleave_sandbox::plan::CommandSpec;

use byleave_testkit::user::unprivileged;

pub(crate) fn confinement(workspace: &std::path::Path) -> Confinement {
    let workspace = workspace.canonicalize().unwrap();
    Confinement {
        files: FileConfinement {
            cwd: workspace.clone(),
            writable: vec![workspace],
            ..FileConfinement::default()
        },
        network: Network::Off,
        ports: SandboxPorts::default(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        limits: ResourceLimits::default(),
        waived: BTreeSet::from([Guarantee::MemoryLimited]),
        required: BTreeSet::new(),
    }
}

pub(crate) fn bash(script: &str) -> CommandSpec {
    CommandSpec { argv: vec!["bash".into(), "-c".into(), script.into()], ..CommandSpec::default() }
}

fn run(script: &str, change: impl Fn(&mut Confinement)) -> CommandOutcome {
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    change(&mut confinement);
    launch::run(&confinement, &bash(script)).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn text(printed: &launch::CapturedOutput) -> String {
    String::from_utf8_lossy(&printed.bytes).into_owned()
}

/// Where root has a workspace of its own, and one of another user: in both, a command owns what the owner of the workspace owns.
// req: E2, E7
#[test]
fn a_command_of_root_is_an_unprivileged_user_that_owns_the_workspace() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let script = "id -u; id -un; ls -ld . theirs; grep Cap /proc/self/status; echo 1 > new; echo 2 >> kept; chmod 600 kept; \
        cat /etc/shadow; cat closed; echo 3 > theirs; echo > /proc/sys/kernel/core_pattern; ls /root";
    for owner in [0, byleave_testkit::user::UID] {
        let workspace = tempfile::tempdir().unwrap();
        let at = |name: &str| workspace.path().join(name);
        for (name, mode, of) in [("kept", 0o600, owner), ("closed", 0o600, 4242), ("theirs", 0o644, 4242)] {
            std::fs::write(at(name), "0\n").unwrap();
            std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
            std::os::unix::fs::chown(at(name), Some(of), Some(of)).unwrap();
        }
        std::os::unix::fs::chown(workspace.path(), Some(owner), Some(owner)).unwrap();
        let outcome = launch::run(&confinement(workspace.path()), &bash(script));
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        let (out, err) = (text(&outcome.stdout), text(&outcome.stderr));
        let mut lines = out.lines();
        let id: u32 = lines.next().unwrap().parse().unwrap();
        assert!(id > 65_000 && id != byleave_testkit::user::UID, "{out}");
        assert_eq!(lines.next(), Some("byleave"), "{out}");
        assert!(lines.next().unwrap().contains(" byleave byleave "), "it seems to own the workspace: {out}");
        assert!(!lines.next().unwrap().contains("byleave"), "and no file of others: {out}");
        let none =
            lines.filter(|line| line.starts_with("Cap")).all(|line| line.ends_with("0000000000000000"));
        assert!(none, "no capability: {out}");
        assert_eq!(std::fs::read_to_string(at("kept")).unwrap(), "0\n2\n", "{err}");
        assert_eq!(std::fs::read_to_string(at("theirs")).unwrap(), "0\n", "{err}");
        let made = std::fs::metadata(at("new")).unwrap();
        assert_eq!((made.uid(), made.gid()), (owner, owner), "the owner on disk is the one of the workspace");
        for refused in ["/etc/shadow", "closed", "theirs", "core_pattern"] {
            assert!(
                err.lines().any(|line| line.contains(refused) && line.contains("denied")),
                "{refused}: {err}"
            );
        }
    }
}

// req: E2
#[test]
fn root_can_name_another_user_for_a_command() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let identity = byleave_sandbox::plan::UserIdentity {
        uid: byleave_testkit::user::UID,
        gid: byleave_testkit::user::UID,
    };
    std::os::unix::fs::chown(workspace.path(), Some(identity.uid), Some(identity.gid)).unwrap();
    let running =
        launch::start(&confinement(workspace.path()), &bash("id -u; touch here"), RunAs::User(identity));
    let outcome = running.unwrap_or_else(|error| panic!("{error}")).finish().unwrap();
    assert_eq!(text(&outcome.stdout), "61001\n", "{}", text(&outcome.stderr));
    assert!(workspace.path().join("here").exists());
}

// req: E7
#[test]
fn what_is_required_and_not_given_in_full_is_refused_before_anything_runs() {
    let workspace = tempfile::tempdir().unwrap();
    if !unprivileged("launch::what_is_required_and_not_given_in_full_is_refused_before_anything_runs") {
        return;
    }
    let mut confinement = confinement(workspace.path());
    // Without a cgroup each process is limited separately, which is enough if nothing more is required.
    confinement.waived.clear();
    assert_eq!(launch::run(&confinement, &bash("true")).unwrap().status, CommandStatus::Exited(0));
    confinement.required.insert(Guarantee::MemoryLimited);
    match (byleave_sandbox::cgroup::delegated_cgroup(), launch::run(&confinement, &bash("true"))) {
        (Ok(_), ran) => assert_eq!(ran.unwrap().status, CommandStatus::Exited(0)),
        (Err(absent), ran) => {
            let refused = ran.unwrap_err().to_string();
            assert!(refused.contains("memory-limited"), "{refused}");
            assert!(refused.contains(&absent.to_string()), "says what is missing: {refused}");
        }
    }
}

// req: E2
#[test]
fn a_command_ends_as_it_ends_and_its_output_is_kept_up_to_the_limit() {
    if !unprivileged("launch::a_command_ends_as_it_ends_and_its_output_is_kept_up_to_the_limit") {
        return;
    }
    let outcome = run("echo out; echo err >&2; exit 7", |_| {});
    assert_eq!((outcome.status, text(&outcome.stdout).as_str()), (CommandStatus::Exited(7), "out\n"));
    assert_eq!((text(&outcome.stderr).as_str(), outcome.limit_exceeded), ("err\n", None));
    assert_eq!(run("kill -SEGV $$", |_| {}).status, CommandStatus::Signalled(11));
    // A program that is process 1 would ignore its own SIGTERM.
    assert_eq!(run("kill $$; sleep 5", |_| {}).status, CommandStatus::Signalled(15));
    let flood = run("head -c 3000000 /dev/zero", |confinement| confinement.limits.output_bytes = 1000);
    assert_eq!((flood.stdout.bytes.len(), flood.stdout.dropped_bytes), (1000, 2_999_000));
    let workspace = tempfile::tempdir().unwrap();
    let nothing = CommandSpec { argv: vec!["no-such-program".into()], ..CommandSpec::default() };
    let outcome = launch::run(&confinement(workspace.path()), &nothing).unwrap();
    assert_eq!(outcome.status, CommandStatus::NotStarted(2));
    let cat = CommandSpec { argv: vec!["cat".into()], stdin: vec![b'x'; 300_000], ..CommandSpec::default() };
    let outcome = launch::run(&confinement(workspace.path()), &cat).unwrap();
    assert_eq!(outcome.stdout.bytes, cat.stdin);
    // Ignored signals are not inherited: a Rust program ignores SIGPIPE.
    assert_eq!(text(&run("yes | head -1; echo ${PIPESTATUS[0]}", |_| {}).stdout), "y\n141\n");
}

// req: E2
#[test]
fn what_takes_too_long_is_killed_with_everything_it_started() {
    if !unprivileged("launch::what_takes_too_long_is_killed_with_everything_it_started") {
        return;
    }
    let many = "trap '' TERM; for i in $(seq 150); do setsid sleep 4242 & done; echo started; wait";
    // More time if the machine is too slow to start them all.
    for seconds in [2, 10, 60] {
        let outcome = run(many, |confinement| confinement.limits.wall_time = Duration::from_secs(seconds));
        assert_eq!(
            (outcome.status, outcome.limit_exceeded),
            (CommandStatus::Signalled(9), Some(LimitKind::Wall))
        );
        assert!(!crate::ladder::anything_runs("sleep\u{0}4242"), "something survived");
        if text(&outcome.stdout) == "started\n" {
            break;
        }
        assert!(seconds < 60, "{outcome:?}");
    }
    let spin = run("exec bash -c 'while :; do :; done'", |confinement| {
        confinement.limits.cpu_time = Duration::from_secs(1);
        confinement.limits.wall_time = Duration::from_secs(300);
    });
    assert_eq!((spin.status, spin.limit_exceeded), (CommandStatus::Signalled(9), Some(LimitKind::Cpu)));
    assert!(spin.cpu_time >= Duration::from_secs(1), "{:?}", spin.cpu_time);
}

// req: E2
#[test]
fn a_command_finds_itself_alone() {
    if !unprivileged("launch::a_command_finds_itself_alone") {
        return;
    }
    let seen = |script: &str| text(&run(script, |_| {}).stdout);
    assert_eq!(seen("env | grep -v -e ^PWD= -e ^SHLVL= -e ^_="), "PATH=/usr/bin:/bin\n");
    assert_eq!(seen("ls /proc/self/fd"), "0\n1\n2\n3\n", "3 is `ls` looking");
    assert_eq!(seen("cat /proc/1/environ 2>&1 | wc -c; ls -d /proc/[0-9]* | wc -l").lines().count(), 2);
    assert_eq!(seen("hostname; ls /tmp /run 2>/dev/null | wc -l").lines().next(), Some("sandbox"));
    assert_eq!(seen("echo $$"), "2\n", "never the first process");
    assert_eq!(seen("ls /sys/class/net >/dev/null; grep -c : /proc/net/dev"), "1\n", "the loopback alone");
    assert_eq!(seen("touch x /tmp/y /dev/shm/z && echo ok; touch /etc/x 2>/dev/null || echo no"), "ok\nno\n");
}

// req: E2
#[test]
fn a_dropped_command_leaves_nothing_running() {
    if !unprivileged("launch::a_dropped_command_leaves_nothing_running") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let running = launch::start(&confinement(workspace.path()), &bash("sleep 4343"), RunAs::Caller).unwrap();
    let stopper = running.stopper().unwrap();
    drop(running);
    stopper.stop().expect("that it is over already is no error");
    let running = launch::start(&confinement(workspace.path()), &bash("sleep 4343"), RunAs::Caller).unwrap();
    let stopper = running.stopper().unwrap();
    let ender = std::thread::spawn(move || stopper.stop());
    let outcome = running.finish().unwrap();
    ender.join().unwrap().unwrap();
    assert_eq!((outcome.status, outcome.limit_exceeded), (CommandStatus::Signalled(9), None));
}

// req: E2
#[test]
fn what_is_hidden_in_something_writable_is_hidden_around_what_is_writable_in_it() {
    if !unprivileged("launch::what_is_hidden_in_something_writable_is_hidden_around_what_is_writable_in_it") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    let at = |path: &str| confinement.files.cwd.join(path);
    std::fs::create_dir_all(at("deep/secret/more/open")).unwrap();
    std::fs::write(at("deep/secret/key"), "KEY").unwrap();
    std::fs::write(at("deep/secret/more/key"), "KEY").unwrap();
    let (hidden, open) = (vec![at("deep/secret"), at("deep/secret/more")], at("deep/secret/more/open"));
    confinement.files.hidden = hidden;
    confinement.files.writable.push(open.clone());
    let script = "mv deep d; cd deep/secret; echo x > more/open/x; cat key more/key; find . -type f";
    let outcome = launch::run(&confinement, &bash(script)).unwrap();
    assert_eq!(text(&outcome.stdout), "./more/open/x\n", "{}", text(&outcome.stderr));
    assert!(open.join("x").exists());
}

// req: B1
#[test]
fn output_and_errors_can_be_one_in_the_order_printed() {
    if !unprivileged("launch::output_and_errors_can_be_one_in_the_order_printed") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let confinement = confinement(workspace.path());
    let script = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done";
    let wanted: String = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    let together = CommandSpec { merge_output: true, ..bash(script) };
    for _ in 0..20 {
        let outcome = launch::run(&confinement, &together).unwrap();
        assert_eq!((text(&outcome.stdout), text(&outcome.stderr)), (wanted.clone(), String::new()));
    }
    // Empty standard input is not a pipe, which some programs would take as their input.
    let stdin = launch::run(&confinement, &bash("readlink /proc/self/fd/0; cat")).unwrap();
    assert_eq!(text(&stdin.stdout), "/dev/null\n");
    let apart = launch::run(&confinement, &bash(script)).unwrap();
    assert_eq!(text(&apart.stderr).lines().count(), 5, "{apart:?}");
}

// req: B1, E2
#[test]
fn what_is_passed_on_comes_while_the_command_runs_and_is_not_kept() {
    if !unprivileged("launch::what_is_passed_on_comes_while_the_command_runs_and_is_not_kept") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    confinement.limits.output_bytes = 1;
    // It continues only after its output has arrived.
    let script = "echo first; until [ -e heard ]; do sleep 0.01; done; echo last >&2";
    let command = CommandSpec { merge_output: true, ..bash(script) };
    let mut running = launch::start(&confinement, &command, RunAs::Caller).unwrap();
    let (said, hear) = std::sync::mpsc::channel::<Vec<u8>>();
    running.forward_output(move |bytes| said.send(bytes.to_vec()).unwrap());
    let running = std::thread::spawn(move || running.finish().unwrap());
    assert_eq!(hear.recv_timeout(Duration::from_secs(120)).unwrap(), b"first\n");
    std::fs::write(workspace.path().join("heard"), "").unwrap();
    let outcome = running.join().unwrap();
    assert_eq!(hear.iter().collect::<Vec<_>>(), [b"last\n".to_vec()]);
    assert_eq!((outcome.stdout.bytes.len(), outcome.stdout.dropped_bytes), (0, 0));
    assert_eq!(outcome.limits_reached, [], "no limit holds for what is not kept");
}

//! The attempts of the corpus at leaving the sandbox, each on a machine of its own: root makes the fixture in namespaces that are
//! thrown away, another user runs the sandbox in it, and what the case says afterwards has to hold.
//!
//! Needs root, user namespaces for the unprivileged, python3, gcc, git, setcap and script; what is missing fails the test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::effect::{Effect, Plan};
use byleave_core::policy::{Places, Policy};
use byleave_sandbox::confinement::{Confinement, Copied, Network, Readable, Source};
use byleave_sandbox::granted::{self, Place};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::ladder::{self, Rung};
use byleave_sandbox::launch::{self, Outcome, RunAs, Session, Uplink};
use byleave_sandbox::net::policy::Door;
use byleave_sandbox::plan::{Command as Confined, Identity};
use byleave_sandbox::probe::Probe;

use crate::net::world::{Keeper, door};
use crate::scores::{CASES, NOT_ALWAYS_BY_BWRAP, NOT_BY_BWRAP, NOT_BY_LANDLOCK};
use crate::user::{UID, passes};

const HOME: &str = "/home/sbxuser";
const ROLE: &str = "BYLEAVE_TEST_ROLE";
const CASE: &str = "BYLEAVE_TEST_COMMAND";
const SLOW: &str = "BYLEAVE_TEST_SLOW";
const OUT: &str = "/home/report/out";
const SCRIPT: &str = include_str!("escapes.sh");
const CORPUS: &str = include_str!("../../../../tests/corpus/escapes.jsonl");

#[derive(serde::Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    class: String,
    command: String,
    setup: String,
    verify: String,
    as_root: bool,
    pty: bool,
    /// What was measured of others, by their names.
    pub(crate) results: std::collections::BTreeMap<String, String>,
}

pub(crate) fn corpus() -> Vec<Case> {
    CORPUS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What stands between a case and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    OneShot,
    Session,
    /// A session with a first process that waits ready.
    Pool,
    /// A pool whose network is served, and every host refused.
    Served,
    /// On a copy, as in a rehearsal.
    Copied,
    /// A lower rung of the ladder.
    Bwrap,
    Landlock,
    /// Without the file layer's masks, protections and the empty home directory.
    NoMasks,
    /// With the network of the machine.
    HostNetwork,
    Nothing,
}

impl Means {
    const ALL: [Self; 10] = [
        Self::OneShot,
        Self::Session,
        Self::Pool,
        Self::Served,
        Self::Copied,
        Self::Bwrap,
        Self::Landlock,
        Self::NoMasks,
        Self::HostNetwork,
        Self::Nothing,
    ];
}

// req: E2
#[test]
fn every_attempt_is_held_by_a_one_shot_sandbox() {
    on_a_machine("escapes::every_attempt_is_held_by_a_one_shot_sandbox", || {
        every_attempt_is_held(Means::OneShot)
    });
}

// req: E2
#[test]
fn every_attempt_is_held_by_a_session() {
    on_a_machine("escapes::every_attempt_is_held_by_a_session", || every_attempt_is_held(Means::Session));
}

// req: E2
#[test]
fn every_attempt_is_held_by_a_pool() {
    on_a_machine("escapes::every_attempt_is_held_by_a_pool", || every_attempt_is_held(Means::Pool));
}

// req: E2, E7
#[test]
fn every_attempt_is_held_where_the_network_is_served() {
    on_a_machine("escapes::every_attempt_is_held_where_the_network_is_served", || {
        every_attempt_is_held(Means::Served)
    });
}

// req: E2, E5
#[test]
fn every_attempt_is_held_on_a_copy() {
    // That one changes the workspace to harm who reads it then; which on a copy it has not, and so its file is there to be read.
    let known = [("ws-fifo-dos", Guarantee::WritesConfined)];
    on_a_machine("escapes::every_attempt_is_held_on_a_copy", || {
        every_attempt_is_held_but(Means::Copied, &known)
    });
}

fn every_attempt_is_held(means: Means) {
    every_attempt_is_held_but(means, &[]);
}

// req: E2, E7
#[test]
fn through_bwrap_every_attempt_is_held_but_those_that_it_says() {
    on_a_machine("escapes::through_bwrap_every_attempt_is_held_but_those_that_it_says", || {
        every_attempt_is_held_but(Means::Bwrap, NOT_BY_BWRAP)
    });
}

// req: E2, E7
#[test]
fn by_landlock_alone_every_attempt_is_held_but_those_that_it_says() {
    on_a_machine("escapes::by_landlock_alone_every_attempt_is_held_but_those_that_it_says", || {
        every_attempt_is_held_but(Means::Landlock, NOT_BY_LANDLOCK)
    });
}

/// Of every class, what is quick and needs little: for kernels that are emulated. The lower rungs are tried with the first few.
const CORE: [&str; 16] = [
    "fs-read-ssh",
    "fs-read-dotenv",
    "proc-kill-host",
    "ipc-home-socket",
    "net-loopback",
    "priv-userns",
    "fs-read-hostproc",
    "fs-unhide-umount",
    "env-secrets",
    "fs-write-symlink-out",
    "fs-write-newmountapi",
    "fs-write-setuid-plant",
    "git-rename-dotgit",
    "proc-ptrace-supervisor",
    "kern-iouring",
    "life-supervisor-kill",
];
const CORE_OF_LOWER: usize = 6;

/// On whichever rungs stand on this kernel, and hold signals apart.
// req: E2, E7
#[test]
#[ignore = "for other kernels: scripts/kernels"]
fn a_core_of_attempts_is_held() {
    on_a_machine("escapes::a_core_of_attempts_is_held", || {
        let machine = Machine::new();
        let probe = Probe::here(RunAs::User(Identity { uid: UID, gid: UID }));
        let scoped = probe.landlock >= 6;
        let rungs: Vec<Rung> = probe.standing().filter(|rung| *rung != Rung::Landlock || scoped).collect();
        assert!(rungs.contains(&Rung::Native), "{probe:?}");
        let held = |means, among: &[&str]| -> (Vec<String>, Vec<String>) {
            let cases = corpus().into_iter().filter(|case| among.contains(&case.id.as_str()));
            let (held, escaped): (Vec<Case>, Vec<Case>) = cases.partition(|case| machine.holds(case, means));
            let ids = |cases: Vec<Case>| cases.into_iter().map(|case| case.id).collect();
            (ids(held), ids(escaped))
        };
        // With nothing in between they succeed: what they need is there.
        assert!(held(Means::Nothing, &["fs-read-ssh", "ipc-home-socket", "net-loopback"]).0.is_empty());
        let store = tempfile::tempdir().unwrap();
        match byleave_sandbox::probe::copies(store.path(), RunAs::User(Identity { uid: UID, gid: UID })) {
            Ok(()) => {
                let (held, escaped) = held(Means::Copied, &CORE);
                assert_eq!(escaped, [""; 0], "on a copy");
                println!("on a copy: {} of {} held", held.len(), CORE.len());
            }
            Err(why) => println!("no copies: {why}"),
        }
        for rung in rungs {
            let (lower, _) = CORE.split_at(CORE_OF_LOWER);
            let (means, core, known) = match rung {
                Rung::Native => (Means::OneShot, &CORE[..], &[][..]),
                Rung::Bwrap => (Means::Bwrap, lower, NOT_BY_BWRAP),
                Rung::Landlock => (Means::Landlock, lower, NOT_BY_LANDLOCK),
            };
            let (held, escaped) = held(means, core);
            let known: Vec<&str> = known.iter().map(|(id, _)| *id).filter(|id| core.contains(id)).collect();
            assert_eq!(escaped, known, "{rung}");
            println!("{rung}: {} of {} held", held.len(), core.len());
        }
    });
}

/// Exactly those: one that is held after all would make the guarantees say less than is true.
fn every_attempt_is_held_but(means: Means, known: &[(&str, Guarantee)]) {
    let cases = corpus();
    assert_eq!(cases.len(), CASES);
    let machine = Machine::new();
    let escaped = cases.iter().filter(|case| !machine.holds(case, means));
    let always = |id: &&str| !(means == Means::Bwrap && NOT_ALWAYS_BY_BWRAP.contains(id));
    let escaped: Vec<&str> = escaped.map(|case| case.id.as_str()).filter(always).collect();
    let known: Vec<&str> = known.iter().map(|(id, _)| *id).filter(always).collect();
    assert_eq!(escaped, known, "what escaped, and what was to be expected to");
}

/// That a case is held proves something only where it would succeed otherwise.
// req: E2
#[test]
fn without_a_sandbox_or_a_layer_of_it_attempts_succeed() {
    on_a_machine("escapes::without_a_sandbox_or_a_layer_of_it_attempts_succeed", || {
        let machine = Machine::new();
        let escaped = |means, among: &[&str]| -> Vec<String> {
            let cases = corpus().into_iter().filter(|case| among.contains(&case.id.as_str()));
            cases.filter(|case| !machine.holds(case, means)).map(|case| case.id).collect()
        };
        // In the order of the corpus. A planted hook is held by the tripwire as well.
        let masks =
            ["fs-read-ssh", "fs-read-dotenv", "git-fsmonitor", "git-rename-dotgit", "ipc-home-socket"];
        assert_eq!(escaped(Means::NoMasks, &masks), masks);
        assert_eq!(escaped(Means::HostNetwork, &["net-loopback", "net-vsock"]), ["net-loopback"]);
        // Left out: what attacks the processes of this very test, what uses the machine up, what takes long.
        let left_out = |case: &Case| {
            case.as_root || ["proc", "resource", "lifecycle", "fs-race"].contains(&case.class.as_str())
        };
        let cases = corpus().into_iter().filter(|case| !left_out(case));
        let open = cases.filter(|case| case.results.get("none").is_some_and(|none| none == "ESCAPED"));
        let (held, escaped): (Vec<Case>, Vec<Case>) =
            open.partition(|case| machine.holds(case, Means::Nothing));
        let held: Vec<&str> = held.iter().map(|case| case.id.as_str()).collect();
        println!("{} succeed without a sandbox; not here: {held:?}", escaped.len());
        // For want of `keyctl` on most machines, and of any network but the loopback on this one.
        let wanting = ["ipc-keyring", "net-egress", "net-dns"];
        assert!(
            held.iter().all(|id| wanting.contains(id)),
            "the fixture has gone stale: {held:?} fail by themselves"
        );
        assert!(escaped.len() >= 49, "{}", escaped.len());
    });
}

/// Not a test but the sandbox's side of one: begun by the fixture, as another user.
#[test]
fn supervise() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let Some(means) = Means::ALL.into_iter().find(|means| format!("{means:?}") == role) else { return };
    let (command, workspace) = (std::env::var(CASE).unwrap(), std::env::current_dir().unwrap());
    let mut out = fs::File::create(OUT).unwrap();
    // What goes to the terminal from here on begins on a line of its own.
    println!();
    if means == Means::Nothing {
        let (stdout, stderr) = (out.try_clone().unwrap(), out);
        let mut bare = Command::new("timeout");
        bare.args(["-k1", "8", "/bin/bash", "-c", &command])
            .env_remove(ROLE)
            .env_remove(CASE)
            .stdout(stdout)
            .stderr(stderr);
        bare.status().unwrap();
        return;
    }
    let mut confinement = confinement(&workspace, means == Means::Copied);
    let store = tempfile::tempdir().unwrap();
    match means {
        Means::NoMasks => {
            confinement.files.home = None;
            confinement.files.readable = Readable::Everything;
            confinement.files.hidden.clear();
            confinement.files.protected.clear();
            confinement.files.asked = None;
        }
        Means::HostNetwork => confinement.network = Network::Host,
        Means::Served => confinement.network = Network::Proxied,
        Means::Copied => {
            confinement.files.copied = copies(&confinement, store.path());
            // What stands in for a disk here is small.
            confinement.limits.reserve = 0;
        }
        // What they cannot give is what the test is about.
        Means::Bwrap | Means::Landlock => confinement.waived.extend(Guarantee::ALL),
        Means::OneShot | Means::Session | Means::Pool | Means::Nothing => {}
    }
    let confined =
        Confined { argv: vec!["/bin/bash".into(), "-c".into(), command.into()], ..Confined::default() };
    let run_as = match rustix::process::geteuid().as_raw() {
        0 => RunAs::User(Identity { uid: UID, gid: UID }),
        _ => RunAs::Caller,
    };
    let parked = match means {
        Means::Session => Some(0),
        Means::Pool | Means::Served => Some(2),
        _ => None,
    };
    let session = parked.map(|parked| {
        Session::open_through(confinement.clone(), run_as, parked, Uplink::new().unwrap()).unwrap()
    });
    let running = match (&session, means) {
        (Some(session), _) => session.start_through(&confined, door(Keeper::default())),
        (None, Means::Bwrap) => ladder::start_on(Rung::Bwrap, &confinement, &confined, run_as),
        (None, Means::Landlock) => ladder::start_on(Rung::Landlock, &confinement, &confined, run_as),
        (None, Means::Copied) => {
            let uplink = Uplink::new().unwrap();
            launch::start_through(&confinement, &confined, run_as, &uplink, Door::closed())
        }
        (None, _) => launch::start(&confinement, &confined, run_as),
    };
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let Outcome { stdout, stderr, .. } = running.finish().unwrap_or_else(|error| panic!("{error}"));
    out.write_all(&stdout.bytes).unwrap();
    out.write_all(&stderr.bytes).unwrap();
    crate::copied::open_all(store.path());
}

/// An overlay of everything that is writable.
fn copies(confinement: &Confinement, store: &Path) -> Vec<Copied> {
    let copied = confinement.files.writable.iter().enumerate().map(|(at, root)| {
        let [upper, work] = ["upper", "work"].map(|kind| store.join(format!("{kind}{at}")));
        for directory in [&upper, &work] {
            fs::create_dir(directory).unwrap();
            std::os::unix::fs::chown(directory, Some(UID), Some(UID)).unwrap();
        }
        Copied { root: root.clone(), source: Source::Overlay { lowers: Vec::new(), upper, work } }
    });
    // Nobody else looks into it, and who does not is not in the way of whom the command runs as.
    fs::set_permissions(store, fs::Permissions::from_mode(0o711)).unwrap();
    copied.collect()
}

fn confinement(workspace: &Path, rehearsing: bool) -> Confinement {
    let home = std::env::var("HOME").unwrap();
    let places = Places { workspace: workspace.to_str(), home: Some(&home), ..Places::default() };
    let place = Place {
        workspace: workspace.to_path_buf(),
        cwd: workspace.to_path_buf(),
        home: Some(home.clone().into()),
        ours: Vec::new(),
        environment: std::env::vars().collect(),
        read_only: false,
        rehearsing,
    };
    // What somebody granted is that bash may run; everything else is up to the rules that come with us.
    let run = Effect::Run { program: "/bin/bash".into(), argv: vec!["bash".into()] };
    let plan = Plan { effects: vec![run], ..Plan::default() };
    let mut confinement =
        granted::confinement(&plan, &Arc::new(Policy::builtin(&places).unwrap()), &place).unwrap();
    confinement.waived.insert(Guarantee::MemoryLimited);
    let limits = &mut confinement.limits;
    // An emulated processor takes its time.
    limits.wall = Duration::from_secs(if std::env::var_os(SLOW).is_some() { 60 } else { 6 });
    (limits.pids, limits.memory, limits.file, limits.tmp) = (200, 2 << 30, 100 << 20, 256 << 20);
    limits.output = 5_000_000;
    confinement
}

/// Runs the rest of a test as root of namespaces of its own.
fn on_a_machine(test: &str, rest: impl FnOnce()) {
    if std::env::var(ROLE).is_ok_and(|role| role == "machine") {
        return rest();
    }
    assert_eq!(
        rustix::process::geteuid().as_raw(),
        0,
        "needs root, to make its fixture in namespaces of its own"
    );
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--pid",
        "--ipc",
        "--net",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "--propagation",
        "private",
    ]);
    unshare.arg(std::env::current_exe().unwrap());
    unshare.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"]);
    passes(unshare.env(ROLE, "machine"), test);
}

/// The fixture, and those whom nothing may happen to.
struct Machine {
    victim: Child,
}

impl Machine {
    fn new() -> Self {
        let exe = std::env::current_exe().unwrap();
        shell(&["machine", exe.to_str().unwrap()]);
        let sockets = [
            format!("{HOME}/.agent.sock"),
            format!("{HOME}/.gnupg/S.gpg-agent"),
            "/tmp/ssh-sbx/agent.1".into(),
            "/tmp/tmux-1001/default".into(),
            "/run/user/1001/bus".into(),
            "/run/docker.sock".into(),
        ];
        for path in sockets {
            serve(UnixListener::bind(&path).unwrap());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        }
        serve(UnixListener::bind_addr(&SocketAddr::from_abstract_name("sbx-victim").unwrap()).unwrap());
        let http = std::net::TcpListener::bind("127.0.0.1:8099").unwrap();
        std::thread::spawn(move || http.incoming().for_each(drop));
        let mut sleep = Command::new("/bin/sleep");
        sleep.arg("99999").env_clear().env("VICTIM", "VICTIM-ENV").uid(UID).gid(UID);
        Self { victim: sleep.spawn().unwrap() }
    }

    /// Runs a case, and whether what it says holds afterwards.
    fn holds(&self, case: &Case, means: Means) -> bool {
        let victim = self.victim.id().to_string();
        let home = if case.as_root { "/root" } else { HOME };
        let workspace = if case.as_root { "/home/sbxroot/ws" } else { "/home/sbxuser/ws" };
        let git = if case.setup.contains("without .git") { "no-git" } else { "with-git" };
        shell(&["case", git, home, workspace]);
        fs::write(OUT, "").unwrap();
        std::os::unix::fs::chown(OUT, Some(UID), Some(UID)).unwrap();
        let began = Instant::now();
        let mut supervisor =
            self.supervisor(case, means, &case.command.replace("%VICTIM%", &victim), home, workspace);
        let mut supervisor = supervisor.spawn().unwrap();
        if case.id == "life-supervisor-kill" {
            until("the command runs", || running("sleep\u{0}7779"));
            supervisor.kill().unwrap();
            supervisor.wait().unwrap();
            if means != Means::Nothing {
                until("the command is gone", || !running("sleep\u{0}7779"));
            }
        } else {
            let ended = supervisor.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&ended.stdout).into_owned();
            let said_why = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success() || case.pty, "{}: {told} {said_why}", case.id);
            // What came through the terminal counts as well.
            let mut out = fs::File::options().append(true).open(OUT).unwrap();
            out.write_all(told.replace('\r', "").as_bytes()).unwrap();
        }
        let mut verify = Command::new("bash");
        verify.args(["-c", &case.verify.replace("%VICTIM%", &victim)]).env_clear();
        verify.envs([("PATH", "/usr/bin:/bin:/usr/sbin"), ("OUT", OUT), ("HOME", home), ("WS", workspace)]);
        verify.env("ELAPSED", began.elapsed().as_secs().to_string()).env("RUID", UID.to_string());
        let held = verify.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success();
        let word = if held { "held" } else { "ESCAPED" };
        println!("{:28} {word:8} {:?} {} ms", case.id, means, began.elapsed().as_millis());
        let bare = matches!(means, Means::NoMasks | Means::HostNetwork | Means::Nothing);
        if !held && !bare {
            println!(
                "{}",
                String::from_utf8_lossy(&fs::read(OUT).unwrap()).chars().take(600).collect::<String>()
            );
        }
        held
    }

    fn supervisor(&self, case: &Case, means: Means, command: &str, home: &str, workspace: &str) -> Command {
        let begin = "/usr/local/bin/supervisor --exact escapes::supervise --nocapture --test-threads=1";
        let leak = format!("exec 8<{HOME} 9<{HOME}/.ssh/id_rsa;");
        let begin = match () {
            () if case.pty => format!("exec script -qec '{begin}' /dev/null"),
            () if case.class == "fd" => format!("{leak} exec {begin}"),
            // Set here: this shell would obey it as well.
            () if case.id == "env-bash-env" => format!("export BASH_ENV={HOME}/evil.sh; exec {begin}"),
            () => format!("exec {begin}"),
        };
        let mut supervisor = Command::new("/bin/bash");
        supervisor.args(["-c", &begin]).env_clear().current_dir(workspace).stdin(Stdio::null());
        supervisor.envs([("PATH", "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/bin"), ("HOME", home)]);
        supervisor.envs([
            ("USER", "sbxuser"),
            ("LANG", "C.UTF-8"),
            ("TERM", "xterm"),
            ("SHELL", "/bin/bash"),
        ]);
        supervisor
            .envs([("AWS_SECRET_ACCESS_KEY", "SECRET-ENVVAR"), ("SSH_AUTH_SOCK", "/tmp/ssh-sbx/agent.1")]);
        supervisor.env(ROLE, format!("{means:?}")).env(CASE, command);
        supervisor.envs(std::env::var(SLOW).map(|slow| (SLOW, slow)));
        if !case.as_root {
            supervisor.uid(UID).gid(UID);
        }
        supervisor.stdout(Stdio::piped()).stderr(Stdio::piped());
        supervisor
    }
}

fn shell(arguments: &[&str]) {
    let ended = Command::new("bash").args(["-c", SCRIPT, "escapes.sh"]).args(arguments).output().unwrap();
    assert!(ended.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

fn serve(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            // Answered before it is closed, so that who got through can say so; who goes away early missed nothing.
            let asked = connection.read(&mut [0; 16]);
            asked.and_then(|_| connection.write_all(b"victim")).unwrap_or_default();
        }
    });
}

fn running(command: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    commands.any(|cmdline| cmdline.starts_with(command.as_bytes()))
}

/// Waits for something that no descriptor tells of.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(10), "still waiting until {what}");
        std::thread::yield_now();
    }
}

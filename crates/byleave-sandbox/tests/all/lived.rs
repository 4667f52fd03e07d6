//! Long-lived sessions: concurrent, with servers and background jobs, for thousands of calls.
//!
//! The long form: `cargo nextest run -p byleave-sandbox --run-ignored only lived:: --no-capture`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use byleave_sandbox::confinement::Network;
use byleave_sandbox::launch::{CommandOutcome, CommandStatus, NetworkBridge, RunAs, SandboxSession};
use byleave_sandbox::plan::{CommandSpec, TerminalSize, UserIdentity};

use crate::launch::{bash, confinement, text};
use crate::net::world::{FakeHostPolicy, FakeHttpServer, door};
use crate::online::runtime;
use byleave_testkit::user::{UID, passes, unprivileged};

fn finished(session: &SandboxSession, script: &str) -> CommandOutcome {
    session.start(&bash(script)).unwrap().finish().unwrap_or_else(|error| panic!("{error}"))
}

fn told(session: &SandboxSession, script: &str) -> String {
    let outcome = finished(session, script);
    text(&outcome.stdout) + &text(&outcome.stderr)
}

// req: E2
#[test]
fn what_a_command_shares_with_its_processes_is_gone_with_it() {
    if !unprivileged("lived::what_a_command_shares_with_its_processes_is_gone_with_it") {
        return;
    }
    for parked in [0, 2] {
        let workspace = tempfile::tempdir().unwrap();
        let session = SandboxSession::open(confinement(workspace.path()), RunAs::Caller, parked).unwrap();
        let share = |flags| {
            let get = format!(
                "c.shmget(77, 1 << 20, {flags}) >= 0, c.semget(77, 1, {flags}) >= 0, c.msgget(77, {flags}) >= 0"
            );
            told(&session, &format!("python3 -c 'import ctypes; c = ctypes.CDLL(None); print({get})'"))
        };
        assert_eq!(share("0o1600"), "True True True\n");
        assert_eq!(share("0"), "False False False\n", "parked {parked}");
    }
}

const SERVER: &str = "python3 -c 'import socket
s = socket.create_server((\"127.0.0.1\", 7001))
open(\"up\", \"w\").close()
while True: s.accept()[0].send(b\"served\")'";
const CLIENT: &str = "until [ -e up ]; do sleep 0.01; done; exec 3<>/dev/tcp/127.0.0.1/7001 && head -c 6 <&3";

// req: E2
#[test]
fn two_sessions_in_one_workspace_share_its_files_and_nothing_else() {
    if !unprivileged("lived::two_sessions_in_one_workspace_share_its_files_and_nothing_else") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let open = |parked| SandboxSession::open(confinement(workspace.path()), RunAs::Caller, parked).unwrap();
    let (one, other) = (open(0), open(2));
    // Concurrently, in the same files.
    std::thread::scope(|scope| {
        for (session, name) in [(&one, "one"), (&other, "other")] {
            scope.spawn(move || {
                for n in 0..30 {
                    let script = format!("echo {name} {n} >> both; echo {n} > {name}; cat {name}");
                    assert_eq!(told(session, &script), format!("{n}\n"));
                }
            });
        }
    });
    let both = fs::read_to_string(workspace.path().join("both")).unwrap();
    assert_eq!((both.matches("one").count(), both.matches("other").count()), (30, 30));
    // Neither sees the other's temporary files, loopback, shared memory or abstract sockets.
    finished(&one, "echo x > /tmp/mine; echo x > /dev/shm/mine");
    assert_eq!(told(&other, "cat /tmp/mine /dev/shm/mine 2>/dev/null | wc -l"), "0\n");
    let server = one.start(&bash(SERVER)).unwrap();
    assert_eq!(told(&one, CLIENT), "served");
    assert_ne!(finished(&other, CLIENT).status, CommandStatus::Exited(0));
    let listen =
        "python3 -c 'import socket,time\ns = socket.socket(socket.AF_UNIX)\ns.bind(\"\\0name\"); s.listen()
open(\"named\", \"w\").close(); time.sleep(60)'";
    let named = one.start(&bash(listen)).unwrap();
    let reach = "until [ -e named ]; do sleep 0.01; done
python3 -c 'import socket\nsocket.socket(socket.AF_UNIX).connect(\"\\0name\")' 2>/dev/null || echo no";
    assert_eq!(told(&other, reach), "no\n");
    // One ends, and the other continues.
    drop((server, named));
    drop(one);
    assert_eq!(told(&other, "cat one"), "29\n");
}

// req: E2
#[test]
fn background_jobs_end_with_their_command_and_a_server_of_its_own_goes_on() {
    if !unprivileged("lived::background_jobs_end_with_their_command_and_a_server_of_its_own_goes_on") {
        return;
    }
    let runtime = runtime();
    let host = runtime.block_on(FakeHttpServer::hello());
    for parked in [0, 2] {
        let workspace = tempfile::tempdir().unwrap();
        let mut served = confinement(workspace.path());
        served.network = Network::Proxied;
        let session =
            SandboxSession::open_with_network(served, RunAs::Caller, parked, NetworkBridge::new().unwrap())
                .unwrap();
        let start = |script: &str| {
            session.start_with_network(&bash(script), door(FakeHostPolicy::granting(&["a.example"]))).unwrap()
        };
        let told = |script: &str| text(&start(script).finish().unwrap().stdout);
        // Processes in the background of a command end with it, however well hidden, and do not delay it.
        let hidden = format!(
            "({SERVER}) & (setsid nohup {SERVER} > /dev/null 2>&1 &) ; disown -a; until [ -e up ]; do sleep 0.01; done; echo on"
        );
        assert_eq!(told(&hidden), "on\n");
        assert_eq!(told("exec 3<>/dev/tcp/127.0.0.1/7001 && echo there"), "", "parked {parked}");
        fs::remove_file(workspace.path().join("up")).unwrap();
        // A server as its own command: available to the next commands, which also reach hosts.
        let server = start(SERVER);
        let client = format!("{CLIENT}; curl -sS http://a.example:{}/", host.port);
        for _ in 0..3 {
            assert_eq!(told(&client), "servedhello\n", "parked {parked}");
        }
        let stopper = server.stopper().unwrap();
        stopper.stop().unwrap();
        assert_eq!(server.finish().unwrap().status, CommandStatus::Signalled(9));
        assert_eq!(told("exec 3<>/dev/tcp/127.0.0.1/7001 && echo there"), "", "parked {parked}");
    }
}

/// The resources of this process and its descendants.
#[derive(Debug, PartialEq, Eq)]
struct HeldResources {
    descriptors: BTreeMap<String, usize>,
    threads: usize,
    processes: BTreeMap<String, usize>,
    /// The number of namespaces of each kind that those processes are in.
    namespaces: BTreeMap<String, usize>,
    mounts: usize,
    files: usize,
}

impl HeldResources {
    fn now(workspace: &Path) -> Self {
        let beneath = beneath();
        let mut processes = BTreeMap::new();
        let mut namespaces: BTreeSet<String> = BTreeSet::new();
        for pid in &beneath {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            *processes.entry(name.trim().to_owned()).or_default() += 1;
            let links = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
            namespaces.extend(
                links.filter_map(|link| Some(fs::read_link(link.path()).ok()?.display().to_string())),
            );
        }
        let kind = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        let mut descriptors = BTreeMap::new();
        for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
            let to = fs::read_link(entry.path()).map(|to| to.display().to_string()).unwrap_or_default();
            *descriptors.entry(kind(&to)).or_default() += 1;
        }
        let mut kinds = BTreeMap::new();
        namespaces.iter().for_each(|name| *kinds.entry(kind(name)).or_default() += 1);
        Self {
            descriptors,
            threads: fs::read_dir("/proc/self/task").unwrap().count(),
            processes,
            namespaces: kinds,
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count(),
            files: [Path::new("/tmp"), Path::new("/dev/shm"), workspace].map(entries).iter().sum(),
        }
    }

    /// Tests whether no resource is left that was not there before. A descriptor that was being closed at that time
    /// may be gone.
    fn is_within(&self, before: &Self) -> bool {
        let within = |now: &BTreeMap<String, usize>, before: &BTreeMap<String, usize>| {
            now.iter().all(|(kind, count)| before.get(kind).is_some_and(|before| count <= before))
        };
        within(&self.descriptors, &before.descriptors)
            && within(&self.processes, &before.processes)
            && within(&self.namespaces, &before.namespaces)
            && self.threads <= before.threads
            && self.mounts <= before.mounts
            && self.files <= before.files
    }

    /// Waits until nothing is left. Other threads fill the pool and unmount sandboxes.
    fn comes_back_to(before: &Self, workspace: &Path, what: &str) {
        let began = Instant::now();
        loop {
            let now = Self::now(workspace);
            if now.is_within(before) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "{what}: {before:#?} became {now:#?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// The descendants of this process.
fn beneath() -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        if let Some(parent) = rest.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok()) {
            parents.push((pid, parent));
        }
    }
    let mut found = BTreeSet::from([std::process::id()]);
    loop {
        let next: BTreeSet<u32> =
            parents.iter().filter(|(_, parent)| found.contains(parent)).map(|(pid, _)| *pid).collect();
        let known = found.len();
        found.extend(next);
        if found.len() == known {
            found.remove(&std::process::id());
            return found;
        }
    }
}

/// Runs this many calls of every kind in sequence, and then checks that all resources were released.
fn live(calls: usize) {
    let runtime = runtime();
    let host = runtime.block_on(FakeHttpServer::hello());
    let workspace = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(workspace.path(), Some(UID), Some(UID)).unwrap();
    let run_as = RunAs::User(UserIdentity { uid: UID, gid: UID });
    let mut served = confinement(workspace.path());
    served.network = Network::Proxied;
    served.limits.wall_time = Duration::from_secs(120);
    let uplink = NetworkBridge::with_runtime(runtime.handle().clone()).unwrap().with_ports([host.port]);
    let curl = format!("curl -sS http://a.example:{}/", host.port);
    let transparent = format!("curl -sS --noproxy '*' http://a.example:{}/", host.port);
    let refused = format!("curl -sS http://b.example:{}/ -o /dev/null", host.port);
    let scripts = [
        "true",
        "sleep 4646 & true",
        "echo x > /tmp/x; rm /tmp/x",
        &curl,
        &transparent,
        &refused,
        "kill -9 $$",
    ];
    let call = |session: &SandboxSession, n: usize| {
        let mut command = bash(scripts[n % scripts.len()]);
        match n % 11 {
            3 => command.terminal = Some(TerminalSize { rows: 24, columns: 80 }),
            5 => command = CommandSpec { argv: vec!["no-such-program".into()], ..CommandSpec::default() },
            _ => {}
        }
        let running =
            session.start_with_network(&command, door(FakeHostPolicy::granting(&["a.example"]))).unwrap();
        // Sometimes the caller drops a running command.
        if n % 13 == 7 {
            return drop(running);
        }
        running.finish().unwrap_or_else(|error| panic!("{error}"));
    };
    // Resources that are created once and kept exist by now.
    let open = |parked| {
        let session = SandboxSession::open_with_network(served.clone(), run_as, parked, uplink.clone());
        session.unwrap_or_else(|error| panic!("{error}"))
    };
    call(&open(0), 0);
    let empty = HeldResources::now(workspace.path());
    let began = Instant::now();
    for parked in [0, 2] {
        let session = open(parked);
        (0..8).for_each(|n| call(&session, n));
        let calls = calls / 2;
        // At rest: the init process of the session, and the prepared ones.
        let at_rest = 1 + usize::try_from(parked).unwrap();
        while beneath().len() != at_rest {
            assert!(began.elapsed() < Duration::from_secs(600), "{:?}", HeldResources::now(workspace.path()));
            std::thread::sleep(Duration::from_millis(2));
        }
        let before = loop {
            let (one, again) = (HeldResources::now(workspace.path()), HeldResources::now(workspace.path()));
            if one == again {
                break one;
            }
        };
        // Each has its own PID namespace. The session shares the rest.
        assert_eq!(before.namespaces.get("pid"), Some(&at_rest), "{before:?}");
        assert_eq!(before.namespaces.get("net"), Some(&1), "{before:?}");
        (0..calls).for_each(|n| call(&session, n));
        HeldResources::comes_back_to(&before, workspace.path(), "calls in a session");
        drop(session);
        HeldResources::comes_back_to(&empty, workspace.path(), "a session");
    }
    println!(
        "{calls} calls in {:.1} s, {:.2} ms each; the host answered {} connections; nothing is left",
        began.elapsed().as_secs_f64(),
        began.elapsed().as_secs_f64() * 1e3 / calls as f64,
        host.connections()
    );
}

const APART: &str = "BYLEAVE_TEST_APART";

/// Runs the rest of a test as root, which sees the namespaces of all processes, with its own mounts and temporary files.
fn apart(test: &str, rest: impl FnOnce()) {
    if std::env::var_os(APART).is_some() {
        return rest();
    }
    assert!(rustix::process::geteuid().is_root(), "needs root, to see the namespaces of what it counts");
    let script =
        "mount -t tmpfs -o mode=1777 tmp /tmp && mount -t tmpfs -o mode=1777 shm /dev/shm && exec \"$@\"";
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "bash", "-c", script, "bash"]);
    // Through its process, because its path may be hidden by a mount by then.
    unshare.arg(format!("/proc/{}/exe", std::process::id()));
    unshare.args(["--exact", test, "--include-ignored", "--nocapture"]);
    passes(unshare.env(APART, "1").env("TMPDIR", "/tmp"), test);
}

// req: E2
#[test]
fn hundreds_of_calls_leave_nothing_behind() {
    apart("lived::hundreds_of_calls_leave_nothing_behind", || live(300));
}

// req: E2
#[test]
#[ignore = "takes a minute"]
fn ten_thousand_calls_leave_nothing_behind() {
    apart("lived::ten_thousand_calls_leave_nothing_behind", || live(10_000));
}

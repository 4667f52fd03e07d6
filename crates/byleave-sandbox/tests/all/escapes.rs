//! The corpus attempts to escape from the sandbox, each on its own machine. Root creates the fixture in temporary namespaces, and
//! another user runs the sandbox in it. Afterwards the conditions of the case must hold.
//!
//! The short form makes three attempts smaller: the race has fewer rounds, the flood of output fewer bytes, and the fork bomb a time
//! limit. `BYLEAVE_PROOF=long` runs every attempt as it is in the corpus.
//!
//! Needs root, user namespaces for the unprivileged, python3, gcc, git, setcap and script. The test fails if one is missing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::effect::{Effect, Plan};
use byleave_core::policy::{PathVariables, Policy};
use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::{Confinement, CopiedPath, CopySource, Network, ReadScope};
use byleave_sandbox::from_plan::{self, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, CommandOutcome, NetworkBridge, RunAs, SandboxSession};
use byleave_sandbox::limits::LimitKind;
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::{CommandSpec as Confined, UserIdentity};
use byleave_sandbox::probe::ProbeReport;

use crate::forms::{long, own_uid};
use crate::net::world::{FakeHostPolicy, door};
use crate::scores::{CASES, NOT_ALWAYS_BY_BWRAP, NOT_BY_BWRAP, NOT_BY_LANDLOCK};
use byleave_testkit::user::passes;

const HOME: &str = "/home/sbxuser";
const ROLE: &str = "BYLEAVE_TEST_ROLE";
/// The run of a supervisor that runs only one attempt.
const ATTEMPT: &str = "BYLEAVE_TEST_ATTEMPT";
/// The user that attempts run as.
const USER: &str = "BYLEAVE_TEST_UID";
/// Begins the line that a supervisor prints after an attempt. The rest of the line is the reason for its end.
const ENDED: &str = "the attempt is over: ";
const OUT: &str = "/home/report/out";
const SCRIPT: &str = include_str!("escapes.sh");
const CORPUS: &str = include_str!("../../../../tests/corpus/escapes.jsonl");

#[derive(serde::Deserialize)]
pub(crate) struct EscapeCase {
    pub(crate) id: String,
    class: String,
    command: String,
    setup: String,
    verify: String,
    as_root: bool,
    pty: bool,
    /// The measured results of other sandboxes, by name.
    pub(crate) results: BTreeMap<String, String>,
}

impl EscapeCase {
    /// The category of the attempt.
    fn aim(&self) -> EscapeCategory {
        match self.class.as_str() {
            "fs-read" | "fs-write" | "fd" | "env" | "persistence" | "confused-deputy" => {
                EscapeCategory::Files
            }
            "proc" | "ipc" | "net" | "tty" => EscapeCategory::Processes,
            "priv" | "kernel" => EscapeCategory::Privileges,
            "resource" | "lifecycle" | "fs-race" => EscapeCategory::Resources,
            other => panic!("{}: `{other}` is about nothing that is known here", self.id),
        }
    }

    /// The time limit. An interrupted attempt shows nothing, so the limit is far more than any needs. The exceptions do not end
    /// otherwise, or use all processors until they end.
    fn wall(&self) -> Duration {
        match self.id.as_str() {
            "res-timeout" => Duration::from_secs(1),
            "res-forkbomb" if !long() => Duration::from_secs(1),
            _ => Duration::from_secs(120),
        }
    }

    fn command(&self, victim: &str) -> String {
        let command = self.command.replace("%VICTIM%", victim);
        let (usual, less) = match self.id.as_str() {
            "fs-write-symlink-race" => ("seq 3000", "seq 100"),
            // Still six times the output that is kept.
            "res-output-flood" => ("head -c 300000000", "head -c 30000000"),
            _ => return command,
        };
        assert!(command.contains(usual), "{command}");
        if long() { command } else { command.replace(usual, less) }
    }

    /// Tests whether it needs its own supervisor: with a terminal, a descriptor or a variable, or to be killed.
    fn needs_own_supervisor(&self) -> bool {
        self.pty || self.class == "fd" || ["env-bash-env", "life-supervisor-kill"].contains(&self.id.as_str())
    }
}

/// The categories of attempts: each is a separate test for each confinement method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EscapeCategory {
    Files,
    /// Processes, sockets, terminals and the network.
    Processes,
    /// Privileges, and other kernel interfaces.
    Privileges,
    /// Resources, time, and processes that outlive a command.
    Resources,
}

/// A run that a supervisor is asked for.
#[derive(serde::Deserialize, serde::Serialize)]
struct SupervisedRun {
    command: String,
    wall: Duration,
}

pub(crate) fn corpus() -> Vec<EscapeCase> {
    CORPUS.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The confinement between a case and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConfinementMethod {
    OneShot,
    /// The same, for a launcher that is root.
    OfRoot,
    Session,
    /// A session with a prepared init process.
    Pool,
    /// A pool with a network proxy that refuses every host.
    Served,
    /// On a copy, as in a rehearsal.
    Copied,
    /// A weaker backend.
    Bwrap,
    Landlock,
    /// Without the masks, the protections and the empty home directory of the file layer.
    NoMasks,
    /// With the network of the host.
    HostNetwork,
    Nothing,
}

impl ConfinementMethod {
    const ALL: [Self; 11] = [
        Self::OneShot,
        Self::OfRoot,
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

/// This case changes the workspace to block a later reader. On a copy it changes nothing, so its file can still be read.
const NOT_ON_A_COPY: &[(&str, Guarantee)] = &[("ws-fifo-dos", Guarantee::WritesConfined)];

macro_rules! attempts {
    ($($name:ident: $aim:ident, $means:ident, $known:expr;)*) => {$(
        #[test]
        fn $name() {
            on_a_machine(concat!("escapes::", stringify!($name)), || {
                attempts_are_held_but(EscapeCategory::$aim, ConfinementMethod::$means, $known);
            });
        }
    )*};
}

attempts! {
    // req: E2
    attempts_at_files_are_held_by_a_one_shot_sandbox: Files, OneShot, &[];
    attempts_at_processes_are_held_by_a_one_shot_sandbox: Processes, OneShot, &[];
    attempts_at_privileges_are_held_by_a_one_shot_sandbox: Privileges, OneShot, &[];
    attempts_at_resources_are_held_by_a_one_shot_sandbox: Resources, OneShot, &[];
    // req: E2, E7
    attempts_at_files_are_held_for_root: Files, OfRoot, &[];
    attempts_at_processes_are_held_for_root: Processes, OfRoot, &[];
    attempts_at_privileges_are_held_for_root: Privileges, OfRoot, &[];
    attempts_at_resources_are_held_for_root: Resources, OfRoot, &[];
    // req: E2
    attempts_at_files_are_held_by_a_session: Files, Session, &[];
    attempts_at_processes_are_held_by_a_session: Processes, Session, &[];
    attempts_at_privileges_are_held_by_a_session: Privileges, Session, &[];
    attempts_at_resources_are_held_by_a_session: Resources, Session, &[];
    // req: E2
    attempts_at_files_are_held_by_a_pool: Files, Pool, &[];
    attempts_at_processes_are_held_by_a_pool: Processes, Pool, &[];
    attempts_at_privileges_are_held_by_a_pool: Privileges, Pool, &[];
    attempts_at_resources_are_held_by_a_pool: Resources, Pool, &[];
    // req: E2, E7
    attempts_at_files_are_held_by_a_pool_whose_network_is_served: Files, Served, &[];
    attempts_at_processes_are_held_by_a_pool_whose_network_is_served: Processes, Served, &[];
    attempts_at_privileges_are_held_by_a_pool_whose_network_is_served: Privileges, Served, &[];
    attempts_at_resources_are_held_by_a_pool_whose_network_is_served: Resources, Served, &[];
    // req: E2, E5
    attempts_at_files_are_held_on_a_copy_but_those_that_are_known: Files, Copied, NOT_ON_A_COPY;
    attempts_at_processes_are_held_on_a_copy_but_those_that_are_known: Processes, Copied, NOT_ON_A_COPY;
    attempts_at_privileges_are_held_on_a_copy_but_those_that_are_known: Privileges, Copied, NOT_ON_A_COPY;
    attempts_at_resources_are_held_on_a_copy_but_those_that_are_known: Resources, Copied, NOT_ON_A_COPY;
    // req: E2, E7
    attempts_at_files_are_held_through_bwrap_but_those_that_are_known: Files, Bwrap, NOT_BY_BWRAP;
    attempts_at_processes_are_held_through_bwrap_but_those_that_are_known: Processes, Bwrap, NOT_BY_BWRAP;
    attempts_at_privileges_are_held_through_bwrap_but_those_that_are_known: Privileges, Bwrap, NOT_BY_BWRAP;
    attempts_at_resources_are_held_through_bwrap_but_those_that_are_known: Resources, Bwrap, NOT_BY_BWRAP;
    // req: E2, E7
    attempts_at_files_are_held_by_landlock_alone_but_those_that_are_known: Files, Landlock, NOT_BY_LANDLOCK;
    attempts_at_processes_are_held_by_landlock_alone_but_those_that_are_known: Processes, Landlock, NOT_BY_LANDLOCK;
    attempts_at_privileges_are_held_by_landlock_alone_but_those_that_are_known: Privileges, Landlock, NOT_BY_LANDLOCK;
    attempts_at_resources_are_held_by_landlock_alone_but_those_that_are_known: Resources, Landlock, NOT_BY_LANDLOCK;
}

/// The quick and simple cases of every class, for emulated kernels. Weaker backends run the first few.
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

/// On all backends that this kernel supports and that isolate signals.
// req: E2, E7
#[test]
#[ignore = "for other kernels: scripts/kernels"]
fn a_core_of_attempts_is_held() {
    on_a_machine("escapes::a_core_of_attempts_is_held", || {
        let machine = EscapeFixture::new();
        let probe = ProbeReport::run_all(run_as_user());
        let scoped = probe.landlock >= 6;
        let rungs: Vec<Backend> =
            probe.available().filter(|rung| *rung != Backend::Landlock || scoped).collect();
        assert!(rungs.contains(&Backend::Native), "{probe:?}");
        let held = |means, among: &[&str]| -> (Vec<String>, Vec<String>) {
            let cases = corpus().into_iter().filter(|case| among.contains(&case.id.as_str()));
            let (held, escaped): (Vec<EscapeCase>, Vec<EscapeCase>) =
                cases.partition(|case| machine.holds(case, means));
            let ids = |cases: Vec<EscapeCase>| cases.into_iter().map(|case| case.id).collect();
            (ids(held), ids(escaped))
        };
        // Control: without confinement they succeed, so the fixture is complete.
        assert!(
            held(ConfinementMethod::Nothing, &["fs-read-ssh", "ipc-home-socket", "net-loopback"])
                .0
                .is_empty()
        );
        let store = tempfile::tempdir().unwrap();
        match byleave_sandbox::probe::probe_overlays(store.path(), run_as_user()) {
            Ok(()) => {
                let (held, escaped) = held(ConfinementMethod::Copied, &CORE);
                assert_eq!(escaped, [""; 0], "on a copy");
                println!("on a copy: {} of {} held", held.len(), CORE.len());
            }
            Err(why) => println!("no copies: {why}"),
        }
        for rung in rungs {
            let (lower, _) = CORE.split_at(CORE_OF_LOWER);
            let (means, core, known) = match rung {
                Backend::Native => (ConfinementMethod::OneShot, &CORE[..], &[][..]),
                Backend::Bwrap => (ConfinementMethod::Bwrap, lower, NOT_BY_BWRAP),
                Backend::Landlock => (ConfinementMethod::Landlock, lower, NOT_BY_LANDLOCK),
            };
            let (held, escaped) = held(means, core);
            let known: Vec<&str> = known.iter().map(|(id, _)| *id).filter(|id| core.contains(id)).collect();
            assert_eq!(escaped, known, "{rung}");
            println!("{rung}: {} of {} held", held.len(), core.len());
        }
    });
}

/// Exactly the known ones. If one were held after all, the declared guarantees would understate the backend.
fn attempts_are_held_but(aim: EscapeCategory, means: ConfinementMethod, known: &[(&str, Guarantee)]) {
    let cases = corpus();
    assert_eq!(cases.len(), CASES);
    let machine = EscapeFixture::new();
    let cases: Vec<&EscapeCase> = cases.iter().filter(|case| case.aim() == aim).collect();
    // Cases that are held only on some machines run only in the long form, for their output.
    let always = |id: &&str| means != ConfinementMethod::Bwrap || !NOT_ALWAYS_BY_BWRAP.contains(id);
    let run = cases.iter().filter(|case| long() || always(&case.id.as_str()));
    let escaped = run.filter(|case| !machine.holds(case, means)).map(|case| case.id.as_str());
    let escaped: Vec<&str> = escaped.filter(always).collect();
    let is_known = |id: &&str| known.iter().any(|(known, _)| known == id);
    let known: Vec<&str> =
        cases.iter().map(|case| case.id.as_str()).filter(always).filter(is_known).collect();
    assert_eq!(escaped, known, "what escaped, and what was to be expected to");
}

/// A held case proves something only if it would succeed otherwise.
// req: E2
#[test]
fn without_a_sandbox_or_a_layer_of_it_attempts_succeed() {
    on_a_machine("escapes::without_a_sandbox_or_a_layer_of_it_attempts_succeed", || {
        let machine = EscapeFixture::new();
        let escaped = |means, among: &[&str]| -> Vec<String> {
            let cases = corpus().into_iter().filter(|case| among.contains(&case.id.as_str()));
            cases.filter(|case| !machine.holds(case, means)).map(|case| case.id).collect()
        };
        // In the order of the corpus. The check for planted files holds a planted hook as well.
        let masks =
            ["fs-read-ssh", "fs-read-dotenv", "git-fsmonitor", "git-rename-dotgit", "ipc-home-socket"];
        assert_eq!(escaped(ConfinementMethod::NoMasks, &masks), masks);
        assert_eq!(escaped(ConfinementMethod::HostNetwork, &["net-loopback", "net-vsock"]), ["net-loopback"]);
        // Excluded: cases that attack the processes of this test, exhaust the machine, or take long.
        let left_out = |case: &EscapeCase| {
            case.as_root || ["proc", "resource", "lifecycle", "fs-race"].contains(&case.class.as_str())
        };
        let cases = corpus().into_iter().filter(|case| !left_out(case));
        let open = cases.filter(|case| case.results.get("none").is_some_and(|none| none == "ESCAPED"));
        let (held, escaped): (Vec<EscapeCase>, Vec<EscapeCase>) =
            open.partition(|case| machine.holds(case, ConfinementMethod::Nothing));
        let held: Vec<&str> = held.iter().map(|case| case.id.as_str()).collect();
        println!("{} succeed without a sandbox; not here: {held:?}", escaped.len());
        // Most machines lack `keyctl`, and this one has no network but loopback.
        let wanting = ["ipc-keyring", "net-egress", "net-dns"];
        assert!(
            held.iter().all(|id| wanting.contains(id)),
            "the fixture has gone stale: {held:?} fail by themselves"
        );
        assert!(escaped.len() >= 49, "{}", escaped.len());
    });
}

/// Not a test, but the supervisor: the fixture starts it as another user.
#[test]
fn supervise() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let Some(means) = ConfinementMethod::ALL.into_iter().find(|means| format!("{means:?}") == role) else {
        return;
    };
    let workspace = std::env::current_dir().unwrap();
    // Output to the terminal begins on a new line from here on.
    println!();
    let only =
        std::env::var(ATTEMPT).ok().map(|attempt| serde_json::from_str::<SupervisedRun>(&attempt).unwrap());
    if means == ConfinementMethod::Nothing {
        return unconfined(&only.unwrap().command);
    }
    // Created once, because this takes most of the time of an attempt.
    let policy = policy(&workspace);
    let run = |attempt: SupervisedRun| {
        // The previous workspace was removed, and with it the current directory of this process.
        std::env::set_current_dir(&workspace).unwrap();
        let ended_by = confined(means, &workspace, &policy, attempt);
        println!("\n{ENDED}{ended_by:?}");
    };
    match only {
        Some(attempt) => run(attempt),
        None => std::io::stdin().lines().for_each(|line| run(serde_json::from_str(&line.unwrap()).unwrap())),
    }
}

fn unconfined(command: &str) {
    let out = fs::File::create(OUT).unwrap();
    let mut bare = Command::new("timeout");
    bare.args(["-k1", "60", "/bin/bash", "-c", command])
        .env_remove(ROLE)
        .env_remove(ATTEMPT)
        .stdout(out.try_clone().unwrap())
        .stderr(out);
    bare.status().unwrap();
}

fn confined(
    means: ConfinementMethod,
    workspace: &Path,
    policy: &Arc<Policy>,
    attempt: SupervisedRun,
) -> Option<LimitKind> {
    let mut out = fs::File::create(OUT).unwrap();
    let mut confinement = confinement(workspace, policy, means == ConfinementMethod::Copied);
    confinement.limits.wall_time = attempt.wall;
    let store = tempfile::tempdir().unwrap();
    match means {
        ConfinementMethod::NoMasks => {
            confinement.files.home = None;
            confinement.files.readable = ReadScope::Everything;
            confinement.files.hidden.clear();
            confinement.files.protected.clear();
            confinement.files.path_policy = None;
        }
        ConfinementMethod::HostNetwork => confinement.network = Network::Host,
        ConfinementMethod::Served => confinement.network = Network::Proxied,
        ConfinementMethod::Copied => {
            confinement.files.copies = copies(&confinement, store.path());
            // The filesystem here is small.
            confinement.limits.reserve_bytes = 0;
        }
        // The guarantees that they lack are the subject of the test.
        ConfinementMethod::Bwrap | ConfinementMethod::Landlock => confinement.waived.extend(Guarantee::ALL),
        ConfinementMethod::OneShot
        | ConfinementMethod::OfRoot
        | ConfinementMethod::Session
        | ConfinementMethod::Pool
        | ConfinementMethod::Nothing => {}
    }
    let confined = Confined {
        argv: vec!["/bin/bash".into(), "-c".into(), attempt.command.into()],
        ..Confined::default()
    };
    let run_as = match rustix::process::geteuid().as_raw() {
        0 if means != ConfinementMethod::OfRoot => run_as_user(),
        _ => RunAs::Caller,
    };
    let parked = match means {
        ConfinementMethod::Session => Some(0),
        ConfinementMethod::Pool | ConfinementMethod::Served => Some(2),
        _ => None,
    };
    let session = parked.map(|parked| {
        SandboxSession::open_with_network(confinement.clone(), run_as, parked, NetworkBridge::new().unwrap())
            .unwrap()
    });
    let running = match (&session, means) {
        (Some(session), _) => session.start_with_network(&confined, door(FakeHostPolicy::default())),
        (None, ConfinementMethod::Bwrap) => {
            backend::start_on(Backend::Bwrap, &confinement, &confined, run_as)
        }
        (None, ConfinementMethod::Landlock) => {
            backend::start_on(Backend::Landlock, &confinement, &confined, run_as)
        }
        (None, ConfinementMethod::Copied) => {
            let uplink = NetworkBridge::new().unwrap();
            launch::start_with_network(&confinement, &confined, run_as, &uplink, Egress::deny_all())
        }
        (None, _) => launch::start(&confinement, &confined, run_as),
    };
    let running = running.unwrap_or_else(|error| panic!("{error}"));
    let CommandOutcome { stdout, stderr, limit_exceeded: ended_by, .. } =
        running.finish().unwrap_or_else(|error| panic!("{error}"));
    out.write_all(&stdout.bytes).unwrap();
    out.write_all(&stderr.bytes).unwrap();
    crate::copied::open_all(store.path());
    ended_by
}

fn user() -> u32 {
    std::env::var(USER).unwrap().parse().unwrap()
}

fn run_as_user() -> RunAs {
    RunAs::User(UserIdentity { uid: user(), gid: user() })
}

/// An overlay of everything that is writable.
fn copies(confinement: &Confinement, store: &Path) -> Vec<CopiedPath> {
    let copied = confinement.files.writable.iter().enumerate().map(|(at, root)| {
        let [upper, work] = ["upper", "work"].map(|kind| store.join(format!("{kind}{at}")));
        for directory in [&upper, &work] {
            fs::create_dir(directory).unwrap();
            std::os::unix::fs::chown(directory, Some(user()), Some(user())).unwrap();
        }
        CopiedPath {
            root: root.clone(),
            source: CopySource::Overlay { lower_layers: Vec::new(), upper_dir: upper, work_dir: work },
        }
    });
    // Other users cannot list it, but the user of the command can traverse it.
    fs::set_permissions(store, fs::Permissions::from_mode(0o711)).unwrap();
    copied.collect()
}

fn policy(workspace: &Path) -> Arc<Policy> {
    let home = std::env::var("HOME").unwrap();
    let places =
        PathVariables { workspace: workspace.to_str(), home: Some(&home), ..PathVariables::default() };
    Arc::new(Policy::builtin(&places).unwrap())
}

fn confinement(workspace: &Path, policy: &Arc<Policy>, rehearsing: bool) -> Confinement {
    let place = RunEnvironment {
        repository: None,
        workspace: workspace.to_path_buf(),
        cwd: workspace.to_path_buf(),
        home: std::env::var_os("HOME").map(Into::into),
        private_paths: Vec::new(),
        run_markers_dir: None,
        environment: std::env::vars().collect(),
        read_only: false,
        is_rehearsal: rehearsing,
        on_copy: rehearsing,
    };
    // The grant only says that bash may run. The built-in rules decide everything else.
    let run = Effect::Run { program: "/bin/bash".into(), argv: vec!["bash".into()] };
    let plan = Plan { effects: vec![run], ..Plan::default() };
    let mut confinement = from_plan::build_confinement(&plan, policy, &place).unwrap();
    confinement.waived.insert(Guarantee::MemoryLimited);
    let limits = &mut confinement.limits;
    (limits.pids, limits.memory_bytes, limits.file_bytes, limits.tmp_bytes) =
        (200, 512 << 20, 100 << 20, 64 << 20);
    limits.output_bytes = 5_000_000;
    confinement
}

/// Runs the rest of a test as root in its own namespaces.
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
    passes(unshare.env(ROLE, "machine").env(USER, own_uid().to_string()), test);
}

/// The fixture, with the processes that must not be harmed.
struct EscapeFixture {
    victim: Child,
    /// Supervisors that run several attempts, by confinement method and whether they run as root.
    supervisors: RefCell<BTreeMap<String, Supervisor>>,
}

/// A process that runs attempts in the sandbox.
struct Supervisor {
    process: Child,
    asked: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Supervisor {
    /// The output during an attempt, and the reason for its end.
    fn run(&mut self, attempt: &SupervisedRun) -> (String, String) {
        writeln!(self.asked, "{}", serde_json::to_string(attempt).unwrap()).unwrap();
        let mut told = String::new();
        for line in &mut self.said {
            let line = line.unwrap();
            if let Some(why) = line.strip_prefix(ENDED) {
                return (told, why.to_owned());
            }
            told += &line;
            told.push('\n');
        }
        panic!("the supervisor is gone, {:?}: {told}", self.process.wait());
    }
}

impl EscapeFixture {
    fn new() -> Self {
        let exe = std::env::current_exe().unwrap();
        let made = Command::new("bash").args(["-c", SCRIPT, "escapes.sh"]).arg(exe).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
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
        sleep.arg("99999").env_clear().env("VICTIM", "VICTIM-ENV").uid(user()).gid(user());
        Self { victim: sleep.spawn().unwrap(), supervisors: RefCell::default() }
    }

    /// Runs a case, and returns whether its conditions hold afterwards.
    fn holds(&self, case: &EscapeCase, means: ConfinementMethod) -> bool {
        let victim = self.victim.id().to_string();
        let home = if case.as_root { "/root" } else { HOME };
        let workspace = if case.as_root { "/home/sbxroot/ws" } else { "/home/sbxuser/ws" };
        prepare(!case.setup.contains("without .git"), Path::new(workspace));
        fs::write(OUT, "").unwrap();
        std::os::unix::fs::chown(OUT, Some(user()), Some(user())).unwrap();
        let began = Instant::now();
        let attempt = SupervisedRun { command: case.command(&victim), wall: case.wall() };
        let begin = |only: Option<&SupervisedRun>| {
            let mut supervisor = self.supervisor(case, means, home, workspace);
            supervisor.envs(only.map(|only| (ATTEMPT, serde_json::to_string(only).unwrap())));
            supervisor
        };
        let told = if case.id == "life-supervisor-kill" {
            let mut supervisor = begin(Some(&attempt)).spawn().unwrap();
            until("the command runs", || running("sleep\u{0}7779"));
            supervisor.kill().unwrap();
            supervisor.wait().unwrap();
            if means != ConfinementMethod::Nothing {
                until("the command is gone", || !running("sleep\u{0}7779"));
            }
            None
        } else if means == ConfinementMethod::Nothing || case.needs_own_supervisor() {
            let ended = begin(Some(&attempt)).stderr(Stdio::piped()).output().unwrap();
            let told = String::from_utf8_lossy(&ended.stdout).into_owned();
            let said_why = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(ended.status.success() || case.pty, "{}: {told} {said_why}", case.id);
            Some((told, String::new()))
        } else {
            let mut supervisors = self.supervisors.borrow_mut();
            let supervisor = supervisors.entry(format!("{means:?} {home}")).or_insert_with(|| {
                let mut process = begin(None).stdin(Stdio::piped()).spawn().unwrap();
                let (asked, said) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
                Supervisor { process, asked, said: BufReader::new(said).lines() }
            });
            Some(supervisor.run(&attempt))
        };
        let mut took = began.elapsed();
        if let Some((told, ended_by)) = told {
            // Output through the terminal is checked as well.
            let mut out = fs::File::options().append(true).open(OUT).unwrap();
            out.write_all(told.replace('\r', "").as_bytes()).unwrap();
            // An attempt that the limit ended took exactly the limit, however slow the machine is.
            if ended_by == format!("{:?}", Some(LimitKind::Wall)) {
                took = attempt.wall;
            }
        }
        let mut verify = Command::new("bash");
        verify.args(["-c", &case.verify.replace("%VICTIM%", &victim)]).env_clear();
        verify.envs([("PATH", "/usr/bin:/bin:/usr/sbin"), ("OUT", OUT), ("HOME", home), ("WS", workspace)]);
        verify.env("ELAPSED", took.as_secs().to_string()).env("RUID", user().to_string());
        let held = verify.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success();
        let word = if held { "held" } else { "ESCAPED" };
        println!("{:28} {word:8} {:?} {} ms", case.id, means, began.elapsed().as_millis());
        let bare = matches!(
            means,
            ConfinementMethod::NoMasks | ConfinementMethod::HostNetwork | ConfinementMethod::Nothing
        );
        if !held && !bare {
            println!(
                "{}",
                String::from_utf8_lossy(&fs::read(OUT).unwrap()).chars().take(600).collect::<String>()
            );
        }
        held
    }

    /// The command that starts a supervisor. Its errors are shown with those of this test.
    fn supervisor(
        &self,
        case: &EscapeCase,
        means: ConfinementMethod,
        home: &str,
        workspace: &str,
    ) -> Command {
        let begin = "/usr/local/bin/supervisor --exact escapes::supervise --nocapture --test-threads=1";
        let leak = format!("exec 8<{HOME} 9<{HOME}/.ssh/id_rsa;");
        let begin = match () {
            () if case.pty => format!("exec script -qec '{begin}' /dev/null"),
            () if case.class == "fd" => format!("{leak} exec {begin}"),
            // Set only here, because the outer shell would obey it as well.
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
        supervisor.env(ROLE, format!("{means:?}")).env(USER, user().to_string());
        if !case.as_root && means != ConfinementMethod::OfRoot {
            supervisor.uid(user()).gid(user());
        }
        supervisor.stdout(Stdio::piped());
        supervisor
    }
}

/// Restores the home directory and the workspace to their initial state.
fn prepare(with_git: bool, workspace: &Path) {
    let home = Path::new(HOME);
    let left =
        [".config", ".local", "bin", "planted", "raced", ".ssh/authorized_keys"].map(|left| home.join(left));
    let outside = ["/tmp/fill", "/dev/shm/fill", "/tmp/sbx-pwn", "/dev/shm/sbx-pwn", "/var/tmp/sbx-pwn"];
    for path in left.iter().map(AsRef::as_ref).chain(outside.map(Path::new)).chain([workspace]) {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(path).unwrap(),
            Ok(_) => fs::remove_file(path).unwrap(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}", path.display()),
        }
    }
    for directory in [".ssh", ".aws", ".cargo/bin"] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    fs::create_dir_all(workspace).unwrap();
    for (file, text) in [
        (".ssh/id_rsa", "SECRET-KEY\n"),
        (".aws/credentials", "SECRET-AWS\n"),
        (".netrc", "SECRET-NETRC\n"),
        (".git-credentials", "SECRET-NETRC\n"),
        (".bash_history", "SECRET-HIST\n"),
        ("evil.sh", "echo BASHENV-RAN\n"),
        (".bashrc", "# rc\n"),
        (".profile", "# rc\n"),
    ] {
        fs::write(home.join(file), text).unwrap();
    }
    if with_git {
        let mut init = Command::new("git");
        init.args(["-c", "init.defaultBranch=m", "init", "-q"]).arg(workspace);
        assert!(init.status().unwrap().success());
        for sample in fs::read_dir(workspace.join(".git/hooks")).into_iter().flatten() {
            fs::remove_file(sample.unwrap().path()).unwrap();
        }
    }
    fs::write(workspace.join(".env"), "SECRET-ENVFILE\n").unwrap();
    fs::write(workspace.join("README.md"), "hi\n").unwrap();
    own(home);
    own(workspace);
}

/// Gives everything beneath to the user that runs the attempts, except the sockets of others.
fn own(path: &Path) {
    let found = fs::symlink_metadata(path).unwrap();
    if !found.file_type().is_socket() {
        std::os::unix::fs::lchown(path, Some(user()), Some(user())).unwrap();
    }
    if found.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| own(&entry.unwrap().path()));
    }
}

fn serve(listener: UnixListener) {
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            // Answers before it closes, so that a successful attempt can report it. A client may disconnect early.
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

/// Polls for a condition that no descriptor signals.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "still waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

//! Compares the start of a command in the sandbox with a bare start and with bubblewrap, alternating in one run.
//!
//! `cargo bench -p byleave-sandbox --bench launch` measures and writes its part of docs/performance.md; `scripts/prove sandbox`
//! does that as well. With `BYLEAVE_PROOF=short` it takes seconds and writes nothing. Either way it fails if something takes
//! more than twice its bar. Run by root, it measures as another user.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a benchmark")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_core::effect::{Effect, Plan};
use byleave_core::policy::{PathVariables, Policy};
use byleave_sandbox::confinement::{
    Confinement, CopiedPath, CopySource, FileConfinement, Network, SandboxPorts,
};
use byleave_sandbox::from_plan;
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{self, CommandStatus, IndexCache, NetworkBridge, RunAs, SandboxSession};
use byleave_sandbox::limits::ResourceLimits;
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec as Confined;
use byleave_sandbox::workspace_index::{DirectoryIndex, PathPolicy};

const UID: u32 = 61_001;
const ROW: &str = "row ";
/// The variables of an ordinary shell. Without them, bash looks up the user.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/"), ("USER", "nobody"), ("SHELL", "/bin/bash")];

fn main() {
    if rustix::process::geteuid().as_raw() == 0 {
        return as_somebody_else();
    }
    let rounds = if is_short() { 40 } else { 400 };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let minimal = BenchFixture::minimal(&root.join("minimal"));
    let everyday = BenchFixture::everyday(&root.join("home"));
    for (name, place) in [("nothing but a writable directory", &minimal), ("everyday", &everyday)] {
        launches(name, place, rounds);
    }
    throughput(&minimal, if is_short() { 1 } else { 5 });
    looking(&root.join("many"));
    on_a_copy(&root.join("rehearsed"), rounds / 2);
    resident(&minimal, rounds / 2);
    killing(&minimal, if is_short() { 3 } else { 20 });
}

fn is_short() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "short")
}

/// The sandbox refuses root, but root owns the page. So another user measures, and reports the results.
fn as_somebody_else() {
    let mut again = Command::new("/proc/self/exe");
    again.uid(UID).gid(UID).current_dir("/").env("TMPDIR", "/tmp").stderr(Stdio::inherit());
    let ended = again.output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    print!("{told}");
    assert!(ended.status.success(), "{}", ended.status);
    if is_short() {
        return;
    }
    let mut table = String::from("| what | bare | confined | ratio | bar | |\n|---|--:|--:|--:|--:|---|\n");
    told.lines().filter_map(|line| line.strip_prefix(ROW)).for_each(|row| table.extend([row, "\n"]));
    table.push_str(&proxied());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or_default().to_owned();
    table.push_str(&format!(
        "\nThe load of the machine was {load}; what starts several processes suffers most from that.\n"
    ));
    table.push_str(
        "\nA start is `bash -c true` until everything has ended and its output is read, p50, each way in turn. Everyday is\n\
         what the built-in rules make of a git repository of 200 files in a home directory with toolchains and secrets: alone, every\n\
         command asks them about every path, before and after; in a session only about what has changed. The session's throughput\n\
         is of two threads on one session each. Looking again is compared with looking for the first time.\n\
         \n\
         What limits it: every command has namespaces of processes, mounts and interprocess communication of its own and a `/proc`,\n\
         which the kernel makes and undoes under locks that all processors share; so two threads gain less than twice. Alone, a\n\
         network namespace is made as well, and every mask is a mount. What would lift it: one namespace of interprocess\n\
         communication for a session, which would let a command leave something behind for the next, so we do not.\n",
    );
    byleave_testkit::write_bench_page!("launch", &table);
}

/// A test measures the cost of the proxy, because only a build with assertions lets its servers on loopback
/// through.
fn proxied() -> String {
    let mut test = Command::new("cargo");
    test.args(["test", "-q", "-p", "byleave-sandbox", "--test", "all", "--", "--ignored", "--nocapture"]);
    test.arg("net::cost::a_proxied").env("CARGO_PROFILE_DEV_OPT_LEVEL", "3");
    let ended = test.output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    print!("{told}");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let line = |way: &str| told.lines().find_map(|line| line.strip_prefix(way)).map(str::to_owned);
    let took = |way: &str| -> f64 {
        let line = line(way).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let direct = took("Direct:");
    let ways = [("Connect:", "a tunnel"), ("Http:", "a plain request"), ("Socks:", "SOCKS")];
    let rows = ways.map(|(way, name)| {
        let (took, bar) = (took(way), 0.3);
        let word = if took - direct <= bar { "within" } else { "**beyond**" };
        format!(
            "| a connection with one request through the proxy, {name} | {direct:.2} ms | {took:.2} ms | +{:.2} ms | ≤ +{bar:.2} ms | {word} |\n",
            took - direct
        )
    });
    rows.concat()
}

/// Prints a result for the table, and fails if it is far beyond its bar.
fn row(what: &str, bare: &str, confined: &str, ratio: f64, bar: Option<LatencyLimit>) {
    let (told, word) = match bar {
        None => (String::new(), ""),
        Some(LatencyLimit::AtMost(bar)) => {
            (format!("≤ {bar:.2}"), if ratio <= bar { "within" } else { "**beyond**" })
        }
        Some(LatencyLimit::AtLeast(bar)) => {
            (format!("≥ {bar:.2}"), if ratio >= bar { "within" } else { "**beyond**" })
        }
    };
    println!("{ROW}| {what} | {bare} | {confined} | {ratio:.2} | {told} | {word} |");
    match bar {
        // If the rules are evaluated for every path, it is far beyond the bar. This is known.
        _ if what == "a start, everyday: alone" => {}
        Some(LatencyLimit::AtMost(bar)) => {
            assert!(ratio <= 2.0 * bar, "{what}: {ratio:.2}, which is far beyond {bar:.2}")
        }
        Some(LatencyLimit::AtLeast(bar)) => {
            assert!(ratio >= bar / 2.0, "{what}: {ratio:.2}, which is far below {bar:.2}")
        }
        None => {}
    }
}

#[derive(Clone, Copy)]
enum LatencyLimit {
    AtMost(f64),
    AtLeast(f64),
}

/// The environment of the commands, and the paths that bubblewrap needs for a similar one.
struct BenchFixture {
    confinement: Confinement,
    bwrap: Vec<PathBuf>,
}

impl BenchFixture {
    fn minimal(workspace: &Path) -> Self {
        fs::create_dir_all(workspace).unwrap();
        let confinement = Confinement {
            files: FileConfinement {
                cwd: workspace.into(),
                writable: vec![workspace.into()],
                ..FileConfinement::default()
            },
            network: Network::Off,
            ports: SandboxPorts::default(),
            environment: BTreeMap::new(),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        };
        Self::with(confinement)
    }

    fn everyday(home: &Path) -> Self {
        let workspace = home.join("work");
        for directory in
            [".cargo/bin", ".rustup", ".ssh", ".config/git", ".local/bin", "work/src", "work/.vscode"]
        {
            fs::create_dir_all(home.join(directory)).unwrap();
        }
        for file in
            [".gitconfig", ".cargo/credentials.toml", "work/.env", "work/AGENTS.md", "work/.gitattributes"]
        {
            fs::write(home.join(file), "").unwrap();
        }
        (0..200)
            .for_each(|file| fs::write(workspace.join(format!("src/{file}.rs")), "fn main() {}\n").unwrap());
        for words in [
            &["init", "-q"][..],
            &["add", "."],
            &["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"],
        ] {
            let git = Command::new("git").args(words).current_dir(&workspace).env("HOME", home).status();
            assert!(git.unwrap().success());
        }
        let places =
            PathVariables { workspace: workspace.to_str(), home: home.to_str(), ..PathVariables::default() };
        let policy = Arc::new(Policy::builtin(&places).unwrap());
        let run = Effect::Run { program: "/bin/bash".into(), argv: vec!["bash".into()] };
        let plan = Plan { effects: vec![run], ..Plan::default() };
        let cwd = workspace.clone();
        let place = from_plan::RunEnvironment {
            repository: None,
            workspace,
            cwd,
            home: Some(home.to_path_buf()),
            ..Default::default()
        };
        Self::with(from_plan::build_confinement(&plan, &policy, &place).unwrap())
    }

    fn with(mut confinement: Confinement) -> Self {
        confinement.waived.insert(Guarantee::MemoryLimited);
        let environment = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
        confinement.environment = environment.into_iter().collect();
        let words = "--unshare-all --die-with-parent --new-session --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run";
        let mut bwrap: Vec<PathBuf> = words.split(' ').map(PathBuf::from).collect();
        let files = &confinement.files;
        let mut option = |name: &str, paths: &[&Path]| {
            bwrap.push(name.into());
            bwrap.extend(paths.iter().map(|path| path.to_path_buf()));
        };
        files.home.iter().for_each(|home| option("--tmpfs", &[home]));
        files.home_readable.iter().for_each(|path| option("--ro-bind", &[path, path]));
        files.writable.iter().for_each(|path| option("--bind", &[path, path]));
        files.protected.iter().for_each(|path| option("--ro-bind", &[path, path]));
        for path in &files.hidden {
            if path.is_dir() {
                option("--tmpfs", &[path]);
            } else if fs::symlink_metadata(path).is_ok() {
                option("--ro-bind", &[Path::new("/dev/null"), path]);
            }
        }
        option("--chdir", &[&files.cwd]);
        Self { confinement, bwrap }
    }

    fn session(&self, parked: u32) -> SandboxSession {
        SandboxSession::open(self.confinement.clone(), RunAs::Caller, parked)
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

fn bash(script: &str) -> Confined {
    Confined { argv: vec!["/bin/bash".into(), "-c".into(), script.into()], ..Confined::default() }
}

fn bare() {
    spawned(Command::new("/bin/bash").args(["-c", "true"]));
}

fn spawned(command: &mut Command) {
    let ended = command.env_clear().envs(ENVIRONMENT).stdin(Stdio::null()).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn one_shot(place: &BenchFixture) {
    assert_eq!(launch::run(&place.confinement, &bash("true")).unwrap().status, CommandStatus::Exited(0));
}

fn in_session(session: &SandboxSession) {
    assert_eq!(session.start(&bash("true")).unwrap().finish().unwrap().status, CommandStatus::Exited(0));
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn p50_ms(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).unwrap().as_secs_f64() * 1e3
}

fn launches(name: &str, place: &BenchFixture, rounds: usize) {
    let (session, pool) = (place.session(0), place.session(3));
    let bwrap = || spawned(Command::new("bwrap").args(&place.bwrap).args(["/bin/bash", "-c", "true"]));
    type LaunchMethod<'a> = (&'a str, &'a dyn Fn(), Option<LatencyLimit>);
    let ways: [LaunchMethod<'_>; 5] = [
        ("bare", &bare, None),
        ("a process that waits ready", &|| in_session(&pool), Some(LatencyLimit::AtMost(1.25))),
        ("in a session", &|| in_session(&session), Some(LatencyLimit::AtMost(1.6))),
        ("alone", &|| one_shot(place), Some(LatencyLimit::AtMost(2.5))),
        ("bubblewrap", &bwrap, None),
    ];
    let mut times = ways.map(|_| Vec::with_capacity(rounds));
    for round in 0..rounds + 10 {
        for ((_, way, _), times) in ways.iter().zip(&mut times) {
            // Waits for the kernel's cleanup after the previous run, so that it is not measured here.
            std::thread::sleep(Duration::from_millis(2));
            let took = timed(way);
            if round >= 10 {
                times.push(took);
            }
        }
    }
    let middles = times.each_mut().map(|times| p50_ms(times));
    let [bare, ..] = middles;
    for ((way, _, bar), middle) in ways.iter().zip(middles).skip(1) {
        let what = format!("a start, {name}: {way}");
        row(&what, &format!("{bare:.2} ms"), &format!("{middle:.2} ms"), middle / bare, *bar);
    }
}

fn throughput(place: &BenchFixture, rounds: usize) {
    let sessions = [place.session(0), place.session(0)];
    let pools = [place.session(3), place.session(3)];
    let rate = |sessions: &[SandboxSession; 2], work: &(dyn Fn(&SandboxSession) + Sync)| {
        let until = Instant::now() + Duration::from_millis(700);
        let count = std::thread::scope(|scope| {
            let threads = sessions.each_ref().map(|session| {
                scope.spawn(move || {
                    let mut count = 0u32;
                    while Instant::now() < until {
                        work(session);
                        count += 1;
                    }
                    count
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
        });
        f64::from(count) / 0.7
    };
    let (mut without, mut with, mut ready) = (0.0, 0.0, 0.0);
    for _ in 0..rounds {
        without += rate(&sessions, &|_| bare());
        with += rate(&sessions, &in_session);
        ready += rate(&pools, &in_session);
    }
    let told = |sum: f64| format!("{:.0}/s", sum / rounds as f64);
    let what = "starts on two threads at once, in a session";
    row(what, &told(without), &told(with), with / without, Some(LatencyLimit::AtLeast(0.65)));
    let what = "the same, by processes that wait ready, which have to be made as well";
    row(what, &told(without), &told(ready), ready / without, None);
}

/// Measures the scan before and after every command that finds hidden paths and planted files.
fn looking(root: &Path) {
    for directory in 0..2500 {
        let path = root.join(format!("d{}/e{directory}", directory % 50));
        fs::create_dir_all(&path).unwrap();
        (0..20).for_each(|file| fs::write(path.join(format!("file-{file}.rs")), "").unwrap());
    }
    let mut warm = DirectoryIndex::new(vec![root.to_path_buf()], Some(DotenvPathPolicy));
    assert!(warm.is_watching());
    let mut cold = DirectoryIndex::new_unwatched(vec![root.to_path_buf()], Some(DotenvPathPolicy));
    let p50 = |work: &mut dyn FnMut()| p50_ms(&mut (0..15).map(|_| timed(&mut *work)).collect::<Vec<_>>());
    warm.protected_paths().unwrap();
    let fresh = p50(&mut || drop(cold.protected_paths().unwrap()));
    let unchanged = p50(&mut || drop(warm.protected_paths().unwrap()));
    let mut number = 0;
    let changed = p50(&mut || {
        fs::write(root.join(format!("d7/e7/new-{number}")), "").unwrap();
        number += 1;
        drop(warm.protected_paths().unwrap());
    });
    let what = "looking through 50,000 files in 2,550 directories again";
    let told = format!("{fresh:.1} ms");
    row(
        &format!("{what}: nothing is new"),
        &told,
        &format!("{:.1} µs", unchanged * 1e3),
        unchanged / fresh,
        None,
    );
    row(&format!("{what}: a file is new"), &told, &format!("{changed:.2} ms"), changed / fresh, None);
}

/// Measures what a copy adds to a start, in a directory that was scanned before: 10,000 files, of which some are hidden or
/// write-protected.
fn on_a_copy(root: &Path, rounds: usize) {
    let (home, store) = (root.join("home"), root.join("store"));
    fs::create_dir_all(&store).unwrap();
    for directory in 0..500 {
        let path = home.join(format!("work/d{}/e{directory}", directory % 25));
        fs::create_dir_all(&path).unwrap();
        (0..20).for_each(|file| fs::write(path.join(format!("file-{file}.rs")), "fn main() {}\n").unwrap());
    }
    let place = BenchFixture::everyday(&home);
    let (workspace, warm, uplink) = (home.join("work"), IndexCache::new(), NetworkBridge::new().unwrap());
    let run = |confinement: &Confinement, through: Option<(&NetworkBridge, Egress)>| {
        let started = launch::start_with_cache(confinement, &bash("true"), RunAs::Caller, through, &warm);
        let outcome = started.unwrap_or_else(|error| panic!("{error}")).finish().unwrap();
        assert_eq!(outcome.status, CommandStatus::Exited(0));
    };
    let mut number = 0;
    let mut copied = |network: Network| {
        number += 1;
        let [upper, work] = ["upper", "work"].map(|kind| store.join(format!("{kind}{number}")));
        [&upper, &work].iter().for_each(|directory| fs::create_dir(directory).unwrap());
        let source = CopySource::Overlay { lower_layers: Vec::new(), upper_dir: upper, work_dir: work };
        let mut confinement = place.confinement.clone();
        confinement.files.copies = vec![CopiedPath { root: workspace.clone(), source }];
        confinement.files.hidden.push(store.clone());
        Confinement { network, ..confinement }
    };
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..rounds + 10 {
        let [off, proxied] = [Network::Off, Network::Proxied].map(&mut copied);
        let took = [
            timed(|| run(&place.confinement, None)),
            timed(|| run(&off, None)),
            timed(|| run(&proxied, Some((&uplink, Egress::deny_all())))),
        ];
        if round >= 10 {
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    // The kernel's work directory of an overlay has no permissions, so it must get some before it can be
    // removed.
    for at in 1..=number {
        let prepared = store.join(format!("work{at}/work"));
        fs::set_permissions(prepared, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let [plain, copy, rehearsal] = times.each_mut().map(|times| p50_ms(times));
    let bar = 3.0;
    for (what, took) in [
        ("a start by itself on a copy of 10,000 files, known already", copy),
        ("the same, with its network led to a closed door", rehearsal),
    ] {
        let word = if took - plain <= bar { "within" } else { "**beyond**" };
        let more = took - plain;
        println!(
            "{ROW}| {what} | {plain:.2} ms confined | {took:.2} ms | +{more:.2} ms | ≤ +{bar:.2} ms | {word} |"
        );
        assert!(more <= 2.0 * bar, "{what}: {more:.2} ms more, which is far beyond {bar:.2}");
    }
}

struct DotenvPathPolicy;

impl PathPolicy for DotenvPathPolicy {
    fn is_hidden(&self, path: &str) -> bool {
        path.ends_with("/.env")
    }

    fn protects(&self, path: &str) -> bool {
        path.ends_with("/.git/config")
    }
}

fn resident(place: &BenchFixture, rounds: usize) {
    let p50 = || p50_ms(&mut (0..rounds).map(|_| timed(|| one_shot(place))).collect::<Vec<_>>());
    let before = p50();
    let memory = vec![1u8; 1 << 30];
    let large = p50();
    assert_eq!(std::hint::black_box(&memory).len(), 1 << 30);
    drop(memory);
    let small = before.min(p50());
    let what = "a start alone, by a program with 1 GiB in memory, against a small one";
    row(
        what,
        &format!("{small:.2} ms"),
        &format!("{large:.2} ms"),
        large / small,
        Some(LatencyLimit::AtMost(1.3)),
    );
}

fn killing(place: &BenchFixture, rounds: usize) {
    let up = place.confinement.files.cwd.join("up");
    let mut times = Vec::new();
    for _ in 0..rounds {
        let many = bash("for i in $(seq 150); do sleep 4242 & done; touch up; wait");
        let running = launch::start(&place.confinement, &many, RunAs::Caller).unwrap();
        let stopper = running.stopper().unwrap();
        let ending = std::thread::spawn(move || running.finish().unwrap());
        while !up.exists() {
            std::thread::yield_now();
        }
        times.push(timed(|| {
            stopper.stop().unwrap();
            assert_eq!(ending.join().unwrap().status, CommandStatus::Signalled(9));
        }));
        fs::remove_file(&up).unwrap();
    }
    let middle = p50_ms(&mut times);
    row(
        "killing 150 processes, in units of 100 ms",
        "",
        &format!("{middle:.0} ms"),
        middle / 100.0,
        Some(LatencyLimit::AtMost(1.0)),
    );
}

//! Measures the cost of a rehearsal for a build: `cargo build` of a small project on a copy, compared with the same build in place.
//!
//! `cargo bench -p byleave-tools --bench build` measures and writes its part of docs/performance.md. With `BYLEAVE_PROOF=short` it
//! runs fewer rounds and writes nothing. Either way it fails beyond twice its bar. As root the builds run as another user.
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a benchmark")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::tool::{RunContext, Tool as _, ToolContext};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::RunAs;
use byleave_sandbox::plan::UserIdentity;
use byleave_tools::{Bash, ExecutionEnv};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const BAR: f64 = 1.3;
const MODULES: usize = 60;
const UID: u32 = 61_004;

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "short");
    // The first round has cold caches. With three rounds, the median is used.
    let rounds = if short { 3 } else { 8 };
    let ground = BuildFixture::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut table = String::from(
        "| `cargo build` of a project of 60 modules | direct | rehearsed | ratio | bar | |\n|---|--:|--:|--:|--:|---|\n",
    );
    let mut worst: f64 = 0.0;
    for (what, prepare) in [("everything", "rm -rf target"), ("after one file changed", "echo >> src/m7.rs")]
    {
        let (mut direct, mut rehearsed) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            ground.shell(prepare);
            direct.push(ground.timed("cargo build --offline -q"));
            ground.shell(prepare);
            // A new session builds everything, because it has no scratch yet.
            let session = if what == "everything" { format!("s{round}") } else { "s".to_owned() };
            rehearsed.push(runtime.block_on(ground.rehearsed("cargo build --offline -q", &session)));
        }
        let [direct, rehearsed] = [direct, rehearsed].map(|mut all: Vec<Duration>| {
            all.sort();
            all.get(all.len() / 2).copied().unwrap()
        });
        let ratio = rehearsed.as_secs_f64() / direct.as_secs_f64();
        worst = worst.max(ratio);
        let beyond = if ratio > BAR { "**beyond**" } else { "" };
        let ms = |span: Duration| span.as_secs_f64() * 1e3;
        writeln!(
            table,
            "| {what} | {:.0} ms | {:.0} ms | {ratio:.2} | ≤ {BAR:.2} | {beyond} |",
            ms(direct),
            ms(rehearsed)
        )
        .unwrap();
    }
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("build", &table);
    }
    assert!(worst <= 2.0 * BAR, "a rehearsed build takes {worst:.2} times as long");
}

/// A project, a toolchain that another user can run, and a directory for copies.
struct BuildFixture {
    _folder: tempfile::TempDir,
    at: PathBuf,
    run_as: RunAs,
    tool: OnceLock<(Bash, Arc<Policy>)>,
}

impl BuildFixture {
    fn new() -> Self {
        // Not in a temporary directory, because each command has its own.
        let folder = tempfile::tempdir_in("/var/lib")
            .or_else(|_| tempfile::tempdir_in(std::env::var("HOME").unwrap()))
            .unwrap();
        let at = folder.path().canonicalize().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let run_as = if is_root { RunAs::User(UserIdentity { uid: UID, gid: UID }) } else { RunAs::Caller };
        for directory in ["home/w/src", "home/.rustup/toolchains", "home/.cargo", "state"] {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        // The toolchain is linked, not copied, because it is large and nothing changes it.
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
        let sysroot = String::from_utf8(sysroot.stdout).unwrap();
        let linked = Command::new("cp")
            .args(["-al", sysroot.trim()])
            .arg(at.join("home/.rustup/toolchains/here"))
            .status();
        assert!(linked.unwrap().success(), "the toolchain cannot be linked: is it on another disk?");
        let project = at.join("home/w");
        fs::write(project.join("Cargo.toml"), "[package]\nname = \"small\"\nedition = \"2021\"\n").unwrap();
        let mut main = String::new();
        for n in 0..MODULES {
            writeln!(main, "mod m{n};").unwrap();
            let body = format!(
                "#[derive(Clone, Debug, PartialEq)]\npub struct S{n} {{ pub a: u64, pub b: String }}\npub fn f(x: u64) -> S{n} {{ \
                 let all: Vec<String> = (0..x).map(|y| format!(\"{{y}}\")).collect(); S{n} {{ a: x, b: all.join(\",\") }} }}\n"
            );
            fs::write(project.join(format!("src/m{n}.rs")), body).unwrap();
        }
        let calls: String = (0..MODULES).map(|n| format!("println!(\"{{:?}}\", m{n}::f({n}));\n")).collect();
        fs::write(project.join("src/main.rs"), format!("{main}fn main() {{\n{calls}}}\n")).unwrap();
        if is_root {
            let mut left = vec![at.join("home"), at.join("home/.cargo"), project];
            while let Some(path) = left.pop() {
                chown(&path, Some(UID), Some(UID)).unwrap();
                if path.is_dir() && path.ends_with("w") || path.ends_with("src") {
                    left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                }
            }
            fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { _folder: folder, at, run_as, tool: OnceLock::new() }
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let home = self.at.join("home");
        let path = format!("{}/.rustup/toolchains/here/bin:/usr/bin:/bin", home.display());
        [("PATH", path), ("HOME", home.display().to_string())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    fn command(&self, text: &str) -> Command {
        let mut command = Command::new("/bin/bash");
        command.args(["-c", text]).current_dir(self.at.join("home/w")).env_clear().envs(self.environment());
        if let RunAs::User(identity) = self.run_as {
            command.uid(identity.uid).gid(identity.gid);
        }
        command
    }

    fn shell(&self, text: &str) {
        assert!(self.command(text).status().unwrap().success(), "{text}");
    }

    fn timed(&self, text: &str) -> Duration {
        let began = Instant::now();
        self.shell(text);
        began.elapsed()
    }

    /// The tool and the rules, created once, as in a long-lived gate.
    fn tool(&self) -> (Bash, Arc<Policy>) {
        let [workspace, home, state] = ["home/w", "home", "state"].map(|name| self.at.join(name));
        let texts = [&workspace, &home, &state].map(|path| path.to_str().unwrap().to_owned());
        let [w, h, s] = texts.each_ref().map(|text| Some(text.as_str()));
        let places = PathVariables { workspace: w, home: h, state: s, ..PathVariables::default() };
        let rules = Arc::new(Policy::new(builtin_rules(&places).unwrap()).unwrap());
        let mut workplace = ExecutionEnv::new(state.join("copies"), workspace);
        workplace.home = Some(home);
        workplace.private_paths = vec![state];
        workplace.environment = self.environment();
        workplace.waived = BTreeSet::from([Guarantee::MemoryLimited]);
        workplace.run_as = self.run_as;
        (Bash::new(workplace), rules)
    }

    /// Builds on a copy: create, run, list, compare. Then commits, so that the session has its scratch.
    async fn rehearsed(&self, text: &str, session: &str) -> Duration {
        let (bash, rules) = self.tool.get_or_init(|| self.tool());
        let rehearser = bash.as_rehearsable().unwrap();
        let site = ToolContext {
            tenant: "t".parse().unwrap(),
            session: SessionId::new(session).unwrap(),
            agent: AgentId::new("a").unwrap(),
            cwd: self.at.join("home/w"),
        };
        let effects = vec![Effect::Run { program: "cargo".into(), argv: vec!["cargo".into()] }];
        let plan = Arc::new(Plan { effects, ..Plan::default() });
        let call = CallId::new(Uuid::new_v4());
        let run = || {
            RunContext::new(call, site.clone(), Arc::clone(&plan), CancellationToken::new(), Arc::new(|_| {}))
                .with_policy(Arc::clone(rules), Mode::ConfirmSensitive)
        };
        let began = Instant::now();
        let seen = rehearser
            .rehearse(json!({ "command": text }), run())
            .await
            .unwrap_or_else(|error| panic!("{error}"));
        let took = began.elapsed();
        assert!(!seen.output.is_error && seen.has_no_effects(), "{seen:?}");
        let committed = rehearser.commit(seen, None, run()).await;
        assert!(!committed.is_error, "{committed:?}");
        took
    }
}

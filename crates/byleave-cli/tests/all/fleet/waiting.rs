//! Very many open questions: the cost of each in the engine, and their effect on people and on other calls. The long form:
//! `BYLEAVE_QUESTIONS=100000 BYLEAVE_CALLS=200`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_fleet::RestateLedger;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use byleave_gate::typed_tool::TypedTool;
use serde_json::{Value, json};

use super::{FleetFixture, nth, number};
use crate::serve::{HttpServerProcess, token};
use crate::worker::{WorkerProcess, settled, token_file};
use crate::world::CliTestWorld;

/// The limits. Times are noisy, so a test fails only beyond twice these values. Sizes are not noisy.
const STATE_BYTES_MAX: u64 = 1_024;
const SERVICE_MB_MAX: u64 = 64;
const PAGE_MAX: Duration = Duration::from_millis(50);
const RESTART_MAX: Duration = Duration::from_secs(15);

const LANES: u32 = 48;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct TouchArguments {
    path: PathBuf,
}

/// A gate on the same ledger as the gateway's, for work that would take hours over HTTP.
struct SharedLedgerGate {
    gate: Gate,
    ledger: Arc<RestateLedger>,
    workspace: PathBuf,
}

impl SharedLedgerGate {
    fn open(fleet: &FleetFixture, world: &CliTestWorld) -> Self {
        let text = std::fs::read_to_string(fleet.file()).unwrap();
        let reached = byleave_fleet::Fleet::parse(&text).unwrap_or_else(|fault| panic!("{fault}"));
        let ledger = reached.ledger(&TenantId::new("local").unwrap(), &fleet.run().join("inside")).unwrap();
        let ledger = Arc::new(ledger);
        let touch = TypedTool::new("touch", "makes a file", |args: TouchArguments, _run| async move {
            std::fs::write(args.path, "").unwrap();
            Output::text("made")
        });
        let gate = Gate::builder()
            .ledger(ledger.clone())
            .tool(touch.permission_class(PermissionClass::File).role("/path", ArgumentRole::WritePath))
            .settings(GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() })
            .build()
            .unwrap();
        Self { gate, ledger, workspace: world.workspace() }
    }

    fn call(&self, session: &str, file: &str, mode: Mode) -> Call {
        Call {
            id: CallId::new(fresh_id()),
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new(session).unwrap(),
            agent: AgentId::new("agent").unwrap(),
            tool: "touch".into(),
            arguments: json!({ "path": self.workspace.join(file) }),
            reason: None,
            cwd: self.workspace.to_str().unwrap().into(),
            mode,
            dry_run: false,
        }
    }

    /// Asks this many questions, each about a different file, so that none blocks another.
    async fn ask(self: &Arc<Self>, many: u32) {
        let lanes = (0..LANES).map(|lane| {
            let inside = Arc::clone(self);
            tokio::spawn(async move {
                for number in (lane..many).step_by(LANES as usize) {
                    let (session, file) = (format!("s{}", number % (many / 100)), format!("asked-{number}"));
                    let call = inside.call(&session, &file, Mode::ConfirmSensitive);
                    let standing = inside.gate.advance(call).await;
                    assert!(matches!(standing, CallStatus::Waiting { .. }), "{standing:?}");
                }
            })
        });
        for lane in futures::future::join_all(lanes).await {
            lane.unwrap();
        }
    }

    /// Waits until the audit log is complete. Returns how long that took.
    async fn is_in_the_book(&self) -> Duration {
        let began = Instant::now();
        while self.ledger.book_lag(0).await.unwrap().waiting > 0 {
            assert!(began.elapsed() < Duration::from_secs(600), "the book does not catch up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        began.elapsed()
    }

    /// Measures calls without a question from end to end. Returns the median and the 99th percentile.
    ///
    /// Uses the quietest of three rounds, before as well as during the questions, because the machine has other work too.
    async fn unrelated(&self, calls: u32) -> (Duration, Duration) {
        let mut rounds = Vec::new();
        for _ in 0..3 {
            let mut times = Vec::new();
            for _ in 0..calls {
                let call = self.call("unrelated", "made", Mode::Yolo);
                let started = Instant::now();
                let result = self.gate.settle(call).await;
                times.push(started.elapsed());
                assert_eq!(result.outcome.as_str(), "completed", "{result:?}");
            }
            rounds.push((nth(&mut times, 50), nth(&mut times, 99)));
        }
        rounds.into_iter().min_by_key(|(_, p99)| *p99).unwrap()
    }
}

// req: E4, E5
#[test]
#[ignore = "long: scripts/prove fleet-questions"]
fn a_great_many_open_questions_cost_little_and_hold_up_nobody() {
    let (many, calls) = (number("BYLEAVE_QUESTIONS", 200), number("BYLEAVE_CALLS", 10));
    let (fleet, world) = (FleetFixture::start(1), CliTestWorld::new());
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let words = ["--fleet", &*fleet.file(), "--requests-per-second", "100000"];
    let mut served = HttpServerProcess::start(&world, &words);
    let (address, worker) = (served.address.clone(), token_file(&world, "w1"));
    let mut hired = WorkerProcess::start(&world, "w1", &worker, &address);
    // This question comes over HTTP and is asked first, so it is below all others in the list.
    let body = json!({"tool": "append_line", "arguments": {"path": "answered.txt", "line": "yes"}});
    let first = served.asked_about(&bot, "k", &body);

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let inside = Arc::new(SharedLedgerGate::open(&fleet, &world));
    runtime.block_on(inside.unrelated(5));
    let quiet = runtime.block_on(inside.unrelated(calls));
    runtime.block_on(inside.is_in_the_book());
    let before = state_bytes(&fleet);
    let began = Instant::now();
    runtime.block_on(inside.ask(many));
    let asked_in = began.elapsed();
    let behind = runtime.block_on(inside.is_in_the_book());
    let each = |(kind, bytes): (String, u64)| {
        let more = bytes.saturating_sub(before.get(&kind).copied().unwrap_or_default());
        (kind, more / u64::from(many))
    };
    let kinds: BTreeMap<String, u64> = state_bytes(&fleet).into_iter().map(each).collect();
    let state: u64 = kinds.values().sum();
    let busy = runtime.block_on(inside.unrelated(calls));
    let mut pages = pages(&served, &ann);
    let (page, page_max) = (nth(&mut pages, 50), nth(&mut pages, 100));
    let service_mb = resident_mb(&fleet, "service");
    let server_mb = resident_mb(&fleet, "server");

    // Everything is killed at once and started again.
    drop(inside);
    ["server", "service", "postgres"].iter().for_each(|part| fleet.signal(part, "-KILL"));
    served.kill();
    hired.kill();
    let began = Instant::now();
    fleet.up();
    let served = HttpServerProcess::start_at(&world, &address, &words, &[]);
    let hired = WorkerProcess::start(&world, "w1", &worker, &address);
    let path =
        format!("/v1/questions/{}", first["question"]["id"].as_str().unwrap_or_else(|| panic!("{first}")));
    let (_, sheet) = served.ask(&ann, "GET", &path, &Value::Null);
    let yes = json!({"digest": sheet["question"]["digest"], "answer": {"kind": "yes"}});
    let (status, said) = served.ask(&ann, "POST", &format!("{path}/answer"), &yes);
    assert!(matches!(status, 200 | 202), "{said} {sheet}");
    let restart = began.elapsed();
    let standing = settled(&served, &bot, &first["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    let resumed = began.elapsed();
    println!(
        "figure: {many} open questions, asked in {:.0} s, in the book {:.1} s after the last; each {state} bytes of the engine's state {kinds:?}; the \
         service has {service_mb} MB, the server {server_mb} MB; a page of the inbox over HTTP took p50 {:.1} ms, at most {:.1} ms of {}; an \
         unrelated call p50 {:.1} ms, p99 {:.1} ms before and p50 {:.1} ms, p99 {:.1} ms beside them; from all of it killed to the \
         first answer {:.1} s, to its call's end {:.1} s",
        asked_in.as_secs_f64(),
        behind.as_secs_f64(),
        ms(page),
        ms(page_max),
        pages.len(),
        ms(quiet.0),
        ms(quiet.1),
        ms(busy.0),
        ms(busy.1),
        restart.as_secs_f64(),
        resumed.as_secs_f64(),
    );
    // Only the answered call ran.
    assert_eq!(world.file("answered.txt"), "yes\n");
    let left = std::fs::read_dir(world.workspace()).unwrap().map(|entry| entry.unwrap().file_name());
    let asked: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("asked-")).collect();
    assert!(asked.is_empty(), "nobody said yes to {asked:?}");
    assert!(state <= STATE_BYTES_MAX, "{state} bytes of state for each question");
    assert!(service_mb < SERVICE_MB_MAX, "the service has {service_mb} MB");
    assert!(page <= PAGE_MAX * 2, "a page of the inbox took {page:?}");
    assert!(busy.0 <= quiet.1 * 2, "a usual call took {:?}, and at most {:?} before", busy.0, quiet.1);
    // With few calls, the slowest time is chance.
    let is_long = calls >= 200;
    assert!(!is_long || busy.1 <= quiet.1 * 2, "a call took {:?}, and {:?} before", busy.1, quiet.1);
    assert!(restart <= RESTART_MAX * 2, "the first answer was taken after {restart:?}");
    hired.stop();
    served.stop();
}

/// Measures repeatedly how long the first page of the inbox takes over HTTP.
fn pages(served: &HttpServerProcess, ann: &str) -> Vec<Duration> {
    let page = |_| {
        let started = Instant::now();
        let (status, open) = served.ask(ann, "GET", "/v1/questions", &Value::Null);
        let took = started.elapsed();
        assert!(status == 200 && open["questions"].as_array().is_some_and(|page| page.len() >= 50), "{open}");
        took
    };
    (0..100).map(page).collect()
}

/// Returns the size of all keys and values in the engine, by kind of entity.
fn state_bytes(fleet: &FleetFixture) -> BTreeMap<String, u64> {
    let sql = "select service_name, sum(octet_length(service_name) + octet_length(service_key) + octet_length(key) + \
               length(encode(value, 'hex')) / 2) as bytes from state group by service_name";
    let output = Command::new("curl")
        .args(["-sS", "-m", "120", "-H", "accept: application/json", "-H", "content-type: application/json"])
        .args(["-d", &json!({ "query": sql }).to_string()])
        .arg(format!("http://127.0.0.1:{}/query", fleet.port + 1))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
    let of = |row: &Value| Some((row["service_name"].as_str()?.to_owned(), row["bytes"].as_u64()?));
    answer["rows"]
        .as_array()
        .and_then(|rows| rows.iter().map(of).collect())
        .unwrap_or_else(|| panic!("{said}"))
}

fn resident_mb(fleet: &FleetFixture, part: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fleet.pids(part)[0])).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1_024
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

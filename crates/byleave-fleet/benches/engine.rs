//! What a governed call costs on the engine, beside an empty handler of the same engine: calls a second at 16 in flight, how long
//! one takes alone, the service's processor time, and how many invocations the engine makes of it. In turns in one run.
//!
//! `scripts/prove fleet-cost` measures and writes docs/performance.md (its part between the marks). With `BYLEAVE_PROOF=short` it
//! takes less than a minute and writes nothing. Either way it fails where something has become about twice as dear as it is.
//!
//! The engine, the service, the empty handler and Postgres are processes of their own; gates, office and worker are tasks of
//! this one, on the same cores.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark"
)]

#[path = "engine/bare.rs"]
mod bare;
#[expect(dead_code, reason = "proofs do more with it")]
#[path = "../tests/all/proofs/fleet.rs"]
mod fleet;
#[expect(dead_code, reason = "proofs do more with it")]
#[path = "../tests/all/proofs/postgres.rs"]
mod postgres;
#[path = "engine/ways.rs"]
mod ways;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use byleave_fleet::Books;
use futures::future::join_all;

use crate::bare::{Asker, Served};
use crate::fleet::Fleet;
use crate::postgres::Postgres;
use crate::ways::{Ground, Way};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// So many calls at once.
const MANY: usize = 16;
/// What the service may spend on a call.
const CPU_MS_MAX: f64 = 0.4;

/// What is measured, and what it is held to.
struct Row {
    what: &'static str,
    way: Way,
    is_booked: bool,
    /// Of the empty handler's calls a second: the bar, and what is aimed at.
    share: Option<(f64, f64)>,
    /// Times the empty handler's p50.
    times: Option<f64>,
    /// Below this share, something has become worse since docs/performance.md was written.
    worse: f64,
}

const ROWS: [Row; 8] = [
    row("an empty handler", Way::Bare, false, None, None, 0.0),
    row("inline: a read by a repeatable tool", Way::Inline, false, Some((0.40, 0.60)), Some(1.8), 0.05),
    row("the same, with the book", Way::Inline, true, None, None, 0.03),
    row("inline: a tool with side effects", Way::Claimed, false, None, None, 0.03),
    row("by a worker: a tool with side effects", Way::Worker, false, Some((0.38, 0.50)), Some(2.2), 0.03),
    row("the same, with the book", Way::Worker, true, None, None, 0.02),
    row("asked about and approved", Way::Approve, false, Some((0.20, 0.30)), None, 0.012),
    row("the same, with the book", Way::Approve, true, None, None, 0.01),
];

const fn row(
    what: &'static str,
    way: Way,
    is_booked: bool,
    share: Option<(f64, f64)>,
    times: Option<f64>,
    worse: f64,
) -> Row {
    Row { what, way, is_booked, share, times, worse }
}

/// What one row has come to, one figure for each round.
#[derive(Default)]
struct Figures {
    rates: Vec<f64>,
    p50s: Vec<f64>,
    service_ms: Vec<f64>,
    engine_ms: Vec<f64>,
    invocations: Vec<f64>,
}

/// Everything that runs.
struct Stage {
    fleet: Fleet,
    served: Served,
    asker: Asker,
    plain: Ground,
    booked: Ground,
}

fn main() {
    if bare::serve_if_told() {
        return;
    }
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "short");
    let (rounds, size) = if short { (1, 1) } else { (5, 2) };
    let folder = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(folder.path());
    let fleet = Fleet::start_with_book(folder.path(), &postgres.url());
    let books = Arc::new(Books::parse(&postgres.url()).unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (failures, table) = runtime.block_on(async {
        let (served, asker) = (Served::start(), Asker::new());
        asker.register(&fleet.admin(), &served).await;
        let plain = Ground::new(&fleet.ingress(), None, folder.path());
        let booked = Ground::new(&fleet.ingress(), Some(books), folder.path());
        let stage = Stage { fleet, served, asker, plain, booked };
        let mut figures: Vec<Figures> = ROWS.iter().map(|_| Figures::default()).collect();
        for round in 0..=rounds {
            for (row, figures) in ROWS.iter().zip(&mut figures) {
                let measured = stage.measure(row, size).await;
                // The first is to warm up.
                if round > 0 {
                    figures.add(measured);
                }
            }
        }
        show(&mut figures, rounds)
    });
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("engine", &table);
    }
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

impl Figures {
    fn add(&mut self, [rate, p50, service, engine, invocations]: [f64; 5]) {
        self.rates.push(rate);
        self.p50s.push(p50);
        self.service_ms.push(service);
        self.engine_ms.push(engine);
        self.invocations.push(invocations);
    }
}

impl Stage {
    /// Calls a second with many at once, and the median of how long one takes alone; and of the former what each call costs.
    async fn measure(&self, row: &Row, size: usize) -> [f64; 5] {
        let (many, alone) = match row.way {
            Way::Bare => (400 * size, 50 * size),
            Way::Inline => (150 * size, 25 * size),
            Way::Claimed | Way::Worker => (100 * size, 15 * size),
            Way::Approve => (50 * size, 10 * size),
        };
        let service = if row.way == Way::Bare { self.served.pid() } else { self.fleet.pid("service") };
        let engine = self.fleet.pid("server");
        let before = (cpu_ms(service), cpu_ms(engine), self.invocations().await);
        let began = Instant::now();
        self.run(row, MANY, many).await;
        let rate = many as f64 / began.elapsed().as_secs_f64();
        let after = (cpu_ms(service), cpu_ms(engine), self.invocations().await);
        let mut took = self.run(row, 1, alone).await;
        took.sort_unstable();
        let each = |before: f64, after: f64| (after - before) / many as f64;
        [
            rate,
            took[took.len() / 2].as_secs_f64() * 1e3,
            each(before.0, after.0),
            each(before.1, after.1),
            each(before.2, after.2),
        ]
    }

    /// Makes calls, so many at a time. With a book, it is over when the book has all of them.
    async fn run(&self, row: &Row, at_once: usize, calls: usize) -> Vec<Duration> {
        let ground = if row.is_booked { &self.booked } else { &self.plain };
        let next = AtomicUsize::new(0);
        let next = &next;
        let callers = (0..at_once).map(|caller| async move {
            let mut took = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < calls {
                let began = Instant::now();
                ground.go(row.way, caller).await;
                took.push(began.elapsed());
            }
            took
        });
        let took = join_all(callers).await.concat();
        while row.is_booked && ground.ledger.book_lag(now()).await.unwrap().waiting > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        took
    }

    /// How many invocations the engine has begun so far, by its own count.
    async fn invocations(&self) -> f64 {
        let (host, port) =
            self.fleet.ingress().rsplit_once(':').map(|(h, p)| (h.to_owned(), p.to_owned())).unwrap();
        let node = port.parse::<u16>().unwrap() + 2;
        let page = self.asker.page(&format!("http://{host}:{node}/metrics")).await;
        let counted = page.lines().filter(|line| line.starts_with(TASKS) && line.contains(STARTED));
        counted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

const TASKS: &str = "restate_invoker_invocation_tasks_total{";
const STARTED: &str = "status=\"started\"";

/// The processor time that a process has had.
fn cpu_ms(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<f64>().unwrap();
    // Behind the name: user and system time, in hundredths of a second.
    (ticks(11) + ticks(12)) * 10.0
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn show(figures: &mut [Figures], rounds: usize) -> (Vec<String>, String) {
    let (mut lines, mut failures) = (String::new(), Vec::new());
    let (bare_rate, bare_p50) = (median(&mut figures[0].rates), median(&mut figures[0].p50s));
    for (row, figures) in ROWS.iter().zip(figures) {
        let (rate, p50) = (median(&mut figures.rates), median(&mut figures.p50s));
        let (share, times) = (rate / bare_rate, p50 / bare_p50);
        let held = |bar: Option<String>, within: bool| {
            bar.map_or_else(String::new, |bar| format!("{bar}{}", if within { "" } else { ", **missed**" }))
        };
        let share_bar = held(
            row.share.map(|(bar, aim)| format!("≥ {bar:.2}, aim {aim:.2}")),
            row.share.is_none_or(|(bar, _)| share >= bar),
        );
        let times_bar =
            held(row.times.map(|bar| format!("≤ {bar:.1}")), row.times.is_none_or(|bar| times <= bar));
        let service = median(&mut figures.service_ms);
        let cpu_bar =
            held((row.way != Way::Bare).then(|| format!("≤ {CPU_MS_MAX:.1}")), service <= CPU_MS_MAX);
        lines += &format!(
            "| {} | {rate:.0} | {share:.2} | {share_bar} | {p50:.1} ms | {times:.1} | {times_bar} | {service:.2} ms | {cpu_bar} | {:.2} ms | {:.1} |\n",
            row.what,
            median(&mut figures.engine_ms),
            median(&mut figures.invocations),
        );
        if share < row.worse {
            failures.push(format!("{}: {share:.3} of the empty handler", row.what));
        }
    }
    let table = format!(
        "| what | calls/s at {MANY} | share | bar | p50 at 1 | times | bar | service CPU | bar | engine CPU | invocations |\n\
         |---|--:|--:|---|--:|--:|---|--:|---|--:|--:|\n{lines}\n\
         {rounds} rounds in turns, the median of each figure. CPU and invocations are per call, at {MANY} in flight; with the book, \
         a run is over when the book has everything.\n",
    );
    (failures, table)
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

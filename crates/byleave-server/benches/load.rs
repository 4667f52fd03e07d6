//! What the server bears: calls a second and how long they take beside an empty handler with the same bytes and one SQLite batch,
//! and how many can follow a call at once. Measured in turns in one run, on loopback, with a bounded number of requests.
//!
//! `scripts/prove load` measures and writes docs/performance.md (its part between the marks). With `BYLEAVE_PROOF=short` it takes
//! seconds and writes nothing. Either way it fails where something has become about twice as dear as it is.
//!
//! Both servers are processes of their own, started from this program; the clients are tasks of this one, on the same cores.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark"
)]

#[path = "load/client.rs"]
mod client;
#[path = "load/sides.rs"]
mod sides;

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::LoadClient;
use crate::sides::ServerKind;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What share of the bare handler's calls a second must be reached.
const SHARE_MIN: f64 = 0.5;
/// How long a call may take at 256 connections, but for one in a hundred.
const P99_MAX: Duration = Duration::from_millis(20);
/// Beyond these, something has become worse since docs/performance.md was written.
const WORSE_SHARE: f64 = 0.10;
const WORSE_P99: Duration = Duration::from_millis(500);
const WORSE_LAST: Duration = Duration::from_secs(5);
const WORSE_KB_EACH: f64 = 100.0;

struct LoadSizes {
    rounds: usize,
    /// Calls of each connection, in a round.
    each: usize,
    subscribers: usize,
}

/// What was measured at one number of connections.
#[derive(Default)]
struct LoadMeasurement {
    rates: Vec<f64>,
    took: Vec<Duration>,
}

fn main() {
    if let Some(side) = ServerKind::told() {
        return side.serve();
    }
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "short");
    let sizes = if short {
        LoadSizes { rounds: 3, each: 8, subscribers: 1_000 }
    } else {
        LoadSizes { rounds: 9, each: 40, subscribers: 10_000 }
    };
    // Every follower is a file on either side; a child has the limits of who starts it.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder =
        tempfile::tempdir_in(std::env::var("CARGO_TARGET_TMPDIR").unwrap_or_else(|_| "/var/tmp".into()))
            .unwrap();
    let ours = sides::start(ServerKind::Ours, folder.path(), 0);
    runtime.block_on(LoadClient::new(&ours).calls(1, 1));
    let stored = sides::stored(folder.path());
    let bare = sides::start(ServerKind::Bare, folder.path(), stored);
    let (before, mut rows, mut failures) = (ours.resident_kb(), Vec::new(), Vec::new());

    for connections in [64, 256] {
        let (mut theirs, mut mine) = (LoadMeasurement::default(), LoadMeasurement::default());
        for _ in 0..sizes.rounds {
            for (side, measured) in [(&bare, &mut theirs), (&ours, &mut mine)] {
                let (took, all) = runtime.block_on(LoadClient::new(side).calls(connections, sizes.each));
                measured.rates.push(took.len() as f64 / all.as_secs_f64());
                measured.took.extend(took);
            }
        }
        let share = median(&mut mine.rates) / median(&mut theirs.rates);
        rows.push(format!(
            "| calls a second, {connections} connections | {:.0} | {:.0} | {share:.2} | ≥ {SHARE_MIN:.2} | {} |\n",
            median(&mut theirs.rates),
            median(&mut mine.rates),
            word(share >= SHARE_MIN),
        ));
        for (name, part, bar) in [("p50", 0.50, None), ("p99", 0.99, (connections == 256).then_some(P99_MAX))]
        {
            let (bare, ours) = (quantile(&mut theirs.took, part), quantile(&mut mine.took, part));
            let bars = bar.map(|bar| (format!("≤ {}", ms(bar)), word(ours <= bar)));
            let (bar, within) = bars.unwrap_or_default();
            let ratio = ours.as_secs_f64() / bare.as_secs_f64();
            rows.push(format!(
                "| {name} of a call, {connections} connections | {} | {} | {ratio:.2} | {bar} | {within} |\n",
                ms(bare),
                ms(ours),
            ));
        }
        let p99 = quantile(&mut mine.took, 0.99);
        if share < WORSE_SHARE || p99 > WORSE_P99 {
            failures
                .push(format!("{connections} connections: {share:.2} of the bare handler, p99 {}", ms(p99)));
        }
    }
    let after = ours.resident_kb();
    let followed =
        runtime.block_on(LoadClient::new(&ours).followed(sizes.subscribers, || ours.resident_kb()));
    let each_kb = (followed.resident_kb.saturating_sub(after)) as f64 / sizes.subscribers as f64;
    if followed.last > WORSE_LAST || each_kb > WORSE_KB_EACH {
        failures.push(format!("the last follower heard after {}, {each_kb:.1} kB each", ms(followed.last)));
    }
    rows.push(format!(
        "| {} who follow a call: the first has its end after | | {} | | | |\n",
        sizes.subscribers,
        ms(followed.first)
    ));
    rows.push(format!(
        "| {} who follow a call: the last has its end after | | {} | | | |\n",
        sizes.subscribers,
        ms(followed.last)
    ));
    let mb = |kb: usize| format!("{:.1} MB", kb as f64 / 1_024.0);
    let all = 2 * sizes.rounds * sizes.each * (64 + 256);
    let table = format!(
        "| what | bare | ours | ratio | bar | |\n|---|--:|--:|--:|--:|---|\n{}\n\
         {all} calls in all, half of them ours, a new key each; {stored} bytes stored for each, on both sides. Resident memory of \
         our server: {} at first, {} after its calls, {} with {} who follow ({each_kb:.1} kB each), {} when they have gone.\n",
        rows.concat(),
        mb(before),
        mb(after),
        mb(followed.resident_kb),
        sizes.subscribers,
        mb(ours.resident_kb()),
    );
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("load", &table);
    }
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

const fn word(within: bool) -> &'static str {
    if within { "within" } else { "**beyond**" }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    let place = (times.len() as f64 * part) as usize;
    times.get(place).copied().unwrap_or_default()
}

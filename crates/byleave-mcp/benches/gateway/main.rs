//! Compares the gateway with a direct connection, a bare proxy and other gateways, alternating in one run.
//!
//! `scripts/prove mcp` builds the programs, measures, and writes docs/performance.md (its part between the marks). With
//! `BYLEAVE_PROOF=short` it takes seconds and writes nothing. The bars are missed, and the page says so. It fails if the gateway has
//! become about twice as slow.
//!
//! `BYLEAVE_PROGRAM` is the program with the gateway. By default it is the one next to the fixtures. `BYLEAVE_OTHERS` is where
//! other gateways are installed (scripts/prove does that); missing ones are skipped and listed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a benchmark"
)]

mod ways;

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::ways::{BenchPath, BenchTransport};

/// The number of concurrent calls.
const CALLERS: usize = 64;
/// The most that the gateway may add to a bare proxy on stdio, apart from the bare commits.
const ADDED_US_MAX: f64 = 150.0;
/// The least share of the bare proxy's calls per second.
const SHARE_MIN: f64 = 0.5;
/// A result beyond these is worse than docs/performance.md says.
const WORSE_US: f64 = 1_200.0;
const WORSE_SHARE: f64 = 0.10;
/// The sizes of the commits that the gate stores for one call with side effects. Used without
/// a gateway to read them from.
const USUAL_COMMITS: [usize; 2] = [2213, 796];

struct BenchSizes {
    rounds: usize,
    /// Sequential calls in a round.
    alone: usize,
    /// Calls of each concurrent caller in a round.
    each: usize,
}

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "short");
    let sizes = if short {
        BenchSizes { rounds: 3, alone: 150, each: 8 }
    } else {
        BenchSizes { rounds: 15, alone: 400, each: 40 }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let place = ways::BenchDirectory::new();
    let mut ways = runtime.block_on(ways::all(&place));
    let stored = stored(&place.state()).unwrap_or_else(|| USUAL_COMMITS.to_vec());
    let bare = BareSqlite::open(place.path());
    let mut commits = Vec::new();
    for _ in 0..sizes.rounds {
        commits.extend((0..sizes.alone).map(|_| timed(|| stored.iter().for_each(|size| bare.commit(*size)))));
        for way in &mut ways {
            // Slow paths get fewer calls.
            let (alone, each) = if way.slow {
                (sizes.alone / 10, sizes.each.div_ceil(10))
            } else {
                (sizes.alone, sizes.each)
            };
            runtime.block_on(way.one_by_one(alone));
            runtime.block_on(way.at_once(CALLERS, each));
        }
    }
    let commits = quantile(&mut commits, 0.5);
    let (table, failures) = report(&mut ways, commits, &stored);
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("gateway", &table);
    }
    runtime.block_on(async {
        for way in ways {
            way.end().await;
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("; "));
}

/// Returns the table, and the results that have become worse.
fn report(ways: &mut [BenchPath], commits: Duration, stored: &[usize]) -> (String, Vec<String>) {
    let mut table = String::from(
        "| over | way | p50 | p99 | p50, to the bare proxy | calls/s, 64 in flight | to the bare proxy |\n|---|---|--:|--:|--:|--:|--:|\n",
    );
    let mut failures = Vec::new();
    let mut bars = String::new();
    for over in [BenchTransport::Stdio, BenchTransport::Http] {
        let proxy = ways.iter_mut().find(|way| way.over == over && way.what == ways::PROXY).unwrap();
        let (proxy_p50, proxy_rate) = (quantile(&mut proxy.took, 0.5), median(&mut proxy.rates));
        for way in ways.iter_mut().filter(|way| way.over == over) {
            let (p50, p99, rate) =
                (quantile(&mut way.took, 0.5), quantile(&mut way.took, 0.99), median(&mut way.rates));
            let (times, share) = (p50.as_secs_f64() / proxy_p50.as_secs_f64(), rate / proxy_rate);
            table += &format!(
                "| {over} | {} | {} | {} | {times:.2} | {rate:.0} | {share:.2} |\n",
                way.what,
                us(p50),
                us(p99),
            );
            if way.what == ways::GATEWAY {
                let added = (p50.as_secs_f64() - proxy_p50.as_secs_f64() - commits.as_secs_f64()) * 1e6;
                let word = |within: bool| if within { "within" } else { "**beyond**" };
                bars += &format!(
                    "- {over}: beyond the bare commits the gateway adds {added:.0} µs to the bare proxy (bar on stdio: ≤ {ADDED_US_MAX:.0} µs, {}), and with 64 in flight reaches {share:.2} of its calls (bar: ≥ {SHARE_MIN:.2}, {}).\n",
                    word(added <= ADDED_US_MAX),
                    word(share >= SHARE_MIN),
                );
                if over == BenchTransport::Stdio && (added > WORSE_US || share < WORSE_SHARE) {
                    failures.push(format!("the gateway adds {added:.0} µs and reaches {share:.2}"));
                }
            }
        }
    }
    if bars.is_empty() {
        bars = "- There was no gateway to measure (BYLEAVE_PROGRAM).\n".into();
    }
    table += &format!(
        "\nThe bare commits that the safety of a call needs ({stored:?} bytes, SQLite in WAL mode, `synchronous=FULL`, same disk): {} (p50).\n\n{bars}",
        us(commits)
    );
    (table, failures)
}

/// The number of bytes that the audit log stored for the newest call, one number per commit.
fn stored(state: &Path) -> Option<Vec<usize>> {
    let book = find(state, "audit.sqlite")?;
    let sql = "SELECT length(body) + length(contents) + coalesce(length(key), 0) + 16 + 32 FROM batch
               WHERE call = (SELECT call FROM batch WHERE call IS NOT NULL ORDER BY pos DESC LIMIT 1) ORDER BY seq";
    let book = Connection::open(book).ok()?;
    let mut statement = book.prepare(sql).ok()?;
    let sizes = statement.query_map([], |row| row.get::<_, i64>(0)).ok()?;
    let sizes: Vec<usize> = sizes.filter_map(|size| usize::try_from(size.ok()?).ok()).collect();
    (!sizes.is_empty()).then_some(sizes)
}

fn find(under: &Path, name: &str) -> Option<std::path::PathBuf> {
    std::fs::read_dir(under).ok()?.flatten().find_map(|entry| {
        if entry.file_name() == name { Some(entry.path()) } else { find(&entry.path(), name) }
    })
}

/// A bare SQLite file with one table, on the same disk, with the settings of the audit log.
struct BareSqlite(Connection);

impl BareSqlite {
    fn open(folder: &Path) -> Self {
        let connection = Connection::open(folder.join("bare.sqlite")).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        let table = "PRAGMA synchronous = FULL; CREATE TABLE t(pos INTEGER PRIMARY KEY, body BLOB NOT NULL)";
        connection.execute_batch(table).unwrap();
        Self(connection)
    }

    fn commit(&self, size: usize) {
        let mut insert = self.0.prepare_cached("INSERT INTO t(body) VALUES(?1)").unwrap();
        insert.execute([vec![7_u8; size]]).unwrap();
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

fn quantile(samples: &mut [Duration], part: f64) -> Duration {
    samples.sort_unstable();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a list")]
    let at = (samples.len() as f64 * part) as usize;
    samples.get(at.min(samples.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

fn us(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    if us < 10_000.0 { format!("{us:.0} µs") } else { format!("{:.1} ms", us / 1e3) }
}

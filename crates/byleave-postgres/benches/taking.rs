//! Compares ingestion into the audit log with bare inserts of the same rows into the same tables, in batches of the same size.
//!
//! `scripts/prove book-cost` measures and writes docs/performance.md (its part between the marks). With `BYLEAVE_PROOF=short` it
//! takes some seconds and writes nothing. Either way it fails if ingestion costs twice the bar. Needs the Postgres of
//! `scripts/postgres up`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a benchmark"
)]

#[expect(dead_code, reason = "tests do more with it")]
#[path = "../tests/all/server.rs"]
mod server;
#[path = "../tests/all/story.rs"]
mod story;

use std::time::{Duration, Instant};

use byleave_conformance::ledger::record_script::ScriptSettings;
use byleave_gate::audit_log::AuditLog as _;
use byleave_postgres::Ingest;
use futures::stream::{self, StreamExt as _};
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_core::row::Row as _;

use crate::server::PgSchema;
use crate::story::{asked, waiting};

/// The number of concurrent ingestions, and of rows per bare insert.
const TOGETHER: usize = 1_024;
const TENANTS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Ingestion verifies, chains and indexes entries, so it may cost twice as much as writing the rows.
const RATIO_MIN: f64 = 0.5;

/// Ingests the batches in rounds, as they would arrive: the first append of many calls, then the second.
async fn take(book: &byleave_postgres::PgAuditLog, rounds: &[Vec<Ingest>]) -> Duration {
    let begun = Instant::now();
    let mut takings = stream::iter(rounds.iter().flatten().map(|taking| book.ingest(taking.clone())))
        .buffered(TOGETHER * 2);
    while let Some(taken) = takings.next().await {
        taken.unwrap();
    }
    begun.elapsed()
}

/// Only writes the same rows into the same tables of another schema, in batches of the same size.
async fn bare(from: &PgSchema, to: &PgSchema) -> (Duration, i64) {
    let mut connection = to.connection().await;
    let mut rows = 0;
    let mut took = Duration::ZERO;
    for (table, order) in [("record", "first"), ("line", "pos"), ("call", "pos"), ("unsettled", "first")] {
        let columns = columns_of(from, table).await;
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let all: i64 = query_scalar(&format!("SELECT count(*) FROM {}.{table}", from.schema))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        for at in (0..all).step_by(TOGETHER) {
            // Fetched beforehand, and sent as the audit log sends them: one array per column.
            let arrays: Vec<String> =
                names.iter().map(|name| format!("array_agg({name} ORDER BY {order})")).collect();
            let sql = format!(
                "SELECT {} FROM (SELECT * FROM {}.{table} ORDER BY {order} OFFSET {at} LIMIT {TOGETHER}) AS part",
                arrays.join(", "),
                from.schema
            );
            let part = query(&sql).fetch_one(&mut connection).await.unwrap();
            let places: Vec<String> =
                columns.iter().enumerate().map(|(n, (_, kind))| format!("${}::{kind}[]", n + 1)).collect();
            let sql = format!(
                "INSERT INTO {table}({}) SELECT * FROM unnest({})",
                names.join(", "),
                places.join(", ")
            );
            let values: Vec<Column> =
                columns.iter().enumerate().map(|(n, (_, kind))| Column::read(&part, n, kind)).collect();
            let begun = Instant::now();
            let insert = values.into_iter().fold(query(&sql), Column::bind);
            rows += i64::try_from(insert.execute(&mut connection).await.unwrap().rows_affected()).unwrap();
            took += begun.elapsed();
        }
    }
    (took, rows)
}

type Insert<'q> = sqlx_core::query::Query<'q, sqlx_postgres::Postgres, sqlx_postgres::PgArguments>;

/// One column of a batch.
enum Column {
    Short(Vec<Option<i16>>),
    Int(Vec<Option<i32>>),
    Long(Vec<Option<i64>>),
    Id(Vec<Option<uuid::Uuid>>),
    Flag(Vec<Option<bool>>),
    Bytes(Vec<Option<Vec<u8>>>),
    Text(Vec<Option<String>>),
}

impl Column {
    fn read(part: &sqlx_postgres::PgRow, n: usize, kind: &str) -> Self {
        match kind {
            "smallint" => Self::Short(part.get(n)),
            "integer" => Self::Int(part.get(n)),
            "bigint" => Self::Long(part.get(n)),
            "uuid" => Self::Id(part.get(n)),
            "boolean" => Self::Flag(part.get(n)),
            "bytea" => Self::Bytes(part.get(n)),
            "text" => Self::Text(part.get(n)),
            other => panic!("a column of {other}"),
        }
    }

    fn bind(insert: Insert<'_>, column: Self) -> Insert<'_> {
        match column {
            Self::Short(values) => insert.bind(values),
            Self::Int(values) => insert.bind(values),
            Self::Long(values) => insert.bind(values),
            Self::Id(values) => insert.bind(values),
            Self::Flag(values) => insert.bind(values),
            Self::Bytes(values) => insert.bind(values),
            Self::Text(values) => insert.bind(values),
        }
    }
}

async fn columns_of(ground: &PgSchema, table: &str) -> Vec<(String, String)> {
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position";
    let rows = query(sql).bind(table).fetch_all(&mut ground.connection().await).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Ingests the rounds, and then writes the resulting rows with bare inserts. Returns the median ratio.
async fn compared(what: &str, rounds: &[Vec<Ingest>], bar: Option<f64>) -> (String, f64) {
    let (mut ratios, mut taken, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let (from, to) = (PgSchema::new().await, PgSchema::new().await);
        let (book, other) = (from.open().await, to.open().await);
        let took = take(&book, rounds).await;
        let (bare, rows) = bare(&from, &to).await;
        drop(other);
        assert!(book.verify().await.unwrap().is_intact());
        let a_second = |took: Duration| f64::from(u32::try_from(rows).unwrap()) / took.as_secs_f64();
        ratios.push(a_second(took) / a_second(bare));
        taken.push(a_second(took));
        written.push(a_second(bare));
        for ground in [from, to] {
            ground.execute(&format!("DROP SCHEMA {} CASCADE", ground.schema)).await;
        }
    }
    let ratio = median(&mut ratios);
    let within = match bar {
        Some(bar) if ratio >= bar => format!("≥ {bar:.2}"),
        Some(bar) => format!("≥ {bar:.2}, **missed**"),
        None => String::new(),
    };
    let line = format!(
        "| {what} | {:.0} | {:.0} | {ratio:.2} | {within} |\n",
        median(&mut written),
        median(&mut taken)
    );
    (line, ratio)
}

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "short");
    let calls: usize = if short { 500 } else { 5_000 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let setting = |n: usize| ScriptSettings { tenant: TENANTS[n % 5], ..ScriptSettings::default() };
    let (lines, ratios): (Vec<String>, Vec<f64>) = runtime.block_on(async {
        // Every row is new, so the bare inserts write exactly the same rows.
        let waiting: Vec<Ingest> = (0..calls * 4).map(|n| waiting(setting(n)).1).collect();
        // As the fleet delivers a finished call: all its appends together, so each row is written once.
        let together: Vec<Ingest> = (0..calls).flat_map(|n| asked(setting(n)).1).collect();
        // Each append separately: rows are also updated, twice for each row that remains. Bare inserts do not do this.
        let mut apart: Vec<Vec<Ingest>> = vec![Vec::new(); 4];
        for n in 0..calls {
            for (round, taking) in apart.iter_mut().zip(asked(setting(n)).1) {
                round.push(taking);
            }
        }
        let bar = Some(RATIO_MIN);
        [
            compared("calls that wait, one append each", &[waiting], bar).await,
            compared("calls of four appends, brought together", &[together], bar).await,
            compared("calls of four appends, each by itself", &apart, bar).await,
        ]
        .into_iter()
        .unzip()
    });
    let table = format!(
        "| what | rows/s bare | rows/s taken | ratio | bar |\n|---|--:|--:|--:|---|\n{}\nFive runs each, the median.\n",
        lines.concat()
    );
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("taking", &table);
    }
    assert!(ratios.iter().all(|ratio| *ratio >= RATIO_MIN / 2.0), "{ratios:?}");
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

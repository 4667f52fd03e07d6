//! What taking costs, beside bare inserts of the same rows.

use std::time::{Duration, Instant};

use byleave::book::Book as _;
use byleave::ledger::conformance::script::Setting;
use byleave_postgres::Taking;
use futures::stream::{self, StreamExt as _};
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;
use sqlx_core::row::Row as _;

use crate::server::Ground;
use crate::story::{asked, waiting};

/// So many are given at once, and so many rows are in a bare insert.
const TOGETHER: usize = 1_024;
const CALLS: usize = 5_000;
const TENANTS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Taking checks, links and lists; it may cost twice as much as only writing the rows down.
const RATIO_MIN: f64 = 0.5;

/// Gives what is there in rounds, as it would come in: the first append of many calls, then the second.
async fn take(book: &byleave_postgres::PgBook, rounds: &[Vec<Taking>]) -> Duration {
    let begun = Instant::now();
    let mut takings =
        stream::iter(rounds.iter().flatten().map(|taking| book.take(taking.clone()))).buffered(TOGETHER * 2);
    while let Some(taken) = takings.next().await {
        taken.unwrap();
    }
    begun.elapsed()
}

/// Writes the same rows into the same tables of another schema, in batches of the same size, and does nothing else.
async fn bare(from: &Ground, to: &Ground) -> (Duration, i64) {
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
            // Fetched beforehand, and sent from here as the book sends them: one array for each column.
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

/// One column of a part.
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

async fn columns_of(ground: &Ground, table: &str) -> Vec<(String, String)> {
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position";
    let rows = query(sql).bind(table).fetch_all(&mut ground.connection().await).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Takes it, and then writes the rows that came of it bare. Returns how much slower the former was, most of the time.
#[expect(clippy::print_stdout, reason = "its figures are what it is run for")]
async fn ratio(what: &str, rounds: &[Vec<Taking>]) -> f64 {
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (from, to) = (Ground::new().await, Ground::new().await);
        let (book, other) = (from.open().await, to.open().await);
        let took = take(&book, rounds).await;
        let (bare, rows) = bare(&from, &to).await;
        drop(other);
        assert!(book.verify().await.unwrap().is_sound());
        let appends: usize = rounds.iter().map(Vec::len).sum();
        let (rows, appends) = (u32::try_from(rows).unwrap(), u32::try_from(appends).unwrap());
        let a_second = |count: u32, took: Duration| f64::from(count) / took.as_secs_f64();
        let ratio = a_second(rows, took) / a_second(rows, bare);
        println!(
            "{what}: taken {:.0} rows a second ({:.0} appends), bare {:.0} rows a second: ratio {ratio:.2}",
            a_second(rows, took),
            a_second(appends, took),
            a_second(rows, bare)
        );
        ratios.push(ratio);
        for ground in [from, to] {
            ground.execute(&format!("DROP SCHEMA {} CASCADE", ground.schema)).await;
        }
    }
    ratios.sort_by(f64::total_cmp);
    ratios[1]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures: cargo nextest run --cargo-profile short -p byleave-postgres --run-ignored only --no-capture"]
async fn taking_costs_at_most_twice_a_bare_insert() {
    // Every row is new: what is inserted bare is what was written.
    let setting = |n: usize| Setting { tenant: TENANTS[n % 5], ..Setting::default() };
    let rounds = vec![(0..CALLS * 4).map(|n| waiting(setting(n)).1).collect()];
    let inserts = ratio("calls that wait", &rounds).await;
    // Rows are changed, too, twice for each that is left in the end: bare inserts have nothing like it. Only told.
    let mut rounds: Vec<Vec<Taking>> = vec![Vec::new(); 4];
    for n in 0..CALLS {
        for (round, taking) in rounds.iter_mut().zip(asked(setting(n)).1) {
            round.push(taking);
        }
    }
    ratio("calls of four appends", &rounds).await;
    assert!(inserts >= RATIO_MIN, "ratio {inserts:.2}");
}

//! What taking costs, beside bare inserts of the same rows.

use std::time::{Duration, Instant};

use byleave::book::Book as _;
use byleave::ledger::conformance::script::Setting;
use byleave_postgres::Taking;
use futures::future::join_all;
use sqlx_core::query::query;
use sqlx_core::query_scalar::query_scalar;

use crate::server::Ground;
use crate::story::asked;

/// So many are given at once, and so many rows are in a bare insert.
const TOGETHER: usize = 512;
const CALLS: usize = 5_000;
const TENANTS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// Taking checks, links and lists; it may cost twice as much as only writing the rows down.
const RATIO_MIN: f64 = 0.5;

/// Gives what is there in rounds, as it would come in: the first append of many calls, then the second.
async fn take(book: &byleave_postgres::PgBook, rounds: &[Vec<Taking>]) -> Duration {
    let begun = Instant::now();
    for round in rounds {
        for together in round.chunks(TOGETHER) {
            for taken in join_all(together.iter().map(|taking| book.take(taking.clone()))).await {
                taken.unwrap();
            }
        }
    }
    begun.elapsed()
}

/// Writes the same rows into the same tables of another schema, in batches of the same size, and does nothing else.
async fn bare(from: &Ground, to: &Ground) -> (Duration, i64) {
    let mut connection = to.connection().await;
    let mut rows = 0;
    let mut took = Duration::ZERO;
    for (table, order) in [("record", "first"), ("line", "pos"), ("call", "pos")] {
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
            let mut insert = query(&sql);
            for (n, (_, kind)) in columns.iter().enumerate() {
                insert = bind(insert, &part, n, kind);
            }
            let begun = Instant::now();
            rows += i64::try_from(insert.execute(&mut connection).await.unwrap().rows_affected()).unwrap();
            took += begun.elapsed();
        }
    }
    (took, rows)
}

type Insert<'q> = sqlx_core::query::Query<'q, sqlx_postgres::Postgres, sqlx_postgres::PgArguments>;

fn bind<'q>(insert: Insert<'q>, part: &sqlx_postgres::PgRow, n: usize, kind: &str) -> Insert<'q> {
    use sqlx_core::row::Row as _;
    match kind {
        "smallint" => insert.bind(part.get::<Vec<Option<i16>>, _>(n)),
        "integer" => insert.bind(part.get::<Vec<Option<i32>>, _>(n)),
        "bigint" => insert.bind(part.get::<Vec<Option<i64>>, _>(n)),
        "uuid" => insert.bind(part.get::<Vec<Option<uuid::Uuid>>, _>(n)),
        "boolean" => insert.bind(part.get::<Vec<Option<bool>>, _>(n)),
        "bytea" => insert.bind(part.get::<Vec<Option<Vec<u8>>>, _>(n)),
        "text" => insert.bind(part.get::<Vec<Option<String>>, _>(n)),
        other => panic!("a column of {other}"),
    }
}

async fn columns_of(ground: &Ground, table: &str) -> Vec<(String, String)> {
    use sqlx_core::row::Row as _;
    let sql = "SELECT column_name::text, data_type::text FROM information_schema.columns
        WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position";
    let rows = query(sql).bind(table).fetch_all(&mut ground.connection().await).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures: cargo nextest run -p byleave-postgres --run-ignored only --no-capture"]
async fn taking_costs_at_most_twice_a_bare_insert() {
    let mut rounds: Vec<Vec<Taking>> = vec![Vec::new(); 4];
    for n in 0..CALLS {
        let takings = asked(Setting { tenant: TENANTS[n % 5], ..Setting::default() }).1;
        for (round, taking) in rounds.iter_mut().zip(takings) {
            round.push(taking);
        }
    }
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (from, to) = (Ground::new().await, Ground::new().await);
        let (book, other) = (from.open().await, to.open().await);
        let took = take(&book, &rounds).await;
        let (bare, rows) = bare(&from, &to).await;
        drop(other);
        assert!(book.verify().await.unwrap().is_sound());
        let (rows, appends) = (u32::try_from(rows).unwrap(), u32::try_from(CALLS * 4).unwrap());
        let a_second = |took: Duration| f64::from(rows) / took.as_secs_f64();
        let ratio = a_second(took) / a_second(bare);
        println!(
            "taken {:.0} rows a second ({:.0} appends), bare {:.0} rows a second: ratio {ratio:.2}",
            a_second(took),
            f64::from(appends) / took.as_secs_f64(),
            a_second(bare)
        );
        ratios.push(ratio);
        for ground in [from, to] {
            ground.execute(&format!("DROP SCHEMA {} CASCADE", ground.schema)).await;
        }
    }
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[1] >= RATIO_MIN, "ratios {ratios:?}");
}

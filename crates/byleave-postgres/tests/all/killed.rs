//! The writer dies by SIGKILL or loses its connection. Nothing that was acknowledged is lost.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use byleave_conformance::ledger::record_script::ScriptSettings;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, PageRequest};
use byleave_gate::core::id::CallId;
use byleave_postgres::{IngestError, PgAuditLog};
use futures::future::join_all;
use sqlx_core::query_scalar::query_scalar;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::server::{PgSchema, options};
use crate::story::asked;

const SCHEMA: &str = "BYLEAVE_TEST_WRITER_SCHEMA";
const DIR: &str = "BYLEAVE_TEST_WRITER_DIR";

/// The writer: this test binary, started again. It ingests until it is killed, and prints what was
/// acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer() {
    let (Ok(schema), Ok(dir)) = (std::env::var(SCHEMA), std::env::var(DIR)) else { return };
    let book = PgAuditLog::open(options(&schema, dir.as_ref(), None)).await.unwrap();
    let write = async || {
        loop {
            let (script, takings) = asked(ScriptSettings::default());
            for taking in takings {
                let end = taking.chained_entries.last().unwrap().seq() + 1;
                book.ingest(taking).await.unwrap();
                let mut out = std::io::stdout().lock();
                // With a prefix, because the test harness writes there too.
                out.write_all(format!("\nacknowledged {} {end}\n", script.call()).as_bytes()).unwrap();
                out.flush().unwrap();
            }
        }
    };
    join_all((0..16).map(|_| write())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_writer_loses_nothing_that_was_acknowledged() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let mut acknowledged: HashMap<CallId, usize> = HashMap::new();
    for round in 1..=6_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::writer", "--exact", "--nocapture"])
            .env(SCHEMA, &ground.schema)
            .env(DIR, ground.dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed at a different moment each time. Everything that it printed before is checked.
        let mut seen = 0;
        while let Some(line) = said.next_line().await.unwrap() {
            let Some(line) = line.strip_prefix("acknowledged ") else { continue };
            let (call, end) = line.split_once(' ').unwrap();
            acknowledged.insert(call.parse().unwrap(), end.parse().unwrap());
            seen += 1;
            if seen == 40 * round + 3 {
                child.start_kill().unwrap();
            }
        }
        assert!(seen > 40 * round, "it ended by itself after {seen}");
        child.wait().await.unwrap();
    }
    // A transaction that was in progress when its process died is rolled back or committed before a reader sees
    // either.
    let verified = book.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    for (call, end) in &acknowledged {
        let kept = book.record(*call).await.unwrap().expect("an acknowledged record");
        assert!(
            kept.chained_entries.len() >= *end,
            "{call} has {} lines, and {end} were acknowledged",
            kept.chained_entries.len()
        );
        assert_eq!(kept.record.damage(), None);
    }
    let listed = book.calls(CallFilter::default(), PageRequest::with_limit(100_000)).await.unwrap();
    assert_eq!(listed.len() as u64, verified.records);
    book.rebuild().await.unwrap();
    let again = book.calls(CallFilter::default(), PageRequest::with_limit(100_000)).await.unwrap();
    assert!(again == listed, "lists and lines have come apart");
    println!("{} calls, {} of them acknowledged, 6 kills", listed.len(), acknowledged.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_a_fault_and_the_next_try_goes_on() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let cut = async {
        let mut connection = ground.connection().await;
        for _ in 0..10 {
            // Only connections of this audit log: they have locks in its schema.
            let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE pid IN (SELECT pid FROM pg_locks WHERE relation = 'book_end'::regclass AND mode = 'RowShareLock')";
            let cut: i64 = query_scalar(sql).fetch_one(&mut connection).await.unwrap();
            if cut == 0 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    let write = async || {
        let mut faults = 0;
        for _ in 0..12 {
            let (script, takings) = asked(ScriptSettings::default());
            for taking in takings {
                // Unacknowledged batches are retried, as the projector does.
                loop {
                    match book.ingest(taking.clone()).await {
                        Ok(()) => break,
                        Err(IngestError::Ledger(_)) => faults += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            assert_eq!(book.record(script.call()).await.unwrap().unwrap().record, script.record);
        }
        faults
    };
    let (faults, ()) = tokio::join!(join_all((0..8).map(|_| write())), cut);
    println!("{} faults", faults.iter().sum::<u32>());
    let verified = book.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    assert_eq!(verified.records, 96);
}

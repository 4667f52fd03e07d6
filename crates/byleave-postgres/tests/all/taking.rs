//! Ingestion: repeated, out of order, forked, and concurrent.

use byleave_conformance::ledger::record_script::{CallScript, ScriptSettings};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallState, Cursor, PageRequest, QuestionFilter};
use byleave_gate::core::id::{OwnerId, TenantId};
use byleave_gate::core::question::Answer;
use byleave_postgres::{Ingest, IngestError, PgAuditLog, shard_for_tenant};
use futures::future::join_all;
use sqlx_core::query_scalar::query_scalar;
use uuid::Uuid;

use crate::server::PgSchema;
use crate::story::{asked, taking, waiting};

const ALL: PageRequest = PageRequest::with_limit(1_000);

async fn is_sound(book: &PgAuditLog) {
    let verified = book.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
}

fn contradicts(taken: &Result<(), IngestError>) -> bool {
    matches!(taken, Err(IngestError::Conflict { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_again_is_taken_once() {
    let ground = PgSchema::new().await;
    let (one, two) = (ground.open().await, ground.open().await);
    let (script, takings) = asked(ScriptSettings::default());
    for taking in &takings {
        // Concurrently, in one transaction and in two processes.
        let again = join_all([&one, &one, &one, &two, &two].map(|book| book.ingest(taking.clone()))).await;
        assert!(again.iter().all(Result::is_ok), "{again:?}");
    }
    for taking in takings.iter().rev() {
        two.ingest(taking.clone()).await.unwrap();
    }
    let kept = two.record(script.call()).await.unwrap().unwrap();
    assert_eq!(kept.record, script.record);
    let written = one.records_since(Some(Cursor(0)), 100).await.unwrap();
    assert_eq!(written.cursor, Cursor(4));
    assert_eq!(one.calls(CallFilter::default(), ALL).await.unwrap().len(), 1);
    assert!(one.questions(QuestionFilter::default(), ALL).await.unwrap().is_empty());
    is_sound(&one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_early_waits_for_its_place() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (script, takings) = asked(ScriptSettings::default());
    for place in [3, 1, 2, 1] {
        book.ingest(takings[place].clone()).await.unwrap();
    }
    assert!(book.record(script.call()).await.unwrap().is_none(), "nothing is there before its beginning");
    assert!(book.calls(CallFilter::default(), ALL).await.unwrap().is_empty());
    let lag = book.lag().await.unwrap();
    assert_eq!((lag.out_of_order, lag.unsealed_rows), (3, 0));
    is_sound(&book).await;
    drop(book);

    // A newly opened audit log reads it from the table.
    let book = ground.open().await;
    book.ingest(takings[0].clone()).await.unwrap();
    let kept = book.record(script.call()).await.unwrap().unwrap();
    assert_eq!(kept.record, script.record);
    assert_eq!(kept.call_summary.as_ref(), Some(script.call_summary()));
    let listed = book.calls(CallFilter::default(), ALL).await.unwrap();
    assert_eq!(listed[0].state, CallState::Settled);
    assert!(book.questions(QuestionFilter::default(), ALL).await.unwrap().is_empty());
    let contents = book.contents(script.call()).await.unwrap();
    assert!(!contents.is_empty());
    let lag = book.lag().await.unwrap();
    assert_eq!(
        (lag.out_of_order, lag.oldest_out_of_order_ms, lag.unsealed_rows, lag.queued_writes),
        (0, 0, 4, 0)
    );
    is_sound(&book).await;
    book.rebuild().await.unwrap();
    assert_eq!(book.calls(CallFilter::default(), ALL).await.unwrap(), listed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_in_any_order_by_several_end_up_the_same() {
    let ground = PgSchema::new().await;
    let books = [ground.open().await, ground.open().await, ground.open().await];
    let tenants = ["a", "b", "c", "d", "e"];
    let stories: Vec<(CallScript, Vec<Ingest>)> = (0..60)
        .map(|n| asked(ScriptSettings { tenant: tenants[n % 5], ..ScriptSettings::default() }))
        .collect();
    let mut all: Vec<Ingest> = stories.iter().flat_map(|(_, takings)| takings.clone()).collect();
    all.extend(all.clone());
    // An arbitrary but deterministic order.
    all.sort_by_cached_key(|taking| {
        byleave_gate::core::digest::Digest::compute_parts(
            "order",
            &[&taking.contents, taking.prev_link.as_bytes()],
        )
    });
    let taken =
        join_all(all.into_iter().zip(books.iter().cycle()).map(|(taking, book)| book.ingest(taking))).await;
    for taken in taken {
        taken.unwrap();
    }
    for (script, _) in &stories {
        let kept = books[0].record(script.call()).await.unwrap().unwrap();
        assert_eq!(kept.record, script.record);
    }
    let listed = books[1].calls(CallFilter::default(), ALL).await.unwrap();
    assert_eq!(listed.len(), 60);
    assert!(listed.iter().all(|item| item.state == CallState::Settled));
    assert_eq!(books[2].lag().await.unwrap().out_of_order, 0);
    assert_eq!(books[2].records_since(Some(Cursor(0)), 1_000).await.unwrap().cursor, Cursor(240));
    books[1].seal().await.unwrap();
    is_sound(&books[2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forked_chain_is_refused_and_leaves_no_trace() {
    let ground = PgSchema::new().await;
    let (one, two) = (ground.open().await, ground.open().await);
    let (mut script, first) = waiting(ScriptSettings::default());
    one.ingest(first.clone()).await.unwrap();
    let mut fork = script.clone();
    script.answer(Answer::Yes { note: None }).unwrap();
    fork.answer(Answer::No { feedback: None }).unwrap();
    let (yes, no) = (taking(&mut script), taking(&mut fork));
    one.ingest(yes.clone()).await.unwrap();
    let (_, beside) = waiting(ScriptSettings { session: "r", ..ScriptSettings::default() });
    for book in [&one, &two] {
        // Concurrent valid batches are not affected.
        let (forked, again, good) =
            tokio::join!(book.ingest(no.clone()), book.ingest(yes.clone()), book.ingest(beside.clone()));
        assert!(contradicts(&forked), "{forked:?}");
        again.unwrap();
        good.unwrap();
    }
    // Batches after the fork are refused too, in any position.
    fork.settle().unwrap();
    let behind = taking(&mut fork);
    assert!(contradicts(&one.ingest(behind).await));
    script.start(OwnerId::new(Uuid::now_v7())).unwrap();
    let begun = taking(&mut script);
    let mut other = begun.clone();
    other.prev_link = no.chained_entries.last().unwrap().link();
    assert!(contradicts(&one.ingest(other).await), "a link that its lines do not follow from");
    let mut other = begun.clone();
    other.call_summary.session = beside.call_summary.session.clone();
    assert!(contradicts(&one.ingest(other).await), "another session");
    one.ingest(begun).await.unwrap();
    let kept = two.record(script.call()).await.unwrap().unwrap();
    assert_eq!(kept.record, script.record);
    assert_eq!(one.calls(CallFilter::default(), ALL).await.unwrap().len(), 2);
    is_sound(&one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_came_early_is_refused_when_its_place_comes() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (mut script, first) = waiting(ScriptSettings::default());
    let mut fork = script.clone();
    script.answer(Answer::Yes { note: None }).unwrap();
    fork.answer(Answer::No { feedback: None }).unwrap();
    let (yes, no) = (taking(&mut script), taking(&mut fork));
    fork.settle().unwrap();
    let behind = taking(&mut fork);
    book.ingest(behind.clone()).await.unwrap();
    book.ingest(first).await.unwrap();
    let taken = book.ingest(yes).await;
    assert!(contradicts(&taken), "{taken:?}");
    book.ingest(no).await.unwrap();
    assert_eq!(book.record(fork.call()).await.unwrap().unwrap().record, fork.record);
    book.ingest(behind).await.unwrap();
    is_sound(&book).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_tenants_lie_in_different_partitions() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let shard = |tenant: &str| shard_for_tenant(&TenantId::new(tenant).unwrap());
    let (one, other) = ("a", ["b", "c", "d"].into_iter().find(|other| shard(other) != shard("a")).unwrap());
    for tenant in [one, other] {
        for taking in asked(ScriptSettings { tenant, ..ScriptSettings::default() }).1 {
            book.ingest(taking).await.unwrap();
        }
        book.ingest(waiting(ScriptSettings { tenant, ..ScriptSettings::default() }).1).await.unwrap();
    }
    let mut connection = ground.connection().await;
    for tenant in [one, other] {
        for (table, key) in [("call", "pos"), ("unsettled", "first")] {
            let sql = format!(
                "SELECT DISTINCT tableoid::regclass::text FROM {table} WHERE tenant = $1 AND {key} > 0"
            );
            let found: Vec<String> =
                query_scalar(&sql).bind(tenant).fetch_all(&mut connection).await.unwrap();
            assert_eq!(found.len(), 1, "{table} of {tenant}: {found:?}");
            assert!(found[0].starts_with(&format!("{table}_{}", shard(tenant))), "{found:?}");
        }
    }
    let sql = "SELECT DISTINCT tableoid::regclass::text FROM line ORDER BY 1";
    let lines: Vec<String> = query_scalar(sql).fetch_all(&mut connection).await.unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    // One partition can be detached without the other.
    ground.execute(&format!("ALTER TABLE line DETACH PARTITION line_{}", shard(one))).await;
    let left: i64 = query_scalar("SELECT count(*) FROM line").fetch_one(&mut connection).await.unwrap();
    assert_eq!(left, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_may_open_a_new_book_at_once() {
    let ground = PgSchema::new().await;
    let books = join_all((0..6).map(|_| ground.open())).await;
    let (script, takings) = asked(ScriptSettings::default());
    for (taking, book) in takings.into_iter().zip(&books) {
        book.ingest(taking).await.unwrap();
    }
    assert_eq!(books[5].record(script.call()).await.unwrap().unwrap().record, script.record);
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_postgres_does_not_have_is_listed_with_a_sign_for_it() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    let (script, taking) = waiting(ScriptSettings { summary: "a\0b", ..ScriptSettings::default() });
    book.ingest(taking).await.unwrap();
    let summary = |items: Vec<byleave_gate::audit_log::CallItem>| items[0].call_summary.summary.clone();
    assert_eq!(summary(book.calls(CallFilter::default(), ALL).await.unwrap()), "a\u{2400}b");
    book.rebuild().await.unwrap();
    let filter = CallFilter { text: Some("A\0b".into()), ..CallFilter::default() };
    assert_eq!(summary(book.calls(filter, ALL).await.unwrap()), "a\u{2400}b");
    assert_eq!(book.record(script.call()).await.unwrap().unwrap().record, script.record);
}

//! Sealing: one sealer at a time, by a lease.

use std::time::Duration;

use byleave_conformance::ledger::record_script::ScriptSettings;
use byleave_gate::audit_log::AuditLog as _;
use byleave_postgres::PgAuditLog;
use futures::future::join_all;
use sqlx_core::query_scalar::query_scalar;

use crate::server::{PgSchema, options};
use crate::story::{asked, waiting};

const TENANTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn fill(book: &PgAuditLog, times: usize) {
    let takings =
        (0..times).map(|n| waiting(ScriptSettings { tenant: TENANTS[n % 6], ..ScriptSettings::default() }).1);
    for taken in join_all(takings.map(|taking| book.ingest(taking))).await {
        taken.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_sealers_one_seals() {
    let ground = PgSchema::new().await;
    let (one, two) = (ground.open().await, ground.open().await);
    let mut sealed = 0;
    for _ in 0..8 {
        fill(&one, 24).await;
        let (by_one, by_two) = tokio::join!(one.seal(), two.seal());
        let (by_one, by_two) = (by_one.unwrap(), by_two.unwrap());
        assert!(by_one == 0 || by_two == 0, "both have sealed: {by_one} and {by_two}");
        assert!(by_one + by_two > 0, "nobody has sealed");
        sealed += by_one + by_two;
        assert_eq!(one.anchor().await.unwrap().unwrap().number, sealed);
    }
    let verified = two.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    assert_eq!((verified.segments, verified.unsealed), (sealed, 0));
    // Each time, one seal per shard with new entries.
    let mut connection = ground.connection().await;
    let sql = "SELECT count(DISTINCT shard) FROM line";
    let shards: i64 = query_scalar(sql).fetch_one(&mut connection).await.unwrap();
    assert!(shards > 1);
    assert_eq!(sealed, 8 * u64::try_from(shards).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_written_while_it_is_sealed_is_sealed_later() {
    let ground = PgSchema::new().await;
    let (one, two) = (ground.open().await, ground.open().await);
    let write = async {
        for _ in 0..12 {
            fill(&one, 30).await;
        }
    };
    let seal = async |book: &PgAuditLog| {
        for _ in 0..20 {
            book.seal_if_free().await.unwrap();
        }
    };
    tokio::join!(write, seal(&one), seal(&two));
    two.seal().await.unwrap();
    let verified = one.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    assert_eq!((verified.records, verified.unsealed), (360, 0));
    assert_eq!(verified.anchor.unwrap().number, verified.segments);
    assert_eq!(one.lag().await.unwrap().unsealed_rows, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_respected_until_it_ends() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    fill(&book, 1).await;
    let hold = "UPDATE sealer SET fence = fence + 1, until = clock_timestamp() + interval";
    ground.execute(&format!("{hold} '1 hour'")).await;
    assert_eq!(book.seal_if_free().await.unwrap(), 0);
    assert_eq!(book.verify().await.unwrap().segments, 0);
    // If the holder is gone, another takes over after the lease has expired.
    ground.execute(&format!("{hold} '300 milliseconds'")).await;
    assert_eq!(book.seal().await.unwrap(), 1);
    assert!(book.verify().await.unwrap().is_intact());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_slept_through_its_lease_writes_nothing() {
    let ground = PgSchema::new().await;
    let mut options = options(&ground.schema, ground.dir.path(), None);
    options.lease = Duration::ZERO;
    let (slow, book) = (PgAuditLog::open(options).await.unwrap(), ground.open().await);
    fill(&book, 1).await;
    let refused = slow.seal().await.unwrap_err();
    assert!(refused.to_string().contains("another sealer took over"), "{refused}");
    assert_eq!((book.anchor().await.unwrap(), book.verify().await.unwrap().segments), (None, 0));
    assert_eq!(book.seal().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_book_that_is_older_than_its_anchor_is_not_sealed() {
    let ground = PgSchema::new().await;
    let book = ground.open().await;
    fill(&book, 1).await;
    book.seal().await.unwrap();
    fill(&book, 1).await;
    ground.execute("DELETE FROM segment").await;
    let refused = book.seal().await.unwrap_err();
    assert!(refused.to_string().contains("older than its anchor"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_new_is_sealed_by_itself() {
    let ground = PgSchema::new().await;
    let mut options = options(&ground.schema, ground.dir.path(), None);
    options.seal_interval = Some(Duration::from_millis(10));
    let book = PgAuditLog::open(options).await.unwrap();
    for taking in asked(ScriptSettings::default()).1 {
        book.ingest(taking).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(120), async {
        while book.lag().await.unwrap().unsealed_rows > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it is sealed soon");
    assert!(book.verify().await.unwrap().is_intact());
}

//! Several owners on one audit log.

use byleave_gate::core::decision::Verdict;
use byleave_gate::ledger::{Interruption, Ledger};
use futures::future::join_all;

use super::scribe::{RecordWriter, now, open, stepwise, write_to};

#[tokio::test]
async fn only_an_owner_that_is_gone_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let (living, other) = (open(dir.path()), open(dir.path()));
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None);
    let attempt = scribe.begin(living.owner());
    scribe.append(&living).await.unwrap();
    assert_eq!(other.interrupt(scribe.call, attempt, now()).await.unwrap(), Interruption::OwnerAlive);
    drop(living);
    assert_eq!(other.interrupt(scribe.call, attempt, now()).await.unwrap(), Interruption::Recorded);
    assert_eq!(other.interrupt(scribe.call, attempt, now()).await.unwrap(), Interruption::NotOpen);
    let record = other.load(scribe.call).await.unwrap().unwrap().record;
    assert!(record.damage().is_none());
    assert_eq!(record.len(), scribe.record.len() + 1);
    stepwise(&other, "s").await;
}

#[tokio::test]
async fn an_attempt_of_ones_own_or_of_nobody_can_be_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    for gone in [None, Some(open(dir.path()))] {
        let mut scribe = RecordWriter::new("s", write_to("/w/a"));
        scribe.ruled(Verdict::Allow, None);
        let writes = gone.as_ref().unwrap_or(&book);
        let attempt = scribe.begin(writes.owner());
        scribe.append(writes).await.unwrap();
        drop(gone);
        assert_eq!(book.interrupt(scribe.call, attempt, now()).await.unwrap(), Interruption::Recorded);
    }
    assert_eq!(
        std::fs::read_dir(dir.path().join("owners")).unwrap().count(),
        1,
        "only the living have a lock"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_owners_write_at_once_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let books = [open(dir.path()), open(dir.path())];
    let calls = (0..60).map(|number| async move { number }).collect::<Vec<_>>();
    let written = join_all(calls.into_iter().map(|number| {
        let books = &books;
        async move {
            let number: usize = number.await;
            stepwise(&books[number % 2], &format!("s{number}")).await
        }
    }))
    .await;
    for scribe in &written {
        assert_eq!(books[0].load(scribe.call).await.unwrap().unwrap().record, scribe.record);
    }
}

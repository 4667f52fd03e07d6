//! Wires that break, and workers that are away.

use std::sync::atomic::Ordering;
use std::time::Duration;

use byleave::ledger::Ledger as _;
use byleave_core::id::CallId;
use byleave_worker::Rights;

use crate::stage::Office;

// req: E4
#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_breaks_is_opened_again_and_what_was_asked_is_answered() {
    let office = Office::with(Duration::from_secs(5), Some(4));
    let worker = office.worker(Rights::All);
    for _ in 0..50 {
        assert!(worker.load(CallId::new(byleave::clock::fresh_id())).await.unwrap().is_none());
    }
    assert!(office.dialled.load(Ordering::SeqCst) > 10, "it broke often");
}

// req: E4
#[tokio::test(flavor = "multi_thread")]
async fn who_is_away_for_less_than_the_lease_lives_and_for_longer_does_not() {
    let office = Office::with(Duration::from_millis(400), None);
    let worker = office.worker(Rights::All);
    let owner = worker.owner();
    worker.load(CallId::new(byleave::clock::fresh_id())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(office.roster.is_alive(owner), "here for as long as it has a wire");
    drop(worker);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(office.roster.is_alive(owner), "it may come back");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!office.roster.is_alive(owner), "it was waited for long enough");
}

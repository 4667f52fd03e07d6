//! Connections that break, and workers that are disconnected.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use byleave_core::id::{AttemptId, CallId};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::clock::fresh_id;
use byleave_gate::ledger::Ledger as _;
use byleave_worker::{ConnectError, Connector, FrameChannel, Permissions, server};

use crate::stage::RegistryFixture;

// req: E4
#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_breaks_is_opened_again_and_what_was_asked_is_answered() {
    let office = RegistryFixture::with(Duration::from_secs(5), Some(4));
    let worker = office.worker(Permissions::All);
    for _ in 0..50 {
        assert!(worker.load(CallId::new(fresh_id())).await.unwrap().is_none());
    }
    assert!(office.dialled.load(Ordering::SeqCst) > 10, "it broke often");
}

// req: E4
#[tokio::test(flavor = "multi_thread")]
async fn who_is_away_for_less_than_the_lease_lives_and_for_longer_does_not() {
    let office = RegistryFixture::with(Duration::from_millis(400), None);
    let worker = office.worker(Permissions::All);
    let owner = worker.owner();
    worker.load(CallId::new(fresh_id())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(office.roster.is_alive(owner), "here for as long as it has a wire");
    drop(worker);
    let gone = async {
        while office.roster.is_alive(owner) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(HANGS, gone).await.is_ok(), "it is waited for for ever");

    // A lease that does not expire during the test, however slow the machine is.
    let office = RegistryFixture::with(Duration::from_secs(600), None);
    let worker = office.worker(Permissions::All);
    let owner = worker.owner();
    worker.load(CallId::new(fresh_id())).await.unwrap();
    drop(worker);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(office.roster.is_alive(owner), "it may come back");
}

/// Longer than anything here takes. A test that waits this long hangs.
const HANGS: Duration = Duration::from_secs(120);

fn hello(owner: &str) -> String {
    format!(r#"{{"hello":{{"protocol":2,"owner":"{owner}"}}}}"#)
}

// req: E4
#[tokio::test(start_paused = true)]
async fn who_falls_silent_is_given_up() {
    // A silent worker is disconnected after a fixed time, however long the lease.
    let office = RegistryFixture::with(Duration::from_secs(300), None);
    let (mut worker, theirs) = FrameChannel::pair();
    let roster = office.roster.clone();
    let attending =
        tokio::spawn(async move { server::serve_worker(&roster, Permissions::All, theirs).await });
    worker.sender.send(hello("01980000-0000-7000-8000-000000000001")).await.unwrap();
    assert!(worker.receiver.recv().await.unwrap().contains("welcome"));
    // It stays connected as long as it sends anything, and not much longer.
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(20)).await;
        worker.sender.send(r#"{"heartbeat":{"at_ms":0}}"#.to_owned()).await.unwrap();
    }
    assert!(!attending.is_finished());
    let given_up = tokio::time::timeout(Duration::from_secs(40), attending).await;
    assert!(given_up.is_ok(), "the office listens for ever");
}

/// A connection that can be used once.
struct SingleUseConnector(Mutex<Option<FrameChannel>>);

impl Connector for SingleUseConnector {
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>> {
        let wire = self.0.lock().unwrap().take();
        Box::pin(async move { wire.ok_or_else(|| ConnectError("once".into())) })
    }
}

// req: E1, E4
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_begins_nothing_when_its_lease_may_be_over_whatever_still_lay_in_the_wire() {
    let (near, mut office) = FrameChannel::pair();
    let worker = RegistryFixture::new().worker_by(SingleUseConnector(Mutex::new(Some(near))));
    assert!(office.receiver.recv().await.unwrap().contains("hello"));
    let welcome = r#"{"welcome":{"lease_ms":2000,"server_id":"01980000-0000-7000-8000-000000000009"}}"#;
    office.sender.send(welcome.to_owned()).await.unwrap();
    let starting = || worker.mark_started(CallId::new(fresh_id()), AttemptId::new(fresh_id()));
    let beat = office.receiver.recv().await.unwrap();
    assert!(starting().await.is_ok());
    // Other messages from the server keep the connection open, but do not renew the lease.
    let other = r#"{"response":{"id":77,"result":{"Ok":null}}}"#;
    for _ in 0..11 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        office.sender.send(other.to_owned()).await.unwrap();
    }
    // It was sent long ago, and is received only now.
    office.sender.send(beat).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(starting().await.unwrap_err().to_string().contains("longer than a lease"));
    let answered = async {
        loop {
            let beat = office.receiver.recv().await.unwrap();
            office.sender.send(beat).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            if starting().await.is_ok() {
                break;
            }
        }
    };
    assert!(
        tokio::time::timeout(HANGS, answered).await.is_ok(),
        "though the office has heard of it just now"
    );
}

// req: R4
#[tokio::test(flavor = "multi_thread")]
async fn nobody_comes_in_as_another_tenants_owner() {
    let office = RegistryFixture::with(Duration::from_secs(5), None);
    let owner = "01980000-0000-7000-8000-000000000002";
    let mut wires = Vec::new();
    for (tenant, said) in [("acme", "welcome"), ("other", "belongs to another worker"), ("acme", "welcome")] {
        let (mut worker, theirs) = FrameChannel::pair();
        let (roster, rights) = (office.roster.clone(), crate::stage::worker_of(tenant, "w"));
        tokio::spawn(async move { server::serve_worker(&roster, rights, theirs).await });
        worker.sender.send(hello(owner)).await.unwrap();
        let heard = worker.receiver.recv().await.unwrap();
        assert!(heard.contains(said), "{tenant}: {heard}");
        wires.push(worker);
    }
}

//! The book away: its Postgres dies under load, and the service and the engine die while it is away.

use std::path::Path;
use std::time::{Duration, Instant};

use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::call::{Millis, Mode};
use byleave_gate::core::id::{AdminActionId, CallId, TenantId};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;

use super::fleet::Fleet;
use super::postgres::Postgres;
use super::worker::{appender, call};
use crate::book::bench::{Ground, until};

/// Nothing is lost, nothing is cleared that is not acknowledged, how far it is behind is said, and it catches up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills a fleet of its own: scripts/prove fleet-book"]
async fn book_away() {
    let calls: usize = if super::long() { 600 } else { 40 };
    let folder = tempfile::tempdir().unwrap();
    let postgres = Postgres::start(folder.path());
    let fleet = Fleet::start_with_book(folder.path(), &postgres.url());
    let ground = Ground::at(fleet.ingress(), &postgres.url(), folder.path());
    let ledger = ground.ledger();
    let settings = GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() };
    let gate = Gate::builder().ledger(ledger.clone()).tool(appender("append_line")).settings(settings);
    let gate = gate.build().unwrap();

    let before = run(&gate, folder.path(), 4, Mode::Yolo).await;
    for call in &before {
        ground.until_cleared(*call).await;
    }
    // Under load: some are on their way into the book at this very moment.
    let mut during = run(&gate, folder.path(), 4, Mode::Yolo).await;
    postgres.kill();
    let killed = Instant::now();
    during.extend(run(&gate, folder.path(), calls, Mode::Yolo).await);
    let open = run(&gate, folder.path(), 4, Mode::ConfirmSensitive).await;
    let act = AdminAction {
        id: AdminActionId::new(fresh_id()),
        at: now(),
        tenant: TenantId::new("local").unwrap(),
        actor: "ada".into(),
        kind: AdminActionKind::Revoke {
            standing_approval: byleave_gate::core::id::StandingApprovalId::new(fresh_id()),
        },
    };
    ledger.record_admin_action(act.clone()).await.unwrap();
    for victim in ["service", "server"] {
        fleet.kill(victim);
        fleet.up();
    }

    let least = calls as u64 + 5;
    until("it is said that the book is behind", async || {
        ledger.book_lag(now()).await.unwrap().waiting >= least
    })
    .await;
    let lag = ledger.book_lag(now()).await.unwrap();
    let away_ms = u64::try_from(killed.elapsed().as_millis()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let later = ledger.book_lag(now()).await.unwrap();
    assert!(later.oldest_ms >= lag.oldest_ms + 300, "{lag:?} {later:?}");
    assert!(lag.oldest_ms + 10_000 > away_ms, "{lag:?}, {away_ms} ms since it was killed");
    for call in during.iter().skip(4).chain(&open) {
        assert!(!ground.is_cleared(*call).await, "{call} was cleared, and no book has it");
        let loaded = ledger.load(*call).await.unwrap().unwrap();
        assert_eq!(loaded.record.outcome().is_some(), !open.contains(call));
    }
    // What only the book has cannot be had now, and is not taken for something that never was.
    let old = tokio::time::timeout(Duration::from_secs(2), ledger.load(before[0])).await;
    assert!(!matches!(old, Ok(Ok(_))), "{old:?}");

    let back = Instant::now();
    postgres.up();
    for call in &during {
        ground.until_cleared(*call).await;
    }
    until("nothing is owed", async || ledger.book_lag(now()).await.unwrap().waiting == 0).await;
    let caught_up = back.elapsed();
    let book = ground.keyed().await;
    let verified = book.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    let all: Vec<CallId> = before.into_iter().chain(during).chain(open).collect();
    assert_eq!((verified.records, verified.admin_actions), (all.len() as u64, 1));
    assert_eq!(book.admin_actions().await.unwrap(), [act]);
    for call in &all {
        let record = ledger.load(*call).await.unwrap().unwrap().record;
        assert_eq!(book.record(*call).await.unwrap().unwrap().record, record);
    }
    println!(
        "{} calls, {} of them while the book was away for {:.1} s; {} were behind, the oldest by {:.1} s; all there and \
         cleared {:.1} s after it was started again",
        all.len(),
        calls + 4,
        back.duration_since(killed).as_secs_f64(),
        lag.waiting,
        lag.oldest_ms as f64 / 1e3,
        caught_up.as_secs_f64(),
    );
}

/// Runs so many calls, or has so many asked about.
async fn run(gate: &Gate, folder: &Path, calls: usize, mode: Mode) -> Vec<CallId> {
    let tasks = (0..calls).map(|number| {
        let (gate, folder) = (gate.clone(), folder.to_path_buf());
        tokio::spawn(async move {
            let id = fresh_id();
            let file = format!("f{id}");
            let call = call(&folder, &format!("s{}", number % 8), "append_line", &file, "line", mode);
            let id = call.id;
            let standing = gate.advance(call).await;
            let is_asked = matches!(standing, CallStatus::Waiting { .. });
            assert_eq!(is_asked, mode == Mode::ConfirmSensitive, "{standing:?}");
            id
        })
    });
    futures::future::join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Millis::try_from(since.as_millis()).unwrap()
}

//! Everything that happens to calls, at once: all of it is in the book, word for word, and the book verifies.

use byleave_conformance::ledger::record_script::{CallScript, NOW, ScriptSettings};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallState, PageRequest};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::call::Mode;
use byleave_gate::core::entry::{Limits, RecordEvent};
use byleave_gate::core::id::{AdminActionId, CallId, TenantId};
use byleave_gate::gate::Gate;
use byleave_gate::ledger::{Interruption, Ledger as _};
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use futures::future::join_all;

use super::bench::{Ground, until};
use crate::engine::state;
use crate::proofs::worker::{appender, call, yes};

const SESSIONS: usize = 6;
const ROUNDS: usize = 9;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_in_the_book_and_the_engine_keeps_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let (ground, path) = (Ground::shared(dir.path()), dir.path().to_path_buf());
    let ledger = ground.ledger();
    let settings = GateSettings { inbox: true, questions_per_minute: u32::MAX, ..GateSettings::default() };
    let gate = Gate::builder()
        .ledger(ledger.clone())
        .tool(appender("append_line"))
        .settings(settings)
        .build()
        .unwrap();

    // Some run, some are asked about and answered, some are left open.
    let sessions = (0..SESSIONS).map(|session| {
        let (gate, path) = (gate.clone(), path.clone());
        tokio::spawn(async move {
            let mut calls = Vec::new();
            for round in 0..ROUNDS {
                let mode = if round % 3 == 0 { Mode::Yolo } else { Mode::ConfirmSensitive };
                let file = format!("f{session}-{round}");
                let call = call(&path, &format!("s{session}"), "append_line", &file, "line", mode);
                let id = call.id;
                let standing = gate.advance(call).await;
                if let (CallStatus::Waiting { question, .. }, 1) = (&standing, round % 3) {
                    gate.answer(yes(question)).await.unwrap();
                    gate.resume(id).await;
                }
                calls.push(id);
            }
            calls
        })
    });
    let mut calls: Vec<CallId> = join_all(sessions).await.into_iter().flat_map(Result::unwrap).collect();
    calls.push(interrupted(&ground).await);
    calls.push(expired(&ground).await);
    let act = AdminAction {
        id: AdminActionId::new(fresh_id()),
        at: NOW,
        tenant: TenantId::new("local").unwrap(),
        actor: "ada".into(),
        kind: AdminActionKind::Halt { reason: "to see it arrive".into() },
    };
    ledger.record_admin_action(act.clone()).await.unwrap();

    let book = ground.keyed().await;
    until("the act is in the book", async || book.admin_actions().await.unwrap() == [act.clone()]).await;
    let (mut settled, mut lines) = (0, 0);
    for call in &calls {
        let record = ledger.load(*call).await.unwrap().unwrap().record;
        ground.until_held(*call, record.len(), record.head()).await;
        if record.outcome().is_some() {
            ground.until_cleared(*call).await;
            settled += 1;
        }
        let read = ledger.load(*call).await.unwrap().unwrap();
        let kept = book.record(*call).await.unwrap().unwrap();
        assert_eq!(kept.record, record);
        assert_eq!(read.record, record);
        for content in book.contents(*call).await.unwrap() {
            assert_eq!(ledger.content(*call, content.content_ref).await.unwrap(), content.bytes);
        }
        lines += u64::from(record.len());
    }
    until("nothing is owed", async || ledger.book_lag(NOW).await.unwrap().waiting == 0).await;
    assert_eq!(ledger.book_lag(u64::MAX / 2).await.unwrap(), Default::default());

    let verified = book.verify().await.unwrap();
    assert!(verified.is_intact(), "{:?}", verified.integrity_error);
    assert_eq!((verified.records, verified.entries, verified.admin_actions), (calls.len() as u64, lines, 1));
    let listed = book.calls(CallFilter::default(), PageRequest::with_limit(1_000)).await.unwrap();
    assert_eq!(listed.len(), calls.len());
    assert_eq!(listed.iter().filter(|item| item.state == CallState::Settled).count(), settled);
    assert!(listed.iter().all(|item| !item.call_summary.summary.is_empty()), "{listed:?}");
    // Made again from the sealed notes, the lists are the same: nothing was listed that was not sealed, too.
    book.rebuild().await.unwrap();
    assert_eq!(book.calls(CallFilter::default(), PageRequest::with_limit(1_000)).await.unwrap(), listed);

    let left = state(&ground.ingress, &ground.name, "Call").await;
    let (tombstones, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, name, _)| name == "t");
    assert_eq!(tombstones.len(), settled);
    assert!(tombstones.iter().all(|(.., bytes)| *bytes == 16), "{tombstones:?}");
    assert_eq!(rest.iter().filter(|(_, name, _)| name == "r").count(), calls.len() - settled);
    println!("{} calls, {settled} settled, {lines} lines", calls.len());
}

/// An attempt whose owner dies; nobody settles it.
async fn interrupted(ground: &Ground) -> CallId {
    let (ledger, other) = (ground.ledger(), ground.ledger());
    let mut script = CallScript::beginning(
        ScriptSettings { session: "dies", ..ScriptSettings::default() },
        ledger.owner(),
    )
    .unwrap();
    let attempt = script.batch();
    let begun = attempt.attempt_start.unwrap().attempt;
    ledger.append(attempt).await.unwrap();
    // What was written before must not bring it along.
    ground.until_quiet().await;
    drop(ledger);
    assert_eq!(other.interrupt(script.call(), begun, NOW + 9).await.unwrap(), Interruption::Recorded);
    let record = other.load(script.call()).await.unwrap().unwrap().record;
    assert!(matches!(record.entries().last().unwrap().event, RecordEvent::Interrupted { .. }));
    script.call()
}

/// A question whose time runs out with nobody there.
async fn expired(ground: &Ground) -> CallId {
    let ledger = ground.ledger();
    let limits = Limits { question_timeout_ms: 2_000, ..Limits::default() };
    let settings = GateSettings { inbox: true, limits, ..GateSettings::default() };
    let gate = Gate::builder().ledger(ledger.clone()).tool(appender("append_line")).settings(settings);
    let asked = call(&ground.dir, "late", "append_line", "late", "never", Mode::ConfirmSensitive);
    let id = asked.id;
    let standing = gate.build().unwrap().advance(asked).await;
    assert!(matches!(standing, CallStatus::Waiting { .. }), "{standing:?}");
    ground.until_quiet().await;
    until("it expires", async || {
        let record = ledger.load(id).await.unwrap().unwrap().record;
        matches!(record.entries().last().unwrap().event, RecordEvent::Expired { .. })
    })
    .await;
    id
}

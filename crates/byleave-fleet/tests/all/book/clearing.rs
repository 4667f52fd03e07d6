//! Clearing: what is left of a call in the engine, what it answers, and what it must not.

use byleave_conformance::ledger::record_script::{CallScript, NOW, ScriptSettings, admin_action, loaded};
use byleave_fleet::{Options, RestateLedger};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::question::Answer;
use byleave_gate::ledger::{AppendError, ContentError, Ledger as _};

use super::bench::{Ground, until};
use crate::engine::state;

/// Plays a call that a person is asked about to its end; returns its last batch too.
async fn asked(ledger: &RestateLedger) -> (CallScript, byleave_gate::ledger::Batch) {
    let mut script = CallScript::waiting(ScriptSettings::asking()).unwrap();
    ledger.append(script.batch()).await.unwrap();
    script.answer(Answer::Yes { note: None }).unwrap();
    ledger.append(script.batch()).await.unwrap();
    script.start(ledger.owner()).unwrap();
    ledger.append(script.batch()).await.unwrap();
    script.end().unwrap();
    script.settle().unwrap();
    let last = script.batch();
    ledger.append(last.clone()).await.unwrap();
    (script, last)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_call_is_a_tombstone_and_is_read_from_the_book() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let (script, last) = asked(&ledger).await;
    let call = script.call();
    let question = script.record.entries().iter().find_map(|entry| match &entry.event {
        byleave_gate::core::entry::RecordEvent::Asked(Ok(question)) => Some(question.id),
        _ => None,
    });
    ground.until_cleared(call).await;

    let left = state(&ground.ingress, &ground.name, "Call").await;
    let left: Vec<_> = left.iter().map(|(_, name, bytes)| (name.as_str(), *bytes)).collect();
    assert_eq!(left, [("t", 16)], "what is left in the engine");
    let read = ledger.load(call).await.unwrap().unwrap();
    assert_eq!(read.record, script.record);
    assert_eq!(read.key.unwrap().expose(), script.key.expose());
    let content = last.contents.last().unwrap();
    assert_eq!(ledger.content(call, content.content_ref).await.unwrap(), content.bytes);
    assert_eq!(ledger.call_for_question(question.unwrap()).await.unwrap(), Some(call));
    assert!(ledger.resumable_calls(NOW * 2, 10).await.unwrap().is_empty());

    // The very same lines again, other lines behind them, and a new call under the old id.
    let again = ledger.append(last).await;
    assert!(matches!(again, Err(AppendError::Stale)), "{again:?}");
    let mut other =
        CallScript::ready(ScriptSettings { received_at: NOW + 1, ..ScriptSettings::default() }).unwrap();
    let reused = ledger.append(crate::engine::as_lines_of(call, other.batch())).await;
    assert!(matches!(reused, Err(AppendError::Stale)), "{reused:?}");
    assert_eq!(loaded(&*ledger, call).await.unwrap(), script.record);

    // Whoever has no book must not take it for a call that never was.
    let without = RestateLedger::open(Options { books: None, ..ground.options() }).unwrap();
    let fault = without.load(call).await.unwrap_err();
    assert!(fault.to_string().contains("without"), "{fault}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_settled_stays_in_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = CallScript::waiting(ScriptSettings::asking()).unwrap();
    let batch = script.batch();
    ledger.append(batch.clone()).await.unwrap();
    ground.until_held(script.call(), script.record.len(), script.record.head()).await;
    ground.until_quiet().await;
    assert!(!ground.is_cleared(script.call()).await);
    let names: Vec<String> =
        state(&ground.ingress, &ground.name, "Call").await.into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["c0", "r"]);
    // And the book lists it in the same words.
    let listed = ground
        .keyed()
        .await
        .questions(Default::default(), byleave_gate::audit_log::PageRequest::with_limit(9))
        .await
        .unwrap();
    assert_eq!(listed[0].call_summary, batch.call_summary);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_reaches_the_engine_and_the_book() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let (settled, last) = asked(&ledger).await;
    ground.until_cleared(settled.call()).await;
    let mut open = CallScript::ready(ScriptSettings { session: "r", ..ScriptSettings::default() }).unwrap();
    let first = open.batch();
    ledger.append(first.clone()).await.unwrap();
    ground.until_held(open.call(), open.record.len(), open.record.head()).await;

    let stranger = admin_action(&*ledger, "stranger", AdminActionKind::Forget { call: settled.call() }).await;
    assert!(stranger.is_ok());
    ledger.content(settled.call(), last.contents[0].content_ref).await.unwrap();
    for (script, held) in [(&settled, last.contents[0].content_ref), (&open, first.contents[0].content_ref)] {
        let call = script.call();
        assert!(admin_action(&*ledger, "local", AdminActionKind::Forget { call }).await.is_ok());
        // At once, wherever it is.
        let content = ledger.content(call, held).await;
        assert!(matches!(content, Err(ContentError::Forgotten)), "{content:?}");
        let read = ledger.load(call).await.unwrap().unwrap();
        assert!(read.key.is_none());
        assert_eq!(read.record, script.record);
        let sealed = ground.sealed().await.load_record_with_contents(call).await.unwrap().unwrap();
        assert!(sealed.wrapped_key.is_none(), "the book has the key of {call}");
        let kept = ground.keyed().await.record(call).await.unwrap().unwrap();
        assert!(kept.forgotten && kept.call_summary.unwrap().summary.is_empty());
    }
    assert!(ground.keyed().await.verify().await.unwrap().is_intact());
}

/// A book that has something else for a call refuses it: that is said, and the engine keeps the record.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_book_refuses_is_named_and_never_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = ground.contradicted(&ledger).await;

    script.answer(Answer::Yes { note: None }).unwrap();
    script.start(ledger.owner()).unwrap();
    script.end().unwrap();
    script.settle().unwrap();
    ledger.append(script.batch()).await.unwrap();
    until("it is refused", async || !ledger.book_lag(NOW).await.unwrap().refused.is_empty()).await;
    let lag = ledger.book_lag(NOW).await.unwrap();
    assert!(lag.refused[0].contains(&script.call().to_string()), "{lag:?}");
    assert!(!ground.is_cleared(script.call()).await);
    assert_eq!(ledger.load(script.call()).await.unwrap().unwrap().record, script.record);
    // It does not stand in the way of others, also on the same lane.
    for _ in 0..8 {
        let mut other = CallScript::beginning(
            ScriptSettings { exclusive: false, ..ScriptSettings::default() },
            ledger.owner(),
        )
        .unwrap();
        other.end().unwrap();
        other.settle().unwrap();
        ledger.append(other.batch()).await.unwrap();
        ground.until_cleared(other.call()).await;
    }
}

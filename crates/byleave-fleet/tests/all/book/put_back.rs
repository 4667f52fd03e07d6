//! A book that was put back from an old copy: what the engine still holds is sent once more, and nothing is taken for whole of
//! which only the end is there.

use std::process::Command;

use byleave_conformance::ledger::record_script::{CallScript, NOW, ScriptSettings, admin_action};
use byleave_fleet::Books;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::question::Answer;
use byleave_gate::ledger::Ledger as _;

use super::bench::{Ground, until, url};
use crate::engine::admin;

/// As if the book had been put back from a copy that was made before anything was in it.
fn put_back(ground: &Ground) {
    let schema = Books::schema_of(&ground.name);
    let tables = ["line", "record", "call", "unsettled", "leave", "leave_use", "early", "forgotten", "month"];
    let tables = tables.map(|table| format!("{schema}.{table}")).join(", ");
    let sql = format!(
        "BEGIN; TRUNCATE {tables}; UPDATE {schema}.book_end SET pos = 0, places = '{{0,0,0,0,0,0,0,0}}', month = 0; COMMIT"
    );
    psql(&sql);
}

/// Does something that the book does not do.
fn psql(sql: &str) {
    let output = Command::new("psql").args([&url(), "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_holds_is_sent_once_more() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut scripts: Vec<CallScript> = (0..20)
        .map(|_| {
            CallScript::waiting(ScriptSettings { exclusive: false, ..ScriptSettings::asking() }).unwrap()
        })
        .collect();
    for script in &mut scripts {
        ledger.append(script.batch()).await.unwrap();
        script.answer(Answer::Yes { note: None }).unwrap();
        ledger.append(script.batch()).await.unwrap();
    }
    assert!(
        admin_action(&*ledger, "local", AdminActionKind::Halt { reason: "for now".into() }).await.is_ok()
    );
    assert!(admin_action(&*ledger, "local", AdminActionKind::Lift).await.is_ok());
    let book = ground.keyed().await;
    let all_there = async || {
        let verified = book.verify().await.unwrap();
        assert!(verified.is_intact(), "{:?}", verified.integrity_error);
        let lines: u64 = scripts.iter().map(|script| u64::from(script.record.len())).sum();
        (verified.records, verified.entries, verified.admin_actions) == (20, lines, 2)
    };
    until("everything is in the book", all_there).await;
    ground.until_quiet().await;
    put_back(&ground);
    assert_eq!(book.verify().await.unwrap().records, 0);

    assert_eq!(ledger.send_again(&admin(&ground.ingress)).await.unwrap(), 22);
    until("everything is in the book again", all_there).await;
    ground.until_quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_goes_on_brings_its_beginning_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = CallScript::waiting(ScriptSettings::asking()).unwrap();
    ledger.append(script.batch()).await.unwrap();
    ground.until_held(script.call(), script.record.len(), script.record.head()).await;
    ground.until_quiet().await;
    put_back(&ground);

    // Nobody has sent anything again. The book takes the end, and keeps it early.
    script.answer(Answer::No { feedback: None }).unwrap();
    script.settle().unwrap();
    ledger.append(script.batch()).await.unwrap();
    ground.until_cleared(script.call()).await;
    assert_eq!(ledger.load(script.call()).await.unwrap().unwrap().record, script.record);
    assert!(ground.keyed().await.verify().await.unwrap().is_intact());
    assert_eq!(ground.sealed().await.backlog().await.unwrap().out_of_order, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_cut_off_in_the_book_is_not_driven_on() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = CallScript::beginning(ScriptSettings::default(), ledger.owner()).unwrap();
    ledger.append(script.batch()).await.unwrap();
    script.end().unwrap();
    script.settle().unwrap();
    ledger.append(script.batch()).await.unwrap();
    ground.until_cleared(script.call()).await;
    let (schema, call) = (Books::schema_of(&ground.name), script.call());
    psql(&format!("DELETE FROM {schema}.line WHERE call = '{call}' AND seq > 0"));
    // It looks like an attempt that is still open.
    let read = ledger.load(call).await;
    assert!(read.is_err(), "{read:?}");
    psql(&format!("DELETE FROM {schema}.line WHERE call = '{call}'"));
    let read = ledger.load(call).await;
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_large_is_sent_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = CallScript::new(ScriptSettings::default()).unwrap();
    let mut contents = Vec::new();
    for part in 0_u32..4 {
        script.step().unwrap();
        // Nothing makes it smaller: each part is more than a half of what is owed at once.
        let digests =
            (0_u32..20_000).map(|n| *Digest::compute(&(part * 20_000 + n).to_le_bytes()).as_bytes());
        let bytes = digests.flatten().collect::<Vec<u8>>();
        contents.push((script.content_ref(&bytes), bytes));
        ledger.append(script.batch()).await.unwrap();
    }
    ground.until_held(script.call(), script.record.len(), script.record.head()).await;
    ground.until_quiet().await;
    put_back(&ground);
    assert_eq!(ledger.send_again(&admin(&ground.ingress)).await.unwrap(), 1);
    ground.until_held(script.call(), script.record.len(), script.record.head()).await;

    while script.step().unwrap() {}
    script.start(ledger.owner()).unwrap();
    script.end().unwrap();
    script.settle().unwrap();
    ledger.append(script.batch()).await.unwrap();
    ground.until_cleared(script.call()).await;
    for (held, bytes) in contents {
        assert!(ledger.content(script.call(), held).await.unwrap() == bytes);
    }
    assert!(ground.keyed().await.verify().await.unwrap().is_intact());
}

/// The book has something else for a call, is put back to before that, and takes what is sent once more.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_named_until_it_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::shared(dir.path());
    let ledger = ground.ledger();
    let mut script = ground.contradicted(&ledger).await;
    script.answer(Answer::Yes { note: None }).unwrap();
    ledger.append(script.batch()).await.unwrap();
    until("it is refused", async || !ledger.book_lag(NOW).await.unwrap().refused.is_empty()).await;

    put_back(&ground);
    ledger.send_again(&admin(&ground.ingress)).await.unwrap();
    ground.until_held(script.call(), script.record.len(), script.record.head()).await;
    until("it is refused no longer", async || ledger.book_lag(NOW).await.unwrap().refused.is_empty()).await;
}

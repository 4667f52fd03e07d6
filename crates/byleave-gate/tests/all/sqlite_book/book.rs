//! Lists, erasure, export, rebuilding.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_gate::approver::Reply;
use byleave_gate::audit_log::export::{self, IncludeContents};
use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::audit_log::{AuditLog, CallFilter, LogPosition, PageRequest};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::id::{AgentId, CallId, QuestionId};
use byleave_gate::core::question::{Answer, ApproverIdentity, Assurance, Question};
use byleave_gate::gate::{AnswerError, Gate, SubmittedAnswer};
use byleave_gate::ledger::{ContentError, Ledger};
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use futures::StreamExt;

use super::scribe::{
    RecordWriter, gives_leave, now, open, session, stepwise, tenant, waiting, whole, write_to,
};
use crate::support::ManifestOnlyTool;

/// A gate on the audit log, with an inbox.
fn gate(dir: &Path) -> (Arc<SqliteLedger>, Gate) {
    let book = Arc::new(open(dir));
    let settings = GateSettings { inbox: true, ..GateSettings::default() };
    let gate = Gate::builder()
        .ledger(Arc::clone(&book) as Arc<_>)
        .settings(settings)
        .tool(ManifestOnlyTool::named("t"));
    (book, gate.build().unwrap())
}

/// A call that a person is asked about.
fn asking_call() -> Call {
    Call {
        id: CallId::new(fresh_id()),
        tenant: tenant(),
        session: session("s"),
        agent: AgentId::new("a").unwrap(),
        tool: "t".into(),
        arguments: serde_json::json!({}),
        reason: None,
        cwd: "/".into(),
        mode: Mode::ConfirmAll,
        dry_run: false,
    }
}

#[tokio::test]
async fn a_call_that_another_process_goes_on_with_is_still_listed_with_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let (book, first) = gate(dir.path());
    let CallStatus::Waiting { question, .. } = first.advance(asking_call()).await else {
        panic!("nobody was asked")
    };
    drop((book, first));

    let (book, second) = gate(dir.path());
    let by = ApproverIdentity { name: "ann".into(), assurance: Assurance::Terminal };
    let reply = Reply::Yes { note: None };
    let given = SubmittedAnswer { question: question.id, digest: question.digest(), reply, approver: by };
    let call = second.answer(given).await.unwrap();
    assert!(matches!(second.resume(call).await, CallStatus::Settled(_)));
    let item = &book.calls(CallFilter::default(), PageRequest::with_limit(1)).await.unwrap()[0];
    assert_eq!(
        (item.outcome.as_deref(), item.call_summary.summary.as_str()),
        (Some("completed"), "invoke t")
    );
}

// req: R5
#[tokio::test]
async fn a_question_or_an_answer_written_into_a_projection_counts_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (book, gate) = gate(dir.path());
    let call = asking_call();
    let id = call.id;
    let CallStatus::Waiting { question, .. } = gate.advance(call).await else { panic!("nobody was asked") };
    let other = Call { session: session("other"), ..asking_call() };
    let CallStatus::Waiting { .. } = gate.advance(other).await else { panic!("nobody was asked") };
    let given = |question: &Question, id: QuestionId| SubmittedAnswer {
        question: id,
        digest: question.digest(),
        reply: Reply::Yes { note: None },
        approver: ApproverIdentity { name: "ann".into(), assurance: Assurance::Terminal },
    };
    let peer = rusqlite::Connection::open(dir.path().join("audit.sqlite")).unwrap();
    let waits = async || match gate.resume(id).await {
        CallStatus::Waiting { question: open, .. } => assert_eq!(open, question),
        standing => panic!("it went on without an answer: {standing:?}"),
    };

    // As if it had been answered, or there were no question.
    peer.execute_batch("UPDATE question SET open = 0; UPDATE call SET state = 0, due = 0;").unwrap();
    waits().await;
    peer.execute_batch("DELETE FROM question; DELETE FROM pending_effect;").unwrap();
    waits().await;
    assert!(matches!(gate.answer(given(&question, question.id)).await, Err(AnswerError::UnknownQuestion(_))));
    book.rebuild().await.unwrap();

    // A question that was never asked, and one that is attributed to another call.
    let forged = QuestionId::new(fresh_id());
    let forge =
        "INSERT INTO question SELECT pos + 1000, ?1, call, tenant, session, kind, asked_at, expires_at, 1
         FROM question WHERE id = ?2";
    peer.execute(forge, [forged.as_bytes(), question.id.as_bytes()]).unwrap();
    assert!(matches!(gate.answer(given(&question, forged)).await, Err(AnswerError::UnknownQuestion(_))));
    let swap = "UPDATE question SET call = (SELECT max(call) FROM question) WHERE id = ?1";
    peer.execute(swap, [question.id.as_bytes()]).unwrap();
    assert!(matches!(gate.answer(given(&question, question.id)).await, Err(AnswerError::UnknownQuestion(_))));
    waits().await;

    book.rebuild().await.unwrap();
    gate.answer(given(&question, question.id)).await.unwrap();
    assert!(matches!(gate.resume(id).await, CallStatus::Settled(_)));
}

fn files_hold(dir: &Path, needle: &[u8]) -> bool {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.is_file())
        .any(|path| std::fs::read(path).unwrap().windows(needle.len()).any(|window| window == needle))
}

#[tokio::test]
async fn forgetting_leaves_the_chain_and_takes_the_contents() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let mut calls = Vec::new();
    for number in 0..40 {
        let mut scribe = RecordWriter::new("s", write_to("/w/a"));
        scribe.summary = format!("summary-number-{number:03}");
        scribe.ruled(Verdict::Allow, None);
        let attempt = scribe.begin(book.owner());
        scribe.append(&book).await.unwrap();
        scribe.end(attempt).append(&book).await.unwrap();
        calls.push(scribe);
    }
    book.seal().await.unwrap();
    let forgotten = &calls[20];
    let peer = rusqlite::Connection::open(dir.path().join("audit.sqlite")).unwrap();
    let sql = "SELECT key FROM batch WHERE call = ?1 AND seq = 0";
    let wrapped: Vec<u8> = peer.query_row(sql, [forgotten.call.as_bytes()], |row| row.get(0)).unwrap();
    assert!(files_hold(dir.path(), &wrapped) && files_hold(dir.path(), b"summary-number-020"));

    let done = book.forget(forgotten.call, "ada".into(), now()).await.unwrap().unwrap();
    assert!(done.key_wiped);
    assert!(!files_hold(dir.path(), &wrapped), "the wrapped key is still in a file");
    assert!(!files_hold(dir.path(), b"summary-number-020"), "the summary is still in a file");
    let held = forgotten.record.header().unwrap().arguments;
    assert!(matches!(book.content(forgotten.call, held).await, Err(ContentError::Forgotten)));
    let loaded = book.load(forgotten.call).await.unwrap().unwrap();
    assert_eq!((loaded.record, loaded.key.is_none()), (forgotten.record.clone(), true));
    assert!(book.content(calls[19].call, calls[19].record.header().unwrap().arguments).await.is_ok());
    book.seal().await.unwrap();
    let verification = book.verify().await.unwrap();
    assert_eq!(
        (verification.integrity_error, verification.admin_actions, verification.records),
        (None, 1, 40)
    );
    assert_eq!(book.admin_actions().await.unwrap(), [done.action]);
    assert!(
        book.forget(RecordWriter::new("s", Vec::new()).call, "ada".into(), now()).await.unwrap().is_none()
    );

    // A key that is destroyed directly in the database is not an erasure.
    peer.execute(
        "UPDATE batch SET key = zeroblob(72) WHERE call = ?1 AND seq = 0",
        [calls[5].call.as_bytes()],
    )
    .unwrap();
    let flaw = book.verify().await.unwrap().integrity_error.unwrap();
    assert_eq!(flaw.position, LogPosition::Key { call: calls[5].call });
}

fn projections(dir: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(dir.join("audit.sqlite")).unwrap();
    let mut dump = Vec::new();
    for table in [
        "call",
        "question",
        "pending_effect",
        "exclusive_attempt",
        "standing_approval",
        "standing_approval_use",
    ] {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> =
                (0..columns).map(|column| format!("{:?}", row.get_ref(column).unwrap())).collect();
            dump.push(format!("{table}: {}", values.join(", ")));
        }
    }
    dump
}

#[tokio::test]
async fn projections_can_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    whole(&book, "s").await;
    stepwise(&book, "s").await;
    gives_leave(&book, Some(3)).await;
    let unlimited = gives_leave(&book, None).await;
    let mut uses = RecordWriter::new("u", write_to("/w/a"));
    uses.ruled(Verdict::Allow, Some(unlimited));
    uses.begin(book.owner());
    uses.append(&book).await.unwrap();
    waiting(&book, "s", write_to("/w/b")).await;
    let (mut declined, question) = waiting(&book, "s", write_to("/w/c")).await;
    declined.answer(&question, Answer::No { feedback: None }).settle();
    declined.append(&book).await.unwrap();
    let mut halfway = RecordWriter::new("h", write_to("/w/a"));
    halfway.ruled(Verdict::Allow, None).append(&book).await.unwrap();
    let forgotten = whole(&book, "s").await;
    book.forget(forgotten.call, "ada".into(), now()).await.unwrap().unwrap();

    let before = projections(dir.path());
    for table in [
        "call",
        "question",
        "pending_effect",
        "exclusive_attempt",
        "standing_approval",
        "standing_approval_use",
    ] {
        assert!(before.iter().any(|row| row.starts_with(&format!("{table}:"))), "{table} is empty");
    }
    book.rebuild().await.unwrap();
    assert_eq!(projections(dir.path()), before);
    let peer = rusqlite::Connection::open(dir.path().join("audit.sqlite")).unwrap();
    peer.execute_batch("UPDATE call SET tool = 'x', state = 2; DELETE FROM pending_effect; DELETE FROM standing_approval_use;")
        .unwrap();
    book.rebuild().await.unwrap();
    assert_eq!(projections(dir.path()), before);
    stepwise(&book, "s").await;
}

// req: A1
#[tokio::test]
async fn records_go_out_as_json_and_markdown() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    for _ in 0..70 {
        whole(&book, "many").await;
    }
    let mut scribe = RecordWriter::new("one", write_to("/w/a"));
    scribe.summary = "a | b ` c".into();
    scribe.ruled(Verdict::Deny, None).settle();
    scribe.append(&book).await.unwrap();

    let all: Vec<_> =
        export::export_records(&book, CallFilter::default(), IncludeContents::Omitted).collect().await;
    assert_eq!(all.len(), 71);
    let newest = all[0].as_ref().unwrap();
    assert_eq!(newest.call, scribe.call);
    let text = newest.to_json().to_string();
    assert!(text.contains("\"session\":\"one\"") && !text.contains("secret-path"), "{text}");
    let markdown = newest.to_markdown();
    assert!(markdown.contains("| 7 |") || markdown.contains("| settled | refused"), "{markdown}");
    assert!(markdown.contains(r"a \| b \` c") && !markdown.contains("secret-path"), "{markdown}");
    let with = export::export_one(&book, scribe.call, IncludeContents::Included).await.unwrap().unwrap();
    assert!(with.to_json().to_string().contains("secret-path") && with.to_markdown().contains("secret-path"));
    assert!(
        export::export_one(&book, RecordWriter::new("s", Vec::new()).call, IncludeContents::Omitted)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn the_keeper_seals_by_itself_and_once_more_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions { seal_every: Some(Duration::from_millis(20)), ..SqliteOptions::default() };
    let book = SqliteLedger::open(dir.path(), &options).unwrap();
    whole(&book, "s").await;
    let deadline = Instant::now() + Duration::from_secs(120);
    while book.verify().await.unwrap().unsealed > 0 {
        assert!(Instant::now() < deadline, "nothing was sealed");
        tokio::task::yield_now().await;
    }
    drop(book);
    let slow = SqliteOptions { seal_every: Some(Duration::from_secs(3_600)), ..SqliteOptions::default() };
    let book = SqliteLedger::open(dir.path(), &slow).unwrap();
    whole(&book, "s").await;
    drop(book);
    let book = open(dir.path());
    let verification = book.verify().await.unwrap();
    assert_eq!((verification.unsealed, verification.integrity_error), (0, None));
    assert_eq!(book.anchor().await.unwrap().unwrap().number, verification.segments);
}

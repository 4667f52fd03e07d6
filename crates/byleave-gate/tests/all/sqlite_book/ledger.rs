//! Appends, claims, and standing approvals in force.

use std::os::unix::fs::PermissionsExt;

use byleave_gate::audit_log::AuditLog;
use byleave_gate::audit_log::sqlite::SqliteLedger;
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::StandingApprovalId;
use byleave_gate::core::question::Answer;
use byleave_gate::ledger::{AppendError, ContentError, Ledger, StartBlockedError};
use futures::future::join_all;
use uuid::Uuid;

use super::scribe::{
    RecordWriter, act, gives_leave, now, open, session, stepwise, tenant, unsealed, waiting, whole, write_to,
};

// req: A1
#[tokio::test]
async fn what_was_appended_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let book = open(&state);
    let one = whole(&book, "s").await;
    let two = stepwise(&book, "s").await;
    drop(book);
    let book = open(&state);
    for scribe in [&one, &two] {
        let loaded = book.load(scribe.call).await.unwrap().unwrap();
        assert_eq!(loaded.record, scribe.record);
        assert_eq!(loaded.key.unwrap().expose(), scribe.key.expose());
        let held = scribe.record.header().unwrap().arguments;
        assert_eq!(book.content(scribe.call, held).await.unwrap(), br#"{"path":"/w/secret-path"}"#);
        let unknown = scribe.key.content_ref(b"never kept");
        assert!(matches!(book.content(scribe.call, unknown).await, Err(ContentError::Missing)));
    }
    assert!(book.load(RecordWriter::new("s", Vec::new()).call).await.unwrap().is_none());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    for file in std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()) {
        assert_eq!(mode(&file), if file.is_dir() { 0o700 } else { 0o600 }, "{}", file.display());
    }
}

#[tokio::test]
async fn true_contents_are_nowhere_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let mut scribe = whole(&book, "s").await;
    scribe.summary = String::new();
    for file in std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if file.is_file() { std::fs::read(&file).unwrap() } else { Vec::new() };
        for text in [b"secret-path".as_slice(), b"the true output"] {
            assert!(!bytes.windows(text.len()).any(|window| window == text), "{}", file.display());
        }
    }
}

#[tokio::test]
async fn one_place_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None);
    let first = scribe.batch();
    let attempt = scribe.begin(book.owner());
    scribe.end(attempt);
    let second = scribe.batch();
    assert!(matches!(book.append(second.clone()).await, Err(AppendError::Stale)), "nothing is there yet");
    book.append(first.clone()).await.unwrap();
    assert!(matches!(book.append(first).await, Err(AppendError::Stale)));
    let mut forked = second.clone();
    forked.prev_link = scribe.record.head();
    assert!(book.append(forked).await.is_err(), "the same length, another end");
    // Of many concurrent appends only one succeeds, and unrelated appends of the same commit are not
    // affected.
    let mut others: Vec<RecordWriter> = (0..8).map(|_| RecordWriter::new("s", Vec::new())).collect();
    let fresh = others.iter_mut().map(|other| {
        other.ruled(Verdict::Allow, None);
        book.append(other.batch())
    });
    let same = (0..8).map(|_| book.append(second.clone()));
    let results = join_all(same.chain(fresh)).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1 + 8);
    assert_eq!(book.load(scribe.call).await.unwrap().unwrap().record, scribe.record);
}

#[tokio::test]
async fn a_halt_holds_until_it_is_lifted() {
    let dir = tempfile::tempdir().unwrap();
    let (book, other) = (open(dir.path()), open(dir.path()));
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None).append(&book).await.unwrap();
    scribe.begin(book.owner());
    let begin = scribe.batch();
    other.record_admin_action(act(AdminActionKind::Halt { reason: "fire".into() })).await.unwrap();
    assert_eq!(book.active_halt(&tenant()).await.unwrap().unwrap().actor, "ada");
    let Err(AppendError::StartBlocked(StartBlockedError::Halted { why })) = book.append(begin.clone()).await
    else {
        panic!("began while halted")
    };
    assert_eq!(why, "fire");
    whole(&book, "other").await;
    other.record_admin_action(act(AdminActionKind::Lift)).await.unwrap();
    assert!(book.active_halt(&tenant()).await.unwrap().is_none());
    book.append(begin).await.unwrap();
}

#[tokio::test]
async fn who_runs_alone_runs_alone_in_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let mut first = RecordWriter::new("s", write_to("/w/a"));
    first.ruled(Verdict::Allow, None);
    let attempt = first.begin(book.owner());
    first.append(&book).await.unwrap();
    let beside = |in_session: &str, safe: bool| {
        let mut scribe = RecordWriter::new(in_session, write_to("/w/a"));
        scribe.concurrency_safe = safe;
        scribe.ruled(Verdict::Allow, None);
        scribe.begin(book.owner());
        scribe.batch()
    };
    let busy = beside("s", false);
    let Err(AppendError::StartBlocked(StartBlockedError::SessionBusy { call, attempt: by })) =
        book.append(busy.clone()).await
    else {
        panic!("two ran alone")
    };
    assert_eq!((call, by), (first.call, attempt));
    book.append(beside("s", true)).await.unwrap();
    book.append(beside("t", false)).await.unwrap();
    first.end(attempt).append(&book).await.unwrap();
    book.append(busy).await.unwrap();
}

#[tokio::test]
async fn a_leave_counts_while_it_has_uses_and_is_not_revoked() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let id = gives_leave(&book, Some(2)).await;
    let standing = async || {
        let leaves = book.standing_approvals(&tenant(), "append_line", now()).await.unwrap();
        leaves.iter().map(|leave| leave.id).collect::<Vec<_>>()
    };
    assert_eq!(standing().await, [id]);
    assert!(book.standing_approvals(&tenant(), "other", now()).await.unwrap().is_empty());
    for left in [1, 0] {
        let mut scribe = RecordWriter::new("s", write_to("/w/a"));
        scribe.uses_max = Some(2);
        scribe.ruled(Verdict::Allow, Some(id));
        let attempt = scribe.begin(book.owner());
        scribe.append(&book).await.unwrap();
        scribe.end(attempt).append(&book).await.unwrap();
        assert_eq!(standing().await.len(), usize::from(left > 0), "{left} uses left");
    }
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.uses_max = Some(2);
    scribe.ruled(Verdict::Allow, Some(id)).append(&book).await.unwrap();
    scribe.begin(book.owner());
    let spent = book.append(scribe.batch()).await;
    assert!(matches!(spent, Err(AppendError::StartBlocked(StartBlockedError::ApprovalUsedUp))));

    let id = gives_leave(&book, None).await;
    assert_eq!(standing().await, [id]);
    book.record_admin_action(act(AdminActionKind::Revoke { standing_approval: id })).await.unwrap();
    assert!(standing().await.is_empty());
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.ruled(Verdict::Allow, Some(id)).append(&book).await.unwrap();
    scribe.begin(book.owner());
    let revoked = book.append(scribe.batch()).await;
    assert!(matches!(revoked, Err(AppendError::StartBlocked(StartBlockedError::ApprovalUsedUp))));
}

#[tokio::test]
async fn what_is_written_into_a_projection_counts_for_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let given = gives_leave(&book, None).await;
    let (call, forged) = (whole(&book, "s").await.call, StandingApprovalId::new(Uuid::now_v7()));
    let other = rusqlite::Connection::open(dir.path().join("audit.sqlite")).unwrap();
    let insert = "INSERT INTO standing_approval(tenant, tool, id, call) VALUES('local', ?1, ?2, ?3)";
    for tool in ["append_line", "other"] {
        other.execute(insert, rusqlite::params![tool, forged.as_bytes(), call.as_bytes()]).unwrap();
        other.execute(insert, rusqlite::params![tool, Uuid::now_v7().as_bytes(), call.as_bytes()]).unwrap();
    }
    let giver: [u8; 16] = other
        .query_row("SELECT call FROM standing_approval WHERE id = ?1", [given.as_bytes()], |row| row.get(0))
        .unwrap();
    other.execute(insert, rusqlite::params!["other", given.as_bytes(), giver]).unwrap();
    let ids = async |tool: &str| {
        let leaves = book.standing_approvals(&tenant(), tool, now()).await.unwrap();
        leaves.iter().map(|leave| leave.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("append_line").await, [given]);
    assert!(ids("other").await.is_empty(), "the leave is for another tool");
    let listed = book.list_standing_approvals(&tenant(), now()).await.unwrap();
    assert_eq!(listed.iter().map(|item| item.standing_approval.id).collect::<Vec<_>>(), [given]);

    // Forged in the database: an answered question, a settled call, an attempt that does not exist,
    // a use that did not happen.
    let (scribe, question) = waiting(&book, "s", write_to("/w/a")).await;
    let edits = "UPDATE question SET open = 0; UPDATE call SET state = 2, outcome = 'completed', due = NULL;
         INSERT INTO exclusive_attempt SELECT 'local', 's', randomblob(16), randomblob(16), randomblob(16);";
    other.execute_batch(edits).unwrap();
    assert_eq!(book.load(scribe.call).await.unwrap().unwrap().record, scribe.record);
    assert_eq!(book.call_for_question(question.id).await.unwrap(), Some(scribe.call));
    stepwise(&book, "s").await;
    let limited = gives_leave(&book, Some(1)).await;
    let fake = "INSERT INTO standing_approval_use(approval, call, attempt) VALUES(?1, ?2, randomblob(16))";
    other.execute(fake, rusqlite::params![limited.as_bytes(), call.as_bytes()]).unwrap();
    assert!(ids("append_line").await.contains(&limited));

    // A standing approval whose record was changed is invalid at once, although it was valid before.
    other
        .execute("UPDATE batch SET body = zeroblob(length(body)) WHERE call = ?1 AND seq = 0", [giver])
        .unwrap();
    assert!(!ids("append_line").await.contains(&given));
}

#[tokio::test]
async fn a_waiting_call_holds_up_what_conflicts_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let read = |path: &str| Effect::Read { path: path.into() };
    let write = |path: &str| Effect::Write { path: path.into() };
    let delete = |path: &str| Effect::Delete { path: path.into() };
    let reach = |host: &str| Effect::Reach { host: host.into(), port: 443 };
    let invoke = |tool: &str| Effect::Invoke { tool: tool.into() };
    let run = || Effect::Run { program: "/bin/true".into(), argv: Vec::new() };
    let unknown = || Effect::Unknown { reason: "?".into() };
    let all = [
        read("/w/a"),
        read("/w/a/"),
        write("/w/a"),
        write("/w/ab"),
        write("/w/a/b/c"),
        delete("/w"),
        delete("/"),
        read("/w/a/b"),
        write("/v%/_"),
        reach("a.example"),
        reach("b.example"),
        invoke("x"),
        invoke("y"),
        run(),
        unknown(),
        Effect::Unconfined { guarantee: "network".into() },
    ];
    let before = RecordWriter::new("s", Vec::new());
    for (number, held) in all.iter().enumerate() {
        let name = format!("s{number}");
        let (mut scribe, question) = waiting(&book, &name, vec![held.clone()]).await;
        let held_up = async |effect: &Effect, in_session: &str| {
            let plan = Plan { effects: vec![effect.clone()], ..Plan::default() };
            book.blocking_call(&tenant(), &session(in_session), before.call, &plan, &[]).await.unwrap()
        };
        for effect in &all {
            let expected = effect.conflicts_with(held).then_some(scribe.call);
            assert_eq!(held_up(effect, &name).await, expected, "{effect} / {held}");
            assert_eq!(held_up(effect, "elsewhere").await, None);
        }
        let own = Plan { effects: vec![held.clone()], ..Plan::default() };
        assert_eq!(
            book.blocking_call(&tenant(), &scribe.session, scribe.call, &own, &[]).await.unwrap(),
            None
        );
        scribe.answer(&question, Answer::No { feedback: None }).settle();
        scribe.append(&book).await.unwrap();
        assert_eq!(held_up(&unknown(), &name).await, None, "it waits no more");
    }
}

#[tokio::test]
async fn a_later_call_holds_up_no_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let mut early = RecordWriter::new("s", write_to("/w/a"));
    early.ruled(Verdict::Allow, None).append(&book).await.unwrap();
    let (late, _) = waiting(&book, "s", write_to("/w/a")).await;
    let plan = Plan { effects: write_to("/w/a"), ..Plan::default() };
    assert_eq!(book.blocking_call(&tenant(), &session("s"), early.call, &plan, &[]).await.unwrap(), None);
    let fresh = RecordWriter::new("s", Vec::new()).call;
    assert_eq!(
        book.blocking_call(&tenant(), &session("s"), fresh, &plan, &[]).await.unwrap(),
        Some(late.call)
    );
}

#[tokio::test]
async fn drivable_is_what_no_person_is_still_thinking_about() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    whole(&book, "s").await;
    let mut open_call = RecordWriter::new("s", write_to("/w/a"));
    open_call.ruled(Verdict::Allow, None).append(&book).await.unwrap();
    let (waits, question) = waiting(&book, "s", write_to("/w/a")).await;
    assert_eq!(book.resumable_calls(now(), 10).await.unwrap(), [open_call.call]);
    let later = question.expires_at;
    assert_eq!(book.resumable_calls(later, 10).await.unwrap(), [open_call.call, waits.call]);
    assert_eq!(book.resumable_calls(later - 1, 10).await.unwrap(), [open_call.call]);
    assert_eq!(book.resumable_calls(later, 1).await.unwrap().len(), 1);
    assert_eq!(book.call_for_question(question.id).await.unwrap(), Some(waits.call));
}

#[tokio::test]
async fn a_full_disk_is_a_fault_and_nothing_is_half_written() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    whole(&book, "s").await;
    // A trigger that fails in the middle of an append simulates a disk failure.
    let other = rusqlite::Connection::open(dir.path().join("audit.sqlite")).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON call BEGIN SELECT RAISE(ABORT, 'disk is full'); END;",
        )
        .unwrap();
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.ruled(Verdict::Allow, None);
    let batch = scribe.batch();
    let Err(AppendError::Ledger(fault)) = book.append(batch.clone()).await else { panic!("it was written") };
    assert!(fault.to_string().contains("disk is full"), "{fault}");
    assert!(book.load(scribe.call).await.unwrap().is_none());
    other.execute_batch("DROP TRIGGER full;").unwrap();
    book.append(batch).await.unwrap();
}

#[tokio::test]
async fn a_lost_key_is_not_replaced_in_silence() {
    for file in ["audit.key", "signing.key"] {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()));
        let key = std::fs::read(dir.path().join(file)).unwrap();
        std::fs::remove_file(dir.path().join(file)).unwrap();
        assert!(SqliteLedger::open(dir.path(), &unsealed()).is_err(), "{file} is missing");
        std::fs::write(dir.path().join(file), [7; 32]).unwrap();
        assert!(SqliteLedger::open(dir.path(), &unsealed()).is_err(), "{file} is another's");
        std::fs::write(dir.path().join(file), key).unwrap();
        assert!(SqliteLedger::open(dir.path(), &unsealed()).is_ok());
    }
}

//! Tampering: every change that someone makes in the database is detected, at its first position.

use byleave_conformance::ledger::record_script::{CallScript, NOW, ScriptSettings, standing_approval};
use byleave_gate::audit_log::{AuditLog as _, LogPosition, Verification};
use byleave_gate::core::admin_action::{AdminAction, AdminActionKind};
use byleave_gate::core::id::{AdminActionId, CallId, TenantId};
use byleave_gate::core::question::Answer;
use byleave_postgres::PgAuditLog;
use uuid::Uuid;

use crate::server::PgSchema;
use crate::story::{asked, taking, waiting};

/// An audit log with entries of every kind: some sealed, and a record after them that is not.
struct SealedFixture {
    ground: PgSchema,
    book: PgAuditLog,
    /// Four appends, sealed.
    sealed: CallScript,
    /// Four appends, not sealed.
    open: CallScript,
    act: AdminActionId,
    gives: CallId,
}

impl SealedFixture {
    async fn new() -> Self {
        let ground = PgSchema::new().await;
        let book = ground.open().await;
        let (sealed, takings) = asked(ScriptSettings::default());
        for taking in takings {
            book.ingest(taking).await.unwrap();
        }
        let (mut gives, first) = waiting(ScriptSettings { session: "r", ..ScriptSettings::default() });
        book.ingest(first).await.unwrap();
        gives.answer(Answer::StandingApproval(standing_approval())).unwrap();
        book.ingest(taking(&mut gives)).await.unwrap();
        let (id, tenant) = (AdminActionId::new(Uuid::now_v7()), TenantId::new("local").unwrap());
        let deed = AdminActionKind::Halt { reason: "fire".into() };
        book.ingest_action(AdminAction { id, at: NOW, tenant, actor: "ada".into(), kind: deed })
            .await
            .unwrap();
        book.seal().await.unwrap();
        let (open, takings) = asked(ScriptSettings { session: "o", ..ScriptSettings::default() });
        for taking in takings {
            book.ingest(taking).await.unwrap();
        }
        let verified = book.verify().await.unwrap();
        assert!(verified.is_intact(), "{:?}", verified.integrity_error);
        Self { ground, book, gives: gives.call(), sealed, open, act: id }
    }

    async fn verify(&self) -> Verification {
        self.book.verify().await.unwrap()
    }
}

/// Makes a change, and checks that it is detected at its position.
async fn check(what: &str, change: impl Fn(&SealedFixture) -> (String, LogPosition)) {
    let told = SealedFixture::new().await;
    let (sql, place) = change(&told);
    assert!(told.ground.execute(&sql).await > 0, "{what}: nothing was changed by {sql}");
    let flaw = told.verify().await.integrity_error.unwrap_or_else(|| panic!("{what} is not found"));
    assert_eq!(flaw.position, place, "{what}: {flaw}");
}

/// Changes one byte of a column of one row.
fn flip(column: &str, at: u32, call: CallId, seq: u32) -> String {
    format!(
        "UPDATE line SET {column} = set_byte({column}, {at}, get_byte({column}, {at}) # 1)
         WHERE call = '{call}' AND seq = {seq}"
    )
}

/// The sequence number of the first entry of an append.
fn seq_of(script: &CallScript, append: usize) -> u32 {
    // The question is the last entry of the first append. The answer, the start, and the end with the following entries
    // come after it.
    let asked = script
        .record
        .entries()
        .iter()
        .position(|entry| matches!(entry.event, byleave_gate::core::entry::RecordEvent::Asked(_)));
    let first = asked.unwrap() + 1;
    u32::try_from([0, first, first + 1, first + 2][append]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_line_is_found() {
    for append in 0..4 {
        check("a sealed body", |told| {
            let (call, seq) = (told.sealed.call(), seq_of(&told.sealed, append));
            (flip("body", 20, call, seq), LogPosition::Entry { call, seq })
        })
        .await;
        check("an open body", |told| {
            let (call, seq) = (told.open.call(), seq_of(&told.open, append));
            (flip("body", 20, call, seq), LogPosition::Entry { call, seq })
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_link_place_or_content_is_found() {
    check("a link", |told| {
        let (call, seq) = (told.open.call(), seq_of(&told.open, 1));
        (flip("head", 3, call, seq), LogPosition::Entry { call, seq })
    })
    .await;
    check("a content", |told| {
        let (call, seq) = (told.sealed.call(), seq_of(&told.sealed, 3));
        (flip("contents", 3, call, seq), LogPosition::Content { call, seq })
    })
    .await;
    check("contents that are gone", |told| {
        let (call, seq) = (told.sealed.call(), seq_of(&told.sealed, 3));
        let sql = format!("UPDATE line SET contents = '' WHERE call = '{call}' AND seq = {seq}");
        (sql, LogPosition::Content { call, seq })
    })
    .await;
    check("an act", |told| {
        let sql = flip("body", 20, CallId::new(told.act.uuid()), 0);
        (sql, LogPosition::AdminAction { action: told.act })
    })
    .await;
    check("a row of another tenant", |told| {
        let (call, seq) = (told.open.call(), 0);
        let sql = format!("UPDATE line SET shard = (shard + 1) % 8 WHERE call = '{call}'");
        (sql, LogPosition::Entry { call, seq })
    })
    .await;
    check("two rows that have changed places", |told| {
        let call = told.sealed.call();
        let (one, two) = (seq_of(&told.sealed, 1), seq_of(&told.sealed, 2));
        let sql = format!(
            "UPDATE line SET place = other.place, pos = other.pos FROM line AS other
             WHERE line.call = '{call}' AND other.call = line.call
             AND (line.seq, other.seq) IN (({one}, {two}), ({two}, {one}))"
        );
        (sql, LogPosition::Entry { call, seq: one })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_gone_is_found() {
    check("a sealed row", |told| {
        let (call, seq) = (told.sealed.call(), seq_of(&told.sealed, 1));
        (format!("DELETE FROM line WHERE call = '{call}' AND seq = {seq}"), LogPosition::Entry { call, seq })
    })
    .await;
    check("a whole sealed record", |told| {
        let call = told.sealed.call();
        (format!("DELETE FROM line WHERE call = '{call}'"), LogPosition::Entry { call, seq: 0 })
    })
    .await;
    check("the end of an open record", |told| {
        let call = told.open.call();
        let seq = seq_of(&told.open, 3);
        (format!("DELETE FROM line WHERE call = '{call}' AND seq = {seq}"), LogPosition::File)
    })
    .await;
    check("a key", |told| {
        let call = told.open.call();
        (format!("UPDATE record SET key = NULL WHERE call = '{call}'"), LogPosition::Content { call, seq: 0 })
    })
    .await;
    check("a key that nobody had forgotten", |told| {
        let call = told.open.call();
        (
            format!("UPDATE record SET key = NULL, forgotten = true WHERE call = '{call}'"),
            LogPosition::Key { call },
        )
    })
    .await;
    check("where a record lies", |told| {
        let call = told.open.call();
        (format!("DELETE FROM record WHERE call = '{call}'"), LogPosition::Key { call })
    })
    .await;
    check("a giving of a leave", |told| {
        let (call, seq) = (told.gives, seq_of(&told.sealed, 1));
        ("DELETE FROM leave".into(), LogPosition::Entry { call, seq })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_segment_is_found() {
    let first = LogPosition::Segment { number: 1 };
    check("a signature", |_| {
        ("UPDATE segment SET signature = set_byte(signature, 5, get_byte(signature, 5) # 1)".into(), first)
    })
    .await;
    check("a body", |_| {
        ("UPDATE segment SET body = set_byte(body, 60, get_byte(body, 60) # 1)".into(), first)
    })
    .await;
    check("a shard", |told| {
        let sql = "UPDATE segment SET shard = (shard + 1) % 8".into();
        (sql, LogPosition::Entry { call: told.sealed.call(), seq: 0 })
    })
    .await;
    check("all of them", |_| ("DELETE FROM segment".into(), LogPosition::Anchor)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_into_a_projection_counts_for_nothing() {
    let told = SealedFixture::new().await;
    let call = told.open.call();
    told.ground
        .execute(&format!("UPDATE call SET state = 0, summary = 'harmless' WHERE id = '{call}'"))
        .await;
    told.ground
        .execute(&format!("INSERT INTO leave VALUES ('local', 't', '{}', '{call}')", Uuid::now_v7()))
        .await;
    let tenant = TenantId::new("local").unwrap();
    assert_eq!(told.book.list_standing_approvals(&tenant, NOW).await.unwrap().len(), 1);
    assert_eq!(told.book.record(call).await.unwrap().unwrap().record, told.open.record);
    told.book.rebuild().await.unwrap();
    let listed = told.book.record(call).await.unwrap().unwrap().call_summary.unwrap();
    assert_eq!(listed, *told.open.call_summary());
    assert!(told.verify().await.is_intact());
}

//! Every change in a sealed audit log is detected, and its first position is reported.

use std::path::Path;

use byleave_gate::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave_gate::audit_log::{AuditLog, IntegrityError, LogPosition};
use byleave_gate::core::admin_action::AdminActionKind;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::id::{CallId, StandingApprovalId};
use byleave_gate::ledger::{AppendError, Ledger};
use proptest::prelude::*;
use rusqlite::{Connection, params};

use super::scribe::{
    RecordWriter, act, gives_leave, now, open, stepwise, unsealed, waiting, whole, write_to,
};

/// A sealed audit log with entries of every kind.
struct SealedLog {
    dir: tempfile::TempDir,
    book: SqliteLedger,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

async fn sealed() -> SealedLog {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    whole(&book, "s").await;
    stepwise(&book, "s").await;
    book.seal().await.unwrap();
    gives_leave(&book, None).await;
    waiting(&book, "s", write_to("/w/b")).await;
    book.record_admin_action(act(AdminActionKind::Halt { reason: "fire".into() })).await.unwrap();
    book.record_admin_action(act(AdminActionKind::Lift)).await.unwrap();
    book.seal().await.unwrap();
    let forgotten = whole(&book, "s").await;
    book.forget(forgotten.call, "ada".into(), now()).await.unwrap().unwrap();
    book.seal().await.unwrap();
    let verification = book.verify().await.unwrap();
    assert_eq!((verification.integrity_error, verification.unsealed, verification.segments), (None, 0, 3));
    SealedLog { dir, book }
}

impl SealedLog {
    fn peer(&self) -> Connection {
        Connection::open(self.dir.path().join("audit.sqlite")).unwrap()
    }

    async fn flaw(&self) -> Option<IntegrityError> {
        self.book.verify().await.unwrap().integrity_error
    }
}

fn rows(peer: &Connection) -> Vec<(i64, CallId, u32, u32)> {
    let mut statement = peer.prepare("SELECT pos, call, seq, count FROM batch ORDER BY pos").unwrap();
    statement
        .query_map([], |row| {
            let call = CallId::new(uuid::Uuid::from_bytes(row.get(1)?));
            Ok((row.get(0)?, call, row.get(2)?, row.get(3)?))
        })
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// Flips one bit of one byte of one column, verifies the audit log, and flips it back.
async fn flip(
    sealed: &SealedLog,
    table: &str,
    column: &str,
    id: i64,
    at: usize,
    bit: u8,
) -> Option<IntegrityError> {
    let peer = sealed.peer();
    let key = if table == "batch" { "pos" } else { "number" };
    let sql = format!("SELECT {column} FROM {table} WHERE {key} = ?1");
    let bytes: Vec<u8> = peer.query_row(&sql, [id], |row| row.get(0)).unwrap();
    let mut flipped = bytes.clone();
    flipped[at % bytes.len()] ^= 1 << bit;
    let sql = format!("UPDATE {table} SET {column} = ?2 WHERE {key} = ?1");
    peer.execute(&sql, params![id, flipped]).unwrap();
    let flaw = sealed.flaw().await;
    peer.execute(&sql, params![id, bytes]).unwrap();
    flaw
}

fn cases(few: u32) -> ProptestConfig {
    let many = crate::proofs::long();
    ProptestConfig {
        cases: if many { 5_000 } else { few },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

// req: A1
#[test]
fn any_flipped_byte_shows() {
    let runtime = runtime();
    let sealed = runtime.block_on(sealed());
    let rows = rows(&sealed.peer());
    let columns = ["body", "head", "call", "key", "contents", "signature", "segment"];
    proptest!(cases(200), |(row in 0..rows.len(), column in 0..columns.len(), at in any::<usize>(), bit in 0..8_u8)| {
        let (pos, call, seq, count) = rows[row];
        let segment = i64::try_from(row % 3).unwrap() + 1;
        let filled = |column: &str| -> bool {
            let sql = format!("SELECT length({column}) > 0 FROM batch WHERE pos = ?1");
            sealed.peer().query_row(&sql, [pos], |row| row.get::<_, Option<bool>>(0)).unwrap() == Some(true)
        };
        let column = columns[column];
        let flaw = match column {
            "signature" => runtime.block_on(flip(&sealed, "segment", "signature", segment, at, bit)),
            "segment" => runtime.block_on(flip(&sealed, "segment", "body", segment, at, bit)),
            "key" | "contents" if !filled(column) => return Ok(()),
            // Erased content can no longer be verified. This is the purpose of erasure.
            "contents" if is_forgotten(&sealed.peer(), pos) => return Ok(()),
            column => runtime.block_on(flip(&sealed, "batch", column, pos, at, bit)),
        };
        let flaw = flaw.ok_or_else(|| TestCaseError::fail(format!("{column} of row {pos} was flipped unseen")))?;
        match (column, flaw.position) {
            ("signature" | "segment", LogPosition::Segment { number }) => {
                prop_assert_eq!(i64::try_from(number).unwrap(), segment);
            }
            ("body" | "head", LogPosition::Entry { call: named, seq: line }) => {
                prop_assert_eq!(named, call);
                prop_assert!((seq..seq + count).contains(&line), "line {} of {}..+{}", line, seq, count);
            }
            ("body" | "head", LogPosition::AdminAction { action: act }) => prop_assert_eq!(act.uuid(), call.uuid()),
            ("call", _) => {}
            ("key", LogPosition::Key { call: named }) => prop_assert_eq!(named, call),
            ("contents", LogPosition::Content { call: named, .. }) => prop_assert_eq!(named, call),
            (_, place) => prop_assert!(false, "{} was flipped, {:?} was named", column, place),
        }
    });
    assert_eq!(runtime.block_on(sealed.flaw()), None, "every flip was taken back");
}

fn is_forgotten(peer: &Connection, pos: i64) -> bool {
    let sql = "SELECT key = zeroblob(72) FROM batch WHERE seq = 0 AND call = (SELECT call FROM batch WHERE pos = ?1)";
    peer.query_row(sql, [pos], |row| row.get::<_, Option<bool>>(0)).unwrap() == Some(true)
}

#[test]
fn any_changed_number_shows() {
    let runtime = runtime();
    let sealed = runtime.block_on(sealed());
    let rows = rows(&sealed.peer());
    proptest!(cases(60), |(row in 0..rows.len(), column in 0..4_usize, by in 1..400_i64)| {
        let pos = rows[row].0;
        let column = ["seq", "count", "kind", "pos"][column];
        let peer = sealed.peer();
        let moved = if column == "pos" { by + 1_000 } else { 0 };
        let sql = format!("UPDATE batch SET {column} = {column} + ?2 WHERE pos = ?1");
        // Two rows cannot have the same position, which SQLite enforces.
        prop_assume!(peer.execute(&sql, [pos, by + moved]).is_ok());
        let flaw = runtime.block_on(sealed.flaw());
        let now_at = if column == "pos" { pos + by + moved } else { pos };
        peer.execute(&format!("UPDATE batch SET {column} = {column} - ?2 WHERE pos = ?1"), [now_at, by + moved]).unwrap();
        prop_assert!(flaw.is_some(), "{} of row {} was changed unseen", column, pos);
    });
    assert_eq!(runtime.block_on(sealed.flaw()), None);
}

#[test]
fn any_two_rows_that_change_places_show() {
    let runtime = runtime();
    let sealed = runtime.block_on(sealed());
    let rows = rows(&sealed.peer());
    proptest!(cases(60), |(a in 0..rows.len(), further in 1..rows.len(), whole_row in any::<bool>())| {
        let (a, b) = (rows[a].0, rows[(a + further) % rows.len()].0);
        let peer = sealed.peer();
        let swap = || if whole_row {
            peer.execute_batch(&format!(
                "UPDATE batch SET pos = -1 WHERE pos = {a}; UPDATE batch SET pos = {a} WHERE pos = {b};
                 UPDATE batch SET pos = {b} WHERE pos = -1;"
            )).unwrap();
        } else {
            peer.execute_batch(&format!(
                "CREATE TEMP TABLE keep AS SELECT body, head, count FROM batch WHERE pos = {a};
                 UPDATE batch SET (body, head, count) = (SELECT body, head, count FROM batch WHERE pos = {b})
                     WHERE pos = {a};
                 UPDATE batch SET (body, head, count) = (SELECT body, head, count FROM keep) WHERE pos = {b};
                 DROP TABLE keep;"
            )).unwrap();
        };
        swap();
        let flaw = runtime.block_on(sealed.flaw());
        swap();
        prop_assert!(flaw.is_some(), "rows {} and {} changed places unseen", a, b);
    });
    assert_eq!(runtime.block_on(sealed.flaw()), None);
}

/// Two entries inside one row, with everything in the row recomputed that needs no key.
#[tokio::test]
async fn lines_reordered_or_removed_within_a_row_show_even_with_fresh_links() {
    let sealed = sealed().await;
    let (pos, call, ..) = rows(&sealed.peer())[0];
    let kept = sealed.book.record(call).await.unwrap().unwrap();
    let relink = |bodies: &[&str]| {
        let mut before = byleave_gate::core::hash_chain::GENESIS;
        let mut framed = Vec::new();
        for (seq, body) in (0..).zip(bodies) {
            framed.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            framed.extend_from_slice(body.as_bytes());
            before = byleave_gate::core::hash_chain::compute_link(call, &before, seq, body);
            if seq as usize + 1 < bodies.len() {
                framed.extend_from_slice(before.as_bytes());
            }
        }
        (framed, before, bodies.len())
    };
    let bodies: Vec<&str> = kept.chained_entries.iter().map(|line| line.body()).collect();
    let mut swapped = bodies.clone();
    swapped.swap(2, 3);
    let mut removed = bodies.clone();
    removed.remove(4);
    let cut = &bodies[..bodies.len() - 1];
    for (name, forged) in [("swapped", relink(&swapped)), ("removed", relink(&removed)), ("cut", relink(cut))]
    {
        let (body, head, count) = forged;
        let sql = "UPDATE batch SET body = ?2, head = ?3, count = ?4 WHERE pos = ?1";
        sealed.peer().execute(sql, params![pos, body, head.as_bytes(), count as i64]).unwrap();
        let flaw = sealed.flaw().await.unwrap_or_else(|| panic!("{name} unseen"));
        assert!(
            matches!(flaw.position, LogPosition::Entry { call: named, .. } if named == call),
            "{name}: {flaw}"
        );
    }
    let (body, head, count) = relink(&bodies);
    let sql = "UPDATE batch SET body = ?2, head = ?3, count = ?4 WHERE pos = ?1";
    sealed.peer().execute(sql, params![pos, body, head.as_bytes(), count as i64]).unwrap();
    assert_eq!(sealed.flaw().await, None);
}

#[tokio::test]
async fn what_is_removed_or_cut_off_shows() {
    let last = rows(&sealed().await.peer()).len();
    for pos in 1..=last {
        let sealed = sealed().await;
        let (_, call, seq, _) = rows(&sealed.peer())[pos - 1];
        sealed.peer().execute("DELETE FROM batch WHERE pos = ?1", [pos as i64]).unwrap();
        let flaw = sealed.flaw().await.unwrap();
        assert_eq!(flaw.position, LogPosition::Entry { call, seq }, "row {pos}: {flaw}");
        // It is not sealed over, so it is still detected when the audit log grows.
        whole(&sealed.book, "later").await;
        drop(sealed.book.seal().await);
        assert!(sealed.flaw().await.is_some(), "row {pos}");
    }
    for (cut, place) in [
        ("DELETE FROM segment WHERE number = 2", LogPosition::Segment { number: 2 }),
        ("DELETE FROM segment WHERE number = 3", LogPosition::Anchor),
        ("DELETE FROM segment", LogPosition::Anchor),
        ("DELETE FROM batch; DELETE FROM segment", LogPosition::Anchor),
        ("DELETE FROM batch WHERE pos > 4; DELETE FROM segment WHERE number > 1", LogPosition::Anchor),
    ] {
        let sealed = sealed().await;
        sealed.peer().execute_batch(cut).unwrap();
        let flaw = sealed.flaw().await.unwrap_or_else(|| panic!("unseen: {cut}"));
        if cut.contains("pos > 4") {
            continue;
        }
        assert_eq!(flaw.position, place, "{cut}: {flaw}");
    }
}

fn copy(from: &Path, to: &Path) {
    for name in ["audit.sqlite", "audit.key", "signing.key"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test]
async fn an_old_copy_put_back_shows_against_the_anchor() {
    let outside = tempfile::tempdir().unwrap();
    let options = SqliteOptions { anchor: Some(outside.path().join("anchor.json")), ..unsealed() };
    let (state, old) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let book = SqliteLedger::open(state.path(), &options).unwrap();
    whole(&book, "s").await;
    book.seal().await.unwrap();
    drop(book);
    copy(state.path(), old.path());
    let book = SqliteLedger::open(state.path(), &options).unwrap();
    whole(&book, "s").await;
    book.seal().await.unwrap();
    assert_eq!(book.verify().await.unwrap().integrity_error, None);
    drop(book);
    copy(old.path(), state.path());
    let book = SqliteLedger::open(state.path(), &options).unwrap();
    let flaw = book.verify().await.unwrap().integrity_error.unwrap();
    assert_eq!(flaw.position, LogPosition::Anchor);
    assert!(flaw.reason.starts_with("the audit log is older than its anchor"), "{flaw}");
    // New entries do not hide it: nothing is sealed over an old copy, and the anchor stays.
    whole(&book, "s").await;
    assert!(book.seal().await.is_err());
    assert_eq!(book.anchor().await.unwrap().unwrap().number, 2);
    assert_eq!(book.verify().await.unwrap().integrity_error.unwrap().position, LogPosition::Anchor);
}

#[tokio::test]
async fn a_damaged_act_stops_everything() {
    let sealed = sealed().await;
    sealed.peer().execute("UPDATE batch SET body = zeroblob(length(body)) WHERE kind = 1", []).unwrap();
    let book = open(sealed.dir.path());
    assert!(
        book.active_halt(&super::scribe::tenant()).await.is_err(),
        "a halt that cannot be read may be in force"
    );
}

/// Begins a call on a standing approval that may be used once, and returns its position.
async fn use_once(book: &SqliteLedger, leave: StandingApprovalId) -> Result<LogPosition, AppendError> {
    let mut scribe = RecordWriter::new("s", write_to("/w/a"));
    scribe.concurrency_safe = true;
    scribe.uses_max = Some(1);
    scribe.ruled(Verdict::Allow, Some(leave));
    scribe.begin(book.owner());
    let seq = scribe.record.len() - 1;
    scribe.append(book).await.map(|()| LogPosition::Entry { call: scribe.call, seq })
}

// req: R5
#[tokio::test]
async fn a_use_of_a_leave_that_was_made_to_come_back_shows() {
    let dir = tempfile::tempdir().unwrap();
    let book = open(dir.path());
    let leave = gives_leave(&book, Some(1)).await;
    let first = use_once(&book, leave).await.unwrap();
    book.seal().await.unwrap();
    let flaw = async || open(dir.path()).verify().await.unwrap().integrity_error;
    assert_eq!(flaw().await, None);

    let peer = Connection::open(dir.path().join("audit.sqlite")).unwrap();
    peer.execute("DELETE FROM standing_approval_use", []).unwrap();
    let missing = flaw().await.unwrap();
    assert_eq!(missing.position, first, "{missing}");
    book.rebuild().await.unwrap();
    assert_eq!(flaw().await, None, "nothing has come of it");
    assert!(use_once(&open(dir.path()), leave).await.is_err(), "it is spent again");

    // Used once more in between: restoring the list does not hide it.
    peer.execute("DELETE FROM standing_approval_use", []).unwrap();
    let second = use_once(&open(dir.path()), leave).await.unwrap();
    for _ in 0..2 {
        book.rebuild().await.unwrap();
        book.seal().await.unwrap();
        let overdrawn = flaw().await.unwrap();
        assert_eq!(overdrawn.position, second, "{overdrawn}");
        assert!(overdrawn.reason.ends_with("was used 2 times, but allows only 1 uses"), "{overdrawn}");
    }
}

#[tokio::test]
async fn a_giving_of_a_leave_that_is_taken_out_of_the_list_shows() {
    let sealed = sealed().await;
    sealed.peer().execute("DELETE FROM standing_approval", []).unwrap();
    let flaw = sealed.flaw().await.unwrap();
    assert!(flaw.reason.contains("the grant of standing approval"), "{flaw}");
    sealed.book.rebuild().await.unwrap();
    assert_eq!(sealed.flaw().await, None);
}

//! Tests of the checks that every ledger shares.

use byleave_conformance::ledger::record_script::{CallScript, ScriptSettings};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{OwnerId, StandingApprovalId};
use byleave_core::outcome::Outcome;
use byleave_core::refusal::{Code, Refusal};
use byleave_core::standing_approval::StandingApproval;
use byleave_gate::ledger::invariants::{check_batch, has_uses_left};
use uuid::Uuid;

// The pipeline never settles a call whose attempt is open. A ledger must not depend on that to free a session.
#[test]
fn settling_ends_whatever_is_open() {
    let owner = OwnerId::new(Uuid::now_v7());
    let Ok(mut script) = CallScript::beginning(ScriptSettings::default(), owner) else { panic!("no script") };
    let mut batch = script.batch();
    assert!(check_batch(&batch, owner).unwrap().claim.is_some());
    let refusal = Refusal::new(Code::RecordBroken, "broken");
    let entry = Entry { at: 0, event: RecordEvent::Settled(Outcome::Unknown(refusal)) };
    let body = serde_json::to_string(&entry).unwrap();
    let seq = script.record.len();
    batch.chained_entries.push(ChainedEntry::new(batch.call, script.record.head(), seq, body));
    batch.entries.push(entry);
    batch.attempt_start = None;
    batch.is_final = true;
    let moves = check_batch(&batch, owner).unwrap();
    assert!(moves.claim.is_none() && moves.frees_session && moves.closes_question);
}

// req: R5
#[test]
fn the_stricter_count_of_a_leave_holds() {
    let leave = |uses_max| StandingApproval {
        id: StandingApprovalId::new(Uuid::nil()),
        tool: "t".into(),
        scope: Vec::new(),
        session: None,
        expires_at: None,
        max_uses: uses_max,
    };
    let check = |max, used, more, asked, left| {
        assert_eq!(has_uses_left(&leave(max), used, more, asked), left, "{max:?} {used} {more} {asked:?}");
    };
    check(None, u32::MAX, 1, None, true);
    check(Some(1), 0, 1, None, true);
    check(Some(1), 1, 1, None, false);
    check(Some(2), 1, 2, None, false);
    check(Some(1), 1, 1, Some(9), false);
    check(Some(9), 1, 1, Some(1), false);
    check(None, 1, 1, Some(1), false);
    check(Some(0), 0, 1, None, false);
}

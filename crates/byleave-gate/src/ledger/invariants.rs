//! The checks that every ledger applies to a batch, whatever its store.
//!
//! They are pure functions over a batch and a few facts that the ledger looks up. They never write, wait or read a clock. They never
//! accept a batch because a part of it could not be understood.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::call::Millis;
use byleave_core::digest::RecordKey;
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::{CallHeader, Entry, RecordEvent};
use byleave_core::grant::{Claim, GrantedBy};
use byleave_core::hash_chain::{ChainedEntry, GENESIS};
use byleave_core::id::{AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId};
use byleave_core::question::{Answer, RecordedAnswer};
use byleave_core::record::{Attempt, Record};
use byleave_core::session::{DEPTH_MAX, SessionNode, opening_action_id};
use byleave_core::standing_approval::StandingApproval;

use crate::ledger::{AttemptStart, Batch, Interruption, LedgerError, RecordContent, StartBlockedError};

/// The effects of a batch on the state of a ledger, besides its lines.
#[derive(Clone, Debug, Default)]
pub struct BatchEffects<'a> {
    /// The header and the time, if the batch opens the record.
    pub opening: Option<(&'a CallHeader, Millis)>,
    /// Questions that are asked.
    pub questions: Vec<QuestionId>,
    /// Whether an open question is closed.
    pub closes_question: bool,
    /// Standing approvals that come into force.
    pub approvals_granted: Vec<&'a StandingApproval>,
    /// Standing approvals that are used, once for each use.
    pub approvals_used: Vec<StandingApprovalId>,
    /// The claim that is open after the last entry.
    pub claim: Option<&'a Claim>,
    /// Whether an open attempt has ended, so that its session is free again.
    pub frees_session: bool,
}

/// Makes all checks of a batch that need no store, and returns its effects.
pub fn check_batch(batch: &Batch, owner: OwnerId) -> Result<BatchEffects<'_>, LedgerError> {
    check_lines(batch)?;
    let mut moves = BatchEffects::default();
    for (entry, line) in batch.entries.iter().zip(&batch.chained_entries) {
        apply_entry(&mut moves, entry, line, owner)?;
    }
    check_flags(batch, &moves)?;
    Ok(moves)
}

fn check_lines(batch: &Batch) -> Result<(), LedgerError> {
    if batch.chained_entries.is_empty() {
        return Err(refused_error("the batch has no entries"));
    }
    if batch.chained_entries.len() != batch.entries.len() {
        return Err(refused_error(format!(
            "the batch has {} chained entries, but {} entries",
            batch.chained_entries.len(),
            batch.entries.len()
        )));
    }
    if batch.expected_len == 0 && batch.prev_link != GENESIS {
        return Err(refused_error("the first entry of a record cannot have a previous link"));
    }
    let mut before = batch.prev_link;
    for (seq, line) in (u64::from(batch.expected_len)..).zip(&batch.chained_entries) {
        if u64::from(line.seq()) != seq {
            return Err(refused_error(format!("found entry {} in the place of entry {seq}", line.seq())));
        }
        if !line.has_valid_link(batch.call, &before) {
            return Err(refused_error(format!("entry {seq} does not match its hash link")));
        }
        before = line.link();
    }
    Ok(())
}

fn apply_entry<'a>(
    moves: &mut BatchEffects<'a>,
    entry: &'a Entry,
    line: &ChainedEntry,
    owner: OwnerId,
) -> Result<(), LedgerError> {
    match &entry.event {
        RecordEvent::Received(heading) => moves.opening = Some((heading, entry.at)),
        RecordEvent::Asked(Ok(question)) => moves.questions.push(question.id),
        RecordEvent::Answered(RecordedAnswer { answer, .. }) => {
            moves.closes_question = true;
            if let Answer::StandingApproval(leave) = answer {
                // A standing approval outlives its call, so it must come from exactly the recorded text.
                if serde_json::to_string(entry).ok().as_deref() != Some(line.body()) {
                    return Err(refused_error(format!(
                        "the text of entry {} does not match the entry",
                        line.seq()
                    )));
                }
                moves.approvals_granted.push(leave);
            }
        }
        RecordEvent::Expired { .. } | RecordEvent::ApproverFailed { .. } | RecordEvent::Cancelled { .. } => {
            moves.closes_question = true
        }
        RecordEvent::Started(Ok(claim)) => {
            if claim.owner != owner {
                return Err(refused_error(format!("owner {} cannot claim for owner {}", owner, claim.owner)));
            }
            if let GrantedBy::StandingApproval(leave) = claim.granted_by {
                moves.approvals_used.push(leave);
            }
            moves.claim = Some(claim);
        }
        // Only the ledger itself writes this event, after it has checked that the owner is dead.
        RecordEvent::Interrupted { .. } => {
            return Err(refused_error("an interruption must be requested, not appended"));
        }
        RecordEvent::Ended { .. } | RecordEvent::Observed { .. } => {
            moves.claim = None;
            moves.frees_session = true;
        }
        RecordEvent::Settled(_) => {
            moves.claim = None;
            moves.frees_session = true;
            moves.closes_question = true;
        }
        RecordEvent::Asked(Err(_)) | RecordEvent::Started(Err(_)) => {}
        RecordEvent::Resolved(_)
        | RecordEvent::Validated(_)
        | RecordEvent::Planned(_)
        | RecordEvent::PolicyEvaluated(_) => {}
        RecordEvent::RehearsalStarted { .. }
        | RecordEvent::RehearsalFinished(_)
        | RecordEvent::RehearsalCopyMissing { .. } => {}
        RecordEvent::Reviewed(_) | RecordEvent::Challenged(_) | RecordEvent::OutputReviewed(_) => {}
    }
    Ok(())
}

/// Checks that the flags of a batch agree with its entries. The ledger checks only batches with `begins` for what blocks a start.
fn check_flags(batch: &Batch, moves: &BatchEffects<'_>) -> Result<(), LedgerError> {
    match (moves.opening, batch.expected_len) {
        (Some((heading, _)), 0) => {
            if heading.tenant != batch.call_summary.tenant || heading.session != batch.call_summary.session {
                return Err(refused_error("the call summary has another tenant or session than the record"));
            }
        }
        (None, 0) => return Err(refused_error("a record must begin with `received`")),
        (Some(_), _) => return Err(refused_error("a record can begin only once")),
        (None, _) if batch.key.is_some() => {
            return Err(refused_error("a key is allowed only with the first entries"));
        }
        (None, _) => {}
    }
    let begun = moves.claim.map(|claim| (claim.attempt, claim.granted_by));
    let said =
        batch.attempt_start.map(|begins| (begins.attempt, begins.standing_approval.map(|(leave, _)| leave)));
    let agree = match (begun, said) {
        (None, None) => true,
        (Some((attempt, by)), Some((said, leave))) => {
            attempt == said
                && leave == if let GrantedBy::StandingApproval(leave) = by { Some(leave) } else { None }
        }
        _ => false,
    };
    if !agree {
        return Err(refused_error("`attempt_start` does not match the entries"));
    }
    let last = batch.entries.last().map(|entry| &entry.event);
    if batch.is_final != matches!(last, Some(RecordEvent::Settled(_))) {
        return Err(refused_error("`is_final` does not match the last entry"));
    }
    if let Some(waits) = &batch.pending_question
        && !matches!(last, Some(RecordEvent::Asked(Ok(question))) if *question == waits.question)
    {
        return Err(refused_error("`pending_question` does not match the last entry"));
    }
    Ok(())
}

/// Checks that contents match their references on the record.
///
/// Without a key nothing can be checked. A new record with contents needs a key. New contents of a forgotten record are dropped at
/// once.
pub fn check_contents(contents: &[RecordContent], key: &RecordKey) -> Result<(), LedgerError> {
    for content in contents {
        if key.content_ref(&content.bytes) != content.content_ref {
            let digest = content.content_ref.digest.short_hex();
            return Err(refused_error(format!("the content does not match its digest {digest}")));
        }
    }
    Ok(())
}

/// The state of the ledger when an attempt is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct StartConditions<'a> {
    /// The halt in force.
    pub halt: Option<&'a AdminAction>,
    /// Whether every standing approval that the batch uses has a use left. True if it uses none.
    pub approval_usable: bool,
    /// The open attempt that runs alone in the session.
    pub exclusive_attempt: Option<(CallId, AttemptId)>,
}

/// Returns what blocks a start: a halt first, then the standing approval, then an exclusive attempt in the session.
pub fn start_blocked(
    call: CallId,
    begins: Option<&AttemptStart>,
    standing: StartConditions<'_>,
) -> Option<StartBlockedError> {
    if let (Some(_), Some(act)) = (begins, standing.halt) {
        return Some(StartBlockedError::Halted { why: halt_reason(act) });
    }
    if !standing.approval_usable {
        return Some(StartBlockedError::ApprovalUsedUp);
    }
    match standing.exclusive_attempt {
        Some((other, attempt)) if other != call && begins.is_some_and(|begins| begins.exclusive) => {
            Some(StartBlockedError::SessionBusy { call: other, attempt })
        }
        _ => None,
    }
}

fn halt_reason(act: &AdminAction) -> String {
    match &act.kind {
        AdminActionKind::Halt { reason: why } => why.clone(),
        _ => String::new(),
    }
}

/// Checks whether a standing approval allows this many more uses. Revocation is checked elsewhere.
///
/// `asked_max` is the limit that the batch assumes. The stricter of the two limits applies.
pub fn has_uses_left(leave: &StandingApproval, used: u32, more: u32, asked_max: Option<u32>) -> bool {
    let max = leave.max_uses.into_iter().chain(asked_max).min();
    max.is_none_or(|max| used.saturating_add(more) <= max)
}

/// Checks whether a standing approval has not expired.
pub fn is_in_time(leave: &StandingApproval, now: Millis) -> bool {
    leave.expires_at.is_none_or(|until| now < until)
}

/// Checks whether a waiting call can be driven on, because its question has expired.
pub const fn is_overdue(expires_at: Millis, now: Millis) -> bool {
    expires_at <= now
}

/// Checks whether a waiting call with these effects blocks a plan.
pub fn blocks(waiting: &[Effect], plan: &Plan) -> bool {
    waiting.iter().any(|waiting| plan.effects.iter().any(|effect| waiting.conflicts_with(effect)))
}

/// Returns why an attempt may not be recorded as interrupted, or `None` if it may.
///
/// `owner_alive` is called for the owner of the claim, and only if that is not `me`.
pub fn check_interruptible(
    open: Option<(AttemptId, OwnerId)>,
    attempt: AttemptId,
    me: OwnerId,
    owner_alive: impl FnOnce(OwnerId) -> bool,
) -> Option<Interruption> {
    match open {
        Some((opened, owner)) if opened == attempt => {
            (owner != me && owner_alive(owner)).then_some(Interruption::OwnerAlive)
        }
        _ => Some(Interruption::NotOpen),
    }
}

/// Returns the open attempt of a record and its owner.
pub fn open_attempt(record: &Record) -> Option<(AttemptId, OwnerId)> {
    match record.attempt() {
        Some(Attempt::Open(claim)) if record.outcome().is_none() => Some((claim.attempt, claim.owner)),
        _ => None,
    }
}

/// Appends the interruption of an attempt to the record and returns its line.
pub fn interruption_entry(
    record: &mut Record,
    attempt: AttemptId,
    at: Millis,
) -> Result<(ChainedEntry, Entry), LedgerError> {
    let entry = Entry { at, event: RecordEvent::Interrupted { attempt } };
    let line = record.push(entry.clone()).map_err(|misplaced| {
        LedgerError::new(format!("cannot record that attempt {attempt} was interrupted"), misplaced)
    })?;
    Ok((line, entry))
}

fn refused_error(why: impl std::fmt::Display) -> LedgerError {
    LedgerError::new("cannot append this batch", why)
}

/// Checks whether a session may be opened: the action has the session's id, the ceiling is valid, and the parent is known.
pub fn check_opening(
    act: &AdminAction,
    opening: &SessionNode,
    is_parent_known: bool,
) -> Result<(), LedgerError> {
    let cannot =
        |why: String| Err(LedgerError::new(format!("cannot open session `{}`", opening.session), why));
    if act.id != opening_action_id(&act.tenant, &opening.session) {
        return cannot("the id of the admin action is not the one for this session".into());
    }
    if let Err(bad) = opening.ceiling.check() {
        return cannot(bad.to_string());
    }
    match &opening.parent {
        Some(parent) if *parent == opening.session => cannot("the session cannot be its own parent".into()),
        Some(parent) if !is_parent_known => {
            cannot(format!("its parent `{parent}` was never opened; open the parent first"))
        }
        _ => Ok(()),
    }
}

/// Returns a session and its ancestors, with one lookup for each. A named parent must exist.
pub fn lineage(
    session: &SessionId,
    mut look: impl FnMut(&SessionId) -> Result<Option<SessionNode>, LedgerError>,
) -> Result<Vec<SessionNode>, LedgerError> {
    let mut lineage: Vec<SessionNode> = Vec::new();
    let mut at = Some(session.clone());
    while let Some(session) = at {
        let cannot =
            |why: &str| LedgerError::new(format!("cannot find the ancestors of session `{session}`"), why);
        if lineage.len() > DEPTH_MAX {
            return Err(cannot("the session has too many ancestors"));
        }
        match look(&session)? {
            Some(opening) => {
                at = opening.parent.clone();
                lineage.push(opening);
            }
            None if lineage.is_empty() => break,
            None => return Err(cannot("the audit log does not contain its opening")),
        }
    }
    Ok(lineage)
}

//! Past calls with their plans and answers, read from the audit log, and which of them a standing approval would have covered.
//!
//! It always uses the recorded plan and decision, and must never compute new ones. Unreadable calls are counted, never
//! guessed.

use byleave_core::call::Millis;
use byleave_core::decision::{DecisionReason, PolicyDecision};
use byleave_core::digest::ContentRef;
use byleave_core::effect::{Effect, Plan, PlanSummary};
use byleave_core::entry::{CallHeader, RecordEvent, ResolvedTool};
use byleave_core::id::{CallId, StandingApprovalId, TenantId};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::{QuestionClosure, Record};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher, effects_to_cover};
use serde::Serialize;
use serde_json::Value;

use crate::audit_log::export::ExportedRecord;
use crate::audit_log::{AuditLog, CallFilter, CallState, PageRequest};
use crate::ledger::LedgerError;

/// How many of the newest calls are checked, at most, for the coverage of a standing approval.
pub const MAX_CALLS_CHECKED: usize = 500;

/// The newest calls of a tool that a standing approval would have covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// How many were checked.
    pub checked: usize,
    /// How many are checked at most.
    pub max_checked: usize,
    /// Whether there are older ones that were not checked.
    pub has_more: bool,
    /// How many of them cannot be read: erased, damaged, or without a decision.
    pub unreadable: usize,
    /// The covered calls, the newest first.
    pub covered: Vec<CoveredCall>,
}

/// A past call that a standing approval would have covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoveredCall {
    /// The id of the call.
    pub call: CallId,
    /// When it was decided.
    pub at: Millis,
    /// Its plan in one line.
    pub summary: String,
    /// The answer to its question, or `None` if nobody was asked.
    pub answer: Option<PastAnswer>,
    /// The standing approval that was valid then and answered in a person's place.
    pub standing_approval: Option<StandingApprovalId>,
}

/// The answer to a past question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PastAnswer {
    /// Yes.
    Yes,
    /// Yes, with a standing approval for the future.
    StandingApproval,
    /// No.
    No,
    /// Yes, with an edit.
    Edited,
    /// Yes to a part of it.
    Partial,
    /// A result in the place of the tool.
    Result,
    /// Stop everything.
    Aborted,
    /// None, and it has expired.
    Expired,
    /// None yet.
    Pending,
}

impl PastAnswer {
    /// Checks whether all of it was approved.
    pub const fn is_approval(self) -> bool {
        matches!(self, Self::Yes | Self::StandingApproval)
    }

    /// Returns the words that follow "it asked and was answered".
    pub const fn description(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::StandingApproval => "yes, with a standing approval",
            Self::No => "NO",
            Self::Edited => "with an edit",
            Self::Partial => "yes to a part",
            Self::Result => "in the place of the tool",
            Self::Aborted => "with an abort",
            Self::Expired => "by nobody",
            Self::Pending => "by nobody yet",
        }
    }
}

/// A past call up to its decision.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// The id of the call.
    pub call: CallId,
    /// Its header.
    pub header: CallHeader,
    /// Its resolved tool with its terms.
    pub resolved_tool: ResolvedTool,
    /// Its plan in one line.
    pub summary: String,
    /// The arguments of the final draft, unless they are no longer in the audit log.
    pub arguments: Option<Value>,
    /// The plan of the final draft.
    pub plan: Plan,
    /// The decision of the policy on it.
    pub decision: PolicyDecision,
    /// When it was decided.
    pub at: Millis,
    /// The questions about its plans, the oldest first.
    pub questions: Vec<PastQuestion>,
    /// Whether a reviewer required a person.
    pub held_by_reviewer: bool,
}

/// A question about a plan with its answer.
#[derive(Clone, Debug)]
pub struct PastQuestion {
    /// An approval or a checkpoint.
    pub kind: QuestionKind,
    /// The plan in question.
    pub plan: Plan,
    /// The decision of the policy on it.
    pub decision: PolicyDecision,
    /// The answer.
    pub answer: PastAnswer,
}

impl PastQuestion {
    /// Checks whether it was an approval that got a yes. A checkpoint is passed only once, regardless of the answer.
    pub fn is_approved(&self) -> bool {
        self.kind == QuestionKind::Approval && self.answer.is_approval()
    }
}

/// Finds the newest calls of its tool that a standing approval would have covered, regardless of its validity period.
pub async fn find_covered(
    book: &dyn AuditLog,
    tenant: &TenantId,
    leave: &StandingApproval,
    now: Millis,
) -> Result<Coverage, LedgerError> {
    let unusable = |bad| LedgerError::new("cannot search past calls for a standing approval", bad);
    let matcher = StandingApprovalMatcher::new(leave.clone()).map_err(unusable)?;
    let filter = CallFilter {
        tenant: Some(tenant.clone()),
        session: leave.session.clone(),
        tool: (!leave.is_for_any_tool()).then(|| leave.tool.clone()),
        state: Some(CallState::Settled),
        until: Some(now.saturating_add(1)),
        ..CallFilter::default()
    };
    let mut items = book.calls(filter, PageRequest::with_limit(MAX_CALLS_CHECKED.saturating_add(1))).await?;
    let more = items.len() > MAX_CALLS_CHECKED;
    items.truncate(MAX_CALLS_CHECKED);
    let mut past = Coverage {
        checked: items.len(),
        max_checked: MAX_CALLS_CHECKED,
        has_more: more,
        unreadable: 0,
        covered: Vec::new(),
    };
    for item in items {
        let Some(kept) = book.record(item.call).await? else {
            past.unreadable = past.unreadable.saturating_add(1);
            continue;
        };
        // Most calls have no question that a standing approval could answer. Their contents are skipped, because reading is slow.
        if kept.record.damage().is_none() && !is_coverable(&kept.record) {
            continue;
        }
        let contents = book.contents(item.call).await?;
        match read_past_call(&ExportedRecord { call: item.call, stored: kept, contents }) {
            Ok(one) => past.covered.extend(one.covered_by(&matcher)),
            Err(_) => past.unreadable = past.unreadable.saturating_add(1),
        }
    }
    Ok(past)
}

/// Reads a call with its contents, or returns why it cannot be read.
pub fn read_past_call(found: &ExportedRecord) -> Result<PastCall, String> {
    let record = &found.stored.record;
    if let Some(damage) = record.damage() {
        return Err(format!("its record is damaged: {damage}"));
    }
    if found.stored.forgotten {
        return Err("its contents were forgotten, and its plan with them".to_owned());
    }
    let heading = record.header().ok_or("its record has no header")?;
    let draft = record.draft().ok_or("its record has no draft")?;
    let (Some(Ok(head)), Some(Ok(ruling))) = (draft.plan(), draft.decision()) else {
        return Err("it was never evaluated by the policy".to_owned());
    };
    let Some(Ok(terms)) = record.resolved_tool() else { return Err("its tool was not found".to_owned()) };
    let at =
        record.entries().iter().rev().find(|entry| matches!(entry.event, RecordEvent::PolicyEvaluated(_)));
    Ok(PastCall {
        call: found.call,
        header: heading.clone(),
        resolved_tool: terms.clone(),
        summary: found
            .stored
            .call_summary
            .as_ref()
            .map_or_else(String::new, |listing| listing.summary.clone()),
        arguments: read_arguments(found, draft.content),
        plan: read_plan(found, head)?,
        decision: ruling.clone(),
        at: at.map_or(0, |entry| entry.at),
        questions: read_questions(found, record)?,
        held_by_reviewer: is_held(record),
    })
}

impl PastCall {
    /// Returns the call if a standing approval would have covered it.
    fn covered_by(&self, leave: &StandingApprovalMatcher) -> Option<CoveredCall> {
        let in_session =
            leave.standing_approval().session.as_ref().is_none_or(|only| *only == self.header.session);
        let given = leave.standing_approval();
        if !given.is_for_tool(&self.resolved_tool.tool)
            || !in_session
            || self.held_by_reviewer
            || self.resolved_tool.checkpoint
        {
            return None;
        }
        let answers = |plan: &Plan, ruling: &PolicyDecision| {
            let asked: Result<Vec<&Effect>, _> = effects_to_cover(&plan.effects, &ruling.reasons);
            let tool_asks = ruling.reasons.iter().any(DecisionReason::is_about_tool);
            let may_answer = !given.is_for_any_tool() || !tool_asks;
            may_answer
                && !ruling.causes().is_empty()
                && asked.is_ok_and(|asked| leave.covers_all(&asked, plan))
        };
        let question = self.questions.iter().find(|question| answers(&question.plan, &question.decision));
        if question.is_none() && !answers(&self.plan, &self.decision) {
            return None;
        }
        let (call, at, summary) = (self.call, self.at, self.summary.clone());
        let (said, leave) = (question.map(|question| question.answer), self.decision.standing_approval);
        Some(CoveredCall { call, at, summary, answer: said, standing_approval: leave })
    }
}

/// Checks whether a decision on the record asks only for causes that a standing approval may answer.
fn is_coverable(record: &Record) -> bool {
    let spareable = |ruling: &PolicyDecision| {
        let causes = ruling.causes();
        !causes.is_empty()
            && causes.into_iter().all(byleave_core::decision::AskCause::allows_standing_approval)
    };
    let mut rulings = record.entries().iter().filter_map(|entry| match &entry.event {
        RecordEvent::PolicyEvaluated(Ok(ruling)) => Some(ruling),
        _ => None,
    });
    rulings.any(spareable) && !is_held(record)
}

fn is_held(record: &Record) -> bool {
    record
        .entries()
        .iter()
        .any(|entry| matches!(&entry.event, RecordEvent::Reviewed(Ok(review)) if review.is_held()))
}

fn read_arguments(found: &ExportedRecord, arguments: ContentRef) -> Option<Value> {
    let content = found.contents.iter().find(|content| content.content_ref == arguments)?;
    serde_json::from_slice(&content.bytes).ok()
}

fn read_plan(found: &ExportedRecord, head: &PlanSummary) -> Result<Plan, String> {
    let content = found.contents.iter().find(|content| content.content_ref == head.plan);
    let content = content.ok_or("its plan is no longer in the audit log")?;
    serde_json::from_slice(&content.bytes).map_err(|error| format!("its plan cannot be read: {error}"))
}

fn read_questions(found: &ExportedRecord, record: &Record) -> Result<Vec<PastQuestion>, String> {
    let mut asked = Vec::new();
    for entry in record.entries() {
        let RecordEvent::Asked(Ok(question)) = &entry.event else { continue };
        if question.kind == QuestionKind::Release {
            continue;
        }
        let Some((head, ruling)) = record.question_context(question.id) else { continue };
        let said = match record.question_closure(question.id) {
            Some(QuestionClosure::Answered { answer: answered, .. }) => match answered.answer {
                Answer::Yes { .. } => PastAnswer::Yes,
                Answer::StandingApproval(_) => PastAnswer::StandingApproval,
                Answer::Partial { .. } => PastAnswer::Partial,
                Answer::No { .. } => PastAnswer::No,
                Answer::Edit { .. } => PastAnswer::Edited,
                Answer::Result { .. } => PastAnswer::Result,
                Answer::Abort => PastAnswer::Aborted,
            },
            None if record.outcome().is_none() => PastAnswer::Pending,
            _ => PastAnswer::Expired,
        };
        let plan = read_plan(found, head)?;
        asked.push(PastQuestion { kind: question.kind, plan, decision: ruling.clone(), answer: said });
    }
    Ok(asked)
}

//! Past calls: what they would have done and what was said to it, as the book has it; and which of them a leave would have covered.
//!
//! Always with the plan and the ruling that were recorded then, never with ones made anew. What cannot be read is counted, never
//! guessed at.

use byleave_core::call::Millis;
use byleave_core::decision::PolicyDecision;
use byleave_core::effect::{Effect, Plan, PlanSummary};
use byleave_core::entry::{CallHeader, RecordEvent, ResolvedTool};
use byleave_core::id::{CallId, StandingApprovalId, TenantId};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::{QuestionClosure, Record};
use byleave_core::standing_approval::{StandingApproval, StandingApprovalMatcher, asked};
use serde::Serialize;

use crate::audit_log::export::ExportedRecord;
use crate::audit_log::{AuditLog, CallFilter, CallState, PageRequest};
use crate::ledger::LedgerError;

/// How many of the newest calls are looked at, at most, to say what a leave would have covered.
pub const LOOKED_MAX: usize = 500;

/// What a leave would have covered of the newest calls of its tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// So many were looked at.
    pub looked: usize,
    /// So many are looked at, at most.
    pub looked_max: usize,
    /// There are older ones that were not looked at.
    pub more: bool,
    /// So many of them cannot be read: forgotten, damaged, or never ruled on.
    pub unreadable: usize,
    /// Those that it would have covered, the newest first.
    pub covered: Vec<CoveredCall>,
}

/// A past call that a leave would have covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CoveredCall {
    /// Which.
    pub call: CallId,
    /// When it was ruled on.
    pub at: Millis,
    /// What it would have done, in a line.
    pub summary: String,
    /// What was said when it asked; nothing where nobody was asked.
    pub said: Option<PastAnswer>,
    /// The leave that stood then and answered in a person's place.
    pub leave: Option<StandingApprovalId>,
}

/// What was said to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PastAnswer {
    /// Yes.
    Yes,
    /// Yes, and in future.
    Leave,
    /// No.
    No,
    /// Something else instead.
    Edited,
    /// Yes to a part of it.
    Part,
    /// Stop everything.
    Aborted,
    /// Nothing, and too late by now.
    Nothing,
    /// Nothing yet.
    Open,
}

impl PastAnswer {
    /// Whether all of it was let pass.
    pub const fn is_yes(self) -> bool {
        matches!(self, Self::Yes | Self::Leave)
    }

    /// In words, after "it asked and was answered".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Leave => "yes, with a leave",
            Self::No => "NO",
            Self::Edited => "with something else instead",
            Self::Part => "yes to a part of it",
            Self::Aborted => "with an abort",
            Self::Nothing => "by nobody",
            Self::Open => "by nobody yet",
        }
    }
}

/// A call as far as it was ruled on.
#[derive(Clone, Debug)]
pub struct PastCall {
    /// Which.
    pub call: CallId,
    /// How it came in.
    pub heading: CallHeader,
    /// Its tool and its terms.
    pub terms: ResolvedTool,
    /// What it would do, in a line.
    pub summary: String,
    /// What the draft that counts would do.
    pub plan: Plan,
    /// What the policy said of that.
    pub ruling: PolicyDecision,
    /// When.
    pub at: Millis,
    /// The questions about what it would do, the oldest first.
    pub questions: Vec<PastQuestion>,
    /// A reviewer wanted a person to look.
    pub held: bool,
}

/// A question about a plan, and what was said to it.
#[derive(Clone, Debug)]
pub struct PastQuestion {
    /// An approval or a checkpoint.
    pub kind: QuestionKind,
    /// What was asked about.
    pub plan: Plan,
    /// What the policy said of that.
    pub ruling: PolicyDecision,
    /// What was said.
    pub said: PastAnswer,
}

impl PastQuestion {
    /// Whether it was simply approved. A checkpoint is passed once, whatever was said.
    pub fn is_approved(&self) -> bool {
        self.kind == QuestionKind::Approval && self.said.is_yes()
    }
}

/// Which of the newest calls of its tool a leave would have covered, in whatever time they were made.
pub async fn covered(
    book: &dyn AuditLog,
    tenant: &TenantId,
    leave: &StandingApproval,
    now: Millis,
) -> Result<Coverage, LedgerError> {
    let unusable = |bad| LedgerError::new("cannot look for past calls of a leave", bad);
    let matcher = StandingApprovalMatcher::new(leave.clone()).map_err(unusable)?;
    let filter = CallFilter {
        tenant: Some(tenant.clone()),
        session: leave.session.clone(),
        tool: Some(leave.tool.clone()),
        state: Some(CallState::Settled),
        until: Some(now.saturating_add(1)),
        ..CallFilter::default()
    };
    let mut items = book.calls(filter, PageRequest::first(LOOKED_MAX.saturating_add(1))).await?;
    let more = items.len() > LOOKED_MAX;
    items.truncate(LOOKED_MAX);
    let mut past =
        Coverage { looked: items.len(), looked_max: LOOKED_MAX, more, unreadable: 0, covered: Vec::new() };
    for item in items {
        let Some(kept) = book.record(item.call).await? else {
            past.unreadable = past.unreadable.saturating_add(1);
            continue;
        };
        // Most calls ask nothing that a leave could answer; their contents need not be read, which is what takes time.
        if kept.record.damage().is_none() && !may_be_spared(&kept.record) {
            continue;
        }
        let contents = book.contents(item.call).await?;
        match read(&ExportedRecord { call: item.call, kept, contents }) {
            Ok(one) => past.covered.extend(one.covered_by(&matcher)),
            Err(_) => past.unreadable = past.unreadable.saturating_add(1),
        }
    }
    Ok(past)
}

/// Reads a call with its contents, or says why it cannot be read.
pub fn read(found: &ExportedRecord) -> Result<PastCall, String> {
    let record = &found.kept.record;
    if let Some(damage) = record.damage() {
        return Err(format!("its record is damaged: {damage}"));
    }
    if found.kept.forgotten {
        return Err("its contents were forgotten, and its plan with them".to_owned());
    }
    let heading = record.heading().ok_or("its record does not say what it was")?;
    let draft = record.draft().ok_or("its record has no draft")?;
    let (Some(Ok(head)), Some(Ok(ruling))) = (draft.planned(), draft.permitted()) else {
        return Err("it was never ruled on".to_owned());
    };
    let Some(Ok(terms)) = record.resolved() else { return Err("its tool was not found".to_owned()) };
    let at = record.entries().iter().rev().find(|entry| matches!(entry.fact, RecordEvent::Permitted(_)));
    Ok(PastCall {
        call: found.call,
        heading: heading.clone(),
        terms: terms.clone(),
        summary: found.kept.listing.as_ref().map_or_else(String::new, |listing| listing.summary.clone()),
        plan: plan(found, head)?,
        ruling: ruling.clone(),
        at: at.map_or(0, |entry| entry.at),
        questions: questions(found, record)?,
        held: is_held(record),
    })
}

impl PastCall {
    /// What a leave would have spared of it.
    fn covered_by(&self, leave: &StandingApprovalMatcher) -> Option<CoveredCall> {
        let in_session = leave.leave().session.as_ref().is_none_or(|only| *only == self.heading.session);
        if self.terms.tool != leave.leave().tool || !in_session || self.held || self.terms.checkpoint {
            return None;
        }
        let answers = |plan: &Plan, ruling: &PolicyDecision| {
            let asked: Result<Vec<&Effect>, _> = asked(&plan.effects, &ruling.reasons);
            !ruling.causes().is_empty() && asked.is_ok_and(|asked| leave.answers(&asked, plan))
        };
        let question = self.questions.iter().find(|question| answers(&question.plan, &question.ruling));
        if question.is_none() && !answers(&self.plan, &self.ruling) {
            return None;
        }
        let (call, at, summary) = (self.call, self.at, self.summary.clone());
        let (said, leave) = (question.map(|question| question.said), self.ruling.leave);
        Some(CoveredCall { call, at, summary, said, leave })
    }
}

/// Whether a ruling on the record asks for nothing but causes that a leave may answer.
fn may_be_spared(record: &Record) -> bool {
    let spareable = |ruling: &PolicyDecision| {
        let causes = ruling.causes();
        !causes.is_empty() && causes.into_iter().all(byleave_core::decision::AskCause::leave_may_answer)
    };
    let mut rulings = record.entries().iter().filter_map(|entry| match &entry.fact {
        RecordEvent::Permitted(Ok(ruling)) => Some(ruling),
        _ => None,
    });
    rulings.any(spareable) && !is_held(record)
}

fn is_held(record: &Record) -> bool {
    record
        .entries()
        .iter()
        .any(|entry| matches!(&entry.fact, RecordEvent::Reviewed(Ok(review)) if review.holds()))
}

fn plan(found: &ExportedRecord, head: &PlanSummary) -> Result<Plan, String> {
    let content = found.contents.iter().find(|content| content.held == head.plan);
    let content = content.ok_or("its plan is not in the book any more")?;
    serde_json::from_slice(&content.bytes).map_err(|error| format!("its plan cannot be read: {error}"))
}

fn questions(found: &ExportedRecord, record: &Record) -> Result<Vec<PastQuestion>, String> {
    let mut asked = Vec::new();
    for entry in record.entries() {
        let RecordEvent::Asked(Ok(question)) = &entry.fact else { continue };
        if question.kind == QuestionKind::Release {
            continue;
        }
        let Some((head, ruling)) = record.shown(question.id) else { continue };
        let said = match record.closing(question.id) {
            Some(QuestionClosure::Answered { answered, .. }) => match answered.answer {
                Answer::Yes { .. } => PastAnswer::Yes,
                Answer::Leave(_) => PastAnswer::Leave,
                Answer::Part { .. } => PastAnswer::Part,
                Answer::No { .. } => PastAnswer::No,
                Answer::Edit { .. } => PastAnswer::Edited,
                Answer::Abort => PastAnswer::Aborted,
            },
            None if record.settled().is_none() => PastAnswer::Open,
            _ => PastAnswer::Nothing,
        };
        let plan = plan(found, head)?;
        asked.push(PastQuestion { kind: question.kind, plan, ruling: ruling.clone(), said });
    }
    Ok(asked)
}

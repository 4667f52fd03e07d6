//! The pipeline: returns the first step that is not yet on the record.
//!
//! It is a pure function: the same record gives the same answer on any machine, at any time. Drivers differ only in how they perform the
//! step. The pipeline must never perform anything, and never look at a clock.

use crate::call::Millis;
use crate::challenge::{ChallengeTiming, ChallengeVerdict};
use crate::decision::{AskCause, PolicyDecision, Verdict};
use crate::digest::Digest;
use crate::effect::PlanSummary;
use crate::entry::{CallHeader, ResolvedTool};
use crate::grant::{Grant, GrantedBy};
use crate::hash_chain::ChainDamageError;
use crate::id::{AttemptId, QuestionId};
use crate::outcome::{ExecutionEnd, ExecutionStatus, Outcome};
use crate::question::{Answer, Question, QuestionKind, RecordedAnswer};
use crate::record::{Attempt, Draft, DraftAuthor, QuestionClosure, Record};
use crate::refusal::{Code, Refusal, StageResult};
use crate::rehearsal::{RehearsalOutcome, RehearsalSummary};
use crate::review::Review;

/// The version of this pipeline. It does not process a record that another version opened.
pub const WALK: u16 = 1;

/// The next step of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Perform this task and record its result.
    Do(Task),
    /// Wait until this question is answered, expires or is cancelled.
    Wait(Question),
    /// Record this outcome, unless it is already recorded. Nothing else is left to do.
    Settle(Outcome),
}

/// A task to perform and to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Find the tool.
    Resolve,
    /// Check the draft against the schema.
    Validate,
    /// Predict the effects.
    Plan,
    /// Evaluate the effects against the policy.
    Permit,
    /// Let the reviewers check the draft.
    ReviewInput,
    /// Let the challenger make the case against the call.
    Challenge,
    /// Record that the call is about to run on a copy.
    OpenRehearsal(Digest),
    /// Run the call on a copy, and evaluate its real effects.
    Rehearse,
    /// Open a question.
    Ask(QuestionRequest),
    /// Check that everything is still as granted, and claim the attempt.
    Begin(Grant),
    /// Execute under this claim.
    Execute {
        /// The attempt that holds the claim.
        attempt: AttemptId,
        /// The grant that the claim is based on.
        grant: Grant,
    },
    /// Let the reviewers check the result.
    ReviewOutput,
}

/// The question to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionRequest {
    /// The kind of the question.
    pub kind: QuestionKind,
    /// The exact plan or result.
    pub binding: Digest,
}

/// Returns the next step of the call that this record belongs to.
pub fn next(record: &Record) -> NextStep {
    let next = match walk(record) {
        Ok(outcome) => NextStep::Settle(outcome),
        Err(Stop::Refuse(refusal)) => NextStep::Settle(unrun(record, refusal)),
        Err(Stop::Do(task)) => NextStep::Do(task),
        Err(Stop::Wait(question)) => NextStep::Wait(question),
    };
    match record.damage() {
        None => next,
        Some(damage) => NextStep::Settle(damaged(next, damage)),
    }
}

enum Stop {
    Do(Task),
    Wait(Question),
    Refuse(Refusal),
}

/// Goes through the stages in order and stops at the first gap.
///
/// A stage on the record is read back, never repeated. `?` returns at the first stage that is missing (do it), open (wait for a person) or
/// negative (refuse).
fn walk(record: &Record) -> Result<Outcome, Stop> {
    if let Some(outcome) = record.settled() {
        return Ok(outcome.clone());
    }
    let Some((heading, draft)) = record.heading().zip(record.draft()) else {
        return Err(refuse(Code::RecordBroken, "the record does not begin with a call"));
    };
    if heading.walk != WALK {
        return Err(refuse(Code::WalkUnknown, format!("the record was opened by walk {}", heading.walk)));
    }
    // An ended attempt implies all earlier stages, because nothing else could have been written before it.
    if let Some(Attempt::Ended(end)) = record.attempt() {
        return released(record, end);
    }
    if let (Some(by), None) = (record.cancelled(), record.attempt()) {
        return Err(refuse(Code::Cancelled, format!("cancelled by {by}")));
    }

    let terms = need(record.resolved(), Task::Resolve)?;
    if draft.number > terms.limits.drafts {
        return Err(refuse(
            Code::TooManyDrafts,
            format!("changed more than {} times", terms.limits.drafts - 1),
        ));
    }
    need(draft.validated(), Task::Validate)?;
    let plan = need(draft.planned(), Task::Plan)?;
    let ruling = need(draft.permitted(), Task::Permit)?;
    if ruling.verdict == Verdict::Deny {
        return Err(Stop::Refuse(denied(ruling)));
    }
    let review = need(draft.reviewed(), Task::ReviewInput)?;
    challenged(terms, &draft, ChallengeTiming::BeforeQuestion)?;
    if heading.dry_run {
        return Ok(Outcome::Rehearsed { plan: plan.plan });
    }
    let mut stage = DraftState { record, heading, terms, draft, plan, ruling, review, rehearsal: None };
    stage.rehearsal = rehearsed(&stage)?;
    let grant = consent(&stage)?;
    challenged(terms, &draft, ChallengeTiming::AfterAnswer)?;

    match record.attempt() {
        None => match record.begin_refused() {
            None => Err(Stop::Do(Task::Begin(grant))),
            Some(refusal) => Err(Stop::Refuse(refusal.clone())),
        },
        Some(Attempt::Open(claim)) => Err(Stop::Do(Task::Execute { attempt: claim.attempt, grant })),
        // A crash came between the begin and the end. Only the tool knows whether running twice is safe.
        Some(Attempt::Interrupted) if may_begin_again(&stage) => Err(Stop::Do(Task::Begin(grant))),
        Some(Attempt::Interrupted | Attempt::Ended(_)) => Ok(Outcome::Unknown(Refusal::new(
            Code::Interrupted,
            "it was interrupted while it ran; whether it took effect must be looked at",
        ))),
    }
}

/// The state of the current draft after its review.
struct DraftState<'a> {
    record: &'a Record,
    heading: &'a CallHeader,
    terms: &'a ResolvedTool,
    draft: Draft<'a>,
    plan: &'a PlanSummary,
    ruling: &'a PolicyDecision,
    review: &'a Review,
    rehearsal: Option<&'a RehearsalSummary>,
}

/// Reads one stage back, or returns the task that is missing.
fn need<T>(stage: Option<&StageResult<T>>, task: Task) -> Result<&T, Stop> {
    match stage {
        None => Err(Stop::Do(task)),
        Some(Err(refusal)) => Err(Stop::Refuse(refusal.clone())),
        Some(Ok(value)) => Ok(value),
    }
}

/// Requires a challenge, if the terms ask for one at this place.
fn challenged(terms: &ResolvedTool, draft: &Draft<'_>, place: ChallengeTiming) -> Result<(), Stop> {
    if terms.challenge.is_none_or(|challenge| challenge.when != place) {
        return Ok(());
    }
    match need(draft.challenged(), Task::Challenge)?.verdict {
        ChallengeVerdict::Proceed => Ok(()),
        ChallengeVerdict::Stop => {
            Err(refuse(Code::ChallengeStopped, "the challenge came out against the call"))
        }
    }
}

/// Requires a rehearsal, if a person would be asked and the terms say that the call can be rehearsed.
fn rehearsed<'a>(stage: &DraftState<'a>) -> Result<Option<&'a RehearsalSummary>, Stop> {
    if stage.terms.rehearsal.is_none() || ceremony(stage).is_none() {
        return Ok(None);
    }
    if stage.draft.rehearsing().is_none() {
        return Err(Stop::Do(Task::OpenRehearsal(binding(stage))));
    }
    let head = match stage.draft.rehearsed() {
        None => return Err(Stop::Do(Task::Rehearse)),
        Some(RehearsalOutcome::Not { .. }) => return Ok(None),
        Some(RehearsalOutcome::Ran(head)) => head,
    };
    match &head.ruling {
        Some(ruling) if ruling.verdict == Verdict::Deny => Err(Stop::Refuse(denied(ruling))),
        _ => Ok(Some(head)),
    }
}

/// Turns the decision and the review into a grant, or into the question that a person must answer.
fn consent(stage: &DraftState<'_>) -> Result<Grant, Stop> {
    let binding = binding(stage);
    let Some(kind) = ceremony(stage) else {
        let by = stage.ruling.leave.map_or(GrantedBy::Rule, GrantedBy::Leave);
        return Ok(Grant::new(binding, by, None));
    };
    if is_spared(stage, kind) {
        return Ok(Grant::new(binding, GrantedBy::Rehearsal, None));
    }
    // A commit that has begun is finished, however late it is.
    let is_begun = stage.commits() && stage.record.attempts() > 0;
    let good_for = |at: Millis| (!is_begun).then(|| at.saturating_add(stage.terms.limits.grant_ms));
    if let Some((question, at)) = edit_stands(stage, kind) {
        return Ok(Grant::new(binding, GrantedBy::Answer(question), good_for(at)));
    }
    let question = need(stage.draft.asked(), Task::Ask(QuestionRequest { kind, binding }))?;
    let (answered, at) = match stage.record.closing(question.id) {
        None => return Err(Stop::Wait(question.clone())),
        Some(QuestionClosure::Expired) => return Err(refuse(Code::Unanswered, "nobody answered in time")),
        Some(QuestionClosure::Unasked(refusal)) => return Err(Stop::Refuse(refusal.clone())),
        Some(QuestionClosure::Answered { answered, at }) => (answered, at),
    };
    match &answered.answer {
        Answer::Yes { .. } | Answer::Leave(_) => {
            Ok(Grant::new(binding, GrantedBy::Answer(question.id), good_for(at)))
        }
        Answer::Part { paths, .. } if stage.commits() => {
            let part = Digest::of_parts("byleave.part", &[binding.as_bytes(), paths.digest.as_bytes()]);
            Ok(Grant::new(part, GrantedBy::Answer(question.id), good_for(at)))
        }
        Answer::Part { .. } => Err(refuse(Code::RecordBroken, "a part of a rehearsal that does not stand")),
        Answer::No { feedback } => Err(refuse(declined_code(kind), declined(answered, feedback.as_deref()))),
        Answer::Abort => Err(refuse(Code::Aborted, format!("{} stopped everything", answered.by.name))),
        // An edit begins a new draft, so it never closes a question of the current draft.
        Answer::Edit { .. } => Err(refuse(Code::RecordBroken, "an edit without a draft")),
    }
}

/// Returns the kind of question that the draft needs, if any. A checkpoint is required in every mode, whatever the decision.
fn ceremony(stage: &DraftState<'_>) -> Option<QuestionKind> {
    let stood_in = stage.terms.challenge.is_some_and(|challenge| challenge.stands_in);
    if stage.terms.checkpoint && !stood_in {
        return Some(QuestionKind::Checkpoint);
    }
    (stage.ruling.verdict == Verdict::Ask || stage.review.holds()).then_some(QuestionKind::Approval)
}

/// Checks whether the rehearsal makes the question unnecessary. The run on the copy must have done nothing, and the call was merely not
/// understood or failed to change files.
fn is_spared(stage: &DraftState<'_>, kind: QuestionKind) -> bool {
    let Some((head, terms)) = stage.rehearsal.zip(stage.terms.rehearsal) else { return false };
    kind == QuestionKind::Approval
        && !stage.terms.checkpoint
        && !stage.review.holds()
        && !stage.plan.irreversible
        && head.spares(terms, stage.heading.mode, stage.ruling)
}

/// Checks whether a person's own edit is consent to its plan. It is, if the plan shows nothing that the person did not see. Otherwise the
/// person is asked again.
fn edit_stands(stage: &DraftState<'_>, kind: QuestionKind) -> Option<(QuestionId, Millis)> {
    let DraftAuthor::Person { question, at } = stage.draft.by else { return None };
    // The person has not seen the real effects of the edited call.
    if stage.rehearsal.is_some() {
        return None;
    }
    let (seen_plan, seen_ruling) = stage.record.shown(question)?;
    let seen_causes = seen_ruling.causes();
    let no_news = kind == QuestionKind::Approval
        && stage.plan.within(seen_plan)
        && stage.ruling.causes().iter().all(|cause| seen_causes.contains(cause))
        && !stage.review.holds();
    no_news.then_some((question, at))
}

/// Returns the digest of everything that must be unchanged when the call runs.
fn binding(stage: &DraftState<'_>) -> Digest {
    let DraftState { record, heading, terms, draft, plan, .. } = stage;
    let (call, rehearsal) = (record.call(), stage.rehearsal.map(RehearsalSummary::digest));
    let parts: [&[u8]; 8] = [
        call.as_bytes(),
        heading.tenant.as_str().as_bytes(),
        heading.session.as_str().as_bytes(),
        heading.agent.as_str().as_bytes(),
        heading.cwd.as_bytes(),
        terms.manifest.as_bytes(),
        draft.content.digest.as_bytes(),
        plan.plan.digest.as_bytes(),
    ];
    let mut parts = parts.to_vec();
    parts.extend(rehearsal.as_ref().map(|digest| digest.as_bytes().as_slice()));
    Digest::of_parts("byleave.binding", &parts)
}

impl DraftState<'_> {
    /// Returns whether the execution is the commit of a rehearsal.
    fn commits(&self) -> bool {
        self.rehearsal.is_some_and(|head| head.stands)
    }
}

/// Checks whether an interrupted attempt may be begun again. A commit is journaled, so it is finished, however many attempts it takes.
fn may_begin_again(stage: &DraftState<'_>) -> bool {
    if stage.commits() {
        return stage.record.begin_refused().is_none();
    }
    stage.terms.repeatable
        && stage.record.attempts() < usize::from(stage.terms.limits.attempts)
        && stage.record.cancelled().is_none()
        && stage.record.begin_refused().is_none()
}

/// Turns an ended execution into an outcome, once its output was reviewed and, if held, released.
///
/// Failures carry output too, so they are reviewed like successes.
fn released(record: &Record, end: &ExecutionEnd) -> Result<Outcome, Stop> {
    if end.status == ExecutionStatus::Lost {
        return Ok(Outcome::Unknown(Refusal::new(
            Code::Interrupted,
            "whoever ran it did not say how it ended; whether it took effect must be looked at",
        )));
    }
    let review = match record.output_reviewed() {
        None => return Err(Stop::Do(Task::ReviewOutput)),
        Some(Err(refusal)) => return Ok(Outcome::Withheld(refusal.clone())),
        Some(Ok(review)) => review,
    };
    let output = review.change.unwrap_or(end.output);
    let finish = |output| match end.status {
        ExecutionStatus::Done => Outcome::Completed { output },
        ExecutionStatus::Failed
        | ExecutionStatus::Panicked
        | ExecutionStatus::TimedOut
        | ExecutionStatus::Stopped
        | ExecutionStatus::Lost => Outcome::Failed { output },
    };
    if !review.holds() {
        return Ok(finish(output));
    }
    let withheld = |code, why: String| Ok(Outcome::Withheld(Refusal::new(code, why)));
    let binding = Digest::of_parts("byleave.release", &[record.call().as_bytes(), output.digest.as_bytes()]);
    let question = match record.release_asked() {
        None => return Err(Stop::Do(Task::Ask(QuestionRequest { kind: QuestionKind::Release, binding }))),
        Some(Err(refusal)) => return Ok(Outcome::Withheld(refusal.clone())),
        Some(Ok(question)) => question,
    };
    let answered = match record.closing(question.id) {
        None => match record.cancelled() {
            None => return Err(Stop::Wait(question.clone())),
            Some(by) => {
                return withheld(Code::Cancelled, format!("cancelled by {by} while the result was held"));
            }
        },
        Some(QuestionClosure::Expired) => {
            return withheld(Code::OutputUnanswered, "nobody released the result in time".into());
        }
        Some(QuestionClosure::Unasked(refusal)) => return Ok(Outcome::Withheld(refusal.clone())),
        Some(QuestionClosure::Answered { answered, .. }) => answered,
    };
    match &answered.answer {
        Answer::Yes { .. } => Ok(finish(output)),
        Answer::Edit { content, .. } => Ok(finish(*content)),
        Answer::No { feedback } => withheld(Code::OutputDeclined, declined(answered, feedback.as_deref())),
        Answer::Abort => withheld(Code::Aborted, format!("{} stopped everything", answered.by.name)),
        Answer::Leave(_) | Answer::Part { .. } => {
            withheld(Code::RecordBroken, "neither a leave nor a part can release a result".into())
        }
    }
}

fn refuse(code: Code, why: impl Into<String>) -> Stop {
    Stop::Refuse(Refusal::new(code, why))
}

fn denied(ruling: &PolicyDecision) -> Refusal {
    let denies = || ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Deny);
    // An allow rule can move the boundary but not lift a deny, so a deny by a rule is reported first.
    let by_rule = denies().find(|reason| reason.cause != Some(AskCause::Outside));
    match by_rule.or_else(|| denies().next()) {
        None => Refusal::new(Code::Denied, "denied by the policy"),
        Some(reason) => {
            let rule = reason.rule.as_deref().map(|rule| format!(" (rule `{rule}`)")).unwrap_or_default();
            let code = by_rule.map_or(Code::OutsideWorkspace, |_| Code::Denied);
            Refusal::new(code, format!("{}{rule}", reason.why))
        }
    }
}

const fn declined_code(kind: QuestionKind) -> Code {
    match kind {
        QuestionKind::Checkpoint => Code::CheckpointRefused,
        QuestionKind::Approval | QuestionKind::Release => Code::Declined,
    }
}

fn declined(answered: &RecordedAnswer, feedback: Option<&str>) -> String {
    match feedback {
        None => format!("{} said no", answered.by.name),
        Some(feedback) => format!("{} said no: {feedback}", answered.by.name),
    }
}

/// Settles a damaged record. The rest of the record decides only if it is a refusal, because the damage may hide a run.
fn damaged(next: NextStep, damage: &ChainDamageError) -> Outcome {
    match next {
        // Another version of the pipeline may have continued where this one stops. Its refusal says nothing about later entries.
        NextStep::Settle(Outcome::Refused(refusal)) if refusal.code != Code::WalkUnknown => {
            Outcome::Refused(refusal)
        }
        _ => Outcome::Unknown(Refusal::new(Code::RecordBroken, format!("the record is damaged: {damage}"))),
    }
}

/// Returns "refused" if nothing has begun. Otherwise it returns "unknown", whatever the refusal says.
fn unrun(record: &Record, refusal: Refusal) -> Outcome {
    if record.attempts() == 0 { Outcome::Refused(refusal) } else { Outcome::Unknown(refusal) }
}

/// Returns whether everything so far must be durable on the record before this task is performed.
///
/// Execution is the only step that cannot be undone, so only it requires this. Pure permitted reads by a repeatable tool may run first and
/// be recorded once, before their output is released.
pub fn durable_before(record: &Record, task: &Task) -> bool {
    // A copy without a durable record would be unknown to the audit log.
    if matches!(task, Task::Rehearse) {
        return true;
    }
    let Task::Execute { grant, .. } = task else { return false };
    let Some(Ok(terms)) = record.resolved() else { return true };
    let Some(Ok(plan)) = record.draft().and_then(|draft| draft.planned()) else { return true };
    !(terms.repeatable && plan.reads_only && grant.by() == GrantedBy::Rule)
}

impl Task {
    /// Returns the name of the task.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::Permit => "permit",
            Self::ReviewInput => "review input",
            Self::Challenge => "challenge",
            Self::OpenRehearsal(_) => "open rehearsal",
            Self::Rehearse => "rehearse",
            Self::Ask(_) => "ask",
            Self::Begin(_) => "begin",
            Self::Execute { .. } => "execute",
            Self::ReviewOutput => "review output",
        }
    }
}

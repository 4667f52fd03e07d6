//! The pipeline: returns the first step that is not yet on the record.
//!
//! It is a pure function: the same record gives the same answer on any machine, at any time. Drivers differ only in how they perform the
//! step. The pipeline must never perform anything, and never look at a clock.

use crate::call::Millis;
use crate::challenge::{ChallengeBy, ChallengeTiming, ChallengeVerdict};
use crate::decision::{AskCause, PolicyDecision, Verdict};
use crate::digest::{ContentRef, Digest};
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
pub const RECORD_VERSION: u16 = 1;

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
    EvaluatePolicy,
    /// Let the reviewers check the draft.
    ReviewInput,
    /// Let the challenger make the case against the call.
    Challenge,
    /// Record that the call is about to run on a copy.
    StartRehearsal(Digest),
    /// Run the call on a copy, and evaluate its real effects.
    Rehearse,
    /// Open a question.
    Ask(QuestionRequest),
    /// Check that everything is still as granted, and claim the attempt.
    Start(Grant),
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
pub fn next_step(record: &Record) -> NextStep {
    let next = match run_stages(record) {
        Ok(outcome) => NextStep::Settle(outcome),
        Err(Stop::Refuse(refusal)) => NextStep::Settle(refused_or_unknown(record, refusal)),
        Err(Stop::Do(task)) => NextStep::Do(task),
        Err(Stop::Wait(question)) => NextStep::Wait(question),
    };
    match record.damage() {
        None => next,
        Some(damage) => NextStep::Settle(damaged_outcome(next, damage)),
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
fn run_stages(record: &Record) -> Result<Outcome, Stop> {
    if let Some(outcome) = record.outcome() {
        return Ok(outcome.clone());
    }
    let Some((heading, draft)) = record.header().zip(record.draft()) else {
        return Err(refuse(Code::RecordBroken, "the record does not begin with a call"));
    };
    if heading.record_version != RECORD_VERSION {
        return Err(refuse(
            Code::RecordVersionUnknown,
            format!("the record has the unknown version {}", heading.record_version),
        ));
    }
    // An ended attempt implies all earlier stages, because nothing else could have been written before it.
    if let Some(Attempt::Ended(end)) = record.attempt() {
        return release_result(record, ResultSource::Tool(end));
    }
    if let (Some(by), None | Some(Attempt::Observed(_))) = (record.cancelled_by(), record.attempt()) {
        return Err(refuse(Code::Cancelled, format!("cancelled by {by}")));
    }
    // An answer in the place of the tool implies all earlier stages, too, and nothing can begin after it.
    if let Some(output) = record.person_result() {
        return release_result(record, ResultSource::Person(output));
    }

    let terms = require_stage(record.resolved_tool(), Task::Resolve)?;
    if draft.number > terms.limits.max_drafts {
        return Err(refuse(
            Code::TooManyDrafts,
            format!("changed more than {} times", terms.limits.max_drafts - 1),
        ));
    }
    require_stage(draft.validation(), Task::Validate)?;
    let plan = require_stage(draft.plan(), Task::Plan)?;
    let ruling = require_stage(draft.decision(), Task::EvaluatePolicy)?;
    if ruling.verdict == Verdict::Deny {
        return Err(Stop::Refuse(denial(ruling)));
    }
    let review = require_stage(draft.review(), Task::ReviewInput)?;
    require_challenge(terms, ruling, &draft, ChallengeTiming::BeforeQuestion)?;
    if heading.dry_run {
        return Ok(Outcome::DryRun { plan: plan.plan });
    }
    let mut stage = DraftState {
        record,
        header: heading,
        resolved_tool: terms,
        draft,
        plan,
        decision: ruling,
        review,
        rehearsal: None,
    };
    stage.rehearsal = require_rehearsal(&stage)?;
    let grant = require_grant(&stage)?;
    require_challenge(terms, ruling, &draft, ChallengeTiming::AfterAnswer)?;

    match record.attempt() {
        None | Some(Attempt::Observed(_)) => match record.start_refusal() {
            None => Err(Stop::Do(Task::Start(grant))),
            Some(refusal) => Err(Stop::Refuse(refusal.clone())),
        },
        Some(Attempt::Open(claim)) => Err(Stop::Do(Task::Execute { attempt: claim.attempt, grant })),
        // A crash came between the begin and the end. Only the tool knows whether running twice is safe.
        Some(Attempt::Interrupted) if may_retry(&stage) => Err(Stop::Do(Task::Start(grant))),
        Some(Attempt::Interrupted | Attempt::Ended(_)) => Ok(Outcome::Unknown(Refusal::new(
            Code::Interrupted,
            "the call was interrupted while it ran; check whether it took effect",
        ))),
    }
}

/// The state of the current draft after its review.
struct DraftState<'a> {
    record: &'a Record,
    header: &'a CallHeader,
    resolved_tool: &'a ResolvedTool,
    draft: Draft<'a>,
    plan: &'a PlanSummary,
    decision: &'a PolicyDecision,
    review: &'a Review,
    rehearsal: Option<&'a RehearsalSummary>,
}

/// Reads one stage back, or returns the task that is missing.
fn require_stage<T>(stage: Option<&StageResult<T>>, task: Task) -> Result<&T, Stop> {
    match stage {
        None => Err(Stop::Do(task)),
        Some(Err(refusal)) => Err(Stop::Refuse(refusal.clone())),
        Some(Ok(value)) => Ok(value),
    }
}

/// Requires a challenge at this time, if the tool or a rule asks for one.
fn require_challenge(
    terms: &ResolvedTool,
    decision: &PolicyDecision,
    draft: &Draft<'_>,
    time: ChallengeTiming,
) -> Result<(), Stop> {
    let due = match decision.challenge {
        // A person makes the case together with the answer.
        Some(ChallengeBy::Person) => ChallengeTiming::AfterAnswer,
        Some(ChallengeBy::Challenger) | None => terms.challenge.when,
    };
    if !(terms.challenge.required || decision.challenge.is_some()) || due != time {
        return Ok(());
    }
    match require_stage(draft.challenge(), Task::Challenge)?.verdict {
        ChallengeVerdict::Proceed => Ok(()),
        ChallengeVerdict::Stop => {
            Err(refuse(Code::ChallengeStopped, "the challenge decided against the call"))
        }
    }
}

/// Requires a rehearsal, if a person would be asked and the terms say that the call can be rehearsed.
fn require_rehearsal<'a>(stage: &DraftState<'a>) -> Result<Option<&'a RehearsalSummary>, Stop> {
    if let Some(observed) = stage.draft.observed_run() {
        return check_observed(observed).map(Some);
    }
    if stage.resolved_tool.rehearsal.is_none() || required_question(stage).is_none() {
        return Ok(None);
    }
    if stage.draft.rehearsal_binding().is_none() {
        return Err(Stop::Do(Task::StartRehearsal(compute_binding(stage))));
    }
    let head = match stage.draft.rehearsal_outcome() {
        None => return Err(Stop::Do(Task::Rehearse)),
        Some(RehearsalOutcome::Unavailable { .. }) => return Ok(None),
        Some(RehearsalOutcome::Ran(head)) => head,
    };
    check_observed(head).map(Some)
}

/// Refuses a run whose real effects are denied.
fn check_observed(run: &RehearsalSummary) -> Result<&RehearsalSummary, Stop> {
    match &run.decision {
        Some(ruling) if ruling.verdict == Verdict::Deny => Err(Stop::Refuse(denial(ruling))),
        _ => Ok(run),
    }
}

/// Turns the decision and the review into a grant, or into the question that a person must answer.
fn require_grant(stage: &DraftState<'_>) -> Result<Grant, Stop> {
    let binding = compute_binding(stage);
    let Some(kind) = required_question(stage) else {
        let by = stage.decision.standing_approval.map_or(GrantedBy::Rule, GrantedBy::StandingApproval);
        return Ok(Grant::new(binding, by, None));
    };
    if is_question_unnecessary(stage, kind) {
        return Ok(Grant::new(binding, GrantedBy::Rehearsal, None));
    }
    // A commit that has begun is finished, however late it is.
    let is_begun = stage.commits_rehearsal() && stage.record.attempts() > 0;
    let good_for =
        |at: Millis| (!is_begun).then(|| at.saturating_add(stage.resolved_tool.limits.grant_lifetime_ms));
    if let Some((question, at)) = edit_consent(stage, kind) {
        return Ok(Grant::new(binding, GrantedBy::Answer(question), good_for(at)));
    }
    let question = require_stage(stage.draft.question(), Task::Ask(QuestionRequest { kind, binding }))?;
    let (answered, at) = match stage.record.question_closure(question.id) {
        None => return Err(Stop::Wait(question.clone())),
        Some(QuestionClosure::Expired) => return Err(refuse(Code::Unanswered, "nobody answered in time")),
        Some(QuestionClosure::ApproverFailed(refusal)) => return Err(Stop::Refuse(refusal.clone())),
        Some(QuestionClosure::Answered { answer: answered, at }) => (answered, at),
    };
    match &answered.answer {
        Answer::Yes { .. } | Answer::StandingApproval(_) => {
            Ok(Grant::new(binding, GrantedBy::Answer(question.id), good_for(at)))
        }
        Answer::Partial { paths, .. } if stage.commits_rehearsal() => {
            let part = Digest::compute_parts("byleave.part", &[binding.as_bytes(), paths.digest.as_bytes()]);
            Ok(Grant::new(part, GrantedBy::Answer(question.id), good_for(at)))
        }
        Answer::Partial { .. } => {
            Err(refuse(Code::RecordBroken, "the answer keeps a part of a rehearsal that cannot be committed"))
        }
        Answer::No { feedback } => {
            Err(refuse(declined_code(kind), decline_message(answered, feedback.as_deref())))
        }
        Answer::Abort => {
            Err(refuse(Code::Aborted, format!("{} aborted the turn of this call", answered.approver.name)))
        }
        // A result in the place of the tool is released before a grant is looked for.
        Answer::Result { .. } => Err(refuse(
            Code::RecordBroken,
            "the record has a result in the place of the tool that is not read",
        )),
        // An edit begins a new draft, so it never closes a question of the current draft.
        Answer::Edit { .. } => Err(refuse(Code::RecordBroken, "the record has an edit without a draft")),
    }
}

/// Returns the kind of question that the draft needs, if any. A checkpoint is required in every mode, whatever the decision.
///
/// A challenge can replace the checkpoint of a tool, but not that of a rule.
fn required_question(stage: &DraftState<'_>) -> Option<QuestionKind> {
    let challenge = stage.resolved_tool.challenge;
    let is_challenged = challenge.required || stage.decision.challenge.is_some();
    let of_tool = stage.resolved_tool.checkpoint && !(is_challenged && challenge.replaces_checkpoint);
    let observed = stage.rehearsal.and_then(|summary| summary.decision.as_ref());
    let of_rule =
        [Some(stage.decision), observed].into_iter().flatten().any(PolicyDecision::requires_checkpoint);
    if of_tool || of_rule {
        return Some(QuestionKind::Checkpoint);
    }
    let asks = stage.decision.verdict == Verdict::Ask
        || stage.draft.observed_run().is_some()
        || stage.review.is_held()
        || stage.is_person_challenging();
    asks.then_some(QuestionKind::Approval)
}

/// Checks whether the rehearsal makes the question unnecessary. The run on the copy must have done nothing, and the call was merely not
/// understood or failed to change files.
fn is_question_unnecessary(stage: &DraftState<'_>, kind: QuestionKind) -> bool {
    let Some((head, terms)) = stage.rehearsal.zip(stage.resolved_tool.rehearsal) else { return false };
    if stage.draft.observed_run().is_some() {
        return false;
    }
    kind == QuestionKind::Approval
        && !stage.resolved_tool.checkpoint
        && !stage.is_person_challenging()
        && !stage.review.is_held()
        && !stage.plan.irreversible
        && head.makes_question_unnecessary(terms, stage.header.mode, stage.decision)
}

/// Checks whether a person's own edit is consent to its plan. It is, if the plan shows nothing that the person did not see. Otherwise the
/// person is asked again.
fn edit_consent(stage: &DraftState<'_>, kind: QuestionKind) -> Option<(QuestionId, Millis)> {
    let DraftAuthor::Person { question, at } = stage.draft.author else { return None };
    // The person has not seen the real effects of the edited call, or has not made the case against it.
    if stage.rehearsal.is_some() || stage.is_person_challenging() {
        return None;
    }
    let (seen_plan, seen_ruling) = stage.record.question_context(question)?;
    let seen_causes = seen_ruling.causes();
    let no_news = kind == QuestionKind::Approval
        && stage.plan.is_subset_of(seen_plan)
        && stage.decision.causes().iter().all(|cause| seen_causes.contains(cause))
        && !stage.review.is_held();
    no_news.then_some((question, at))
}

/// Returns the digest of everything that must be unchanged when the call runs.
fn compute_binding(stage: &DraftState<'_>) -> Digest {
    let DraftState { record, header: heading, resolved_tool: terms, draft, plan, .. } = stage;
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
    Digest::compute_parts("byleave.binding", &parts)
}

impl DraftState<'_> {
    /// Returns whether the person who answers must make the case against the call.
    fn is_person_challenging(&self) -> bool {
        self.decision.challenge == Some(ChallengeBy::Person)
    }

    /// Returns whether the execution is the commit of a rehearsal.
    fn commits_rehearsal(&self) -> bool {
        self.rehearsal.is_some_and(|head| head.committable)
    }
}

/// Checks whether an interrupted attempt may be begun again. A commit is journaled, so it is finished, however many attempts it takes.
fn may_retry(stage: &DraftState<'_>) -> bool {
    if stage.commits_rehearsal() {
        return stage.record.start_refusal().is_none();
    }
    stage.resolved_tool.idempotent
        && stage.record.attempts() < usize::from(stage.resolved_tool.limits.max_attempts)
        && stage.record.cancelled_by().is_none()
        && stage.record.start_refusal().is_none()
}

/// The source of a result: the tool, or a person in its place.
#[derive(Clone, Copy)]
enum ResultSource<'a> {
    Tool(&'a ExecutionEnd),
    Person(ContentRef),
}

impl ResultSource<'_> {
    const fn content(self) -> ContentRef {
        match self {
            Self::Tool(end) => end.output,
            Self::Person(output) => output,
        }
    }

    /// Returns the outcome with the output that is released.
    const fn released(self, output: ContentRef) -> Outcome {
        match self {
            Self::Person(_) => Outcome::Answered { output },
            Self::Tool(ExecutionEnd { status: ExecutionStatus::Succeeded, .. }) => {
                Outcome::Completed { output }
            }
            Self::Tool(_) => Outcome::Failed { output },
        }
    }

    /// Returns the outcome if the result is not released. The call of a person's result did not run.
    const fn withheld(self, refusal: Refusal) -> Outcome {
        match self {
            Self::Tool(_) => Outcome::Withheld(refusal),
            Self::Person(_) => Outcome::Refused(refusal),
        }
    }
}

/// Turns a result into an outcome, once it was reviewed and, if held, released.
///
/// Failures carry output too, so they are reviewed like successes. The text of a person is reviewed like the output of a tool.
fn release_result(record: &Record, source: ResultSource<'_>) -> Result<Outcome, Stop> {
    if let ResultSource::Tool(ExecutionEnd { status: ExecutionStatus::Unknown, .. }) = source {
        return Ok(Outcome::Unknown(Refusal::new(
            Code::Interrupted,
            "it is not known how the call ended; check whether it took effect",
        )));
    }
    let review = match record.output_review() {
        None => return Err(Stop::Do(Task::ReviewOutput)),
        Some(Err(refusal)) => return Ok(source.withheld(refusal.clone())),
        Some(Ok(review)) => review,
    };
    let output = review.replacement.unwrap_or(source.content());
    if !review.is_held() {
        return Ok(source.released(output));
    }
    let withheld = |code, why: String| Ok(source.withheld(Refusal::new(code, why)));
    let binding =
        Digest::compute_parts("byleave.release", &[record.call().as_bytes(), output.digest.as_bytes()]);
    let question = match record.release_question() {
        None => return Err(Stop::Do(Task::Ask(QuestionRequest { kind: QuestionKind::Release, binding }))),
        Some(Err(refusal)) => return Ok(source.withheld(refusal.clone())),
        Some(Ok(question)) => question,
    };
    let answered = match record.question_closure(question.id) {
        None => match record.cancelled_by() {
            None => return Err(Stop::Wait(question.clone())),
            Some(by) => {
                return withheld(Code::Cancelled, format!("cancelled by {by} while the result was held"));
            }
        },
        Some(QuestionClosure::Expired) => {
            return withheld(Code::OutputUnanswered, "nobody released the result in time".into());
        }
        Some(QuestionClosure::ApproverFailed(refusal)) => return Ok(source.withheld(refusal.clone())),
        Some(QuestionClosure::Answered { answer: answered, .. }) => answered,
    };
    match &answered.answer {
        Answer::Yes { .. } => Ok(source.released(output)),
        Answer::Edit { content, .. } => Ok(source.released(*content)),
        Answer::No { feedback } => {
            withheld(Code::OutputDeclined, decline_message(answered, feedback.as_deref()))
        }
        Answer::Abort => {
            withheld(Code::Aborted, format!("{} aborted the turn of this call", answered.approver.name))
        }
        Answer::StandingApproval(_) | Answer::Partial { .. } | Answer::Result { .. } => {
            withheld(Code::RecordBroken, "only a yes or an edit can release a result".into())
        }
    }
}

fn refuse(code: Code, why: impl Into<String>) -> Stop {
    Stop::Refuse(Refusal::new(code, why))
}

fn denial(ruling: &PolicyDecision) -> Refusal {
    let denies = || ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Deny);
    // An allow rule can move the boundary but not lift a deny, so a deny by a rule is reported first.
    let by_rule = denies().find(|reason| reason.cause != Some(AskCause::OutsideWorkspace));
    match by_rule.or_else(|| denies().next()) {
        None => Refusal::new(Code::Denied, "denied by the policy"),
        Some(reason) => {
            let rule = reason.rule.as_deref().map(|rule| format!(" (rule `{rule}`)")).unwrap_or_default();
            let code = by_rule.map_or(Code::OutsideWorkspace, |_| Code::Denied);
            Refusal::new(code, format!("{}{rule}", reason.message))
        }
    }
}

const fn declined_code(kind: QuestionKind) -> Code {
    match kind {
        QuestionKind::Checkpoint => Code::CheckpointRefused,
        QuestionKind::Approval | QuestionKind::Release => Code::Declined,
    }
}

fn decline_message(answered: &RecordedAnswer, feedback: Option<&str>) -> String {
    match feedback {
        None => format!("{} said no", answered.approver.name),
        Some(feedback) => format!("{} said no: {feedback}", answered.approver.name),
    }
}

/// Settles a damaged record. The rest of the record decides only if it is a refusal, because the damage may hide a run.
fn damaged_outcome(next: NextStep, damage: &ChainDamageError) -> Outcome {
    match next {
        // Another version of the pipeline may have continued where this one stops. Its refusal says nothing about later entries.
        NextStep::Settle(Outcome::Refused(refusal)) if refusal.code != Code::RecordVersionUnknown => {
            Outcome::Refused(refusal)
        }
        _ => Outcome::Unknown(Refusal::new(Code::RecordBroken, format!("the record is damaged: {damage}"))),
    }
}

/// Returns "refused" if nothing has begun. Otherwise it returns "unknown", whatever the refusal says.
fn refused_or_unknown(record: &Record, refusal: Refusal) -> Outcome {
    if record.attempts() == 0 { Outcome::Refused(refusal) } else { Outcome::Unknown(refusal) }
}

/// Returns whether everything so far must be durable on the record before this task is performed.
///
/// Execution is the only step that cannot be undone, so only it requires this. Pure permitted reads by a repeatable tool may run first and
/// be recorded once, before their output is released.
pub fn must_persist_before(record: &Record, task: &Task) -> bool {
    // A copy without a durable record would be unknown to the audit log.
    if matches!(task, Task::Rehearse) {
        return true;
    }
    let Task::Execute { grant, .. } = task else { return false };
    let Some(Ok(terms)) = record.resolved_tool() else { return true };
    let Some(Ok(plan)) = record.draft().and_then(|draft| draft.plan()) else { return true };
    !(terms.idempotent && plan.read_only && grant.granted_by() == GrantedBy::Rule)
}

impl Task {
    /// Returns the name of the task.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::EvaluatePolicy => "permit",
            Self::ReviewInput => "review input",
            Self::Challenge => "challenge",
            Self::StartRehearsal(_) => "open rehearsal",
            Self::Rehearse => "rehearse",
            Self::Ask(_) => "ask",
            Self::Start(_) => "begin",
            Self::Execute { .. } => "execute",
            Self::ReviewOutput => "review output",
        }
    }
}

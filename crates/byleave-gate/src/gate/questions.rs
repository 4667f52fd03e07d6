//! Opens, shows, delivers and answers questions.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::challenge::{Challenge, ChallengeBy, ChallengeSummary, ChallengeVerdict};
use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::digest::{Digest, canonical_json};
use byleave_core::effect::Effect;
use byleave_core::entry::{CallHeader, RecordEvent};
use byleave_core::id::{CallId, QuestionId, StandingApprovalId};
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::pipeline::QuestionRequest;
use byleave_core::question::{
    Answer, ApproverIdentity as By, Assurance, Question, QuestionKind, RecordedAnswer,
};
use byleave_core::question_view::{QuestionView, RehearsalView};
use byleave_core::record::QuestionClosure;
use byleave_core::refusal::{Code, FailureCause, Refusal, StageResult};
use byleave_core::rehearsal::{Rehearsal, RehearsalOutcome};
use byleave_core::render::{Rendering, is_truncated, render};
use byleave_core::standing_approval::{ANY_TOOL, StandingApproval, StandingApprovalMatcher};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approver::{Approver, ApproverError, Reply};
use crate::clock::fresh_id;
use crate::event::GateEvent;
use crate::gate::answer_error::AnswerError;
use crate::gate::inner::GateInner;
use crate::gate::person_result;
use crate::gate::run_context::run_parts;
use crate::gate::task_outcome::{content_refusal, resolve_pinned};
use crate::gate::working_record::WorkingRecord;
use crate::ledger::ContentError;
use crate::plugin_guard::{PluginFailure, guard};
use crate::settings::UnattendedAction;

/// Opens a question, if it can be answered and can be shown in full.
pub(crate) async fn open_question(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    asking: QuestionRequest,
) -> StageResult<Question> {
    check_answerer(parts, desk, asking.kind)?;
    check_can_run(parts, desk, asking.kind).await?;
    let terms = desk
        .resolved_tool()
        .ok_or_else(|| Refusal::new(Code::RecordBroken, "the record has no resolved tool"))?;
    let now = parts.now();
    let expires_at = now.saturating_add(terms.limits.question_timeout_ms);
    let id = QuestionId::new(fresh_id());
    let question = Question { id, kind: asking.kind, binding: asking.binding, expires_at };
    if let Some(heading) = desk.record.header()
        && !parts.in_flight.count_question(
            &heading.tenant,
            &heading.session,
            now,
            parts.settings.questions_per_minute,
        )
    {
        return Err(Refusal::new(
            Code::TooManyQuestions,
            format!(
                "this session asked more than {} questions in a minute",
                parts.settings.questions_per_minute
            ),
        ));
    }
    let sheet = question_view(parts, desk, &question).await.map_err(content_refusal)?;
    if let Some(why) = parts.in_flight.declined().get(&question_key(desk, &sheet)) {
        let why = format!("{why}; the same call is not asked about again in this session");
        return Err(Refusal::new(Code::Declined, why));
    }
    if looks_truncated(&sheet) {
        return Err(Refusal::new(
            Code::NotShownInFull,
            "the arguments contain a mark that a part of them was cut; make the call with the complete arguments",
        ));
    }
    if !render(&sheet).complete {
        return Err(Refusal::new(
            Code::NotShownInFull,
            "the call is too large to show to a person in full; make it smaller or split it",
        ));
    }
    Ok(question)
}

/// Checks whether the call can run at all, because nobody should be asked about a call that cannot.
///
/// A call that ran on a copy can run, unless the run showed that it cannot. A process without the tool cannot check it.
async fn check_can_run(parts: &GateInner, desk: &mut WorkingRecord, kind: QuestionKind) -> StageResult<()> {
    if kind == QuestionKind::Release {
        return Ok(());
    }
    if let Some(summary) = desk.record.draft().and_then(|draft| draft.rehearsal_summary()).cloned() {
        let rehearsal: Arc<Rehearsal> =
            desk.read_content(&*parts.ledger, summary.rehearsal).await.map_err(content_refusal)?;
        let plan = desk.plan(&*parts.ledger).await.map_err(content_refusal)?;
        return match rehearsal.cannot_work(&plan) {
            Some(why) => Err(Refusal::new(Code::CannotRun, why)),
            None => Ok(()),
        };
    }
    let Ok(entry) = resolve_pinned(parts, desk) else { return Ok(()) };
    let run = run_parts(parts, desk, None).await?.into_rehearsal_context(CancellationToken::new());
    let tool = entry.tool().clone();
    let answer = guard(parts.settings.plugin_timeout, move || async move { tool.can_run(run).await });
    answer.await.map_err(|broken| {
        let why = match broken {
            PluginFailure::Failed(fault) => fault.to_string(),
            other => format!("cannot find out whether the call can run: {other}"),
        };
        Refusal::new(Code::CannotRun, format!("the call cannot run here: {why}"))
    })
}

/// Computes the identity of a declined call: the same call in the same session, with the same effects on the same files.
///
/// The tenant is part of it, because session names are unique only within a tenant.
fn question_key(desk: &WorkingRecord, sheet: &QuestionView) -> Digest {
    let tenant = desk.record.header().map_or("", |heading| heading.tenant.as_str());
    let plan = serde_json::to_vec(&sheet.plan).unwrap_or_default();
    let arguments = canonical_json(&sheet.arguments);
    let parts: [&[u8]; 8] = [
        tenant.as_bytes(),
        sheet.session.as_str().as_bytes(),
        sheet.agent.as_str().as_bytes(),
        sheet.cwd.as_bytes(),
        sheet.resolved_tool.manifest.as_bytes(),
        &[sheet.question.kind as u8],
        arguments.as_bytes(),
        &plan,
    ];
    Digest::compute_parts("byleave.declined", &parts)
}

/// Returns the identity of a declined call, and the text for the next refusal.
///
/// A "no" through the inbox has the same effect as a "no" of a registered approver.
pub(crate) async fn decline_entry(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    question: &Question,
    reply: &Reply,
    by: &str,
) -> Option<(Digest, String)> {
    let why = decline_message(reply, by).filter(|_| question.kind == QuestionKind::Approval)?;
    // A call that can no longer be shown is refused before it could be asked about again.
    let sheet = question_view(parts, desk, question).await.ok()?;
    Some((question_key(desk, &sheet), why))
}

/// Remembers the "no" that ended a call. It may have been given through another gate, and the same call may come to this one again.
pub(crate) async fn remember_decline(parts: &GateInner, desk: &mut WorkingRecord) {
    let no = desk.record.entries().iter().rev().find_map(|entry| match &entry.event {
        RecordEvent::Answered(RecordedAnswer {
            question,
            answer: Answer::No { feedback },
            approver: by,
            ..
        }) => Some((*question, Reply::No { feedback: feedback.clone() }, by.name.clone())),
        _ => None,
    });
    let Some((question, reply, by)) = no else { return };
    let Some(question) = desk.record.question(question).cloned() else { return };
    if let Some((what, why)) = decline_entry(parts, desk, &question, &reply, &by).await {
        parts.in_flight.declined().put(what, why);
    }
}

fn decline_message(reply: &Reply, by: &str) -> Option<String> {
    let Reply::No { feedback } = reply else { return None };
    let words = feedback.as_ref().map(|feedback| format!(": {feedback}")).unwrap_or_default();
    Some(format!("{by} said no before{words}"))
}

/// Checks whether the call would run something whose text contains a count of omitted characters.
fn looks_truncated(sheet: &QuestionView) -> bool {
    let runs = |effect: &Effect| matches!(effect, Effect::Run { .. } | Effect::Unknown { .. });
    sheet.question.kind != QuestionKind::Release
        && sheet.plan.effects.iter().any(runs)
        && is_truncated(&sheet.arguments)
}

/// Checks whether the settings answer a question if there is no approver (R7).
///
/// Only a person may let a tool touch files outside the workspace (P4).
fn allows_unattended(parts: &GateInner, desk: &WorkingRecord, kind: QuestionKind) -> bool {
    let draft = desk.record.draft();
    let permitted = draft.as_ref().and_then(|draft| draft.decision()?.as_ref().ok());
    let rehearsed = draft.as_ref().and_then(|draft| draft.rehearsal_summary()?.decision.as_ref());
    let mut causes = permitted.into_iter().chain(rehearsed).flat_map(PolicyDecision::causes);
    kind == QuestionKind::Approval
        && parts.settings.unattended == UnattendedAction::AllowWithWarning
        && !causes.any(|cause| cause == AskCause::OutsideWorkspace)
}

fn check_answerer(parts: &GateInner, desk: &WorkingRecord, kind: QuestionKind) -> StageResult<()> {
    match kind {
        // A person who reads the inbox is a handler. `Gate::answer` accepts a release only from a person.
        QuestionKind::Checkpoint if parts.checkpoint.is_none() && !parts.settings.inbox => Err(Refusal::new(
            Code::NoCheckpoint,
            "a person must release this call in every mode, but nobody is here: run it at a terminal, or keep the question open with `--ask inbox` and release it with `byleave inbox`",
        )),
        QuestionKind::Checkpoint => Ok(()),
        QuestionKind::Approval if allows_unattended(parts, desk, kind) => Ok(()),
        QuestionKind::Approval | QuestionKind::Release => {
            if parts.approver.is_some() || parts.settings.inbox {
                return Ok(());
            }
            Err(Refusal::new(
                Code::NoApprover,
                "a person must answer, but there is no approver: run the call at a terminal, keep the question open with `--ask inbox` and answer with `byleave inbox`, use another approver, `--mode yolo`, or `--dry-run` to see its effects",
            ))
        }
    }
}

/// Reads the model's own reason for the call.
pub(crate) async fn model_reason(
    parts: &GateInner,
    desk: &mut WorkingRecord,
) -> Result<Option<String>, ContentError> {
    let Some(held) = desk.record.header().and_then(|heading| heading.reason) else { return Ok(None) };
    let text: Arc<Value> = desk.read_content(&*parts.ledger, held).await?;
    Ok(text.as_str().map(str::to_owned))
}

/// Builds the view with everything that a person must see to answer a question.
pub(crate) async fn question_view(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    question: &Question,
) -> Result<QuestionView, ContentError> {
    let arguments = desk.arguments(&*parts.ledger).await?;
    let plan = desk.plan(&*parts.ledger).await?;
    let challenge = desk.challenge(&*parts.ledger).await?;
    let reason = model_reason(parts, desk).await?;
    let output = match question.kind {
        QuestionKind::Release => Some((*desk.output(&*parts.ledger).await?).clone()),
        QuestionKind::Approval | QuestionKind::Checkpoint => None,
    };
    let heading = desk.record.header().cloned().ok_or(ContentError::Missing)?;
    let terms = desk.resolved_tool().cloned().ok_or(ContentError::Missing)?;
    let draft = desk.record.draft().ok_or(ContentError::Missing)?;
    let number = draft.number;
    let ruling =
        draft.decision().and_then(|step| step.as_ref().ok()).cloned().ok_or(ContentError::Missing)?;
    let notes = review_notes(desk, question.kind);
    let seen = match (draft.rehearsal_summary().cloned(), draft.rehearsal_outcome().cloned()) {
        (Some(summary), _) => {
            let rehearsal: Arc<Rehearsal> = desk.read_content(&*parts.ledger, summary.rehearsal).await?;
            Some(RehearsalView::Ran { rehearsal: (*rehearsal).clone(), decision: summary.decision })
        }
        (None, Some(RehearsalOutcome::Unavailable { reason })) => Some(RehearsalView::Unavailable { reason }),
        (None, _) => None,
    };
    let first_arguments = if number > 1 {
        let first: Arc<Value> = desk.read_content(&*parts.ledger, heading.arguments).await?;
        Some((*first).clone())
    } else {
        None
    };
    Ok(QuestionView {
        question: question.clone(),
        call: desk.call(),
        session: heading.session,
        agent: heading.agent,
        lineage: heading.lineage,
        cwd: heading.cwd,
        mode: heading.mode,
        resolved_tool: terms,
        draft: number,
        arguments: (*arguments).clone(),
        first_arguments,
        reason,
        plan: (*plan).clone(),
        decision: ruling,
        notes,
        challenge: challenge.map(|challenge| (*challenge).clone()),
        rehearsal: seen.filter(|_| question.kind != QuestionKind::Release),
        output,
    })
}

fn review_notes(desk: &WorkingRecord, kind: QuestionKind) -> Vec<byleave_core::review::ReviewNote> {
    let reviews = desk.record.entries().iter().filter_map(|entry| match (&entry.event, kind) {
        (RecordEvent::OutputReviewed(Ok(review)), QuestionKind::Release) => Some(review),
        (RecordEvent::Reviewed(Ok(review)), QuestionKind::Approval | QuestionKind::Checkpoint) => {
            Some(review)
        }
        _ => None,
    });
    reviews.flat_map(|review| review.notes.clone()).collect()
}

/// Delivers an open question to the approver, and returns what its reply adds to the record. Returns `None` if the question stays open for a
/// later answer.
pub(crate) async fn ask(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    question: &Question,
) -> Option<Vec<RecordEvent>> {
    let approver = match question.kind {
        QuestionKind::Checkpoint => parts.checkpoint.clone(),
        QuestionKind::Approval | QuestionKind::Release => parts.approver.clone(),
    };
    let Some(approver) = approver else {
        let may_pass = allows_unattended(parts, desk, question.kind) && !parts.settings.inbox;
        return may_pass.then(|| vec![unattended_answer(question)]);
    };
    let sheet = match question_view(parts, desk, question).await {
        Ok(sheet) => sheet,
        Err(fault) => {
            return Some(vec![RecordEvent::ApproverFailed {
                question: question.id,
                refusal: content_refusal(fault),
            }]);
        }
    };
    let left = Duration::from_millis(question.expires_at.saturating_sub(parts.now()));
    let limit = left.min(parts.settings.approver_timeout);
    let exactly = question_key(desk, &sheet);
    let (by, reply) = match approver_identity(&approver, limit).await {
        Ok(by) => (by, ask_approver(approver, sheet, limit).await),
        Err(broken) => (By { name: "unnamed".into(), assurance: Assurance::Program }, Err(broken)),
    };
    if let (Ok(Some(reply)), QuestionKind::Approval) = (&reply, question.kind)
        && let Some(why) = decline_message(reply, &by.name)
    {
        parts.in_flight.declined().put(exactly, why);
    }
    let remembered = match &reply {
        Ok(Some(reply)) => remembered_hosts(parts, desk, question, reply).await,
        Ok(None) | Err(_) => None,
    };
    let events = match reply {
        Ok(None) => return None,
        Ok(Some(reply)) => answer_events(desk, question, (reply, remembered), by.clone())
            .map_err(|why| (FailureCause::InvalidResponse, why.to_string())),
        Err((broke, why)) => Err((broke, why)),
    };
    Some(match events {
        Ok(events) => events,
        Err((FailureCause::Timeout, _)) if parts.now() >= question.expires_at => {
            vec![RecordEvent::Expired { question: question.id }]
        }
        Err((broke, why)) => {
            let why = format!("approver `{}` failed: {why}", by.name);
            vec![RecordEvent::ApproverFailed {
                question: question.id,
                refusal: Refusal::new(failure_code(question.kind), why).with_cause(broke),
            }]
        }
    })
}

/// Returns the standing approval that a plain yes becomes: for the hosts about which only rules with `remember` ask, until the session ends.
pub(crate) async fn remembered_hosts(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    question: &Question,
    reply: &Reply,
) -> Option<StandingApproval> {
    if question.kind != QuestionKind::Approval || !matches!(reply, Reply::Yes { note: None }) {
        return None;
    }
    let plan = desk.plan(&*parts.ledger).await.ok()?;
    if plan.irreversible || !plan.dangers.is_empty() {
        return None;
    }
    let policy = parts.policy.load_full();
    let draft = desk.record.draft()?;
    let decision = draft.decision()?.as_ref().ok()?;
    let asks = decision.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    let is_remembered = |reason: &&DecisionReason| {
        policy.rules().any(|rule| rule.remember && Some(&rule.id) == reason.rule.as_ref())
    };
    let (remembered, others): (Vec<_>, Vec<_>) = asks.partition(is_remembered);
    let mut scope = Vec::new();
    for place in remembered.iter().flat_map(|reason| &reason.effects) {
        // Sending is for one call. So is whatever another rule asks about.
        let Effect::Reach { host, port } = plan.effects.get(usize::try_from(*place).ok()?)? else {
            return None;
        };
        if others.iter().any(|reason| reason.effects.is_empty() || reason.effects.contains(place)) {
            return None;
        }
        let is_web = [0, 80, 443].contains(port);
        let pattern = Pattern::Reach(if is_web { host.clone() } else { format!("{host}:{port}") });
        if !scope.contains(&pattern) {
            scope.push(pattern);
        }
    }
    (!scope.is_empty()).then(|| StandingApproval {
        id: StandingApprovalId::new(fresh_id()),
        tool: ANY_TOOL.to_owned(),
        scope,
        session: desk.record.header().map(|header| header.session.clone()),
        expires_at: None,
        max_uses: None,
    })
}

/// Returns the events of a reply: the answer, and the case against the call if the person made it. `remembered` is what a plain yes becomes.
pub(crate) fn answer_events(
    desk: &mut WorkingRecord,
    question: &Question,
    (reply, remembered): (Reply, Option<StandingApproval>),
    approver: By,
) -> Result<Vec<RecordEvent>, AnswerError> {
    if let Reply::Result { .. } = reply {
        person_result::check_may_answer(question, &approver)?;
    }
    let mut challenged = None;
    let reply = match reply {
        Reply::YesWithChallenge { challenge, note } => {
            // A person who decides against the call says no.
            let challenge = Challenge { verdict: ChallengeVerdict::Proceed, ..challenge };
            if !challenge.is_complete() {
                let why = "the case against the call needs an assumption, a way in which it could fail, and a reason";
                return Err(AnswerError::InvalidAnswer(why.into()));
            }
            let challenge = desk.store_content(&challenge);
            challenged = Some(ChallengeSummary { challenge, verdict: ChallengeVerdict::Proceed });
            Reply::Yes { note }
        }
        reply => reply,
    };
    let is_needed = question.kind != QuestionKind::Release && needs_challenge(desk);
    let declines =
        matches!(reply, Reply::No { .. } | Reply::Abort | Reply::Edit { .. } | Reply::Result { .. });
    match (is_needed, &challenged) {
        (true, None) if !declines => {
            let why = "a yes to this call needs the case against it: what it assumes, how it could fail, and why it is right";
            return Err(AnswerError::InvalidAnswer(why.into()));
        }
        (false, Some(_)) => {
            let why = "nobody asked for the case against this call; answer with a plain yes";
            return Err(AnswerError::InvalidAnswer(why.into()));
        }
        _ => {}
    }
    let reply = match (reply, remembered) {
        (Reply::Yes { note: None }, Some(approval)) if challenged.is_none() => {
            Reply::StandingApproval(approval)
        }
        (reply, _) => reply,
    };
    let answer = reply_to_answer(desk, question, reply)?;
    let answered = RecordedAnswer { question: question.id, digest: question.digest(), answer, approver };
    let challenged = challenged.map(|summary| RecordEvent::Challenged(Ok(summary)));
    Ok(std::iter::once(RecordEvent::Answered(answered)).chain(challenged).collect())
}

/// Checks whether the person who answers must make the case against the call.
fn needs_challenge(desk: &WorkingRecord) -> bool {
    let draft = desk.record.draft();
    let decision = draft.as_ref().and_then(|draft| draft.decision()?.as_ref().ok());
    decision.is_some_and(|decision| decision.challenge == Some(ChallengeBy::Person))
}

const fn failure_code(kind: QuestionKind) -> Code {
    match kind {
        QuestionKind::Checkpoint => Code::CheckpointFailed,
        QuestionKind::Approval | QuestionKind::Release => Code::ApproverFailed,
    }
}

/// Asks the approver for its name, which is foreign code as well.
async fn approver_identity(
    approver: &Arc<dyn Approver>,
    limit: Duration,
) -> Result<By, (FailureCause, String)> {
    let identity = || {
        let by = By { name: approver.name().to_owned(), assurance: approver.assurance() };
        std::future::ready(Ok::<_, ApproverError>(by))
    };
    guard(limit, identity).await.map_err(failure)
}

fn failure(broken: PluginFailure<ApproverError>) -> (FailureCause, String) {
    match broken {
        PluginFailure::Failed(ApproverError::InvalidResponse(why)) => (FailureCause::InvalidResponse, why),
        PluginFailure::Failed(fault @ (ApproverError::Failed(_) | ApproverError::Later)) => {
            (FailureCause::Error, fault.to_string())
        }
        PluginFailure::Panicked(why) => (FailureCause::Panic, format!("panicked: {why}")),
        PluginFailure::TimedOut(limit) => (FailureCause::Timeout, format!("took longer than {limit:?}")),
    }
}

/// Returns the reply of an approver, or `None` if the question stays open for a later answer.
async fn ask_approver(
    approver: Arc<dyn Approver>,
    sheet: QuestionView,
    limit: Duration,
) -> Result<Option<Reply>, (FailureCause, String)> {
    let rendering: Rendering = render(&sheet);
    if !rendering.complete {
        return Err((FailureCause::Error, "the question cannot be shown in full".into()));
    }
    let answer = guard(limit, move || async move { approver.ask(&sheet, &rendering).await }).await;
    match answer {
        Err(PluginFailure::Failed(ApproverError::Later)) => Ok(None),
        answer => answer.map(Some).map_err(failure),
    }
}

fn unattended_answer(question: &Question) -> RecordEvent {
    tracing::warn!(question = %question.id, "there is no approver; allowed by the settings");
    let note = Some("there was no approver; allowed with a warning by the settings".into());
    RecordEvent::Answered(RecordedAnswer {
        question: question.id,
        digest: question.digest(),
        answer: Answer::Yes { note },
        approver: By { name: "unattended".into(), assurance: Assurance::Program },
    })
}

/// Converts a reply into an answer for the record. Contents are stored under the key of the record.
fn reply_to_answer(
    desk: &mut WorkingRecord,
    question: &Question,
    reply: Reply,
) -> Result<Answer, AnswerError> {
    let unusable = |why: &str| Err(AnswerError::InvalidAnswer(why.to_owned()));
    Ok(match reply {
        // The case was taken out before.
        Reply::Yes { note } | Reply::YesWithChallenge { note, .. } => Answer::Yes { note },
        Reply::No { feedback } => Answer::No { feedback },
        Reply::Abort => Answer::Abort,
        Reply::Result { text } => person_result::store(desk, text)?,
        Reply::Edit { value, note } if question.kind == QuestionKind::Release => {
            let Ok(output) = serde_json::from_value::<Output>(value) else {
                return unusable("an edited result must be an object with at least `text`");
            };
            Answer::Edit { content: desk.store_content(&output), note }
        }
        Reply::Edit { value, note } => {
            if !value.is_object() {
                return unusable("edited arguments must be an object");
            }
            Answer::Edit { content: desk.store_json(&value), note }
        }
        Reply::Partial { paths, note } => {
            if paths.is_empty() {
                return unusable("a partial yes must name at least one path; to keep nothing, answer no");
            }
            Answer::Partial { paths: desk.store_content(&paths), note }
        }
        Reply::StandingApproval(leave) => {
            if question.kind != QuestionKind::Approval {
                return unusable("a standing approval cannot answer a checkpoint or release a result");
            }
            if desk.resolved_tool().is_none_or(|terms| !leave.is_for_tool(&terms.tool)) {
                return unusable("a standing approval must be for the tool that asks, or for every tool");
            }
            if leave.scope.is_empty() {
                return unusable("a standing approval must name at least one effect");
            }
            if let Err(bad) = StandingApprovalMatcher::new(leave.clone()) {
                return unusable(&bad.to_string());
            }
            Answer::StandingApproval(leave)
        }
    })
}

/// An answer from outside to an open question in the audit log.
#[derive(Clone, Debug)]
pub struct SubmittedAnswer {
    /// The question.
    pub question: QuestionId,
    /// [`Question::digest`] of the question as it was shown.
    pub digest: Digest,
    /// The reply.
    pub reply: Reply,
    /// The approver who answers.
    pub approver: By,
}

/// Checks that a person releases a checkpoint. Everyone else can only decline it.
pub(crate) fn check_release(question: &Question, given: &SubmittedAnswer) -> Result<(), AnswerError> {
    let declines = matches!(given.reply, Reply::No { .. } | Reply::Abort);
    let may_release = declines || given.approver.assurance.is_person();
    if question.kind == QuestionKind::Checkpoint && !may_release {
        return Err(AnswerError::NotPerson { action: "release a checkpoint" });
    }
    Ok(())
}

/// Returns the approval event (R6) once the question about a plan was closed.
pub(crate) async fn approval_event(
    parts: &GateInner,
    desk: &mut WorkingRecord,
    facts: &[RecordEvent],
) -> Option<GateEvent> {
    let question = facts.iter().find_map(|fact| match fact {
        RecordEvent::Answered(answered) => Some(answered.question),
        RecordEvent::Expired { question } | RecordEvent::ApproverFailed { question, .. } => Some(*question),
        _ => None,
    })?;
    if desk.record.question(question)?.kind == QuestionKind::Release {
        return None;
    }
    let approved = match desk.record.question_closure(question)? {
        QuestionClosure::Answered { answer: answered, .. } => {
            matches!(
                answered.answer,
                Answer::Yes { .. }
                    | Answer::Partial { .. }
                    | Answer::StandingApproval(_)
                    | Answer::Edit { .. }
            )
        }
        QuestionClosure::Expired | QuestionClosure::ApproverFailed(_) => false,
    };
    let tool = desk.resolved_tool()?.tool.clone();
    let parameters = desk.arguments(&*parts.ledger).await.ok()?;
    Some(GateEvent::ToolApproval { call: desk.call(), tool, parameters, approved })
}

/// Checks whether the name is that of the asking agent or of an ancestor. They want the call to run, so they may not approve it.
pub(crate) fn is_caller(heading: &CallHeader, name: &str) -> bool {
    let mut agents = heading.lineage.iter().map(|opening| &opening.agent).chain([&heading.agent]);
    agents.any(|agent| agent.as_str() == name)
}

/// Returns the call that an open question belongs to.
pub(crate) async fn call_for_question(
    parts: &GateInner,
    question: QuestionId,
) -> Result<CallId, AnswerError> {
    parts.ledger.call_for_question(question).await?.ok_or(AnswerError::UnknownQuestion(question))
}

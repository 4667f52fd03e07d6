//! Accepts an answer after checking its author and what was shown. The API and the pages both use it.

use byleave_gate::approver::Reply;
use byleave_gate::clock::{Clock as _, SystemClock, fresh_id};
use byleave_gate::core::approval_scopes::{ApprovalLimits, approval_for_question, approval_scopes};
use byleave_gate::core::challenge::{Challenge, ChallengeVerdict};
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{CallId, QuestionId, StandingApprovalId};
use byleave_gate::core::question::{ApproverIdentity, Assurance, QuestionKind};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::refusal::{Code, Refusal};
use byleave_gate::core::render::{QuestionCard, render};
use byleave_gate::core::standing_approval::StandingApproval;
use byleave_gate::gate::{AnswerError, SubmittedAnswer};

use crate::api_types::{AnswerChoice, ChallengeBody, check_length};
use crate::caller::Caller;
use crate::principal::{AccessScope, PrincipalKind};
use crate::problem::{Problem, ProblemKind};
use crate::tenant::Tenant;

/// The word to type for a checkpoint.
const RELEASE: &str = "release";
const LASTS_S_MAX: u32 = 31_622_400;
const PATHS_MAX: usize = 10_000;
const CHALLENGE_ITEMS_MAX: usize = 100;
const RESULT_CHARS_MAX: usize = 100_000;
/// The maximum number of questions whose short texts are kept.
const SHORT_TEXTS_MAX: usize = 1_000;

/// An answer that is on the record.
pub(crate) struct AcceptedAnswer {
    pub(crate) call: CallId,
    /// Whether the call was accepted here, and is continued.
    pub(crate) is_driven_here: bool,
}

/// Gives an answer to a question in the version that was shown, identified by its digest.
pub(crate) async fn submit_answer(
    caller: &Caller,
    question: QuestionId,
    digest: Digest,
    answer: AnswerChoice,
) -> Result<AcceptedAnswer, Problem> {
    caller.require_scope(&[AccessScope::Answer])?;
    let sheet = open_question_view(caller, question).await?;
    if digest != sheet.question.digest() {
        return Err(AnswerError::Mismatch.into());
    }
    if sheet.agent.as_str() == caller.name() {
        return Err(AnswerError::SelfAnswer.into());
    }
    let grade = match caller.principal.kind {
        PrincipalKind::Person => Assurance::Web,
        PrincipalKind::Agent => Assurance::Program,
    };
    let given = SubmittedAnswer {
        question,
        digest,
        reply: reply(caller, answer, &sheet)?,
        approver: ApproverIdentity { name: caller.name().to_owned(), assurance: grade },
    };
    let call = caller.tenant.gate.answer(given).await?;
    let driven_here = caller.is_driven_here(&sheet);
    if driven_here {
        // The answer is on the record, so it is valid even if there is no room to continue immediately.
        drop(caller.tenant.resume_call(call));
    }
    Ok(AcceptedAnswer { call, is_driven_here: driven_here })
}

/// Returns the question view of an open question of this tenant.
pub(crate) async fn open_question_view(
    caller: &Caller,
    question: QuestionId,
) -> Result<QuestionView, Problem> {
    let call = caller
        .tenant
        .ledger
        .call_for_question(question)
        .await?
        .ok_or_else(|| Problem::not_found("question"))?;
    let record = caller.tenant.record(call).await?;
    let heading = record.as_ref().and_then(|record| record.header());
    if heading.is_none_or(|heading| heading.tenant != *caller.tenant.id()) {
        return Err(Problem::not_found("question"));
    }
    Ok(caller.tenant.gate.question_view(question).await?)
}

/// Returns an open question in one line, as its card says it. `None` if it cannot be read.
pub(crate) async fn short_text(tenant: &Tenant, question: QuestionId) -> Option<String> {
    if let Some(known) = tenant.short_texts.lock().get(&question) {
        return Some(known.clone());
    }
    let view = tenant.gate.question_view(question).await.ok()?;
    let text = QuestionCard::new(&view).short_text();
    let mut known = tenant.short_texts.lock();
    // A question never changes, so old ones only take room.
    if known.len() >= SHORT_TEXTS_MAX {
        known.clear();
    }
    known.insert(question, text.clone());
    Some(text)
}

fn reply(caller: &Caller, answer: AnswerChoice, sheet: &QuestionView) -> Result<Reply, Problem> {
    let simple = matches!(answer, AnswerChoice::Yes { .. } | AnswerChoice::No { .. });
    let approves = matches!(
        answer,
        AnswerChoice::Yes { .. } | AnswerChoice::Partial { .. } | AnswerChoice::StandingApproval { .. }
    );
    if caller.principal.kind == PrincipalKind::Agent
        && (!simple || sheet.question.kind == QuestionKind::Checkpoint)
    {
        let what = "an agent can only answer yes or no, and cannot pass a checkpoint; a person must answer";
        return Err(Problem::new(ProblemKind::Forbidden, what));
    }
    if approves && !render(sheet).complete {
        let refusal = Refusal::new(
            Code::NotShownInFull,
            "the question cannot be shown in full, so it cannot be approved",
        );
        return Err(Problem::refused(ProblemKind::Unusable.status(), &refusal));
    }
    let noted = |note: Option<String>| {
        note.as_deref().map_or(Ok(()), |note| check_length("note", note, 0, 4_000))?;
        Ok::<_, Problem>(note)
    };
    Ok(match answer {
        AnswerChoice::Yes { note, confirm, challenge } => {
            if sheet.question.kind == QuestionKind::Checkpoint && confirm.as_deref() != Some(RELEASE) {
                let what = "this question is a checkpoint; set `confirm` to `release` to pass it";
                return Err(Problem::new(ProblemKind::Unusable, what));
            }
            let note = noted(note)?;
            match challenge.map(challenge_of).transpose()? {
                None => Reply::Yes { note },
                Some(challenge) => Reply::YesWithChallenge { challenge, note },
            }
        }
        AnswerChoice::No { feedback } => Reply::No { feedback: noted(feedback)? },
        AnswerChoice::Edit { value, note } => Reply::Edit { value: value.into(), note: noted(note)? },
        AnswerChoice::Partial { paths, .. } if paths.is_empty() || paths.len() > PATHS_MAX => {
            return Err(Problem::new(
                ProblemKind::Unusable,
                format!("`paths` must have 1 to {PATHS_MAX} paths"),
            ));
        }
        AnswerChoice::Partial { paths, note } => {
            Reply::Partial { paths: parts(&paths, sheet)?, note: noted(note)? }
        }
        AnswerChoice::StandingApproval {
            scope: offer,
            lifetime_s: lasts_s,
            max_uses: uses_max,
            every_session,
        } => {
            Reply::StandingApproval(build_standing_approval(sheet, offer, lasts_s, uses_max, every_session)?)
        }
        AnswerChoice::Result { text } => {
            check_length("text", &text, 1, RESULT_CHARS_MAX)?;
            Reply::Result { text }
        }
        AnswerChoice::Abort {} => Reply::Abort,
    })
}

/// Returns the case against a call. The gate checks that it is complete.
fn challenge_of(body: ChallengeBody) -> Result<Challenge, Problem> {
    let ChallengeBody { assumptions, failure_scenarios, reason } = body;
    if assumptions.len().max(failure_scenarios.len()) > CHALLENGE_ITEMS_MAX {
        let what = format!("a challenge must have at most {CHALLENGE_ITEMS_MAX} items in each list");
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    for text in assumptions.iter().chain(&failure_scenarios).chain([&reason]) {
        check_length("challenge", text, 1, 4_000)?;
    }
    Ok(Challenge { assumptions, failure_scenarios, verdict: ChallengeVerdict::Proceed, reason })
}

/// Returns the paths to keep. A path without a change is an error, because it would keep nothing.
fn parts(paths: &[String], sheet: &QuestionView) -> Result<Vec<String>, Problem> {
    let part = |path: &String| {
        let what =
            || Problem::new(ProblemKind::Unusable, format!("the rehearsal changed nothing at `{path}`"));
        sheet.rehearsed_path(path).ok_or_else(what)
    };
    paths.iter().map(part).collect()
}

/// Creates the standing approval of an answer. A lifetime of 0 means until it is revoked.
pub(crate) fn build_standing_approval(
    sheet: &QuestionView,
    offer: u32,
    lasts_s: u32,
    uses_max: Option<u32>,
    every_session: bool,
) -> Result<StandingApproval, Problem> {
    let unusable = |what: String| Problem::new(ProblemKind::Unusable, what);
    if lasts_s > LASTS_S_MAX || uses_max == Some(0) || offer == 0 {
        return Err(unusable(format!(
            "the scope and the number of uses of a standing approval must be at least 1, and its lifetime at most {LASTS_S_MAX} seconds"
        )));
    }
    let offers = approval_scopes(sheet).map_err(|why| unusable(why.to_string()))?;
    let place = usize::try_from(offer.saturating_sub(1)).unwrap_or(usize::MAX);
    let chosen = offers.into_iter().nth(place);
    let chosen = chosen.ok_or_else(|| unusable(format!("the question does not offer the scope {offer}")))?;
    let limits = ApprovalLimits {
        lifetime_ms: (lasts_s > 0).then(|| u64::from(lasts_s) * 1_000),
        max_uses: uses_max,
        every_session,
    };
    let id = StandingApprovalId::new(fresh_id());
    Ok(approval_for_question(id, sheet, chosen.patterns, limits, SystemClock.now()))
}

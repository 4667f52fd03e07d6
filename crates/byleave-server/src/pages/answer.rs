//! Answers from a page. An answer is valid only for a question that was shown in this session, for long enough to be read.

use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::State;
use axum::extract::{FromRequest as _, Request};
use axum::response::Redirect;
use byleave_gate::approver::RiskLevel;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::redact::redact_output;
use byleave_gate::result::CallStatus;
use serde_json::Value;
use tokio::time::Instant;

use super::edit;
use super::error_page::ErrorPage;
use super::form::{CsrfForm, FormFields};
use super::signed_in_user::SignedInUser;
use crate::api_types::{AnswerChoice, ChallengeBody};
use crate::browser_sessions::PageNotice;
use crate::extract::PathId;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::submit_answer;
use crate::tenant::ClientCallStatus;

/// How long to wait for the decision on edited arguments, to show the next question immediately.
const JUDGED: Duration = Duration::from_secs(4);

/// Accepts an answer.
pub(super) async fn submit(State(app): State<App>, request: Request) -> Result<Redirect, ErrorPage> {
    let (mut parts, body) = request.into_parts();
    let PathId(question) = PathId::<QuestionId>::from_request_parts(&mut parts, &app).await?;
    let CsrfForm { user: visitor, fields } =
        CsrfForm::from_request(Request::from_parts(parts, body), &app).await?;
    visitor.require_scope(&[AccessScope::Answer])?;
    let sheet = submit_answer::open_question_view(&visitor.caller, question).await?;
    let digest = digest(fields.require("digest")?)?;
    let kind = fields.require("answer")?;
    let answer = answer(&sheet, kind, &fields)?;
    let approves = !matches!(answer, AnswerChoice::No { .. } | AnswerChoice::Abort {});
    if approves {
        check_read_time(&visitor, &sheet, digest)?;
    }
    if matches!(
        answer,
        AnswerChoice::Yes { .. } | AnswerChoice::Partial { .. } | AnswerChoice::StandingApproval { .. }
    ) {
        check_confirmation(&sheet, &fields)?;
    }
    let answered = submit_answer::submit_answer(&visitor.caller, question, digest, answer).await?;
    visitor
        .session
        .set_notice(PageNotice { text: describe_answer(kind).to_owned(), call: Some(answered.call) });
    if kind == "edit" && answered.is_driven_here {
        // Edited arguments are decided on again. The person who edited them sees the outcome.
        let until = Instant::now() + JUDGED;
        let stood = visitor.caller.tenant.wait_for_question_or_result(answered.call, until).await;
        if let Some(ClientCallStatus::Status(standing)) = stood
            && let CallStatus::Waiting { question, .. } = *standing
        {
            return Ok(Redirect::to(&format!("/questions/{}", question.id)));
        }
    }
    Ok(Redirect::to("/"))
}

/// Parses the digest of a question from a form.
pub(super) fn digest(text: &str) -> Result<Digest, Problem> {
    let wrong = |_| {
        Problem::new(ProblemKind::Unusable, "the form has no valid question digest; open the question again")
    };
    serde_json::from_value(text.into()).map_err(wrong)
}

/// Rejects an answer to a question that this session was not shown, or not for long enough to be read.
pub(super) fn check_read_time(
    visitor: &SignedInUser,
    sheet: &QuestionView,
    digest: Digest,
) -> Result<(), Problem> {
    match visitor.session.time_since_shown(sheet.question.id, digest) {
        None => Err(Problem::new(
            ProblemKind::Closed,
            "you have not seen the current version of this question; open it again",
        )),
        Some(since) if since < RiskLevel::for_question(sheet).min_read_time() => Err(Problem::new(
            ProblemKind::TooMany,
            "the answer came too fast to have read the question, so it was not accepted; read it again",
        )),
        Some(_) => Ok(()),
    }
}

/// Rejects a yes without the required words.
pub(super) fn check_confirmation(sheet: &QuestionView, fields: &FormFields) -> Result<(), Problem> {
    let wanted = RiskLevel::for_question(sheet).confirmation_phrase(sheet.question.kind);
    if wanted.is_none() || fields.single("confirm") == wanted {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::Unusable,
        "the confirmation text is wrong, so the question was not answered; type the text as shown",
    ))
}

fn answer(sheet: &QuestionView, kind: &str, fields: &FormFields) -> Result<AnswerChoice, Problem> {
    let number = |name: &str| {
        let wrong = |_| Problem::new(ProblemKind::Unusable, format!("`{name}` is not a number"));
        fields.require(name)?.parse::<u32>().map_err(wrong)
    };
    let some = |number: u32| (number > 0).then_some(number);
    Ok(match kind {
        // The words for a checkpoint were checked above, and are checked again in the common path of all answers.
        "yes" => AnswerChoice::Yes {
            note: None,
            confirm: fields.text("confirm"),
            challenge: challenge(sheet, fields)?,
        },
        "no" => AnswerChoice::No { feedback: fields.text("feedback") },
        "edit" => AnswerChoice::Edit { value: edit::parse_fields(sheet, fields)?, note: None },
        "mask" => AnswerChoice::Edit {
            value: masked(sheet, fields.single("words").unwrap_or_default())?,
            note: None,
        },
        "partial" => AnswerChoice::Partial { paths: kept(sheet, fields)?, note: None },
        "standing-approval" => AnswerChoice::StandingApproval {
            scope: number("scope")?,
            lifetime_s: number("lifetime_s")?,
            max_uses: some(number("uses")?),
            every_session: fields.require("sessions")? == "all",
        },
        "result" => AnswerChoice::Result { text: fields.text("result").unwrap_or_default() },
        "abort" => AnswerChoice::Abort {},
        _ => return Err(Problem::new(ProblemKind::Unusable, "the form has an unknown answer")),
    })
}

/// Returns the case against the call, if the question needs it.
fn challenge(sheet: &QuestionView, fields: &FormFields) -> Result<Option<ChallengeBody>, Problem> {
    if !sheet.needs_challenge() {
        return Ok(None);
    }
    let text = |name: &str| {
        let missing = || Problem::new(ProblemKind::Unusable, "the case against the call is not complete");
        fields.text(name).filter(|text| !text.trim().is_empty()).ok_or_else(missing)
    };
    Ok(Some(ChallengeBody {
        assumptions: vec![text("assumption")?],
        failure_scenarios: vec![text("failure")?],
        reason: text("reason")?,
    }))
}

/// Returns the paths of the changes to keep. The form has their indexes in the list.
fn kept(sheet: &QuestionView, fields: &FormFields) -> Result<Vec<String>, Problem> {
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.rehearsal else {
        return Err(Problem::new(ProblemKind::Unusable, "this question has no changes to choose from"));
    };
    let wrong = || Problem::new(ProblemKind::Unusable, "the selected change does not exist");
    let place = |text: &str| {
        let place: usize = text.parse().map_err(|_| wrong())?;
        Ok::<_, Problem>(rehearsal.changes.list.get(place).ok_or_else(wrong)?.path.clone())
    };
    fields.all("keep").map(place).collect()
}

/// Returns the held result with secrets and these words masked.
fn masked(sheet: &QuestionView, words: &str) -> Result<serde_json::Map<String, Value>, Problem> {
    let unusable = |what: &str| Problem::new(ProblemKind::Unusable, what);
    let output = sheet.output.as_ref().ok_or_else(|| unusable("there is no result to mask"))?;
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let redacted = redact_output(output, &words);
    if !redacted.missing_words.is_empty() {
        return Err(unusable(
            "a word to mask is not in the result, so the question was not answered; correct the words",
        ));
    }
    if redacted.masked_count == 0 {
        return Err(unusable(
            "no secret was detected in the result; enter the words to mask, or edit the result",
        ));
    }
    match serde_json::to_value(&redacted.output) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(unusable("the masked result cannot be encoded")),
    }
}

fn describe_answer(kind: &str) -> &'static str {
    match kind {
        "yes" => "You said yes.",
        "no" => "You said no.",
        "edit" => "You sent an edited version.",
        "mask" => "You released the masked result.",
        "partial" => "You applied some of the changes.",
        "standing-approval" => "You gave a standing approval.",
        "result" => "You answered in the place of the tool.",
        _ => "You aborted the turn.",
    }
}

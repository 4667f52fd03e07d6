//! Questions: listed, shown in full, answered. An answer repeats the digest of what was shown, and stands under the name of
//! who gave it.

use axum::extract::State;
use axum::response::Response;
use byleave::approve::Reply;
use byleave::book::QuestionFilter;
use byleave::clock::{Clock as _, SystemClock, fresh_id};
use byleave::core::digest::Digest;
use byleave::core::id::{LeaveId, QuestionId};
use byleave::core::leave::Leave;
use byleave::core::offer::offers;
use byleave::core::question::{Approver, Grade, QuestionKind};
use byleave::core::refusal::{Code, Refusal};
use byleave::core::render::render;
use byleave::core::sheet::Sheet;
use byleave::gate::{AnswerFault, GivenAnswer};
use tokio::time::Instant;

use super::book::page;
use super::calls::{said, unstarted};
use crate::app::App;
use crate::body::{Asked, Given, Id, Said};
use crate::caller::Caller;
use crate::principal::{Kind, Scope};
use crate::problem::{Problem, Trouble};
use crate::wire::{
    Answer, AnswerBody, CallStanding, OpenQuestion, PageQuery, QuestionList, QuestionSheet, bounded,
};

/// What is typed to pass a checkpoint.
const RELEASE: &str = "release";
const LASTS_S_MAX: u32 = 31_622_400;
const PATHS_MAX: usize = 10_000;

/// List open questions
#[utoipa::path(
    get, path = "/v1/questions", tag = "questions",
    params(PageQuery),
    responses((status = 200, body = QuestionList, description = "Open questions, the newest first")),
)]
pub(super) async fn list(
    State(_app): State<App>,
    caller: Caller,
    Asked(query): Asked<PageQuery>,
) -> Result<Said<QuestionList>, Problem> {
    caller.may(&[Scope::Answer, Scope::Read])?;
    let page = page(query.limit, query.after)?;
    let filter = QuestionFilter { tenant: Some(caller.tenancy.id().clone()), ..QuestionFilter::default() };
    let items = caller.tenancy.book.questions(filter, page).await?;
    Ok(Said(QuestionList { questions: items.iter().map(OpenQuestion::from).collect() }))
}

/// See a question in full
///
/// With true contents. Whoever shows it to a person shows all lines.
#[utoipa::path(
    get, path = "/v1/questions/{question}", tag = "questions",
    params(("question" = uuid::Uuid, Path, description = "The question")),
    responses(
        (status = 200, body = QuestionSheet, description = "The question"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such question"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It can no longer be answered"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be shown"),
    ),
)]
pub(super) async fn show(
    State(_app): State<App>,
    caller: Caller,
    Id(question): Id<QuestionId>,
) -> Result<Said<QuestionSheet>, Problem> {
    caller.may(&[Scope::Answer])?;
    let sheet = sheet(&caller, question).await?;
    Ok(Said(QuestionSheet::from(&sheet)))
}

/// Answer a question
///
/// The digest is that of the question as it was shown. Nobody answers what stands under their own name. An agent answers yes or
/// no, and as a program: checkpoints, leaves and everything else are for people.
#[utoipa::path(
    post, path = "/v1/questions/{question}/answer", tag = "questions",
    params(("question" = uuid::Uuid, Path, description = "The question")),
    request_body = AnswerBody,
    responses(
        (status = 200, body = CallStanding, description = "It was answered, and its call is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStanding, description = "It was answered, and its call goes on",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such question"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body took too long"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The digest is another's, or it can no longer be answered"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be answered so"),
    ),
)]
pub(super) async fn answer(
    State(_app): State<App>,
    caller: Caller,
    Id(question): Id<QuestionId>,
    Given(body): Given<AnswerBody>,
) -> Result<Response, Problem> {
    caller.may(&[Scope::Answer])?;
    let digest = digest(&body.digest)?;
    let sheet = sheet(&caller, question).await?;
    if digest != sheet.question.digest() {
        return Err(AnswerFault::Mismatch.into());
    }
    if sheet.agent.as_str() == caller.name() {
        return Err(AnswerFault::OwnQuestion.into());
    }
    let grade = match caller.principal.kind {
        Kind::Person => Grade::Web,
        Kind::Agent => Grade::Program,
    };
    let given = GivenAnswer {
        question,
        digest,
        reply: reply(&caller, body.answer, &sheet)?,
        by: Approver { name: caller.name().to_owned(), grade },
    };
    let call = caller.tenancy.gate.answer(given).await?;
    // It is on the record, so it counts whether or not there is room to go on at once.
    if caller.is_driven_here(&sheet) {
        drop(caller.tenancy.go_on(call));
        return said(call, &caller.tenancy.stands(call, Instant::now()).await.map_err(unstarted)?);
    }
    said(call, &crate::tenancy::Stood::Running)
}

/// The sheet of an open question of this tenant.
async fn sheet(caller: &Caller, question: QuestionId) -> Result<Sheet, Problem> {
    let call =
        caller.tenancy.ledger.call_of(question).await?.ok_or_else(|| Problem::not_found("question"))?;
    let record = caller.tenancy.record(call).await?;
    let heading = record.as_ref().and_then(|record| record.heading());
    if heading.is_none_or(|heading| heading.tenant != *caller.tenancy.id()) {
        return Err(Problem::not_found("question"));
    }
    Ok(caller.tenancy.gate.sheet(question).await?)
}

fn digest(text: &str) -> Result<Digest, Problem> {
    let wrong = |_| Problem::new(Trouble::Unusable, "`digest` has 64 small hexadecimal digits");
    serde_json::from_value(text.into()).map_err(wrong)
}

fn reply(caller: &Caller, answer: Answer, sheet: &Sheet) -> Result<Reply, Problem> {
    let simple = matches!(answer, Answer::Yes { .. } | Answer::No { .. });
    let approves = !matches!(answer, Answer::No { .. } | Answer::Abort {} | Answer::Edit { .. });
    if caller.principal.kind == Kind::Agent && (!simple || sheet.question.kind == QuestionKind::Checkpoint) {
        let what = "an agent answers yes or no, and no checkpoint: the rest is for people";
        return Err(Problem::new(Trouble::Forbidden, what));
    }
    if approves && !render(sheet).complete {
        let refusal =
            Refusal::new(Code::NotShownInFull, "it cannot be shown in full, so it cannot be approved");
        return Err(Problem::refused(Trouble::Unusable.status(), &refusal));
    }
    let noted = |note: Option<String>| {
        note.as_deref().map_or(Ok(()), |note| bounded("note", note, 0, 4_000))?;
        Ok::<_, Problem>(note)
    };
    Ok(match answer {
        Answer::Yes { note, confirm } => {
            if sheet.question.kind == QuestionKind::Checkpoint && confirm.as_deref() != Some(RELEASE) {
                let what = "this is a checkpoint: it is passed with `confirm` saying `release`";
                return Err(Problem::new(Trouble::Unusable, what));
            }
            Reply::Yes { note: noted(note)? }
        }
        Answer::No { feedback } => Reply::No { feedback: noted(feedback)? },
        Answer::Edit { value, note } => Reply::Edit { value: value.into(), note: noted(note)? },
        Answer::Part { paths, .. } if paths.is_empty() || paths.len() > PATHS_MAX => {
            return Err(Problem::new(Trouble::Unusable, format!("`paths` has 1 to {PATHS_MAX} paths")));
        }
        Answer::Part { paths, note } => Reply::Part { paths, note: noted(note)? },
        Answer::Leave { offer, lasts_s, uses_max, this_session } => {
            Reply::Leave(leave(sheet, offer, lasts_s, uses_max, this_session)?)
        }
        Answer::Abort {} => Reply::Abort,
    })
}

fn leave(
    sheet: &Sheet,
    offer: u32,
    lasts_s: Option<u32>,
    uses_max: Option<u32>,
    this_session: bool,
) -> Result<Leave, Problem> {
    let unusable = |what: String| Problem::new(Trouble::Unusable, what);
    if lasts_s.is_some_and(|seconds| !(1..=LASTS_S_MAX).contains(&seconds))
        || uses_max == Some(0)
        || offer == 0
    {
        return Err(unusable("a leave lasts for a while, and is used at least once".to_owned()));
    }
    let offers = offers(sheet).map_err(|why| unusable(why.to_string()))?;
    let place = usize::try_from(offer.saturating_sub(1)).unwrap_or(usize::MAX);
    let chosen = offers.into_iter().nth(place);
    let chosen = chosen.ok_or_else(|| unusable(format!("there is no offer {offer}")))?;
    Ok(Leave {
        id: LeaveId::new(fresh_id()),
        tool: sheet.terms.tool.clone(),
        scope: chosen.scope,
        session: this_session.then(|| sheet.session.clone()),
        until: lasts_s.map(|seconds| SystemClock.now().saturating_add(u64::from(seconds) * 1_000)),
        uses_max,
    })
}

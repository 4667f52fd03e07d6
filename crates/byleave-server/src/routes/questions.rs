//! Questions: lists, details and answers. An answer repeats the digest of the question that was shown, and is recorded under
//! its author's name.

use axum::extract::State;
use axum::response::Response;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::QuestionId;
use tokio::time::Instant;

use super::audit_log::page;
use super::calls::{start_problem, status_response};
use crate::api_types::{AnswerBody, CallStatusBody, OpenQuestion, PageQuery, QuestionList, QuestionViewBody};
use crate::caller::Caller;
use crate::extract::{JsonResponse, PathId, StrictJson, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::submit_answer::{self, AcceptedAnswer};
use crate::tenant::ClientCallStatus;

/// List open questions
#[utoipa::path(
    get, path = "/v1/questions", tag = "questions",
    params(PageQuery),
    responses((status = 200, body = QuestionList, description = "Open questions, newest first")),
)]
pub(super) async fn list(
    State(_app): State<App>,
    caller: Caller,
    StrictQuery(query): StrictQuery<PageQuery>,
) -> Result<JsonResponse<QuestionList>, Problem> {
    caller.require_scope(&[AccessScope::Answer, AccessScope::Read])?;
    let page = page(query.limit, query.after)?;
    let items = caller.tenant.audit_log.questions(caller.tenant.open_questions(), page).await?;
    Ok(JsonResponse(QuestionList { questions: items.iter().map(OpenQuestion::from).collect() }))
}

/// Show a question in full
///
/// Includes the true contents. A client must show all lines to the person.
#[utoipa::path(
    get, path = "/v1/questions/{question}", tag = "questions",
    params(("question" = uuid::Uuid, Path, description = "The question")),
    responses(
        (status = 200, body = QuestionViewBody, description = "The question"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The question does not exist"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The question can no longer be answered"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The question cannot be shown"),
    ),
)]
pub(super) async fn show(
    State(_app): State<App>,
    caller: Caller,
    PathId(question): PathId<QuestionId>,
) -> Result<JsonResponse<QuestionViewBody>, Problem> {
    caller.require_scope(&[AccessScope::Answer])?;
    let sheet = submit_answer::open_question_view(&caller, question).await?;
    Ok(JsonResponse(QuestionViewBody::from(&sheet)))
}

/// Answer a question
///
/// The digest is that of the question as it was shown. Nobody can answer a question about their own call. An agent can only answer
/// yes or no, and is recorded as a program. Only people can pass checkpoints, give standing approvals and use other answers.
#[utoipa::path(
    post, path = "/v1/questions/{question}/answer", tag = "questions",
    params(("question" = uuid::Uuid, Path, description = "The question")),
    request_body = AnswerBody,
    responses(
        (status = 200, body = CallStatusBody, description = "The question was answered, and its call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The question was answered, and its call continues",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The question does not exist"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The digest does not match, or the question can no longer be answered"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The answer is not valid for this question"),
    ),
)]
pub(super) async fn answer(
    State(_app): State<App>,
    caller: Caller,
    PathId(question): PathId<QuestionId>,
    StrictJson(body): StrictJson<AnswerBody>,
) -> Result<Response, Problem> {
    let digest = digest(&body.digest)?;
    let AcceptedAnswer { call, is_driven_here: driven_here } =
        submit_answer::submit_answer(&caller, question, digest, body.answer).await?;
    if driven_here {
        return status_response(
            call,
            &caller.tenant.wait_for_status(call, Instant::now()).await.map_err(start_problem)?,
        );
    }
    status_response(call, &ClientCallStatus::Running)
}

fn digest(text: &str) -> Result<Digest, Problem> {
    let wrong =
        |_| Problem::new(ProblemKind::Unusable, "`digest` must have 64 lower-case hexadecimal digits");
    serde_json::from_value(text.into()).map_err(wrong)
}

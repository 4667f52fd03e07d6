//! Client tools: registration, claims and reports by the clients that made the calls.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use byleave::core::id::CallId;

use super::calls::{check_owner, response_with_location, start_problem, status_response, wait_deadline};
use crate::api_types::{
    CallStatusBody, ClaimBody, ClientToolBody, ClientToolName, ReportBody, WaitQuery, check_length,
};
use crate::caller::Caller;
use crate::client_tools::{ClientTools, client_tool_name};
use crate::extract::{JsonResponse, PathId, StrictJson, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tenant::ClaimResult;

/// The maximum time that a client may hold a call.
const TIMEOUT_MS_MAX: u32 = 600_000;

/// Register a tool of one's own
///
/// A function in the process of who registers it, behind the gate. Its calls are judged, asked about and recorded like any other,
/// and are run by who made them. Until the server ends; saying the same again changes nothing.
#[utoipa::path(
    put, path = "/v1/own-tools/{name}", tag = "own tools",
    params(("name" = String, Path, description = "Its name", min_length = 1, max_length = 48, pattern = "^[A-Za-z0-9_-]+$")),
    request_body = ClientToolBody,
    responses(
        (status = 200, body = ClientToolName, description = "It can be called"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There are no own tools here"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body took too long"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be registered so"),
    ),
)]
pub(super) async fn register(
    State(_app): State<App>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
    StrictJson(body): StrictJson<ClientToolBody>,
) -> Result<JsonResponse<ClientToolName>, Problem> {
    caller.require_scope(&[AccessScope::Submit])?;
    let own = own_tools(&caller)?;
    let Path(name) = name.map_err(|_| Problem::new(ProblemKind::Malformed, "the name cannot be read"))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !(1..=48).contains(&name.len()) || !name.chars().all(plain) {
        let what = "the name has 1 to 48 letters, digits, `_` and `-`";
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    check_length("description", &body.description, 0, 4_000)?;
    if let Some(operation) = &body.operation {
        check_length("operation", operation, 1, 64)?;
    }
    if body.timeout_ms.is_some_and(|timeout| !(1..=TIMEOUT_MS_MAX).contains(&timeout)) {
        let what = format!("`timeout_ms` is 1 to {TIMEOUT_MS_MAX}");
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    let manifest = body.into_manifest(client_tool_name(caller.name(), &name));
    let tool = manifest.name.clone();
    let registered = own.register(&caller.tenant.gate, caller.agent()?, manifest);
    registered.map_err(|why| Problem::new(ProblemKind::Unusable, why.to_string()))?;
    Ok(JsonResponse(ClientToolName { tool }))
}

/// Take a call of an own tool, to run it
///
/// It begins with this: what stands in its way now has it refused. Who takes it runs it once and reports; who does not report has it
/// end as unknown.
#[utoipa::path(
    post, path = "/v1/calls/{call}/take", tag = "own tools",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    request_body = ClaimBody,
    responses(
        (status = 200, body = CallStatusBody, description = "It is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStatusBody, description = "It is taken, where it says so; else it cannot be taken yet",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such call"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It was taken with another claim"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body took too long"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be taken so"),
    ),
)]
pub(super) async fn claim(
    State(_app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
    StrictQuery(wait): StrictQuery<WaitQuery>,
    StrictJson(body): StrictJson<ClaimBody>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit])?;
    let (own, until) = (own_tools(&caller)?, wait_deadline(&wait)?);
    check_length("claim", &body.claim, 16, 128)?;
    check_owner(&caller, call).await?;
    match caller.tenant.claim_call(own, call, &body.claim, until).await.map_err(start_problem)? {
        ClaimResult::Claimed(arguments) => {
            Ok(response_with_location(call, CallStatusBody::claimed(call.uuid(), (*arguments).clone())))
        }
        ClaimResult::ClaimedByOther => Err(taken()),
        ClaimResult::NotClaimable(stood) => status_response(call, &stood),
    }
}

/// Report what came of a call that was taken
///
/// The first report counts; whoever repeats it learns what came of the call.
#[utoipa::path(
    post, path = "/v1/calls/{call}/report", tag = "own tools",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    request_body = ReportBody,
    responses(
        (status = 200, body = CallStatusBody, description = "It is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStatusBody, description = "It is not settled yet",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such call"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "It was taken with another claim"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body took too long"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "It cannot be reported so"),
    ),
)]
pub(super) async fn report(
    State(_app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
    StrictQuery(wait): StrictQuery<WaitQuery>,
    StrictJson(body): StrictJson<ReportBody>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit])?;
    let (own, until) = (own_tools(&caller)?, wait_deadline(&wait)?);
    check_length("claim", &body.claim, 16, 128)?;
    check_owner(&caller, call).await?;
    let claim = body.claim.clone();
    if !own.report(call, &claim, body.into()) {
        return Err(taken());
    }
    status_response(call, &caller.tenant.wait_for_status(call, until).await.map_err(start_problem)?)
}

fn own_tools(caller: &Caller) -> Result<&ClientTools, Problem> {
    caller.tenant.client_tools.as_ref().ok_or_else(|| Problem::not_found("path"))
}

fn taken() -> Problem {
    Problem::new(ProblemKind::Taken, "the call was taken with another claim")
}

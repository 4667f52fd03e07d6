//! Client tools: registration, claims and reports by the clients that made the calls.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use byleave_gate::core::id::CallId;

use super::calls::{check_owner, response_with_location, start_problem, status_response, wait_deadline};
use crate::api_types::{
    CallStatusBody, ClaimBody, ClientToolBody, ClientToolName, ReportBody, WaitQuery, check_length,
};
use crate::caller::Caller;
use crate::client_tools::ClientTools;
use crate::extract::{JsonResponse, PathId, StrictJson, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tenant::ClaimResult;

/// The maximum time that a client may hold a call.
const TIMEOUT_MS_MAX: u32 = 600_000;

/// Register a client tool
///
/// A client tool is a function in the process of the client. The gate evaluates, asks about and records its calls like any other,
/// and the client runs them. The registration lasts until the server stops. Repeating it changes nothing.
#[utoipa::path(
    put, path = "/v1/client-tools/{name}", tag = "client tools",
    params(("name" = String, Path, description = "The name of the tool", min_length = 1, max_length = 48, pattern = "^[A-Za-z0-9_-]+$")),
    request_body = ClientToolBody,
    responses(
        (status = 200, body = ClientToolName, description = "The tool is registered"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "This server has no client tools"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The definition is not valid"),
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
    let Path(name) =
        name.map_err(|_| Problem::new(ProblemKind::Malformed, "the name of the tool cannot be read"))?;
    if !std::iter::once(&name).chain(&body.aliases).all(|name| is_tool_name(name)) {
        let what = "the name of the tool and each alias must have 1 to 48 letters, digits, `_` or `-`";
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    check_length("description", &body.description, 0, 4_000)?;
    if let Some(operation) = &body.operation {
        check_length("operation", operation, 1, 64)?;
    }
    if let Some(hint) = &body.search_hint {
        check_length("search_hint", hint, 1, 200)?;
    }
    if body.timeout_ms.is_some_and(|timeout| !(1..=TIMEOUT_MS_MAX).contains(&timeout)) {
        let what = format!("`timeout_ms` must be 1 to {TIMEOUT_MS_MAX}");
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    let manifest = body.into_manifest(caller.name(), &name);
    let tool = manifest.name.clone();
    let registered = own.register(&caller.tenant.gate, caller.agent()?, manifest);
    registered.map_err(|why| Problem::new(ProblemKind::Unusable, why.to_string()))?;
    Ok(JsonResponse(ClientToolName { tool }))
}

/// Claim a call of a client tool, to run it
///
/// The attempt begins with the claim. If the call may not start now, it is refused. The client runs a claimed call once and
/// reports. Without a report, the outcome of the call is unknown.
#[utoipa::path(
    post, path = "/v1/calls/{call}/claim", tag = "client tools",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    request_body = ClaimBody,
    responses(
        (status = 200, body = CallStatusBody, description = "The call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The call is claimed if its state says so; otherwise it cannot be claimed yet",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The call was claimed with another claim"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The claim is not valid"),
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
        ClaimResult::Claimed(handed) => {
            Ok(response_with_location(call, CallStatusBody::claimed(call.uuid(), &handed)))
        }
        ClaimResult::ClaimedByOther => Err(taken()),
        ClaimResult::NotClaimable(stood) => status_response(call, &stood),
    }
}

/// Report the result of a claimed call
///
/// Only the first report is used. A repeated report returns the result of the call.
#[utoipa::path(
    post, path = "/v1/calls/{call}/report", tag = "client tools",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    request_body = ReportBody,
    responses(
        (status = 200, body = CallStatusBody, description = "The call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The call is not settled yet",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The call was claimed with another claim"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The report is not valid"),
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

/// Checks the client's part of a name. It has no dot, so that it cannot be a name of another principal.
fn is_tool_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=48).contains(&name.len()) && name.chars().all(plain)
}

fn own_tools(caller: &Caller) -> Result<&ClientTools, Problem> {
    caller
        .tenant
        .client_tools
        .as_ref()
        .ok_or_else(|| Problem::new(ProblemKind::NotFound, "this server has no client tools"))
}

fn taken() -> Problem {
    Problem::new(ProblemKind::Taken, "the call was claimed with another claim")
}

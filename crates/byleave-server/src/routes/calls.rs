//! Calls: submission, status and cancellation.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::CallId;
use byleave_gate::core::refusal::{Code, Refusal};
use byleave_gate::result::{CallResult, CallStatus};
use byleave_gate::review::Opinion;
use serde_json::Value;
use tokio::time::Instant;

use crate::api_types::{
    CallBody, CallStateName as Far, CallStatusBody, MAX_WAIT_S, ModeName, WaitQuery, check_length,
};
use crate::caller::Caller;
use crate::client_tools::{is_client_tool, may_use};
use crate::extract::{JsonResponse, PathId, StrictJson, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::tenant::{ClientCallStatus, StartError};

const KEY: &str = "idempotency-key";
const KEY_CHARS_MAX: usize = 128;

/// Make a call
///
/// A request with the same key and body refers to the same call, which never runs twice. The outcome of a call is a result, even
/// if the call was refused.
#[utoipa::path(
    post, path = "/v1/calls", tag = "calls",
    params(
        WaitQuery,
        ("Idempotency-Key" = String, Header, description = "Chosen by the client. The same key refers to the same call",
            min_length = 1, max_length = 128, pattern = "^[!-~]+$"),
    ),
    request_body = CallBody,
    responses(
        (status = 200, body = CallStatusBody, description = "The call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The call waits or runs",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The key was used for another call"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The call is not valid"),
    ),
)]
pub(super) async fn submit(
    State(app): State<App>,
    caller: Caller,
    StrictQuery(wait): StrictQuery<WaitQuery>,
    headers: HeaderMap,
    StrictJson(mut body): StrictJson<CallBody>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit])?;
    let until = wait_deadline(&wait)?;
    let review = reviewed(&caller, &mut body)?;
    let call = call(&caller, &key(&headers)?, body)?;
    if app.inner.collector.is_some() {
        caller.tenant.trace_parents.insert(call.id, &headers);
    }
    // Checked before anything is written: if no worker can start the call soon, its client must keep it.
    if !caller.tenant.has_room(&call).await? {
        return Err(start_problem(StartError::Busy));
    }
    // A client that does not wait learns only that the call was accepted. This comes first, so that no step is repeated.
    if wait.wait == 0 {
        take_in(&caller, &call).await?;
    }
    caller.tenant.submit(call.clone(), review).map_err(start_problem)?;
    let stood = caller.tenant.wait_for_status(call.id, until).await.map_err(start_problem)?;
    if wait.wait > 0 && matches!(stood, ClientCallStatus::Running) {
        take_in(&caller, &call).await?;
    }
    status_response(call.id, &stood)
}

/// Records a call before its client learns that it was accepted. If this process dies, the call is found there.
async fn take_in(caller: &Caller, call: &Call) -> Result<(), Problem> {
    caller.tenant.gate.accept(call).await.map_err(|result| {
        let never = || Problem::internal_error("the call was not accepted", &result.outcome.as_str());
        never_a_call(&result).unwrap_or_else(never)
    })
}

/// Show the status of a call
#[utoipa::path(
    get, path = "/v1/calls/{call}", tag = "calls",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    responses(
        (status = 200, body = CallStatusBody, description = "The call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The call waits or runs",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
    ),
)]
pub(super) async fn show(
    State(_app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
    StrictQuery(wait): StrictQuery<WaitQuery>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit, AccessScope::Read])?;
    let until = wait_deadline(&wait)?;
    check_visible(&caller, call).await?;
    status_response(call, &caller.tenant.wait_for_status(call, until).await.map_err(start_problem)?)
}

/// Cancel a call
///
/// A running call is stopped, a waiting call is refused, and a settled call stays as it is.
#[utoipa::path(
    post, path = "/v1/calls/{call}/cancel", tag = "calls",
    params(("call" = uuid::Uuid, Path, description = "The call"), WaitQuery),
    responses(
        (status = 200, body = CallStatusBody, description = "The call is settled",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 202, body = CallStatusBody, description = "The call is being stopped",
            headers(("Location" = String, description = "The URL of the call"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The contents of the call were erased"),
    ),
)]
pub(super) async fn cancel(
    State(_app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
    StrictQuery(wait): StrictQuery<WaitQuery>,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit, AccessScope::Administer])?;
    let until = wait_deadline(&wait)?;
    let whose = whose(&caller, call).await?;
    if whose != CallOwnership::Own && !caller.has(AccessScope::Administer) {
        return Err(Problem::not_found("call"));
    }
    caller.tenant.gate.cancel(call, caller.name()).await?;
    status_response(call, &caller.tenant.wait_for_status(call, until).await.map_err(start_problem)?)
}

/// The ownership of a call that was accepted here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOwnership {
    Own,
    Others,
}

/// Returns the ownership of a call. A call that was not accepted here is "not found".
async fn whose(caller: &Caller, call: CallId) -> Result<CallOwnership, Problem> {
    let whose = |own: bool| if own { CallOwnership::Own } else { CallOwnership::Others };
    // Checked first, because the call is in the audit log by the time that it is no longer driven.
    if let Some(agent) = caller.tenant.caller_of(call) {
        return Ok(whose(agent.as_str() == caller.name()));
    }
    let record = caller.tenant.record(call).await?;
    let heading = record.as_ref().and_then(|record| record.header());
    let heading = heading.filter(|heading| caller.is_local_call(heading));
    heading.map(|heading| whose(caller.owns(heading))).ok_or_else(|| Problem::not_found("call"))
}

/// Rejects a call of another client, as if it did not exist.
pub(super) async fn check_owner(caller: &Caller, call: CallId) -> Result<(), Problem> {
    if whose(caller, call).await? == CallOwnership::Own { Ok(()) } else { Err(Problem::not_found("call")) }
}

/// Rejects a call that the caller may not see, with the same response as for an unknown call.
pub(super) async fn check_visible(caller: &Caller, call: CallId) -> Result<(), Problem> {
    let is_own = whose(caller, call).await? == CallOwnership::Own;
    if is_own || caller.has(AccessScope::Read) { Ok(()) } else { Err(Problem::not_found("call")) }
}

pub(super) fn wait_deadline(wait: &WaitQuery) -> Result<Instant, Problem> {
    if wait.wait > MAX_WAIT_S {
        return Err(Problem::new(
            ProblemKind::Malformed,
            format!("`wait` must be at most {MAX_WAIT_S} seconds"),
        ));
    }
    Ok(Instant::now() + Duration::from_secs(wait.wait.into()))
}

fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let wrong = || {
        let what = "send the header `Idempotency-Key` exactly once, with 1 to 128 visible ASCII characters";
        Problem::new(ProblemKind::Malformed, what)
    };
    let mut keys = headers.get_all(KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(wrong()) };
    let key = key.to_str().map_err(|_| wrong())?;
    let good = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if good { Ok(key.to_owned()) } else { Err(wrong()) }
}

/// Returns the call id for an idempotency key of this principal, which is the same at any time.
fn id_of(caller: &Caller, key: &str) -> CallId {
    let parts: [&[u8]; 3] =
        [caller.tenant.id().as_str().as_bytes(), caller.name().as_bytes(), key.as_bytes()];
    let digest = Digest::compute_parts("byleave.server.call", &parts);
    let mut bytes = [0_u8; 16];
    bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    CallId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

fn call(caller: &Caller, key: &str, body: CallBody) -> Result<Call, Problem> {
    check_length("tool", &body.tool, 1, 128)?;
    if let Some(reason) = &body.reason {
        check_length("reason", reason, 0, 4_000)?;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !(1..=48).contains(&body.session.len()) || !body.session.chars().all(plain) {
        let what = "`session` must have 1 to 48 letters, digits, `.`, `_` or `-`";
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    Ok(Call {
        id: id_of(caller, key),
        tenant: caller.tenant.id().clone(),
        session: caller.session(&body.session)?,
        agent: caller.agent()?,
        tool: body.tool,
        arguments: body.arguments.into(),
        reason: body.reason,
        cwd: caller.tenant.cwd.clone(),
        mode: requested_mode(caller, body.mode)?,
        dry_run: body.dry_run,
    })
}

/// Returns the opinion of the client's reviewer, if the tool is the client's own. Another client's tool is "not found".
fn reviewed(caller: &Caller, body: &mut CallBody) -> Result<Option<Opinion<Value>>, Problem> {
    check_tool_usable(caller, &body.tool)?;
    let Some(review) = body.review.take() else { return Ok(None) };
    if !is_client_tool(&body.tool) {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "`review` is only allowed for your own client tools",
        ));
    }
    Ok(Some(review.into()))
}

/// Rejects client tools of other principals.
pub(super) fn check_tool_usable(caller: &Caller, tool: &str) -> Result<(), Problem> {
    if may_use(caller.name(), tool) { Ok(()) } else { Err(Problem::not_found("tool")) }
}

/// Returns the requested mode, if it is not looser than the server's.
pub(super) fn requested_mode(caller: &Caller, wanted: Option<ModeName>) -> Result<Mode, Problem> {
    let most = caller.tenant.mode;
    let Some(wanted) = wanted.map(Mode::from) else { return Ok(most) };
    if most.is_at_least_as_permissive(wanted) {
        return Ok(wanted);
    }
    let what =
        format!("the mode `{}` is looser than the mode of this server, `{}`", wanted.as_str(), most.as_str());
    Err(Problem::new(ProblemKind::Forbidden, what))
}

pub(super) fn start_problem(unstarted: StartError) -> Problem {
    match unstarted {
        StartError::Busy => {
            Problem::too_many("too many calls of this tenant are running; try again later", 1)
        }
        StartError::IdReused => {
            let why = "the idempotency key was already used for another call";
            Problem::refused(StatusCode::CONFLICT, &Refusal::new(Code::CallReused, why))
        }
        StartError::Ledger(fault) => fault.into(),
        StartError::Missing => Problem::not_found("call"),
        StartError::TaskFailed => Problem::internal_error("the call was interrupted", &"its task ended"),
    }
}

/// Returns the problem for a request that never became a call.
fn never_a_call(result: &CallResult) -> Option<Problem> {
    let refusal = result.outcome.refusal().filter(|_| result.receipt.is_none())?;
    let status = match refusal.code {
        Code::CallReused => StatusCode::CONFLICT,
        Code::Forgotten => StatusCode::GONE,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Some(Problem::refused(status, refusal))
}

/// Converts the status of a call to a response. A request that never became a call is a problem.
pub(super) fn status_response(call: CallId, stood: &ClientCallStatus) -> Result<Response, Problem> {
    if let ClientCallStatus::Status(standing) = stood
        && let CallStatus::Settled(result) = &**standing
        && let Some(problem) = never_a_call(result)
    {
        return Err(problem);
    }
    Ok(response_with_location(call, CallStatusBody::from_status(call.uuid(), stood)))
}

/// Creates a response with a status and the location of the call.
pub(super) fn response_with_location(call: CallId, standing: CallStatusBody) -> Response {
    let status = if standing.state == Far::Settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, JsonResponse(standing)).into_response();
    if let Ok(place) = HeaderValue::try_from(format!("/v1/calls/{call}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

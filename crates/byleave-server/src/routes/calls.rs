//! Calls: made, looked at, called off.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use byleave::core::call::{Call, Mode};
use byleave::core::digest::Digest;
use byleave::core::id::CallId;
use byleave::core::refusal::{Code, Refusal};
use byleave::result::{CallResult, Standing};
use byleave::review::Opinion;
use serde_json::Value;
use tokio::time::Instant;

use crate::app::App;
use crate::body::{Asked, Given, Id, Said};
use crate::caller::Caller;
use crate::own_tools::{is_own, may_use};
use crate::principal::Scope;
use crate::problem::{Problem, Trouble};
use crate::tenancy::{Stood, Unstarted};
use crate::wire::{CallBody, CallStanding, ModeWord, State as Far, WAIT_S_MAX, Wait, bounded};

const KEY: &str = "idempotency-key";
const KEY_CHARS_MAX: usize = 128;

/// Make a call
///
/// The same key with the same body is the same call, which is never run twice. What came of a call is a result, also where it
/// was refused.
#[utoipa::path(
    post, path = "/v1/calls", tag = "calls",
    params(
        Wait,
        ("Idempotency-Key" = String, Header, description = "Chosen by the client: the same key is the same call",
            min_length = 1, max_length = 128, pattern = "^[!-~]+$"),
    ),
    request_body = CallBody,
    responses(
        (status = 200, body = CallStanding, description = "It is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStanding, description = "It waits, or is worked on",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "The key was used for another call"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body took too long"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The call cannot be made so"),
    ),
)]
pub(super) async fn submit(
    State(app): State<App>,
    caller: Caller,
    Asked(wait): Asked<Wait>,
    headers: HeaderMap,
    Given(mut body): Given<CallBody>,
) -> Result<Response, Problem> {
    caller.may(&[Scope::Submit])?;
    let until = until(&wait)?;
    let review = reviewed(&caller, &mut body)?;
    let call = call(&caller, &key(&headers)?, body)?;
    if app.parts.collector.is_some() {
        caller.tenancy.parents.keep(call.id, &headers);
    }
    // Before anything is written: what nobody can take up soon is for its client to keep.
    if !caller.tenancy.has_room(&call).await? {
        return Err(unstarted(Unstarted::Busy));
    }
    // Who does not wait is told only that the call was taken in. That comes first, so that nothing has to be walked again.
    if wait.wait == 0 {
        take_in(&caller, &call).await?;
    }
    caller.tenancy.submit(call.clone(), review).map_err(unstarted)?;
    let stood = caller.tenancy.stands(call.id, until).await.map_err(unstarted)?;
    if wait.wait > 0 && matches!(stood, Stood::Running) {
        take_in(&caller, &call).await?;
    }
    said(call.id, &stood)
}

/// Has a call in the book before its client hears that it was accepted: whatever becomes of this process, it is found there.
async fn take_in(caller: &Caller, call: &Call) -> Result<(), Problem> {
    caller.tenancy.gate.take_in(call).await.map_err(|result| {
        let never = || Problem::fault("the call was not taken in", &result.ending.word());
        never_a_call(&result).unwrap_or_else(never)
    })
}

/// See how far a call has come
#[utoipa::path(
    get, path = "/v1/calls/{call}", tag = "calls",
    params(("call" = uuid::Uuid, Path, description = "The call"), Wait),
    responses(
        (status = 200, body = CallStanding, description = "It is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStanding, description = "It waits, or is worked on",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such call"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
    ),
)]
pub(super) async fn look(
    State(_app): State<App>,
    caller: Caller,
    Id(call): Id<CallId>,
    Asked(wait): Asked<Wait>,
) -> Result<Response, Problem> {
    caller.may(&[Scope::Submit, Scope::Read])?;
    let until = until(&wait)?;
    seen(&caller, call).await?;
    said(call, &caller.tenancy.stands(call, until).await.map_err(unstarted)?)
}

/// Call a call off
///
/// What runs is stopped, what waits is refused, what is settled stays as it is.
#[utoipa::path(
    post, path = "/v1/calls/{call}/cancel", tag = "calls",
    params(("call" = uuid::Uuid, Path, description = "The call"), Wait),
    responses(
        (status = 200, body = CallStanding, description = "It is settled",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 202, body = CallStanding, description = "It is being stopped",
            headers(("Location" = String, description = "Where the call is"))),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "There is no such call"),
        (status = 410, body = Problem, content_type = "application/problem+json", description = "The call was forgotten"),
    ),
)]
pub(super) async fn cancel(
    State(_app): State<App>,
    caller: Caller,
    Id(call): Id<CallId>,
    Asked(wait): Asked<Wait>,
) -> Result<Response, Problem> {
    caller.may(&[Scope::Submit, Scope::Administer])?;
    let until = until(&wait)?;
    let whose = whose(&caller, call).await?;
    if whose != Whose::Own && !caller.has(Scope::Administer) {
        return Err(Problem::not_found("call"));
    }
    caller.tenancy.gate.cancel(call, caller.name()).await?;
    said(call, &caller.tenancy.stands(call, until).await.map_err(unstarted)?)
}

/// Whose a call is that came in here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Others,
}

/// Whose a call is. One that did not come in here is not there.
async fn whose(caller: &Caller, call: CallId) -> Result<Whose, Problem> {
    let whose = |own: bool| if own { Whose::Own } else { Whose::Others };
    // First, because it is in the book by the time that nobody drives it any more.
    if let Some(agent) = caller.tenancy.made_by(call) {
        return Ok(whose(agent.as_str() == caller.name()));
    }
    let record = caller.tenancy.record(call).await?;
    let heading = record.as_ref().and_then(|record| record.heading());
    let heading = heading.filter(|heading| caller.is_ours(heading));
    heading.map(|heading| whose(caller.owns(heading))).ok_or_else(|| Problem::not_found("call"))
}

/// Refuses a call that is not the caller's own, as if it were not there.
pub(super) async fn owned(caller: &Caller, call: CallId) -> Result<(), Problem> {
    if whose(caller, call).await? == Whose::Own { Ok(()) } else { Err(Problem::not_found("call")) }
}

/// Refuses a call that the caller may not see, in the very words in which one that there is not is refused.
pub(super) async fn seen(caller: &Caller, call: CallId) -> Result<(), Problem> {
    let is_own = whose(caller, call).await? == Whose::Own;
    if is_own || caller.has(Scope::Read) { Ok(()) } else { Err(Problem::not_found("call")) }
}

pub(super) fn until(wait: &Wait) -> Result<Instant, Problem> {
    if wait.wait > WAIT_S_MAX {
        return Err(Problem::new(Trouble::Malformed, format!("`wait` is at most {WAIT_S_MAX} seconds")));
    }
    Ok(Instant::now() + Duration::from_secs(wait.wait.into()))
}

fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let wrong = || {
        let what =
            "the header `Idempotency-Key` must be there once, with 1 to 128 visible characters of ASCII";
        Problem::new(Trouble::Malformed, what)
    };
    let mut keys = headers.get_all(KEY).iter();
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(wrong()) };
    let key = key.to_str().map_err(|_| wrong())?;
    let good = (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    if good { Ok(key.to_owned()) } else { Err(wrong()) }
}

/// The call that a key of this principal stands for, whenever it is made.
fn id_of(caller: &Caller, key: &str) -> CallId {
    let parts: [&[u8]; 3] =
        [caller.tenancy.id().as_str().as_bytes(), caller.name().as_bytes(), key.as_bytes()];
    let digest = Digest::of_parts("byleave.server.call", &parts);
    let mut bytes = [0_u8; 16];
    bytes.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    CallId::new(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

fn call(caller: &Caller, key: &str, body: CallBody) -> Result<Call, Problem> {
    bounded("tool", &body.tool, 1, 128)?;
    if let Some(reason) = &body.reason {
        bounded("reason", reason, 0, 4_000)?;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !(1..=48).contains(&body.session.len()) || !body.session.chars().all(plain) {
        let what = "`session` has 1 to 48 letters, digits, `.`, `_` and `-`";
        return Err(Problem::new(Trouble::Unusable, what));
    }
    Ok(Call {
        id: id_of(caller, key),
        tenant: caller.tenancy.id().clone(),
        session: caller.session(&body.session)?,
        agent: caller.agent()?,
        tool: body.tool,
        arguments: body.arguments.into(),
        reason: body.reason,
        cwd: caller.tenancy.cwd.clone(),
        mode: mode(caller, body.mode)?,
        dry_run: body.dry_run,
    })
}

/// What the maker's reviewer said, where the tool is the maker's own. Another's own is not there.
fn reviewed(caller: &Caller, body: &mut CallBody) -> Result<Option<Opinion<Value>>, Problem> {
    usable(caller, &body.tool)?;
    let Some(review) = body.review.take() else { return Ok(None) };
    if !is_own(&body.tool) {
        return Err(Problem::new(Trouble::Forbidden, "`review` is for calls of one's own tools"));
    }
    Ok(Some(review.into()))
}

/// Refuses what is another principal's own.
pub(super) fn usable(caller: &Caller, tool: &str) -> Result<(), Problem> {
    if may_use(caller.name(), tool) { Ok(()) } else { Err(Problem::not_found("tool")) }
}

/// The mode that was asked for, if it asks no less than the server's.
pub(super) fn mode(caller: &Caller, wanted: Option<ModeWord>) -> Result<Mode, Problem> {
    let most = caller.tenancy.mode;
    let Some(wanted) = wanted.map(Mode::from) else { return Ok(most) };
    if most.is_as_loose_as(wanted) {
        return Ok(wanted);
    }
    let what = format!("the mode `{}` asks less than this server's, `{}`", wanted.word(), most.word());
    Err(Problem::new(Trouble::Forbidden, what))
}

pub(super) fn unstarted(unstarted: Unstarted) -> Problem {
    match unstarted {
        Unstarted::Busy => Problem::too_many("too many calls of this tenant run; try again", 1),
        Unstarted::Other => {
            let why = "the key was used for another call";
            Problem::refused(StatusCode::CONFLICT, &Refusal::new(Code::CallReused, why))
        }
        Unstarted::Fault(fault) => fault.into(),
        Unstarted::Missing => Problem::not_found("call"),
        Unstarted::Broke => Problem::fault("the call was left in the middle", &"its task ended"),
    }
}

/// The problem with what never became a call.
fn never_a_call(result: &CallResult) -> Option<Problem> {
    let refusal = result.ending.refusal().filter(|_| result.receipt.is_none())?;
    let status = match refusal.code {
        Code::CallReused => StatusCode::CONFLICT,
        Code::Forgotten => StatusCode::GONE,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    Some(Problem::refused(status, refusal))
}

/// How a call stands, as a response. What never became a call is a problem.
pub(super) fn said(call: CallId, stood: &Stood) -> Result<Response, Problem> {
    if let Stood::At(standing) = stood
        && let Standing::Settled(result) = &**standing
        && let Some(problem) = never_a_call(result)
    {
        return Err(problem);
    }
    Ok(placed(call, CallStanding::of(call.uuid(), stood)))
}

/// A standing as a response, with where the call is.
pub(super) fn placed(call: CallId, standing: CallStanding) -> Response {
    let status = if standing.state == Far::Settled { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut response = (status, Said(standing)).into_response();
    if let Ok(place) = HeaderValue::try_from(format!("/v1/calls/{call}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

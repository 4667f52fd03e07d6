//! Tools and policy decisions.

use std::sync::Arc;

use axum::extract::State;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Call;
use byleave_gate::core::id::CallId;
use byleave_gate::provider_formats;
use byleave_gate::tool::ToolContext;

use super::calls::{check_tool_usable, requested_mode};
use crate::api_types::{
    ExplainBody, ExplanationBody, MAX_POLICY_CHARS, MAX_REPLAY, RefusalBody, ReplayBody, ReplayReport,
    ToolEntry, ToolList, ToolQuery, check_length,
};
use crate::caller::Caller;
use crate::client_tools::may_use;
use crate::extract::{JsonResponse, StrictJson, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::replay;
use crate::state::App;

/// List the tools
#[utoipa::path(
    get, path = "/v1/tools", tag = "tools",
    params(ToolQuery),
    responses((status = 200, body = ToolList, description = "The tools, by name, with their schemas")),
)]
pub(super) async fn tools(
    State(_app): State<App>,
    caller: Caller,
    StrictQuery(query): StrictQuery<ToolQuery>,
) -> Result<JsonResponse<ToolList>, Problem> {
    caller.require_scope(&[AccessScope::Submit, AccessScope::Read])?;
    let site = ToolContext {
        tenant: caller.tenant.id().clone(),
        session: caller.session("main")?,
        agent: caller.agent()?,
        cwd: caller.tenant.cwd.clone().into(),
    };
    let entries = caller.tenant.gate.catalog().list();
    let tools = entries.iter().filter(|entry| may_use(caller.name(), entry.name())).map(|entry| {
        let (schema, unfit) = match provider_formats::schema(query.format.into(), entry, &site) {
            Ok(schema) => (Some(schema), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let manifest = entry.manifest();
        ToolEntry {
            name: entry.name().to_owned(),
            schema,
            unsupported_reason: unfit,
            read_only: manifest.read_only,
            destructive: manifest.destructive,
        }
    });
    Ok(JsonResponse(ToolList { tools: tools.collect() }))
}

/// Show the effects of a call and the decision of the policy
///
/// Runs nothing, asks nobody and writes nothing. Uses the same steps as a real call.
#[utoipa::path(
    post, path = "/v1/policy/explain", tag = "policy",
    request_body = ExplainBody,
    responses(
        (status = 200, body = ExplanationBody, description = "The effects and the decision"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The call is not valid"),
    ),
)]
pub(super) async fn explain(
    State(_app): State<App>,
    caller: Caller,
    StrictJson(body): StrictJson<ExplainBody>,
) -> Result<JsonResponse<ExplanationBody>, Problem> {
    caller.require_scope(&[AccessScope::Submit, AccessScope::Read])?;
    check_length("tool", &body.tool, 1, 128)?;
    check_tool_usable(&caller, &body.tool)?;
    let call = Call {
        id: CallId::new(fresh_id()),
        tenant: caller.tenant.id().clone(),
        session: caller.session("main")?,
        agent: caller.agent()?,
        tool: body.tool.clone(),
        arguments: body.arguments.into(),
        reason: None,
        cwd: caller.tenant.cwd.clone(),
        mode: requested_mode(&caller, body.mode)?,
        dry_run: true,
    };
    Ok(JsonResponse(match caller.tenant.gate.explain(call).await {
        Ok(found) => ExplanationBody::from(&found),
        Err(refusal) => ExplanationBody {
            tool: body.tool,
            verdict: None,
            refusal: Some(RefusalBody::from(&refusal)),
            effects: Vec::new(),
            reasons: Vec::new(),
            policy: None,
        },
    }))
}

/// Try other rules on past calls
///
/// Evaluates the newest calls of the audit log, as they were recorded, with these rules in place of the user's policy file. The
/// rules do not come into force. Only for administrators, because such rules can reveal the contents of a call.
#[utoipa::path(
    post, path = "/v1/policy/replay", tag = "policy",
    request_body = ReplayBody,
    responses(
        (status = 200, body = ReplayReport, description = "The decisions that would change"),
        (status = 408, body = Problem, content_type = "application/problem+json", description = "The body did not arrive in time"),
        (status = 413, body = Problem, content_type = "application/problem+json", description = "The body is too large"),
        (status = 415, body = Problem, content_type = "application/problem+json", description = "The body is not JSON"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "The rules are not valid"),
    ),
)]
pub(super) async fn replay(
    State(_app): State<App>,
    caller: Caller,
    StrictJson(body): StrictJson<ReplayBody>,
) -> Result<JsonResponse<ReplayReport>, Problem> {
    caller.require_scope(&[AccessScope::Administer])?;
    if !(1..=MAX_REPLAY).contains(&body.limit) {
        let what = format!("`limit` must be 1 to {MAX_REPLAY}");
        return Err(Problem::new(ProblemKind::Unusable, what));
    }
    check_length("policy", &body.policy, 0, MAX_POLICY_CHARS)?;
    let limit = usize::try_from(body.limit).unwrap_or(usize::MAX);
    let (replay, more) = replay::replay(Arc::clone(&caller.tenant), body.policy, limit).await?;
    Ok(JsonResponse(ReplayReport::from_replay(&replay, more)))
}

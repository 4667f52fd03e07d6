//! Judging: what the policy in force says of a plan, with the leaves in force and the tool's own word.

use std::sync::Arc;

use byleave_core::digest::Digest;
use byleave_core::effect::Plan;
use byleave_core::leave::LeaveMatcher;
use byleave_core::policy::Request;
use byleave_core::refusal::{Code, Refusal, Step};
use byleave_core::ruling::Ruling;
use serde_json::Value;

use crate::catalog::Entry as CatalogEntry;
use crate::gate::desk::Desk;
use crate::gate::footing::just_seen;
use crate::gate::parts::Parts;
use crate::guard::{Broken, guard};
use crate::tool::Tool;

/// Whether the tool itself asks for an approval of this call (T8).
pub(crate) async fn predicate(parts: &Parts, tool: Arc<dyn Tool>, arguments: Arc<Value>) -> Step<bool> {
    let limit = parts.settings.stranger_timeout;
    let answer = guard(limit, move || async move { tool.needs_approval(&arguments).await }).await;
    answer.map_err(|broken| {
        let code = match broken {
            Broken::Failed(_) => Code::PredicateFailed,
            Broken::Panicked(_) => Code::PredicatePanicked,
            Broken::TimedOut(_) => Code::PredicateTimedOut,
        };
        Refusal::new(code, format!("whether the call needs an approval could not be found out: {broken}"))
    })
}

/// What the policy in force says of a plan, with the leaves in force.
pub(crate) async fn rule(
    parts: &Parts,
    desk: &Desk,
    entry: &CatalogEntry,
    plan: &Plan,
    tool_asks: bool,
) -> Step<Ruling> {
    let heading = desk.record.heading().ok_or_else(|| Refusal::new(Code::RecordBroken, "no heading"))?;
    let now = parts.now();
    let policy = parts.policy.load_full();
    let given = match just_seen(parts, desk) {
        Some(seen) => Ok(seen.leaves.clone()),
        None => parts.ledger.leaves(&heading.tenant, &entry.manifest().name, now).await,
    };
    let given = given.map_err(|fault| Refusal::new(Code::JudgeFailed, fault.to_string()))?;
    let leaves: Result<Vec<LeaveMatcher>, _> =
        given.iter().map(|leave| LeaveMatcher::new((**leave).clone())).collect();
    let leaves = leaves.map_err(|bad| Refusal::new(Code::JudgeFailed, bad.to_string()))?;
    let request = Request {
        manifest: entry.manifest(),
        plan,
        mode: heading.mode,
        tool_asks,
        session: &heading.session,
        agent: &heading.agent,
        leaves: &leaves,
        now,
    };
    // A leave runs out of time and of uses; what rests on one is ruled anew each time, and so is what a sub-agent does.
    if !leaves.is_empty() || !parts.rulings.is_on() || !heading.lineage.is_empty() {
        return Ok(policy.rule_in(&request, &heading.lineage));
    }
    let Ok(plan_bytes) = serde_json::to_vec(plan) else { return Ok(policy.rule(&request)) };
    let (version, manifest) = (policy.digest(), entry.digest());
    let flags = [heading.mode as u8, u8::from(tool_asks)];
    // Only where a rule asks who calls, so that sessions share rulings everywhere else.
    let caller = if policy.looks_at_the_caller() {
        [heading.session.as_str().as_bytes(), heading.agent.as_str().as_bytes()]
    } else {
        [&[][..], &[]]
    };
    let [session, agent] = caller;
    let parts_of_key: [&[u8]; 6] =
        [version.as_bytes(), manifest.as_bytes(), &flags, &plan_bytes, session, agent];
    let key = Digest::of_parts("byleave.ruling", &parts_of_key);
    if let Some(ruling) = parts.rulings.get(&key) {
        return Ok(ruling);
    }
    let ruling = policy.rule(&request);
    parts.rulings.put(key, &ruling);
    Ok(ruling)
}

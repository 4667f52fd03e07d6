//! Scores a case by the kind of tool that it uses.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, LazyLock, Mutex};

use byleave_gate::core::call::Mode;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::Plan;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::policy::{Layer, Policy, PolicyRequest, RuleFile, SkipExamples, load_rules};
use byleave_gate::core::session::{Ceiling, SessionNode};
use byleave_gate::plan;
use byleave_gate::policy_case::manifest_for;
use byleave_gate::schema::{JsonLimits, Validator};
use byleave_gate::tool::ToolContext;
use serde_json::{Value, json};

use super::fixture::Fixture;
use byleave_testkit::corpus::answered_by;
use byleave_testkit::corpus::{Case, PLACES, policy_of, rules_of};

/// The score of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseScore {
    Held,
    FalseAllow,
    Softened,
    Elsewhere(&'static str),
}

pub(super) fn score(case: &Case) -> CaseScore {
    if let Some(part) = answered_by(case) {
        return CaseScore::Elsewhere(part);
    }
    if case.tool == "config" {
        return if is_without_effect(case) { CaseScore::Held } else { CaseScore::FalseAllow };
    }
    match (case.must.as_str(), verdict(case)) {
        (_, Verdict::Allow) => CaseScore::FalseAllow,
        ("deny", Verdict::Ask) => CaseScore::Softened,
        _ => CaseScore::Held,
    }
}

/// Returns the policy of a case, compiled once for the same rules, because that takes longer than evaluating
/// a case.
pub(super) fn shared_policy_of(case: &Case) -> Result<Arc<Policy>, Box<dyn Error>> {
    static MADE: LazyLock<Mutex<HashMap<String, Arc<Policy>>>> = LazyLock::new(Mutex::default);
    let rules = format!("{:?}", rules_of(case)?);
    let mut made = MADE.lock().unwrap();
    if let Some(policy) = made.get(&rules) {
        return Ok(Arc::clone(policy));
    }
    let policy = Arc::new(policy_of(case)?);
    made.insert(rules, Arc::clone(&policy));
    Ok(policy)
}

/// The cases about an invalid rule.
const BAD_FILES: [&str; 2] = ["malformed-rule-ignored", "backslash-rule-spelling"];

/// The verdict of a gate on the call of a case. If it cannot be evaluated, it is refused.
fn verdict(case: &Case) -> Verdict {
    let fixture = Fixture::of(case);
    let manifest = manifest_for(&case.tool);
    let agent = case.input.get("agent").and_then(Value::as_str).unwrap_or("a").replace(' ', "-");
    // A gate with an invalid policy does not start.
    let policy = match shared_policy_of(case) {
        Ok(policy) => policy,
        Err(fault) => {
            assert!(BAD_FILES.contains(&case.id.as_str()), "{}: {fault}", case.id);
            return Verdict::Deny;
        }
    };
    match planned(&manifest, &case.input, &fixture) {
        Some(plan) => judge_in(&policy, &manifest, &plan, &agent, mode(case), &lineage(case)),
        None => Verdict::Deny,
    }
}

/// Tests whether a file in a repository has no effect: it is not read in its place, and is refused as our own file.
fn is_without_effect(case: &Case) -> bool {
    let content = case.input["content"].as_str().unwrap();
    let layer = if case.input["file"] == "policy" { Layer::User } else { Layer::Project };
    let is_refused =
        load_rules(&RuleFile { name: "policy.toml", layer, text: content }, &PLACES, &SkipExamples).is_err();
    let file = case.input["file"].as_str().unwrap();
    if !file.starts_with("/ws/") {
        return is_refused;
    }
    let fixture = Fixture::of(case);
    let before = fixture.loaded();
    fixture.write(file, content);
    is_refused && fixture.loaded() == before
}

/// The mode of the call, if its case names one.
pub(super) fn mode(case: &Case) -> Mode {
    match case.setup.as_str() {
        "plan (read-only) mode" => Mode::ReadOnly,
        "agent definition requests bypass mode; organisation disabled it" => Mode::Yolo,
        _ => Mode::ConfirmSensitive,
    }
}

/// The parent sessions of the call, if its case names any.
fn lineage(case: &Case) -> Vec<SessionNode> {
    let opening = |session: &str, parent: Option<&str>, mode| SessionNode {
        session: SessionId::new(session).unwrap(),
        parent: parent.map(|parent| SessionId::new(parent).unwrap()),
        agent: AgentId::new(session).unwrap(),
        ceiling: Ceiling::from_mode(mode),
    };
    let child = |name: &str, parent: Mode| {
        vec![opening(name, Some("main"), Mode::Yolo), opening("main", None, parent)]
    };
    match case.setup.as_str() {
        "parent in plan (read-only) mode spawns a child" => child("child", Mode::ReadOnly),
        "deny rule on agent type X; named spawn used" => child("X", Mode::ConfirmSensitive),
        _ => Vec::new(),
    }
}

pub(super) fn judge(policy: &Policy, manifest: &Manifest, plan: &Plan, agent: &str) -> Verdict {
    judge_in(policy, manifest, plan, agent, Mode::ConfirmSensitive, &[])
}

fn judge_in(
    policy: &Policy,
    manifest: &Manifest,
    plan: &Plan,
    agent: &str,
    mode: Mode,
    lineage: &[SessionNode],
) -> Verdict {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new(agent).unwrap());
    let request = PolicyRequest { mode, ..PolicyRequest::new(manifest, plan, &session, &agent) };
    policy.evaluate_in_session(&request, lineage).verdict
}

/// The plan of a call in the fixture. `None` if its arguments are invalid or it cannot be planned, which refuses it.
pub(super) fn planned(manifest: &Manifest, input: &Value, fixture: &Fixture) -> Option<Plan> {
    Validator::new(&manifest.input_schema).unwrap().check(input, &JsonLimits::default()).ok()?;
    if manifest.name == "bash" {
        let mut plan = Plan::default();
        plan::add_command(&mut plan, input.get("command")?.as_str()?, fixture);
        return Some(plan);
    }
    let mut input = input.clone();
    if let Some(path) = input.get_mut("path") {
        let text = path.as_str()?.to_owned();
        // Paths of the machine, outside the fixture, are not changed.
        let is_inside = text.starts_with('/') && !text.starts_with("/proc") && !text.starts_with("/dev");
        *path = if is_inside { json!(fixture.real(&text)) } else { json!(text) };
    }
    if let Some(patch) = input.get_mut("patch") {
        *patch = json!(fixture.inside(patch.as_str()?));
    }
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let site = ToolContext { tenant: "t".parse().unwrap(), session, agent, cwd: fixture.real("/ws") };
    let plan = plan::plan_by_class(manifest, &input, &site).ok()?;
    let text = serde_json::to_string(&plan).unwrap();
    serde_json::from_str(&text.replace(fixture.real("/").to_str()?.trim_end_matches('/'), "")).ok()
}

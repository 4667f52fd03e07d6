//! Trials: a call judged under rules of its own, in a place that need not exist, so that anyone can score us with cases of
//! their own. Nothing is run and nothing is written.
//!
//! A case is judged under the built-in rules and its own, as rules of the user; files of policy are not looked at. Whatever
//! keeps a case from being judged denies it, and says why: a case is never passed over.

mod environment;

use std::collections::BTreeMap;
use std::path::Path;

use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::effect::Plan;
use byleave_core::id::{AgentId, InvalidNameError, SessionId, TenantId};
use byleave_core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_core::policy::{
    Layer, PathVariables, Policy, PolicyError, PolicyFileError, PolicyRequest, Rule, RuleFile, SkipExamples,
    builtin, read,
};
use byleave_core::refusal::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan;
use crate::schema::{JsonLimits, SchemaError, Validator};
use crate::tool::{ToolContext, ToolError};

pub use environment::CaseEnvironment;

/// One call to be judged, as a line of a corpus has it. What else stands there is for others.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// What it is called; given back as it came.
    #[serde(default)]
    pub id: Value,
    /// The tool: `bash`, `read_file`, `write_file`, `edit`, `apply_patch`, `web_fetch`, or any other.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
    /// The rules beside the built-in ones.
    #[serde(default)]
    pub rules: Vec<CaseRule>,
    /// What is said where no rule is about an effect; `ask` where nothing is said.
    #[serde(default)]
    pub default: Option<Verdict>,
    /// The directory that it works in, absolute.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The home directory, absolute.
    #[serde(default)]
    pub home: Option<String>,
    /// The directory that the agent may work in, absolute; that of `cwd` where nothing is said.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// A rule of a case: a `verdict`, and what it is about: `run`, `read`, `write`, `reach` or `mcp`.
pub type CaseRule = BTreeMap<String, Value>;

/// Where a case is judged, where it does not say so itself.
#[derive(Clone, Debug)]
pub struct CaseDefaults {
    /// The directory that it works in.
    pub cwd: String,
    /// The home directory.
    pub home: Option<String>,
    /// Whether the built-in rules hold.
    pub built_in: bool,
}

/// What was said of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in a line.
    pub because: String,
}

/// Why a case cannot be judged, which denies it.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A rule is wrong.
    #[error("rule {number} of the case cannot be used: {why}")]
    Rule {
        /// Which, from 1.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
    /// The rules cannot be used together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The schema of the tool is wrong, which is our fault.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The arguments are not those of the tool.
    #[error("{0}")]
    Arguments(Refusal),
    /// What the call would do cannot be worked out.
    #[error("what it would do cannot be worked out: {0}")]
    Plan(#[from] ToolError),
    /// The name of the caller is wrong, which is our fault.
    #[error(transparent)]
    Caller(#[from] InvalidNameError),
    /// A directory is not named as it must be.
    #[error("`{0}` is not an absolute path without `.` and `..`")]
    Place(String),
}

/// Judges a case. Never fails: what cannot be judged is denied.
pub fn judge(case: &Case, setting: &CaseDefaults) -> CaseVerdict {
    judged(case, setting)
        .unwrap_or_else(|fault| CaseVerdict { verdict: Verdict::Deny, because: fault.to_string() })
}

fn judged(case: &Case, setting: &CaseDefaults) -> Result<CaseVerdict, CaseError> {
    let cwd = case.cwd.as_deref().unwrap_or(&setting.cwd);
    let home = case.home.as_deref().or(setting.home.as_deref());
    let (state, config) = (
        home.map(|home| format!("{home}/.local/state/byleave")),
        home.map(|home| format!("{home}/.config/byleave")),
    );
    let places = PathVariables {
        workspace: Some(case.workspace.as_deref().unwrap_or(cwd)),
        home,
        state: state.as_deref(),
        config: config.as_deref(),
    };
    if !byleave_core::effect::is_resolved(cwd) {
        return Err(CaseError::Place(cwd.to_owned()));
    }
    places.check()?;
    let mut all = if setting.built_in { builtin(&places)? } else { Vec::new() };
    let (own, left_out) = rules(&case.rules, &places)?;
    all.extend(own);
    let policy = Policy::new(all)?.within(places.workspace);
    let manifest = manifest(&case.tool);
    Validator::new(&manifest.input_schema)?
        .check(&case.input, &JsonLimits::ARGUMENTS)
        .map_err(CaseError::Arguments)?;
    let plan = planned(&manifest, &case.input, cwd, home)?;
    let ruling = rule(&policy, &manifest, &plan)?;
    let mut said = said(&ruling, case.default.unwrap_or(Verdict::Ask));
    for number in left_out {
        said.because
            .push_str(&format!("; rule {number} allows what no rule of ours can say, so it was left out"));
    }
    Ok(said)
}

/// The rules of a case, as rules of the user; and the numbers of those that allow what cannot be said, and so cannot be given.
pub fn rules(rules: &[CaseRule], places: &PathVariables<'_>) -> Result<(Vec<Rule>, Vec<usize>), CaseError> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for (number, rule) in (1..).zip(rules) {
        let text = rule_text(number, rule);
        let file = RuleFile { name: "case", layer: Layer::User, text: &text };
        match read(&file, places, &SkipExamples) {
            Ok(read) => found.extend(read.rules),
            Err(_) if is_plain_allow(rule) => left_out.push(number),
            Err(PolicyFileError { flaws, .. }) => {
                let why =
                    flaws.iter().map(|flaw| format!("{}; {}", flaw.what, flaw.todo)).collect::<Vec<_>>();
                return Err(CaseError::Rule { number, why: why.join("; ") });
            }
        }
    }
    Ok((found, left_out))
}

/// Whether it is right but for a pattern that cannot be used. A rule with a misspelt key is wrong, not merely unsayable.
fn is_plain_allow(rule: &CaseRule) -> bool {
    let known = |key: &String| matches!(key.as_str(), "verdict" | "run" | "read" | "write" | "reach" | "mcp");
    rule.get("verdict").and_then(Value::as_str) == Some("allow") && rule.len() > 1 && rule.keys().all(known)
}

/// One rule of a case as it would stand in a file.
fn rule_text(number: usize, rule: &CaseRule) -> String {
    let mut text = format!("[[rule]]\nid = \"case-{number}\"\n");
    for (key, value) in rule {
        // Texts and lists of them are written alike in JSON and in TOML; what is neither is found wrong there.
        let key = serde_json::to_string(key).unwrap_or_default();
        text.push_str(&format!("{key} = {value}\n"));
        // Who may write a file may remove it.
        if key == "\"write\"" {
            text.push_str(&format!("delete = {value}\n"));
        }
    }
    text
}

/// What a tool of this name says of itself: its arguments, and no others.
pub fn manifest(tool: &str) -> Manifest {
    let (class, arguments): (_, &[(&str, Option<ArgumentRole>)]) = match tool {
        "bash" => (PermissionClass::Bash, &[("command", Some(ArgumentRole::Command)), ("cwd", None)]),
        "read_file" => (PermissionClass::Readonly, &[("path", Some(ArgumentRole::ReadPath))]),
        "write_file" => {
            (PermissionClass::File, &[("path", Some(ArgumentRole::WritePath)), ("content", None)])
        }
        "edit" => {
            (PermissionClass::File, &[("path", Some(ArgumentRole::EditPath)), ("old", None), ("new", None)])
        }
        "apply_patch" => (PermissionClass::File, &[("patch", Some(ArgumentRole::Patch))]),
        "web_fetch" => (PermissionClass::Webfetch, &[("url", Some(ArgumentRole::Url))]),
        _ => (PermissionClass::Generic, &[]),
    };
    let mut manifest = Manifest::new(tool, "", json!({"type": "object"}));
    manifest.sensitive = Some(false);
    manifest.permission_class = class;
    if class != PermissionClass::Generic {
        // Who calls is no argument of a tool; a case has no other place for it.
        let names = arguments.iter().map(|(name, _)| *name).chain(["agent"]);
        let properties: Value = names.map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
        manifest.input_schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
    }
    let roles = arguments.iter().filter_map(|(name, role)| Some((format!("/{name}"), (*role)?)));
    manifest.roles = roles.collect();
    manifest
}

/// What a call would do there.
fn planned(manifest: &Manifest, input: &Value, cwd: &str, home: Option<&str>) -> Result<Plan, CaseError> {
    if manifest.permission_class == PermissionClass::Bash {
        let text = input.get("command").and_then(Value::as_str);
        let text = text.ok_or_else(|| ToolError("`input` has no text `command`".into()))?;
        let mut plan = Plan::default();
        plan::command(&mut plan, text, &CaseEnvironment::new(Path::new("/"), cwd, home));
        return Ok(plan);
    }
    let (session, agent) = caller()?;
    Ok(plan::by_class(
        manifest,
        input,
        &ToolContext { tenant: TenantId::new("trial")?, session, agent, cwd: cwd.into() },
    )?)
}

fn rule(policy: &Policy, manifest: &Manifest, plan: &Plan) -> Result<PolicyDecision, CaseError> {
    let (session, agent) = caller()?;
    Ok(policy.rule(&PolicyRequest::plain(manifest, plan, &session, &agent)))
}

fn caller() -> Result<(SessionId, AgentId), InvalidNameError> {
    Ok((SessionId::new("trial")?, AgentId::new("trial")?))
}

/// The verdict with its reasons. What no rule is about gets the verdict that the case wants for that.
fn said(ruling: &PolicyDecision, default: Verdict) -> CaseVerdict {
    let says = |reason: &DecisionReason| match reason.cause.is_some_and(AskCause::is_uncovered) {
        true => default,
        false => reason.verdict,
    };
    let verdict = ruling.reasons.iter().map(says).max().unwrap_or(Verdict::Deny);
    let reasons = ruling.reasons.iter().filter(|reason| says(reason) == verdict);
    let mut because: Vec<String> = Vec::new();
    for reason in reasons {
        let told = match &reason.rule {
            Some(rule) => format!("`{rule}`: {}", reason.why),
            None => reason.why.clone(),
        };
        if !because.contains(&told) {
            because.push(told);
        }
    }
    CaseVerdict { verdict, because: because.join("; ") }
}

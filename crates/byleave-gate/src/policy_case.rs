//! Policy cases: evaluates a call under its own rules, in directories that need not exist, so that anyone can benchmark
//! Byleave. It must not run or write anything.
//!
//! A case is evaluated under the built-in rules and its own, as rules of the user. Policy files are not read. A case that
//! cannot be evaluated is denied with the reason, and never skipped.

mod environment;

use std::collections::BTreeMap;
use std::path::Path;

use byleave_core::call::Mode;
use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::effect::Plan;
use byleave_core::id::{AgentId, InvalidNameError, SessionId, TenantId};
use byleave_core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_core::policy::{
    Layer, PathVariables, Policy, PolicyError, PolicyFileError, PolicyRequest, Rule, RuleFile, SkipExamples,
    builtin_rules, load_rules,
};
use byleave_core::refusal::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan;
use crate::schema::{JsonLimits, SchemaError, Validator};
use crate::tool::{ToolContext, ToolError};

pub use environment::CaseEnvironment;

/// One call to evaluate, as in a line of a corpus. Other fields of the line are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its id, which is returned unchanged.
    #[serde(default)]
    pub id: Value,
    /// The tool: `bash`, `read_file`, `write_file`, `edit`, `apply_patch`, `web_fetch`, or any other.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
    /// The rules in addition to the built-in ones.
    #[serde(default)]
    pub rules: Vec<CaseRule>,
    /// The verdict on effects that no rule matches. The default is `ask`.
    #[serde(default)]
    pub default: Option<Verdict>,
    /// The absolute working directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The home directory, absolute.
    #[serde(default)]
    pub home: Option<String>,
    /// The absolute directory that the agent may work in. The default is `cwd`.
    #[serde(default)]
    pub workspace: Option<String>,
}

/// A rule of a case: a `verdict` and what it matches: `run`, `read`, `write`, `reach` or `mcp`.
pub type CaseRule = BTreeMap<String, Value>;

/// The environment of cases that do not specify their own.
#[derive(Clone, Debug)]
pub struct CaseDefaults {
    /// The working directory.
    pub cwd: String,
    /// The home directory.
    pub home: Option<String>,
    /// Whether the built-in rules apply.
    pub built_in: bool,
    /// How much is asked.
    pub mode: Mode,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseVerdict {
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, in one line.
    pub reason: String,
}

/// The reason why a case cannot be evaluated, which denies it.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A rule is invalid.
    #[error("cannot use rule {number} of the case: {reason}")]
    Rule {
        /// The number of the rule, from 1.
        number: usize,
        /// The error in it.
        reason: String,
    },
    /// The rules cannot be used together.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The schema of the tool is invalid, which is a bug in Byleave.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The arguments do not match the tool.
    #[error("{0}")]
    Arguments(Refusal),
    /// The effects of the call cannot be determined.
    #[error("cannot predict the effects: {0}")]
    Plan(#[from] ToolError),
    /// The name of the caller is invalid, which is a bug in Byleave.
    #[error(transparent)]
    Caller(#[from] InvalidNameError),
    /// The path of a directory is invalid.
    #[error("`{0}` is not an absolute path without `.` and `..`")]
    InvalidDirectory(String),
}

/// Evaluates a case. It never fails: a case that cannot be evaluated is denied.
pub fn evaluate(case: &Case, setting: &CaseDefaults) -> CaseVerdict {
    try_evaluate(case, setting)
        .unwrap_or_else(|fault| CaseVerdict { verdict: Verdict::Deny, reason: fault.to_string() })
}

fn try_evaluate(case: &Case, setting: &CaseDefaults) -> Result<CaseVerdict, CaseError> {
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
        return Err(CaseError::InvalidDirectory(cwd.to_owned()));
    }
    places.check()?;
    let mut all = if setting.built_in { builtin_rules(&places)? } else { Vec::new() };
    let (own, left_out) = parse_rules(&case.rules, &places)?;
    all.extend(own);
    let policy = Policy::new(all)?.with_workspace(places.workspace);
    let manifest = manifest_for(&case.tool);
    Validator::new(&manifest.input_schema)?
        .check(&case.input, &JsonLimits::ARGUMENTS)
        .map_err(CaseError::Arguments)?;
    let plan = plan_case(&manifest, &case.input, cwd, home)?;
    let ruling = evaluate_policy(&policy, &manifest, &plan, setting.mode)?;
    let mut said = to_case_verdict(&ruling, case.default.unwrap_or(Verdict::Ask));
    for number in left_out {
        said.reason.push_str(&format!(
            "; rule {number} was ignored, because a policy rule cannot express what it allows"
        ));
    }
    Ok(said)
}

/// Returns the rules of a case as rules of the user, and the numbers of allow rules with a pattern that cannot be expressed.
pub fn parse_rules(
    rules: &[CaseRule],
    places: &PathVariables<'_>,
) -> Result<(Vec<Rule>, Vec<usize>), CaseError> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for (number, rule) in (1..).zip(rules) {
        let text = rule_text(number, rule);
        let file = RuleFile { name: "case", layer: Layer::User, text: &text };
        match load_rules(&file, places, &SkipExamples) {
            Ok(read) => found.extend(read.rules),
            Err(_) if is_plain_allow(rule) => left_out.push(number),
            Err(PolicyFileError { diagnostics: flaws, .. }) => {
                let why =
                    flaws.iter().map(|flaw| format!("{}; {}", flaw.message, flaw.help)).collect::<Vec<_>>();
                return Err(CaseError::Rule { number, reason: why.join("; ") });
            }
        }
    }
    Ok((found, left_out))
}

/// Checks whether an allow rule is valid except for an unusable pattern. A rule with a misspelt key is invalid instead.
fn is_plain_allow(rule: &CaseRule) -> bool {
    let known = |key: &String| {
        matches!(key.as_str(), "verdict" | "run" | "read" | "write" | "reach" | "send" | "mcp")
    };
    rule.get("verdict").and_then(Value::as_str) == Some("allow") && rule.len() > 1 && rule.keys().all(known)
}

/// Returns one rule of a case in the format of a policy file.
fn rule_text(number: usize, rule: &CaseRule) -> String {
    let mut text = format!("[[rule]]\nid = \"case-{number}\"\n");
    for (key, value) in rule {
        // Strings and lists of strings have the same syntax in JSON and TOML. Other values are rejected by the parser.
        let key = serde_json::to_string(key).unwrap_or_default();
        text.push_str(&format!("{key} = {value}\n"));
        // Permission to write a file includes permission to delete it.
        if key == "\"write\"" {
            text.push_str(&format!("delete = {value}\n"));
        }
    }
    text
}

/// Returns the manifest of a tool with this name. It accepts no other arguments.
pub fn manifest_for(tool: &str) -> Manifest {
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
        // The agent is not an argument of a tool, but a case has no other field for it.
        let names = arguments.iter().map(|(name, _)| *name).chain(["agent"]);
        let properties: Value = names.map(|name| (name.to_owned(), json!({"type": "string"}))).collect();
        manifest.input_schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
    }
    let roles = arguments.iter().filter_map(|(name, role)| Some((format!("/{name}"), (*role)?)));
    manifest.roles = roles.collect();
    manifest
}

/// Computes the plan of a call in this environment.
fn plan_case(manifest: &Manifest, input: &Value, cwd: &str, home: Option<&str>) -> Result<Plan, CaseError> {
    if manifest.permission_class == PermissionClass::Bash {
        let text = input.get("command").and_then(Value::as_str);
        let text = text.ok_or_else(|| ToolError("`input` has no string `command`".into()))?;
        let mut plan = Plan::default();
        plan::add_command(&mut plan, text, &CaseEnvironment::new(Path::new("/"), cwd, home));
        return Ok(plan);
    }
    let (session, agent) = case_caller()?;
    Ok(plan::plan_by_class(
        manifest,
        input,
        &ToolContext { tenant: TenantId::new("trial")?, session, agent, cwd: cwd.into() },
    )?)
}

fn evaluate_policy(
    policy: &Policy,
    manifest: &Manifest,
    plan: &Plan,
    mode: Mode,
) -> Result<PolicyDecision, CaseError> {
    let (session, agent) = case_caller()?;
    let request = PolicyRequest { mode, ..PolicyRequest::new(manifest, plan, &session, &agent) };
    Ok(policy.evaluate(&request))
}

fn case_caller() -> Result<(SessionId, AgentId), InvalidNameError> {
    Ok((SessionId::new("trial")?, AgentId::new("trial")?))
}

/// Returns the verdict with its reasons. Effects that no rule matches get the default verdict of the case.
fn to_case_verdict(ruling: &PolicyDecision, default: Verdict) -> CaseVerdict {
    // A mode may already have answered the ask.
    let is_default = |reason: &DecisionReason| {
        reason.verdict == Verdict::Ask && reason.cause.is_some_and(AskCause::is_no_rule)
    };
    let says = |reason: &DecisionReason| if is_default(reason) { default } else { reason.verdict };
    let verdict = ruling.reasons.iter().map(says).max().unwrap_or(Verdict::Deny);
    let reasons = ruling.reasons.iter().filter(|reason| says(reason) == verdict);
    let mut because: Vec<String> = Vec::new();
    for reason in reasons {
        let told = match &reason.rule {
            Some(rule) => format!("`{rule}`: {}", reason.message),
            None => reason.message.clone(),
        };
        if !because.contains(&told) {
            because.push(told);
        }
    }
    CaseVerdict { verdict, reason: because.join("; ") }
}

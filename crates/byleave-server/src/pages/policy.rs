//! The policy page: the rules in force, what they decide on a call, and what other rules would have decided on past calls.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Html;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Call;
use byleave_gate::core::decision::{DecisionReason, Verdict};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::escape::{EscapeLevel, make_visible};
use byleave_gate::core::id::CallId;
use byleave_gate::core::policy::Policy;
use byleave_gate::gate::Explanation;
use byleave_gate::replay::PolicyReplay;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::error_page::ErrorPage;
use super::form::CsrfForm;
use super::layout::{csrf_field, page};
use super::signed_in_user::SignedInUser;
use crate::api_types::{MAX_POLICY_CHARS, check_length};
use crate::client_tools::may_use;
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::replay;
use crate::state::App;

/// The tool whose arguments can be given as the command alone.
const SHELL_TOOL: &str = "bash";
/// The number of past calls that a replay evaluates.
const REPLAYED: usize = 500;
/// The maximum number of listed calls with another verdict.
const CHANGES_MAX: usize = 100;
/// The maximum length of the arguments of a call to explain.
const ARGUMENTS_CHARS_MAX: usize = 100_000;

/// What was entered in the forms of the page.
#[derive(Default)]
struct Entered {
    tool: String,
    arguments: String,
    rules: String,
}

/// Shows the rules in force.
pub(super) async fn show(State(_app): State<App>, visitor: SignedInUser) -> Result<Html<String>, ErrorPage> {
    visitor.require_scope(&[AccessScope::Read])?;
    Ok(render(&visitor, &Entered::default(), &html! {}))
}

/// Explains what the rules in force decide on a call. Nothing runs.
pub(super) async fn explain(State(_app): State<App>, form: CsrfForm) -> Result<Html<String>, ErrorPage> {
    let CsrfForm { user: visitor, fields } = form;
    visitor.require_scope(&[AccessScope::Read])?;
    let (tool, text) = (fields.require("tool")?, fields.require("arguments")?);
    check_length("tool", tool, 1, 128)?;
    check_length("arguments", text, 0, ARGUMENTS_CHARS_MAX)?;
    if !may_use(visitor.caller.name(), tool) {
        return Err(Problem::not_found("tool").into());
    }
    let entered = Entered { tool: tool.to_owned(), arguments: text.to_owned(), ..Entered::default() };
    let Some(arguments) = read_arguments(tool, text) else {
        let wrong = html! { p.wrong role="alert" { "The arguments must be a JSON object." } };
        return Ok(render(&visitor, &entered, &wrong));
    };
    let call = Call {
        id: CallId::new(fresh_id()),
        tenant: visitor.caller.tenant.id().clone(),
        session: visitor.caller.session("main")?,
        agent: visitor.caller.agent()?,
        tool: tool.to_owned(),
        arguments,
        reason: None,
        cwd: visitor.caller.tenant.cwd.clone(),
        mode: visitor.caller.tenant.mode,
        dry_run: true,
    };
    let result = match visitor.caller.tenant.gate.explain(call).await {
        Ok(found) => explanation(&found),
        Err(refusal) => html! {
            section.card aria-label="Decision" {
                h2 { "Refused before the policy is evaluated" }
                p { (make_visible(&refusal.to_string(), EscapeLevel::Text)) }
            }
        },
    };
    Ok(render(&visitor, &entered, &result))
}

/// Evaluates past calls with other rules, which do not come into force.
pub(super) async fn replay(State(_app): State<App>, form: CsrfForm) -> Result<Html<String>, ErrorPage> {
    let CsrfForm { user: visitor, fields } = form;
    visitor.require_scope(&[AccessScope::Administer])?;
    let rules = fields.require("rules")?.replace("\r\n", "\n");
    check_length("rules", &rules, 0, MAX_POLICY_CHARS)?;
    let entered = Entered { rules: rules.clone(), ..Entered::default() };
    let result = match replay::replay(Arc::clone(&visitor.caller.tenant), rules, REPLAYED).await {
        Ok((found, has_more)) => replayed(&found, has_more),
        // The person mends the rules in the form.
        Err(problem) if problem.status() == ProblemKind::Unusable.status() => html! {
            p.wrong role="alert" { "These rules are not valid: " (make_visible(problem.detail(), EscapeLevel::Text)) }
        },
        Err(problem) => return Err(problem.into()),
    };
    Ok(render(&visitor, &entered, &result))
}

/// Returns the arguments: a JSON object, or the command of a shell.
fn read_arguments(tool: &str, text: &str) -> Option<Value> {
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Some(value),
        _ if tool == SHELL_TOOL => Some(json!({ "command": text.replace("\r\n", "\n") })),
        _ => None,
    }
}

fn render(visitor: &SignedInUser, entered: &Entered, result: &Markup) -> Html<String> {
    let gate = &visitor.caller.tenant.gate;
    let policy = gate.policy();
    let tools: Vec<String> = gate
        .catalog()
        .list()
        .iter()
        .map(|entry| entry.name().to_owned())
        .filter(|name| may_use(visitor.caller.name(), name))
        .collect();
    let chosen = if entered.tool.is_empty() { SHELL_TOOL } else { &entered.tool };
    let body = html! {
        h1 { "Policy" }
        (result)
        form.card method="post" action="/policy/explain" {
            h2 { "What is decided on a call?" }
            (csrf_field(visitor))
            label for="tool" { "Tool" }
            select #tool name="tool" { @for tool in &tools { option value=(tool) selected[tool == chosen] { (tool) } } }
            label for="arguments" { "Arguments as a JSON object; for " code { (SHELL_TOOL) } " the command is enough" }
            textarea #arguments name="arguments" rows="3" spellcheck="false" required { (entered.arguments) }
            p.hint { "Nothing runs, nobody is asked, and nothing is recorded." }
            button type="submit" { "Explain" }
        }
        @if visitor.has(AccessScope::Administer) && visitor.caller.tenant.trial_policy.is_some() {
            details.card open[!entered.rules.is_empty()] {
                summary { "Try other rules on past calls" }
                form method="post" action="/policy/replay" {
                    (csrf_field(visitor))
                    label for="rules" { "A policy file, in the place of the user’s" }
                    textarea #rules name="rules" rows="10" spellcheck="false" maxlength=(MAX_POLICY_CHARS) { (entered.rules) }
                    p.hint { "Evaluates the newest " (REPLAYED) " calls as they were recorded. The rules do not come into force." }
                    button type="submit" { "Replay" }
                }
            }
        }
        (rules(&policy))
    };
    page(visitor, "Policy", "/policy", &body)
}

fn rules(policy: &Policy) -> Markup {
    html! {
        h2 { "Rules in force" }
        p.hint { "A deny is stronger than an ask, and an ask is stronger than an allow, whatever their order." }
        div.scroll tabindex="0" role="region" aria-label="Rules in force" {
            table.calls.rules {
                thead { tr { th scope="col" { "Rule" } th scope="col" { "Verdict" } th scope="col" { "Layer" } th scope="col" { "Reason" } th scope="col" { "Source" } } }
                tbody {
                    @for rule in policy.rules() {
                        tr id={ "rule-" (make_visible(&rule.id, EscapeLevel::Name)) } {
                            td { code { (make_visible(&rule.id, EscapeLevel::Name)) } }
                            td { (verdict(rule.verdict)) }
                            td { (rule.layer) }
                            td { (make_visible(&rule.reason, EscapeLevel::Text)) }
                            td.about { @if let Some(origin) = &rule.origin { (make_visible(origin, EscapeLevel::Text)) } }
                        }
                    }
                }
            }
        }
    }
}

fn verdict(verdict: Verdict) -> Markup {
    html! { span.tag.good[verdict == Verdict::Allow].bad[verdict == Verdict::Deny] { (verdict.as_str()) } }
}

fn explanation(found: &Explanation) -> Markup {
    let words = match found.decision.verdict {
        Verdict::Allow => "It would run without a question",
        Verdict::Ask => "A person would be asked",
        Verdict::Deny => "It would be refused",
    };
    html! {
        section.card aria-label="Decision" {
            h2 { (words) " " (verdict(found.decision.verdict)) }
            ul.plain { @for reason in &found.decision.reasons { (one_reason(reason, &found.plan)) } }
        }
    }
}

fn one_reason(reason: &DecisionReason, plan: &Plan) -> Markup {
    let at = |place: &u32| usize::try_from(*place).ok().and_then(|place| plan.effects.get(place));
    let effects: Vec<&Effect> = reason.effects.iter().filter_map(at).collect();
    html! {
        li {
            (verdict(reason.verdict)) " " (make_visible(&reason.message, EscapeLevel::Text))
            @if let Some(rule) = &reason.rule {
                " · rule " a href={ "#rule-" (make_visible(rule, EscapeLevel::Name)) } { code { (make_visible(rule, EscapeLevel::Name)) } }
            }
            @if let Some(origin) = &reason.origin { " " span.about { (make_visible(origin, EscapeLevel::Text)) } }
            @if effects.is_empty() { div.about { "about the call as a whole" } }
            @for effect in effects { div.effect { code { (make_visible(&effect.to_string(), EscapeLevel::Text)) } } }
        }
    }
}

fn replayed(found: &PolicyReplay, has_more: bool) -> Markup {
    html! {
        section.card aria-label="Replay" {
            h2 { (found.changes.len()) " of " (found.evaluated) " calls would be decided differently" }
            p.hint {
                (found.unchanged_count()) " the same, " (found.skipped.len()) " could not be evaluated"
                @if has_more { ", older calls were not tried" } "."
            }
            @if !found.changes.is_empty() {
                div.scroll tabindex="0" role="region" aria-label="Calls with another verdict" {
                    table.calls {
                        thead { tr { th scope="col" { "Before" } th scope="col" { "After" } th scope="col" { "Tool" } th scope="col" { "Call" } th scope="col" { "Reason" } } }
                        tbody {
                            @for change in found.changes.iter().take(CHANGES_MAX) {
                                tr {
                                    td { (verdict(change.call.decision.verdict)) }
                                    td { (verdict(change.new_decision.verdict)) }
                                    td { (make_visible(&change.call.header.tool, EscapeLevel::Name)) }
                                    td { a href={ "/log/" (change.call.call) } { (make_visible(&change.call.summary, EscapeLevel::Text)) } }
                                    td.about { @if let Some(reason) = change.new_decision.decisive_reason() { (make_visible(&reason.message, EscapeLevel::Text)) } }
                                }
                            }
                        }
                    }
                }
                @if found.changes.len() > CHANGES_MAX { p.hint { "The first " (CHANGES_MAX) " are listed." } }
            }
        }
    }
}

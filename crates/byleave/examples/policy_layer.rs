//! Your own layer of rules over the built-in ones: from a file with examples, and made by a program. Nothing runs here. A policy
//! is a function from the effects of a call to a decision with its reasons.
//!
//! `cargo run -p byleave --example policy_layer`
#![expect(clippy::print_stdout, reason = "an example says what it does")]

use byleave::core::decision::Verdict;
use byleave::core::effect::{Effect, Plan};
use byleave::core::id::{AgentId, SessionId};
use byleave::core::manifest::Manifest;
use byleave::core::pattern::Pattern;
use byleave::core::policy::{
    Layer, PathVariables, Policy, PolicyRequest, Rule, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use serde_json::json;

/// The rules of an organisation for all its users. Each rule has examples, which are checked when it is loaded.
const OURS: &str = r#"
[[rule]]
id = "our-mirror"
verdict = "allow"
reach = ["mirror.example.com"]
reason = "packages come from our mirror"
matches = ["mirror.example.com"]
not_matches = ["mirror.example.com.evil.example"]

[[rule]]
id = "no-terraform"
verdict = "deny"
run = "terraform"
reason = "infrastructure is changed by the pipeline alone"
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let places = PathVariables { workspace: Some("/work"), ..PathVariables::default() };
    let mut rules = builtin_rules(&places)?;

    // A rule file is valid as a whole, including its examples, or it is rejected as a whole.
    let file = RuleFile { name: "ours.toml", layer: Layer::Organisation, text: OURS };
    let ours = load_rules(&file, &places, &SkipExamples)?;
    println!("{} rules of ours, {} examples hold", ours.rules.len(), ours.checked_count);
    rules.extend(ours.rules);

    // A rule made by a program, for this session only.
    let drafts = Pattern::Write("/work/drafts/**".into());
    rules.push(Rule::new("drafts", Layer::Session, Verdict::Allow, vec![drafts]));
    let policy = Policy::new(rules)?;

    let (manifest, session, agent) =
        (Manifest::new("any", "Any tool", json!({})), SessionId::new("s")?, AgentId::new("a")?);
    let ruling = |effect: Effect| {
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let ruling = policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent));
        for reason in &ruling.reasons {
            println!(
                "{:?}: {} ({})",
                reason.verdict,
                reason.message,
                reason.rule.as_deref().unwrap_or("no rule")
            );
        }
        ruling.verdict
    };
    let apply =
        Effect::Run { program: "/usr/bin/terraform".into(), argv: vec!["terraform".into(), "apply".into()] };
    assert_eq!(ruling(Effect::Reach { host: "mirror.example.com".into(), port: 443 }), Verdict::Allow);
    assert_eq!(ruling(apply), Verdict::Deny);
    assert_eq!(ruling(Effect::Write { path: "/work/drafts/a.md".into() }), Verdict::Allow);
    // An effect that no rule covers is asked about.
    assert_eq!(ruling(Effect::Write { path: "/work/src/a.rs".into() }), Verdict::Ask);
    Ok(())
}

//! A layer of rules of your own, over the built-in ones: from a file with examples, and made by a program. Nothing is run here: a
//! policy is a function from what a call would do to a ruling, with its reasons.
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

/// What an organisation wants for all of its people. Each rule stands with examples, which are checked when it is read.
const OURS: &str = r#"
[[rule]]
id = "our-mirror"
verdict = "allow"
reach = ["mirror.example.com"]
why = "packages come from our mirror"
yes = ["mirror.example.com"]
no = ["mirror.example.com.evil.example"]

[[rule]]
id = "no-terraform"
verdict = "deny"
run = "terraform"
why = "infrastructure is changed by the pipeline alone"
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let places = PathVariables { workspace: Some("/work"), ..PathVariables::default() };
    let mut rules = builtin_rules(&places)?;

    // A file of rules is right in full, examples included, or nothing of it is taken.
    let file = RuleFile { name: "ours.toml", layer: Layer::Organisation, text: OURS };
    let ours = load_rules(&file, &places, &SkipExamples)?;
    println!("{} rules of ours, {} examples hold", ours.rules.len(), ours.checked_count);
    rules.extend(ours.rules);

    // A rule that a program makes, for this session alone.
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
                reason.why,
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
    // What no rule covers is asked about.
    assert_eq!(ruling(Effect::Write { path: "/work/src/a.rs".into() }), Verdict::Ask);
    Ok(())
}

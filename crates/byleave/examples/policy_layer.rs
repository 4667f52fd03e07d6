//! Your own rules on top of the built-in ones: from a file with examples, and made by a program. Nothing runs here: a policy is a
//! function from the effects of a call to a decision with its reasons.
//!
//! `cargo run -p byleave --example policy_layer`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use byleave::policy::{
    Layer, PathVariables, Pattern, PolicyRequest, Rule, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use byleave::prelude::*;
use byleave::tool::Manifest;
use byleave::{AgentId, SessionId};

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

fn main() -> byleave::Result<()> {
    let places = PathVariables { workspace: Some("/work"), ..PathVariables::default() };
    let mut rules = builtin_rules(&places)?;

    // A rule file is valid as a whole, including its examples, or it is rejected as a whole.
    let file = RuleFile { name: "ours.toml", layer: Layer::Organisation, text: OURS };
    let ours = load_rules(&file, &places, &SkipExamples)?;
    println!("{} rules, {} examples checked", ours.rules.len(), ours.checked_count);
    rules.extend(ours.rules);

    // A rule made by a program, for this session only.
    let drafts = Pattern::Write("/work/drafts/**".into());
    rules.push(Rule::new("drafts", Layer::Session, Verdict::Allow, vec![drafts]));
    let policy = Policy::new(rules)?;

    let (manifest, session, agent) =
        (Manifest::new("any", "Any tool", json!({})), SessionId::new("s")?, AgentId::new("a")?);
    let verdict = |effect: Effect| {
        let plan = Plan { effects: vec![effect], ..Plan::default() };
        let decision = policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent));
        for reason in &decision.reasons {
            println!(
                "{:?}: {} ({})",
                reason.verdict,
                reason.message,
                reason.rule.as_deref().unwrap_or("no rule")
            );
        }
        decision.verdict
    };
    let apply =
        Effect::Run { program: "/usr/bin/terraform".into(), argv: vec!["terraform".into(), "apply".into()] };
    assert_eq!(verdict(Effect::Reach { host: "mirror.example.com".into(), port: 443 }), Verdict::Allow);
    assert_eq!(verdict(apply), Verdict::Deny);
    assert_eq!(verdict(Effect::Write { path: "/work/drafts/a.md".into() }), Verdict::Allow);
    // An effect that no rule covers is asked about.
    assert_eq!(verdict(Effect::Write { path: "/work/src/a.rs".into() }), Verdict::Ask);
    Ok(())
}

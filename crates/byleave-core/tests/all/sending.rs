//! Sending to a host is an effect apart from reaching it.

use byleave_core::decision::Verdict::{self, Allow, Ask, Deny};
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::Manifest;
use byleave_core::pattern::Pattern;
use byleave_core::policy::{
    Layer, PathVariables, Policy, PolicyRequest, Profile, Rule, RuleCondition, RuleFile, SkipExamples,
    load_rules,
};

fn reach(host: &str) -> Effect {
    Effect::Reach { host: host.into(), port: 443 }
}

fn send(host: &str) -> Effect {
    Effect::Send { host: host.into(), port: 443 }
}

fn rules(layer: Layer, text: &str) -> Vec<Rule> {
    let places = PathVariables { workspace: Some("/w"), home: Some("/h"), ..PathVariables::default() };
    load_rules(&RuleFile { name: "r.toml", layer, text }, &places, &SkipExamples).unwrap().rules
}

fn verdict(policy: &Policy, effects: &[Effect], read_foreign: bool) -> Verdict {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let (manifest, plan) =
        (Manifest::for_commands("c"), Plan { effects: effects.to_vec(), ..Plan::default() });
    let request = PolicyRequest::new(&manifest, &plan, &session, &agent);
    policy.evaluate(&PolicyRequest { read_foreign, ..request }).verdict
}

// req: P1
#[test]
fn a_rule_about_reaching_allows_reading_and_denies_both() {
    let check = |rule: &str, read: Verdict, sent: Verdict| {
        let policy = Policy::new(rules(Layer::User, &format!("[[rule]]\nid = \"r\"\n{rule}"))).unwrap();
        assert_eq!(verdict(&policy, &[reach("a.example")], false), read, "{rule}");
        assert_eq!(verdict(&policy, &[send("a.example")], false), sent, "{rule}");
        // The strictest verdict counts for a plan that does both.
        assert_eq!(
            verdict(&policy, &[reach("a.example"), send("a.example")], false),
            read.max(sent),
            "{rule}"
        );
        assert_eq!(verdict(&policy, &[send("other.test")], false), Ask, "{rule}");
    };
    check("verdict = \"allow\"\nreach = \"*.example\"", Allow, Ask);
    check("verdict = \"allow\"\nsend = \"*.example\"", Allow, Allow);
    check("verdict = \"deny\"\nreach = \"*.example\"", Deny, Deny);
    check("verdict = \"deny\"\nsend = \"*.example\"", Ask, Deny);
    check("verdict = \"deny\"\nreach = \"*.example\"\nexcept = \"a.example\"", Ask, Ask);
    check("verdict = \"allow\"\nsend = \"*.example\"\nexcept = \"a.example\"", Ask, Ask);
    let both = "verdict = \"allow\"\nreach = \"*.example\"\n[[rule]]\nid = \"q\"\nverdict = \"ask\"\nsend = \"a.example\"";
    check(both, Allow, Ask);
    let denied = "verdict = \"allow\"\nsend = \"*.example\"\n[[rule]]\nid = \"q\"\nverdict = \"deny\"\nsend = \"a.example\"";
    check(denied, Allow, Deny);
}

// req: P1
#[test]
fn the_profiles_allow_registries_for_reading_only() {
    for name in ["everyday", "ci"] {
        let profile = Profile::find(name).unwrap();
        let policy = Policy::new(rules(Layer::User, profile.toml)).unwrap();
        for host in ["registry.npmjs.org", "pypi.org", "index.crates.io", "rubygems.org"] {
            assert_eq!(verdict(&policy, &[reach(host)], false), Allow, "{name} {host}");
            assert_eq!(verdict(&policy, &[send(host)], false), Ask, "{name} {host}");
        }
    }
}

// req: P1
#[test]
fn a_condition_on_foreign_text_holds_for_sessions_that_read_some() {
    let asks = Rule {
        when: RuleCondition { read_foreign: Some(true), ..RuleCondition::default() },
        ..Rule::new("after-reading", Layer::User, Ask, vec![Pattern::Reach("*".into())])
    };
    let allows = Rule::new("hosts", Layer::User, Allow, vec![Pattern::Send("*".into())]);
    let policy = Policy::new(vec![asks, allows]).unwrap();
    assert!(policy.depends_on_foreign_text());
    for effect in [reach("a.example"), send("a.example")] {
        assert_eq!(verdict(&policy, std::slice::from_ref(&effect), false), Allow, "{effect}");
        assert_eq!(verdict(&policy, std::slice::from_ref(&effect), true), Ask, "{effect}");
    }
    let text = "[[rule]]\nid = \"r\"\nverdict = \"deny\"\nsend = \"*\"\nwhen = { read_foreign = true }";
    let policy = Policy::new(rules(Layer::Project, text)).unwrap();
    assert_eq!(verdict(&policy, &[send("a.example")], false), Ask);
    assert_eq!(verdict(&policy, &[send("a.example")], true), Deny);
}

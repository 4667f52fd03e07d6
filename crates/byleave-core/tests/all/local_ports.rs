//! Ports of this machine, and hosts that lead to private addresses, in rules.

use byleave_core::decision::Verdict::{self, Allow, Ask, Deny};
use byleave_core::effect::{Effect, Plan};
use byleave_core::host::{is_localhost, never_opened};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::Manifest;
use byleave_core::policy::{
    Layer, PathVariables, Policy, PolicyFileError, PolicyRequest, Rule, RuleFile, SkipExamples, load_rules,
};

fn load(layer: Layer, rule: &str) -> Result<Vec<Rule>, PolicyFileError> {
    let places = PathVariables { workspace: Some("/w"), home: Some("/h"), ..PathVariables::default() };
    let text = &format!("[[rule]]\nid = \"r\"\nreason = \"x\"\n{rule}");
    load_rules(&RuleFile { name: "r.toml", layer, text }, &places, &SkipExamples).map(|file| file.rules)
}

fn verdict(rule: &str, effect: Effect) -> Verdict {
    let policy = Policy::new(load(Layer::User, rule).unwrap()).unwrap();
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let (manifest, plan) = (Manifest::for_commands("c"), Plan { effects: vec![effect], ..Plan::default() });
    policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent)).verdict
}

// req: P5, E7
#[test]
fn an_allow_of_a_port_of_this_machine_is_for_that_port_by_each_of_its_names() {
    let reach = |host: &str, port| Effect::Reach { host: host.into(), port };
    let send = |host: &str, port| Effect::Send { host: host.into(), port };
    let allow = |reach: &str| format!("verdict = \"allow\"\nreach = \"{reach}\"");
    for host in ["localhost", "127.0.0.1", "::1"] {
        assert_eq!(verdict(&allow("localhost:5432"), reach(host, 5432)), Allow, "{host}");
        // No proxy can read what a database is sent, so a port is opened whole.
        assert_eq!(verdict(&allow("localhost:5432"), send(host, 5432)), Allow, "{host}");
        assert_eq!(verdict(&allow("localhost:5432"), reach(host, 5433)), Ask, "{host}");
        assert_eq!(verdict(&allow("localhost:5432"), reach(host, 0)), Ask, "{host}: an unknown port");
    }
    assert_eq!(verdict(&allow("127.0.0.1:5432"), reach("localhost", 5432)), Allow);
    assert_eq!(verdict(&allow("127.0.0.1:5432"), reach("::1", 5432)), Ask);
    // Nothing but its name opens it.
    for wide in ["*:*", "*:5432", "127.0.0.0/8:5432", "0.0.0.0/0:*", "*.localhost:5432"] {
        for host in ["localhost", "127.0.0.1"] {
            assert_eq!(verdict(&allow(wide), reach(host, 5432)), Ask, "{wide} {host}");
        }
    }
    for other in
        ["127.0.0.2", "a.localhost", "localhost.localdomain", "0.0.0.0", "::ffff:127.0.0.2", "0177.0.0.1"]
    {
        assert_eq!(verdict(&allow("localhost:5432"), reach(other, 5432)), Ask, "{other}");
    }
    let deny = |reach: &str| format!("verdict = \"deny\"\nreach = \"{reach}\"");
    for denied in ["localhost", "127.0.0.1", "127.0.0.0/8", "*", "localhost:5432"] {
        assert_eq!(verdict(&deny(denied), reach("localhost", 5432)), Deny, "{denied}");
    }
    assert_eq!(verdict(&deny("localhost"), reach("127.0.0.1", 5432)), Deny);
}

// req: P1, E7
#[test]
fn a_rule_that_could_not_or_must_not_work_is_an_error() {
    for (rule, told) in [
        ("verdict = \"allow\"\nreach = \"localhost:*\"", "a single port of this machine"),
        ("verdict = \"allow\"\nsend = \"[::1]:*\"", "a single port of this machine"),
        ("verdict = \"allow\"\nreach = \"localhost:2375\"", "a container engine"),
        ("verdict = \"allow\"\nreach = \"127.0.0.1:9229\"", "debugger"),
        ("verdict = \"allow\"\nsend = \"[::1]:9222\"", "debugger"),
        ("verdict = \"ask\"\nreach = \"a.example\"\nprivate = true", "valid only on an `allow`"),
        ("verdict = \"allow\"\nrun = \"ls\"\nprivate = true", "valid only on an `allow`"),
        ("verdict = \"allow\"\nreach = \"*\"\nprivate = true", "for every host"),
    ] {
        let error = load(Layer::User, rule).unwrap_err().to_string();
        assert!(error.contains(told), "{rule}: {error}");
    }
    for rule in [
        "verdict = \"allow\"\nreach = [\"registry.example:4873\", \"*.corp.example\"]\nprivate = true",
        "verdict = \"deny\"\nreach = \"localhost:*\"",
        "verdict = \"ask\"\nreach = \"localhost:2375\"",
    ] {
        assert!(load(Layer::User, rule).is_ok(), "{rule}");
    }
    // A project opens nothing, by any name.
    for reach in ["localhost:5432", "127.0.0.1:5432", "registry.example"] {
        for private in ["", "\nprivate = true"] {
            let error = load(Layer::Project, &format!("verdict = \"allow\"\nreach = \"{reach}\"{private}"));
            assert!(error.unwrap_err().to_string().contains("project"), "{reach}");
        }
    }
    assert!(load(Layer::Project, "verdict = \"ask\"\nreach = \"a.example\"\nprivate = true").is_err());
}

// req: E7
#[test]
fn a_plan_for_a_control_port_is_denied_and_others_are_not() {
    assert!(is_localhost("LOCALHOST.") && is_localhost("127.1") && is_localhost("[::1]"));
    assert!(!is_localhost("localhost.example") && !is_localhost("127.0.0.2") && !is_localhost("a.localhost"));
    for port in [53, 2375, 2376, 3128, 5005, 9222, 9229, 10250] {
        assert!(never_opened(port).is_some(), "{port}");
    }
    for port in [80, 1433, 3000, 3306, 5173, 5432, 6006, 6379, 8000, 8080, 9000, 27017] {
        assert_eq!(never_opened(port), None, "{port}");
    }
    let dangers = |host: &str, port| {
        let mut plan = Plan { effects: vec![Effect::Reach { host: host.into(), port }], ..Plan::default() };
        plan.deny_control_ports();
        plan.dangers.into_iter().map(|danger| danger.denied).collect::<Vec<_>>()
    };
    assert_eq!(dangers("127.0.0.1", 2375), [true]);
    assert_eq!((dangers("localhost", 5432), dangers("docker.example", 2375)), (vec![], vec![]));
}

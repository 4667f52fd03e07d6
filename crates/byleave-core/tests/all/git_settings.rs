//! Rules about the settings file of a repository, and effects on one setting in it.

use byleave_core::decision::Verdict::{self, Allow, Ask, Deny};
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::Manifest;
use byleave_core::policy::{
    Layer, PathVariables, Policy, PolicyRequest, RuleFile, SkipExamples, builtin_rules, load_rules,
};

fn verdict(layer: Layer, rule: &str) -> Verdict {
    let places = PathVariables { workspace: Some("/w"), home: Some("/h"), ..PathVariables::default() };
    let text = &format!("[[rule]]\nid = \"r\"\n{rule}");
    let mut rules = builtin_rules(&places).unwrap();
    rules
        .extend(load_rules(&RuleFile { name: "r.toml", layer, text }, &places, &SkipExamples).unwrap().rules);
    let policy = Policy::new(rules).unwrap();
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let plan = Plan {
        effects: vec![Effect::Write { path: "/w/.git/config/remote.origin.url".into() }],
        ..Plan::default()
    };
    policy.evaluate(&PolicyRequest::new(&Manifest::for_commands("c"), &plan, &session, &agent)).verdict
}

// req: P1
#[test]
fn a_deny_of_the_settings_file_by_a_person_is_one_of_every_setting() {
    for layer in [Layer::User, Layer::Project, Layer::Organisation] {
        for path in
            ["**/.git/config", "/w/.git/config", "**/.git/config/", "/w/.git/", "**/.git/config/remote.*"]
        {
            assert_eq!(
                verdict(layer, &format!("verdict = \"deny\"\nwrite = \"{path}\"")),
                Deny,
                "{layer:?} {path}"
            );
        }
    }
    assert_eq!(verdict(Layer::User, "verdict = \"ask\"\nwrite = \"**/.git/config\""), Ask);
    // The built-in deny of the file is about what runs programs.
    assert_eq!(verdict(Layer::User, "verdict = \"allow\"\nwrite = \"**/.git/config/remote.*\""), Allow);
    assert_eq!(verdict(Layer::User, "verdict = \"deny\"\nwrite = \"**/.git/configuration\""), Ask);
}

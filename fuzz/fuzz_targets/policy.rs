//! Any text as a policy file: it is loaded in full, or the error is reported with its position. A project's file
//! never loosens the policy.
#![no_main]

use std::sync::LazyLock;

use byleave_core::effect::Plan;
use byleave_core::policy::{ExampleChecker, Layer, Policy, Rule, RuleFile, load_rules};
use byleave_core::decision::Verdict;
use byleave_fuzz::{PLACES, judge, plan};
use libfuzzer_sys::fuzz_target;

/// Plans the commands in examples.
struct Commands;

impl ExampleChecker for Commands {
    fn plan(&self, command: &str) -> Option<Plan> {
        Some(plan(command))
    }
}

/// Some rules of every verdict and kind. Compiling all built-in rules would take longer than everything else here.
const BASE: &str = r#"
[[rule]]
id = "reading"
verdict = "allow"
run = ["ls", "cat", "git log", "head", "touch"]
read = "/**"
[[rule]]
id = "writing"
verdict = "allow"
write = "/ws/**"
[[rule]]
id = "secret"
verdict = "deny"
touch = "**/.env"
[[rule]]
id = "gone"
verdict = "deny"
run = "rm -rf"
reach = "example.org"
[[rule]]
id = "asked"
verdict = "ask"
run = "git log"
"#;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let file = RuleFile { name: "base.toml", layer: Layer::Organisation, text: BASE };
    load_rules(&file, &PLACES, &Commands).expect("the rules of the base").rules
});

/// Commands and their verdicts under those rules.
static JUDGED: LazyLock<Vec<(Plan, Verdict)>> = LazyLock::new(|| {
    let policy = Policy::new(RULES.clone()).expect("a policy");
    let commands = ["ls", "cat .env", "rm -rf /", "curl http://example.org/x", "git log | head", "touch a > b"];
    commands.map(plan).into_iter().map(|plan| (plan.clone(), judge(&policy, &plan))).collect()
});

fuzz_target!(|text: &str| {
    for layer in [Layer::User, Layer::Project] {
        match load_rules(&RuleFile { name: "p.toml", layer, text }, &PLACES, &Commands) {
            Err(fault) => {
                assert!(!fault.diagnostics.is_empty(), "a file without a flaw is refused");
                for flaw in &fault.diagnostics {
                    assert!(text.get(flaw.span.clone()).is_some(), "{flaw:?} is no place in the text");
                    assert!(flaw.line > 0 && flaw.column > 0 && !flaw.help.is_empty(), "{flaw:?}");
                }
            }
            Ok(found) if found.rules.is_empty() => {}
            Ok(found) => {
                let Ok(policy) = Policy::new([RULES.clone(), found.rules].concat()) else { continue };
                for (plan, before) in JUDGED.iter() {
                    let verdict = judge(&policy, plan);
                    assert!(layer != Layer::Project || verdict >= *before, "a project loosened: {plan:?}");
                    assert!(*before != Verdict::Deny || verdict == Verdict::Deny, "a deny softened: {plan:?}");
                }
            }
        }
    }
});

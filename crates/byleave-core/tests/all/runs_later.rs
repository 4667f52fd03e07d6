//! Files that tools, hooks, editors, agents or build servers run by themselves: a rule that allows all writes does not cover them.

use byleave_core::decision::Verdict;
use byleave_core::effect::{Effect, Plan};
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::{Manifest, PermissionClass};
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, PathVariables, Policy, PolicyRequest, Rule, builtin_rules};
use serde_json::json;

const FILES: &str = include_str!("../../../../tests/corpus/runs-later.tsv");
/// Files of everyday work, some of them hidden.
const ORDINARY: [&str; 22] = [
    "src/main.rs",
    "README.md",
    "Makefile",
    "justfile",
    "package.json",
    "Cargo.toml",
    "pyproject.toml",
    "conftest.py",
    "build.rs",
    ".gitignore",
    ".dockerignore",
    ".prettierrc",
    ".env.example",
    ".gitkeep",
    ".venv/lib/python3/site.py",
    ".pytest_cache/v/x",
    "node_modules/.bin/tsc",
    "target/debug/.fingerprint/x",
    ".next/cache/x",
    ".coverage",
    "docs/index.html",
    "tests/test_a.py",
];

fn verdict(policy: &Policy, path: &str) -> Verdict {
    let mut manifest = Manifest::new("write_file", "writes", json!({"type": "object"}));
    (manifest.permission_class, manifest.sensitive) = (PermissionClass::File, Some(false));
    let effects = vec![Effect::Write { path: format!("/home/u/.work/w/{path}") }];
    let plan = Plan { effects, ..Plan::default() };
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent)).verdict
}

// req: P1
#[test]
fn what_runs_later_is_never_covered_by_a_rule_about_all_files() {
    let places = PathVariables {
        workspace: Some("/home/u/.work/w"),
        home: Some("/home/u"),
        state: Some("/home/u/.local/state/byleave"),
        config: Some("/home/u/.config/byleave"),
    };
    let mut rules = builtin_rules(&places).unwrap();
    let all = vec![Pattern::Write("/home/u/.work/w/**".into())];
    rules.push(Rule::new("all", Layer::User, Verdict::Allow, all));
    let policy = Policy::new(rules).unwrap().with_workspace(places.workspace);
    let rows = FILES.lines().skip(1).filter_map(|line| line.split_once('\t'));
    let missed: Vec<(&str, &str)> =
        rows.clone().filter(|(_, path)| verdict(&policy, path) == Verdict::Allow).collect();
    assert!(rows.count() > 200);
    assert_eq!(missed, [], "allowed");
    let asked: Vec<&str> =
        ORDINARY.into_iter().filter(|path| verdict(&policy, path) != Verdict::Allow).collect();
    assert_eq!(asked, [""; 0], "asked about");
}

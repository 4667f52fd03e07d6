//! Tests of the limits of a walk, and of its report when it stops at one.

use std::fs;
use std::sync::Arc;

use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::policy::{PathVariables, Policy, builtin_rules};
use byleave_gate::tool::{RunContext, ToolContext};

use super::*;
use crate::execution_env::ExecutionEnv;

struct CollectedPaths(Vec<String>);

impl WalkVisitor for CollectedPaths {
    fn visit(&mut self, found: &WalkEntry<'_>) {
        self.0.push(String::from_utf8_lossy(found.path).into_owned());
    }
}

fn walked(root: &Path, options: &WalkOptions) -> (Vec<String>, WalkSummary) {
    let root = root.canonicalize().unwrap();
    let places = PathVariables { workspace: root.to_str(), ..PathVariables::default() };
    let rules = Arc::new(Policy::new(builtin_rules(&places).unwrap()).unwrap());
    let path = root.to_str().unwrap().to_owned();
    let plan = Plan { effects: vec![Effect::Read { path: path.clone() }], ..Plan::default() };
    let site = ToolContext {
        tenant: "t".parse().unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("a").unwrap(),
        cwd: root.clone(),
    };
    let cancel = CancellationToken::new();
    let call = CallId::new(uuid::Uuid::new_v4());
    let run = RunContext::new(call, site, Arc::new(plan), cancel.clone(), Arc::new(|_| {}))
        .with_policy(rules, Mode::ConfirmSensitive);
    let files = Files::for_run(&ExecutionEnv::new("/nonexistent".into(), root), &run).unwrap();
    let (visitors, told) = walk(&files, &path, options, &cancel, || CollectedPaths(Vec::new())).unwrap();
    let mut paths: Vec<String> = visitors.into_iter().flat_map(|paths| paths.0).collect();
    paths.sort();
    (paths, told)
}

#[test]
fn it_goes_as_deep_and_as_far_as_it_may_and_tells() {
    let folder = tempfile::tempdir().unwrap();
    let deep = (0..MAX_DEPTH + 5).map(|_| "d").collect::<Vec<_>>().join("/");
    fs::create_dir_all(folder.path().join(deep)).unwrap();
    let (paths, told) = walked(folder.path(), &WalkOptions::default());
    assert_eq!(
        (paths.len(), told),
        (MAX_DEPTH, WalkSummary { hit_depth_limit: true, ..WalkSummary::default() })
    );
    let (paths, told) = walked(folder.path(), &WalkOptions { max_depth: 2, ..WalkOptions::default() });
    assert_eq!((paths, told), (vec!["d".to_owned(), "d/d".into()], WalkSummary::default()));
    for number in 0..300 {
        fs::write(folder.path().join(format!("f{number}")), "").unwrap();
    }
    let (paths, told) = walked(folder.path(), &WalkOptions { max_entries: 50, ..WalkOptions::default() });
    assert!(paths.len() == 50 && told.is_truncated, "{} {told:?}", paths.len());
    let (paths, told) = walked(folder.path(), &WalkOptions::default());
    assert!(paths.len() == 300 + MAX_DEPTH && !told.is_truncated, "{} {told:?}", paths.len());
    let steps = vec![b"d".to_vec(), b"e".to_vec()];
    assert_eq!(walked(folder.path(), &WalkOptions { path_prefix: steps, ..WalkOptions::default() }).0, ["d"]);
}

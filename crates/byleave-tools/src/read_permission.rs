//! Checks which paths may be read without a question. Tools that change files use it, because their results could reveal file content.

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::policy::PolicyRequest;
use byleave_gate::tool::RunContext;

/// Checks whether the rules alone allow a tool to read a path.
pub(crate) fn may_read_without_asking(path: &str, manifest: &Manifest, run: &RunContext) -> bool {
    let Some(rules) = &run.policy else { return false };
    let has_session_tmp = run.plan.has_session_tmp;
    let effects = vec![Effect::Read { path: path.to_owned() }];
    let plan = Plan { effects, has_session_tmp, ..Plan::default() };
    let request = PolicyRequest::new(manifest, &plan, &run.context.session, &run.context.agent);
    rules.evaluate(&request).verdict == Verdict::Allow
}

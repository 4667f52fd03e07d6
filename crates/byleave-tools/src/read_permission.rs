//! Unasked: what may be read without anybody being asked. For tools that change files and could tell, by the way, what is in them.

use byleave::core::decision::Verdict;
use byleave::core::effect::{Effect, Plan};
use byleave::core::manifest::Manifest;
use byleave::core::policy::PolicyRequest;
use byleave::tool::RunContext;

/// Whether a path may be read by a tool, by the rules alone.
pub(crate) fn may_be_read(path: &str, manifest: &Manifest, run: &RunContext) -> bool {
    let Some(rules) = &run.rules else { return false };
    let plan = Plan { effects: vec![Effect::Read { path: path.to_owned() }], ..Plan::default() };
    let request = PolicyRequest::plain(manifest, &plan, &run.site.session, &run.site.agent);
    rules.rule(&request).verdict == Verdict::Allow
}

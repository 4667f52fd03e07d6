//! Rules that a server tries out.

use byleave_gate::core::policy::{Layer, Policy, RuleFile, SkipExamples, load_rules};
use byleave_gate::policy_files::{self, PolicyLoadError};
use byleave_gate::rule_examples::WorkspaceExampleChecker;

use super::ActivePolicy;

impl ActivePolicy<'_> {
    /// Returns the policy with these rules in place of the person's own. For trials, never for a call.
    pub(crate) fn with_own(&self, text: &str) -> Result<Policy, PolicyLoadError> {
        let places = self.places();
        let own = RuleFile { name: "policy", layer: Layer::User, text };
        let own = load_rules(&own, &places, &WorkspaceExampleChecker { places: &places })?;
        let mut files = self.files();
        files.retain(|file| file.layer != Layer::User);
        let others = policy_files::load(&files, &places, &SkipExamples)?.policy;
        let all = others.rules().cloned().chain(own.rules);
        Ok(Policy::new(all.collect())?.with_workspace(places.workspace))
    }
}

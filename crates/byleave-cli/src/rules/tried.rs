//! Rules that a server tries out.

use byleave::core::policy::{Layer, NotRead, Policy, RuleFile, read};
use byleave::examples::InWorkspace;
use byleave::policy_files::{self, LoadFault};

use super::Rules;

impl Rules<'_> {
    /// The policy with these rules in the place of the person's own: for trying them out, never for a call.
    pub(crate) fn with_own(&self, text: &str) -> Result<Policy, LoadFault> {
        let places = self.places();
        let own = RuleFile { name: "policy", layer: Layer::User, text };
        let own = read(&own, &places, &InWorkspace { places: &places })?;
        let mut files = self.files();
        files.retain(|file| file.layer != Layer::User);
        let others = policy_files::load(&files, &places, &NotRead)?.policy;
        let all = others.rules().cloned().chain(own.rules);
        Ok(Policy::new(all.collect())?.within(places.workspace))
    }
}

//! The policy in force: the rule files of all layers.

#[cfg(feature = "serve")]
mod tried;

use std::path::Path;

use byleave_gate::core::policy::{Layer, LoadedRules, PathVariables, Policy, Rule};
use byleave_gate::policy_files::{self, LoadedPolicy, PolicyFile, PolicyLoadError};
use byleave_gate::rule_examples::WorkspaceExampleChecker;
use byleave_tools::OuterRepository;

use crate::resolved_options::ResolvedOptions;

/// The inputs of the policy in force.
pub(crate) struct ActivePolicy<'a> {
    pub(crate) options: &'a ResolvedOptions,
    pub(crate) workspace: &'a str,
    pub(crate) state: &'a str,
}

impl<'a> ActivePolicy<'a> {
    /// Returns the directories that rules may name.
    pub(crate) fn places(&self) -> PathVariables<'a> {
        PathVariables {
            workspace: Some(self.workspace),
            home: self.options.home.as_deref(),
            state: Some(self.state),
            config: self.options.config.as_deref(),
        }
    }

    /// Returns the rule files that may exist.
    pub(crate) fn files(&self) -> Vec<PolicyFile> {
        policy_files::candidate_files(&self.places(), self.options.policy.as_deref())
    }

    /// Loads the policy of one file alone, without the built-in rules. For trials, never for a call.
    pub(crate) fn load_only(&self, path: &Path) -> Result<Policy, PolicyLoadError> {
        let file = PolicyFile { layer: Layer::Session, path: path.to_path_buf(), required: true };
        Ok(Policy::new(self.read(&file)?.rules)?.with_workspace(Some(self.workspace)))
    }

    /// Loads the rules of a file as if it were the person's own.
    pub(crate) fn load_as_user(&self, path: &Path) -> Result<Vec<Rule>, PolicyLoadError> {
        let file = PolicyFile { layer: Layer::User, path: path.to_path_buf(), required: true };
        Ok(self.read(&file)?.rules)
    }

    /// Reads one file and checks its examples.
    pub(crate) fn read(&self, file: &PolicyFile) -> Result<LoadedRules, PolicyLoadError> {
        let places = self.places();
        Ok(policy_files::load_file(file, &places, &WorkspaceExampleChecker { places: &places })?
            .unwrap_or_default())
    }

    /// Loads the policy of all files.
    pub(crate) fn load(&self) -> Result<LoadedPolicy, PolicyLoadError> {
        let places = self.places();
        let loaded =
            policy_files::load(&self.files(), &places, &WorkspaceExampleChecker { places: &places })?;
        let repository = OuterRepository::find(Path::new(self.workspace), places.home.map(Path::new));
        let repository = repository.as_ref().and_then(|found| found.directory.to_str());
        Ok(LoadedPolicy { policy: loaded.policy.with_repository(repository), ..loaded })
    }
}

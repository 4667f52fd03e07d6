//! Checks the example commands of rules, with the same parser as for calls.
//!
//! It uses an environment in which every program is installed and no file exists. A policy file is therefore valid or
//! invalid on every machine alike.

use std::path::Path;

use byleave_core::effect::Plan;
use byleave_core::policy::{ExampleChecker, PathVariables};

use crate::plan;
use crate::policy_case::CaseEnvironment;

/// A checker that parses examples as commands in the workspace.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceExampleChecker<'a> {
    /// The workspace and the home directory.
    pub places: &'a PathVariables<'a>,
}

impl ExampleChecker for WorkspaceExampleChecker<'_> {
    fn plan(&self, command: &str) -> Option<Plan> {
        let cwd = self.places.workspace.unwrap_or("/");
        // No file can exist beneath this directory.
        let nowhere = Path::new("/dev/null/nowhere");
        let mut plan = Plan::default();
        plan::add_command(&mut plan, command, &CaseEnvironment::new(nowhere, cwd, self.places.home));
        Some(plan)
    }
}

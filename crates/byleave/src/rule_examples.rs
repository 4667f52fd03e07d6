//! The commands that stand as examples with rules, read by the reader that reads calls.
//!
//! In a world of its own where every program is installed and no file exists, so that a policy file is right or wrong on every
//! machine alike.

use std::path::Path;

use byleave_core::effect::Plan;
use byleave_core::policy::{ExampleChecker, PathVariables};

use crate::plan;
use crate::policy_case::CaseEnvironment;

/// Reads examples as commands that are given in the workspace.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceExampleChecker<'a> {
    /// Where the workspace and the home directory are.
    pub places: &'a PathVariables<'a>,
}

impl ExampleChecker for WorkspaceExampleChecker<'_> {
    fn plan(&self, command: &str) -> Option<Plan> {
        let cwd = self.places.workspace.unwrap_or("/");
        // Nothing lies beneath a directory that cannot be there.
        let nowhere = Path::new("/dev/null/nowhere");
        let mut plan = Plan::default();
        plan::command(&mut plan, command, &CaseEnvironment::new(nowhere, cwd, self.places.home));
        Some(plan)
    }
}

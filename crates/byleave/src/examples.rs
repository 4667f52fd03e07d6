//! The commands that stand as examples with rules, read by the reader that reads calls.
//!
//! In a world of its own where every program is installed and no file exists, so that a policy file is right or wrong on every
//! machine alike.

use std::path::Path;

use byleave_core::effect::Plan;
use byleave_core::policy::{Examples, Places};

use crate::plan;
use crate::trial::World;

/// Reads examples as commands that are given in the workspace.
#[derive(Clone, Copy, Debug)]
pub struct InWorkspace<'a> {
    /// Where the workspace and the home directory are.
    pub places: &'a Places<'a>,
}

impl Examples for InWorkspace<'_> {
    fn plan(&self, command: &str) -> Option<Plan> {
        let cwd = self.places.workspace.unwrap_or("/");
        // Nothing lies beneath a directory that cannot be there.
        let nowhere = Path::new("/dev/null/nowhere");
        let mut plan = Plan::default();
        plan::command(&mut plan, command, &World::new(nowhere, cwd, self.places.home));
        Some(plan)
    }
}

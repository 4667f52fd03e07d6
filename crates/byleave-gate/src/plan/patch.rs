//! Computes the plan of a patch from every file that it names.

use std::path::Path;

use byleave_core::effect::{Effect, Plan};

use crate::patch::{self, PatchChange};
use crate::path_resolution::resolve_argument;
use crate::plan_bindings::capture_binding;
use crate::tool::ToolError;

/// Adds the effects of a patch. Rejects the whole patch if the effects on one file cannot be determined.
pub(super) fn add_patch(plan: &mut Plan, text: &str, cwd: &Path) -> Result<(), ToolError> {
    let patch = patch::parse(text).map_err(|fault| ToolError(fault.to_string()))?;
    for change in &patch.changes {
        let (PatchChange::Add(name)
        | PatchChange::Update(name)
        | PatchChange::Delete(name)
        | PatchChange::Compare(name)) = change;
        let path = resolve_argument(name, cwd)?;
        let bound = capture_binding(&path)?;
        if !plan.bindings.contains(&bound) {
            plan.bindings.push(bound);
        }
        match change {
            PatchChange::Add(_) => plan.effects.push(Effect::Write { path }),
            PatchChange::Update(_) => {
                plan.effects.push(Effect::Read { path: path.clone() });
                plan.effects.push(Effect::Write { path });
            }
            PatchChange::Delete(_) => plan.effects.push(Effect::Delete { path }),
            PatchChange::Compare(_) => plan.effects.push(Effect::Read { path }),
        }
    }
    plan.effects.extend(patch.doubts.into_iter().map(|why| Effect::Unknown { reason: why }));
    Ok(())
}

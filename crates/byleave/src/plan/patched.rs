//! The plan of a patch: every file that it names.

use std::path::Path;

use byleave_core::effect::{Effect, Plan};

use crate::bound::bind;
use crate::patch::{self, Change};
use crate::path::named;
use crate::tool::ToolFault;

/// Adds what a patch would do; a patch with one file that cannot be told is refused as a whole.
pub(super) fn add(plan: &mut Plan, text: &str, cwd: &Path) -> Result<(), ToolFault> {
    let patch = patch::read(text).map_err(|fault| ToolFault(fault.to_string()))?;
    for change in &patch.changes {
        let (Change::Add(name) | Change::Update(name) | Change::Delete(name) | Change::Compare(name)) =
            change;
        let path = named(name, cwd)?;
        let bound = bind(&path)?;
        if !plan.bound.contains(&bound) {
            plan.bound.push(bound);
        }
        match change {
            Change::Add(_) => plan.effects.push(Effect::Write { path }),
            Change::Update(_) => {
                plan.effects.push(Effect::Read { path: path.clone() });
                plan.effects.push(Effect::Write { path });
            }
            Change::Delete(_) => plan.effects.push(Effect::Delete { path }),
            Change::Compare(_) => plan.effects.push(Effect::Read { path }),
        }
    }
    plan.effects.extend(patch.doubts.into_iter().map(|why| Effect::Unknown { why }));
    Ok(())
}

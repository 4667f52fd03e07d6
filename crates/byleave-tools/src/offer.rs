//! The built-in tools, all of them in one catalog (G4).

use byleave::catalog::{Catalog, NotRegistered};
use byleave::tool_search::tool_search;

use crate::apply_patch::apply_patch;
use crate::delete_file::delete_file;
use crate::edit::{edit, multi_edit};
use crate::read_file::read_file;
use crate::write_file::write_file;
use crate::{Bash, Undo, Workplace};

/// Which of the tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// `delete_file` is among them.
    pub allow_delete: bool,
}

/// A catalog of the built-in tools, and of `tool_search`, which finds them.
pub fn catalog(workplace: &Workplace, offer: &Offer) -> Result<Catalog, NotRegistered> {
    let catalog = Catalog::new();
    catalog.register(Bash::new(workplace.clone()))?;
    catalog.register(read_file(workplace))?;
    catalog.register(write_file(workplace))?;
    catalog.register(edit(workplace))?;
    catalog.register(multi_edit(workplace))?;
    catalog.register(apply_patch(workplace))?;
    if offer.allow_delete {
        catalog.register(delete_file(workplace))?;
    }
    catalog.register(Undo::new(workplace.clone()))?;
    catalog.register(tool_search(&catalog))?;
    Ok(catalog)
}

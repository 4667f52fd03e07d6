//! All built-in tools in one catalog (G4).

use std::sync::Arc;

use byleave_gate::catalog::{Catalog, RegisterError};
use byleave_gate::ledger::Ledger;
use byleave_gate::tool_search::tool_search;

use crate::apply_patch::apply_patch;
use crate::delete_file::delete_file;
use crate::edit::{edit, multi_edit};
use crate::glob::glob;
use crate::grep::grep;
use crate::list_dir::{list_dir, list_files};
use crate::read_file::read_file;
use crate::read_output::read_output;
use crate::write_file::write_file;
use crate::{
    Bash, ExecutionEnv, Fetcher, Jobs, Undo, bash_kill, bash_output, diagnostics, todo_read, todo_write,
    web_fetch,
};

/// What a caller of `delete_file` reads if it is not in the catalog.
const DELETE_DISABLED: &str =
    "deleting files is turned off; the operator can turn it on with the setting `allow_delete`";

/// Options for which tools the catalog contains.
#[derive(Clone, Default)]
pub struct BuiltinToolOptions {
    /// Whether to include `delete_file`.
    pub allow_delete: bool,
    /// The ledger that stores outputs. With it the catalog includes `read_output`. The gate must use the same ledger, and must know of the
    /// tool by [`GateSettings::read_more_tool`](byleave_gate::settings::GateSettings::read_more_tool).
    pub ledger: Option<Arc<dyn Ledger>>,
    /// The table of background jobs. With it `bash` can start jobs, and the catalog includes `bash_output` and `bash_kill` if jobs outlive
    /// the calls that start them. Jobs end with the process that holds them.
    pub jobs: Option<Jobs>,
}

/// Creates a catalog of the built-in tools and of `tool_search`, which finds them.
pub fn builtin_catalog(
    workplace: &ExecutionEnv,
    offer: &BuiltinToolOptions,
) -> Result<Catalog, RegisterError> {
    let catalog = Catalog::new();
    let jobs = offer.jobs.clone().unwrap_or_else(Jobs::disabled);
    catalog.register_generated(Bash::new(workplace.clone()).with_jobs(jobs.clone()))?;
    if jobs.outlive_calls() {
        catalog.register_generated(bash_output(&jobs))?;
        catalog.register_generated(bash_kill(&jobs))?;
    }
    catalog.register_generated(read_file(workplace))?;
    catalog.register_generated(list_dir(workplace))?;
    catalog.register_generated(list_files(workplace))?;
    catalog.register_generated(glob(workplace))?;
    catalog.register_generated(grep(workplace))?;
    catalog.register_generated(write_file(workplace))?;
    catalog.register_generated(edit(workplace))?;
    catalog.register_generated(multi_edit(workplace))?;
    catalog.register_generated(apply_patch(workplace))?;
    match offer.allow_delete {
        true => drop(catalog.register_generated(delete_file(workplace))?),
        false => catalog.set_disabled("delete_file", DELETE_DISABLED),
    }
    catalog.register_generated(web_fetch(Fetcher::new()))?;
    let todos = workplace.store_dir.join("todos");
    catalog.register_generated(todo_write(todos.clone()))?;
    catalog.register_generated(todo_read(todos))?;
    catalog.register_generated(diagnostics(workplace.clone()))?;
    catalog.register_generated(Undo::new(workplace.clone()))?;
    if let Some(ledger) = &offer.ledger {
        catalog.register_generated(read_output(Arc::clone(ledger)))?;
    }
    catalog.register_generated(tool_search(&catalog))?;
    Ok(catalog)
}

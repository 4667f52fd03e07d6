//! Calls that are for workers. A process that answers one here must not run it, because it is for another machine.

use std::path::PathBuf;

use anyhow::Result;
use byleave_gate::gate::GateBuilder;

#[cfg(not(feature = "serve"))]
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;

/// Makes a gate leave workers' calls to the workers.
#[cfg(feature = "serve")]
pub(crate) fn skip_worker_calls(builder: GateBuilder, options: &ResolvedOptions) -> Result<GateBuilder> {
    let left = workers_file(options).exists();
    Ok(if left { builder.skip_calls(std::sync::Arc::new(byleave_server::is_for_workers)) } else { builder })
}

/// Fails if there are calls for workers, because without the feature `serve` this program cannot recognize them.
#[cfg(not(feature = "serve"))]
pub(crate) fn skip_worker_calls(builder: GateBuilder, options: &ResolvedOptions) -> Result<GateBuilder> {
    if !workers_file(options).exists() {
        return Ok(builder);
    }
    let what =
        "workers execute the calls of this audit log, and this program was built without the feature `serve`";
    Err(CliError::new(what).hint("use a build with the feature `serve`").into())
}

/// Returns the file that marks calls over HTTP as calls for workers, for every program on this audit log.
pub(crate) fn workers_file(options: &ResolvedOptions) -> PathBuf {
    options.state.join("for-workers")
}

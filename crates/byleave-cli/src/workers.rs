//! Calls that are for workers: whoever answers one here must not run here what is for another machine.

use std::path::PathBuf;

use anyhow::Result;
use byleave::gate::GateBuilder;

#[cfg(not(feature = "serve"))]
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;

/// Has a gate leave to workers what is for them.
#[cfg(feature = "serve")]
pub(crate) fn leaving(builder: GateBuilder, options: &ResolvedOptions) -> Result<GateBuilder> {
    let left = workers_file(options).exists();
    Ok(if left { builder.leaving(std::sync::Arc::new(byleave_server::is_for_workers)) } else { builder })
}

/// Without the feature `serve` nobody here can tell which calls are for workers: where some are, there is no gate.
#[cfg(not(feature = "serve"))]
pub(crate) fn leaving(builder: GateBuilder, options: &ResolvedOptions) -> Result<GateBuilder> {
    if !workers_file(options).exists() {
        return Ok(builder);
    }
    let what = "calls of this book are for workers, and this program was built without the feature `serve`";
    Err(Complaint::new(what).hint("use a program that was built with it").into())
}

/// The file that says that calls which came in over HTTP are for workers, whichever program finds them in the book.
pub(crate) fn workers_file(options: &ResolvedOptions) -> PathBuf {
    options.state.join("for-workers")
}

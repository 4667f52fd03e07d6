//! Runs blocking work on a separate thread, so that nothing else has to wait for it.

use byleave_gate::core::outcome::Output;
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::tool::RehearseError;

/// Runs blocking work on a separate thread. An error becomes a failure that the model can read.
pub(crate) async fn run_blocking(work: impl FnOnce() -> Result<Output, String> + Send + 'static) -> Output {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(output)) => output,
        Ok(Err(why)) => Output::failure(why),
        Err(error) => Output::failure(format!("internal error: {error}")),
    }
}

/// Runs a blocking rehearsal on a separate thread.
pub(crate) async fn rehearse_blocking(
    work: impl FnOnce() -> Result<Rehearsal, RehearseError> + Send + 'static,
) -> Result<Rehearsal, RehearseError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(RehearseError::Unavailable(format!("internal error: {error}"))))
}

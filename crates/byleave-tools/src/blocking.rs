//! Work that blocks, done on a thread of its own, so that nothing else has to wait for it.

use byleave::core::outcome::Output;
use byleave::core::rehearsal::Rehearsal;
use byleave::tool::RehearseError;

/// Does what blocks on a thread of its own; why it was not done is a failure that the model can read.
pub(crate) async fn apart(work: impl FnOnce() -> Result<Output, String> + Send + 'static) -> Output {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(output)) => output,
        Ok(Err(why)) => Output::failure(why),
        Err(error) => Output::failure(format!("it broke: {error}")),
    }
}

/// The same for a rehearsal.
pub(crate) async fn rehearsed_apart(
    work: impl FnOnce() -> Result<Rehearsal, RehearseError> + Send + 'static,
) -> Result<Rehearsal, RehearseError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(RehearseError::Not(format!("it broke: {error}"))))
}

//! Signals: how the system says that somebody wants us to end.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Told when somebody wants us to end. What listens is ended with the runtime.
pub(crate) fn ended() -> Result<CancellationToken> {
    let end = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut heard = signal(kind).context("cannot listen to signals")?;
        let end = end.clone();
        tokio::spawn(async move {
            if heard.recv().await.is_some() {
                end.cancel();
            }
        });
    }
    Ok(end)
}

//! Signals: how the system says that somebody wants us to end.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Told when somebody wants us to end, and when they want it a second time.
pub(crate) fn ended_then_at_once() -> Result<(CancellationToken, CancellationToken)> {
    let (end, at_once) = (CancellationToken::new(), CancellationToken::new());
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut heard = signal(kind).context("cannot listen to signals")?;
        let (end, at_once) = (end.clone(), at_once.clone());
        tokio::spawn(async move {
            while heard.recv().await.is_some() {
                if end.is_cancelled() {
                    at_once.cancel();
                }
                end.cancel();
            }
        });
    }
    Ok((end, at_once))
}

/// Told when somebody wants us to end. What listens is ended with the runtime.
pub(crate) fn ended() -> Result<CancellationToken> {
    Ok(ended_then_at_once()?.0)
}

//! Signals: how the system says that somebody wants us to end.

use anyhow::{Context as _, Result};
use byleave_files::own;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Told the number of each signal that wants us to end. One that we were started without, as by `nohup`, stays ignored.
pub(crate) fn ending() -> Result<mpsc::UnboundedReceiver<i32>> {
    let (told, heard) = mpsc::unbounded_channel();
    let ignored = ignored();
    // A key, somebody's `kill`, a closed terminal, another key.
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    for kind in kinds {
        let number = kind.as_raw_value();
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let (mut signals, told) = (signal(kind).context("cannot listen to signals")?, told.clone());
        tokio::spawn(async move { while signals.recv().await.is_some() && told.send(number).is_ok() {} });
    }
    Ok(heard)
}

/// The signals that this process ignores, a bit for each.
fn ignored() -> u64 {
    let status = own::read_text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

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

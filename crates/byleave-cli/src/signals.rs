//! Signals that ask the program to end.

use anyhow::{Context as _, Result};
use byleave_files::own;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Returns a channel with the number of each signal that asks the program to end. A signal that was ignored at the start, as by
/// `nohup`, stays ignored.
pub(crate) fn termination_signals() -> Result<mpsc::UnboundedReceiver<i32>> {
    let (told, heard) = mpsc::unbounded_channel();
    let ignored = ignored();
    // Ctrl-C, `kill`, a closed terminal, Ctrl-\.
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    for kind in kinds {
        let number = kind.as_raw_value();
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let (mut signals, told) = (signal(kind).context("cannot listen for signals")?, told.clone());
        tokio::spawn(async move { while signals.recv().await.is_some() && told.send(number).is_ok() {} });
    }
    Ok(heard)
}

/// Returns the signals that this process ignores, one bit for each.
fn ignored() -> u64 {
    let status = own::read_text("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

/// Returns tokens that are cancelled at the first and at the second signal.
pub(crate) fn two_stage_shutdown() -> Result<(CancellationToken, CancellationToken)> {
    let (end, at_once) = (CancellationToken::new(), CancellationToken::new());
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut heard = signal(kind).context("cannot listen for signals")?;
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

/// Returns a token that is cancelled at the first signal. The listening tasks end with the runtime.
pub(crate) fn shutdown_token() -> Result<CancellationToken> {
    Ok(two_stage_shutdown()?.0)
}

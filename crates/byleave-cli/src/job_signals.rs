//! Ends the background job that a call holds when somebody ends this process.

use anyhow::{Context as _, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::signal::unix::SignalKind;
use tokio::task::JoinHandle;

use crate::resolved_options::ResolvedOptions;
use crate::signals::termination_signals;

/// Listens for signals until it is dropped.
pub(crate) struct JobSignals(JoinHandle<()>);

impl JobSignals {
    /// Listens. A job ends normally, and what it wrote is judged. Any other call ends with its process, as it would without this.
    /// `parent_death` is the signal for the end of the process that started this one. `said` is told what a job says about its ports.
    pub(crate) fn listen(
        options: &ResolvedOptions,
        parent_death: Option<Signal>,
        said: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Option<Self>> {
        let Some(jobs) = options.held_jobs.clone() else { return Ok(None) };
        jobs.listen(said);
        if parent_death.is_some() {
            set_parent_process_death_signal(parent_death).context("cannot ask for the end of the agent")?;
        }
        let mut signals = termination_signals()?;
        Ok(Some(Self(tokio::spawn(async move {
            while let Some(number) = signals.recv().await {
                // Ctrl-C cancels the call, as that of any other tool.
                if number == SignalKind::interrupt().as_raw_value() {
                    continue;
                }
                if !jobs.is_running() {
                    std::process::exit(128 + number);
                }
                jobs.stop();
            }
        }))))
    }
}

impl Drop for JobSignals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

//! Supervises a running tool: enforces its timeout, forwards cancellation, and stops the tool if its supervisor is dropped.

use std::time::Duration;

use byleave_core::id::CallId;
use byleave_core::outcome::ExecutionStatus;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::boxed::yield_now;
use crate::gate::inner::GateInner;
use crate::plugin_guard::{CatchPanic, PanicPayload, panic_payload, poll_once};

/// How a tool ended.
pub(crate) enum ToolExit<T> {
    /// It ended by itself.
    Completed(Result<T, PanicPayload>),
    /// It was stopped.
    Stopped {
        /// The status for the record.
        status: ExecutionStatus,
        /// The reason, in words.
        reason: String,
        /// The output that it returned nevertheless, or `None` if it does not stop.
        result: Option<Result<T, PanicPayload>>,
    },
}

/// Runs a tool until it ends, times out, or the call is cancelled.
pub(crate) async fn run_tool<T, W>(
    parts: &GateInner,
    call: CallId,
    timeout: Duration,
    is_prompt: bool,
    work: impl FnOnce(CancellationToken) -> W,
) -> ToolExit<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let driving = parts.in_flight.register(call);
    // Cancelled only by this function, once the call is called off. Output that the tool returns after that is never a success.
    let stop = CancellationToken::new();
    let called_off = async {
        tokio::select! {
            () = driving.cancel.cancelled() => {}
            () = wait_for_remote_cancel(parts, call) => {}
        }
    };
    let mut work = CatchPanic::new(work(stop.clone()));
    if is_prompt && let Some(ended) = poll_once(&mut work).await {
        return ToolExit::Completed(ended);
    }
    let leash =
        ToolTask { task: Some(tokio::spawn(work.in_current_span())), stop, grace: parts.settings.stop_grace };
    supervise(leash, called_off, timeout).await
}

/// Waits until another process has recorded the cancellation of the call.
async fn wait_for_remote_cancel(parts: &GateInner, call: CallId) {
    loop {
        parts.wait_poll_interval().await;
        match parts.ledger.load(call).await {
            Ok(Some(loaded)) if loaded.record.cancelled_by().is_some() => return,
            Ok(_) => {}
            Err(fault) => tracing::warn!(%call, %fault, "cannot check whether a running call was cancelled"),
        }
    }
}

struct ToolTask<T: Send + 'static> {
    task: Option<JoinHandle<Result<T, PanicPayload>>>,
    stop: CancellationToken,
    grace: Duration,
}

impl<T: Send + 'static> ToolTask<T> {
    async fn wait(&mut self) -> Result<T, PanicPayload> {
        match &mut self.task {
            Some(task) => {
                let ended = task.await;
                self.task = None;
                ended.unwrap_or_else(|error| Err(panic_payload(error)))
            }
            None => std::future::pending().await,
        }
    }

    /// Stops the tool. A tool that observes the token can end its own children first. After the grace period, its task is aborted.
    async fn shut_down(mut self) -> Option<Result<T, PanicPayload>> {
        self.stop.cancel();
        if let Ok(ended) = tokio::time::timeout(self.grace, self.wait()).await {
            return Some(ended);
        }
        if let Some(task) = &self.task {
            task.abort();
        }
        // The task ends as soon as it yields its thread. A task that blocks its thread cannot be stopped.
        tokio::time::timeout(self.grace, self.wait()).await.ok()
    }
}

impl<T: Send + 'static> Drop for ToolTask<T> {
    fn drop(&mut self) {
        let Some(mut task) = self.task.take() else { return };
        self.stop.cancel();
        let grace = self.grace;
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                if tokio::time::timeout(grace, &mut task).await.is_err() {
                    task.abort();
                }
            })),
            Err(_) => task.abort(),
        }
    }
}

/// Waits for the tool, its timeout or a cancellation. In the latter two cases, stops the tool.
async fn supervise<T: Send + 'static>(
    mut leash: ToolTask<T>,
    called_off: impl Future<Output = ()>,
    timeout: Duration,
) -> ToolExit<T> {
    let stopped = async {
        // Yields first, so that a tool that ends at once needs no timer.
        yield_now().await;
        tokio::select! {
            biased;
            () = called_off => (ExecutionStatus::Cancelled, "cancelled while it ran".to_owned()),
            () = tokio::time::sleep(timeout) => {
                (ExecutionStatus::TimedOut, format!("timed out after {} ms and was stopped", timeout.as_millis()))
            }
        }
    };
    let (status, why) = tokio::select! {
        biased;
        ended = leash.wait() => return ToolExit::Completed(ended),
        stopped = stopped => stopped,
    };
    ToolExit::Stopped { status, reason: why, result: leash.shut_down().await }
}

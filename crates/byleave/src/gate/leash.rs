//! The leash: a tool at work, within its time, stoppable; whoever lets go of it before it is done stops it.

use std::time::Duration;

use byleave_core::id::CallId;
use byleave_core::outcome::EndStatus;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::gate::parts::Parts;
use crate::guard::{Caged, Panic, first_poll, payload};
use crate::pending::step_aside;

/// How a tool came to its end.
pub(crate) enum Ended<T> {
    /// By itself.
    Itself(Result<T, Panic>),
    /// It was stopped.
    Stopped {
        /// In a word.
        status: EndStatus,
        /// In words.
        why: String,
        /// What it had to say all the same; `None` where it does not stop.
        said: Option<Result<T, Panic>>,
    },
}

/// Lets a tool work until it is done, its time is over, or the call is called off.
pub(crate) async fn at_work<T, W>(
    parts: &Parts,
    call: CallId,
    timeout: Duration,
    is_prompt: bool,
    work: impl FnOnce(CancellationToken) -> W,
) -> Ended<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let driving = parts.bustle.enter(call);
    // Told by us alone, once it is decided that the call is off: what a tool then has to say is no success.
    let stop = CancellationToken::new();
    let called_off = async {
        tokio::select! {
            () = driving.cancel.cancelled() => {}
            () = called_off_elsewhere(parts, call) => {}
        }
    };
    let mut work = Caged::new(work(stop.clone()));
    if is_prompt && let Some(ended) = first_poll(&mut work).await {
        return Ended::Itself(ended);
    }
    let leash =
        Leash { task: Some(tokio::spawn(work.in_current_span())), stop, grace: parts.settings.stop_grace };
    watch(leash, called_off, timeout).await
}

/// Waits until another process has written on the record that the call is off.
async fn called_off_elsewhere(parts: &Parts, call: CallId) {
    loop {
        parts.pause().await;
        match parts.ledger.load(call).await {
            Ok(Some(loaded)) if loaded.record.cancelled().is_some() => return,
            Ok(_) => {}
            Err(fault) => tracing::warn!(%call, %fault, "cannot see whether a running call was cancelled"),
        }
    }
}

struct Leash<T: Send + 'static> {
    task: Option<JoinHandle<Result<T, Panic>>>,
    stop: CancellationToken,
    grace: Duration,
}

impl<T: Send + 'static> Leash<T> {
    async fn ended(&mut self) -> Result<T, Panic> {
        match &mut self.task {
            Some(task) => {
                let ended = task.await;
                self.task = None;
                ended.unwrap_or_else(|error| Err(payload(error)))
            }
            None => std::future::pending().await,
        }
    }

    /// A tool that listens ends its own children first; one that does not is dropped where it stands.
    async fn pull(mut self) -> Option<Result<T, Panic>> {
        self.stop.cancel();
        if let Ok(ended) = tokio::time::timeout(self.grace, self.ended()).await {
            return Some(ended);
        }
        if let Some(task) = &self.task {
            task.abort();
        }
        // It is gone as soon as it lets go of its thread. One that blocks cannot be made to.
        tokio::time::timeout(self.grace, self.ended()).await.ok()
    }
}

impl<T: Send + 'static> Drop for Leash<T> {
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

/// Waits for the tool, its time limit or a cancellation; and sees to it that the tool then really stops.
async fn watch<T: Send + 'static>(
    mut leash: Leash<T>,
    called_off: impl Future<Output = ()>,
    timeout: Duration,
) -> Ended<T> {
    let stopped = async {
        // A tool that is done at once costs no timer.
        step_aside().await;
        tokio::select! {
            biased;
            () = called_off => (EndStatus::Stopped, "cancelled while it ran".to_owned()),
            () = tokio::time::sleep(timeout) => {
                (EndStatus::TimedOut, format!("timed out after {} ms and was stopped", timeout.as_millis()))
            }
        }
    };
    let (status, why) = tokio::select! {
        biased;
        ended = leash.ended() => return Ended::Itself(ended),
        stopped = stopped => stopped,
    };
    Ended::Stopped { status, why, said: leash.pull().await }
}

//! The guard around plugin code: reviewers, planners, predicates, challengers, approvers, tools.
//!
//! A failure is an objection: anything a plugin does except answering becomes a value to refuse by. The guard must never
//! let a panic through. It must never wait longer than the limit if waiting can be ended at all.
//!
//! A future is polled once in place, because most plugins answer at once and a spawn would cost more than their own
//! work. Otherwise it continues as a separate task, and the caller waits for that with a time limit. The guard covers these
//! cases, with these limits:
//!
//! | the plugin | the caller gets |
//! |---|---|
//! | panics, when called, when polled or when dropped | `Panicked`, at once |
//! | awaits for too long | `TimedOut` at the limit; its task is aborted |
//! | blocks its thread after its first await | `TimedOut` at the limit on a multi-threaded runtime; on a single-threaded one everything blocks until it is done |
//! | blocks its thread before its first await | `TimedOut`, but only once it is done: a late answer is not accepted. Code that may block belongs in [`run_isolated`] |
//! | blocks in [`run_isolated`] | `TimedOut` at the limit on every runtime; the thread is left to finish |
//! | aborts the process | nothing; recovery uses the record |

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use byleave_core::refusal::FailureCause;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tracing::Instrument as _;

/// The failure of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PluginFailure<E> {
    /// It returned an error.
    Failed(E),
    /// It panicked, with this message.
    Panicked(String),
    /// It took longer than this.
    TimedOut(Duration),
}

impl<E> PluginFailure<E> {
    /// Returns the kind of failure.
    pub(crate) const fn cause(&self) -> FailureCause {
        match self {
            Self::Failed(_) => FailureCause::Error,
            Self::Panicked(_) => FailureCause::Panic,
            Self::TimedOut(_) => FailureCause::Timeout,
        }
    }
}

impl<E: fmt::Display> fmt::Display for PluginFailure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::TimedOut(limit) => write!(f, "took longer than {limit:?}"),
        }
    }
}

/// Runs plugin code until it answers, fails or reaches the limit.
///
/// It needs a tokio runtime with time enabled if the plugin does not answer at once.
pub(crate) async fn guard<T, E, F>(limit: Duration, start: impl FnOnce() -> F) -> Result<T, PluginFailure<E>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let started = Instant::now();
    let mut future = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(future) => CatchPanic::new(future),
        Err(payload) => return Err(PluginFailure::Panicked(panic_message(payload))),
    };
    let first = poll_once(&mut future).await;
    let spent = started.elapsed();
    match first.map(flatten_result) {
        // A late objection is accepted. A late approval is not.
        Some(Ok(_)) if spent > limit => Err(PluginFailure::TimedOut(limit)),
        Some(answer) => answer,
        None => wait(limit, limit.saturating_sub(spent), future).await,
    }
}

/// Polls a future once, in place.
pub(crate) async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|cx| {
        Poll::Ready(match Pin::new(&mut *future).poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        })
    })
    .await
}

/// Runs blocking code on a thread where that is allowed. A panic of the code is passed on to the caller.
pub(crate) async fn run_isolated<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(value) => value,
        Err(error) => resume_unwind(panic_payload(error)),
    }
}

async fn wait<T, E, F>(limit: Duration, left: Duration, future: CatchPanic<F>) -> Result<T, PluginFailure<E>>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let Ok(runtime) = Handle::try_current() else {
        return Err(PluginFailure::Panicked("there is no tokio runtime to wait on".into()));
    };
    let mut task = AbortOnDrop(runtime.spawn(future.in_current_span()));
    match tokio::time::timeout(left, &mut task.0).await {
        Err(_) => Err(PluginFailure::TimedOut(limit)),
        Ok(Ok(answer)) => flatten_result(answer),
        Ok(Err(error)) => Err(PluginFailure::Panicked(panic_message(panic_payload(error)))),
    }
}

fn flatten_result<T, E>(answer: Result<Result<T, E>, PanicPayload>) -> Result<T, PluginFailure<E>> {
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(PluginFailure::Failed(error)),
        Err(payload) => Err(PluginFailure::Panicked(panic_message(payload))),
    }
}

/// The payload of a panic.
pub(crate) type PanicPayload = Box<dyn Any + Send>;

/// A future that catches its panics in polling and in dropping.
pub(crate) struct CatchPanic<F>(Option<Pin<Box<F>>>);

impl<F: Future> CatchPanic<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }

    fn drop_inner(&mut self) -> Result<(), PanicPayload> {
        let future = self.0.take();
        catch_unwind(AssertUnwindSafe(|| drop(future)))
    }
}

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, PanicPayload>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.0.as_mut() else { return Poll::Pending };
        let answer = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(answer)) => Ok(answer),
            Err(payload) => Err(payload),
        };
        // Its contents are dropped here, where a panic can still be distinguished from an answer.
        Poll::Ready(match (answer, self.drop_inner()) {
            (Ok(answer), Ok(())) => Ok(answer),
            (Ok(_), Err(payload)) | (Err(payload), _) => Err(payload),
        })
    }
}

impl<F> Drop for CatchPanic<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            tracing::warn!(panic = panic_message(payload), "a plugin panicked while it was being stopped");
        }
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the payload of a failed task.
pub(crate) fn panic_payload(error: JoinError) -> PanicPayload {
    match error.try_into_panic() {
        Ok(payload) => payload,
        // Nothing else holds the handle, so only a runtime that is shutting down cancels it.
        Err(_) => Box::new("the runtime is shutting down"),
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(payload: PanicPayload) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        return (*text).to_owned();
    }
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            // A payload of a plugin's own type may panic again when dropped, so its memory is leaked.
            std::mem::forget(other);
            "a panic without a message".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(600);

    type TestResult = Result<u8, String>;

    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    fn panicked(message: &str) -> Result<u8, PluginFailure<String>> {
        Err(PluginFailure::Panicked(message.into()))
    }

    // req: R3
    #[tokio::test]
    async fn an_answer_passes_and_everything_else_is_told_apart() {
        assert_eq!(guard(LIMIT, || async { TestResult::Ok(7) }).await, Ok(7));
        assert_eq!(
            guard(LIMIT, || async { TestResult::Err("no".into()) }).await,
            Err(PluginFailure::Failed("no".into()))
        );
        let late = async {
            tokio::task::yield_now().await;
            TestResult::Ok(8)
        };
        assert_eq!(guard(LIMIT, || late).await, Ok(8));
        let hang = guard(LIMIT, std::future::pending::<TestResult>).await;
        assert_eq!(hang, Err(PluginFailure::TimedOut(LIMIT)));
    }

    // req: R3
    #[tokio::test]
    async fn panics_stay_inside_wherever_they_happen() {
        async fn answer() -> TestResult {
            Ok(1)
        }
        let in_call = guard(LONG, || if LONG > LIMIT { panic!("in call") } else { answer() }).await;
        assert_eq!(in_call, panicked("in call"));
        let at_once =
            guard(LONG, || async { if LONG > LIMIT { panic!("at {}", "once") } else { TestResult::Ok(1) } });
        assert_eq!(at_once.await, panicked("at once"));
        let later = guard(LONG, || async {
            tokio::task::yield_now().await;
            if LONG > LIMIT { panic!("later") } else { TestResult::Ok(1) }
        });
        assert_eq!(later.await, panicked("later"));
        let kept = guard(LONG, || {
            let bomb = PanicOnDrop;
            poll_fn(move |_| {
                let _kept = &bomb;
                Poll::Ready(TestResult::Ok(1))
            })
        });
        assert_eq!(kept.await, panicked("dropped"));
        let wordless = guard(LONG, || async {
            if LONG > LIMIT { resume_unwind(Box::new(PanicOnDrop)) } else { TestResult::Ok(1) }
        });
        assert_eq!(wordless.await, panicked("a panic without a message"));
        let apart = guard(LONG, || async {
            run_isolated(|| if LONG > LIMIT { panic!("apart") } else { TestResult::Ok(1) }).await
        });
        assert_eq!(apart.await, panicked("apart"));
    }

    #[tokio::test]
    async fn a_hanging_future_that_panics_when_stopped_hurts_nobody() {
        let hang = guard(LIMIT, || async {
            let _bomb = PanicOnDrop;
            std::future::pending::<TestResult>().await
        });
        assert_eq!(hang.await, Err(PluginFailure::TimedOut(LIMIT)));
    }

    // req: R3
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_caller_returns_while_a_stranger_blocks() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let after_await = guard(LIMIT, move || async move {
            tokio::task::yield_now().await;
            let _woken = blocked.recv();
            TestResult::Ok(1)
        });
        assert_eq!(after_await.await, Err(PluginFailure::TimedOut(LIMIT)));
        drop(release);
    }

    // req: R3
    #[tokio::test]
    async fn blocking_apart_is_cut_short_even_on_one_thread() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let hang = guard(LIMIT, move || async move {
            run_isolated(move || {
                let _woken = blocked.recv();
                TestResult::Ok(1)
            })
            .await
        });
        assert_eq!(hang.await, Err(PluginFailure::TimedOut(LIMIT)));
        drop(release);
    }

    // req: R3
    #[tokio::test]
    async fn a_late_answer_is_not_believed() {
        let limit = Duration::from_millis(1);
        let late = guard(limit, || async move {
            let started = Instant::now();
            while started.elapsed() <= limit {
                std::thread::yield_now();
            }
            TestResult::Ok(1)
        });
        assert_eq!(late.await, Err(PluginFailure::TimedOut(limit)));
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_the_stranger_along() {
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let call = guard(LONG, || async move {
            let _held = held;
            std::future::pending::<TestResult>().await
        });
        assert!(tokio::time::timeout(LIMIT, call).await.is_err());
        assert!(dropped.await.is_err(), "the plugin's future is dropped");
    }

    #[test]
    fn without_a_runtime_it_refuses_and_does_not_fall_over() {
        let mut call = Box::pin(guard(LIMIT, std::future::pending::<TestResult>));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert_eq!(
            call.as_mut().poll(&mut cx),
            Poll::Ready(panicked("there is no tokio runtime to wait on"))
        );
    }
}

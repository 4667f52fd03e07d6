//! The type of asynchronous results behind a trait object, and a function to yield to other tasks.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// An asynchronous result.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Yields once, so that all other ready tasks can run.
pub(crate) async fn yield_now() {
    let mut stepped = false;
    poll_fn(|context| {
        if stepped {
            return Poll::Ready(());
        }
        stepped = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

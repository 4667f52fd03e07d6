//! The shape of an asynchronous answer behind a trait object, and how to let others go first.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// An answer that may take a while.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lets everything else that is ready run once.
pub(crate) async fn step_aside() {
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

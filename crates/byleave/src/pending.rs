//! The shape of an asynchronous answer behind a trait object.

use std::future::Future;
use std::pin::Pin;

/// An answer that may take a while.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

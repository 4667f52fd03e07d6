//! Locks that a panic cannot take away from others.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the lock, whoever broke while holding it: everything behind one here is whole between two statements.
pub(crate) fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

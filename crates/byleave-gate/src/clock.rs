//! Time and fresh ids. The clock is injected, so that tests can set the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use byleave_core::call::Millis;
use uuid::Uuid;

/// A clock.
pub trait Clock: Send + Sync + 'static {
    /// Returns milliseconds since the Unix epoch.
    fn now(&self) -> Millis;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }
}

/// A clock that only moves on request.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock that shows this time.
    pub fn new(now: Millis) -> Self {
        Self(Arc::new(AtomicU64::new(now)))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by_ms: u64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns a new UUIDv7, which is unique without coordination and sorts by time.
pub fn fresh_id() -> Uuid {
    Uuid::now_v7()
}

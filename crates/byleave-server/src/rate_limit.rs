//! Rate limits for requests: one token bucket for each client, which fills at a steady rate.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Instant;

use parking_lot::Mutex;

/// The maximum number of buckets. Beyond it, full buckets are dropped.
const BUCKETS_MAX: usize = 10_000;

/// The rate limits of all clients.
pub(crate) struct RateLimiter<K> {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<K, TokenBucket>>,
}

struct TokenBucket {
    left: f64,
    at: Instant,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let (per_second, burst) = (f64::from(per_second.max(1)), f64::from(burst.max(1)));
        Self { per_second, burst, buckets: Mutex::default() }
    }

    /// Takes one token, or returns the number of seconds until there is one.
    pub(crate) fn try_acquire(&self, who: K, now: Instant) -> Result<(), u64> {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&who) {
            let (rate, burst) = (self.per_second, self.burst);
            buckets.retain(|_, bucket| bucket.filled(rate, burst, now) < burst);
            if buckets.len() >= BUCKETS_MAX {
                return Err(1);
            }
        }
        let bucket = buckets.entry(who).or_insert(TokenBucket { left: self.burst, at: now });
        bucket.left = bucket.filled(self.per_second, self.burst, now);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        // The rate is at least one per second, so there is a token within a second.
        Err(1)
    }
}

impl TokenBucket {
    fn filled(&self, per_second: f64, burst: f64, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        since.mul_add(per_second, self.left).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_and_then_a_steady_rate_each_for_itself() {
        let (pace, start) = (RateLimiter::new(2, 3), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!([0; 4].map(|ms| pace.try_acquire("a", at(ms)).is_ok()), [true, true, true, false]);
        assert!(pace.try_acquire("b", at(0)).is_ok());
        assert_eq!(
            [400, 500, 600, 1_000].map(|ms| pace.try_acquire("a", at(ms)).is_ok()),
            [false, true, false, true]
        );
        assert_eq!([9_000; 4].map(|ms| pace.try_acquire("a", at(ms)).is_ok()), [true, true, true, false]);
    }

    #[test]
    fn so_many_strangers_do_not_fill_the_memory() {
        let (pace, now) = (RateLimiter::new(1, 1), Instant::now());
        for who in 0..BUCKETS_MAX + 10 {
            assert!(who >= BUCKETS_MAX || pace.try_acquire(who, now).is_ok());
            assert!(who < BUCKETS_MAX || pace.try_acquire(who, now).is_err());
        }
        assert!(pace.buckets.lock().len() <= BUCKETS_MAX);
        assert!(pace.try_acquire(BUCKETS_MAX + 11, now + Duration::from_secs(2)).is_ok());
    }
}

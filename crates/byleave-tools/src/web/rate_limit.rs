//! Limits the request rate per host, for all calls together. A model in a loop must not flood a server.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::error::FetchError;
use super::limits::MAX_REQUESTS_PER_MINUTE;

const WINDOW: Duration = Duration::from_secs(60);
/// The number of hosts above which hosts without recent requests are removed.
const HOSTS_MAX: usize = 1024;

/// The times of requests by host.
#[derive(Debug, Default)]
pub(super) struct HostRateLimiter {
    asked: Mutex<HashMap<String, VecDeque<Instant>>>,
}

impl HostRateLimiter {
    /// Counts a request to this host, or returns an error if there were too many.
    pub(super) fn check_rate(&self, host: &str) -> Result<(), FetchError> {
        let now = Instant::now();
        let mut asked = self.asked.lock();
        if asked.len() >= HOSTS_MAX {
            asked.retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < WINDOW));
        }
        if asked.len() >= HOSTS_MAX && !asked.contains_key(host) {
            return Err(FetchError::RateLimited { host: host.to_owned(), wait: WINDOW });
        }
        let times = asked.entry(host.to_owned()).or_default();
        while times.front().is_some_and(|first| now.duration_since(*first) >= WINDOW) {
            times.pop_front();
        }
        match times.front() {
            Some(first) if times.len() >= MAX_REQUESTS_PER_MINUTE => {
                let wait = WINDOW.saturating_sub(now.duration_since(*first));
                Err(FetchError::RateLimited { host: host.to_owned(), wait })
            }
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_is_asked_so_often_and_no_more() {
        let pace = HostRateLimiter::default();
        for _ in 0..MAX_REQUESTS_PER_MINUTE {
            assert!(pace.check_rate("a.example").is_ok());
        }
        assert!(pace.check_rate("a.example").is_err());
        assert!(pace.check_rate("b.example").is_ok());
        tokio::time::advance(WINDOW).await;
        assert!(pace.check_rate("a.example").is_ok());
        for n in 0..2 * HOSTS_MAX {
            if pace.check_rate(&format!("{n}.example")).is_err() {
                return assert!(n < HOSTS_MAX, "{n}");
            }
        }
        panic!("hosts without end are remembered");
    }
}

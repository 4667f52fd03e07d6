//! Limits on open streams, in total and for each client. A permit is returned on every path.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Counts open streams.
pub(crate) struct StreamLimiter {
    all: usize,
    each: usize,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// A permit for one stream. It is returned when dropped.
pub(crate) struct StreamPermit {
    who: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

impl StreamLimiter {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self { all, each, taken: Arc::default() }
    }

    /// Takes a permit, if there is one left.
    pub(crate) fn try_acquire(&self, who: &str) -> Option<StreamPermit> {
        let mut taken = self.taken.lock();
        let mine = taken.get(who).copied().unwrap_or(0);
        if mine >= self.each || taken.values().sum::<usize>() >= self.all {
            return None;
        }
        taken.insert(who.to_owned(), mine + 1);
        Some(StreamPermit { who: who.to_owned(), taken: Arc::clone(&self.taken) })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        match taken.get(&self.who).copied() {
            Some(many) if many > 1 => {
                taken.insert(self.who.clone(), many - 1);
            }
            _ => {
                taken.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_bounded_in_all_and_for_each_and_given_back() {
        let seats = StreamLimiter::new(3, 2);
        let (a, b) = (seats.try_acquire("a"), seats.try_acquire("a"));
        assert!(a.is_some() && b.is_some() && seats.try_acquire("a").is_none());
        let c = seats.try_acquire("b");
        assert!(c.is_some() && seats.try_acquire("c").is_none());
        drop(a);
        assert!(seats.try_acquire("c").is_some());
        drop((b, c));
        assert!(seats.taken.lock().is_empty());
    }
}

//! Clients that follow calls. A client is woken only for its own call, and a record is read once for all its followers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use byleave_gate::core::id::CallId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The events of one read of a record.
#[derive(Default)]
pub(crate) struct CallEventLog {
    /// The events of each entry, in order.
    pub(crate) entries: Vec<Vec<SerializedEvent>>,
    /// Whether there will be no more events.
    pub(crate) is_complete: bool,
}

/// An event, ready to be sent.
pub(crate) struct SerializedEvent {
    pub(crate) id: Option<u32>,
    pub(crate) event: &'static str,
    pub(crate) data: String,
}

/// The calls that are followed.
#[derive(Default)]
pub(crate) struct CallWatchers {
    calls: Mutex<HashMap<CallId, Weak<CallWatcher>>>,
    /// For followers of all calls.
    any: watch::Sender<()>,
}

/// A call that is followed.
#[derive(Default)]
pub(crate) struct CallWatcher {
    grown: watch::Sender<()>,
    /// The number of reads that were begun.
    begun: AtomicU64,
    /// The newest read, and its number.
    newest: tokio::sync::Mutex<(u64, Arc<CallEventLog>)>,
}

impl CallWatchers {
    /// Returns the watcher of a call for one more follower.
    pub(crate) fn watch(&self, call: CallId) -> Arc<CallWatcher> {
        let mut looks = self.calls.lock();
        if let Some(look) = looks.get(&call).and_then(Weak::upgrade) {
            return look;
        }
        // Watchers without followers are removed from time to time.
        if looks.len().is_power_of_two() {
            looks.retain(|_, look| look.strong_count() > 0);
        }
        let look = Arc::default();
        looks.insert(call, Arc::downgrade(&look));
        look
    }

    /// Returns a receiver that is woken whenever any record may have grown.
    pub(crate) fn any(&self) -> watch::Receiver<()> {
        self.any.subscribe()
    }

    /// Checks whether no call is followed.
    pub(crate) fn is_idle(&self) -> bool {
        if self.any.receiver_count() > 0 {
            return false;
        }
        let looks = self.calls.lock();
        looks.values().all(|look| look.strong_count() == 0)
    }

    /// Wakes the followers of this call, because its record may have grown.
    pub(crate) fn notify(&self, call: CallId) {
        self.any.send_replace(());
        let looks = self.calls.lock();
        if let Some(look) = looks.get(&call).and_then(Weak::upgrade) {
            look.grown.send_replace(());
        }
    }

    /// Wakes all followers, because it is unknown which record has grown.
    pub(crate) fn notify_all(&self) {
        self.any.send_replace(());
        let looks = self.calls.lock();
        for look in looks.values().filter_map(Weak::upgrade) {
            look.grown.send_replace(());
        }
    }
}

impl CallWatcher {
    /// Returns a receiver that is woken whenever the record may have grown.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }

    /// Returns the result of a read that begins after this call. Callers that arrive during a read share the next one.
    pub(crate) async fn read_shared<F, E>(&self, look: impl FnOnce() -> F) -> Result<Arc<CallEventLog>, E>
    where
        F: Future<Output = Result<CallEventLog, E>>,
    {
        let before = self.begun.load(Ordering::SeqCst);
        let mut newest = self.newest.lock().await;
        if newest.0 > before {
            return Ok(Arc::clone(&newest.1));
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let told = Arc::new(look().await?);
        *newest = (number, Arc::clone(&told));
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use byleave_gate::clock::fresh_id;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn who_comes_during_a_look_shares_the_next_and_never_hears_of_what_was_before() {
        let (looks, looked, go) = (CallWatchers::default(), AtomicUsize::new(0), Notify::new());
        let call = CallId::new(fresh_id());
        let (one, other) = (looks.watch(call), looks.watch(call));
        let look = || async {
            let number = looked.fetch_add(1, Ordering::SeqCst);
            if number == 0 {
                go.notified().await;
            }
            Ok::<_, ()>(CallEventLog {
                entries: (0..number).map(|_| Vec::new()).collect(),
                is_complete: false,
            })
        };
        let first = one.read_shared(look);
        let rest = futures::future::join_all((0..100).map(|_| async {
            go.notify_one();
            other.read_shared(look).await.unwrap().entries.len()
        }));
        let (first, rest) = tokio::join!(first, rest);
        assert_eq!(first.unwrap().entries.len(), 0);
        assert!(rest.into_iter().all(|seen| seen == 1), "all who came later share one look");
        assert_eq!(looked.load(Ordering::SeqCst), 2);
        drop((one, other));
        drop(looks.watch(CallId::new(fresh_id())));
        assert_eq!(looks.calls.lock().len(), 1, "what nobody follows is forgotten");
    }
}

//! Events for subscribers: every entry after it is durably on the record, and progress and printed output as they arrive.

use std::collections::HashMap;
use std::sync::Arc;

use byleave_core::entry::Entry;
use byleave_core::id::CallId;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::tool::{OutputChunk, Progress};

/// An event of a gate.
#[derive(Clone, Debug)]
pub enum GateEvent {
    /// An entry is on the record.
    Entry {
        /// The call of the record.
        call: CallId,
        /// The number of the entry, from 0.
        seq: u32,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A call has reported progress.
    Progress {
        /// The call.
        call: CallId,
        /// The progress.
        progress: Progress,
    },
    /// A running call has printed something.
    ///
    /// It is for people at a screen. It arrives before any reviewer has seen it, and nothing in it is masked. It is not on the
    /// record, and a slow subscriber misses some. A rehearsal sends none: its output is in the result of its commit.
    Output {
        /// The call.
        call: CallId,
        /// The output.
        chunk: OutputChunk,
    },
    /// An approval was given or refused (R6). A call that a person answered in the place of the tool was not approved.
    ToolApproval {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The arguments that were asked about.
        parameters: Arc<Value>,
        /// Whether it was given.
        approved: bool,
    },
}

/// How many reports on one call are queued for its follower. A slower follower misses some.
const QUEUE_CAPACITY: usize = 256;

/// The sender of events to all subscribers. It costs nothing without subscribers.
#[derive(Clone, Debug)]
pub(crate) struct EventBus {
    sender: broadcast::Sender<GateEvent>,
    followers: CallFollowers,
}

/// The followers by call.
type CallFollowers = Arc<Mutex<HashMap<CallId, mpsc::Sender<Progress>>>>;

/// The progress of one call for one follower. Thousands may be followed at once, and no follower receives other calls.
#[derive(Debug)]
pub struct CallEvents {
    call: CallId,
    receiver: mpsc::Receiver<Progress>,
    followers: CallFollowers,
}

impl CallEvents {
    /// Returns the next report, or `None` if another follower has taken over the call.
    pub async fn next(&mut self) -> Option<Progress> {
        self.receiver.recv().await
    }

    /// Returns a queued report, if there is one.
    pub fn try_next(&mut self) -> Option<Progress> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for CallEvents {
    fn drop(&mut self) {
        self.receiver.close();
        let mut followed = lock_followers(&self.followers);
        if followed.get(&self.call).is_some_and(mpsc::Sender::is_closed) {
            followed.remove(&self.call);
        }
    }
}

impl EventBus {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(4_096), followers: Arc::default() }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<GateEvent> {
        self.sender.subscribe()
    }

    /// Follows one call.
    pub(crate) fn follow(&self, call: CallId) -> CallEvents {
        let (teller, told) = mpsc::channel(QUEUE_CAPACITY);
        lock_followers(&self.followers).insert(call, teller);
        CallEvents { call, receiver: told, followers: Arc::clone(&self.followers) }
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Builds and sends events only if there are subscribers.
    pub(crate) fn emit(&self, events: impl IntoIterator<Item = GateEvent>) {
        if !self.has_listeners() {
            return;
        }
        for event in events {
            // The last subscriber may have just left, so an error is ignored.
            drop(self.sender.send(event));
        }
    }

    /// Reports the progress of a call.
    pub(crate) fn send_progress(&self, call: CallId, progress: Progress) {
        if let Some(follower) = lock_followers(&self.followers).get(&call) {
            drop(follower.try_send(progress.clone()));
        }
        self.emit([GateEvent::Progress { call, progress }]);
    }
}

fn lock_followers<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::fresh_id;

    fn report(detail: &str) -> Progress {
        Progress { fraction: None, detail: detail.to_owned() }
    }

    // req: R6
    #[tokio::test]
    async fn who_follows_a_call_hears_of_that_call_alone() {
        let events = EventBus::new();
        let (one, other) = (CallId::new(fresh_id()), CallId::new(fresh_id()));
        let mut following = events.follow(one);
        events.send_progress(other, report("not mine"));
        events.send_progress(one, report("mine"));
        assert!(!events.has_listeners(), "entries are not turned into events for a subscriber of one call");
        assert_eq!(following.next().await.unwrap().detail, "mine");
        assert!(following.try_next().is_none());

        let mut later = events.follow(one);
        assert!(following.next().await.is_none(), "another subscriber follows it now");
        drop(following);
        events.send_progress(one, report("to the later"));
        assert_eq!(later.try_next().unwrap().detail, "to the later");
        drop(later);
        assert!(lock_followers(&events.followers).is_empty(), "a subscriber that has left is removed");
    }
}

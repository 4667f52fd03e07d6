//! Events: a subscriber sees every entry once it is durably on the record, and progress and what is printed as it comes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byleave_core::entry::Entry;
use byleave_core::id::CallId;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};

use crate::tool::{OutputChunk, Progress};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum GateEvent {
    /// An entry is on the record.
    Entry {
        /// Whose.
        call: CallId,
        /// Its place, from 0.
        seq: u32,
        /// The entry.
        entry: Arc<Entry>,
    },
    /// A call has come further.
    Progress {
        /// Which.
        call: CallId,
        /// How far.
        progress: Progress,
    },
    /// A call has printed something, and still runs.
    ///
    /// For people at a screen: it comes before any reviewer has seen it, and nothing in it is masked. Nothing of it is on the
    /// record, and who is too slow misses some. A rehearsal tells nothing; what it printed is in the result of its commit.
    Printed {
        /// Which.
        call: CallId,
        /// What.
        printed: OutputChunk,
    },
    /// An approval was given or refused (R6).
    ToolApproval {
        /// The call.
        call: CallId,
        /// The tool.
        tool: String,
        /// The arguments that were asked about.
        parameters: Arc<Value>,
        /// Given, or refused.
        approved: bool,
    },
}

/// How many reports on one call wait for who follows it; who is slower misses some.
const WAITING_MAX: usize = 256;

/// Hands events to whoever listens. Nobody listening costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct EventBus {
    all: broadcast::Sender<GateEvent>,
    followed: CallFollowers,
}

/// Who follows which call.
type CallFollowers = Arc<Mutex<HashMap<CallId, mpsc::Sender<Progress>>>>;

/// How far one call comes, for one who follows it: thousands may be followed, each by its own, and none hears of the others.
#[derive(Debug)]
pub struct CallEvents {
    call: CallId,
    told: mpsc::Receiver<Progress>,
    followed: CallFollowers,
}

impl CallEvents {
    /// The next report; none where somebody else has begun to follow the call.
    pub async fn next(&mut self) -> Option<Progress> {
        self.told.recv().await
    }

    /// A report that is there already.
    pub fn already(&mut self) -> Option<Progress> {
        self.told.try_recv().ok()
    }
}

impl Drop for CallEvents {
    fn drop(&mut self) {
        self.told.close();
        let mut followed = held(&self.followed);
        if followed.get(&self.call).is_some_and(mpsc::Sender::is_closed) {
            followed.remove(&self.call);
        }
    }
}

impl EventBus {
    pub(crate) fn new() -> Self {
        Self { all: broadcast::Sender::new(4_096), followed: Arc::default() }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<GateEvent> {
        self.all.subscribe()
    }

    /// Follows one call.
    pub(crate) fn follow(&self, call: CallId) -> CallEvents {
        let (teller, told) = mpsc::channel(WAITING_MAX);
        held(&self.followed).insert(call, teller);
        CallEvents { call, told, followed: Arc::clone(&self.followed) }
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.all.receiver_count() > 0
    }

    /// Builds and sends events only if somebody listens.
    pub(crate) fn emit(&self, events: impl IntoIterator<Item = GateEvent>) {
        if !self.has_listeners() {
            return;
        }
        for event in events {
            // The last listener may have just left; then there is nobody to tell.
            drop(self.all.send(event));
        }
    }

    /// Tells how far a call has come.
    pub(crate) fn progress(&self, call: CallId, progress: Progress) {
        if let Some(follower) = held(&self.followed).get(&call) {
            drop(follower.try_send(progress.clone()));
        }
        self.emit([GateEvent::Progress { call, progress }]);
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
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
        events.progress(other, report("not mine"));
        events.progress(one, report("mine"));
        assert!(!events.has_listeners(), "entries are not made into events for who follows one call");
        assert_eq!(following.next().await.unwrap().detail, "mine");
        assert!(following.already().is_none());

        let mut later = events.follow(one);
        assert!(following.next().await.is_none(), "somebody else follows it now");
        drop(following);
        events.progress(one, report("to the later"));
        assert_eq!(later.already().unwrap().detail, "to the later");
        drop(later);
        assert!(held(&events.followed).is_empty(), "nobody is kept who has left");
    }
}

//! Events: a subscriber sees every entry once it is durably on the record, and progress and what is printed as it comes.

use std::sync::Arc;

use byleave_core::entry::Entry;
use byleave_core::id::CallId;
use serde_json::Value;
use tokio::sync::broadcast;

use crate::tool::{Printed, Progress};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
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
        printed: Printed,
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

/// Hands events to whoever listens. Nobody listening costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(4_096))
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Builds and sends events only if somebody listens.
    pub(crate) fn emit(&self, events: impl IntoIterator<Item = Event>) {
        if !self.has_listeners() {
            return;
        }
        for event in events {
            // The last listener may have just left; then there is nobody to tell.
            drop(self.0.send(event));
        }
    }
}

//! Telling a client how far its call is: what the tool reports, and that it still waits.

use byleave::tool::Progress;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

/// What a tick adds: progress must always rise, and what waits has not come further.
const TICK: f64 = 1e-6;

/// Tells one client of one call, where it wants to hear of it.
pub(super) struct ProgressReporter {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    last: f64,
}

impl ProgressReporter {
    pub(super) fn new(peer: &Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { to: token.map(|token| (peer.clone(), token)), last: 0.0 }
    }

    /// Whether anybody wants to hear.
    pub(super) const fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// The call still waits.
    pub(super) async fn tick(&mut self, words: String) {
        let at = self.last + TICK;
        self.tell(at, None, words).await;
    }

    /// The tool has come further.
    pub(super) async fn progress(&mut self, progress: Progress) {
        // What does not rise is told as if it did, by next to nothing: the words are worth hearing.
        let at = progress.fraction.filter(|fraction| *fraction > self.last).unwrap_or(self.last + TICK);
        self.tell(at, progress.fraction.map(|_| 1.0), progress.detail).await;
    }

    async fn tell(&mut self, at: f64, total: Option<f64>, words: String) {
        let Some((peer, token)) = &self.to else { return };
        self.last = at;
        let mut param = ProgressNotificationParam::new(token.clone(), at).with_message(words);
        param.total = total;
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "a client could not be told how far its call is");
            self.to = None;
        }
    }
}

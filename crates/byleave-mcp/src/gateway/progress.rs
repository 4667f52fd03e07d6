//! Progress reports for a client: those of the tool, and that the call still waits.

use byleave_gate::tool::Progress;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};

/// The increment of a tick. Progress must always rise, but a call that waits has made none.
const TICK: f64 = 1e-6;

/// Reports the progress of one call to one client, if it wants reports.
pub(super) struct ProgressReporter {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    last: f64,
}

impl ProgressReporter {
    pub(super) fn new(peer: &Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { to: token.map(|token| (peer.clone(), token)), last: 0.0 }
    }

    /// Checks whether the client wants reports.
    pub(super) const fn is_enabled(&self) -> bool {
        self.to.is_some()
    }

    /// Reports that the call still waits.
    pub(super) async fn report_waiting(&mut self, words: String) {
        let at = self.last + TICK;
        self.tell(at, None, words).await;
    }

    /// Reports progress of the tool.
    pub(super) async fn report_progress(&mut self, progress: Progress) {
        // Progress that does not rise is reported with a tiny increment, because its message is useful.
        let at = progress.fraction.filter(|fraction| *fraction > self.last).unwrap_or(self.last + TICK);
        self.tell(at, progress.fraction.map(|_| 1.0), progress.detail).await;
    }

    async fn tell(&mut self, at: f64, total: Option<f64>, words: String) {
        let Some((peer, token)) = &self.to else { return };
        self.last = at;
        let mut param = ProgressNotificationParam::new(token.clone(), at).with_message(words);
        param.total = total;
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "cannot report the progress of a call to its client");
            self.to = None;
        }
    }
}

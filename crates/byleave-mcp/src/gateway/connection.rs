//! The connection of one client: its session, cancelled requests and watched resources.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::id::SessionId;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProtocolVersion, RequestId};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::notifications::ResourceWatch;
use super::{GatewayInner, TransportKind};
use crate::protocol_version::is_modern;

/// How long a cancellation notice may arrive after the request ended.
const WORD: Duration = Duration::from_millis(200);

/// The number of cancelled requests that are remembered.
const CALLED_OFF_MAX: usize = 1_024;

/// The handler of one client.
pub struct ClientConnection {
    pub(super) gateway: Arc<GatewayInner>,
    pub(super) session: SessionId,
    wire: TransportKind,
    called_off: Mutex<HashSet<RequestId>>,
    word: Notify,
    /// The resources that it subscribed to, in the older protocol.
    pub(super) resource_watches: Arc<Mutex<HashMap<String, ResourceWatch>>>,
    /// The task that sends notifications, in the older protocol.
    pub(super) notifier_task: Mutex<Option<AbortHandle>>,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if let Some(teller) = lock(&self.notifier_task).take() {
            teller.abort();
        }
    }
}

impl ClientConnection {
    pub(super) fn new(gateway: Arc<GatewayInner>, session: SessionId, wire: TransportKind) -> Self {
        Self {
            gateway,
            session,
            wire,
            called_off: Mutex::default(),
            word: Notify::new(),
            resource_watches: Arc::default(),
            notifier_task: Mutex::default(),
        }
    }

    /// Returns the session of its calls. A client with independent requests uses the gateway's session.
    pub(super) fn session(&self, version: Option<&ProtocolVersion>) -> SessionId {
        match self.wire {
            TransportKind::Http if version.is_some_and(is_modern) => self.gateway.session.clone(),
            TransportKind::Http | TransportKind::Pipe => self.session.clone(),
        }
    }

    /// Checks whether an ended request was cancelled, and not only abandoned by a client that disconnected.
    pub(super) async fn is_cancelled(&self, request: &RequestId) -> bool {
        // Over HTTP, closing a request cancels it.
        if self.wire == TransportKind::Http {
            return true;
        }
        let heard = async {
            loop {
                let word = self.word.notified();
                if self.called_off().contains(request) {
                    return;
                }
                word.await;
            }
        };
        tokio::time::timeout(WORD, heard).await.is_ok()
    }

    /// Remembers that a request was cancelled, and wakes the tasks that wait for this.
    pub(super) fn cancel(&self, request: RequestId) {
        let mut called_off = self.called_off();
        if called_off.len() >= CALLED_OFF_MAX {
            called_off.clear();
        }
        called_off.insert(request);
        drop(called_off);
        self.word.notify_waiters();
    }

    fn called_off(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        lock(&self.called_off)
    }
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock()
}

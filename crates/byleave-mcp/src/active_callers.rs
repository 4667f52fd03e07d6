//! The clients of calls in progress, so that messages of a server find them.
//!
//! A tool knows its call but not the client; the gateway knows both. The gateway registers the client here before it passes a
//! call to the gate.

use std::collections::HashMap;
use std::sync::Arc;

use byleave_gate::core::id::CallId;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ClientCapabilities, InputResponses, ProgressToken, ProtocolVersion, RequestMetaObject};
use rmcp::service::{Peer, RoleServer};

/// The client of a call, and the parts of its request that are not arguments.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The connection to the client.
    pub peer: Peer<RoleServer>,
    /// The token under which the client wants progress reports.
    pub progress_token: Option<ProgressToken>,
    /// Metadata of the request, to be passed on.
    pub meta: RequestMetaObject,
    /// The protocol version of the client.
    pub version: Option<ProtocolVersion>,
    /// The capabilities of the client.
    pub capabilities: Option<ClientCapabilities>,
    /// The client's answers to input requests of the server in an earlier round of the same request.
    pub input_responses: Option<InputResponses>,
    /// Opaque state that the server wants back with the answers.
    pub request_state: Option<String>,
}

/// The clients of calls in progress. Clones are cheap and share their state.
#[derive(Clone, Debug, Default)]
pub struct ActiveCallers {
    callers: Arc<Mutex<HashMap<CallId, Arc<Caller>>>>,
}

/// Keeps a client registered until it is dropped.
#[derive(Debug)]
pub struct ActiveCallerGuard {
    exchange: ActiveCallers,
    call: CallId,
}

impl ActiveCallers {
    /// Registers the client of a call until the returned guard is dropped.
    #[must_use]
    pub fn register(&self, call: CallId, caller: Caller) -> ActiveCallerGuard {
        self.held().insert(call, Arc::new(caller));
        ActiveCallerGuard { exchange: self.clone(), call }
    }

    /// Returns the client of a call, if it still waits for it.
    pub fn caller(&self, call: CallId) -> Option<Arc<Caller>> {
        self.held().get(&call).cloned()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<CallId, Arc<Caller>>> {
        self.callers.lock()
    }
}

impl Drop for ActiveCallerGuard {
    fn drop(&mut self) {
        self.exchange.held().remove(&self.call);
    }
}

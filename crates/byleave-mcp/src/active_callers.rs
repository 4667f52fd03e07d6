//! Who has made the calls that are under way, so that what a server says meanwhile finds them.
//!
//! A tool knows its call and not who made it; the gateway knows both. It enters here before it hands a call to the gate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byleave::core::id::CallId;
use rmcp::model::{ClientCapabilities, InputResponses, ProgressToken, ProtocolVersion, RequestMetaObject};
use rmcp::service::{Peer, RoleServer};

/// Who made a call, and what came with it that is no argument.
#[derive(Clone, Debug)]
pub struct Caller {
    /// How to speak to them.
    pub peer: Peer<RoleServer>,
    /// What they want to hear of the progress under.
    pub progress: Option<ProgressToken>,
    /// What came along with the request, to be passed on.
    pub meta: RequestMetaObject,
    /// The protocol that they speak.
    pub version: Option<ProtocolVersion>,
    /// What they can be asked for.
    pub capabilities: Option<ClientCapabilities>,
    /// Their answers to what the server asked in an earlier round of the same request.
    pub input_responses: Option<InputResponses>,
    /// What the server wants to get back with them, untouched.
    pub request_state: Option<String>,
}

/// The calls under way. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct ActiveCallers {
    callers: Arc<Mutex<HashMap<CallId, Arc<Caller>>>>,
}

/// Holds a caller in the exchange until it is dropped.
#[derive(Debug)]
pub struct ActiveCallerGuard {
    exchange: ActiveCallers,
    call: CallId,
}

impl ActiveCallers {
    /// Enters who makes a call, until what is returned is dropped.
    #[must_use]
    pub fn enter(&self, call: CallId, caller: Caller) -> ActiveCallerGuard {
        self.held().insert(call, Arc::new(caller));
        ActiveCallerGuard { exchange: self.clone(), call }
    }

    /// Who made a call, if they still wait for it.
    pub fn caller(&self, call: CallId) -> Option<Arc<Caller>> {
        self.held().get(&call).cloned()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<CallId, Arc<Caller>>> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveCallerGuard {
    fn drop(&mut self) {
        self.exchange.held().remove(&self.call);
    }
}

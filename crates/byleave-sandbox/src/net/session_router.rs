//! Finds out which call of a session a connection belongs to.
//!
//! Calls of one session can share a network namespace, and thus the port of the proxy. Each call then has a token, which is only
//! in its proxy variables. A connection uses the egress of the token that it presents, and none without a token. When a call
//! ends, its token and every connection made with it end too.
//!
//! A lookup, and a connection to the address that it gave, cannot present a token. With [`SessionRouter::by_running_call`] they belong to
//! the running call, if exactly one runs. While several run, they cannot be attributed. Then the connection is refused, and
//! lookups are answered if the name might pass for any of the calls. A refusal is logged for each of them.
//!
//! This has a limit. A call can give its token to another call of the same session, or let it connect through its own loopback
//! server. It is then responsible for the other's connections. Calls of one session share files and a loopback, so this cannot be
//! prevented. Calls that must be isolated from each other belong in two sessions.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::{Mutex, MutexGuard};

use super::decision_log::HostAccessRecord;
use super::egress::{Egress, NetworkLimits};
use super::transparent_proxy::WaitingConnections;

/// The user name beside a token, for protocols that require one.
const USER: &str = "call";

/// Concurrent connections of a whole session. The limit is higher than that of one call, so that no call takes them all. It is
/// low enough for the supervisor's descriptors.
const SESSION_CONNECTIONS_MAX: usize = 320;

/// How long to wait for connections that should end at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// The open egresses of a session.
#[derive(Debug, Default)]
pub struct SessionRouter {
    otherwise: DefaultRoute,
    by_pass: Mutex<HashMap<String, Arc<Egress>>>,
    bounds: NetworkLimits,
    /// Held while a connection is accepted and assigned, and while an egress is shut.
    turn: Mutex<()>,
    /// The listeners of connections that cannot present a token.
    waiting: Mutex<Weak<WaitingConnections>>,
}

/// The call behind a connection without a token.
#[derive(Debug, Default)]
enum DefaultRoute {
    #[default]
    Nobody,
    Always(Arc<Egress>),
    WhoRunsAlone,
}

/// The egress of a connection that cannot present a token.
pub(crate) enum DefaultEgress {
    /// This egress.
    Single(Arc<Egress>),
    /// One of these, and it is unknown which.
    Ambiguous(Vec<Arc<Egress>>),
    /// None.
    Unavailable,
}

/// The token that a connection presents to use the egress of its call. Dropping or closing it shuts the egress.
pub struct ProxyToken {
    text: String,
    door: Arc<Egress>,
    doors: Arc<SessionRouter>,
}

/// The error for a token that could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a token for the call: cannot get random bytes: {0}")]
pub struct ProxyTokenError(getrandom::Error);

impl SessionRouter {
    /// Creates a router with one egress for every connection, if nothing else runs in the namespace.
    pub fn single(door: Arc<Egress>) -> Arc<Self> {
        let bounds = door.bounds().clone();
        Arc::new(Self { otherwise: DefaultRoute::Always(door), bounds, ..Self::default() })
    }

    /// Creates a router by token. This egress, if any, is for lookups and connections that cannot present one.
    pub fn by_pass(otherwise: Option<Arc<Egress>>) -> Arc<Self> {
        let otherwise = otherwise.map_or(DefaultRoute::Nobody, DefaultRoute::Always);
        Arc::new(Self { otherwise, bounds: session_bounds(), ..Self::default() })
    }

    /// Creates a router by token. Lookups and connections that cannot present one use the egress of the only open call, and none
    /// while several are open.
    pub fn by_running_call() -> Arc<Self> {
        Arc::new(Self { otherwise: DefaultRoute::WhoRunsAlone, bounds: session_bounds(), ..Self::default() })
    }

    /// Opens an egress for one call.
    pub fn register_call(self: &Arc<Self>, door: Egress) -> Result<ProxyToken, ProxyTokenError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(ProxyTokenError)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let door = Arc::new(door);
        self.by_pass.lock().insert(text.clone(), Arc::clone(&door));
        Ok(ProxyToken { text, door, doors: Arc::clone(self) })
    }

    /// Returns the egress for connections without a token, if it is the same for all of them.
    pub(crate) fn default_egress(&self) -> Option<Arc<Egress>> {
        match &self.otherwise {
            DefaultRoute::Always(door) => Some(Arc::clone(door)),
            DefaultRoute::Nobody | DefaultRoute::WhoRunsAlone => None,
        }
    }

    /// Returns the current egress for connections that cannot present a token.
    pub(crate) fn egress_without_token(&self) -> DefaultEgress {
        match &self.otherwise {
            DefaultRoute::Nobody => DefaultEgress::Unavailable,
            DefaultRoute::Always(door) => DefaultEgress::Single(Arc::clone(door)),
            DefaultRoute::WhoRunsAlone => {
                let open: Vec<Arc<Egress>> = self.by_pass.lock().values().cloned().collect();
                match <[Arc<Egress>; 1]>::try_from(open) {
                    Ok([door]) => DefaultEgress::Single(door),
                    Err(open) if open.is_empty() => DefaultEgress::Unavailable,
                    Err(open) => DefaultEgress::Ambiguous(open),
                }
            }
        }
    }

    /// Returns the lock that is held while a connection is accepted and assigned.
    pub(crate) fn lock_accept(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Sets the listeners of connections that cannot present a token.
    pub(crate) fn set_listeners(&self, listeners: &Arc<WaitingConnections>) {
        *self.waiting.lock() = Arc::downgrade(listeners);
    }

    /// Returns the egress for this token. A wrong token does not fall back to the default. At the proxy a token can be presented,
    /// and with [`SessionRouter::by_running_call`] it must be.
    pub(crate) fn egress_for_token(&self, pass: Option<&[u8]>) -> Option<Arc<Egress>> {
        match pass.map(str::from_utf8) {
            None => self.default_egress(),
            Some(Ok(pass)) => self.by_pass.lock().get(pass).cloned(),
            Some(Err(_)) => None,
        }
    }

    /// Returns the limits that apply before an egress is known.
    pub(crate) fn bounds(&self) -> &NetworkLimits {
        &self.bounds
    }
}

impl ProxyToken {
    /// Returns the value of the call's proxy variables, for a proxy at this address.
    pub fn proxy_url(&self, at: SocketAddr) -> String {
        format!("http://{USER}:{}@{at}", self.text)
    }

    /// Returns how many log entries did not fit.
    pub fn omitted_decisions(&self) -> u64 {
        self.door.omitted_decisions()
    }

    /// Returns the requested hosts so far and the results.
    pub fn decisions(&self) -> Vec<HostAccessRecord> {
        self.door.decisions()
    }

    /// Ends the call's connections, and returns the requested hosts and the results. Waits until the connections have ended, if
    /// the runtime that serves them is running.
    pub fn close(self) -> Vec<HostAccessRecord> {
        self.shut();
        self.door.wait_until_idle(PATIENCE);
        self.door.decisions()
    }

    /// Shuts the egress. The processes of the call are gone by now. A connection of theirs that still waits must not be assigned
    /// to the next call.
    fn shut(&self) {
        let turn = self.doors.lock_accept();
        if let Some(waiting) = self.doors.waiting.lock().upgrade() {
            waiting.drain(&self.door);
        }
        self.doors.by_pass.lock().remove(&self.text);
        drop(turn);
        self.door.shut();
    }
}

impl Drop for ProxyToken {
    fn drop(&mut self) {
        self.shut();
    }
}

impl fmt::Debug for ProxyToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass(…)")
    }
}

fn session_bounds() -> NetworkLimits {
    NetworkLimits { max_connections: SESSION_CONNECTIONS_MAX, ..NetworkLimits::default() }
}

/// Returns the token in the value of a `Proxy-Authorization`. A value of another form becomes a token that opens nothing.
pub(crate) fn parse_token(value: &[u8]) -> Vec<u8> {
    let decoded = value
        .split_at_checked(6)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"basic "))
        .and_then(|(_, coded)| STANDARD.decode(coded.trim_ascii()).ok());
    let begin = format!("{USER}:");
    decoded.as_deref().and_then(|decoded| decoded.strip_prefix(begin.as_bytes())).unwrap_or_default().to_vec()
}

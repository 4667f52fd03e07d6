//! The doors of a session: which call a connection belongs to.
//!
//! Calls of one session can share a network namespace, and so the port of the proxy. Each then has a pass, which stands in
//! its proxy variables and nowhere else; a connection goes through the door of the pass that it shows, and through none
//! without. When a call is over, so is its pass, and with it every connection that was made by it.
//!
//! A lookup, and a connection to the address that it gave, can show no pass. With [`SessionRouter::in_turn`] they belong to the call
//! that runs, as long as one alone does. While several run nobody can say whose they are: the connection is refused, lookups
//! are answered if the name might pass for any of them, and a refusal stands in the log of every one of them.
//!
//! What this cannot tell: a call that gives its pass to another of the same session, or lets it connect through a server of
//! its own on the loopback, stands for what the other does. Calls of one session share files and a loopback, so that they
//! always could; what must be kept from each other belongs in two sessions.

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::decision_log::{HostAccessRecord, locked};
use super::egress::{Egress, NetworkLimits};

/// The name beside a pass, where a protocol wants one.
const USER: &str = "call";

/// Connections of a whole session at the same time: more than of one call, so that no call takes them all, and few enough
/// for the supervisor's descriptors.
const SESSION_CONNECTIONS_MAX: usize = 320;

/// How long connections are waited for that should end at once.
const PATIENCE: Duration = Duration::from_secs(1);

/// More than the kernel lets wait at one socket of ours.
const WAITING_MAX: usize = 2048;

/// The doors that are open.
#[derive(Debug, Default)]
pub struct SessionRouter {
    otherwise: DefaultRoute,
    by_pass: Mutex<HashMap<String, Arc<Egress>>>,
    bounds: NetworkLimits,
    /// Held while a connection is taken and given its door, and while a door is shut.
    turn: Mutex<()>,
    /// Where connections wait that can show no pass.
    waiting: Mutex<Weak<Vec<TcpListener>>>,
}

/// Who is behind a connection that shows no pass.
#[derive(Debug, Default)]
enum DefaultRoute {
    #[default]
    Nobody,
    Always(Arc<Egress>),
    WhoRunsAlone,
}

/// The door of a connection that cannot show a pass.
pub(crate) enum DefaultEgress {
    /// This one.
    Door(Arc<Egress>),
    /// One of these calls', and nothing says whose.
    Several(Vec<Arc<Egress>>),
    /// None.
    Nobody,
}

/// What a connection shows to be let through the door of its call. Dropped or closed, the door is shut.
pub struct ProxyToken {
    text: String,
    door: Arc<Egress>,
    doors: Arc<SessionRouter>,
}

/// Why there is no pass.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a pass for the call: this machine gives no random bytes: {0}")]
pub struct ProxyTokenError(getrandom::Error);

impl SessionRouter {
    /// One door for every connection: nothing else runs in the namespace.
    pub fn one(door: Arc<Egress>) -> Arc<Self> {
        let bounds = door.bounds().clone();
        Arc::new(Self { otherwise: DefaultRoute::Always(door), bounds, ..Self::default() })
    }

    /// Doors for those who show a pass, and this one, if any, for lookups and connections that cannot show one.
    pub fn by_pass(otherwise: Option<Arc<Egress>>) -> Arc<Self> {
        let otherwise = otherwise.map_or(DefaultRoute::Nobody, DefaultRoute::Always);
        Arc::new(Self { otherwise, bounds: session_bounds(), ..Self::default() })
    }

    /// Doors for those who show a pass; lookups and connections that cannot show one go through the door of the one call
    /// that is open, and through none while several are.
    pub fn in_turn() -> Arc<Self> {
        Arc::new(Self { otherwise: DefaultRoute::WhoRunsAlone, bounds: session_bounds(), ..Self::default() })
    }

    /// Opens a door for one call.
    pub fn open(self: &Arc<Self>, door: Egress) -> Result<ProxyToken, ProxyTokenError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(ProxyTokenError)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let door = Arc::new(door);
        locked(&self.by_pass).insert(text.clone(), Arc::clone(&door));
        Ok(ProxyToken { text, door, doors: Arc::clone(self) })
    }

    /// The door of whoever shows no pass, where it is the same for all of them.
    pub(crate) fn otherwise(&self) -> Option<Arc<Egress>> {
        match &self.otherwise {
            DefaultRoute::Always(door) => Some(Arc::clone(door)),
            DefaultRoute::Nobody | DefaultRoute::WhoRunsAlone => None,
        }
    }

    /// The door of whoever cannot show a pass, now.
    pub(crate) fn unshown(&self) -> DefaultEgress {
        match &self.otherwise {
            DefaultRoute::Nobody => DefaultEgress::Nobody,
            DefaultRoute::Always(door) => DefaultEgress::Door(Arc::clone(door)),
            DefaultRoute::WhoRunsAlone => {
                let open: Vec<Arc<Egress>> = locked(&self.by_pass).values().cloned().collect();
                match <[Arc<Egress>; 1]>::try_from(open) {
                    Ok([door]) => DefaultEgress::Door(door),
                    Err(open) if open.is_empty() => DefaultEgress::Nobody,
                    Err(open) => DefaultEgress::Several(open),
                }
            }
        }
    }

    /// Held while a connection is taken and given its door.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        locked(&self.turn)
    }

    /// Says where connections wait that can show no pass.
    pub(crate) fn wait_at(&self, listeners: &Arc<Vec<TcpListener>>) {
        *locked(&self.waiting) = Arc::downgrade(listeners);
    }

    /// The door of whoever shows this pass. A wrong one is not none. At the proxy a pass can be shown, and where calls take
    /// turns it has to be.
    pub(crate) fn shown(&self, pass: Option<&[u8]>) -> Option<Arc<Egress>> {
        match pass.map(str::from_utf8) {
            None => self.otherwise(),
            Some(Ok(pass)) => locked(&self.by_pass).get(pass).cloned(),
            Some(Err(_)) => None,
        }
    }

    /// What holds before a door is known.
    pub(crate) fn bounds(&self) -> &NetworkLimits {
        &self.bounds
    }
}

impl ProxyToken {
    /// What the proxy variables of the call say, for a proxy at this address.
    pub fn proxy_url(&self, at: SocketAddr) -> String {
        format!("http://{USER}:{}@{at}", self.text)
    }

    /// How many decisions found no room among the others.
    pub fn decisions_left_out(&self) -> u64 {
        self.door.decisions_left_out()
    }

    /// What was wanted so far, and what was given.
    pub fn decisions(&self) -> Vec<HostAccessRecord> {
        self.door.decisions()
    }

    /// Ends the call's connections, and says what was wanted and what was given. Waits until they have ended, if the runtime
    /// that serves them goes on meanwhile.
    pub fn close(self) -> Vec<HostAccessRecord> {
        self.shut();
        self.door.wait_until_empty(PATIENCE);
        self.door.decisions()
    }

    /// By now the processes of the call are gone. A connection of theirs that was not taken yet must not be taken for the
    /// next call's.
    fn shut(&self) {
        let turn = self.doors.turn();
        if let Some(listeners) = locked(&self.doors.waiting).upgrade() {
            for listener in listeners.iter() {
                // As many as can wait: those of the call are the first.
                for _ in 0..WAITING_MAX {
                    if listener.accept().is_err() {
                        break;
                    }
                }
            }
        }
        locked(&self.doors.by_pass).remove(&self.text);
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
    NetworkLimits { connections_max: SESSION_CONNECTIONS_MAX, ..NetworkLimits::default() }
}

/// The pass in the value of a `Proxy-Authorization`; what is none of ours is a pass that opens nothing.
pub(crate) fn pass_of(value: &[u8]) -> Vec<u8> {
    let decoded = value
        .split_at_checked(6)
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"basic "))
        .and_then(|(_, coded)| STANDARD.decode(coded.trim_ascii()).ok());
    let begin = format!("{USER}:");
    decoded.as_deref().and_then(|decoded| decoded.strip_prefix(begin.as_bytes())).unwrap_or_default().to_vec()
}

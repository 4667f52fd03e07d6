//! The doors of a session: which call a connection belongs to.
//!
//! Calls of one session can share a network namespace, and so the port of the proxy. Each then has a pass, which stands in
//! its proxy variables and nowhere else; a connection goes through the door of the pass that it shows, and through none
//! without. When a call is over, so is its pass, and with it every connection that was made by it.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::log::{Decision, locked};
use super::policy::{Bounds, Door};

/// The name beside a pass, where a protocol wants one.
const USER: &str = "call";

/// Connections of a whole session at the same time: more than of one call, so that no call takes them all, and few enough
/// for the supervisor's descriptors.
const SESSION_CONNECTIONS_MAX: usize = 320;

/// The doors that are open.
#[derive(Debug, Default)]
pub struct Doors {
    otherwise: Option<Arc<Door>>,
    by_pass: Mutex<HashMap<String, Arc<Door>>>,
    bounds: Bounds,
}

/// What a connection shows to be let through the door of its call. Dropped or closed, the door is shut.
pub struct Pass {
    text: String,
    door: Arc<Door>,
    doors: Arc<Doors>,
}

/// Why there is no pass.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a pass for the call: this machine gives no random bytes: {0}")]
pub struct NoPass(getrandom::Error);

impl Doors {
    /// One door for every connection: nothing else runs in the namespace.
    pub fn one(door: Arc<Door>) -> Arc<Self> {
        let bounds = door.bounds().clone();
        Arc::new(Self { otherwise: Some(door), bounds, ..Self::default() })
    }

    /// Doors for those who show a pass, and this one, if any, for lookups and connections that cannot show one.
    pub fn by_pass(otherwise: Option<Arc<Door>>) -> Arc<Self> {
        let bounds = Bounds { connections_max: SESSION_CONNECTIONS_MAX, ..Bounds::default() };
        Arc::new(Self { otherwise, bounds, ..Self::default() })
    }

    /// Opens a door for one call.
    pub fn open(self: &Arc<Self>, door: Door) -> Result<Pass, NoPass> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(NoPass)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let door = Arc::new(door);
        locked(&self.by_pass).insert(text.clone(), Arc::clone(&door));
        Ok(Pass { text, door, doors: Arc::clone(self) })
    }

    /// The door of whoever shows no pass.
    pub(crate) fn otherwise(&self) -> Option<Arc<Door>> {
        self.otherwise.clone()
    }

    /// The door of whoever shows this pass. A wrong one is not none.
    pub(crate) fn shown(&self, pass: Option<&[u8]>) -> Option<Arc<Door>> {
        match pass.map(str::from_utf8) {
            None => self.otherwise(),
            Some(Ok(pass)) => locked(&self.by_pass).get(pass).cloned(),
            Some(Err(_)) => None,
        }
    }

    /// What holds before a door is known.
    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }
}

impl Pass {
    /// What the proxy variables of the call say, for a proxy at this address.
    pub fn proxy_url(&self, at: SocketAddr) -> String {
        format!("http://{USER}:{}@{at}", self.text)
    }

    /// What was wanted so far, and what was given.
    pub fn decisions(&self) -> Vec<Decision> {
        self.door.decisions()
    }

    /// Ends the call's connections, and says what was wanted and what was given.
    pub fn close(self) -> Vec<Decision> {
        self.shut();
        self.door.decisions()
    }

    fn shut(&self) {
        locked(&self.doors.by_pass).remove(&self.text);
        self.door.shut();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.shut();
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass(…)")
    }
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

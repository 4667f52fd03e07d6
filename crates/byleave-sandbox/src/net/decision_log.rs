//! The network log of one call: every requested host, whether it was allowed, and the traffic.
//!
//! It is bounded: a command that requests a million hosts fills a list of fixed length and a counter. It holds names and numbers,
//! never content or credentials.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The way a host was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostAccessMethod {
    /// A tunnel through the proxy.
    Connect,
    /// A plain HTTP request through the proxy.
    Http,
    /// A tunnel through the proxy, by SOCKS.
    Socks,
    /// A lookup of its name.
    Lookup,
    /// A connection to the address that its lookup gave.
    Transparent,
    /// A connection of one of our tools, which runs outside.
    Tool,
}

impl fmt::Display for HostAccessMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Http => "http",
            Self::Socks => "socks",
            Self::Lookup => "lookup",
            Self::Transparent => "transparent",
            Self::Tool => "tool",
        })
    }
}

/// One requested host and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAccessRecord {
    /// The host as requested, normalized.
    pub host: String,
    /// The port; 0 for a lookup, which has none.
    pub port: u16,
    /// The way it was requested.
    pub method: HostAccessMethod,
    /// Whether it was allowed.
    pub is_allowed: bool,
    /// The reason for a refusal, for people and models. For an allowed host, a remark.
    pub reason: Option<String>,
    /// Bytes from the command to the host.
    pub sent: u64,
    /// Bytes from the host to the command.
    pub received: u64,
    /// Whether a credential was added.
    pub credential: bool,
    /// How often the same request was refused; 1 for an allowed request.
    pub times: u64,
    /// Whether the host may be read, and sending to it was refused.
    pub is_send_refused: bool,
}

/// The network log of one call.
#[derive(Debug)]
pub(crate) struct NetworkLog {
    kept_max: usize,
    inner: Mutex<NetworkLogInner>,
}

#[derive(Debug, Default)]
struct NetworkLogInner {
    entries: Vec<Arc<NetworkLogEntry>>,
    left_out: u64,
}

/// One entry of the log, while its connection lives.
#[derive(Debug)]
pub(crate) struct NetworkLogEntry {
    host: String,
    port: u16,
    way: HostAccessMethod,
    ruled: Mutex<HostAccessResult>,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

#[derive(Debug)]
struct HostAccessResult {
    given: bool,
    why: Option<String>,
    credential: bool,
    times: u64,
    is_send_refused: bool,
}

impl NetworkLog {
    pub(crate) fn new(kept_max: usize) -> Self {
        Self { kept_max, inner: Mutex::default() }
    }

    /// Logs that a host was allowed.
    pub(crate) fn record_allowed(
        &self,
        host: &str,
        port: u16,
        way: HostAccessMethod,
    ) -> Arc<NetworkLogEntry> {
        let ruled =
            HostAccessResult { given: true, why: None, credential: false, times: 1, is_send_refused: false };
        self.push(NetworkLogEntry::new(host, port, way, ruled))
    }

    /// Logs that a host was refused. A repeated refusal is only counted.
    pub(crate) fn record_refused(&self, host: &str, port: u16, way: HostAccessMethod, why: &str) {
        {
            let inner = self.inner.lock();
            let same = inner.entries.iter().rev().take(64).find(|entry| entry.is(host, port, way, why));
            if let Some(same) = same {
                let mut ruled = same.ruled.lock();
                ruled.times = ruled.times.saturating_add(1);
                return;
            }
        }
        let ruled = HostAccessResult {
            given: false,
            why: Some(why.to_owned()),
            credential: false,
            times: 1,
            is_send_refused: false,
        };
        self.push(NetworkLogEntry::new(host, port, way, ruled));
    }

    fn push(&self, entry: NetworkLogEntry) -> Arc<NetworkLogEntry> {
        let entry = Arc::new(entry);
        let mut inner = self.inner.lock();
        if inner.entries.len() < self.kept_max {
            inner.entries.push(Arc::clone(&entry));
        } else {
            inner.left_out = inner.left_out.saturating_add(1);
        }
        entry
    }

    /// Returns the entries so far.
    pub(crate) fn decisions(&self) -> Vec<HostAccessRecord> {
        self.inner.lock().entries.iter().map(|entry| entry.decision()).collect()
    }

    /// Returns how many entries did not fit.
    pub(crate) fn left_out(&self) -> u64 {
        self.inner.lock().left_out
    }
}

impl NetworkLogEntry {
    fn new(host: &str, port: u16, way: HostAccessMethod, ruled: HostAccessResult) -> Self {
        Self {
            host: host.to_owned(),
            port,
            way,
            ruled: Mutex::new(ruled),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }

    fn is(&self, host: &str, port: u16, way: HostAccessMethod, why: &str) -> bool {
        let ruled = self.ruled.lock();
        !ruled.given
            && self.host == host
            && self.port == port
            && self.way == way
            && ruled.why.as_deref() == Some(why)
    }

    /// Revokes an allowed entry, because the traffic did not match the request.
    pub(crate) fn revoke(&self, why: &str) {
        let mut ruled = self.ruled.lock();
        ruled.given = false;
        ruled.why = Some(why.to_owned());
    }

    /// Revokes an allowed entry, because the command tried to send something to a host that may only be read.
    pub(crate) fn revoke_send(&self, why: &str) {
        self.revoke(why);
        self.ruled.lock().is_send_refused = true;
    }

    /// Notes why an allowed connection failed or ended.
    pub(crate) fn add_reason(&self, why: &str) {
        self.ruled.lock().why = Some(why.to_owned());
    }

    pub(crate) fn set_credential_added(&self) {
        self.ruled.lock().credential = true;
    }

    pub(crate) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the traffic in both directions.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).wrapping_add(self.received.load(Ordering::Relaxed))
    }

    fn decision(&self) -> HostAccessRecord {
        let ruled = self.ruled.lock();
        HostAccessRecord {
            host: self.host.clone(),
            port: self.port,
            method: self.way,
            is_allowed: ruled.given,
            reason: ruled.why.clone(),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            credential: ruled.credential,
            times: ruled.times,
            is_send_refused: ruled.is_send_refused,
        }
    }
}

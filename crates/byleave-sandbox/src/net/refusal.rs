//! Why a connection was refused, in words that a model can read and act on.

use std::net::IpAddr;

/// Why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefusedError {
    /// The rules, or a person, say no.
    #[error("`{host}:{port}` is not granted: {why}")]
    NotGranted {
        /// The host that was wanted.
        host: String,
        /// The port that was wanted.
        port: u16,
        /// The keeper's reason.
        why: String,
    },
    /// More different hosts were wanted than one call may want.
    #[error("this call wanted more than {0} different hosts")]
    TooManyHosts(usize),
    /// More questions would be asked than one call may ask.
    #[error("`{host}:{port}` is not granted, and this call has asked about {max} hosts already")]
    TooManyQuestions {
        /// The host that was wanted.
        host: String,
        /// The port that was wanted.
        port: u16,
        /// How many questions one call may ask.
        max: usize,
    },
    /// It is neither a name nor an address in its usual spelling.
    #[error("`{0}` is neither a host name nor an address in its usual spelling")]
    NoHost(String),
    /// The name leads only to addresses that are not reachable.
    #[error("`{host}` leads to {address}, which is not an address of the public internet")]
    NotGlobal {
        /// The host that was wanted.
        host: String,
        /// The first address that it leads to.
        address: IpAddr,
    },
    /// The name leads to this very machine.
    #[error("`{host}` leads to {address}, which is this machine")]
    ThisMachine {
        /// The host that was wanted.
        host: String,
        /// The address that it leads to.
        address: IpAddr,
    },
    /// TLS was begun with another name than the one that was granted.
    #[error("the connection was granted for `{granted}`, and the TLS inside it asks for `{said}`")]
    OtherServerName {
        /// The name that was granted.
        granted: String,
        /// The name in the ClientHello.
        said: String,
    },
    /// TLS was begun without a name.
    #[error(
        "the connection was granted for `{0}`, and the TLS inside it names no server: use a client that sends SNI"
    )]
    NoServerName(String),
    /// TLS was begun with an encrypted ClientHello, which could name anybody.
    #[error(
        "the connection was granted for `{0}`, and the TLS inside it hides a second name (encrypted ClientHello): turn ECH off"
    )]
    HiddenServerName(String),
    /// What should be TLS cannot be read.
    #[error("the connection was granted for `{host}`, and the TLS inside it cannot be read: {flaw}")]
    UnreadHello {
        /// The name that was granted.
        host: String,
        /// What is wrong with it.
        flaw: &'static str,
    },
    /// The request is for another host than the one that was granted.
    #[error("the connection was granted for `{granted}`, and the request inside it is for `{said}`")]
    OtherHost {
        /// The name that was granted.
        granted: String,
        /// The host of the request.
        said: String,
    },
    /// On a port of the web, neither HTTP nor TLS was spoken.
    #[error(
        "the connection to `{host}:{port}` speaks neither HTTP/1 nor TLS, and on that port nothing else is let through"
    )]
    OtherProtocol {
        /// The name that was granted.
        host: String,
        /// The port that was granted.
        port: u16,
    },
    /// The method would send a credential back into the sandbox.
    #[error("`TRACE` is refused where a credential is added, since the answer would show it")]
    Trace,
    /// The address was not given out by our responder.
    #[error("{0} belongs to no name: connect by name")]
    NoName(IpAddr),
    /// Several calls run in the session, and nothing says which of them wants it.
    #[error(
        "several commands of this session run at once, and nothing says which of them wants `{0}`: connect through the proxy of the `http_proxy` variable, or when no other runs"
    )]
    WhoseCall(String),
}

impl ConnectionRefusedError {
    /// Its stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotGranted { .. } => "host-not-granted",
            Self::TooManyHosts(_) => "too-many-hosts",
            Self::TooManyQuestions { .. } => "too-many-questions",
            Self::NoHost(_) => "no-host",
            Self::NotGlobal { .. } => "address-not-public",
            Self::ThisMachine { .. } => "address-of-this-machine",
            Self::OtherServerName { .. } => "other-server-name",
            Self::NoServerName(_) => "no-server-name",
            Self::HiddenServerName(_) => "hidden-server-name",
            Self::UnreadHello { .. } => "tls-unread",
            Self::OtherHost { .. } => "other-host",
            Self::OtherProtocol { .. } => "other-protocol",
            Self::Trace => "trace-refused",
            Self::NoName(_) => "address-without-name",
            Self::WhoseCall(_) => "whose-call",
        }
    }
}

/// Why there is no connection: it was refused, or it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// We said no.
    #[error("blocked by policy: {0}")]
    Refused(#[from] ConnectionRefusedError),
    /// It was granted, and the host did not answer.
    #[error("cannot connect to `{host}:{port}`: {why}")]
    Failed {
        /// The host that was wanted.
        host: String,
        /// The port that was wanted.
        port: u16,
        /// What the network said.
        why: String,
    },
}

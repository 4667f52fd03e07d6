//! The reasons why a connection is refused, in words that a model can read and act on.

use std::net::IpAddr;

/// The reason why a connection was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionRefusedError {
    /// The rules or a person refuse it.
    #[error("`{host}:{port}` is not allowed: {reason}")]
    NotGranted {
        /// The requested host.
        host: String,
        /// The requested port.
        port: u16,
        /// The reason of the policy.
        reason: String,
    },
    /// The call requested more different hosts than the limit.
    #[error("this call tried to reach more than {0} different hosts")]
    TooManyHosts(usize),
    /// The call needs more questions than the limit.
    #[error("`{host}:{port}` is not allowed, and this call has already asked about {max} hosts")]
    TooManyQuestions {
        /// The requested host.
        host: String,
        /// The requested port.
        port: u16,
        /// The limit on questions per call.
        max: usize,
    },
    /// It is neither a name nor an address in normalized form.
    #[error("`{0}` is neither a host name nor an IP address in its standard form")]
    InvalidHost(String),
    /// The name resolves only to addresses that are not reachable.
    #[error("`{host}` resolves to {address}, which is not an address of the public internet")]
    NotGlobal {
        /// The requested host.
        host: String,
        /// The first address that it resolves to.
        address: IpAddr,
    },
    /// The name resolves only to private addresses, which no rule opens for it.
    #[error(
        "`{host}` leads to the private address {address}; if you trust it, add `private = true` to a rule of yours with `verdict = \"allow\"` and \
         `reach = \"{host}:{port}\"`"
    )]
    Private {
        /// The requested host.
        host: String,
        /// The requested port.
        port: u16,
        /// The first address that it resolves to.
        address: IpAddr,
    },
    /// The name resolves to this machine.
    #[error(
        "`{host}` resolves to {address}, which is this machine; a rule opens a port of this machine as `localhost:PORT`, and by no other name"
    )]
    ThisMachine {
        /// The requested host.
        host: String,
        /// The address that it resolves to.
        address: IpAddr,
    },
    /// The ClientHello has another name than the granted one.
    #[error("the connection was allowed for `{granted}`, but the TLS inside it asks for `{received}`")]
    ServerNameMismatch {
        /// The granted name.
        granted: String,
        /// The name in the ClientHello.
        received: String,
    },
    /// The ClientHello has no name.
    #[error(
        "the connection was allowed for `{0}`, but the TLS inside it names no server: use a client that sends SNI"
    )]
    NoServerName(String),
    /// The ClientHello is encrypted, and could name any server.
    #[error(
        "the connection was allowed for `{0}`, but the TLS inside it hides a second name (encrypted ClientHello): turn ECH off"
    )]
    HiddenServerName(String),
    /// The ClientHello cannot be parsed.
    #[error("the connection was allowed for `{host}`, but the TLS inside it cannot be read: {problem}")]
    InvalidClientHello {
        /// The granted name.
        host: String,
        /// The problem.
        problem: &'static str,
    },
    /// The request is for another host than the granted one.
    #[error("the connection was allowed for `{granted}`, but the request inside it is for `{received}`")]
    HostMismatch {
        /// The granted name.
        granted: String,
        /// The host of the request.
        received: String,
    },
    /// A connection to a web port uses neither HTTP nor TLS.
    #[error(
        "the connection to `{host}:{port}` uses neither HTTP/1 nor TLS, and no other protocol is allowed on that port"
    )]
    UnsupportedProtocol {
        /// The granted name.
        host: String,
        /// The granted port.
        port: u16,
    },
    /// The method would send a credential back into the sandbox.
    #[error("`TRACE` is refused if a credential is added, because the answer would show the credential")]
    TraceMethod,
    /// The host may be read, and nothing may be sent to it.
    #[error(
        "`{host}:{port}` may only be read, and {what} would send something there: {reason}; a rule with `send = [\"{host}\"]` allows sending"
    )]
    OnlyReading {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The attempt.
        what: &'static str,
        /// The reason of the policy.
        reason: String,
    },
    /// Our resolver did not give out this address.
    #[error("{0} is not the address of a resolved host name; connect by host name")]
    UnknownAddress(IpAddr),
    /// Several calls run in the session, and the connection cannot be attributed to one of them.
    #[error(
        "several commands of this session are running, and it is unknown which of them connects to `{0}`: connect through the proxy in the \
         `http_proxy` variable, or while no other command runs"
    )]
    AmbiguousCall(String),
}

impl ConnectionRefusedError {
    /// Returns the stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotGranted { .. } => "host-not-granted",
            Self::TooManyHosts(_) => "too-many-hosts",
            Self::TooManyQuestions { .. } => "too-many-questions",
            Self::InvalidHost(_) => "no-host",
            Self::NotGlobal { .. } | Self::Private { .. } => "address-not-public",
            Self::ThisMachine { .. } => "address-of-this-machine",
            Self::ServerNameMismatch { .. } => "other-server-name",
            Self::NoServerName(_) => "no-server-name",
            Self::HiddenServerName(_) => "hidden-server-name",
            Self::InvalidClientHello { .. } => "tls-unread",
            Self::HostMismatch { .. } => "other-host",
            Self::UnsupportedProtocol { .. } => "other-protocol",
            Self::TraceMethod => "trace-refused",
            Self::OnlyReading { .. } => "only-reading",
            Self::UnknownAddress(_) => "address-without-name",
            Self::AmbiguousCall(_) => "whose-call",
        }
    }
}

/// The reason why there is no connection: it was refused, or it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// It was refused.
    #[error("blocked by policy: {0}")]
    Refused(#[from] ConnectionRefusedError),
    /// It was granted, but the host did not answer.
    #[error("cannot connect to `{host}:{port}`: {reason}")]
    Failed {
        /// The requested host.
        host: String,
        /// The requested port.
        port: u16,
        /// The error of the network.
        reason: String,
    },
}

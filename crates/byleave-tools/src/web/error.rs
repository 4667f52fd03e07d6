//! Why a fetch failed, in words that say what the model can do next.

use std::time::Duration;

use byleave_sandbox::net::refusal::{ConnectionError, ConnectionRefusedError};

use super::limits::{MAX_HEAD_BYTES, MAX_REDIRECTS, MAX_REQUESTS_PER_MINUTE, shorten_url};

/// The reason why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("nobody said which rules are in force, so nothing is fetched; tell the person who runs this")]
    NoRules,
    #[error(
        "this machine cannot check certificates, so nothing is fetched: {0}; tell the person who runs this"
    )]
    NoTls(String),
    #[error("{0}; give an address of the public web that begins with https:// or http://")]
    InvalidUrl(String),
    #[error("`{0}` is not what was permitted; call web_fetch again, and it is judged anew")]
    NotPermitted(String),
    #[error("{0}; {todo}", todo = todo(.0))]
    Connection(#[from] ConnectionError),
    #[error(
        "cannot speak TLS with `{host}`: {reason}; check the name in the address, and do not try http instead"
    )]
    Tls { host: String, reason: String },
    #[error(
        "the head of the answer of `{host}` is larger than {MAX_HEAD_BYTES} bytes, so it was not read; fetch another address"
    )]
    HeadTooLarge { host: String },
    #[error("`{host}` did not answer as a web server does: {reason}; check the port, or try again later")]
    Http { host: String, reason: String },
    #[error("`{host}` did not answer within {} seconds; try again later, or fetch another address", .limit.as_secs_f32())]
    Timeout { host: String, limit: Duration },
    #[error(
        "`{host}` was asked {MAX_REQUESTS_PER_MINUTE} times within a minute; wait {} seconds, or work with what was fetched",
        .wait.as_secs().max(1)
    )]
    RateLimited { host: String, wait: Duration },
    #[error("it was stopped before the answer was there; call web_fetch again if it is still wanted")]
    Cancelled,
    #[error("`{from}` redirects to `{to}`, which was not asked about; call web_fetch with that address", from = shorten_url(.from), to = shorten_url(.to))]
    RedirectNeedsApproval { from: String, to: String },
    #[error("`{from}` redirects to `{to}`, which is not allowed: {reason}; fetch another address", from = shorten_url(.from), to = shorten_url(.to))]
    RedirectDenied { from: String, to: String, reason: String },
    #[error(
        "`{from}` redirects from https to `{to}`, which anybody on the way could read and change; call web_fetch with that address if it is meant",
        from = shorten_url(.from), to = shorten_url(.to)
    )]
    Downgrade { from: String, to: String },
    #[error("`{from}` redirects to what is not a web address: {reason}; fetch another address", from = shorten_url(.from))]
    BadRedirect { from: String, reason: String },
    #[error("it redirects more than {MAX_REDIRECTS} times, at last to `{to}`; fetch another address", to = shorten_url(.to))]
    TooManyRedirects { to: String },
    #[error(
        "the answer is packed as `{0}`, which was not asked for and is not unpacked; fetch another address"
    )]
    UnsupportedEncoding(String),
}

impl FetchError {
    /// Returns the target of a redirect, if another call could fetch it.
    pub(super) fn redirect_target(&self) -> Option<&str> {
        match self {
            Self::RedirectNeedsApproval { to, .. } | Self::Downgrade { to, .. } => Some(to),
            _ => None,
        }
    }
}

fn todo(unconnected: &ConnectionError) -> &'static str {
    match unconnected {
        ConnectionError::Refused(
            ConnectionRefusedError::NotGlobal { .. } | ConnectionRefusedError::ThisMachine { .. },
        ) => "web_fetch reaches public hosts alone; fetch another address",
        ConnectionError::Refused(_) => "fetch another address",
        ConnectionError::Failed { .. } => "check the address, or try again later",
    }
}

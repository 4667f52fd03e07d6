//! Why a fetch failed, in words that say what the model can do next.

use std::time::Duration;

use byleave_sandbox::net::refusal::{ConnectionError, ConnectionRefusedError};

use super::limits::{MAX_HEAD_BYTES, MAX_REDIRECTS, MAX_REQUESTS_PER_MINUTE, shorten_url};

/// The reason why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("no policy is configured, so nothing is fetched; inform the person who runs this")]
    NoRules,
    #[error(
        "this machine cannot check certificates, so nothing is fetched: {0}; inform the person who runs this"
    )]
    NoTls(String),
    #[error("{0}; give an address of the public web that begins with https:// or http://")]
    InvalidUrl(String),
    #[error("`{0}` is not the permitted address; call web_fetch again to have this address evaluated")]
    NotPermitted(String),
    #[error("{0}; {todo}", todo = todo(.0))]
    Connection(#[from] ConnectionError),
    #[error(
        "TLS connection to `{host}` failed: {reason}; check the name in the address, and do not use http instead"
    )]
    Tls { host: String, reason: String },
    #[error(
        "the response headers of `{host}` are larger than {MAX_HEAD_BYTES} bytes, so the response was not read; fetch another address"
    )]
    HeadTooLarge { host: String },
    #[error("`{host}` sent an invalid HTTP response: {reason}; check the port, or try again later")]
    Http { host: String, reason: String },
    #[error("`{host}` did not answer within {} seconds; try again later, or fetch another address", .limit.as_secs_f32())]
    Timeout { host: String, limit: Duration },
    #[error(
        "`{host}` had {MAX_REQUESTS_PER_MINUTE} requests within a minute; wait {} seconds, or use the pages that were fetched",
        .wait.as_secs().max(1)
    )]
    RateLimited { host: String, wait: Duration },
    #[error("the fetch was stopped before the response arrived; call web_fetch again if you still need it")]
    Cancelled,
    #[error("`{from}` redirects to `{to}`, which needs its own approval; call web_fetch with that address", from = shorten_url(.from), to = shorten_url(.to))]
    RedirectNeedsApproval { from: String, to: String },
    #[error("`{from}` redirects to `{to}`, which is not allowed: {reason}; fetch another address", from = shorten_url(.from), to = shorten_url(.to))]
    RedirectDenied { from: String, to: String, reason: String },
    #[error(
        "`{from}` redirects from https to `{to}`, which others on the network could read and change; call web_fetch with that address if you want it",
        from = shorten_url(.from), to = shorten_url(.to)
    )]
    Downgrade { from: String, to: String },
    #[error("`{from}` redirects to an invalid web address: {reason}; fetch another address", from = shorten_url(.from))]
    BadRedirect { from: String, reason: String },
    #[error("there were more than {MAX_REDIRECTS} redirects, the last to `{to}`; fetch another address", to = shorten_url(.to))]
    TooManyRedirects { to: String },
    #[error(
        "the response is compressed with `{0}`, which was not requested and is not supported; fetch another address"
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
        ) => "web_fetch reaches only public hosts; fetch another address",
        ConnectionError::Refused(_) => "fetch another address",
        ConnectionError::Failed { .. } => "check the address, or try again later",
    }
}

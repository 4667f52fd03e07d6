//! The state behind the routes: the parts of a server, and its listener.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use byleave_gate::core::id::TenantId;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::browser_sessions::BrowserSessions;
use crate::limits::ServerLimits;
use crate::metrics::MetricsRenderer;
use crate::oidc::OidcProvider;
use crate::otlp_export::OtlpExporter;
use crate::principal::Slug;
use crate::public_url::PublicUrl;
use crate::rate_limit::RateLimiter;
use crate::tenant::Tenant;
use crate::tokens::TokenStore;
use crate::webhooks::WebhookStore;

/// The names of this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The parts of a server.
pub(crate) struct ServerInner {
    pub(crate) tenants: HashMap<TenantId, Arc<Tenant>>,
    pub(crate) operator: TenantId,
    pub(crate) tokens: TokenStore,
    pub(crate) limits: ServerLimits,
    pub(crate) hosts: Vec<String>,
    pub(crate) public: Option<PublicUrl>,
    /// The host for signed-in people without TLS.
    pub(crate) pages_host: Option<String>,
    /// The lock file of the running server, and the webhooks for questions.
    pub(crate) webhooks: Option<(PathBuf, WebhookStore)>,
    pub(crate) metrics: Option<MetricsRenderer>,
    pub(crate) collector: Option<Arc<OtlpExporter>>,
    pub(crate) rate_limiter: RateLimiter<(TenantId, Slug)>,
    pub(crate) unauthenticated_limiter: RateLimiter<Option<IpAddr>>,
    pub(crate) browser_sessions: BrowserSessions,
    pub(crate) oidc: Option<OidcProvider>,
}

/// The state behind the routes: the server, and its listener.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) inner: Arc<ServerInner>,
    /// The OpenAPI document.
    pub(crate) document: Arc<OpenApi>,
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
    pub(crate) shutdown: CancellationToken,
}

impl App {
    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.inner.limits
    }

    pub(crate) fn tokens(&self) -> &TokenStore {
        &self.inner.tokens
    }

    pub(crate) fn tenant(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        self.inner.tenants.get(id).cloned()
    }

    pub(crate) fn rate_limiter(&self) -> &RateLimiter<(TenantId, Slug)> {
        &self.inner.rate_limiter
    }

    pub(crate) fn unauthenticated_limiter(&self) -> &RateLimiter<Option<IpAddr>> {
        &self.inner.unauthenticated_limiter
    }

    pub(crate) fn oidc(&self) -> Option<&OidcProvider> {
        self.inner.oidc.as_ref()
    }

    pub(crate) fn browser_sessions(&self) -> &BrowserSessions {
        &self.inner.browser_sessions
    }

    /// Checks whether people reach the server over TLS, either its own or that of a proxy in front of it.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.scheme == "https" || self.inner.public.as_ref().is_some_and(PublicUrl::is_encrypted)
    }

    /// Returns the separate host for signed-in people, if there is one. Browsers send a cookie to every port of a host. A
    /// cookie under `127.0.0.1` would thus reach every other server on this machine that the person visits.
    pub(crate) fn pages_host(&self) -> Option<&str> {
        self.inner.pages_host.as_deref().filter(|_| !self.is_encrypted())
    }

    /// Returns the beginning of page addresses, for a client that used this host name.
    pub(crate) fn origin(&self, host: &str) -> String {
        match &self.inner.public {
            Some(public) if public.is_encrypted() => public.to_string(),
            _ => format!("{}://{host}", self.scheme),
        }
    }

    /// Returns the metrics of this process, for administrators of the operator's tenant.
    pub(crate) fn metrics(&self, tenant: &TenantId) -> Option<String> {
        let parts = &self.inner;
        parts.metrics.as_ref().filter(|_| *tenant == parts.operator).map(|render| render())
    }

    /// Checks whether this is a host name of the server.
    pub(crate) fn is_own_host(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        LOOPBACK.contains(&name.as_str())
            || self.inner.hosts.contains(&name)
            || self.pages_host() == Some(name.as_str())
    }

    /// Checks whether this is an origin of the server.
    pub(crate) fn is_own_origin(&self, origin: &str) -> bool {
        if self.inner.public.as_ref().is_some_and(|public| public.is_origin(origin)) {
            return true;
        }
        let Some(rest) = origin.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://")) else {
            return false;
        };
        let usual = if self.scheme == "https" { 443 } else { 80 };
        let (name, port) = match rest.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (rest, Some(usual)),
        };
        self.is_own_host(name) && port == Some(self.port)
    }
}

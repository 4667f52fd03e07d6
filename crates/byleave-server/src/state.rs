//! What the routes stand on: the parts of a server, and where it listens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use byleave::core::id::TenantId;
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

/// Names by which this machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What one server is made of.
pub(crate) struct ServerInner {
    pub(crate) tenancies: HashMap<TenantId, Arc<Tenant>>,
    pub(crate) operator: TenantId,
    pub(crate) tokens: TokenStore,
    pub(crate) limits: ServerLimits,
    pub(crate) hosts: Vec<String>,
    pub(crate) public: Option<PublicUrl>,
    /// The host under which people are signed in without TLS.
    pub(crate) pages_host: Option<String>,
    /// Where it is said that this server runs, and who it tells of questions.
    pub(crate) notices: Option<(PathBuf, WebhookStore)>,
    pub(crate) metrics: Option<MetricsRenderer>,
    pub(crate) collector: Option<Arc<OtlpExporter>>,
    pub(crate) pace: RateLimiter<(TenantId, Slug)>,
    pub(crate) strangers: RateLimiter<Option<IpAddr>>,
    pub(crate) visits: BrowserSessions,
    pub(crate) oidc: Option<OidcProvider>,
}

/// What the routes stand on: the server, and where it listens.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) parts: Arc<ServerInner>,
    /// What is served, described.
    pub(crate) document: Arc<OpenApi>,
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
    pub(crate) end: CancellationToken,
}

impl App {
    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.parts.limits
    }

    pub(crate) fn tokens(&self) -> &TokenStore {
        &self.parts.tokens
    }

    pub(crate) fn tenancy(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        self.parts.tenancies.get(id).cloned()
    }

    pub(crate) fn pace(&self) -> &RateLimiter<(TenantId, Slug)> {
        &self.parts.pace
    }

    pub(crate) fn strangers(&self) -> &RateLimiter<Option<IpAddr>> {
        &self.parts.strangers
    }

    pub(crate) fn oidc(&self) -> Option<&OidcProvider> {
        self.parts.oidc.as_ref()
    }

    pub(crate) fn visits(&self) -> &BrowserSessions {
        &self.parts.visits
    }

    /// Whether people reach us over connections that others cannot hear: ours, or those of who stands in front of us.
    pub(crate) fn is_protected(&self) -> bool {
        self.scheme == "https" || self.parts.public.as_ref().is_some_and(PublicUrl::is_protected)
    }

    /// The host under which people are signed in, where that is one of its own. Browsers send a cookie to every port of a host, so one
    /// that is set under `127.0.0.1` reaches every other server of this machine that the person looks at.
    pub(crate) fn pages_host(&self) -> Option<&str> {
        self.parts.pages_host.as_deref().filter(|_| !self.is_protected())
    }

    /// What the addresses of pages begin with, for who has reached us by this name.
    pub(crate) fn origin(&self, host: &str) -> String {
        match &self.parts.public {
            Some(public) if public.is_protected() => public.to_string(),
            _ => format!("{}://{host}", self.scheme),
        }
    }

    /// The metrics of this process, for administrators of the operator's.
    pub(crate) fn metrics(&self, tenant: &TenantId) -> Option<String> {
        let parts = &self.parts;
        parts.metrics.as_ref().filter(|_| *tenant == parts.operator).map(|render| render())
    }

    /// Whether this is one of our names.
    pub(crate) fn is_host(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        LOOPBACK.contains(&name.as_str())
            || self.parts.hosts.contains(&name)
            || self.pages_host() == Some(name.as_str())
    }

    /// Whether this is a page of ours.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        if self.parts.public.as_ref().is_some_and(|public| public.is_origin(origin)) {
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
        self.is_host(name) && port == Some(self.port)
    }
}

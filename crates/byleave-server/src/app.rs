//! What the routes stand on: the parts of a server, and where it listens.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use byleave::core::id::TenantId;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::limits::Limits;
use crate::pace::Pace;
use crate::principal::Name;
use crate::telemetry::Render;
use crate::tenancy::Tenancy;
use crate::tokens::Tokens;

/// Names by which this machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// What one server is made of.
pub(crate) struct Parts {
    pub(crate) tenancies: HashMap<TenantId, Arc<Tenancy>>,
    pub(crate) operator: TenantId,
    pub(crate) tokens: Tokens,
    pub(crate) limits: Limits,
    pub(crate) hosts: Vec<String>,
    pub(crate) metrics: Option<Render>,
    pub(crate) pace: Pace<(TenantId, Name)>,
    pub(crate) strangers: Pace<Option<IpAddr>>,
}

/// What the routes stand on: the server, and where it listens.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) parts: Arc<Parts>,
    /// What is served, described.
    pub(crate) document: Arc<OpenApi>,
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
    pub(crate) end: CancellationToken,
}

impl App {
    pub(crate) fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.parts.tokens
    }

    pub(crate) fn tenancy(&self, id: &TenantId) -> Option<Arc<Tenancy>> {
        self.parts.tenancies.get(id).cloned()
    }

    pub(crate) fn pace(&self) -> &Pace<(TenantId, Name)> {
        &self.parts.pace
    }

    pub(crate) fn strangers(&self) -> &Pace<Option<IpAddr>> {
        &self.parts.strangers
    }

    /// The metrics of this process, for administrators of the operator's.
    pub(crate) fn metrics(&self, tenant: &TenantId) -> Option<String> {
        let parts = &self.parts;
        parts.metrics.as_ref().filter(|_| *tenant == parts.operator).map(|render| render())
    }

    /// Whether this is one of our names.
    pub(crate) fn is_host(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        LOOPBACK.contains(&name.as_str()) || self.parts.hosts.contains(&name)
    }

    /// Whether this is a page of ours.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
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

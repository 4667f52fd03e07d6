//! The server: tenancies by name, tokens, limits, and the routes that lead to them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use byleave::core::id::TenantId;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::door::door;
use crate::limits::Limits;
use crate::pace::Pace;
use crate::principal::Name;
use crate::problem::{Problem, Trouble};
use crate::routes;
use crate::telemetry::Render;
use crate::tenancy::Tenancy;
use crate::tokens::Tokens;

/// Names by which this machine calls itself.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Gates, reached over HTTP. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct Server(Arc<Parts>);

struct Parts {
    tenancies: HashMap<TenantId, Arc<Tenancy>>,
    operator: TenantId,
    tokens: Tokens,
    limits: Limits,
    hosts: Vec<String>,
    metrics: Option<Render>,
    pace: Pace<(TenantId, Name)>,
    strangers: Pace<Option<IpAddr>>,
}

/// Builds a [`Server`].
pub struct ServerBuilder {
    tenancies: HashMap<TenantId, Tenancy>,
    operator: TenantId,
    tokens: Tokens,
    limits: Limits,
    hosts: Vec<String>,
    metrics: Option<Render>,
}

impl ServerBuilder {
    /// A tenant that is served; the last of one name counts.
    #[must_use]
    pub fn tenancy(mut self, tenancy: Tenancy) -> Self {
        self.tenancies.insert(tenancy.id().clone(), tenancy);
        self
    }

    /// Other bounds than the usual ones.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A name by which clients reach the server, beside those of this machine itself.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.hosts.push(name.to_ascii_lowercase());
        self
    }

    /// What is told to whoever scrapes. It is about all tenants, so only administrators of the operator's see it.
    #[must_use]
    pub fn metrics(mut self, render: Render) -> Self {
        self.metrics = Some(render);
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        let limits = self.limits;
        let opened = |(id, tenancy): (TenantId, Tenancy)| (id, Arc::new(tenancy.within(&limits)));
        Server(Arc::new(Parts {
            tenancies: self.tenancies.into_iter().map(opened).collect(),
            operator: self.operator,
            tokens: self.tokens,
            pace: Pace::new(limits.requests_per_second, limits.burst),
            strangers: Pace::new(limits.strangers_per_second, limits.strangers_per_second.saturating_mul(10)),
            limits,
            hosts: self.hosts,
            metrics: self.metrics,
        }))
    }
}

impl Server {
    /// Begins to build a server. The operator is the tenant whose administrators look after the whole.
    pub fn builder(operator: TenantId, tokens: Tokens) -> ServerBuilder {
        ServerBuilder {
            tenancies: HashMap::new(),
            operator,
            tokens,
            limits: Limits::default(),
            hosts: Vec::new(),
            metrics: None,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Everything that is served, for a listener at this port.
    pub(crate) fn router(self, scheme: &'static str, port: u16, end: &CancellationToken) -> Router {
        let app = App { server: self, scheme, port, end: end.clone() };
        let (router, _) = routes::all().split_for_parts();
        router
            .fallback(|| async { Problem::not_found("path") })
            .method_not_allowed_fallback(|| async {
                Problem::new(Trouble::MethodNotAllowed, "that cannot be done to this")
            })
            .layer(middleware::from_fn_with_state(app.clone(), door))
            .with_state(app)
    }

    /// Looks after the calls of all tenants until it is told to end.
    pub(crate) fn attend(&self, end: &CancellationToken) -> JoinSet<()> {
        let mut attending = JoinSet::new();
        for tenancy in self.0.tenancies.values() {
            attending.spawn(Arc::clone(tenancy).attend(end.clone()));
        }
        attending
    }

    /// Waits until nothing is driven here any more.
    pub(crate) async fn until_idle(&self) {
        for tenancy in self.0.tenancies.values() {
            tenancy.until_idle().await;
        }
    }
}

/// What the routes stand on: the server, and where it listens.
#[derive(Clone)]
pub(crate) struct App {
    server: Server,
    scheme: &'static str,
    port: u16,
    pub(crate) end: CancellationToken,
}

impl App {
    pub(crate) fn limits(&self) -> &Limits {
        &self.server.0.limits
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.server.0.tokens
    }

    pub(crate) fn tenancy(&self, id: &TenantId) -> Option<Arc<Tenancy>> {
        self.server.0.tenancies.get(id).cloned()
    }

    pub(crate) fn pace(&self) -> &Pace<(TenantId, Name)> {
        &self.server.0.pace
    }

    pub(crate) fn strangers(&self) -> &Pace<Option<IpAddr>> {
        &self.server.0.strangers
    }

    /// The metrics of this process, for administrators of the operator's.
    pub(crate) fn metrics(&self, tenant: &TenantId) -> Option<String> {
        let parts = &self.server.0;
        parts.metrics.as_ref().filter(|_| *tenant == parts.operator).map(|render| render())
    }

    /// Whether this is one of our names.
    pub(crate) fn is_host(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        LOOPBACK.contains(&name.as_str()) || self.server.0.hosts.contains(&name)
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

/// The OpenAPI document: made from the very routes that are served.
pub fn openapi() -> OpenApi {
    routes::all().split_for_parts().1
}

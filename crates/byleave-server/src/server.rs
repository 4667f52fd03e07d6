//! The server: its tenants, tokens, limits and routes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use byleave_gate::core::id::TenantId;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::auth::authenticate;
use crate::browser_sessions::BrowserSessions;
use crate::limits::ServerLimits;
use crate::metrics::MetricsRenderer;
use crate::oidc::OidcProvider;
use crate::otlp_export::OtlpExporter;
use crate::pages;
use crate::problem::{Problem, ProblemKind};
use crate::public_url::PublicUrl;
use crate::rate_limit::RateLimiter;
use crate::routes;
use crate::server_lock::ServerLock;
use crate::state::{App, ServerInner};
use crate::tenant::Tenant;
use crate::tokens::TokenStore;
use crate::webhooks::{self, WebhookStore};

/// How long the shutdown waits for the last exports.
const HEARD: Duration = Duration::from_secs(2);

/// Gates that are served over HTTP. Clones are cheap and share their state.
#[derive(Clone)]
pub struct Server(Arc<ServerInner>);

/// Builds a [`Server`].
pub struct ServerBuilder {
    tenancies: HashMap<TenantId, Tenant>,
    operator: TenantId,
    tokens: TokenStore,
    limits: ServerLimits,
    hosts: Vec<String>,
    public: Option<PublicUrl>,
    pages_host: Option<String>,
    notices: Option<(PathBuf, WebhookStore)>,
    metrics: Option<MetricsRenderer>,
    collector: Option<Arc<OtlpExporter>>,
    oidc: Option<OidcProvider>,
}

impl ServerBuilder {
    /// Adds a tenant. The last one with the same name is used.
    #[must_use]
    pub fn tenant(mut self, tenancy: Tenant) -> Self {
        self.tenancies.insert(tenancy.id().clone(), tenancy);
        self
    }

    /// Sets other limits than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a host name of the server, in addition to those of this machine itself.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.hosts.push(name.to_ascii_lowercase());
        self
    }

    /// Sets the OpenID Connect provider for sign-in.
    #[must_use]
    pub fn oidc(mut self, provider: OidcProvider) -> Self {
        self.oidc = Some(provider);
        self
    }

    /// Sets the public address of the pages, which begins the links to them.
    #[must_use]
    pub fn public_url(mut self, url: PublicUrl) -> Self {
        self.hosts.push(url.host().to_ascii_lowercase());
        self.public = Some(url);
        self
    }

    /// Sets the host for signed-in people without TLS. Create one with [`fresh_pages_host`](crate::fresh_pages_host).
    ///
    /// A person who signs in under another host is redirected there. Only a person with a valid token learns this host.
    #[must_use]
    pub fn pages_host(mut self, host: &str) -> Self {
        self.pages_host = Some(host.to_ascii_lowercase());
        self
    }

    /// Sets the webhooks, and the lock file of the running server. It has no effect without [`Self::public_url`].
    ///
    /// If several servers have the same file, only one of them sends notifications.
    #[must_use]
    pub fn notices(mut self, serving: PathBuf, webhooks: WebhookStore) -> Self {
        self.notices = Some((serving, webhooks));
        self
    }

    /// Sets the metrics endpoint. Metrics cover all tenants, so only administrators of the operator's tenant see them.
    #[must_use]
    pub fn metrics(mut self, render: MetricsRenderer) -> Self {
        self.metrics = Some(render);
        self
    }

    /// Sets the collector to which every call is exported.
    #[must_use]
    pub fn collector(mut self, collector: OtlpExporter) -> Self {
        self.collector = Some(Arc::new(collector));
        self
    }

    /// Builds the server.
    pub fn build(self) -> Server {
        let limits = self.limits;
        let opened = |(id, tenancy): (TenantId, Tenant)| (id, Arc::new(tenancy.with_limits(&limits)));
        Server(Arc::new(ServerInner {
            tenants: self.tenancies.into_iter().map(opened).collect(),
            operator: self.operator,
            tokens: self.tokens,
            rate_limiter: RateLimiter::new(limits.requests_per_second, limits.burst),
            unauthenticated_limiter: RateLimiter::new(
                limits.unauthenticated_per_second,
                limits.unauthenticated_per_second.saturating_mul(10),
            ),
            limits,
            hosts: self.hosts,
            public: self.public,
            pages_host: self.pages_host,
            webhooks: self.notices,
            metrics: self.metrics,
            collector: self.collector,
            browser_sessions: BrowserSessions::default(),
            oidc: self.oidc,
        }))
    }
}

impl Server {
    /// Begins to build a server. The operator is the tenant whose administrators manage the whole server.
    pub fn builder(operator: TenantId, tokens: TokenStore) -> ServerBuilder {
        ServerBuilder {
            tenancies: HashMap::new(),
            operator,
            tokens,
            limits: ServerLimits::default(),
            hosts: Vec::new(),
            public: None,
            pages_host: None,
            notices: None,
            metrics: None,
            collector: None,
            oidc: None,
        }
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.0.limits
    }

    /// Returns the router of everything that is served, for a listener at this port.
    pub(crate) fn router(self, scheme: &'static str, port: u16, end: &CancellationToken) -> Router {
        let (router, document) = routes::all().split_for_parts();
        let app = App { inner: self.0, document: Arc::new(document), scheme, port, shutdown: end.clone() };
        router
            // Not an operation of the document, because only workers of the same version use it.
            .route("/v1/workers/connect", get(routes::workers::connect))
            .fallback(|| async { Problem::not_found("path") })
            .method_not_allowed_fallback(|| async {
                Problem::new(ProblemKind::MethodNotAllowed, "the method is not allowed for this path")
            })
            .layer(middleware::from_fn_with_state(app.clone(), authenticate))
            .merge(pages::router(&app))
            .with_state(app)
    }

    /// Maintains the calls of all tenants until `end` is cancelled.
    pub(crate) fn start_tenants(&self, end: &CancellationToken) -> JoinSet<()> {
        let mut attending = JoinSet::new();
        for tenancy in self.0.tenants.values() {
            attending.spawn(Arc::clone(tenancy).run(end.clone()));
        }
        if let (Some(url), Some((file, webhooks))) = (self.0.public.clone(), self.0.webhooks.clone()) {
            let (tenancies, limits) = (self.0.tenants.clone(), self.0.limits.clone());
            let telling = async move {
                // Held until the end: only the server that holds the lock sends notifications.
                let _serving = ServerLock::acquire(&file, &url).await;
                webhooks::run(webhooks, tenancies, url, limits).await;
            };
            let end = end.clone();
            attending.spawn(async move {
                end.run_until_cancelled_owned(telling).await;
            });
        }
        attending
    }

    /// Exports every call that is settled here to the collector, if there is one. Sends the remaining data after the end.
    pub(crate) fn start_export(&self, end: &CancellationToken) -> JoinHandle<()> {
        let told = self.0.collector.as_ref().map(|collector| {
            let all = self.0.tenants.values().cloned();
            let hearing: JoinSet<()> =
                all.map(|tenancy| collector.export_settled_calls(tenancy, end.clone())).collect();
            (Arc::clone(collector), hearing)
        });
        tokio::spawn(async move {
            if let Some((collector, hearing)) = told {
                // Events that arrive later than this are not exported.
                if tokio::time::timeout(HEARD, hearing.join_all()).await.is_err() {
                    tracing::warn!("some calls are not exported");
                }
                collector.shut_down().await;
            }
        })
    }

    /// Waits until no call is driven here any more.
    pub(crate) async fn wait_until_idle(&self) {
        for tenancy in self.0.tenants.values() {
            tenancy.wait_until_idle().await;
        }
    }
}

/// Returns the OpenAPI document, which is generated from the routes that are served.
pub fn openapi() -> OpenApi {
    routes::all().split_for_parts().1
}

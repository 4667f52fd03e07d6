//! The server: tenancies by name, tokens, limits, and the routes that lead to them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware;
use axum::routing::get;
use byleave::core::id::TenantId;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::auth::door;
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

/// How long the end waits for what is to be told.
const HEARD: Duration = Duration::from_secs(2);

/// Gates, reached over HTTP. Cheap to clone; all clones are one server.
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
    /// A tenant that is served; the last of one name counts.
    #[must_use]
    pub fn tenancy(mut self, tenancy: Tenant) -> Self {
        self.tenancies.insert(tenancy.id().clone(), tenancy);
        self
    }

    /// Other bounds than the usual ones.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// A name by which clients reach the server, beside those of this machine itself.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.hosts.push(name.to_ascii_lowercase());
        self
    }

    /// Who says who people are, for those who sign in there.
    #[must_use]
    pub fn oidc(mut self, provider: OidcProvider) -> Self {
        self.oidc = Some(provider);
        self
    }

    /// Where people reach the pages, and what links to them begin with.
    #[must_use]
    pub fn public_url(mut self, url: PublicUrl) -> Self {
        self.hosts.push(url.host().to_ascii_lowercase());
        self.public = Some(url);
        self
    }

    /// The host under which people are signed in where there is no TLS: [`fresh_pages_host`](crate::fresh_pages_host) makes one.
    ///
    /// Whoever signs in under another name is led there. Only who shows a person's token learns it.
    #[must_use]
    pub fn pages_host(mut self, host: &str) -> Self {
        self.pages_host = Some(host.to_ascii_lowercase());
        self
    }

    /// Who is told of questions, and the file that says that this server runs; nothing without [`Self::public_url`].
    ///
    /// Of several servers with the same file, one tells.
    #[must_use]
    pub fn notices(mut self, serving: PathBuf, webhooks: WebhookStore) -> Self {
        self.notices = Some((serving, webhooks));
        self
    }

    /// What is told to whoever scrapes. It is about all tenants, so only administrators of the operator's see it.
    #[must_use]
    pub fn metrics(mut self, render: MetricsRenderer) -> Self {
        self.metrics = Some(render);
        self
    }

    /// A collector that is told of every call.
    #[must_use]
    pub fn collector(mut self, collector: OtlpExporter) -> Self {
        self.collector = Some(Arc::new(collector));
        self
    }

    /// The server.
    pub fn build(self) -> Server {
        let limits = self.limits;
        let opened = |(id, tenancy): (TenantId, Tenant)| (id, Arc::new(tenancy.within(&limits)));
        Server(Arc::new(ServerInner {
            tenancies: self.tenancies.into_iter().map(opened).collect(),
            operator: self.operator,
            tokens: self.tokens,
            pace: RateLimiter::new(limits.requests_per_second, limits.burst),
            strangers: RateLimiter::new(
                limits.strangers_per_second,
                limits.strangers_per_second.saturating_mul(10),
            ),
            limits,
            hosts: self.hosts,
            public: self.public,
            pages_host: self.pages_host,
            notices: self.notices,
            metrics: self.metrics,
            collector: self.collector,
            visits: BrowserSessions::default(),
            oidc: self.oidc,
        }))
    }
}

impl Server {
    /// Begins to build a server. The operator is the tenant whose administrators look after the whole.
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

    /// Everything that is served, for a listener at this port.
    pub(crate) fn router(self, scheme: &'static str, port: u16, end: &CancellationToken) -> Router {
        let (router, document) = routes::all().split_for_parts();
        let app = App { parts: self.0, document: Arc::new(document), scheme, port, end: end.clone() };
        router
            // No operation of the document: it is spoken by workers of the same version alone.
            .route("/v1/workers/wire", get(routes::workers::come_in))
            .fallback(|| async { Problem::not_found("path") })
            .method_not_allowed_fallback(|| async {
                Problem::new(ProblemKind::MethodNotAllowed, "that cannot be done to this")
            })
            .layer(middleware::from_fn_with_state(app.clone(), door))
            .merge(pages::all(&app))
            .with_state(app)
    }

    /// Looks after the calls of all tenants until it is told to end.
    pub(crate) fn attend(&self, end: &CancellationToken) -> JoinSet<()> {
        let mut attending = JoinSet::new();
        for tenancy in self.0.tenancies.values() {
            attending.spawn(Arc::clone(tenancy).attend(end.clone()));
        }
        if let (Some(url), Some((file, webhooks))) = (self.0.public.clone(), self.0.notices.clone()) {
            let (tenancies, limits) = (self.0.tenancies.clone(), self.0.limits.clone());
            let telling = async move {
                // Kept until the end: who holds it tells, and no other.
                let _serving = ServerLock::begin(&file, &url).await;
                webhooks::attend(webhooks, tenancies, url, limits).await;
            };
            let end = end.clone();
            attending.spawn(async move {
                end.run_until_cancelled_owned(telling).await;
            });
        }
        attending
    }

    /// Tells the collector, where there is one, of every call that is settled here; until the end, and then what is left.
    pub(crate) fn tell(&self, end: &CancellationToken) -> JoinHandle<()> {
        let told = self.0.collector.as_ref().map(|collector| {
            let all = self.0.tenancies.values().cloned();
            let hearing: JoinSet<()> = all.map(|tenancy| collector.hear(tenancy, end.clone())).collect();
            (Arc::clone(collector), hearing)
        });
        tokio::spawn(async move {
            if let Some((collector, hearing)) = told {
                // What is still to be heard after that is too much to be told.
                if tokio::time::timeout(HEARD, hearing.join_all()).await.is_err() {
                    tracing::warn!("some calls are not told of");
                }
                collector.end().await;
            }
        })
    }

    /// Waits until nothing is driven here any more.
    pub(crate) async fn until_idle(&self) {
        for tenancy in self.0.tenancies.values() {
            tenancy.until_idle().await;
        }
    }
}

/// The OpenAPI document: made from the very routes that are served.
pub fn openapi() -> OpenApi {
    routes::all().split_for_parts().1
}

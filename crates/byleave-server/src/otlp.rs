//! Traces and metrics over OTLP (A2): on where the environment names a collector, as OpenTelemetry has it.
//!
//! A trace is made when a call is settled, from the entries of its record with their own times ([`spans`]): so it is one trace,
//! however long a person took and however often the server was started anew. A client that sends a `traceparent` has it in its own
//! trace ([`parents`](crate::parents)). Nothing of arguments or results is in it. What is told is queued, and what does not fit is dropped: a collector that is slow or gone never holds a call up.

mod spans;

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Response};
use byleave::core::entry::Fact;
use byleave::core::record::Record;
use byleave::event::Event;
use opentelemetry::metrics::{Histogram, MeterProvider as _};
use opentelemetry::trace::SpanContext;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor as _};
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::tenancy::Tenancy;

/// What names a collector.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];
/// How long a collector may take for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last of it may take when the server ends.
const LAST: Duration = Duration::from_secs(3);
/// As the conventions have it, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Why nothing is told.
#[derive(Debug, thiserror::Error)]
pub enum OtlpFault {
    /// What the environment says cannot be used.
    #[error("cannot tell a collector anything: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// There is no client.
    #[error("cannot make requests to a collector: {0}")]
    Client(#[from] reqwest::Error),
}

/// A collector, and what it is told.
pub struct Otlp {
    spans: BatchSpanProcessor,
    meters: SdkMeterProvider,
    scope: InstrumentationScope,
    took: Histogram<f64>,
    waited: Histogram<f64>,
}

impl Otlp {
    /// The collector that the environment names; `None` where it names none. Wants a runtime.
    pub fn from_env() -> Result<Option<Self>, OtlpFault> {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let off = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|word| word.eq_ignore_ascii_case("true"));
        if off || !ENDPOINTS.into_iter().any(set) {
            return Ok(None);
        }
        // Somebody else may have been first; then theirs counts.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client {
            inner: reqwest::Client::builder().timeout(TIMEOUT).build()?,
            runtime: Handle::current(),
        };
        let named = Resource::builder();
        let named = if set("OTEL_SERVICE_NAME") { named } else { named.with_service_name("byleave") };
        let resource =
            named.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build();
        let exporter = SpanExporter::builder().with_http().with_http_client(client.clone()).build()?;
        let mut spans = BatchSpanProcessor::builder(exporter).build();
        spans.set_resource(&resource);
        let exporter = MetricExporter::builder().with_http().with_http_client(client).build()?;
        let meters =
            SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();
        let scope = InstrumentationScope::builder("byleave").with_version(env!("CARGO_PKG_VERSION")).build();
        let meter = meters.meter_with_scope(scope.clone());
        let seconds = |name: &'static str, said: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(said);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let took = seconds("gen_ai.execute_tool.duration", "From receipt to settlement");
        let waited = seconds("byleave.question.duration", "How long a person took");
        Ok(Some(Self { spans, meters, scope, took, waited }))
    }

    /// Tells of every call of a tenancy that is settled here, until there are no more.
    pub(crate) fn hear(
        self: &Arc<Self>,
        tenancy: Arc<Tenancy>,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Now, not when it is first polled: no call is missed.
        let events = tenancy.gate.subscribe();
        let otlp = Arc::clone(self);
        async move { otlp.tell_of(events, &tenancy, &end).await }
    }

    async fn tell_of(&self, mut events: Receiver<Event>, tenancy: &Tenancy, end: &CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                () = end.cancelled() => return,
            };
            match event {
                Ok(Event::Entry { call, entry, .. }) if matches!(entry.fact, Fact::Settled(_)) => {
                    match tenancy.record(call).await {
                        Ok(record) => {
                            let parent = tenancy.parents.take(call);
                            record.iter().for_each(|record| self.tell(record, parent.as_ref()));
                        }
                        Err(fault) => tracing::warn!(%call, %fault, "a call cannot be told of"),
                    }
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "some calls are not told of"),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn tell(&self, record: &Record, parent: Option<&SpanContext>) {
        // A tool that there is not may have any name.
        let is_known = matches!(record.resolved(), Some(Ok(_)));
        for span in spans::of(record, parent, &self.scope) {
            let seconds = span.end_time.duration_since(span.start_time).unwrap_or_default().as_secs_f64();
            let kept = |said: &&KeyValue| {
                spans::MEASURED.contains(&said.key.as_str()) && (is_known || said.key.as_str() != spans::TOOL)
            };
            let attributes: Vec<KeyValue> = span.attributes.iter().filter(kept).cloned().collect();
            if span.name.starts_with(spans::CALL) {
                self.took.record(seconds, &attributes);
            } else if span.name == spans::QUESTION {
                self.waited.record(seconds, &attributes);
            }
            self.spans.on_end(span);
        }
    }

    /// Sends what is left, for a while.
    pub(crate) async fn end(self: Arc<Self>) {
        let (tell, told) = oneshot::channel();
        // It blocks, and what it waits for runs on this runtime; which does not wait for a thread of its own.
        std::thread::spawn(move || {
            let ended = (self.spans.shutdown_with_timeout(LAST), self.meters.shutdown_with_timeout(LAST));
            // Who waited may have given up.
            tell.send(ended.0.is_ok() && ended.1.is_ok()).unwrap_or_default();
        });
        if !matches!(tokio::time::timeout(LAST, told).await, Ok(Ok(true))) {
            tracing::warn!("the collector was not told everything");
        }
    }
}

/// Sends from threads that are not ours: requests run on the server's runtime.
#[derive(Clone, Debug)]
struct Client {
    inner: reqwest::Client,
    runtime: Handle,
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let inner = self.inner.clone();
        self.runtime.spawn(async move { inner.send_bytes(request).await }).await?
    }
}

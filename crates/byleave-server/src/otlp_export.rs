//! Traces and metrics over OTLP (A2): on where the environment names a collector, as OpenTelemetry has it.
//!
//! A trace is made when a call is settled, from the entries of its record with their own times (`spans`): so it is one trace,
//! however long a person took and however often the server was started anew. A client that sends a `traceparent` has it in its own
//! trace (`parents`). Nothing of arguments or results is in it. What is told is queued, and what does not fit is
//! dropped: a collector that is slow or gone never holds a call up.

mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{Request, Response};
use byleave::core::entry::RecordEvent;
use byleave::core::record::Record;
use byleave::event::GateEvent;
use opentelemetry::metrics::{Histogram, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanProcessor as _};
use reqwest::redirect::Policy;
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::tenant::Tenant;
use crate::trace_parents::TraceParent;

/// What names a collector for everything, for traces and for metrics.
const ANY: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const NAME: &str = "OTEL_SERVICE_NAME";
/// How long a collector may take for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last of it may take when the server ends.
const LAST: Duration = Duration::from_secs(3);
/// As the conventions have it, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// People take longer.
const PATIENCE: [f64; 12] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];

/// Why nothing is told.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// What the environment says cannot be used.
    #[error("cannot tell a collector anything: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// Another way of speaking than we have.
    #[error(
        "cannot tell a collector by `{0}`: only `http/protobuf` is spoken; set {PROTOCOL} to that, or to nothing"
    )]
    Protocol(String),
    /// There is no client.
    #[error("cannot make requests to a collector: {0}")]
    Client(#[from] reqwest::Error),
}

/// A collector, and what it is told.
pub struct OtlpExporter {
    traces: Option<OtlpTraces>,
    metrics: Option<OtlpMetrics>,
}

struct OtlpTraces {
    spans: BatchSpanProcessor,
    scope: InstrumentationScope,
}

struct OtlpMetrics {
    meters: SdkMeterProvider,
    took: Histogram<f64>,
    waited: Histogram<f64>,
}

impl OtlpExporter {
    /// The collector that the environment names; `None` where it names none. Wants a runtime.
    ///
    /// Where it names one for traces alone, nobody is told metrics, and the other way round.
    pub fn from_env() -> Result<Option<Self>, OtlpError> {
        let off = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|word| word.eq_ignore_ascii_case("true"));
        let (traces, metrics) = (said(ANY).or(said(TRACES)), said(ANY).or(said(METRICS)));
        if off || traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        if let Some(other) = said(PROTOCOL).filter(|word| word != "http/protobuf") {
            return Err(OtlpError::Protocol(other));
        }
        let (client, resource) = (OtlpHttpClient::new()?, resource());
        let scope = InstrumentationScope::builder("byleave").with_version(env!("CARGO_PKG_VERSION")).build();
        let traces = traces.map(|_| OtlpTraces::new(&client, &resource, &scope)).transpose()?;
        let metrics = metrics.map(|_| OtlpMetrics::new(client, resource, scope)).transpose()?;
        Ok(Some(Self { traces, metrics }))
    }

    /// Where it is, as the environment says.
    pub fn place() -> String {
        let places = [ANY, TRACES, METRICS].into_iter().filter_map(said);
        places.collect::<Vec<_>>().join(", ")
    }

    /// Tells of every call of a tenancy that is settled here, until there are no more.
    pub(crate) fn hear(
        self: &Arc<Self>,
        tenancy: Arc<Tenant>,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Now, not when it is first polled: no call is missed.
        let events = tenancy.gate.subscribe();
        let otlp = Arc::clone(self);
        async move { otlp.tell_of(events, &tenancy, &end).await }
    }

    async fn tell_of(&self, mut events: Receiver<GateEvent>, tenancy: &Tenant, end: &CancellationToken) {
        loop {
            let event = tokio::select! {
                biased;
                event = events.recv() => event,
                () = end.cancelled() => return,
            };
            match event {
                Ok(GateEvent::Entry { call, entry, .. }) if matches!(entry.fact, RecordEvent::Settled(_)) => {
                    match tenancy.record(call).await {
                        Ok(record) => {
                            let parent = tenancy.parents.take(call);
                            record.iter().for_each(|record| self.tell(record, parent));
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

    fn tell(&self, record: &Record, parent: Option<TraceParent>) {
        for span in spans::of(record, parent) {
            if let Some(metrics) = &self.metrics {
                metrics.count(&span);
            }
            if let Some(traces) = &self.traces {
                traces.spans.on_end(SpanData { instrumentation_scope: traces.scope.clone(), ..span });
            }
        }
    }

    /// Sends what is left, for a while.
    pub(crate) async fn end(self: Arc<Self>) {
        let ends: [fn(&Self) -> bool; 2] = [
            |otlp| otlp.traces.as_ref().is_none_or(|one| one.spans.shutdown_with_timeout(LAST).is_ok()),
            |otlp| otlp.metrics.as_ref().is_none_or(|one| one.meters.shutdown_with_timeout(LAST).is_ok()),
        ];
        let ended = ends.map(|end| {
            let ((tell, told), otlp) = (oneshot::channel(), Arc::clone(&self));
            // It blocks, and what it waits for runs on this runtime; which does not wait for a thread of its own.
            std::thread::spawn(move || {
                // Who waited may have given up.
                tell.send(end(&otlp)).unwrap_or_default();
            });
            told
        });
        let ended = tokio::time::timeout(LAST, futures::future::join_all(ended)).await;
        if !ended.is_ok_and(|ended| ended.into_iter().all(|one| one == Ok(true))) {
            tracing::warn!("the collector was not told everything");
        }
    }
}

impl OtlpTraces {
    fn new(
        client: &OtlpHttpClient,
        resource: &Resource,
        scope: &InstrumentationScope,
    ) -> Result<Self, OtlpError> {
        let exporter = SpanExporter::builder().with_http().with_http_client(client.clone()).build()?;
        let mut spans = BatchSpanProcessor::builder(exporter).build();
        spans.set_resource(resource);
        Ok(Self { spans, scope: scope.clone() })
    }
}

impl OtlpMetrics {
    fn new(
        client: OtlpHttpClient,
        resource: Resource,
        scope: InstrumentationScope,
    ) -> Result<Self, OtlpError> {
        let exporter = MetricExporter::builder().with_http().with_http_client(client).build()?;
        let meters =
            SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource).build();
        let meter = meters.meter_with_scope(scope);
        let seconds = |name: &'static str, said: &'static str, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(said);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let took = seconds("gen_ai.execute_tool.duration", "From receipt to settlement", &SECONDS);
        let waited = seconds("byleave.question.duration", "How long a person took", &PATIENCE);
        Ok(Self { meters, took, waited })
    }

    fn count(&self, span: &SpanData) {
        let seconds = span.end_time.duration_since(span.start_time).unwrap_or_default().as_secs_f64();
        let kept = |said: &&KeyValue| spans::MEASURED.contains(&said.key.as_str());
        let attributes: Vec<KeyValue> = span.attributes.iter().filter(kept).cloned().collect();
        if span.name.starts_with(spans::CALL) {
            self.took.record(seconds, &attributes);
        } else if span.name == spans::QUESTION {
            self.waited.record(seconds, &attributes);
        }
    }
}

fn said(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Who tells. What the environment says of it counts for more than what we do.
fn resource() -> Resource {
    let ours = Resource::builder_empty()
        .with_service_name("byleave")
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let theirs = ours
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match said(NAME) {
        Some(name) => theirs.with_service_name(name),
        None => theirs,
    }
    .build()
}

/// Sends from threads that are not ours: requests run on the server's runtime.
#[derive(Clone, Debug)]
struct OtlpHttpClient {
    inner: reqwest::Client,
    runtime: Handle,
    /// The last request failed, and that was said.
    fails: Arc<AtomicBool>,
}

impl OtlpHttpClient {
    fn new() -> Result<Self, reqwest::Error> {
        // Somebody else may have been first; then theirs counts.
        drop(rustls::crypto::ring::default_provider().install_default());
        // What goes along may be a key: it goes where the environment says, and nowhere else.
        let inner =
            reqwest::Client::builder().timeout(TIMEOUT).redirect(Policy::none()).no_proxy().build()?;
        Ok(Self { inner, runtime: Handle::current(), fails: Arc::default() })
    }
}

#[async_trait::async_trait]
impl HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let inner = self.inner.clone();
        let sent = self.runtime.spawn(async move { inner.send_bytes(request).await }).await?;
        let trouble = match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("it says {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        // Once for as long as it lasts.
        if self.fails.swap(trouble.is_some(), Ordering::Relaxed) != trouble.is_some() {
            match trouble {
                Some(why) => tracing::warn!(why, "the collector does not take what it is told"),
                None => tracing::info!("the collector takes what it is told again"),
            }
        }
        sent
    }
}

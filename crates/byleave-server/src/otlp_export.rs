//! Exports traces and metrics over OTLP (A2), if the OpenTelemetry environment variables name a collector.
//!
//! A trace is created when a call is settled, from the entries of its record with their own times (`spans`). It is therefore
//! one trace, however long a person took and however often the server restarted. If a client sends a `traceparent`, the call
//! is part of its trace (`trace_parents`). Traces contain no arguments or results. Exports are queued, and dropped if the
//! queue is full. A slow or missing collector never delays a call.

mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{Request, Response};
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::record::Record;
use byleave_gate::event::GateEvent;
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

/// The variables that name a collector for everything, for traces and for metrics.
const ANY: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const NAME: &str = "OTEL_SERVICE_NAME";
/// The timeout of one request to a collector.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of the last export when the server ends.
const LAST: Duration = Duration::from_secs(3);
/// The buckets of the conventions, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The buckets for people, who take longer.
const PATIENCE: [f64; 12] =
    [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0];

/// The reason why nothing is exported.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// The environment variables are invalid.
    #[error("cannot export telemetry: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The protocol is not supported.
    #[error(
        "cannot export telemetry with the protocol `{0}`; set {PROTOCOL} to `http/protobuf`, or unset it"
    )]
    Protocol(String),
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client for the collector: {0}")]
    Client(#[from] reqwest::Error),
}

/// A collector and its exporters.
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
    /// Creates the exporter for the collector in the environment; `None` if there is none. Requires a runtime.
    ///
    /// If the environment names a collector for traces only, no metrics are exported, and vice versa.
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

    /// Returns the address of the collector in the environment.
    pub fn endpoint() -> String {
        let places = [ANY, TRACES, METRICS].into_iter().filter_map(said);
        places.collect::<Vec<_>>().join(", ")
    }

    /// Exports every call of a tenant that is settled here, until there are no more.
    pub(crate) fn export_settled_calls(
        self: &Arc<Self>,
        tenancy: Arc<Tenant>,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        // Subscribed now and not at the first poll, so that no call is missed.
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
                Ok(GateEvent::Entry { call, entry, .. })
                    if matches!(entry.event, RecordEvent::Settled(_)) =>
                {
                    match tenancy.record(call).await {
                        Ok(record) => {
                            let parent = tenancy.trace_parents.remove(call);
                            record.iter().for_each(|record| self.tell(record, parent));
                        }
                        Err(fault) => tracing::warn!(%call, %fault, "cannot export a call"),
                    }
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => tracing::warn!(missed, "some calls are not exported"),
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn tell(&self, record: &Record, parent: Option<TraceParent>) {
        for span in spans::spans_for_record(record, parent) {
            if let Some(metrics) = &self.metrics {
                metrics.count(&span);
            }
            if let Some(traces) = &self.traces {
                traces.spans.on_end(SpanData { instrumentation_scope: traces.scope.clone(), ..span });
            }
        }
    }

    /// Sends the remaining data, for a limited time.
    pub(crate) async fn shut_down(self: Arc<Self>) {
        let ends: [fn(&Self) -> bool; 2] = [
            |otlp| otlp.traces.as_ref().is_none_or(|one| one.spans.shutdown_with_timeout(LAST).is_ok()),
            |otlp| otlp.metrics.as_ref().is_none_or(|one| one.meters.shutdown_with_timeout(LAST).is_ok()),
        ];
        let ended = ends.map(|end| {
            let ((tell, told), otlp) = (oneshot::channel(), Arc::clone(&self));
            // This blocks, and waits for requests on this runtime. It therefore runs in a thread that the runtime does not
            // wait for.
            std::thread::spawn(move || {
                // The receiver may have given up.
                tell.send(end(&otlp)).unwrap_or_default();
            });
            told
        });
        let ended = tokio::time::timeout(LAST, futures::future::join_all(ended)).await;
        if !ended.is_ok_and(|ended| ended.into_iter().all(|one| one == Ok(true))) {
            tracing::warn!("some telemetry was not exported");
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
        let took = seconds("gen_ai.execute_tool.duration", "Time from receipt to settlement", &SECONDS);
        let waited = seconds("byleave.question.duration", "Time that a question was open", &PATIENCE);
        Ok(Self { meters, took, waited })
    }

    fn count(&self, span: &SpanData) {
        let seconds = span.end_time.duration_since(span.start_time).unwrap_or_default().as_secs_f64();
        let kept = |said: &&KeyValue| spans::METRIC_ATTRIBUTES.contains(&said.key.as_str());
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

/// Returns the resource attributes. Those in the environment take precedence over ours.
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

/// Sends requests from the exporter's threads, on the server's runtime.
#[derive(Clone, Debug)]
struct OtlpHttpClient {
    inner: reqwest::Client,
    runtime: Handle,
    /// Whether the last request failed and this was logged.
    fails: Arc<AtomicBool>,
}

impl OtlpHttpClient {
    fn new() -> Result<Self, reqwest::Error> {
        // Another caller may have installed a provider first. That one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        // The headers may contain a key. They are sent only to the address in the environment.
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
            Ok(response) => Some(format!("the collector answered with status {}", response.status())),
            Err(error) => Some(error.to_string()),
        };
        // Logged once for each change.
        if self.fails.swap(trouble.is_some(), Ordering::Relaxed) != trouble.is_some() {
            match trouble {
                Some(why) => tracing::warn!(why, "cannot export telemetry to the collector"),
                None => tracing::info!("the collector accepts telemetry again"),
            }
        }
        sent
    }
}

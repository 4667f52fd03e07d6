//! Scenarios on observability (A1, A2): entries for subscribers, the span of a call, and counters.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use byleave_core::call::Call;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use byleave_gate::approver::callback;
use byleave_gate::event::GateEvent;
use byleave_gate::gate::Gate;
use byleave_gate::result::CallResult;
use byleave_gate::review::{Opinion, input_reviewer};
use byleave_gate::tool::OutputChunk;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};

use super::fixture::{ScenarioContext, completed, record, refused};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

// req: A1
pub(super) async fn every_entry_is_told_in_order(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage
        .gate_on(ledger.clone())?
        .tool(stage.probe("free-far", |_, run| async move {
            run.report_progress(0.5, "half of it");
            run.emit_output(OutputChunk { text: "a word".into(), skipped_bytes: 3 });
            run.report_progress(None, "the rest");
            Output::text("all of it")
        }))
        .approver(Arc::new(callback("ada", |_| true)))
        .build()?;
    let mut events = gate.subscribe();
    let calls = vec![
        stage.read("f")?,
        stage.write("f", "1")?,
        stage.write("closed/x", "1")?,
        stage.call("free-far", json!({}))?,
        stage.call("nothing", json!({}))?,
    ];
    let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
    gate.settle_all(calls).await;
    let (mut told, mut progress, mut said) = (BTreeMap::new(), Vec::new(), Vec::new());
    while let Ok(event) = events.try_recv() {
        match event {
            GateEvent::Entry { call, seq, entry } => {
                let entries: &mut Vec<_> = told.entry(call).or_default();
                same("the place of an entry", &(seq as usize), &entries.len())?;
                entries.push((*entry).clone());
            }
            GateEvent::Progress { call, progress: far } => progress.push((call, far.fraction, far.detail)),
            GateEvent::Output { call, chunk: printed } => {
                said.push((call, printed.text.to_string(), printed.skipped_bytes))
            }
            GateEvent::ToolApproval { .. } => {}
        }
    }
    for id in &ids {
        let record = record(&*ledger, *id).await?;
        same("the reported events", &told.remove(id).unwrap_or_default(), &record.entries().to_vec())?;
    }
    ensure!(told.is_empty(), "more was reported than exists");
    let Some(far) = ids.get(3) else { return Err(ConformanceError::new("there are five")) };
    let wanted = vec![(*far, Some(0.5), "half of it".to_owned()), (*far, None, "the rest".to_owned())];
    same("progress", &progress, &wanted)?;
    same("the printed text", &said, &vec![(*far, "a word".to_owned(), 3)])
}

/// Settles a call on its own thread, within the thread-local setup of `around`.
async fn settle_within<T: Send + 'static>(
    gate: &Gate,
    call: Call,
    around: impl FnOnce(&mut dyn FnMut()) -> T + Send + 'static,
) -> Result<(CallResult, T), ConformanceError> {
    let gate = gate.clone();
    let outside = tokio::task::spawn_blocking(move || {
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let (mut result, mut call) = (None, Some(call));
            let set = around(&mut || {
                if let (Ok(runtime), Some(call)) = (&runtime, call.take()) {
                    result = Some(runtime.block_on(gate.settle(call)));
                }
            });
            (result, set)
        });
        thread.join()
    });
    let (result, set) = outside.await?.map_err(|_| ConformanceError::new("the thread panicked"))?;
    Ok((result.ok_or_else(|| ConformanceError::new("there is no runtime"))?, set))
}

type SpanFields = BTreeMap<String, String>;

/// A subscriber that stores the fields of call spans.
#[derive(Clone, Default)]
struct SpanCollector {
    next: Arc<AtomicU64>,
    calls: Arc<Mutex<BTreeMap<u64, SpanFields>>>,
}

impl SpanCollector {
    /// Returns the fields of the only span.
    fn only(&self) -> Result<SpanFields, ConformanceError> {
        let spans = self.calls.lock();
        match spans.values().collect::<Vec<_>>().as_slice() {
            [fields] => Ok((*fields).clone()),
            more => Err(ConformanceError::new(format!("expected one span, got {more:?}"))),
        }
    }
}

struct FieldCollector<'a>(&'a mut SpanFields);

impl Visit for FieldCollector<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for SpanCollector {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::SeqCst) + 1;
        if span.metadata().name() == "call" {
            let mut fields = SpanFields::new();
            span.record(&mut FieldCollector(&mut fields));
            self.calls.lock().insert(id, fields);
        }
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Values<'_>) {
        let mut calls = self.calls.lock();
        if let Some(fields) = calls.get_mut(&span.into_u64()) {
            values.record(&mut FieldCollector(fields));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

// req: A2
pub(super) async fn a_span_carries_verdict_changes_and_refusal(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let change = |subject: byleave_gate::review::InputSubject<'_>| {
        if subject.arguments == &json!({"n": 2}) {
            return Opinion::Pass;
        }
        Opinion::change(json!({"n": 2}), "one is odd")
    };
    let gate = stage.gate().await?.review_input("free", input_reviewer("changes", change)).build()?;
    let trace = async |call: Call| -> Result<(CallResult, SpanFields), ConformanceError> {
        let spans = SpanCollector::default();
        let subscriber = spans.clone();
        let within = move |settle: &mut dyn FnMut()| tracing::subscriber::with_default(subscriber, settle);
        let (result, ()) = settle_within(&gate, call, within).await?;
        Ok((result, spans.only()?))
    };
    let field = |fields: &SpanFields, name: &str| fields.get(name).cloned().unwrap_or_default();

    let call = stage.call("free", json!({"n": 1}))?;
    let (id, tool) = (call.id.to_string(), call.tool.clone());
    let (result, fields) = trace(call).await?;
    completed(&result)?;
    let seen = ["call", "tool", "verdict", "changes", "outcome", "refusal"].map(|name| field(&fields, name));
    same(
        "a changed call",
        &seen,
        &[id, tool, "Allow".into(), "1".into(), "completed".into(), String::new()],
    )?;

    let (result, fields) = trace(stage.write("closed/x", "1")?).await?;
    refused(&result, Code::Denied)?;
    let seen = ["verdict", "changes", "outcome", "refusal"].map(|name| field(&fields, name));
    same("a denied call", &seen, &["Deny".into(), "0".into(), "refused".into(), "denied".into()])
}

/// A recorder that stores counters by name and labels.
#[derive(Clone, Default)]
struct CounterRecorder(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl CounterRecorder {
    fn of(&self, name: &str) -> u64 {
        let counts = self.0.lock();
        counts.get(name).map_or(0, |count| count.load(Ordering::SeqCst))
    }
}

impl Recorder for CounterRecorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(","));
        let mut counts = self.0.lock();
        Counter::from_arc(counts.entry(name).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

// req: A2
pub(super) async fn calls_and_refusals_are_counted(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    let counts = CounterRecorder::default();
    for call in [stage.read("f")?, stage.read("g")?, stage.read("closed/x")?, stage.call("ask", json!({}))?] {
        let recorder = counts.clone();
        let within = move |settle: &mut dyn FnMut()| metrics::with_local_recorder(&recorder, settle);
        settle_within(&gate, call, within).await?;
    }
    for (name, wanted) in [
        ("byleave_calls_total outcome=completed", 2),
        ("byleave_calls_total outcome=refused", 2),
        ("byleave_refusals_total code=denied", 1),
        ("byleave_refusals_total code=no-approver", 1),
        ("byleave_refusals_total code=declined", 0),
    ] {
        same(name, &counts.of(name), &wanted)?;
    }
    Ok(())
}

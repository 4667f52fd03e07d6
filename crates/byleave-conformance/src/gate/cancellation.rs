//! Scenarios on stopping: by timeout, by a person, from this gate and from another. The tool must really stop (E2).

use std::sync::{Arc, OnceLock};

use byleave_core::call::{Call, Mode};
use byleave_core::entry::RecordEvent;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::fixture::{
    ProbeTool, ScenarioContext, completed, ended, failed, how_often, inbox, quick, record, refused, settled,
    tenant, until,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::{ApproverError, Reply, callback_async};
use byleave_gate::gate::Gate;
use byleave_gate::result::{CallResult, CallStatus};
use byleave_gate::review::input_reviewer_async;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;

/// A signal from a tool that never ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolSignal {
    Started,
    Told,
    Dropped,
}

/// Sends a signal when it is dropped.
struct DropNotifier(mpsc::UnboundedSender<ToolSignal>);

impl DropNotifier {
    fn tell(&self, sign: ToolSignal) {
        // The receiver may be gone once a scenario has seen enough.
        self.0.send(sign).ok();
    }
}

impl Drop for DropNotifier {
    fn drop(&mut self) {
        self.tell(ToolSignal::Dropped);
    }
}

/// Creates a tool that never ends by itself. With `listens`, it observes its cancellation token.
fn endless(stage: &ScenarioContext<'_>, listens: bool) -> (ProbeTool, mpsc::UnboundedReceiver<ToolSignal>) {
    let (tell, signs) = mpsc::unbounded_channel();
    let name = if listens { "free-listens" } else { "free-deaf" };
    let probe = stage.probe(name, move |_, run: RunContext| {
        let tell = tell.clone();
        async move {
            let alive = DropNotifier(tell);
            alive.tell(ToolSignal::Started);
            if listens {
                run.cancel.cancelled().await;
                alive.tell(ToolSignal::Told);
                return Output::text("the output until then");
            }
            std::future::pending().await
        }
    });
    (probe, signs)
}

async fn next(
    signs: &mut mpsc::UnboundedReceiver<ToolSignal>,
    wanted: ToolSignal,
) -> Result<(), ConformanceError> {
    same("the signal of the tool", &signs.recv().await, &Some(wanted))
}

fn in_background(gate: &Gate, call: Call) -> JoinHandle<CallResult> {
    let gate = gate.clone();
    tokio::spawn(async move { gate.settle(call).await })
}

// req: E2
pub(super) async fn a_timeout_stops_the_tool(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    for (listens, in_place) in [(true, false), (false, false), (true, true), (false, true)] {
        let stage = ScenarioContext::new(bench)?;
        let (probe, mut signs) = endless(&stage, listens);
        let probe = if in_place { probe.prompt() } else { probe };
        let gate = stage.gate().await?.tool(probe.with(|manifest| manifest.timeout_ms = Some(20))).build()?;
        let tool = if listens { "free-listens" } else { "free-deaf" };
        let result = gate.settle(stage.call(tool, json!({}))?).await;
        let output = failed(&result)?;
        ensure!(result.error().is_some_and(|error| error.contains("timed out after 20 ms")), "{result:?}");
        next(&mut signs, ToolSignal::Started).await?;
        if listens {
            next(&mut signs, ToolSignal::Told).await?;
            same("the output so far", &output.text.as_str(), &"the output until then")?;
        }
        // The end is recorded only after the tool is gone.
        same("after its end", &signs.try_recv().ok(), &Some(ToolSignal::Dropped))?;
    }
    Ok(())
}

// req: E2
pub(super) async fn a_cancellation_stops_the_tool(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    for (listens, in_place) in [(true, false), (false, false), (true, true), (false, true)] {
        let stage = ScenarioContext::new(bench)?;
        let ledger = stage.ledger().await?;
        let (probe, mut signs) = endless(&stage, listens);
        let probe = if in_place { probe.prompt() } else { probe };
        let gate = stage.gate_on(ledger.clone())?.tool(probe).build()?;
        let call = stage.call(if listens { "free-listens" } else { "free-deaf" }, json!({}))?;
        let id = call.id;
        let running = in_background(&gate, call);
        next(&mut signs, ToolSignal::Started).await?;
        gate.cancel(id, "ada").await?;
        let result = running.await?;
        failed(&result)?;
        ensure!(result.error().is_some_and(|error| error.contains("cancelled")), "{result:?}");
        if listens {
            next(&mut signs, ToolSignal::Told).await?;
        }
        next(&mut signs, ToolSignal::Dropped).await?;
        let record = record(&*ledger, id).await?;
        same("the canceller", &record.cancelled_by(), &Some("ada"))?;
        // A settled call does not change.
        gate.cancel(id, "eve").await?;
        same("after another cancellation", &settled(gate.resume(id).await)?, &result)?;
    }
    Ok(())
}

// req: E2
pub(super) async fn a_waiting_call_can_be_cancelled(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    // Once with an approver who has not answered yet, and once with a question in the inbox.
    for at_hand in [true, false] {
        let stage = ScenarioContext::new(bench)?;
        let asked = Arc::new(Notify::new());
        let thinks = asked.clone();
        let person = callback_async("ada", move |_| {
            thinks.notify_one();
            std::future::pending::<Result<Reply, ApproverError>>()
        });
        let builder = stage.gate().await?;
        let builder = if at_hand { builder.approver(Arc::new(person)) } else { builder.settings(inbox()) };
        let gate = builder.build()?;
        let mut events = gate.subscribe();
        let call = stage.call("ask", json!({}))?;
        let id = call.id;
        let waiting = in_background(&gate, call);
        if at_hand {
            asked.notified().await;
        } else {
            until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
        }
        gate.cancel(id, "ada").await?;
        refused(&waiting.await?, Code::Cancelled)?;
        stage.run_log.nothing("cancelled while it waited")?;
    }
    Ok(())
}

// req: E2, E4
pub(super) async fn a_queued_call_can_be_cancelled(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (probe, mut signs) = endless(&stage, true);
    let gate = stage.gate().await?.tool(probe).build()?;
    let (first, second) = (stage.call("free-listens", json!({}))?, stage.call("free", json!({}))?);
    let (first_id, second_id) = (first.id, second.id);
    let running = in_background(&gate, first);
    next(&mut signs, ToolSignal::Started).await?;
    let both = async {
        let queued = gate.settle(second);
        tokio::pin!(queued);
        ensure!(futures::poll!(&mut queued).is_pending(), "the call does not queue");
        gate.cancel(second_id, "ada").await?;
        Ok(queued.await)
    };
    refused(&both.await?, Code::Cancelled)?;
    gate.cancel(first_id, "ada").await?;
    failed(&running.await?)?;
    same("runs of the queued one", &stage.run_log.of("free"), &0)
}

// req: E2
pub(super) async fn another_gate_can_cancel(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (probe, mut signs) = endless(&stage, true);
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.tool(probe).settings(inbox()).build()?;
    let other = stage.gate().await?.settings(inbox()).build()?;

    let call = stage.call("free-listens", json!({}))?;
    let id = call.id;
    let running = in_background(&gate, call);
    next(&mut signs, ToolSignal::Started).await?;
    other.cancel(id, "bob").await?;
    let result = running.await?;
    failed(&result)?;
    ensure!(result.error().is_some_and(|error| error.contains("cancelled")), "{result:?}");
    same("the canceller", &record(&*ledger, id).await?.cancelled_by(), &Some("bob"))?;
    same("over there", &settled(other.resume(id).await)?.outcome, &result.outcome)?;

    let call = stage.call("ask", json!({}))?;
    let id = call.id;
    let mut events = gate.subscribe();
    let waiting = in_background(&gate, call);
    until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
    other.cancel(id, "bob").await?;
    refused(&waiting.await?, Code::Cancelled)?;
    same("runs of the one that waited", &stage.run_log.of("ask"), &0)
}

// req: E2
pub(super) async fn a_call_that_runs_elsewhere_can_be_cancelled_here(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (probe, mut signs) = endless(&stage, true);
    let gate = stage.gate().await?.tool(probe).build()?;
    let (probe, _) = endless(&stage, true);
    let other = stage.gate().await?.tool(probe).build()?;
    let call = stage.call("free-listens", json!({}))?;
    let id = call.id;
    let running = in_background(&gate, call.clone());
    next(&mut signs, ToolSignal::Started).await?;
    same("over there", &other.resume(id).await, &CallStatus::RunningElsewhere { call: id })?;
    let also = in_background(&other, call);
    other.cancel(id, "bob").await?;
    let (here, there) = (running.await?, also.await?);
    failed(&here)?;
    same("the same result", &there.outcome, &here.outcome)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E2
pub(super) async fn a_caller_that_goes_away_takes_the_tool_along(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let (probe, mut signs) = endless(&stage, false);
    let gate = stage.gate_on(ledger.clone())?.tool(probe).settings(inbox()).build()?;
    let call = stage.call("free-deaf", json!({}))?;
    let running = in_background(&gate, call.clone());
    next(&mut signs, ToolSignal::Started).await?;
    running.abort();
    ensure!(running.await.is_err(), "the caller is still there");
    next(&mut signs, ToolSignal::Dropped).await?;
    // Its progress is unknown, so it is not begun again. The session continues.
    completed(&gate.settle(stage.call("free", json!({}))?).await)?;
    ended(&gate.settle(call.clone()).await, "unknown", Code::Interrupted)?;
    same("runs", &stage.run_log.of("free-deaf"), &1)?;
    let record = record(&*ledger, call.id).await?;
    same("interruptions", &how_often(&record, |fact| matches!(fact, RecordEvent::Interrupted { .. })), &1)?;

    // A call that waited when its caller went away can still be cancelled.
    let call = stage.call("ask", json!({}))?;
    let id = call.id;
    let mut events = gate.subscribe();
    let waiting = in_background(&gate, call);
    until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
    waiting.abort();
    ensure!(waiting.await.is_err(), "the caller is still there");
    gate.cancel(id, "ada").await?;
    refused(&settled(gate.resume(id).await)?, Code::Cancelled)
}

// req: R5
pub(super) async fn a_halt_refuses_everything_until_it_is_lifted(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gates = [stage.gate().await?.build()?, stage.gate().await?.build()?];
    let [one, two] = &gates;
    one.halt(&tenant()?, "ada", "something is wrong").await?;
    for gate in &gates {
        let mut yolo = stage.call("ask", json!({}))?;
        yolo.mode = Mode::Yolo;
        for call in [stage.read("f")?, stage.write("open/x", "1")?, stage.call("free", json!({}))?, yolo] {
            let result = gate.settle(call.clone()).await;
            refused(&result, Code::Halted)?;
            let told = result.error().unwrap_or_default();
            ensure!(told.contains("something is wrong") && told.contains("--lift"), "not reported: {told}");
            same("again", &gate.settle(call).await, &result)?;
        }
        let mut other = stage.read("f")?;
        other.tenant = "another".parse()?;
        completed(&gate.settle(other).await)?;
    }
    same("runs", &stage.run_log.count(), &2)?;
    two.lift(&tenant()?, "ada").await?;
    for gate in &gates {
        completed(&gate.settle(stage.read("f")?).await)?;
        completed(&gate.settle(stage.write("open/x", "1")?).await)?;
    }
    Ok(())
}

// req: R5
pub(super) async fn a_halt_holds_for_what_is_on_its_way(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let halter = Arc::new(OnceLock::<Gate>::new());
    let halts = halter.clone();
    let gate = stage
        .gate_on(ledger)?
        .review_input(
            "read",
            input_reviewer_async("halts", move |_| {
                let gate = halts.get().cloned();
                async move {
                    match (gate, tenant()) {
                        (Some(gate), Ok(tenant)) => gate.halt(&tenant, "ada", "meanwhile").await.is_ok(),
                        (None, _) => true,
                        (_, Err(_)) => false,
                    }
                }
            }),
        )
        .build()?;
    completed(&gate.settle(stage.read("f")?).await)?;
    ensure!(halter.set(gate.clone()).is_ok(), "two gates");
    // A faster call has a fresher snapshot from before the halt.
    for _ in 0..5 {
        refused(&gate.settle(stage.read("f")?).await, Code::Halted)?;
        gate.lift(&tenant()?, "ada").await?;
    }
    same("runs", &stage.run_log.count(), &1)
}

// req: E2
pub(super) async fn a_tool_gets_the_time_it_asks_for_up_to_the_limit(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let wants = |name: &str, ms| {
        stage.probe(name, |_, _| async { Output::text("") }).with(|manifest| manifest.timeout_ms = ms)
    };
    let gate = stage
        .gate_on(ledger.clone())?
        .tool(wants("free-default", None))
        .tool(wants("free-more", Some(90_000)))
        .tool(wants("free-much", Some(86_400_000)))
        .settings(GateSettings { ..quick() })
        .build()?;
    for (tool, wanted) in [("free-default", 30_000), ("free-more", 90_000), ("free-much", 600_000)] {
        let call = stage.call(tool, json!({}))?;
        completed(&gate.settle(call.clone()).await)?;
        let record = record(&*ledger, call.id).await?;
        let terms = record.resolved_tool().and_then(|step| step.as_ref().ok());
        same(tool, &terms.map(|terms| terms.limits.timeout_ms), &Some(wanted))?;
    }
    Ok(())
}

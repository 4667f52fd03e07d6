//! Scenarios on order (E4): which calls run concurrently, which run alone, and which wait for others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use byleave_core::call::Call;
use byleave_core::entry::RecordEvent;
use byleave_core::outcome::Output;
use byleave_core::refusal::Code;
use byleave_gate::approver::{Reply, callback, callback_async};
use byleave_gate::gate::Gate;
use byleave_gate::result::CallStatus;
use byleave_gate::settings::GateSettings;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use super::faulty_ledger::FaultyLedger;
use super::fixture::{
    ProbeTool, ScenarioContext, answer, completed, inbox, quick, settled, until, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

/// The current and the highest number of concurrent runs.
#[derive(Clone, Debug, Default)]
pub(super) struct ConcurrencyGauge {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    arrived: Arc<Notify>,
}

impl ConcurrencyGauge {
    pub(super) fn enter(&self) -> ConcurrencyGuard {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.arrived.notify_waiters();
        ConcurrencyGuard(self.clone())
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Waits until this many runs are active at once.
    async fn of(&self, wanted: usize) {
        loop {
            let came = self.arrived.notified();
            if self.now.load(Ordering::SeqCst) >= wanted {
                return;
            }
            came.await;
        }
    }
}

/// One active run.
pub(super) struct ConcurrencyGuard(ConcurrencyGauge);

impl Drop for ConcurrencyGuard {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Creates a tool that yields, so that other tools can run at the same time.
fn lingering(stage: &ScenarioContext<'_>, name: &str, crowd: &ConcurrencyGauge) -> ProbeTool {
    let crowd = crowd.clone();
    stage.probe(name, move |arguments, _| {
        let crowd = crowd.clone();
        async move {
            let _inside = crowd.enter();
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            Output::text(arguments.to_string())
        }
    })
}

fn numbered(stage: &ScenarioContext<'_>, tool: &str, count: usize) -> Result<Vec<Call>, ConformanceError> {
    (0..count).map(|number| stage.call(tool, json!({ "n": number }))).collect()
}

fn numbers(stage: &ScenarioContext<'_>) -> Vec<u64> {
    stage
        .run_log
        .all()
        .iter()
        .filter_map(|(_, arguments)| arguments.get("n").and_then(Value::as_u64))
        .collect()
}

// req: E4
pub(super) async fn safe_calls_run_beside_each_other_up_to_the_limit(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for limit in [3, 8] {
        let stage = ScenarioContext::new(bench)?;
        let crowd = ConcurrencyGauge::default();
        let at_the_bar = crowd.clone();
        // No run ends before the limit is reached. If the gate admitted fewer, this would hang.
        let (full, is_full) = tokio::sync::watch::channel(false);
        let probe = stage.probe("free-safe", move |_, _| {
            let (crowd, mut is_full) = (at_the_bar.clone(), is_full.clone());
            async move {
                let _inside = crowd.enter();
                drop(is_full.wait_for(|full| *full).await);
                Output::text("")
            }
        });
        let gate = stage
            .gate()
            .await?
            .tool(probe.with(|manifest| manifest.concurrency_safe = true))
            .settings(GateSettings { max_concurrent: limit, ..quick() })
            .build()?;
        let calls = numbered(&stage, "free-safe", limit + 4)?;
        let (results, ()) = tokio::join!(gate.settle_all(calls), async {
            crowd.of(limit).await;
            full.send_replace(true);
        });
        for result in &results {
            completed(result)?;
        }
        ensure!(crowd.most() == limit, "{} at once, where {limit} may", crowd.most());
    }
    Ok(())
}

// req: E4
pub(super) async fn other_calls_run_alone_and_in_order(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let crowd = ConcurrencyGauge::default();
    let gate = stage.gate().await?.tool(lingering(&stage, "free-alone", &crowd)).build()?;
    let calls = numbered(&stage, "free-alone", 12)?;
    let ids: Vec<_> = calls.iter().map(|call| call.id).collect();
    let results = gate.settle_all(calls).await;
    same("results in order", &results.iter().map(|result| result.call).collect::<Vec<_>>(), &ids)?;
    for result in &results {
        completed(result)?;
    }
    same("at once", &crowd.most(), &1)?;
    same("in order", &numbers(&stage), &(0..12).collect::<Vec<_>>())
}

// req: E4
pub(super) async fn alone_means_without_the_safe_ones_too(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (all, alone) = (ConcurrencyGauge::default(), ConcurrencyGauge::default());
    let (everyone, only) = (all.clone(), alone.clone());
    let exclusive = stage.probe("free-alone", move |_, _| {
        let (everyone, only) = (everyone.clone(), only.clone());
        async move {
            let (_one, _other) = (everyone.enter(), only.enter());
            tokio::task::yield_now().await;
            // The gauge of all runs counts any tool that runs at the same time.
            Output::text(everyone.now.load(Ordering::SeqCst).to_string())
        }
    });
    let safe = lingering(&stage, "free-safe", &all).with(|manifest| manifest.concurrency_safe = true);
    let gate = stage.gate().await?.tool(exclusive).tool(safe).build()?;
    let mut calls = Vec::new();
    for number in 0..12 {
        let tool = if number % 4 == 2 { "free-alone" } else { "free-safe" };
        calls.push(stage.call(tool, json!({ "n": number }))?);
    }
    for result in gate.settle_all(calls).await {
        let output = completed(&result)?;
        ensure!(result.tool == "free-safe" || output.text == "1", "{} were beside it", output.text);
    }
    let order = numbers(&stage);
    let place = |number: u64| order.iter().position(|other| *other == number);
    ensure!(place(0) < place(2) && place(2) < place(3) && place(5) < place(6), "not in order: {order:?}");
    Ok(())
}

// req: E4
pub(super) async fn one_at_a_time_is_a_setting(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let crowd = ConcurrencyGauge::default();
    let probe = lingering(&stage, "free-safe", &crowd).with(|manifest| manifest.concurrency_safe = true);
    let settings = GateSettings { max_concurrent: 1, ..quick() };
    let gate = stage.gate().await?.tool(probe).settings(settings).build()?;
    for result in gate.settle_all(numbered(&stage, "free-safe", 8)?).await {
        completed(&result)?;
    }
    same("at once", &crowd.most(), &1)?;
    same("in order", &numbers(&stage), &(0..8).collect::<Vec<_>>())
}

// req: E4
pub(super) async fn sessions_do_not_wait_for_each_other(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (release, released) = oneshot::channel::<()>();
    let released = Arc::new(parking_lot::Mutex::new(Some(released)));
    let slow = stage.probe("free-slow", move |_, _| {
        let released = released.lock().take();
        async move {
            if let Some(released) = released {
                released.await.ok();
            }
            Output::text("")
        }
    });
    let gate = stage.gate().await?.tool(slow).build()?;
    let slow = stage.call("free-slow", json!({}))?;
    let mut other = stage.call("free", json!({}))?;
    other.session = "another".parse()?;
    let (slow, other) = tokio::join!(gate.settle(slow), async {
        let result = gate.settle(other).await;
        release.send(()).ok();
        result
    });
    completed(&slow)?;
    completed(&other).map(|_| ())
}

// req: E4
pub(super) async fn who_waits_for_a_person_holds_up_only_who_conflicts(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    // Once with the inbox, and once with an approver.
    for at_hand in [false, true] {
        let stage = ScenarioContext::new(bench)?;
        let (asked, mut questions) = mpsc::unbounded_channel::<oneshot::Sender<Reply>>();
        let person = callback_async("ada", move |_| {
            let (say, said) = oneshot::channel();
            asked.send(say).ok();
            said
        });
        let builder = stage.gate().await?;
        let builder = if at_hand { builder.approver(Arc::new(person)) } else { builder.settings(inbox()) };
        let gate = builder.build()?;
        let mut events = gate.subscribe();
        let calls =
            vec![stage.write("f", "new")?, stage.read("f")?, stage.read("g")?, stage.write("open/x", "1")?];
        let [write, read, _, beside] = calls.as_slice() else {
            return Err(ConformanceError::new("there are four"));
        };
        let (write, read, beside) = (write.id, read.id, beside.id);
        let turn = gate.settle_all(calls);
        let meanwhile = async {
            until(&mut events, |fact| matches!(fact, RecordEvent::Asked(Ok(_)))).await?;
            // Calls that only read or do not conflict are settled while the person decides.
            let mut ended = Vec::new();
            while ended.len() < 3 {
                ended.push(until(&mut events, |fact| matches!(fact, RecordEvent::Settled(_))).await?);
            }
            ensure!(!ended.contains(&write), "one that waits has ended");
            ensure!(
                ended.contains(&beside) && ended.contains(&read),
                "a call without a conflict was blocked"
            );
            if at_hand {
                let say =
                    questions.recv().await.ok_or_else(|| ConformanceError::new("no approver was asked"))?;
                say.send(yes()).map_err(|_| ConformanceError::new("the answer has no receiver"))?;
            } else {
                let question = waiting(gate.resume(write).await)?;
                answer(&gate, &question, yes()).await?;
            }
            Ok::<(), ConformanceError>(())
        };
        let (results, meanwhile) = tokio::join!(turn, meanwhile);
        meanwhile?;
        for result in &results {
            completed(result)?;
        }
        let seen = results.iter().find(|result| result.call == read).map(|result| result.to_text());
        same("the content that the later call reads", &seen, &Some("old f".into()))?;
    }
    Ok(())
}

// req: E4
pub(super) async fn who_stands_behind_an_answered_call_sees_it_through(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.settings(inbox()).build()?;
    let question = waiting(gate.advance(stage.write("f", "new")?).await)?;
    let behind = stage.write("f", "newer")?;
    let standing = gate.advance(behind.clone()).await;
    ensure!(matches!(standing, CallStatus::Blocked { .. }), "the call is not blocked: {standing:?}");
    answer(&gate, &question, yes()).await?;
    drop(gate);
    stage.bench.kill(ledger).await?;
    // The process that answered is gone. Only the blocked call resumes the answered one.
    let gate = stage.gate().await?.settings(inbox()).build()?;
    let id = behind.id;
    let mut standing = gate.advance(behind).await;
    while matches!(standing, CallStatus::Blocked { .. }) {
        gate.wait_for_progress(&standing).await;
        standing = gate.resume(id).await;
    }
    waiting(standing)?;
    same("the content", &gate.settle(stage.read("f")?).await.to_text().as_str(), &"old f+new")
}

// req: E4
pub(super) async fn a_yes_whose_agent_is_gone_holds_up_nothing_after_a_minute(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for is_answered in [false, true] {
        let stage = ScenarioContext::new(bench)?;
        let is_gone = Arc::new(AtomicBool::new(false));
        let seen = is_gone.clone();
        let unattended = Arc::new(move |_| seen.load(Ordering::SeqCst));
        let gate = stage.gate().await?.settings(inbox()).unattended_calls(unattended).build()?;
        let first = stage.write("f", "new")?;
        let question = waiting(gate.advance(first.clone()).await)?;
        let behind = stage.write("f", "newer")?;
        let id = behind.id;
        let is_blocked = |standing: &CallStatus| matches!(standing, CallStatus::Blocked { blocked_by, .. } if *blocked_by == first.id);
        ensure!(is_blocked(&gate.advance(behind).await), "an attended question comes first");
        if is_answered {
            answer(&gate, &question, yes()).await?;
            stage.clock.advance(120_000);
            ensure!(
                is_blocked(&gate.resume(id).await),
                "an attended answer comes first, however long it takes"
            );
        }
        is_gone.store(true, Ordering::SeqCst);
        let question = waiting(gate.resume(id).await)?;
        // The claim of the call that was passed over is made once, whenever it is taken up.
        if is_answered {
            completed(&settled(gate.resume(first.id).await)?)?;
            completed(&settled(gate.resume(first.id).await)?)?;
            same("runs", &stage.run_log.count(), &1)?;
            answer(&gate, &question, yes()).await?;
            completed(&settled(gate.resume(id).await)?)?;
            same("runs of both", &stage.run_log.count(), &2)?;
        }
    }
    Ok(())
}

// req: E4
pub(super) async fn an_unattended_answer_keeps_its_place_for_a_minute(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).unattended_calls(Arc::new(|_| true)).build()?;
    let question = waiting(gate.advance(stage.write("f", "new")?).await)?;
    answer(&gate, &question, yes()).await?;
    stage.clock.advance(59_999);
    let standing = gate.advance(stage.write("f", "newer")?).await;
    ensure!(
        matches!(standing, CallStatus::Blocked { .. }),
        "the agent had no time to take it up: {standing:?}"
    );
    Ok(())
}

// req: E4
pub(super) async fn answered_calls_run_alone_and_lose_nothing(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let crowd = ConcurrencyGauge::default();
    let mut builder = stage.gate().await?.approver(Arc::new(callback("ada", |_| true)));
    // The tools have different names, so no call conflicts with another and none is blocked.
    for number in 0..6 {
        builder = builder.tool(lingering(&stage, &format!("alone-{number}"), &crowd));
    }
    let gate = builder.build()?;
    let calls: Result<Vec<_>, _> =
        (0..6).map(|number| stage.call(&format!("alone-{number}"), json!({ "n": number }))).collect();
    for result in gate.settle_all(calls?).await {
        completed(&result)?;
    }
    same("at once", &crowd.most(), &1)?;
    same("runs", &stage.run_log.count(), &6)
}

// req: R5, E4
pub(super) async fn an_abort_stops_the_siblings(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    // The person answers at once or after a while, about the first call or about a later one.
    for (at_once, is_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let stage = ScenarioContext::new(bench)?;
        // No call may begin because the one before it was just settled.
        let builder = stage.gate_on(FaultyLedger::lingering(stage.ledger().await?))?;
        let gate: Gate = if at_once {
            builder.approver(Arc::new(callback("ada", |_| Reply::Abort))).build()?
        } else {
            let abort = callback_async("ada", |_| async {
                tokio::task::yield_now().await;
                Reply::Abort
            });
            builder.approver(Arc::new(abort)).build()?
        };
        let mut calls = vec![
            stage.read("g")?,
            stage.write("f", "1")?,
            stage.call("ask", json!({}))?,
            stage.write("f", "2")?,
            stage.write("f", "3")?,
        ];
        if is_first {
            calls.remove(0);
        }
        let mut results = gate.settle_all(calls).await;
        if !is_first {
            completed(&results.remove(0))?;
        }
        // Several calls may have been asked about before the first answer. Calls without a question are cancelled.
        let codes: Vec<_> =
            results.iter().map(|result| result.outcome.refusal().map(|why| why.code)).collect();
        let stopped = codes.iter().all(|code| matches!(code, Some(Code::Aborted | Code::Cancelled)));
        ensure!(stopped && codes.contains(&Some(Code::Aborted)), "a sibling went on: {codes:?}");
        same("writes", &stage.run_log.of("write"), &0)?;
        same("others", &(stage.run_log.of("ask"), stage.run_log.of("read")), &(0, usize::from(!is_first)))?;
        // A new turn is not affected.
        completed(&settled(gate.advance(stage.read("g")?).await)?)?;
    }
    Ok(())
}

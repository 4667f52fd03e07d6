//! Scenarios on decisions (P1, P7, P9, T5, T8): one engine decides, gives reasons, and may cache only certain decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use byleave_core::call::{Call, Mode};
use byleave_core::decision::{PolicyDecision, Verdict};
use byleave_core::entry::RecordEvent;
use byleave_core::manifest::{ApprovalRequirement, PermissionClass};
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::refusal::Code;
use serde_json::{Value, json};

use super::fixture::{ProbeTool, ScenarioContext, completed, quick, record, refused, rule};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::callback;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger;
use byleave_gate::review::{InputReviewer, InputSubject, Opinion, ReviewError, ReviewScope};
use byleave_gate::settings::GateSettings;

async fn ruling(ledger: &dyn Ledger, gate: &Gate, call: Call) -> Result<PolicyDecision, ConformanceError> {
    let id = call.id;
    gate.settle(call).await;
    let record = record(ledger, id).await?;
    let ruling = record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::PolicyEvaluated(Ok(ruling)) => Some(ruling.clone()),
        _ => None,
    });
    ruling.ok_or_else(|| ConformanceError::new("the record has no policy decision"))
}

// req: P1, P7
pub(super) async fn a_ruling_names_its_rule_and_deny_beats_ask_beats_allow(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let gate = stage.gate_on(ledger.clone())?.build()?;
    let about = |id: &str, verdict| rule(id, verdict, vec![Pattern::Invoke("free".into())]);
    let layers = [
        (vec![], Verdict::Allow, "free"),
        (vec![about("an-ask", Verdict::Ask)], Verdict::Ask, "an-ask"),
        (vec![about("a-deny", Verdict::Deny), about("an-ask", Verdict::Ask)], Verdict::Deny, "a-deny"),
    ];
    for (more, verdict, id) in layers {
        gate.set_policy(stage.policy(more)?);
        let ruling = ruling(&*ledger, &gate, stage.call("free", json!({}))?).await?;
        same("the verdict", &ruling.verdict, &verdict)?;
        let decisive =
            ruling.decisive_reason().ok_or_else(|| ConformanceError::new("the decision has no reason"))?;
        same("the rule", &decisive.rule.as_deref(), &Some(id))?;
        same("the origin", &decisive.origin.as_deref(), &Some("user"))?;
        ensure!(decisive.message.contains(id), "the reason has no message: {decisive:?}");
    }
    let result = gate.settle(stage.call("free", json!({}))?).await;
    refused(&result, Code::Denied)?;
    ensure!(
        result.error().is_some_and(|error| error.contains("`a-deny`")),
        "the model does not see it: {result:?}"
    );
    for mode in Mode::ALL {
        let mut call = stage.call("free", json!({}))?;
        call.mode = mode;
        refused(&gate.settle(call).await, Code::Denied)?;
    }
    same("runs", &stage.run_log.count(), &1)
}

/// A deterministic reviewer that counts its calls.
struct ConstantReviewer(Arc<AtomicUsize>);

impl InputReviewer for ConstantReviewer {
    fn name(&self) -> &str {
        "constant"
    }

    fn is_cacheable(&self) -> bool {
        true
    }

    fn review<'a>(&'a self, subject: InputSubject<'a>) -> BoxFuture<'a, Result<Opinion<Value>, ReviewError>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let changed = subject.arguments.get("seen").is_some();
        Box::pin(async move {
            Ok(if changed {
                Opinion::Pass
            } else {
                Opinion::change(json!({"seen": true}), "it was looked at")
            })
        })
    }
}

// req: P9
pub(super) async fn rulings_are_remembered_and_answers_never(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let gate = stage
        .gate_on(ledger.clone())?
        .settings(GateSettings { cached_decisions: 16, ..quick() })
        .approver(Arc::new(callback("ada", move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            true
        })))
        .build()?;
    let same_call = || stage.write("f", "1");
    let first = ruling(&*ledger, &gate, same_call()?).await?;
    let second = ruling(&*ledger, &gate, same_call()?).await?;
    ensure!(!first.cached && second.cached, "{first:?}, then {second:?}");
    same("but for that", &PolicyDecision { cached: false, ..second }, &first)?;
    same("a person is asked each time", &asked.load(Ordering::SeqCst), &2)?;
    // Another plan, another mode or another policy never hits the cache.
    ensure!(!ruling(&*ledger, &gate, stage.write("g", "1")?).await?.cached, "another plan");
    let mut other_mode = same_call()?;
    other_mode.mode = Mode::Yolo;
    ensure!(!ruling(&*ledger, &gate, other_mode).await?.cached, "another mode");
    let deny = rule("f", Verdict::Deny, vec![Pattern::Write(stage.temp_dir.text("f")?)]);
    gate.set_policy(stage.policy([deny])?);
    let stricter = ruling(&*ledger, &gate, same_call()?).await?;
    ensure!(!stricter.cached && stricter.verdict == Verdict::Deny, "another policy: {stricter:?}");
    Ok(())
}

// req: P9
pub(super) async fn what_reviewers_always_say_is_remembered_and_recorded(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let ledger = stage.ledger().await?;
    let asked = Arc::new(AtomicUsize::new(0));
    let gate = stage
        .gate_on(ledger.clone())?
        .review_input(ReviewScope::All, ConstantReviewer(asked.clone()))
        .build()?;
    let mut cached = Vec::new();
    for _ in 0..2 {
        let call = stage.call("free", json!({}))?;
        completed(&gate.settle(call.clone()).await)?;
        let record = record(&*ledger, call.id).await?;
        cached.push(record.entries().iter().find_map(|entry| match &entry.event {
            RecordEvent::Reviewed(Ok(review)) => review.notes.first().map(|note| note.cached),
            _ => None,
        }));
    }
    same("marked", &cached, &vec![Some(false), Some(true)])?;
    same("asked, once for each draft", &asked.load(Ordering::SeqCst), &2)?;
    same("runs", &stage.run_log.all(), &vec![("free".into(), json!({"seen": true})); 2])
}

// req: T5
pub(super) async fn what_a_tool_says_of_itself_loosens_nothing(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let plain = |name: &str| stage.probe(name, |_, _| async { Output::text("") });
    let labelled = |probe: ProbeTool| {
        probe.with(|manifest| {
            manifest.read_only = true;
            manifest.reversible = true;
            manifest.concurrency_safe = true;
            manifest.idempotent = true;
        })
    };
    let bare = plain("bare").with(|manifest| {
        manifest.permission_class = PermissionClass::Undeclared;
        manifest.sensitive = None;
    });
    let sensitive = plain("free-sensitive").with(|manifest| manifest.sensitive = Some(true));
    let silent = plain("free-silent").with(|manifest| manifest.sensitive = None);
    let gate = stage
        .gate()
        .await?
        .tool(bare)
        .tool(labelled(plain("labelled")))
        .tool(sensitive)
        .tool(silent)
        .build()?;
    for tool in ["bare", "labelled"] {
        refused(&gate.settle(stage.call(tool, json!({}))?).await, Code::NoApprover)?;
    }
    stage.run_log.nothing("labels")?;
    // A user rule that names the tool allows it, whatever the manifest omits.
    for tool in ["free-sensitive", "free-silent"] {
        completed(&gate.settle(stage.call(tool, json!({}))?).await)?;
    }
    Ok(())
}

// req: T8
pub(super) async fn needs_approval_only_tightens(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let plain = |name: &str| stage.probe(name, |_, _| async { Output::text("") });
    let large = |arguments: &Value| arguments.get("n").and_then(Value::as_u64).is_some_and(|n| n > 10);
    let gate = stage
        .gate()
        .await?
        .tool(plain("free-always").with(|manifest| manifest.needs_approval = ApprovalRequirement::Always))
        .tool(plain("free-never").with(|manifest| manifest.needs_approval = ApprovalRequirement::Never))
        .tool(plain("free-at-once").asking(move |arguments| std::future::ready(Ok(large(arguments)))))
        .tool(plain("free-later").asking(move |arguments| {
            let large = large(arguments);
            async move {
                tokio::task::yield_now().await;
                Ok(large)
            }
        }))
        .tool(plain("other").asking(|_| std::future::ready(Ok(false))))
        .build()?;
    let cases = [
        ("free-always", 1, true),
        ("free-never", 99, false),
        ("free-at-once", 1, false),
        ("free-at-once", 99, true),
        ("free-later", 1, false),
        ("free-later", 99, true),
        // A predicate that returns `false` does not permit a tool that no rule allows.
        ("other", 1, true),
    ];
    for (tool, n, asks) in cases {
        let result = gate.settle(stage.call(tool, json!({ "n": n }))?).await;
        match asks {
            true => refused(&result, Code::NoApprover)?,
            false => completed(&result).map(|_| ())?,
        }
    }
    // In yolo mode, a tool's request for approval is allowed. That is the purpose of the mode.
    let mut call = stage.call("free-always", json!({}))?;
    call.mode = Mode::Yolo;
    completed(&gate.settle(call).await).map(|_| ())
}

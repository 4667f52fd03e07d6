//! Scenarios on rehearsals (E5, E6): shown before the commit, committed once, dropped on a no, and repeated if the copy is lost.

use std::fs;
use std::sync::Arc;

use byleave_core::call::Mode;
use byleave_core::decision::Verdict;
use byleave_core::entry::RecordEvent;
use byleave_core::grant::GrantedBy;
use byleave_core::pattern::Pattern;
use byleave_core::question_view::{QuestionView, RehearsalView};
use byleave_core::refusal::Code;
use byleave_gate::approver::{Approver, Reply, callback};
use byleave_gate::settings::GateSettings;
use parking_lot::Mutex;
use serde_json::json;

use super::fixture::{ScenarioContext, completed, kinds, quick, record, refused, rule, yes};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};

/// The question views that a person was shown. Its approver gives scripted answers in order and then says no.
#[derive(Clone, Default)]
struct ShownRehearsals(Arc<Mutex<Vec<QuestionView>>>);

impl ShownRehearsals {
    fn count(&self) -> usize {
        self.0.lock().len()
    }

    fn person(&self, replies: impl IntoIterator<Item = Reply>) -> Arc<dyn Approver> {
        let replies = Mutex::new(replies.into_iter().collect::<std::collections::VecDeque<_>>());
        let shown = self.clone();
        Arc::new(callback("ada", move |sheet| {
            shown.0.lock().push(sheet.clone());
            replies.lock().pop_front().unwrap_or(Reply::No { feedback: None })
        }))
    }
}

// req: E5
pub(super) async fn a_rehearsal_is_shown_and_a_yes_commits_that_very_run(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let gate = stage.gate().await?.tool(tool.clone()).approver(shown.person([yes()])).build()?;
    let path = stage.temp_dir.text("f")?;
    let call = stage.call("copyist", json!({"files": {&*path: "new f"}}))?;
    let result = gate.settle(call.clone()).await;
    completed(&result)?;
    same("the output", &result.to_text().contains("printed on the copy"), &true)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 1, 0))?;
    same("the file", &fs::read_to_string(&path)?, &"new f".to_owned())?;
    let sheets = shown.0.lock().clone();
    let [QuestionView { rehearsal: Some(RehearsalView::Ran { rehearsal, decision: Some(ruling) }), .. }] =
        sheets.as_slice()
    else {
        return Err(ConformanceError::new(format!("shown: {sheets:?}")));
    };
    same("the shown effects", &rehearsal.changes.list.len(), &1)?;
    same("the policy on the effects", &ruling.verdict, &Verdict::Ask)?;

    // A no drops the copy and changes nothing.
    let declined = gate.settle(stage.call("copyist", json!({"files": {&*path: "other"}}))?).await;
    refused(&declined, Code::Declined)?;
    same("the file after a no", &fs::read_to_string(&path)?, &"new f".to_owned())?;
    same("copies kept after a no", &stage.copies.count(), &0)
}

// req: E5
pub(super) async fn what_was_seen_is_judged_by_the_same_rules(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let gate = stage.gate().await?.tool(tool.clone()).approver(shown.person([yes(), yes()])).build()?;
    let denied = stage.temp_dir.text("closed/x")?;
    let result = gate.settle(stage.call("copyist", json!({"files": {&*denied: "x"}}))?).await;
    refused(&result, Code::Denied)?;
    same("asked about a denied call", &shown.count(), &0)?;
    same("copies kept", &stage.copies.count(), &0)?;
    // Permitted writes are shown too, because the command was not understood and changed something.
    let allowed = stage.temp_dir.text("open/x")?;
    completed(&gate.settle(stage.call("copyist", json!({"files": {&*allowed: "x"}}))?).await)?;
    same("asked about a call that changed something", &shown.count(), &1)
}

// req: E5
pub(super) async fn what_did_nothing_on_the_copy_is_not_asked_about(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let gate = stage.gate().await?.tool(tool.clone()).approver(shown.person([])).build()?;
    let call = stage.call("copyist", json!({}))?;
    completed(&gate.settle(call.clone()).await)?;
    same("asked", &shown.count(), &0)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 1, 0))?;
    let record = record(&*stage.ledger().await?, call.id).await?;
    let by = record.entries().iter().find_map(|entry| match &entry.event {
        RecordEvent::Started(Ok(claim)) => Some(claim.granted_by),
        _ => None,
    });
    same("the reason on the record", &by, &Some(GrantedBy::Rehearsal))?;
    // Each of these alone needs a question.
    let cases = [
        ("background", json!({"leaves": 1}), Mode::ConfirmSensitive),
        ("network", json!({"wants": "h.example"}), Mode::ConfirmSensitive),
        ("not rehearsed", json!({"unable": "no overlay here"}), Mode::ConfirmSensitive),
        ("confirm-all", json!({}), Mode::ConfirmAll),
    ];
    for (place, (what, arguments, mode)) in cases.into_iter().enumerate() {
        let mut call = stage.call("copyist", arguments)?;
        call.mode = mode;
        refused(&gate.settle(call).await, Code::Declined)?;
        ensure!(shown.count() == place + 1, "{what} was not asked about");
    }
    let off = GateSettings { rehearsal_may_skip_question: false, ..quick() };
    let asking = stage.gate().await?.tool(tool.clone()).settings(off).approver(shown.person([])).build()?;
    refused(&asking.settle(stage.call("copyist", json!({}))?).await, Code::Declined)?;
    same("asked where it is turned off", &shown.count(), &5)
}

// req: E5
pub(super) async fn what_wanted_the_network_is_run_again_with_those_hosts(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let gate = stage.gate().await?.tool(tool.clone()).approver(shown.person([yes()])).build()?;
    completed(&gate.settle(stage.call("copyist", json!({"wants": "h.example"}))?).await)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(1, 1, 1))?;
    let reached = stage.copies.granted();
    ensure!(reached.contains(&"reach h.example:443".to_owned()), "{reached:?}");
    let deny = rule("no-h", Verdict::Deny, vec![Pattern::Reach("h.example".into())]);
    let strict = stage.gate().await?.policy(stage.policy([deny])?).tool(tool.clone());
    let strict = strict.approver(shown.person([yes()])).build()?;
    refused(&strict.settle(stage.call("copyist", json!({"wants": "h.example"}))?).await, Code::Denied)
}

// req: P1, E9
pub(super) async fn what_an_allowed_run_changed_is_judged(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let (f, g) = (stage.temp_dir.text("f")?, stage.temp_dir.text("g")?);
    let rules = || {
        [
            rule("ask-f", Verdict::Ask, vec![Pattern::Write(f.clone())]),
            rule("no-g", Verdict::Deny, vec![Pattern::Write(g.clone())]),
        ]
    };
    let writes = |path: &str| -> Result<_, ConformanceError> {
        let mut call = stage.call("copyist", json!({"files": {path: "new"}}))?;
        call.mode = Mode::Yolo;
        Ok(call)
    };
    // The mode lets the call run. It does not let it change what nobody could foresee.
    let gate = stage.gate().await?.policy(stage.policy(rules())?).tool(tool.clone());
    let gate = gate.approver(shown.person([yes()])).build()?;
    let call = writes(&f)?;
    completed(&gate.settle(call.clone()).await)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(0, 1, 1))?;
    same("f", &fs::read_to_string(&f)?, &"new".to_owned())?;
    same("asked", &shown.count(), &1)?;
    let kinds = kinds(&record(&*stage.ledger().await?, call.id).await?);
    let observed = kinds.iter().position(|kind| *kind == "observed");
    let asked = kinds.iter().position(|kind| *kind == "asked");
    ensure!(observed.is_some() && observed < asked, "{kinds:?}");
    // A no drops the copy, and so does a deny, about which nobody is asked.
    refused(&gate.settle(writes(&f)?).await, Code::Declined)?;
    refused(&gate.settle(writes(&g)?).await, Code::Denied)?;
    same("asked", &shown.count(), &2)?;
    same("g", &fs::read_to_string(&g)?, &"old g".to_owned())?;
    same("copies", &stage.copies.count(), &0)?;
    // A copy that is gone is not made again: the run may have reached something.
    let lost = Arc::new(callback("ada", {
        let copies = stage.copies.clone();
        move |_| {
            copies.forget();
            yes()
        }
    }));
    let gate = stage.gate().await?.policy(stage.policy(rules())?).tool(tool).approver(lost).build()?;
    refused(&gate.settle(writes(&f)?).await, Code::GrantExpired)
}

// req: E6
pub(super) async fn a_part_of_a_rehearsal_can_be_chosen(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let (f, g) = (stage.temp_dir.text("f")?, stage.temp_dir.text("g")?);
    let part = Reply::Partial { paths: vec![g.clone()], note: Some("only g".into()) };
    let gate = stage.gate().await?.tool(tool.clone()).approver(shown.person([part])).build()?;
    let arguments = json!({"files": {&*f: "new f", &*g: "new g"}});
    completed(&gate.settle(stage.call("copyist", arguments)?).await)?;
    same("f", &fs::read_to_string(&f)?, &"old f".to_owned())?;
    same("g", &fs::read_to_string(&g)?, &"new g".to_owned())?;
    // A call without a rehearsal cannot be approved in part.
    let part = Reply::Partial { paths: vec![g], note: None };
    let gate = stage.gate().await?.tool(tool).approver(shown.person([part])).build()?;
    let result = gate.settle(stage.call("copyist", json!({"unable": "no"}))?).await;
    ensure!(!result.is_success(), "{result:?}");
    Ok(())
}

// req: E5
pub(super) async fn a_copy_that_is_gone_is_made_and_asked_about_again(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let (tool, shown) = (stage.copyist(), ShownRehearsals::default());
    let (copies, again) = (stage.copies.clone(), Mutex::new(true));
    let asked = shown.clone();
    let person = callback("ada", move |sheet| {
        asked.0.lock().push(sheet.clone());
        // The copy is dropped once, while the person decides.
        if std::mem::take(&mut *again.lock()) {
            copies.forget();
        }
        yes()
    });
    let gate = stage.gate().await?.tool(tool.clone()).approver(Arc::new(person)).build()?;
    let path = stage.temp_dir.text("f")?;
    completed(&gate.settle(stage.call("copyist", json!({"files": {&*path: "new f"}}))?).await)?;
    same("asked", &shown.count(), &2)?;
    same("rehearsed, committed, executed", &stage.copies.counts(), &(2, 1, 0))?;
    same("the file", &fs::read_to_string(&path)?, &"new f".to_owned())
}

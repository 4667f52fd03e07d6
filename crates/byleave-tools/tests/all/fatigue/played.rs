//! One call through a real gate with the real `bash`, on the paths of the machine: the decision, the questions, and the outcome.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use byleave_gate::approver::{Reply, callback};
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::policy::Policy;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::session::SessionNode;
use byleave_gate::gate::Gate;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::result::CallOutcome;
use byleave_gate::settings::GateSettings;
use byleave_sandbox::guarantee::Guarantee;
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, builtin_catalog};
use serde_json::Value;

/// A call, and the approver's answer.
pub(crate) struct CallScenario {
    pub(crate) policy: Policy,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) cwd: String,
    pub(crate) agent: String,
    pub(crate) mode: Mode,
    pub(crate) lineage: Vec<SessionNode>,
    pub(crate) says_yes: bool,
    pub(crate) timeout_ms: u64,
}

/// The result of a scenario.
pub(crate) struct ScenarioResult {
    pub(crate) call: CallId,
    /// The verdict of the rules on the text. `None` if it was not evaluated.
    pub(crate) by_text: Option<Verdict>,
    pub(crate) asked: Vec<QuestionView>,
    /// Nobody was asked, because of the rehearsal.
    pub(crate) is_spared: bool,
    pub(crate) ending: CallOutcome,
}

impl ScenarioResult {
    pub(crate) fn ran(&self) -> bool {
        matches!(
            self.ending,
            CallOutcome::Completed(_)
                | CallOutcome::Failed(_)
                | CallOutcome::Withheld(_)
                | CallOutcome::Unknown(_)
        )
    }

    /// Everything that the model receives.
    pub(crate) fn told(&self) -> String {
        match &self.ending {
            CallOutcome::Completed(output) | CallOutcome::Failed(output) => {
                format!("{}{}", output.text, output.error.as_deref().unwrap_or_default())
            }
            other => other.refusal().map(|refusal| refusal.message.clone()).unwrap_or_default(),
        }
    }

    /// Tests whether it failed because a program is not installed.
    pub(crate) fn lacks_a_program(&self) -> bool {
        let lacks = |text: &str| text.contains("command not found") || text.contains("No module named");
        matches!(&self.ending, CallOutcome::Failed(output) if lacks(&output.text))
    }

    /// The questions in one line: the reasons and the observations.
    pub(crate) fn why(&self) -> String {
        let mut why = String::new();
        for sheet in &self.asked {
            let reasons = sheet.decision.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
            let reasons: Vec<String> =
                reasons.map(|reason| format!("{:?}: {}", reason.cause, reason.message)).collect();
            why.push_str(&reasons.join("; "));
            match &sheet.rehearsal {
                None => why.push_str(" [no rehearsal]"),
                Some(RehearsalView::Unavailable { reason: not }) => {
                    why.push_str(&format!(" [not rehearsed: {not}]"))
                }
                Some(RehearsalView::Ran { rehearsal, .. }) => {
                    let paths: Vec<&str> =
                        rehearsal.changes.list.iter().map(|one| one.path.as_str()).take(6).collect();
                    why.push_str(&format!(
                        " [changed {paths:?}, limits {:?}, wanted {:?}, left {}, weaker {:?}, {:?}]",
                        rehearsal.changes.caveats,
                        rehearsal.blocked_hosts,
                        rehearsal.leftover_processes,
                        rehearsal.missing_guarantees,
                        rehearsal.status
                    ));
                }
            }
        }
        why
    }
}

/// Makes a call, with its own gate and copy store.
pub(crate) fn play(play: CallScenario, state: &Path) -> ScenarioResult {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(played(play, state))
}

async fn played(play: CallScenario, state: &Path) -> ScenarioResult {
    fs::create_dir_all(state).unwrap();
    let mut workplace = ExecutionEnv::new(state.join("copies"), "/ws".into());
    workplace.home = Some("/home/u".into());
    workplace.private_paths = vec!["/state".into(), "/supervisor".into()];
    workplace.environment = std::env::vars().collect();
    // Tests have no delegated cgroups.
    workplace.waived = BTreeSet::from([Guarantee::MemoryLimited]);
    let asked = Arc::<Mutex<Vec<QuestionView>>>::default();
    let shown = Arc::clone(&asked);
    let person = callback("ada", move |sheet| {
        shown.lock().unwrap().push(sheet.clone());
        if play.says_yes { Reply::Yes { note: None } } else { Reply::No { feedback: None } }
    });
    let ledger = Arc::new(MemoryLedger::new());
    let gate = Gate::builder()
        .ledger(Arc::clone(&ledger) as _)
        .policy(play.policy)
        .settings(GateSettings { max_timeout_ms: play.timeout_ms, ..GateSettings::default() })
        .catalog(
            builtin_catalog(
                &workplace,
                &BuiltinToolOptions { allow_delete: true, ..BuiltinToolOptions::default() },
            )
            .unwrap(),
        )
        .approver(Arc::new(person))
        .build()
        .unwrap();
    let (id, tenant) = (CallId::new(uuid::Uuid::new_v4()), TenantId::new("local").unwrap());
    let mut session = SessionId::new("s").unwrap();
    for opening in play.lineage.iter().rev() {
        session = opening.session.clone();
        if let Err(fault) = gate.open_session(&tenant, "test", opening.clone()).await {
            let refusal = byleave_gate::core::refusal::Refusal::new(
                byleave_gate::core::refusal::Code::Denied,
                format!("the session is not opened: {fault}"),
            );
            let ending = CallOutcome::Refused(refusal);
            return ScenarioResult { call: id, by_text: None, asked: Vec::new(), is_spared: false, ending };
        }
    }
    let call = Call {
        id,
        tenant,
        session,
        agent: AgentId::new(play.agent).unwrap(),
        tool: play.tool,
        arguments: play.arguments,
        reason: None,
        cwd: play.cwd,
        mode: play.mode,
        dry_run: false,
    };
    let ending = gate.settle(call).await.outcome;
    let record = ledger.load(id).await.unwrap().map(|loaded| loaded.record);
    let draft = record.as_ref().and_then(|record| record.draft());
    let ruling = draft.as_ref().and_then(|draft| draft.decision()).and_then(|step| step.as_ref().ok());
    let by_text = ruling.map(|ruling| ruling.verdict);
    let asked = asked.lock().unwrap().clone();
    let has_run = !matches!(ending, CallOutcome::Refused(_) | CallOutcome::DryRun(_));
    let is_spared = by_text == Some(Verdict::Ask) && asked.is_empty() && has_run;
    ScenarioResult { call: id, by_text, asked, is_spared, ending }
}

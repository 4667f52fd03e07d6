//! Scenarios on sub-agents: none may do what an ancestor may not, whatever it claims about itself.
//!
//! Each case of the corpus on sub-agents is named.

use std::sync::Arc;

use byleave_core::call::{Call, Mode};
use byleave_core::decision::Verdict;
use byleave_core::id::{AgentId, SessionId};
use byleave_core::manifest::{ArgumentRole, PermissionClass};
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::policy::Rule;
use byleave_core::question::{ApproverIdentity as By, Assurance};
use byleave_core::refusal::Code;
use byleave_core::render::render;
use byleave_core::session::{Ceiling, SessionNode};
use serde_json::json;

use super::fixture::{
    ScenarioContext, answer, completed, inbox, refused, rule, settled, tenant, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::callback;
use byleave_gate::gate::{AnswerError, Gate, OpenSessionError, SubmittedAnswer};

fn opening(
    session: &str,
    agent: &str,
    parent: Option<&str>,
    mode: Mode,
) -> Result<SessionNode, ConformanceError> {
    Ok(SessionNode {
        session: SessionId::new(session)?,
        parent: parent.map(SessionId::new).transpose()?,
        agent: AgentId::new(agent)?,
        ceiling: Ceiling::from_mode(mode),
    })
}

async fn open(gate: &Gate, opening: SessionNode) -> Result<(), ConformanceError> {
    Ok(gate.open_session(&tenant()?, "ada", opening).await?)
}

/// Moves a call to a session, an agent and a mode. Most cases use yolo, which a sub-agent would choose for itself.
fn of(session: &str, agent: &str, mode: Mode, call: Call) -> Result<Call, ConformanceError> {
    Ok(Call { session: SessionId::new(session)?, agent: AgentId::new(agent)?, mode, ..call })
}

/// Creates a gate with a command tool and an approver that says yes to everything.
async fn with_bash(stage: &ScenarioContext<'_>) -> Result<Gate, ConformanceError> {
    let bash = stage.probe("bash", |_, _| async { Output::text("ran") }).with(|manifest| {
        manifest.permission_class = PermissionClass::Bash;
        manifest.roles.insert("/command".into(), ArgumentRole::Command);
        manifest.input_schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    });
    Ok(stage.gate().await?.tool(bash).approver(Arc::new(callback("hook", |_| true))).build()?)
}

// corpus: subagent-ignores-parent-deny
pub(super) async fn a_sub_agent_is_bound_by_what_binds_its_parent(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = with_bash(&stage).await?;
    // By a mode: the parent may only plan.
    open(&gate, opening("plan", "planner", None, Mode::ReadOnly)?).await?;
    open(&gate, opening("plan-child", "child", Some("plan"), Mode::Yolo)?).await?;
    // By a rule: the parent may not edit.
    let mut no_edits = rule("no-edits", Verdict::Deny, vec![Pattern::Write("/**".into())]);
    no_edits.when.agent = Some("careful".into());
    gate.set_policy(stage.policy([no_edits])?);
    open(&gate, opening("main", "careful", None, Mode::Yolo)?).await?;
    open(&gate, opening("main-child", "child", Some("main"), Mode::Yolo)?).await?;
    open(&gate, opening("main-grandchild", "child", Some("main-child"), Mode::Yolo)?).await?;
    for session in ["plan", "plan-child", "main-child", "main-grandchild"] {
        let edit = stage.call("edit", json!({"path": "f", "text": "1"}))?;
        refused(&gate.settle(of(session, "child", Mode::Yolo, edit)?).await, Code::Denied)?;
        completed(&gate.settle(of(session, "child", Mode::Yolo, stage.read("f")?)?).await)?;
    }
    same("the executed calls", &stage.run_log.of("edit"), &0)?;
    same("the file", &stage.temp_dir.read("f")?, &"old f".to_owned())?;
    // A session without ancestors has no other limits.
    let edit = stage.call("edit", json!({"path": "f", "text": "1"}))?;
    completed(&gate.settle(of("alone", "child", Mode::Yolo, edit)?).await)?;
    Ok(())
}

// corpus: subagent-own-mode-escalates
pub(super) async fn a_sub_agent_cannot_give_itself_a_mode(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    open(&gate, opening("main", "main", None, Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("bold", "bold", Some("main"), Mode::Yolo)?).await?;
    for session in ["main", "bold"] {
        // The call needs an approval, and there is no approver.
        let call = of(session, "bold", Mode::Yolo, stage.call("ask", json!({}))?)?;
        refused(&gate.settle(call).await, Code::NoApprover)?;
    }
    stage.run_log.nothing("a mode that no ancestor has")?;
    completed(&gate.settle(of("alone", "bold", Mode::Yolo, stage.call("ask", json!({}))?)?).await)?;
    Ok(())
}

// corpus: subagent-type-restriction
pub(super) async fn an_agent_that_is_denied_does_nothing_however_it_is_started(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = with_bash(&stage).await?;
    open(&gate, opening("main", "main", None, Mode::Yolo)?).await?;
    open(&gate, opening("early", "X", Some("main"), Mode::Yolo)?).await?;
    let no_x = rule("no-x", Verdict::Deny, vec![Pattern::Invoke("agent:X".into())]);
    gate.set_policy(stage.policy([no_x])?);
    for parent in [Some("main"), None] {
        let late = gate.open_session(&tenant()?, "ada", opening("late", "X", parent, Mode::Yolo)?).await;
        ensure!(
            matches!(&late, Err(OpenSessionError::Denied { reason: why, .. }) if why.contains("no-x")),
            "{late:?}"
        );
    }
    // Neither does an agent that existed before the rule, under any name.
    for agent in ["X", "innocent"] {
        let call = stage.call("bash", json!({"command": "true"}))?;
        refused(&gate.settle(of("early", agent, Mode::Yolo, call)?).await, Code::Denied)?;
    }
    stage.run_log.nothing("an agent that is denied")
}

// corpus: background-task-hook-allow
pub(super) async fn a_background_task_has_no_fewer_checks(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = with_bash(&stage).await?;
    let mut no_commands = rule("no-background", Verdict::Deny, vec![Pattern::Write("/**".into())]);
    no_commands.when.agent = Some("background*".into());
    gate.set_policy(stage.policy([no_commands])?);
    open(&gate, opening("main", "main", None, Mode::Yolo)?).await?;
    open(&gate, opening("summary", "background-summary", Some("main"), Mode::Yolo)?).await?;
    // A hook that says yes, the mode and another agent name all make no difference.
    for agent in ["background-summary", "main"] {
        let call = stage.call("bash", json!({"command": "touch /tmp/gate-marker"}))?;
        refused(&gate.settle(of("summary", agent, Mode::Yolo, call)?).await, Code::Denied)?;
    }
    stage.run_log.nothing("a background task")
}

// corpus: plan-mode-runs-mutation
pub(super) async fn read_only_means_that_nothing_is_changed(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = with_bash(&stage).await?;
    for command in ["touch x", "echo hi > x", "rm f", "$unknown", "./script.sh"] {
        let call = stage.call("bash", json!({ "command": command }))?;
        refused(&gate.settle(of("s", "agent", Mode::ReadOnly, call)?).await, Code::Denied)?;
    }
    let allowed = of("s", "agent", Mode::ReadOnly, stage.write("open/a", "1")?)?;
    refused(&gate.settle(allowed).await, Code::Denied)?;
    stage.run_log.nothing("in read-only")?;
    completed(&gate.settle(of("s", "agent", Mode::ReadOnly, stage.read("f")?)?).await)?;
    Ok(())
}

pub(super) async fn what_may_only_be_delegated_is_done_by_who_is_named(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.approver(Arc::new(callback("ada", |_| true))).build()?;
    let deploys = rule("deploys", Verdict::Deny, vec![Pattern::Invoke("ask".into())]);
    gate.set_policy(stage.policy([Rule { delegate: Some("deployer".into()), ..deploys }])?);
    open(&gate, opening("main", "main", None, Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("d", "deployer", Some("main"), Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("t", "tester", Some("main"), Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("top", "deployer", None, Mode::ConfirmSensitive)?).await?;
    for (session, agent) in
        [("main", "main"), ("main", "deployer"), ("t", "deployer"), ("top", "deployer"), ("x", "deployer")]
    {
        let call = of(session, agent, Mode::Yolo, stage.call("ask", json!({}))?)?;
        refused(&gate.settle(call).await, Code::Denied)?;
    }
    stage.run_log.nothing("sessions that are not named or have no ancestor")?;
    completed(
        &gate.settle(of("d", "deployer", Mode::ConfirmSensitive, stage.call("ask", json!({}))?)?).await,
    )?;
    Ok(())
}

pub(super) async fn a_question_of_a_sub_agent_says_whose_it_is(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(inbox()).build()?;
    open(&gate, opening("main", "main", None, Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("t", "tester", Some("main"), Mode::Yolo)?).await?;
    let call = of("t", "tester", Mode::Yolo, stage.call("ask", json!({}))?)?;
    let question = waiting(gate.advance(call).await)?;
    // In another process, much later.
    let other = stage.gate().await?.settings(inbox()).build()?;
    let sheet = other.question_view(question.id).await?;
    let shown = render(&sheet).lines.iter().map(|line| line.text.clone()).collect::<Vec<_>>().join("\n");
    ensure!(
        shown.contains("Asked by sub-agent “tester” of “main”"),
        "the question does not name the agent: {shown}"
    );
    // Neither the asking agent nor an ancestor may answer.
    for name in ["tester", "main"] {
        let by = By { name: name.into(), assurance: Assurance::Program };
        let given =
            SubmittedAnswer { question: question.id, digest: question.digest(), reply: yes(), approver: by };
        let own = other.answer(given).await;
        ensure!(matches!(own, Err(AnswerError::SelfAnswer)), "{name}: {own:?}");
    }
    let call = answer(&other, &question, yes()).await?;
    completed(&settled(other.resume(call).await)?)?;
    Ok(())
}

pub(super) async fn a_place_in_the_tree_never_changes(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.build()?;
    let tenant = tenant()?;
    let try_open = async |opening: SessionNode| gate.open_session(&tenant, "ada", opening).await;
    let orphan = try_open(opening("child", "c", Some("main"), Mode::Yolo)?).await;
    ensure!(matches!(orphan, Err(OpenSessionError::UnknownParent { .. })), "{orphan:?}");
    let own = try_open(opening("child", "c", Some("child"), Mode::Yolo)?).await;
    ensure!(matches!(own, Err(OpenSessionError::CircularParent(_))), "{own:?}");
    open(&gate, opening("main", "main", None, Mode::ConfirmSensitive)?).await?;
    open(&gate, opening("child", "c", Some("main"), Mode::Yolo)?).await?;
    // Opening the session again with the same properties has no effect. Any difference is refused.
    open(&gate, opening("child", "c", Some("main"), Mode::Yolo)?).await?;
    for other in [
        opening("child", "c", None, Mode::Yolo)?,
        opening("child", "d", Some("main"), Mode::Yolo)?,
        opening("main", "main", Some("child"), Mode::ConfirmSensitive)?,
        opening("main", "main", None, Mode::Yolo)?,
    ] {
        let again = try_open(other).await;
        ensure!(matches!(again, Err(OpenSessionError::OpenedDifferently { .. })), "{again:?}");
    }
    let mut parent = "child".to_owned();
    for depth in 0..14 {
        let name = format!("deep-{depth}");
        open(&gate, opening(&name, "c", Some(&parent), Mode::Yolo)?).await?;
        parent = name;
    }
    let deeper = try_open(opening("deeper", "c", Some(&parent), Mode::Yolo)?).await;
    ensure!(matches!(deeper, Err(OpenSessionError::TooDeep(_))), "{deeper:?}");
    Ok(())
}

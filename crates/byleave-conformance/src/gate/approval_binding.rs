//! Scenarios on the binding of an approval: any change between the answer and the execution is detected.

use std::fs;

use byleave_core::decision::Verdict;
use byleave_core::entry::Limits;
use byleave_core::id::{CallId, QuestionId, StandingApprovalId};
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::question::{ApproverIdentity as By, Assurance, Question};
use byleave_core::refusal::Code;
use byleave_core::standing_approval::StandingApproval;
use serde_json::json;

use super::faulty_ledger::FaultyLedger;
use super::fixture::{
    ScenarioContext, ada, answer, completed, inbox, refused, rule, settled, tenant, waiting, yes,
};
use crate::ledger::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::approver::Reply;
use byleave_gate::clock::fresh_id;
use byleave_gate::gate::{AnswerError, Gate, SubmittedAnswer};
use byleave_gate::review::hold_reviewer;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::Tool;

const GRANT_MS: u64 = 60_000;

fn settings() -> GateSettings {
    GateSettings { limits: Limits { grant_lifetime_ms: GRANT_MS, ..Limits::default() }, ..inbox() }
}

/// A change of the environment between the answer and the execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnvironmentChange {
    Manifest,
    Unregistered,
    Directory,
    DirectoryGone,
    Content,
    ContentGone,
    Denied,
    Asked,
    Expired,
    Halted,
    Arguments,
}

const CHANGES: [(EnvironmentChange, Code); 11] = [
    (EnvironmentChange::Manifest, Code::ManifestChanged),
    (EnvironmentChange::Unregistered, Code::ManifestChanged),
    (EnvironmentChange::Directory, Code::DirectoryChanged),
    (EnvironmentChange::DirectoryGone, Code::DirectoryChanged),
    (EnvironmentChange::Content, Code::ContentChanged),
    (EnvironmentChange::ContentGone, Code::ContentChanged),
    (EnvironmentChange::Denied, Code::PolicyStricter),
    (EnvironmentChange::Asked, Code::PolicyStricter),
    (EnvironmentChange::Expired, Code::GrantExpired),
    (EnvironmentChange::Halted, Code::Halted),
    (EnvironmentChange::Arguments, Code::ArgumentsChanged),
];

async fn change(
    stage: &ScenarioContext<'_>,
    gate: &Gate,
    between: &FaultyLedger,
    change: EnvironmentChange,
) -> Result<(), ConformanceError> {
    let work = stage.temp_dir.path("open/work");
    match change {
        EnvironmentChange::Manifest => {
            let other = stage.probe("edit", |_, _| async { Output::text("another") });
            ensure!(gate.catalog().replace(other)?.is_some(), "there was no tool to replace");
        }
        EnvironmentChange::Unregistered => drop(gate.catalog().unregister("edit")?),
        EnvironmentChange::Directory => {
            fs::rename(&work, stage.temp_dir.path("open/away"))?;
            fs::create_dir(&work)?;
            fs::write(work.join("f"), "old")?;
        }
        EnvironmentChange::DirectoryGone => fs::rename(&work, stage.temp_dir.path("open/away"))?,
        EnvironmentChange::Content => fs::write(work.join("f"), "changed meanwhile")?,
        EnvironmentChange::ContentGone => fs::remove_file(work.join("f"))?,
        EnvironmentChange::Denied => gate.set_policy(stage.policy([about_work(stage, Verdict::Deny)?])?),
        EnvironmentChange::Asked => gate.set_policy(stage.policy([about_work(stage, Verdict::Ask)?])?),
        EnvironmentChange::Expired => stage.clock.advance(GRANT_MS + 1),
        EnvironmentChange::Halted => gate.halt(&tenant()?, "ada", "enough for today").await?,
        EnvironmentChange::Arguments => between.lie(),
    }
    Ok(())
}

fn about_work(
    stage: &ScenarioContext<'_>,
    verdict: Verdict,
) -> Result<byleave_core::policy::Rule, ConformanceError> {
    let glob = format!("{}/open/work/**", stage.temp_dir.text("")?);
    Ok(rule("work", verdict, vec![Pattern::Write(glob)]))
}

/// Makes an allowed call that a reviewer holds for a person, and that edits a file in its own directory.
async fn approved(stage: &ScenarioContext<'_>, gate: &Gate) -> Result<(CallId, Question), ConformanceError> {
    let work = stage.temp_dir.path("open/work");
    if !work.exists() {
        fs::create_dir(&work)?;
        fs::write(work.join("f"), "old")?;
    }
    let mut call = stage.call("edit", json!({"path": "f", "text": "opened"}))?;
    call.cwd = stage.temp_dir.text("open/work")?;
    let id = call.id;
    let question = waiting(gate.advance(call).await)?;
    answer(gate, &question, yes()).await?;
    Ok((id, question))
}

// req: E1, P9
pub(super) async fn what_was_approved_is_what_runs(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for (what, code) in CHANGES {
        let stage = ScenarioContext::new(bench)?;
        let between = FaultyLedger::failing(stage.ledger().await?, None);
        let build = || -> Result<Gate, ConformanceError> {
            let builder = stage.gate_on(between.clone())?.settings(settings());
            Ok(builder.review_input("edit", hold_reviewer("someone should look")).build()?)
        };
        let gate = build()?;
        let (call, _) = approved(&stage, &gate).await?;
        change(&stage, &gate, &between, what).await?;
        let result = settled(gate.resume(call).await)?;
        refused(&result, code)
            .map_err(|flaw| ConformanceError::new(format!("{what:?}: {}", flaw.message())))?;
        stage.run_log.nothing(format!("{what:?}"))?;
        if what == EnvironmentChange::Halted {
            gate.lift(&tenant()?, "ada").await?;
        }
        same("the same again", &settled(gate.resume(call).await)?, &result)?;
        stage.run_log.nothing(format!("{what:?}, again"))?;
    }
    Ok(())
}

// req: E1
pub(super) async fn what_became_looser_voids_nothing(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    for what in ["nothing", "a looser policy", "a new standing approval", "a read file", "almost too late"] {
        let stage = ScenarioContext::new(bench)?;
        let gate = stage.gate().await?.settings(settings()).build()?;
        let call = stage.write("f", "1")?;
        let id = call.id;
        let question = waiting(gate.advance(call).await)?;
        let glob = stage.temp_dir.text("f")?;
        match what {
            "a looser policy" => {
                answer(&gate, &question, yes()).await?;
                let looser = rule("f", Verdict::Allow, vec![Pattern::Write(glob)]);
                gate.set_policy(stage.policy([looser])?);
            }
            "a new standing approval" => {
                let scope = vec![Pattern::Write(glob)];
                let id = StandingApprovalId::new(fresh_id());
                let leave = StandingApproval {
                    id,
                    tool: "write".into(),
                    scope,
                    session: None,
                    expires_at: None,
                    max_uses: Some(1),
                };
                answer(&gate, &question, Reply::StandingApproval(leave)).await?;
            }
            "a read file" => {
                answer(&gate, &question, yes()).await?;
                // The tool writes the file and does not edit it, so the old contents do not matter.
                fs::write(stage.temp_dir.path("f"), "other")?;
            }
            "almost too late" => {
                answer(&gate, &question, yes()).await?;
                stage.clock.advance(GRANT_MS);
            }
            _ => drop(answer(&gate, &question, yes()).await?),
        }
        completed(&settled(gate.resume(id).await)?)
            .map_err(|flaw| ConformanceError::new(format!("{what}: {}", flaw.message())))?;
        same(what, &stage.run_log.count(), &1)?;
    }
    Ok(())
}

// req: R5
pub(super) async fn an_answer_is_for_one_question_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(settings()).build()?;
    let (one, two) = (stage.write("f", "1")?, stage.write("g", "1")?);
    let id = one.id;
    let (mine, other) = (waiting(gate.advance(one).await)?, waiting(gate.advance(two).await)?);
    let given = |question: QuestionId, of: &Question, by| SubmittedAnswer {
        question,
        digest: of.digest(),
        reply: yes(),
        approver: by,
    };
    let agent = By { name: "agent".into(), assurance: Assurance::Program };
    let nobody = QuestionId::new(fresh_id());
    let mismatch = gate.answer(given(mine.id, &other, ada())).await;
    ensure!(matches!(mismatch, Err(AnswerError::Mismatch)), "another's digest: {mismatch:?}");
    let unknown = gate.answer(given(nobody, &mine, ada())).await;
    ensure!(matches!(unknown, Err(AnswerError::UnknownQuestion(_))), "no question: {unknown:?}");
    let own = gate.answer(given(mine.id, &mine, agent)).await;
    ensure!(matches!(own, Err(AnswerError::SelfAnswer)), "its own: {own:?}");
    stage.run_log.nothing("answers that do not count")?;

    same("the call", &answer(&gate, &mine, yes()).await?, &id)?;
    let twice = answer(&gate, &mine, Reply::No { feedback: None }).await;
    ensure!(matches!(twice, Err(AnswerError::QuestionClosed)), "a second answer: {twice:?}");
    completed(&settled(gate.resume(id).await)?)?;
    let after = answer(&gate, &mine, yes()).await;
    ensure!(matches!(after, Err(AnswerError::QuestionClosed)), "after the end: {after:?}");
    same("runs", &stage.run_log.count(), &1)?;

    stage.clock.advance(Limits::default().question_timeout_ms + 1);
    let late = answer(&gate, &other, yes()).await;
    ensure!(matches!(late, Err(AnswerError::QuestionClosed)), "too late: {late:?}");
    let standings = gate.resume_all().await?;
    let [standing] = standings.as_slice() else {
        return Err(ConformanceError::new(format!("{standings:?}")));
    };
    refused(&settled(standing.clone())?, Code::Unanswered)?;
    same("runs", &stage.run_log.count(), &1)
}

// req: E1
pub(super) async fn a_grant_is_used_once(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gates = [
        stage.gate().await?.settings(settings()).build()?,
        stage.gate().await?.settings(settings()).build()?,
    ];
    let [one, two] = &gates;
    for round in 0..8 {
        let call = stage.write("f", "1")?;
        let id = call.id;
        let question = waiting(one.advance(call).await)?;
        answer(two, &question, yes()).await?;
        let (here, there) = tokio::join!(one.resume(id), two.resume(id));
        let again = settled(two.resume(id).await);
        let result = match again {
            Ok(result) => result,
            Err(_) => settled(one.resume(id).await)?,
        };
        completed(&result)?;
        for standing in [here, there] {
            if let Ok(other) = settled(standing) {
                same("the same result", &other.outcome, &result.outcome)?;
            }
        }
        same("runs", &stage.run_log.count(), &(round + 1))?;
    }
    Ok(())
}

/// A tool may be replaced by one with the same manifest. For the approver it is the same tool.
pub(super) async fn the_same_manifest_is_the_same_tool(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let stage = ScenarioContext::new(bench)?;
    let gate = stage.gate().await?.settings(settings()).build()?;
    let call = stage.call("ask", json!({}))?;
    let id = call.id;
    let question = waiting(gate.advance(call).await)?;
    answer(&gate, &question, yes()).await?;
    let same_again = stage.probe("ask", |_, _| async { Output::text("the new one") });
    let before = gate.catalog().get("ask")?.digest();
    same("the digest", &same_again.manifest().digest(), &before)?;
    gate.catalog().replace(same_again)?;
    same("the output", &completed(&settled(gate.resume(id).await)?)?.text.as_str(), &"the new one")?;
    Ok(())
}

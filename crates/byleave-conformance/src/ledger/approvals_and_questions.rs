//! Cases on standing approvals, questions, and calls that wait for them.

use std::sync::Arc;

use byleave_core::admin_action::AdminActionKind;
use byleave_core::call::Millis;
use byleave_core::effect::{Effect, Plan};
use byleave_core::entry::RecordEvent;
use byleave_core::id::{CallId, QuestionId, SessionId, StandingApprovalId, TenantId};
use byleave_core::pattern::Pattern;
use byleave_core::pipeline::{NextStep, Task, next_step};
use byleave_core::question::Answer;
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use super::record_script::{
    CLOSINGS, CallScript, NOW, QUESTION_MS, ScriptSettings, admin_action, grant_approval, standing_approval,
};
use super::{ConformanceError, LedgerHarness, ensure, same};
use byleave_gate::ledger::{AppendError, IncomingCall, LoadedRecord, StartBlockedError};

pub(super) async fn leaves_come_from_answers(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new("local")?;
    let given = StandingApproval {
        scope: vec![Pattern::Write("/w/**".into())],
        session: Some(SessionId::new("s")?),
        expires_at: Some(NOW + 1),
        max_uses: Some(3),
        ..standing_approval()
    };
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    one.append(script.batch()).await?;
    ensure!(
        one.standing_approvals(&tenant, &given.tool, NOW).await?.is_empty(),
        "a standing approval before the answer"
    );
    script.answer(Answer::StandingApproval(given.clone()))?;
    one.append(script.batch()).await?;
    for ledger in [&one, &two] {
        let leaves = ledger.standing_approvals(&tenant, &given.tool, NOW).await?;
        same("the standing approval", &leaves, &vec![Arc::new(given.clone())])?;
    }
    // The call that the approval was given for runs on the answer and does not use up a use.
    script.start(one.owner())?;
    one.append(script.batch()).await?;
    for left in [2_usize, 1, 0] {
        let mut use_it = CallScript::beginning(ScriptSettings::with_approval(&given), one.owner())?;
        one.append(use_it.batch()).await?;
        let listed = two.standing_approvals(&tenant, &given.tool, NOW).await?.len();
        same(&format!("listed with {left} uses left"), &listed, &left.min(1))?;
    }
    let mut yes = CallScript::waiting(ScriptSettings { session: "yes", ..ScriptSettings::asking() })?;
    one.append(yes.batch()).await?;
    yes.answer(Answer::Yes { note: None })?;
    one.append(yes.batch()).await?;
    ensure!(
        one.standing_approvals(&tenant, &given.tool, NOW).await?.is_empty(),
        "a standing approval from a plain yes"
    );
    Ok(())
}

pub(super) async fn leaves_keep_to_tool_tenant_and_time(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let endless = standing_approval();
    let short = StandingApproval { expires_at: Some(NOW + 10), ..standing_approval() };
    let other_tool = StandingApproval { tool: "u".into(), ..standing_approval() };
    let other_tenant = standing_approval();
    for (tenant, leave) in
        [("local", &endless), ("local", &short), ("local", &other_tool), ("other", &other_tenant)]
    {
        grant_approval(&*ledger, ScriptSettings { tenant, ..ScriptSettings::default() }, leave).await?;
    }
    let checks: [(&str, &str, Millis, &[&StandingApproval]); 6] = [
        ("local", "t", NOW, &[&endless, &short]),
        ("local", "t", NOW + 9, &[&endless, &short]),
        ("local", "t", NOW + 10, &[&endless]),
        ("local", "u", NOW, &[&other_tool]),
        ("other", "t", NOW, &[&other_tenant]),
        ("nobody", "t", NOW, &[]),
    ];
    for (tenant, tool, now, wanted) in checks {
        let leaves = ledger.standing_approvals(&TenantId::new(tenant)?, tool, now).await?;
        let mut seen: Vec<StandingApprovalId> = leaves.iter().map(|leave| leave.id).collect();
        let mut wanted: Vec<StandingApprovalId> = wanted.iter().map(|leave| leave.id).collect();
        seen.sort_unstable();
        wanted.sort_unstable();
        same(&format!("standing approvals of {tenant} for {tool} at {now}"), &seen, &wanted)?;
    }
    Ok(())
}

pub(super) async fn a_leave_cannot_be_renewed_under_its_id(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let tenant = TenantId::new("local")?;
    let once = StandingApproval { max_uses: Some(1), ..standing_approval() };
    let revoked = standing_approval();
    grant_approval(&*ledger, ScriptSettings::default(), &once).await?;
    ledger
        .append(CallScript::beginning(ScriptSettings::with_approval(&once), ledger.owner())?.batch())
        .await?;
    grant_approval(&*ledger, ScriptSettings::default(), &revoked).await?;
    admin_action(&*ledger, "local", AdminActionKind::Revoke { standing_approval: revoked.id }).await?;

    for leave in [once, revoked] {
        grant_approval(
            &*ledger,
            ScriptSettings::default(),
            &StandingApproval { max_uses: Some(9), ..leave.clone() },
        )
        .await?;
        ensure!(
            ledger.standing_approvals(&tenant, &leave.tool, NOW).await?.is_empty(),
            "given again, it is listed"
        );
        let again = CallScript::beginning(ScriptSettings::with_approval(&leave), ledger.owner())?.batch();
        let again = ledger.append(again).await;
        ensure!(
            matches!(again, Err(AppendError::StartBlocked(StartBlockedError::ApprovalUsedUp))),
            "given again, it is used: {again:?}"
        );
    }
    Ok(())
}

pub(super) async fn a_question_leads_to_its_call(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::asking())?;
    let question = script.ask()?.id;
    same("before it is asked", &one.call_for_question(question).await?, &None)?;
    one.append(script.batch()).await?;
    same("open", &two.call_for_question(question).await?, &Some(script.call()))?;
    script.answer(Answer::Yes { note: None })?;
    one.append(script.batch()).await?;
    same("answered", &two.call_for_question(question).await?, &Some(script.call()))?;
    same("never asked", &two.call_for_question(QuestionId::new(Uuid::now_v7())).await?, &None)
}

pub(super) async fn waiting_calls_hold_up_what_conflicts(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let write = |path: &str| Effect::Write { path: path.into() };
    let read = |path: &str| Effect::Read { path: path.into() };
    let setting = ScriptSettings { effects: vec![write("/w/a"), read("/w/b")], ..ScriptSettings::asking() };
    let mut script = CallScript::waiting(setting)?;
    one.append(script.batch()).await?;
    let stranger = CallId::new(Uuid::now_v7());
    let waits = Some(script.call());
    let unknown = Effect::Unknown { reason: "x".into() };
    let checks = [
        ("local", "s", stranger, vec![write("/w/a")], waits),
        ("local", "s", stranger, vec![read("/w/z"), read("/w/a/x")], waits),
        ("local", "s", stranger, vec![unknown], waits),
        ("local", "s", stranger, vec![read("/w/b")], None),
        ("local", "s", stranger, vec![write("/w/c")], None),
        ("local", "s", stranger, vec![], None),
        ("local", "s", script.call(), vec![write("/w/a")], None),
        ("local", "other", stranger, vec![write("/w/a")], None),
        ("other", "s", stranger, vec![write("/w/a")], None),
    ];
    for (tenant, session, call, effects, wanted) in checks {
        let what = format!("{tenant}/{session}, {effects:?}");
        let plan = Plan { effects, ..Plan::default() };
        let (tenant, session) = (TenantId::new(tenant)?, SessionId::new(session)?);
        same(&what, &two.blocking_call(&tenant, &session, call, &plan, &[]).await?, &wanted)?;
    }
    Ok(())
}

pub(super) async fn who_comes_in_is_shown_what_every_look_shows(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let stranger = CallId::new(Uuid::now_v7());
    let mut waiting = CallScript::waiting(ScriptSettings::asking())?;
    let known = waiting.call();
    let given = StandingApproval { tool: "u".into(), ..standing_approval() };
    for step in 0..4 {
        match step {
            1 => one.append(waiting.batch()).await?,
            2 => {
                grant_approval(
                    &*one,
                    ScriptSettings { session: "elsewhere", ..ScriptSettings::default() },
                    &given,
                )
                .await?
            }
            3 => admin_action(&*one, "local", AdminActionKind::Halt { reason: "enough".into() }).await?,
            _ => {}
        }
        for (ledger, tenant, call) in [
            (&one, "local", stranger),
            (&two, "local", stranger),
            (&two, "local", known),
            (&two, "other", known),
        ] {
            for (session, tool) in [("s", "t"), ("s", "u"), ("calm", "u")] {
                let what = format!("step {step}, {tenant}/{session}, {tool}");
                let (tenant, session) = (TenantId::new(tenant)?, SessionId::new(session)?);
                let comer = IncomingCall { call, tenant: &tenant, session: &session, tool, now: NOW };
                let arrival = ledger.lookup_incoming(comer).await?;
                let len = |loaded: Option<LoadedRecord>| loaded.map(|loaded| loaded.record.len());
                same(&what, &len(arrival.record), &len(ledger.load(call).await?))?;
                let Some(around) = arrival.session_context else { continue };
                same(
                    &what,
                    &around.standing_approvals,
                    &ledger.standing_approvals(&tenant, tool, NOW).await?,
                )?;
                same(&what, &around.halt, &ledger.active_halt(&tenant).await?)?;
                let by = ledger.blocking_call(&tenant, &session, stranger, &waiting.plan(), &[]).await?;
                ensure!(around.has_pending_calls || by.is_none(), "{what}: someone is in the way unseen");
            }
        }
    }
    Ok(())
}

pub(super) async fn what_was_asked_about_holds_up_until_it_has_ended(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let stranger = CallId::new(Uuid::now_v7());
    for (what, close) in CLOSINGS {
        let mut script = CallScript::waiting(ScriptSettings::asking())?;
        let (tenant, session) = (script.tenant().clone(), script.session().clone());
        let plan = script.plan();
        let held_up_by = || ledger.blocking_call(&tenant, &session, stranger, &plan, &[]);
        let holds = Some(script.call());
        ledger.append(script.batch()).await?;
        same(&format!("before {what}"), &held_up_by().await?, &holds)?;
        let passed_over = ledger.blocking_call(&tenant, &session, stranger, &plan, &[script.call()]);
        same(&format!("passed over before {what}"), &passed_over.await?, &None)?;
        close(&mut script)?;
        ledger.append(script.batch()).await?;
        // The call has not run yet, so a call that passed now would come before it.
        same(&format!("after {what}"), &held_up_by().await?, &holds)?;
        match next_step(&script.record) {
            NextStep::Do(Task::Start(_)) => {
                script.start(ledger.owner())?;
                ledger.append(script.batch()).await?;
                same(&format!("begun after {what}"), &held_up_by().await?, &holds)?;
                script.end()?;
            }
            NextStep::Settle(_) => script.settle()?,
            _ => {
                script.push(RecordEvent::Cancelled { actor: "ada".into() })?;
                script.settle()?;
            }
        }
        ledger.append(script.batch()).await?;
        same(&format!("ended after {what}"), &held_up_by().await?, &None)?;
    }
    Ok(())
}

pub(super) async fn what_can_be_driven_is_listed_oldest_first(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut calls = Vec::new();
    for age in 0..5 {
        let setting =
            ScriptSettings { received_at: NOW + age * 1_000, exclusive: false, ..ScriptSettings::default() };
        let mut script = CallScript::ready(setting)?;
        ledger.append(script.batch()).await?;
        calls.push(script);
    }
    let ids = |calls: &[CallScript]| calls.iter().map(CallScript::call).collect::<Vec<_>>();
    same("all", &ledger.resumable_calls(NOW, 10).await?, &ids(&calls))?;
    let (oldest, _) = calls.split_at(2);
    same("the oldest two", &ledger.resumable_calls(NOW, 2).await?, &ids(oldest))?;
    same("none", &ledger.resumable_calls(NOW, 0).await?, &Vec::new())?;
    let mut middle = calls.remove(2);
    middle.start(ledger.owner())?;
    middle.end()?;
    middle.settle()?;
    ledger.append(middle.batch()).await?;
    same("without the settled one", &ledger.resumable_calls(NOW, 10).await?, &ids(&calls))?;
    // A running call is not settled. Driving it finds out whether it still runs.
    let [first, ..] = calls.as_mut_slice() else { return Err(ConformanceError::new("no calls")) };
    first.start(ledger.owner())?;
    ledger.append(first.batch()).await?;
    same("with one running", &ledger.resumable_calls(NOW, 10).await?, &ids(&calls))
}

pub(super) async fn what_waits_is_driven_once_its_time_is_over(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut older = CallScript::waiting(ScriptSettings::asking())?;
    ledger.append(older.batch()).await?;
    let mut younger =
        CallScript::ready(ScriptSettings { received_at: NOW + 1_000, ..ScriptSettings::default() })?;
    ledger.append(younger.batch()).await?;
    let expires_at = NOW + QUESTION_MS;
    let both = vec![older.call(), younger.call()];
    same("while it waits", &ledger.resumable_calls(expires_at - 1, 10).await?, &vec![younger.call()])?;
    same("once it expired", &ledger.resumable_calls(expires_at, 10).await?, &both)?;
    same("the oldest", &ledger.resumable_calls(expires_at, 1).await?, &vec![older.call()])?;
    older.answer(Answer::Yes { note: None })?;
    ledger.append(older.batch()).await?;
    same("once it was answered", &ledger.resumable_calls(NOW, 10).await?, &both)
}

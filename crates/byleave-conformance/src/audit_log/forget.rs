//! Cases for erasure: the contents are permanently gone, and every decision is still there.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::digest::ContentRef;
use byleave_core::id::CallId;
use byleave_core::question::Answer;
use uuid::Uuid;

use super::{AuditLogHarness, OpenedStore};
use crate::ledger::record_script::{CallScript, NOW, ScriptSettings, standing_approval};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::audit_log::{CallFilter, CallState, EraseReport, PageRequest, QuestionFilter};
use byleave_gate::ledger::ContentError;

pub(super) async fn forgetting_takes_the_contents_and_leaves_the_record(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut other = CallScript::ready(ScriptSettings { session: "r", ..ScriptSettings::default() })?;
    one.append(&mut other).await?;
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    let held = script.content_ref(b"to be forgotten");
    one.append(&mut script).await?;
    let given = standing_approval();
    script.answer(Answer::StandingApproval(given.clone()))?;
    one.finish(&mut script).await?;
    one.audit_log.seal().await?;
    let lines = one.stored_call(script.call()).await?.chained_entries;
    let leaves = one.audit_log.list_standing_approvals(script.tenant(), NOW).await?;

    let act = forget(&two, script.call(), NOW + 5).await?.action;
    let wanted = AdminAction {
        id: act.id,
        at: NOW + 5,
        tenant: script.tenant().clone(),
        actor: "eve".into(),
        kind: AdminActionKind::Forget { call: script.call() },
    };
    same("the admin action", &act, &wanted)?;
    for opened in [&one, &two] {
        is_forgotten(opened, &script, held).await?;
        same("its lines", &opened.stored_call(script.call()).await?.chained_entries, &lines)?;
        same("the admin actions", &opened.audit_log.admin_actions().await?, &vec![act.clone()])?;
        same(
            "the standing approvals",
            &opened.audit_log.list_standing_approvals(script.tenant(), NOW).await?,
            &leaves,
        )?;
        let kept = opened.stored_call(other.call()).await?;
        same("another's listing", &kept.call_summary, &Some(other.call_summary().clone()))?;
        ensure!(!kept.forgotten, "another was forgotten too");
        ensure!(!opened.audit_log.contents(other.call()).await?.is_empty(), "another's contents are gone");
        opened.check_intact("once it was forgotten").await?;
    }
    one.audit_log.seal().await?;
    one.check_intact("sealed again,").await
}

pub(super) async fn what_goes_on_after_it_was_forgotten_stays_forgotten(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let early = script.content_ref(b"early");
    script.start(one.ledger.owner())?;
    one.append(&mut script).await?;
    forget(&two, script.call(), NOW).await?;
    // The running process still knows the call's summary, and records the end.
    let late = script.end()?;
    script.settle()?;
    one.append(&mut script).await?;
    for opened in [&one, &two] {
        for held in [early, late] {
            is_forgotten(opened, &script, held).await?;
        }
        opened.check_intact("once it was over").await?;
    }
    one.audit_log.rebuild().await?;
    is_forgotten(&one, &script, late).await
}

pub(super) async fn what_was_forgotten_while_it_waits_can_still_be_closed(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    let held = script.content_ref(b"to be forgotten");
    opened.append(&mut script).await?;
    forget(&opened, script.call(), NOW).await?;
    is_forgotten(&opened, &script, held).await?;
    let asked = opened.audit_log.questions(QuestionFilter::default(), PageRequest::with_limit(9)).await?;
    let asked: Vec<_> = asked.iter().map(|item| (item.call, item.call_summary.summary.as_str())).collect();
    same("the open questions", &asked, &vec![(script.call(), "")])?;

    script.answer(Answer::No { feedback: None })?;
    script.settle()?;
    opened.append(&mut script).await?;
    is_forgotten(&opened, &script, held).await?;
    let asked = opened.audit_log.questions(QuestionFilter::default(), PageRequest::with_limit(9)).await?;
    ensure!(asked.is_empty(), "the call still waits: {asked:?}");
    let settled = CallFilter { state: Some(CallState::Settled), ..CallFilter::default() };
    same("settled", &opened.audit_log.calls(settled, PageRequest::with_limit(9)).await?.len(), &1)?;
    opened.check_intact("once it was closed").await
}

pub(super) async fn forgetting_again_does_no_harm(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let held = script.content_ref(b"to be forgotten");
    opened.finish(&mut script).await?;
    let first = forget(&opened, script.call(), NOW).await?.action;
    opened.audit_log.seal().await?;
    let second = forget(&opened, script.call(), NOW + 1).await?.action;
    is_forgotten(&opened, &script, held).await?;
    same("the admin actions", &opened.audit_log.admin_actions().await?, &vec![first, second])?;
    opened.check_intact("forgotten twice,").await
}

pub(super) async fn what_never_was_is_not_forgotten(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let never = CallId::new(Uuid::now_v7());
    let forgotten = opened.audit_log.forget(never, "eve".into(), NOW).await?;
    ensure!(forgotten.is_none(), "a call that never was is forgotten: {forgotten:?}");
    same("the admin actions", &opened.audit_log.admin_actions().await?, &Vec::new())
}

async fn forget(opened: &OpenedStore, call: CallId, at: u64) -> Result<EraseReport, ConformanceError> {
    let forgotten = opened.audit_log.forget(call, "eve".into(), at).await?;
    forgotten.ok_or_else(|| ConformanceError::new("there is no such call to forget"))
}

/// Checks that only the record of a call is left.
async fn is_forgotten(
    opened: &OpenedStore,
    script: &CallScript,
    held: ContentRef,
) -> Result<(), ConformanceError> {
    let call = script.call();
    let content = opened.ledger.content(call, held).await;
    ensure!(matches!(content, Err(ContentError::Forgotten)), "expected a forgotten content: {content:?}");
    same("its contents", &opened.audit_log.contents(call).await?, &Vec::new())?;
    let kept = opened.stored_call(call).await?;
    ensure!(kept.forgotten, "the audit log does not show that the call was forgotten");
    same("its record", &kept.record, &script.record)?;
    same("its damage", &kept.record.damage(), &None)?;
    let summary = kept.call_summary.map(|listing| listing.summary);
    same("its summary", &summary, &Some(String::new()))?;
    let listed = opened.audit_log.calls(CallFilter::default(), PageRequest::with_limit(100)).await?;
    let item = listed.into_iter().find(|item| item.call == call);
    let summary =
        item.ok_or_else(|| ConformanceError::new("the call is no longer listed"))?.call_summary.summary;
    same("its summary in the list", &summary, &String::new())
}

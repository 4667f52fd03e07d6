//! Cases for erasure: the contents are permanently gone, and every decision is still there.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::digest::ContentRef;
use byleave_core::id::CallId;
use byleave_core::question::Answer;
use uuid::Uuid;

use super::{AuditLogHarness, OpenedStore};
use crate::audit_log::{CallFilter, CallState, EraseReport, PageRequest, QuestionFilter};
use crate::ledger::ContentError;
use crate::ledger::conformance::record_script::{CallScript, NOW, ScriptSettings, leave};
use crate::ledger::conformance::{ConformanceError, ensure, same};

pub(super) async fn forgetting_takes_the_contents_and_leaves_the_record(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut other = CallScript::ready(ScriptSettings { session: "r", ..ScriptSettings::default() })?;
    one.append(&mut other).await?;
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    let held = script.hold(b"to be forgotten");
    one.append(&mut script).await?;
    let given = leave();
    script.answer(Answer::Leave(given.clone()))?;
    one.finish(&mut script).await?;
    one.book.seal().await?;
    let lines = one.kept(script.call()).await?.lines;
    let leaves = one.book.leaves_given(script.tenant(), NOW).await?;

    let act = forget(&two, script.call(), NOW + 5).await?.act;
    let wanted = AdminAction {
        id: act.id,
        at: NOW + 5,
        tenant: script.tenant().clone(),
        by: "eve".into(),
        deed: AdminActionKind::Forget { call: script.call() },
    };
    same("the act", &act, &wanted)?;
    for opened in [&one, &two] {
        is_forgotten(opened, &script, held).await?;
        same("its lines", &opened.kept(script.call()).await?.lines, &lines)?;
        same("the acts", &opened.book.acts().await?, &vec![act.clone()])?;
        same("the leaves", &opened.book.leaves_given(script.tenant(), NOW).await?, &leaves)?;
        let kept = opened.kept(other.call()).await?;
        same("another's listing", &kept.listing, &Some(other.listing().clone()))?;
        ensure!(!kept.forgotten, "another was forgotten too");
        ensure!(!opened.book.contents(other.call()).await?.is_empty(), "another's contents are gone");
        opened.is_sound("once it was forgotten").await?;
    }
    one.book.seal().await?;
    one.is_sound("sealed again,").await
}

pub(super) async fn what_goes_on_after_it_was_forgotten_stays_forgotten(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let early = script.hold(b"early");
    script.begin(one.ledger.owner())?;
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
        opened.is_sound("once it was over").await?;
    }
    one.book.rebuild().await?;
    is_forgotten(&one, &script, late).await
}

pub(super) async fn what_was_forgotten_while_it_waits_can_still_be_closed(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    let held = script.hold(b"to be forgotten");
    opened.append(&mut script).await?;
    forget(&opened, script.call(), NOW).await?;
    is_forgotten(&opened, &script, held).await?;
    let asked = opened.book.questions(QuestionFilter::default(), PageRequest::first(9)).await?;
    let asked: Vec<_> = asked.iter().map(|item| (item.call, item.listing.summary.as_str())).collect();
    same("the open questions", &asked, &vec![(script.call(), "")])?;

    script.answer(Answer::No { feedback: None })?;
    script.settle()?;
    opened.append(&mut script).await?;
    is_forgotten(&opened, &script, held).await?;
    let asked = opened.book.questions(QuestionFilter::default(), PageRequest::first(9)).await?;
    ensure!(asked.is_empty(), "it still waits: {asked:?}");
    let settled = CallFilter { state: Some(CallState::Settled), ..CallFilter::default() };
    same("settled", &opened.book.calls(settled, PageRequest::first(9)).await?.len(), &1)?;
    opened.is_sound("once it was closed").await
}

pub(super) async fn forgetting_again_does_no_harm(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let held = script.hold(b"to be forgotten");
    opened.finish(&mut script).await?;
    let first = forget(&opened, script.call(), NOW).await?.act;
    opened.book.seal().await?;
    let second = forget(&opened, script.call(), NOW + 1).await?.act;
    is_forgotten(&opened, &script, held).await?;
    same("the acts", &opened.book.acts().await?, &vec![first, second])?;
    opened.is_sound("forgotten twice,").await
}

pub(super) async fn what_never_was_is_not_forgotten(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let never = CallId::new(Uuid::now_v7());
    let forgotten = opened.book.forget(never, "eve".into(), NOW).await?;
    ensure!(forgotten.is_none(), "a call that never was is forgotten: {forgotten:?}");
    same("the acts", &opened.book.acts().await?, &Vec::new())
}

async fn forget(opened: &OpenedStore, call: CallId, at: u64) -> Result<EraseReport, ConformanceError> {
    let forgotten = opened.book.forget(call, "eve".into(), at).await?;
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
    same("its contents", &opened.book.contents(call).await?, &Vec::new())?;
    let kept = opened.kept(call).await?;
    ensure!(kept.forgotten, "the book does not know that it was forgotten");
    same("its record", &kept.record, &script.record)?;
    same("its damage", &kept.record.damage(), &None)?;
    let summary = kept.listing.map(|listing| listing.summary);
    same("its summary", &summary, &Some(String::new()))?;
    let listed = opened.book.calls(CallFilter::default(), PageRequest::first(100)).await?;
    let item = listed.into_iter().find(|item| item.call == call);
    let summary = item.ok_or_else(|| ConformanceError::new("it is listed no more"))?.listing.summary;
    same("its summary in the list", &summary, &String::new())
}

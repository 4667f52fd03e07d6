//! Cases for records and contents: they read back as written, only under their own call and tenant.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::id::{CallId, TenantId};
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

use super::AuditLogHarness;
use crate::ledger::record_script::{
    CallScript, NOW, ScriptSettings, admin_action, grant_approval, standing_approval,
};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::audit_log::{CallFilter, PageRequest, QuestionFilter, StandingApprovalState};

pub(super) async fn a_record_is_kept_as_it_was_written(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let mut batches = vec![script.batch()];
    script.start(one.ledger.owner())?;
    batches.push(script.batch());
    script.end()?;
    script.settle()?;
    batches.push(script.batch());
    let lines: Vec<_> = batches.iter().flat_map(|batch| batch.chained_entries.clone()).collect();
    for batch in batches {
        one.ledger.append(batch).await?;
    }
    for opened in [&one, &two] {
        let kept = opened.stored_call(script.call()).await?;
        same("the record", &kept.record, &script.record)?;
        same("its damage", &kept.record.damage(), &None)?;
        same("its lines", &kept.chained_entries, &lines)?;
        same("its listing", &kept.call_summary, &Some(script.call_summary().clone()))?;
        ensure!(!kept.forgotten, "the call was not forgotten");
        let never = opened.audit_log.record(CallId::new(Uuid::now_v7())).await?;
        ensure!(never.is_none(), "there is a record of a call that never was");
    }
    Ok(())
}

pub(super) async fn contents_are_read_back_whole(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    script.content_ref(b"");
    script.content_ref(&[0xff; 70_000]);
    let mut batches = vec![script.batch()];
    script.start(one.ledger.owner())?;
    script.end()?;
    batches.push(script.batch());
    let wanted: Vec<_> = batches.iter().flat_map(|batch| batch.contents.clone()).collect();
    for batch in batches {
        one.ledger.append(batch).await?;
    }
    one.append(&mut CallScript::ready(ScriptSettings { session: "r", ..ScriptSettings::default() })?).await?;
    for opened in [&one, &two] {
        let contents = opened.audit_log.contents(script.call()).await?;
        ensure!(contents == wanted, "{} contents, not the {} that were kept", contents.len(), wanted.len());
        let never = opened.audit_log.contents(CallId::new(Uuid::now_v7())).await?;
        ensure!(never.is_empty(), "there are contents of a call that never was");
    }
    Ok(())
}

pub(super) async fn tenants_do_not_see_each_other(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    // The same standing approval id, session and tool: only the tenant differs.
    let shared = standing_approval();
    let mut scripts = Vec::new();
    for (tenant, uses_max) in [("local", 1), ("other", 2)] {
        let given = StandingApproval { max_uses: Some(uses_max), ..shared.clone() };
        grant_approval(&*opened.ledger, ScriptSettings { tenant, ..ScriptSettings::default() }, &given)
            .await?;
        let mut script =
            CallScript::waiting(ScriptSettings { tenant, session: "w", ..ScriptSettings::asking() })?;
        opened.append(&mut script).await?;
        scripts.push((given, script));
    }
    admin_action(&*opened.ledger, "other", AdminActionKind::Revoke { standing_approval: shared.id }).await?;
    for ((given, script), state) in
        scripts.iter().zip([StandingApprovalState::Active, StandingApprovalState::Revoked])
    {
        let tenant = script.tenant();
        let calls = opened
            .audit_log
            .calls(
                CallFilter { tenant: Some(tenant.clone()), ..CallFilter::default() },
                PageRequest::with_limit(9),
            )
            .await?;
        same("how many calls", &calls.len(), &2)?;
        ensure!(calls.iter().all(|item| item.call_summary.tenant == *tenant), "calls of others: {calls:?}");
        let questions = opened
            .audit_log
            .questions(
                QuestionFilter { tenant: Some(tenant.clone()), ..QuestionFilter::default() },
                PageRequest::with_limit(9),
            )
            .await?;
        let asked: Vec<CallId> = questions.iter().map(|item| item.call).collect();
        same("its questions", &asked, &vec![script.call()])?;
        let leaves = opened.audit_log.list_standing_approvals(tenant, NOW).await?;
        let leaves: Vec<_> = leaves.into_iter().map(|item| (item.standing_approval, item.state)).collect();
        same("its leaves", &leaves, &vec![(given.clone(), state)])?;
    }
    let nobody = opened.audit_log.list_standing_approvals(&TenantId::new("nobody")?, NOW).await?;
    ensure!(nobody.is_empty(), "standing approvals of an unknown tenant: {nobody:?}");
    opened.check_intact("at the end").await
}

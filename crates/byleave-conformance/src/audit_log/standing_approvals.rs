//! Cases for standing approvals: they are listed from the records, with their current state.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::id::{StandingApprovalId, TenantId};
use byleave_core::question::{Answer, ApproverIdentity, Assurance};
use byleave_core::standing_approval::StandingApproval;

use super::{AuditLogHarness, OpenedStore};
use crate::ledger::record_script::{
    CallScript, NOW, ScriptSettings, admin_action, grant_approval, standing_approval,
};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::audit_log::{StandingApprovalItem, StandingApprovalState};

pub(super) async fn leaves_are_listed_with_what_became_of_them(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new("local")?;
    let standing = StandingApproval { max_uses: Some(2), ..standing_approval() };
    let spent = StandingApproval { max_uses: Some(2), ..standing_approval() };
    let short = StandingApproval { expires_at: Some(NOW + 10_000), ..standing_approval() };
    let revoked = StandingApproval { tool: "u".into(), ..standing_approval() };
    for leave in [&standing, &spent, &short, &revoked] {
        grant_approval(&*one.ledger, ScriptSettings::default(), leave).await?;
    }
    for used in [&standing, &spent, &spent, &short] {
        one.append(&mut CallScript::beginning(ScriptSettings::with_approval(used), one.ledger.owner())?)
            .await?;
    }
    admin_action(&*one.ledger, "local", AdminActionKind::Revoke { standing_approval: revoked.id }).await?;
    let mut script = CallScript::waiting(ScriptSettings { session: "endless", ..ScriptSettings::asking() })?;
    one.append(&mut script).await?;
    let endless = standing_approval();
    script.later(NOW + 7_000);
    script.answer(Answer::StandingApproval(endless.clone()))?;
    one.append(&mut script).await?;

    for opened in [&one, &two] {
        for (now, of_short) in
            [(NOW + 9_999, StandingApprovalState::Active), (NOW + 10_000, StandingApprovalState::Expired)]
        {
            let wanted = vec![
                (endless.id, StandingApprovalState::Active, 0),
                (revoked.id, StandingApprovalState::Revoked, 0),
                (short.id, of_short, 1),
                (spent.id, StandingApprovalState::UsedUp, 2),
                (standing.id, StandingApprovalState::Active, 1),
            ];
            same(&format!("the standing approvals at {now}"), &states(opened, &tenant, now).await?, &wanted)?;
        }
        let listed = opened.audit_log.list_standing_approvals(&tenant, NOW).await?;
        let wanted = StandingApprovalItem {
            standing_approval: endless.clone(),
            call: script.call(),
            approver: ApproverIdentity { name: "ada".into(), assurance: Assurance::Terminal },
            granted_at: NOW + 7_000,
            uses: 0,
            state: StandingApprovalState::Active,
        };
        same("the newest", &listed.first(), &Some(&wanted))?;
    }
    Ok(())
}

pub(super) async fn a_leave_given_twice_is_listed_as_it_counts(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let tenant = TenantId::new("local")?;
    let once = StandingApproval { max_uses: Some(1), ..standing_approval() };
    let short = StandingApproval { expires_at: Some(NOW + 10), ..standing_approval() };
    let revoked = standing_approval();
    for leave in [&once, &short, &revoked] {
        grant_approval(&*opened.ledger, ScriptSettings::default(), leave).await?;
    }
    opened
        .append(&mut CallScript::beginning(ScriptSettings::with_approval(&once), opened.ledger.owner())?)
        .await?;
    admin_action(&*opened.ledger, "local", AdminActionKind::Revoke { standing_approval: revoked.id }).await?;
    let before = opened.audit_log.list_standing_approvals(&tenant, NOW + 10).await?;
    for leave in [&once, &short, &revoked] {
        let more = StandingApproval { expires_at: None, max_uses: Some(9), ..leave.clone() };
        grant_approval(&*opened.ledger, ScriptSettings::default(), &more).await?;
    }
    same(
        "the standing approvals",
        &opened.audit_log.list_standing_approvals(&tenant, NOW + 10).await?,
        &before,
    )?;
    let given: Vec<StandingApproval> = before.into_iter().map(|item| item.standing_approval).collect();
    same("as they were first given", &given, &vec![revoked.clone(), short.clone(), once.clone()])?;
    let wanted = vec![
        (revoked.id, StandingApprovalState::Revoked, 0),
        (short.id, StandingApprovalState::Expired, 0),
        (once.id, StandingApprovalState::UsedUp, 1),
    ];
    same("their states", &states(&opened, &tenant, NOW + 10).await?, &wanted)?;
    let stand = opened.ledger.standing_approvals(&tenant, &once.tool, NOW + 10).await?;
    ensure!(stand.is_empty(), "the ledger disagrees about them: {stand:?}");
    opened.check_intact("at the end").await
}

async fn states(
    opened: &OpenedStore,
    tenant: &TenantId,
    now: u64,
) -> Result<Vec<(StandingApprovalId, StandingApprovalState, u32)>, ConformanceError> {
    let listed = opened.audit_log.list_standing_approvals(tenant, now).await?;
    Ok(listed.iter().map(|item| (item.standing_approval.id, item.state, item.uses)).collect())
}

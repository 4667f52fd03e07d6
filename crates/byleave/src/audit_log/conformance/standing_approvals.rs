//! Cases for standing approvals: they are listed from the records, with their current state.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::id::{StandingApprovalId, TenantId};
use byleave_core::question::{Answer, ApproverIdentity, Assurance};
use byleave_core::standing_approval::StandingApproval;

use super::{AuditLogHarness, OpenedStore};
use crate::audit_log::{StandingApprovalItem, StandingApprovalState};
use crate::ledger::conformance::record_script::{CallScript, NOW, ScriptSettings, act, give, leave};
use crate::ledger::conformance::{ConformanceError, ensure, same};

pub(super) async fn leaves_are_listed_with_what_became_of_them(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new("local")?;
    let standing = StandingApproval { uses_max: Some(2), ..leave() };
    let spent = StandingApproval { uses_max: Some(2), ..leave() };
    let short = StandingApproval { until: Some(NOW + 10_000), ..leave() };
    let revoked = StandingApproval { tool: "u".into(), ..leave() };
    for leave in [&standing, &spent, &short, &revoked] {
        give(&*one.ledger, ScriptSettings::default(), leave).await?;
    }
    for used in [&standing, &spent, &spent, &short] {
        one.append(&mut CallScript::beginning(ScriptSettings::on_leave(used), one.ledger.owner())?).await?;
    }
    act(&*one.ledger, "local", AdminActionKind::Revoke { leave: revoked.id }).await?;
    let mut script = CallScript::waiting(ScriptSettings { session: "endless", ..ScriptSettings::asking() })?;
    one.append(&mut script).await?;
    let endless = leave();
    script.later(NOW + 7_000);
    script.answer(Answer::Leave(endless.clone()))?;
    one.append(&mut script).await?;

    for opened in [&one, &two] {
        for (now, of_short) in
            [(NOW + 9_999, StandingApprovalState::Standing), (NOW + 10_000, StandingApprovalState::Expired)]
        {
            let wanted = vec![
                (endless.id, StandingApprovalState::Standing, 0),
                (revoked.id, StandingApprovalState::Revoked, 0),
                (short.id, of_short, 1),
                (spent.id, StandingApprovalState::Spent, 2),
                (standing.id, StandingApprovalState::Standing, 1),
            ];
            same(&format!("the leaves at {now}"), &states(opened, &tenant, now).await?, &wanted)?;
        }
        let listed = opened.book.leaves_given(&tenant, NOW).await?;
        let wanted = StandingApprovalItem {
            leave: endless.clone(),
            call: script.call(),
            by: ApproverIdentity { name: "ada".into(), grade: Assurance::Terminal },
            given_at: NOW + 7_000,
            uses: 0,
            state: StandingApprovalState::Standing,
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
    let once = StandingApproval { uses_max: Some(1), ..leave() };
    let short = StandingApproval { until: Some(NOW + 10), ..leave() };
    let revoked = leave();
    for leave in [&once, &short, &revoked] {
        give(&*opened.ledger, ScriptSettings::default(), leave).await?;
    }
    opened
        .append(&mut CallScript::beginning(ScriptSettings::on_leave(&once), opened.ledger.owner())?)
        .await?;
    act(&*opened.ledger, "local", AdminActionKind::Revoke { leave: revoked.id }).await?;
    let before = opened.book.leaves_given(&tenant, NOW + 10).await?;
    for leave in [&once, &short, &revoked] {
        let more = StandingApproval { until: None, uses_max: Some(9), ..leave.clone() };
        give(&*opened.ledger, ScriptSettings::default(), &more).await?;
    }
    same("the leaves", &opened.book.leaves_given(&tenant, NOW + 10).await?, &before)?;
    let given: Vec<StandingApproval> = before.into_iter().map(|item| item.leave).collect();
    same("as they were first given", &given, &vec![revoked.clone(), short.clone(), once.clone()])?;
    let wanted = vec![
        (revoked.id, StandingApprovalState::Revoked, 0),
        (short.id, StandingApprovalState::Expired, 0),
        (once.id, StandingApprovalState::Spent, 1),
    ];
    same("their states", &states(&opened, &tenant, NOW + 10).await?, &wanted)?;
    let stand = opened.ledger.leaves(&tenant, &once.tool, NOW + 10).await?;
    ensure!(stand.is_empty(), "the ledger takes them otherwise: {stand:?}");
    opened.is_sound("at the end").await
}

async fn states(
    opened: &OpenedStore,
    tenant: &TenantId,
    now: u64,
) -> Result<Vec<(StandingApprovalId, StandingApprovalState, u32)>, ConformanceError> {
    let listed = opened.book.leaves_given(tenant, now).await?;
    Ok(listed.iter().map(|item| (item.leave.id, item.state, item.uses)).collect())
}

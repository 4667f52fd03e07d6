//! Cases on the start of an attempt: a halt, a standing approval or a busy session blocks it in the same transaction.

use std::sync::Arc;

use byleave_core::admin_action::AdminActionKind;
use byleave_core::id::{AttemptId, CallId, StandingApprovalId, TenantId};
use byleave_core::standing_approval::StandingApproval;

use super::record_script::{
    CallScript, NOW, ScriptSettings, admin_action, grant_approval, loaded, standing_approval,
};
use super::{ConformanceError, LedgerHarness, ensure, race, same};
use byleave_gate::ledger::{AppendError, Interruption, Ledger, StartBlockedError};

pub(super) async fn a_halt_holds_for_every_owner_at_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new(ScriptSettings::default().tenant)?;
    ensure!(one.active_halt(&tenant).await?.is_none(), "halted from the start");
    for why in ["first", "second"] {
        admin_action(&*one, tenant.as_str(), AdminActionKind::Halt { reason: why.into() }).await?;
        for ledger in [&one, &two] {
            let deed = ledger.active_halt(&tenant).await?.map(|act| act.kind);
            same("the newest halt", &deed, &Some(AdminActionKind::Halt { reason: why.into() }))?;
            let hindrance = begin(ledger, ScriptSettings::default()).await?.1;
            same("a beginning", &hindrance, &Some(StartBlockedError::Halted { why: why.into() }))?;
        }
    }
    // A halt blocks only the start of attempts. Incoming calls are still recorded, and questions can be answered.
    one.append(CallScript::waiting(ScriptSettings { session: "w", ..ScriptSettings::asking() })?.batch())
        .await?;
    admin_action(&*two, tenant.as_str(), AdminActionKind::Lift).await?;
    for (ledger, session) in [(&one, "s1"), (&two, "s2")] {
        ensure!(ledger.active_halt(&tenant).await?.is_none(), "halted after the lift");
        same(
            "after the lift",
            &begin(ledger, ScriptSettings { session, ..ScriptSettings::default() }).await?.1,
            &None,
        )?;
    }
    Ok(())
}

pub(super) async fn a_halt_holds_for_its_tenant_only(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    admin_action(&*ledger, "other", AdminActionKind::Halt { reason: "stop".into() }).await?;
    ensure!(ledger.active_halt(&TenantId::new("local")?).await?.is_none(), "halted by another tenant");
    same("a beginning", &begin(&ledger, ScriptSettings::default()).await?.1, &None)
}

pub(super) async fn a_leave_is_never_used_too_often(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    const USES: usize = 5;
    let owners = [bench.open().await?, bench.open().await?];
    let [first, second] = &owners;
    let limited = StandingApproval { max_uses: Some(5), ..standing_approval() };
    grant_approval(&**first, ScriptSettings { session: "people", ..ScriptSettings::default() }, &limited)
        .await?;
    let tenant = TenantId::new("local")?;
    same("leaves given", &second.standing_approvals(&tenant, &limited.tool, NOW).await?.len(), &1)?;

    let runners = owners.iter().cycle().take(16).map(|ledger| {
        let (ledger, setting) = (ledger.clone(), ScriptSettings::with_approval(&limited));
        async move { begin(&ledger, setting).await }
    });
    let mut begun = 0;
    for raced in race(runners).await? {
        match raced? {
            (_, None) => begun += 1,
            (_, Some(hindrance)) => same("a use too many", &hindrance, &StartBlockedError::ApprovalUsedUp)?,
        }
    }
    same("uses", &begun, &USES)?;
    for ledger in &owners {
        ensure!(
            ledger.standing_approvals(&tenant, &limited.tool, NOW).await?.is_empty(),
            "a used-up standing approval is listed"
        );
    }
    Ok(())
}

pub(super) async fn a_use_is_counted_whether_or_not_it_is_still_open(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let once = StandingApproval { max_uses: Some(1), ..standing_approval() };
    grant_approval(&*ledger, ScriptSettings { session: "people", ..ScriptSettings::default() }, &once)
        .await?;
    for used in [false, true] {
        let mut script = CallScript::beginning(ScriptSettings::with_approval(&once), ledger.owner())?;
        script.end()?;
        script.settle()?;
        let taken = ledger.append(script.batch()).await;
        match (used, taken) {
            (false, Ok(())) | (true, Err(AppendError::StartBlocked(StartBlockedError::ApprovalUsedUp))) => {}
            (_, taken) => {
                return Err(ConformanceError::new(format!("used before: {used}, and now {taken:?}")));
            }
        }
    }
    // The gate cannot widen a standing approval by assuming another limit.
    let widened = ScriptSettings {
        standing_approval: Some((once.id, Some(9))),
        ..ScriptSettings::with_approval(&once)
    };
    same("with a wider limit", &begin(&ledger, widened).await?.1, &Some(StartBlockedError::ApprovalUsedUp))
}

pub(super) async fn a_revoked_leave_begins_nothing(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let given = standing_approval();
    grant_approval(&*one, ScriptSettings { session: "people", ..ScriptSettings::default() }, &given).await?;
    same("before", &begin(&one, ScriptSettings::with_approval(&given)).await?.1, &None)?;
    admin_action(&*two, "other", AdminActionKind::Revoke { standing_approval: given.id }).await?;
    same("revoked by another tenant", &begin(&one, ScriptSettings::with_approval(&given)).await?.1, &None)?;
    admin_action(&*two, "local", AdminActionKind::Revoke { standing_approval: given.id }).await?;
    for ledger in [&one, &two] {
        let hindrance = begin(ledger, ScriptSettings::with_approval(&given)).await?.1;
        same("after", &hindrance, &Some(StartBlockedError::ApprovalUsedUp))?;
        let leaves = ledger.standing_approvals(&TenantId::new("local")?, &given.tool, NOW).await?;
        ensure!(leaves.is_empty(), "a revoked standing approval is listed");
    }
    Ok(())
}

pub(super) async fn a_leave_that_nobody_gave_begins_nothing(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let given = standing_approval();
    grant_approval(&*ledger, ScriptSettings { tenant: "other", ..ScriptSettings::default() }, &given).await?;
    for (what, id) in [("never given", standing_approval().id), ("given to another tenant", given.id)] {
        let setting = ScriptSettings { standing_approval: Some((id, None)), ..ScriptSettings::default() };
        same(what, &begin(&ledger, setting).await?.1, &Some(StartBlockedError::ApprovalUsedUp))?;
    }
    Ok(())
}

pub(super) async fn one_runs_alone_in_its_session(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let owners = [bench.open().await?, bench.open().await?];
    let runners = owners.iter().cycle().take(16).map(|ledger| {
        let ledger = ledger.clone();
        async move { begin(&ledger, ScriptSettings::default()).await }
    });
    let raced: Vec<_> = race(runners).await?.into_iter().collect::<Result<_, _>>()?;
    let begun: Vec<_> = raced.iter().filter(|(_, hindrance)| hindrance.is_none()).collect();
    let [(winner, _)] = begun.as_slice() else {
        return Err(ConformanceError::new(format!("{} calls of one session run alone", begun.len())));
    };
    let busy = StartBlockedError::SessionBusy { call: winner.0.call(), attempt: winner.1 };
    for (_, hindrance) in raced.iter().filter(|(_, hindrance)| hindrance.is_some()) {
        same("the others", hindrance, &Some(busy.clone()))?;
    }
    Ok(())
}

pub(super) async fn an_end_frees_the_session(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let ((mut script, _), hindrance) = begin(&one, ScriptSettings::default()).await?;
    same("the first", &hindrance, &None)?;
    script.end()?;
    one.append(script.batch()).await?;
    same("after the end", &begin(&two, ScriptSettings::default()).await?.1, &None)
}

pub(super) async fn settling_frees_the_session(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let ((mut script, _), hindrance) = begin(&one, ScriptSettings::default()).await?;
    same("the first", &hindrance, &None)?;
    script.end()?;
    script.settle()?;
    one.append(script.batch()).await?;
    same("after it was settled", &begin(&two, ScriptSettings::default()).await?.1, &None)?;
    // A run whose begin, end and settlement are appended together never occupies the session.
    let mut once =
        CallScript::beginning(ScriptSettings { session: "once", ..ScriptSettings::default() }, one.owner())?;
    once.end()?;
    once.settle()?;
    one.append(once.batch()).await?;
    let after = begin(&two, ScriptSettings { session: "once", ..ScriptSettings::default() }).await?.1;
    same("after a run that was written down at once", &after, &None)
}

pub(super) async fn an_interruption_frees_the_session(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let setting = ScriptSettings { idempotent: true, ..ScriptSettings::default() };
    let ((mut script, attempt), hindrance) = begin(&one, setting).await?;
    same("the first", &hindrance, &None)?;
    bench.kill(one).await?;
    let busy = StartBlockedError::SessionBusy { call: script.call(), attempt };
    same("before", &begin(&two, ScriptSettings::default()).await?.1, &Some(busy))?;
    same("interrupted", &two.interrupt(script.call(), attempt, NOW).await?, &Interruption::Recorded)?;

    // The same call may begin again. It is then the one that runs alone.
    script.reload(&*two).await?;
    let attempt = script.start(two.owner())?;
    two.append(script.batch()).await?;
    let busy = StartBlockedError::SessionBusy { call: script.call(), attempt };
    same("begun again", &begin(&two, ScriptSettings::default()).await?.1, &Some(busy))?;
    script.end()?;
    two.append(script.batch()).await?;
    same("after", &begin(&two, ScriptSettings::default()).await?.1, &None)
}

pub(super) async fn what_is_safe_runs_beside(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let beside = ScriptSettings { exclusive: false, ..ScriptSettings::default() };
    same("the first beside", &begin(&ledger, beside.clone()).await?.1, &None)?;
    same("one alone", &begin(&ledger, ScriptSettings::default()).await?.1, &None)?;
    same("another beside", &begin(&ledger, beside).await?.1, &None)?;
    let alone = begin(&ledger, ScriptSettings::default()).await?.1;
    ensure!(matches!(alone, Some(StartBlockedError::SessionBusy { .. })), "another alone: {alone:?}");
    Ok(())
}

pub(super) async fn sessions_and_tenants_do_not_hinder_each_other(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    for (tenant, session) in [("local", "a"), ("local", "b"), ("other", "a")] {
        let hindrance =
            begin(&ledger, ScriptSettings { tenant, session, ..ScriptSettings::default() }).await?.1;
        same(&format!("{tenant}/{session}"), &hindrance, &None)?;
    }
    Ok(())
}

pub(super) async fn the_gravest_hindrance_is_named(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let unknown: Option<(StandingApprovalId, Option<u32>)> = Some((standing_approval().id, None));
    let setting = ScriptSettings { standing_approval: unknown, ..ScriptSettings::default() };
    same("the first", &begin(&ledger, ScriptSettings::default()).await?.1, &None)?;
    same(
        "spent and busy",
        &begin(&ledger, setting.clone()).await?.1,
        &Some(StartBlockedError::ApprovalUsedUp),
    )?;
    admin_action(&*ledger, "local", AdminActionKind::Halt { reason: "stop".into() }).await?;
    let ((script, _), hindrance) = begin(&ledger, setting).await?;
    same("halted, spent and busy", &hindrance, &Some(StartBlockedError::Halted { why: "stop".into() }))?;
    // A blocked attempt is not begun.
    same("attempts", &loaded(&*ledger, script.call()).await?.attempts(), &0)
}

type StartAttempt = ((CallScript, AttemptId), Option<StartBlockedError>);

/// Appends a call up to its attempt, then the attempt in a second batch. Returns what blocked it, if anything.
async fn begin(ledger: &Arc<dyn Ledger>, setting: ScriptSettings) -> Result<StartAttempt, ConformanceError> {
    let mut script = CallScript::ready(setting)?;
    ledger.append(script.batch()).await?;
    let attempt = script.start(ledger.owner())?;
    let call: CallId = script.call();
    match ledger.append(script.batch()).await {
        Ok(()) => {
            same("the record of what began", &loaded(&**ledger, call).await?, &script.record)?;
            Ok(((script, attempt), None))
        }
        Err(AppendError::StartBlocked(hindrance)) => Ok(((script, attempt), Some(hindrance))),
        Err(fault) => Err(fault.into()),
    }
}

//! Beginning: a halt, a leave and a busy session hinder an attempt in the very step that would write it.

use std::sync::Arc;

use byleave_core::act::Deed;
use byleave_core::id::{AttemptId, CallId, LeaveId, TenantId};
use byleave_core::leave::Leave;

use super::script::{NOW, Script, Setting, act, give, leave, loaded};
use super::{Bench, Flaw, ensure, race, same};
use crate::ledger::{AppendFault, Hindrance, Interruption, Ledger};

pub(super) async fn a_halt_holds_for_every_owner_at_once(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new(Setting::default().tenant)?;
    ensure!(one.halted(&tenant).await?.is_none(), "halted from the start");
    for why in ["first", "second"] {
        act(&*one, tenant.as_str(), Deed::Halt { why: why.into() }).await?;
        for ledger in [&one, &two] {
            let deed = ledger.halted(&tenant).await?.map(|act| act.deed);
            same("the newest halt", &deed, &Some(Deed::Halt { why: why.into() }))?;
            let hindrance = begin(ledger, Setting::default()).await?.1;
            same("a beginning", &hindrance, &Some(Hindrance::Halted { why: why.into() }))?;
        }
    }
    // Only beginning is halted: what came in is written down and what was asked is answered.
    one.append(Script::waiting(Setting { session: "w", ..Setting::asking() })?.batch()).await?;
    act(&*two, tenant.as_str(), Deed::Lift).await?;
    for (ledger, session) in [(&one, "s1"), (&two, "s2")] {
        ensure!(ledger.halted(&tenant).await?.is_none(), "halted after the lift");
        same("after the lift", &begin(ledger, Setting { session, ..Setting::default() }).await?.1, &None)?;
    }
    Ok(())
}

pub(super) async fn a_halt_holds_for_its_tenant_only(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    act(&*ledger, "other", Deed::Halt { why: "stop".into() }).await?;
    ensure!(ledger.halted(&TenantId::new("local")?).await?.is_none(), "halted by another tenant");
    same("a beginning", &begin(&ledger, Setting::default()).await?.1, &None)
}

pub(super) async fn a_leave_is_never_used_too_often(bench: &dyn Bench) -> Result<(), Flaw> {
    const USES: usize = 5;
    let owners = [bench.open().await?, bench.open().await?];
    let [first, second] = &owners;
    let limited = Leave { uses_max: Some(5), ..leave() };
    give(&**first, Setting { session: "people", ..Setting::default() }, &limited).await?;
    let tenant = TenantId::new("local")?;
    same("leaves given", &second.leaves(&tenant, &limited.tool, NOW).await?.len(), &1)?;

    let runners = owners.iter().cycle().take(16).map(|ledger| {
        let (ledger, setting) = (ledger.clone(), Setting::on_leave(&limited));
        async move { begin(&ledger, setting).await }
    });
    let mut begun = 0;
    for raced in race(runners).await? {
        match raced? {
            (_, None) => begun += 1,
            (_, Some(hindrance)) => same("a use too many", &hindrance, &Hindrance::LeaveSpent)?,
        }
    }
    same("uses", &begun, &USES)?;
    for ledger in &owners {
        ensure!(ledger.leaves(&tenant, &limited.tool, NOW).await?.is_empty(), "a spent leave is listed");
    }
    Ok(())
}

pub(super) async fn a_use_is_counted_whether_or_not_it_is_still_open(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    let once = Leave { uses_max: Some(1), ..leave() };
    give(&*ledger, Setting { session: "people", ..Setting::default() }, &once).await?;
    for used in [false, true] {
        let mut script = Script::beginning(Setting::on_leave(&once), ledger.owner())?;
        script.end()?;
        script.settle()?;
        let taken = ledger.append(script.batch()).await;
        match (used, taken) {
            (false, Ok(())) | (true, Err(AppendFault::Hindered(Hindrance::LeaveSpent))) => {}
            (_, taken) => return Err(Flaw::new(format!("used before: {used}, and now {taken:?}"))),
        }
    }
    // The gate cannot widen the leave by taking its limit to be another.
    let widened = Setting { leave: Some((once.id, Some(9))), ..Setting::on_leave(&once) };
    same("with a wider limit", &begin(&ledger, widened).await?.1, &Some(Hindrance::LeaveSpent))
}

pub(super) async fn a_revoked_leave_begins_nothing(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let given = leave();
    give(&*one, Setting { session: "people", ..Setting::default() }, &given).await?;
    same("before", &begin(&one, Setting::on_leave(&given)).await?.1, &None)?;
    act(&*two, "other", Deed::Revoke { leave: given.id }).await?;
    same("revoked by another tenant", &begin(&one, Setting::on_leave(&given)).await?.1, &None)?;
    act(&*two, "local", Deed::Revoke { leave: given.id }).await?;
    for ledger in [&one, &two] {
        let hindrance = begin(ledger, Setting::on_leave(&given)).await?.1;
        same("after", &hindrance, &Some(Hindrance::LeaveSpent))?;
        let leaves = ledger.leaves(&TenantId::new("local")?, &given.tool, NOW).await?;
        ensure!(leaves.is_empty(), "a revoked leave is listed");
    }
    Ok(())
}

pub(super) async fn a_leave_that_nobody_gave_begins_nothing(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    let given = leave();
    give(&*ledger, Setting { tenant: "other", ..Setting::default() }, &given).await?;
    for (what, id) in [("never given", leave().id), ("given to another tenant", given.id)] {
        let setting = Setting { leave: Some((id, None)), ..Setting::default() };
        same(what, &begin(&ledger, setting).await?.1, &Some(Hindrance::LeaveSpent))?;
    }
    Ok(())
}

pub(super) async fn one_runs_alone_in_its_session(bench: &dyn Bench) -> Result<(), Flaw> {
    let owners = [bench.open().await?, bench.open().await?];
    let runners = owners.iter().cycle().take(16).map(|ledger| {
        let ledger = ledger.clone();
        async move { begin(&ledger, Setting::default()).await }
    });
    let raced: Vec<_> = race(runners).await?.into_iter().collect::<Result<_, _>>()?;
    let begun: Vec<_> = raced.iter().filter(|(_, hindrance)| hindrance.is_none()).collect();
    let [(winner, _)] = begun.as_slice() else {
        return Err(Flaw::new(format!("{} calls of one session run alone", begun.len())));
    };
    let busy = Hindrance::SessionBusy { call: winner.0.call(), attempt: winner.1 };
    for (_, hindrance) in raced.iter().filter(|(_, hindrance)| hindrance.is_some()) {
        same("the others", hindrance, &Some(busy.clone()))?;
    }
    Ok(())
}

pub(super) async fn an_end_frees_the_session(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let ((mut script, _), hindrance) = begin(&one, Setting::default()).await?;
    same("the first", &hindrance, &None)?;
    script.end()?;
    one.append(script.batch()).await?;
    same("after the end", &begin(&two, Setting::default()).await?.1, &None)
}

pub(super) async fn settling_frees_the_session(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let ((mut script, _), hindrance) = begin(&one, Setting::default()).await?;
    same("the first", &hindrance, &None)?;
    script.end()?;
    script.settle()?;
    one.append(script.batch()).await?;
    same("after it was settled", &begin(&two, Setting::default()).await?.1, &None)?;
    // A run that is written down at once, begun and ended and settled, never takes the seat.
    let mut once = Script::beginning(Setting { session: "once", ..Setting::default() }, one.owner())?;
    once.end()?;
    once.settle()?;
    one.append(once.batch()).await?;
    let after = begin(&two, Setting { session: "once", ..Setting::default() }).await?.1;
    same("after a run that was written down at once", &after, &None)
}

pub(super) async fn an_interruption_frees_the_session(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let setting = Setting { repeatable: true, ..Setting::default() };
    let ((mut script, attempt), hindrance) = begin(&one, setting).await?;
    same("the first", &hindrance, &None)?;
    bench.kill(one).await?;
    let busy = Hindrance::SessionBusy { call: script.call(), attempt };
    same("before", &begin(&two, Setting::default()).await?.1, &Some(busy))?;
    same("interrupted", &two.interrupt(script.call(), attempt, NOW).await?, &Interruption::Written)?;

    // The same call may begin again; then it is the one that runs alone.
    script.reload(&*two).await?;
    let attempt = script.begin(two.owner())?;
    two.append(script.batch()).await?;
    let busy = Hindrance::SessionBusy { call: script.call(), attempt };
    same("begun again", &begin(&two, Setting::default()).await?.1, &Some(busy))?;
    script.end()?;
    two.append(script.batch()).await?;
    same("after", &begin(&two, Setting::default()).await?.1, &None)
}

pub(super) async fn what_is_safe_runs_beside(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    let beside = Setting { exclusive: false, ..Setting::default() };
    same("the first beside", &begin(&ledger, beside.clone()).await?.1, &None)?;
    same("one alone", &begin(&ledger, Setting::default()).await?.1, &None)?;
    same("another beside", &begin(&ledger, beside).await?.1, &None)?;
    let alone = begin(&ledger, Setting::default()).await?.1;
    ensure!(matches!(alone, Some(Hindrance::SessionBusy { .. })), "another alone: {alone:?}");
    Ok(())
}

pub(super) async fn sessions_and_tenants_do_not_hinder_each_other(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    for (tenant, session) in [("local", "a"), ("local", "b"), ("other", "a")] {
        let hindrance = begin(&ledger, Setting { tenant, session, ..Setting::default() }).await?.1;
        same(&format!("{tenant}/{session}"), &hindrance, &None)?;
    }
    Ok(())
}

pub(super) async fn the_gravest_hindrance_is_named(bench: &dyn Bench) -> Result<(), Flaw> {
    let ledger = bench.open().await?;
    let unknown: Option<(LeaveId, Option<u32>)> = Some((leave().id, None));
    let setting = Setting { leave: unknown, ..Setting::default() };
    same("the first", &begin(&ledger, Setting::default()).await?.1, &None)?;
    same("spent and busy", &begin(&ledger, setting.clone()).await?.1, &Some(Hindrance::LeaveSpent))?;
    act(&*ledger, "local", Deed::Halt { why: "stop".into() }).await?;
    let ((script, _), hindrance) = begin(&ledger, setting).await?;
    same("halted, spent and busy", &hindrance, &Some(Hindrance::Halted { why: "stop".into() }))?;
    // What was hindered is not begun.
    same("attempts", &loaded(&*ledger, script.call()).await?.attempts(), &0)
}

type Begun = ((Script, AttemptId), Option<Hindrance>);

/// Brings a call to its beginning in one batch and begins it in the next. Says what hindered it, if anything did.
async fn begin(ledger: &Arc<dyn Ledger>, setting: Setting) -> Result<Begun, Flaw> {
    let mut script = Script::ready(setting)?;
    ledger.append(script.batch()).await?;
    let attempt = script.begin(ledger.owner())?;
    let call: CallId = script.call();
    match ledger.append(script.batch()).await {
        Ok(()) => {
            same("the record of what began", &loaded(&**ledger, call).await?, &script.record)?;
            Ok(((script, attempt), None))
        }
        Err(AppendFault::Hindered(hindrance)) => Ok(((script, attempt), Some(hindrance))),
        Err(fault) => Err(fault.into()),
    }
}

//! Leaves: listed from what the records say, with what became of them.

use byleave_core::act::Deed;
use byleave_core::id::{LeaveId, TenantId};
use byleave_core::leave::Leave;
use byleave_core::question::{Answer, Approver, Grade};

use super::{Bench, Opened};
use crate::book::{LeaveItem, LeaveState};
use crate::ledger::conformance::script::{NOW, Script, Setting, act, give, leave};
use crate::ledger::conformance::{Flaw, ensure, same};

pub(super) async fn leaves_are_listed_with_what_became_of_them(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let tenant = TenantId::new("local")?;
    let standing = Leave { uses_max: Some(2), ..leave() };
    let spent = Leave { uses_max: Some(2), ..leave() };
    let short = Leave { until: Some(NOW + 10_000), ..leave() };
    let revoked = Leave { tool: "u".into(), ..leave() };
    for leave in [&standing, &spent, &short, &revoked] {
        give(&*one.ledger, Setting::default(), leave).await?;
    }
    for used in [&standing, &spent, &spent, &short] {
        one.append(&mut Script::beginning(Setting::on_leave(used), one.ledger.owner())?).await?;
    }
    act(&*one.ledger, "local", Deed::Revoke { leave: revoked.id }).await?;
    let mut script = Script::waiting(Setting { session: "endless", ..Setting::asking() })?;
    one.append(&mut script).await?;
    let endless = leave();
    script.later(NOW + 7_000);
    script.answer(Answer::Leave(endless.clone()))?;
    one.append(&mut script).await?;

    for opened in [&one, &two] {
        for (now, of_short) in [(NOW + 9_999, LeaveState::Standing), (NOW + 10_000, LeaveState::Expired)] {
            let wanted = vec![
                (endless.id, LeaveState::Standing, 0),
                (revoked.id, LeaveState::Revoked, 0),
                (short.id, of_short, 1),
                (spent.id, LeaveState::Spent, 2),
                (standing.id, LeaveState::Standing, 1),
            ];
            same(&format!("the leaves at {now}"), &states(opened, &tenant, now).await?, &wanted)?;
        }
        let listed = opened.book.leaves_given(&tenant, NOW).await?;
        let wanted = LeaveItem {
            leave: endless.clone(),
            call: script.call(),
            by: Approver { name: "ada".into(), grade: Grade::Terminal },
            given_at: NOW + 7_000,
            uses: 0,
            state: LeaveState::Standing,
        };
        same("the newest", &listed.first(), &Some(&wanted))?;
    }
    Ok(())
}

pub(super) async fn a_leave_given_twice_is_listed_as_it_counts(bench: &dyn Bench) -> Result<(), Flaw> {
    let opened = bench.open().await?;
    let tenant = TenantId::new("local")?;
    let once = Leave { uses_max: Some(1), ..leave() };
    let short = Leave { until: Some(NOW + 10), ..leave() };
    let revoked = leave();
    for leave in [&once, &short, &revoked] {
        give(&*opened.ledger, Setting::default(), leave).await?;
    }
    opened.append(&mut Script::beginning(Setting::on_leave(&once), opened.ledger.owner())?).await?;
    act(&*opened.ledger, "local", Deed::Revoke { leave: revoked.id }).await?;
    let before = opened.book.leaves_given(&tenant, NOW + 10).await?;
    for leave in [&once, &short, &revoked] {
        let more = Leave { until: None, uses_max: Some(9), ..leave.clone() };
        give(&*opened.ledger, Setting::default(), &more).await?;
    }
    same("the leaves", &opened.book.leaves_given(&tenant, NOW + 10).await?, &before)?;
    let given: Vec<Leave> = before.into_iter().map(|item| item.leave).collect();
    same("as they were first given", &given, &vec![revoked.clone(), short.clone(), once.clone()])?;
    let wanted = vec![
        (revoked.id, LeaveState::Revoked, 0),
        (short.id, LeaveState::Expired, 0),
        (once.id, LeaveState::Spent, 1),
    ];
    same("their states", &states(&opened, &tenant, NOW + 10).await?, &wanted)?;
    let stand = opened.ledger.leaves(&tenant, &once.tool, NOW + 10).await?;
    ensure!(stand.is_empty(), "the ledger takes them otherwise: {stand:?}");
    opened.is_sound("at the end").await
}

async fn states(
    opened: &Opened,
    tenant: &TenantId,
    now: u64,
) -> Result<Vec<(LeaveId, LeaveState, u32)>, Flaw> {
    let listed = opened.book.leaves_given(tenant, now).await?;
    Ok(listed.iter().map(|item| (item.leave.id, item.state, item.uses)).collect())
}

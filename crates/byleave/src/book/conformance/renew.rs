//! What is made again or started again shows what it showed before.

use super::view::{View, fill};
use super::{Bench, Opened};
use crate::ledger::conformance::script::{Script, Setting};
use crate::ledger::conformance::{Flaw, ensure, same};
use crate::ledger::{AppendFault, Hindrance};

pub(super) async fn a_rebuild_changes_nothing(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let spent = fill(&one).await?;
    let before = View::of(&one).await?;
    for time in ["once", "twice"] {
        two.book.rebuild().await?;
        for opened in [&one, &two] {
            same(&format!("rebuilt {time}"), &View::of(opened).await?, &before)?;
        }
    }
    goes_on(&one, Setting::on_leave(&spent)).await
}

pub(super) async fn everything_outlives_a_restart(bench: &dyn Bench) -> Result<(), Flaw> {
    let opened = bench.open().await?;
    let spent = fill(&opened).await?;
    let before = View::of(&opened).await?;
    drop(opened);
    bench.restart().await?;
    let opened = bench.open().await?;
    same("started again", &View::of(&opened).await?, &before)?;
    goes_on(&opened, Setting::on_leave(&spent)).await
}

/// Checks that what hindered before still does, and that the book can be written on.
async fn goes_on(opened: &Opened, spent: Setting) -> Result<(), Flaw> {
    let again = opened.ledger.append(Script::beginning(spent, opened.ledger.owner())?.batch()).await;
    ensure!(
        matches!(again, Err(AppendFault::Hindered(Hindrance::LeaveSpent))),
        "a spent leave is used again: {again:?}"
    );
    let busy = Setting { session: "busy", ..Setting::default() };
    let busy = opened.ledger.append(Script::beginning(busy, opened.ledger.owner())?.batch()).await;
    ensure!(
        matches!(busy, Err(AppendFault::Hindered(Hindrance::SessionBusy { .. }))),
        "two run alone in one session: {busy:?}"
    );
    opened.finish(&mut Script::ready(Setting { session: "later", ..Setting::default() })?).await?;
    opened.book.seal().await?;
    opened.is_sound("at the end").await
}

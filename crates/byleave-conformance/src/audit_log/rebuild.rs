//! Cases for rebuilding and reopening: both show the same as before.

use super::snapshot::{AuditLogView, fill};
use super::{AuditLogHarness, OpenedStore};
use crate::ledger::record_script::{CallScript, ScriptSettings};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::ledger::{AppendError, StartBlockedError};

pub(super) async fn a_rebuild_changes_nothing(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let spent = fill(&one).await?;
    let before = AuditLogView::capture(&one).await?;
    for time in ["once", "twice"] {
        two.audit_log.rebuild().await?;
        for opened in [&one, &two] {
            same(&format!("rebuilt {time}"), &AuditLogView::capture(opened).await?, &before)?;
        }
    }
    goes_on(&one, ScriptSettings::with_approval(&spent)).await
}

pub(super) async fn everything_outlives_a_restart(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let spent = fill(&opened).await?;
    let before = AuditLogView::capture(&opened).await?;
    drop(opened);
    bench.restart().await?;
    let opened = bench.open().await?;
    same("started again", &AuditLogView::capture(&opened).await?, &before)?;
    goes_on(&opened, ScriptSettings::with_approval(&spent)).await
}

/// Checks that the same appends are still blocked, and that the audit log accepts new entries.
async fn goes_on(opened: &OpenedStore, spent: ScriptSettings) -> Result<(), ConformanceError> {
    let again = opened.ledger.append(CallScript::beginning(spent, opened.ledger.owner())?.batch()).await;
    ensure!(
        matches!(again, Err(AppendError::StartBlocked(StartBlockedError::ApprovalUsedUp))),
        "a used-up standing approval is used again: {again:?}"
    );
    let busy = ScriptSettings { session: "busy", ..ScriptSettings::default() };
    let busy = opened.ledger.append(CallScript::beginning(busy, opened.ledger.owner())?.batch()).await;
    ensure!(
        matches!(busy, Err(AppendError::StartBlocked(StartBlockedError::SessionBusy { .. }))),
        "two run alone in one session: {busy:?}"
    );
    opened
        .finish(&mut CallScript::ready(ScriptSettings { session: "later", ..ScriptSettings::default() })?)
        .await?;
    opened.audit_log.seal().await?;
    opened.check_intact("at the end").await
}

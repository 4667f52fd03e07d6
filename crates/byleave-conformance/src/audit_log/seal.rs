//! Cases for admin actions, verification and seals: everything is counted, and sealed segments are anchored.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{AdminActionId, TenantId};
use uuid::Uuid;

use super::AuditLogHarness;
use crate::ledger::record_script::{CallScript, NOW, ScriptSettings, standing_approval};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::audit_log::Verification;

pub(super) async fn acts_are_listed_in_order(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    one.append(&mut script).await?;
    let deeds = [
        ("local", AdminActionKind::Halt { reason: "fire".into() }),
        ("other", AdminActionKind::Halt { reason: "flood".into() }),
        ("local", AdminActionKind::Revoke { standing_approval: standing_approval().id }),
        ("other", AdminActionKind::Lift),
        ("local", AdminActionKind::Lift),
        ("local", AdminActionKind::Forget { call: script.call() }),
        (
            "local",
            AdminActionKind::Waive { guarantees: vec!["memory-limited".into()], reason: "no cgroups".into() },
        ),
    ];
    let mut acts = Vec::new();
    // They are ordered as written, regardless of their times and ids.
    for ((tenant, deed), ago) in deeds.into_iter().zip(0..) {
        let id = AdminActionId::new(Uuid::from_u128(u128::MAX - u128::from(ago)));
        let act = AdminAction {
            id,
            at: NOW - ago,
            tenant: TenantId::new(tenant)?,
            actor: "ada".into(),
            kind: deed,
        };
        let opened = if ago % 2 == 0 { &one } else { &two };
        opened.ledger.record_admin_action(act.clone()).await?;
        acts.push(act);
    }
    for opened in [&one, &two] {
        same("the admin actions", &opened.audit_log.admin_actions().await?, &acts)?;
        same("how many are verified", &opened.audit_log.verify().await?.admin_actions, &7)?;
        opened.check_intact("with acts").await?;
    }
    Ok(())
}

pub(super) async fn what_is_written_is_counted(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    same("nothing", &opened.audit_log.verify().await?, &Verification::default())?;
    let mut lines = 0;
    for session in ["r", "s", "t"] {
        let mut script = CallScript::ready(ScriptSettings { session, ..ScriptSettings::default() })?;
        opened.append(&mut script).await?;
        script.start(opened.ledger.owner())?;
        opened.append(&mut script).await?;
        lines += u64::from(script.record.len());
    }
    let by = "ada".to_owned();
    let (id, tenant) = (AdminActionId::new(Uuid::now_v7()), TenantId::new("local")?);
    opened
        .ledger
        .record_admin_action(AdminAction { id, at: NOW, tenant, actor: by, kind: AdminActionKind::Lift })
        .await?;
    let open = Verification {
        records: 3,
        entries: lines,
        admin_actions: 1,
        unsealed: lines + 1,
        ..Verification::default()
    };
    same("unsealed", &opened.audit_log.verify().await?, &open)?;
    let segments = opened.audit_log.seal().await?;
    let anchor = opened.audit_log.anchor().await?;
    let sealed = Verification { segments, unsealed: 0, anchor, ..open };
    same("sealed", &opened.audit_log.verify().await?, &sealed)?;
    let mut tail = CallScript::ready(ScriptSettings::default())?;
    opened.append(&mut tail).await?;
    let tail = u64::from(tail.record.len());
    let more = Verification { records: 4, entries: lines + tail, unsealed: tail, ..sealed };
    same("with a tail", &opened.audit_log.verify().await?, &more)
}

pub(super) async fn sealing_moves_the_anchor_and_leaves_nothing_behind(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    same("an empty audit log", &one.audit_log.seal().await?, &0)?;
    same("its anchor", &one.audit_log.anchor().await?, &None)?;
    let (mut segments, mut before) = (0, None);
    for (opened, beside) in [(&one, &two), (&two, &one), (&one, &two)] {
        opened.append(&mut CallScript::ready(ScriptSettings::default())?).await?;
        let sealed = opened.audit_log.seal().await?;
        ensure!(sealed > 0, "nothing was sealed");
        segments += sealed;
        let Some(anchor) = opened.audit_log.anchor().await? else {
            return Err(ConformanceError::new("there is no anchor"));
        };
        same("the number of the anchor", &anchor.number, &segments)?;
        ensure!(before.as_ref() != Some(&anchor.digest), "the anchor does not move");
        before = Some(anchor.digest);
        for again in [opened, beside] {
            same("sealed again", &again.audit_log.seal().await?, &0)?;
            same("the anchor", &again.audit_log.anchor().await?, &Some(anchor.clone()))?;
            let verification = again.audit_log.verify().await?;
            same("how many segments", &verification.segments, &segments)?;
            same("how much is not sealed", &verification.unsealed, &0)?;
            same("the anchor it is held against", &verification.anchor, &Some(anchor.clone()))?;
            again.check_intact("sealed,").await?;
        }
    }
    Ok(())
}

//! Cases for admin actions, verification and seals: everything is counted, and sealed segments are anchored.

use byleave_core::admin_action::{AdminAction, AdminActionKind};
use byleave_core::id::{AdminActionId, TenantId};
use uuid::Uuid;

use super::AuditLogHarness;
use crate::audit_log::Verification;
use crate::ledger::conformance::record_script::{CallScript, NOW, ScriptSettings, leave};
use crate::ledger::conformance::{ConformanceError, ensure, same};

pub(super) async fn acts_are_listed_in_order(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    one.append(&mut script).await?;
    let deeds = [
        ("local", AdminActionKind::Halt { why: "fire".into() }),
        ("other", AdminActionKind::Halt { why: "flood".into() }),
        ("local", AdminActionKind::Revoke { leave: leave().id }),
        ("other", AdminActionKind::Lift),
        ("local", AdminActionKind::Lift),
        ("local", AdminActionKind::Forget { call: script.call() }),
        (
            "local",
            AdminActionKind::Waive { guarantees: vec!["memory-limited".into()], why: "no cgroups".into() },
        ),
    ];
    let mut acts = Vec::new();
    // They are ordered as written, regardless of their times and ids.
    for ((tenant, deed), ago) in deeds.into_iter().zip(0..) {
        let id = AdminActionId::new(Uuid::from_u128(u128::MAX - u128::from(ago)));
        let act = AdminAction { id, at: NOW - ago, tenant: TenantId::new(tenant)?, by: "ada".into(), deed };
        let opened = if ago % 2 == 0 { &one } else { &two };
        opened.ledger.act(act.clone()).await?;
        acts.push(act);
    }
    for opened in [&one, &two] {
        same("the acts", &opened.book.acts().await?, &acts)?;
        same("how many are verified", &opened.book.verify().await?.acts, &7)?;
        opened.is_sound("with acts").await?;
    }
    Ok(())
}

pub(super) async fn what_is_written_is_counted(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    same("nothing", &opened.book.verify().await?, &Verification::default())?;
    let mut lines = 0;
    for session in ["r", "s", "t"] {
        let mut script = CallScript::ready(ScriptSettings { session, ..ScriptSettings::default() })?;
        opened.append(&mut script).await?;
        script.begin(opened.ledger.owner())?;
        opened.append(&mut script).await?;
        lines += u64::from(script.record.len());
    }
    let by = "ada".to_owned();
    let (id, tenant) = (AdminActionId::new(Uuid::now_v7()), TenantId::new("local")?);
    opened.ledger.act(AdminAction { id, at: NOW, tenant, by, deed: AdminActionKind::Lift }).await?;
    let open = Verification { records: 3, lines, acts: 1, unsealed: lines + 1, ..Verification::default() };
    same("unsealed", &opened.book.verify().await?, &open)?;
    let segments = opened.book.seal().await?;
    let anchor = opened.book.anchor().await?;
    let sealed = Verification { segments, unsealed: 0, anchor, ..open };
    same("sealed", &opened.book.verify().await?, &sealed)?;
    let mut tail = CallScript::ready(ScriptSettings::default())?;
    opened.append(&mut tail).await?;
    let tail = u64::from(tail.record.len());
    let more = Verification { records: 4, lines: lines + tail, unsealed: tail, ..sealed };
    same("with a tail", &opened.book.verify().await?, &more)
}

pub(super) async fn sealing_moves_the_anchor_and_leaves_nothing_behind(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    same("an empty book", &one.book.seal().await?, &0)?;
    same("its anchor", &one.book.anchor().await?, &None)?;
    let (mut segments, mut before) = (0, None);
    for (opened, beside) in [(&one, &two), (&two, &one), (&one, &two)] {
        opened.append(&mut CallScript::ready(ScriptSettings::default())?).await?;
        let sealed = opened.book.seal().await?;
        ensure!(sealed > 0, "nothing was sealed");
        segments += sealed;
        let Some(anchor) = opened.book.anchor().await? else {
            return Err(ConformanceError::new("there is no anchor"));
        };
        same("the number of the anchor", &anchor.number, &segments)?;
        ensure!(before.as_ref() != Some(&anchor.digest), "the anchor does not move");
        before = Some(anchor.digest);
        for again in [opened, beside] {
            same("sealed again", &again.book.seal().await?, &0)?;
            same("the anchor", &again.book.anchor().await?, &Some(anchor.clone()))?;
            let verification = again.book.verify().await?;
            same("how many segments", &verification.segments, &segments)?;
            same("how much is not sealed", &verification.unsealed, &0)?;
            same("the anchor it is held against", &verification.anchor, &Some(anchor.clone()))?;
            again.is_sound("sealed,").await?;
        }
    }
    Ok(())
}

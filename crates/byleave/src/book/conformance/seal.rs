//! Acts, verification and seals: everything is counted, and what is sealed is anchored.

use byleave_core::act::{Act, Deed};
use byleave_core::id::{ActId, TenantId};
use uuid::Uuid;

use super::Bench;
use crate::book::Verification;
use crate::ledger::conformance::script::{NOW, Script, Setting, leave};
use crate::ledger::conformance::{Flaw, ensure, same};

pub(super) async fn acts_are_listed_in_order(bench: &dyn Bench) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let mut script = Script::ready(Setting::default())?;
    one.append(&mut script).await?;
    let deeds = [
        ("local", Deed::Halt { why: "fire".into() }),
        ("other", Deed::Halt { why: "flood".into() }),
        ("local", Deed::Revoke { leave: leave().id }),
        ("other", Deed::Lift),
        ("local", Deed::Lift),
        ("local", Deed::Forget { call: script.call() }),
        ("local", Deed::Waive { guarantees: vec!["memory-limited".into()], why: "no cgroups".into() }),
    ];
    let mut acts = Vec::new();
    // Their order is that of writing, whatever their clocks and ids say.
    for ((tenant, deed), ago) in deeds.into_iter().zip(0..) {
        let id = ActId::new(Uuid::from_u128(u128::MAX - u128::from(ago)));
        let act = Act { id, at: NOW - ago, tenant: TenantId::new(tenant)?, by: "ada".into(), deed };
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

pub(super) async fn what_is_written_is_counted(bench: &dyn Bench) -> Result<(), Flaw> {
    let opened = bench.open().await?;
    same("nothing", &opened.book.verify().await?, &Verification::default())?;
    let mut lines = 0;
    for session in ["r", "s", "t"] {
        let mut script = Script::ready(Setting { session, ..Setting::default() })?;
        opened.append(&mut script).await?;
        script.begin(opened.ledger.owner())?;
        opened.append(&mut script).await?;
        lines += u64::from(script.record.len());
    }
    let by = "ada".to_owned();
    let (id, tenant) = (ActId::new(Uuid::now_v7()), TenantId::new("local")?);
    opened.ledger.act(Act { id, at: NOW, tenant, by, deed: Deed::Lift }).await?;
    let open = Verification { records: 3, lines, acts: 1, unsealed: lines + 1, ..Verification::default() };
    same("unsealed", &opened.book.verify().await?, &open)?;
    let segments = opened.book.seal().await?;
    let anchor = opened.book.anchor().await?;
    let sealed = Verification { segments, unsealed: 0, anchor, ..open };
    same("sealed", &opened.book.verify().await?, &sealed)?;
    let mut tail = Script::ready(Setting::default())?;
    opened.append(&mut tail).await?;
    let tail = u64::from(tail.record.len());
    let more = Verification { records: 4, lines: lines + tail, unsealed: tail, ..sealed };
    same("with a tail", &opened.book.verify().await?, &more)
}

pub(super) async fn sealing_moves_the_anchor_and_leaves_nothing_behind(
    bench: &dyn Bench,
) -> Result<(), Flaw> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    same("an empty book", &one.book.seal().await?, &0)?;
    same("its anchor", &one.book.anchor().await?, &None)?;
    let (mut segments, mut before) = (0, None);
    for (opened, beside) in [(&one, &two), (&two, &one), (&one, &two)] {
        opened.append(&mut Script::ready(Setting::default())?).await?;
        let sealed = opened.book.seal().await?;
        ensure!(sealed > 0, "nothing was sealed");
        segments += sealed;
        let Some(anchor) = opened.book.anchor().await? else { return Err(Flaw::new("there is no anchor")) };
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

//! Cases on interruption: only an open attempt, only once, and only if its owner is dead.

use byleave_core::entry::RecordEvent;
use byleave_core::id::{AttemptId, CallId};
use byleave_core::record::Record;
use uuid::Uuid;

use super::record_script::{CallScript, NOW, ScriptSettings, loaded};
use super::{ConformanceError, LedgerHarness, ensure, race, same};
use byleave_gate::ledger::{AppendError, Interruption, Ledger};

pub(super) async fn a_living_owner_is_left_alone(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let (script, attempt) = running(&*one).await?;
    same("interrupted", &two.interrupt(script.call(), attempt, NOW).await?, &Interruption::OwnerAlive)?;
    same("the record", &loaded(&*two, script.call()).await?, &script.record)
}

pub(super) async fn a_dead_owner_is_interrupted(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    ensure!(one.owner() != two.owner(), "two owners have the same id");
    let (mut script, attempt) = running(&*one).await?;
    bench.kill(one).await?;
    same("interrupted", &two.interrupt(script.call(), attempt, NOW + 7).await?, &Interruption::Recorded)?;
    script.later(NOW + 7);
    script.push(RecordEvent::Interrupted { attempt })?;
    same("the record", &loaded(&*two, script.call()).await?, &script.record)?;
    same("again", &two.interrupt(script.call(), attempt, NOW + 8).await?, &Interruption::NotOpen)?;
    // The call is driven until it is settled like any other.
    same("drivable", &two.resumable_calls(NOW, 10).await?, &vec![script.call()])?;
    script.reload(&*two).await?;
    script.settle()?;
    two.append(script.batch()).await?;
    same("drivable once settled", &two.resumable_calls(NOW, 10).await?, &Vec::new())
}

pub(super) async fn ones_own_attempt_can_be_interrupted(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let (script, attempt) = running(&*ledger).await?;
    same("interrupted", &ledger.interrupt(script.call(), attempt, NOW).await?, &Interruption::Recorded)?;
    same("how often", &interruptions(&loaded(&*ledger, script.call()).await?), &1)
}

pub(super) async fn what_is_not_open_is_not_interrupted(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let stranger = AttemptId::new(Uuid::now_v7());
    let no_call = CallId::new(Uuid::now_v7());
    same("no such call", &ledger.interrupt(no_call, stranger, NOW).await?, &Interruption::NotOpen)?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    ledger.append(script.batch()).await?;
    same("not begun", &ledger.interrupt(script.call(), stranger, NOW).await?, &Interruption::NotOpen)?;
    let attempt = script.start(ledger.owner())?;
    ledger.append(script.batch()).await?;
    same("another attempt", &ledger.interrupt(script.call(), stranger, NOW).await?, &Interruption::NotOpen)?;
    script.end()?;
    ledger.append(script.batch()).await?;
    same("ended", &ledger.interrupt(script.call(), attempt, NOW).await?, &Interruption::NotOpen)?;
    script.settle()?;
    ledger.append(script.batch()).await?;
    same("settled", &ledger.interrupt(script.call(), attempt, NOW).await?, &Interruption::NotOpen)?;
    same("the record", &loaded(&*ledger, script.call()).await?, &script.record)
}

pub(super) async fn racing_interruptions_write_once(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let dying = bench.open().await?;
    let owners = [bench.open().await?, bench.open().await?, bench.open().await?];
    let (script, attempt) = running(&*dying).await?;
    bench.kill(dying).await?;
    let runners = owners.iter().cycle().take(16).map(|ledger| {
        let (ledger, call) = (ledger.clone(), script.call());
        async move { ledger.interrupt(call, attempt, NOW).await }
    });
    let mut written = 0;
    for raced in race(runners).await? {
        match raced? {
            Interruption::Recorded => written += 1,
            Interruption::NotOpen => {}
            Interruption::OwnerAlive => {
                return Err(ConformanceError::new("a dead owner was taken to be alive"));
            }
        }
    }
    same("the number of writers", &written, &1)?;
    let [ledger, ..] = &owners;
    same("how often it is written", &interruptions(&loaded(&**ledger, script.call()).await?), &1)
}

pub(super) async fn an_end_and_an_interruption_exclude_each_other(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    for _ in 0..16 {
        let (mut script, attempt) = running(&*ledger).await?;
        script.end()?;
        let batch = script.batch();
        let call = script.call();
        let (ender, breaker) = (ledger.clone(), ledger.clone());
        let runners: [byleave_gate::boxed::BoxFuture<'static, Result<bool, ConformanceError>>; 2] = [
            Box::pin(async move {
                match ender.append(batch).await {
                    Ok(()) => Ok(true),
                    Err(AppendError::Stale) => Ok(false),
                    Err(fault) => Err(fault.into()),
                }
            }),
            Box::pin(
                async move { Ok(breaker.interrupt(call, attempt, NOW).await? == Interruption::Recorded) },
            ),
        ];
        let mut took = 0;
        for raced in race(runners).await? {
            took += usize::from(raced?);
        }
        same("an end and an interruption", &took, &1)?;
        loaded(&*ledger, call).await?;
    }
    Ok(())
}

async fn running(ledger: &dyn Ledger) -> Result<(CallScript, AttemptId), ConformanceError> {
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let attempt = script.start(ledger.owner())?;
    ledger.append(script.batch()).await?;
    Ok((script, attempt))
}

fn interruptions(record: &Record) -> usize {
    record.entries().iter().filter(|entry| matches!(entry.event, RecordEvent::Interrupted { .. })).count()
}

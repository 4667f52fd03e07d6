//! Cases on append and load: appended entries are complete, and a refused batch leaves no trace.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::digest::Digest;
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AttemptId, CallId, OwnerId, SessionId};
use byleave_core::question::Answer;
use uuid::Uuid;

use super::record_script::{
    CallScript, NOW, QUESTION_MS, ScriptSettings, admin_action, grant_approval, loaded, standing_approval,
};
use super::{ConformanceError, LedgerHarness, ensure, expect_ledger_error, race, same};
use byleave_gate::ledger::{AppendError, Batch, ContentError, Interruption, StartBlockedError, invariants};

pub(super) async fn what_was_appended_is_loaded(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let (ledger, other) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let mut batches = vec![script.batch()];
    script.start(ledger.owner())?;
    batches.push(script.batch());
    script.end()?;
    script.settle()?;
    batches.push(script.batch());
    let contents: Vec<_> = batches.iter().flat_map(|batch| batch.contents.clone()).collect();
    for batch in batches {
        ledger.append(batch).await?;
    }
    for ledger in [ledger, other] {
        let loaded = ledger
            .load(script.call())
            .await?
            .ok_or_else(|| ConformanceError::new("the record is missing"))?;
        same("the record", &loaded.record, &script.record)?;
        same("the key", &loaded.key.map(|key| *key.expose()), &Some(*script.key.expose()))?;
        for content in &contents {
            let bytes = ledger.content(script.call(), content.content_ref).await?;
            same("a content", &bytes, &content.bytes)?;
        }
    }
    Ok(())
}

pub(super) async fn a_call_that_never_was_is_not_there(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let held = script.content_ref(b"never appended");
    ensure!(ledger.load(script.call()).await?.is_none(), "there is a record of a call that never was");
    let content = ledger.content(script.call(), held).await;
    ensure!(matches!(content, Err(ContentError::Missing)), "its content: {content:?}");
    Ok(())
}

pub(super) async fn a_stale_length_is_refused(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let first = script.batch();
    script.start(ledger.owner())?;
    let second = script.batch();
    let ahead = ledger.append(second.clone()).await;
    ensure!(matches!(ahead, Err(AppendError::Stale)), "lines without those before them: {ahead:?}");
    for batch in [&first, &second] {
        ledger.append(batch.clone()).await?;
        let again = ledger.append(batch.clone()).await;
        ensure!(matches!(again, Err(AppendError::Stale)), "the same lines again: {again:?}");
    }
    // Another call under this id is stale too, however different it is.
    let mut other = CallScript::ready(ScriptSettings { received_at: NOW + 1, ..ScriptSettings::default() })?;
    let reused = ledger.append(as_lines_of(script.call(), other.batch())).await;
    ensure!(matches!(reused, Err(AppendError::Stale)), "another call under the same id: {reused:?}");
    same("the record", &loaded(&*ledger, script.call()).await?, &script.record)
}

pub(super) async fn a_stale_head_is_refused(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::new(ScriptSettings::default())?;
    script.step()?;
    ledger.append(script.batch()).await?;
    let mut fork = script.clone();
    script.step()?;
    ledger.append(script.batch()).await?;
    fork.later(NOW + 500);
    fork.step()?;
    fork.batch();
    fork.step()?;
    let batch = fork.batch();
    same("the length both know", &batch.expected_len, &script.record.len())?;
    let forked = ledger.append(batch).await;
    ensure!(matches!(forked, Err(AppendError::Stale)), "lines on another head: {forked:?}");
    same("the record", &loaded(&*ledger, script.call()).await?, &script.record)
}

pub(super) async fn racing_writers_never_share_a_place(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    const WRITERS: u64 = 16;
    let owners = [bench.open().await?, bench.open().await?, bench.open().await?];
    let mut script = CallScript::new(ScriptSettings::default())?;
    for place in 0_u32..6 {
        let runners = owners.iter().cycle().zip(0..WRITERS).map(|(ledger, number)| {
            let (ledger, mut writer) = (ledger.clone(), script.clone());
            async move {
                writer.later(NOW + u64::from(place) * WRITERS + number);
                writer.step()?;
                let batch = writer.batch();
                Ok::<_, ConformanceError>((ledger.append(batch).await, writer))
            }
        });
        let mut winner = None;
        for raced in race(runners).await? {
            match raced? {
                (Ok(()), writer) => {
                    ensure!(winner.is_none(), "two writers took place {place}");
                    winner = Some(writer);
                }
                (Err(AppendError::Stale), _) => {}
                (Err(fault), _) => return Err(fault.into()),
            }
        }
        script = winner.ok_or_else(|| ConformanceError::new(format!("no writer got position {place}")))?;
        for ledger in &owners {
            same("the record", &loaded(&**ledger, script.call()).await?, &script.record)?;
        }
    }
    Ok(())
}

pub(super) async fn a_broken_chain_is_refused(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    type ChainCorruption = fn(&mut Batch);
    const BREAKINGS: &[(&str, ChainCorruption)] = &[
        ("a changed body", |batch| {
            if let Some(line) = batch.chained_entries.last_mut() {
                *line = ChainedEntry::from_stored(line.seq(), format!("{} ", line.body()), line.link());
            }
        }),
        ("a changed link", |batch| {
            if let Some(line) = batch.chained_entries.last_mut() {
                *line = ChainedEntry::from_stored(line.seq(), line.body().to_owned(), Digest::compute(b"x"));
            }
        }),
        ("a wrong number", |batch| {
            if let Some(line) = batch.chained_entries.last_mut() {
                *line = ChainedEntry::from_stored(line.seq() + 1, line.body().to_owned(), line.link());
            }
        }),
        ("numbers with a gap, but valid links", |batch| {
            for line in &mut batch.chained_entries {
                *line = ChainedEntry::from_stored(line.seq() + 1, line.body().to_owned(), line.link());
            }
            *batch = as_lines_of(batch.call, batch.clone());
        }),
        ("lines out of order", |batch| batch.chained_entries.reverse()),
        ("a missing first line", |batch| {
            batch.chained_entries.remove(0);
            batch.entries.remove(0);
        }),
        ("a missing last line", |batch| {
            batch.chained_entries.truncate(batch.chained_entries.len().saturating_sub(1))
        }),
        ("no entries", |batch| {
            batch.chained_entries.clear();
            batch.entries.clear();
        }),
        ("lines of another call", |batch| batch.call = CallId::new(Uuid::now_v7())),
    ];
    let ledger = bench.open().await?;
    for (what, damage) in BREAKINGS {
        let mut batch = CallScript::ready(ScriptSettings::default())?.batch();
        damage(&mut batch);
        let call = batch.call;
        expect_ledger_error(what, &ledger.append(batch).await)?;
        ensure!(ledger.load(call).await?.is_none(), "{what}: something was taken");
    }
    Ok(())
}

pub(super) async fn a_batch_that_is_not_what_it_says_is_refused(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    type BatchFalsification = fn(&mut Batch);
    const LIES: &[(&str, BatchFalsification)] = &[
        ("something begins and the batch does not say so", |batch| batch.attempt_start = None),
        ("another attempt begins", |batch| {
            if let Some(begins) = &mut batch.attempt_start {
                begins.attempt = AttemptId::new(Uuid::now_v7());
            }
        }),
        ("the start names another standing approval than the claim", |batch| {
            if let Some(begins) = &mut batch.attempt_start {
                begins.standing_approval = Some((standing_approval().id, None));
            }
        }),
        ("a final batch that does not settle", |batch| batch.is_final = true),
        ("a summary with another session", |batch| {
            if let Ok(session) = SessionId::new("elsewhere") {
                batch.call_summary.session = session;
            }
        }),
        ("the batch has contents but no key", |batch| batch.key = None),
    ];
    let ledger = bench.open().await?;
    for (what, lie) in LIES {
        let mut batch = CallScript::beginning(ScriptSettings::default(), ledger.owner())?.batch();
        lie(&mut batch);
        let call = batch.call;
        expect_ledger_error(what, &ledger.append(batch).await)?;
        ensure!(ledger.load(call).await?.is_none(), "{what}: something was taken");
    }
    let mut script = CallScript::ready(ScriptSettings { session: "later", ..ScriptSettings::asking() })?;
    let key = script.key.clone();
    ledger.append(script.batch()).await?;
    script.ask()?;
    let honest = script.batch();
    let nothing =
        Batch { chained_entries: Vec::new(), entries: Vec::new(), pending_question: None, ..honest.clone() };
    let mut listed_elsewhere = honest.clone();
    listed_elsewhere.call_summary.session = SessionId::new("elsewhere")?;
    let mut waits_for_another = honest.clone();
    if let Some(waits) = &mut waits_for_another.pending_question {
        waits.question.expires_at += 1;
    }
    for (what, batch) in [
        ("no entries", nothing),
        ("a second key", Batch { key: Some(key), ..honest.clone() }),
        ("a summary with another session than before", listed_elsewhere),
        ("a pending question other than the asked one", waits_for_another),
    ] {
        expect_ledger_error(what, &ledger.append(batch).await)?;
    }
    ledger.append(honest).await?;

    let mut foreign = CallScript::beginning(ScriptSettings::default(), OwnerId::new(Uuid::now_v7()))?;
    expect_ledger_error("a claim for another owner", &ledger.append(foreign.batch()).await)?;

    let mut begun = CallScript::beginning(ScriptSettings::default(), ledger.owner())?;
    ledger.append(begun.batch()).await?;
    if let Some((attempt, _)) = invariants::open_attempt(&begun.record) {
        begun.push(RecordEvent::Interrupted { attempt })?;
    }
    expect_ledger_error("an interruption without a check", &ledger.append(begun.batch()).await)?;

    let mut waiting = CallScript::waiting(ScriptSettings { session: "w", ..ScriptSettings::asking() })?;
    ledger.append(waiting.batch()).await?;
    waiting.answer(Answer::Yes { note: None })?;
    let mut batch = waiting.batch();
    if let Some(Entry { event: RecordEvent::Answered(answered), .. }) = batch.entries.last_mut() {
        answered.answer = Answer::StandingApproval(standing_approval());
    }
    expect_ledger_error("a standing approval without an entry", &ledger.append(batch).await)?;
    let leaves = ledger.standing_approvals(waiting.tenant(), waiting.setting.tool, NOW).await?;
    ensure!(leaves.is_empty(), "a standing approval without an entry is in force");
    Ok(())
}

pub(super) async fn a_content_that_does_not_fit_is_refused(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let honest = script.batch();
    for change in ["bytes", "size", "key"] {
        let mut batch = honest.clone();
        match (change, batch.contents.last_mut()) {
            ("bytes", Some(content)) => content.bytes.reverse(),
            ("size", Some(content)) => content.content_ref.size += 1,
            _ => batch.key = Some(CallScript::new(ScriptSettings::default())?.key.clone()),
        }
        expect_ledger_error(&format!("a content with other {change}"), &ledger.append(batch).await)?;
        ensure!(ledger.load(script.call()).await?.is_none(), "other {change}: something was taken");
    }
    ledger.append(honest).await?;
    let len = script.record.len();
    script.start(ledger.owner())?;
    script.end()?;
    let mut batch = script.batch();
    if let Some(content) = batch.contents.last_mut() {
        content.bytes.push(b'!');
    }
    expect_ledger_error("a later content with other bytes", &ledger.append(batch).await)?;
    same("the length", &loaded(&*ledger, script.call()).await?.len(), &len)
}

pub(super) async fn contents_are_read_through_their_own_record_only(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let (mut one, mut two) =
        (CallScript::ready(ScriptSettings::default())?, CallScript::ready(ScriptSettings::default())?);
    let secret = one.content_ref(b"only in the first");
    ledger.append(one.batch()).await?;
    ledger.append(two.batch()).await?;
    same("through its own", &ledger.content(one.call(), secret).await?, &b"only in the first".to_vec())?;
    let through_other = ledger.content(two.call(), secret).await;
    ensure!(matches!(through_other, Err(ContentError::Missing)), "through another: {through_other:?}");
    Ok(())
}

pub(super) async fn without_a_key_contents_are_forgotten(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let held = script.content_ref(b"never kept");
    let batch = Batch { contents: Vec::new(), key: None, ..script.batch() };
    ledger.append(batch).await?;
    let content = ledger.content(script.call(), held).await;
    ensure!(matches!(content, Err(ContentError::Forgotten)), "expected a forgotten content: {content:?}");
    Ok(())
}

pub(super) async fn what_is_forgotten_stays_forgotten(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let (ledger, other) = (bench.open().await?, bench.open().await?);
    let mut script = CallScript::ready(ScriptSettings::default())?;
    let early = script.content_ref(b"early");
    ledger.append(script.batch()).await?;
    script.start(ledger.owner())?;
    ledger.append(script.batch()).await?;

    admin_action(&*other, "stranger", AdminActionKind::Forget { call: script.call() }).await?;
    same(
        "after another tenant's admin action",
        &ledger.content(script.call(), early).await?,
        &b"early".to_vec(),
    )?;
    admin_action(&*other, script.setting.tenant, AdminActionKind::Forget { call: script.call() }).await?;

    // The call continues. Its end must be recorded, although its contents are forgotten.
    let late = script.end()?;
    ledger.append(script.batch()).await?;
    let key = ledger.load(script.call()).await?.and_then(|loaded| loaded.key);
    ensure!(key.is_none(), "the key is still there");
    for held in [early, late] {
        let content = ledger.content(script.call(), held).await;
        ensure!(matches!(content, Err(ContentError::Forgotten)), "expected a forgotten content: {content:?}");
    }
    same("the record", &loaded(&*ledger, script.call()).await?, &script.record)
}

pub(super) async fn a_hindered_batch_leaves_no_trace(
    bench: &dyn LedgerHarness,
) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut script = CallScript::waiting(ScriptSettings::asking())?;
    ledger.append(script.batch()).await?;
    let before = script.record.clone();
    let (tenant, tool) = (script.tenant().clone(), script.setting.tool);
    script.answer(Answer::StandingApproval(standing_approval()))?;
    let note = script.content_ref(b"a note");
    script.start(ledger.owner())?;
    let batch = script.batch();

    admin_action(&*ledger, script.setting.tenant, AdminActionKind::Halt { reason: "stop".into() }).await?;
    let hindered = ledger.append(batch.clone()).await;
    ensure!(
        matches!(hindered, Err(AppendError::StartBlocked(StartBlockedError::Halted { .. }))),
        "expected a halt: {hindered:?}"
    );
    same("the record", &loaded(&*ledger, script.call()).await?, &before)?;
    let content = ledger.content(script.call(), note).await;
    ensure!(matches!(content, Err(ContentError::Missing)), "its content was taken: {content:?}");
    ensure!(
        ledger.standing_approvals(&tenant, tool, NOW).await?.is_empty(),
        "its standing approval is in force"
    );
    let stranger = CallId::new(Uuid::now_v7());
    let held_up = ledger.blocking_call(&tenant, script.session(), stranger, &script.plan(), &[]).await?;
    same("the blocking call", &held_up, &Some(script.call()))?;
    ensure!(ledger.resumable_calls(NOW, 10).await?.is_empty(), "its question is closed");

    admin_action(&*ledger, script.setting.tenant, AdminActionKind::Lift).await?;
    ledger.append(batch).await?;
    same("the record", &loaded(&*ledger, script.call()).await?, &script.record)?;
    same("the content", &ledger.content(script.call(), note).await?, &b"a note".to_vec())?;
    same("standing approvals in force", &ledger.standing_approvals(&tenant, tool, NOW).await?.len(), &1)
}

pub(super) async fn everything_outlives_a_restart(bench: &dyn LedgerHarness) -> Result<(), ConformanceError> {
    let ledger = bench.open().await?;
    let mut running = CallScript::ready(ScriptSettings::default())?;
    let attempt = running.start(ledger.owner())?;
    let batch = running.batch();
    let contents = batch.contents.clone();
    ledger.append(batch).await?;
    let mut waiting = CallScript::ready(ScriptSettings { session: "other", ..ScriptSettings::asking() })?;
    let question = waiting.ask()?;
    ledger.append(waiting.batch()).await?;
    let given = standing_approval();
    grant_approval(&*ledger, ScriptSettings { session: "third", ..ScriptSettings::default() }, &given)
        .await?;
    admin_action(&*ledger, "local", AdminActionKind::Halt { reason: "stop".into() }).await?;
    bench.kill(ledger).await?;
    bench.restart().await?;

    let ledger = bench.open().await?;
    same("the record", &loaded(&*ledger, running.call()).await?, &running.record)?;
    for content in contents {
        same("a content", &ledger.content(running.call(), content.content_ref).await?, &content.bytes)?;
    }
    same("the question's call", &ledger.call_for_question(question.id).await?, &Some(waiting.call()))?;
    let later = CallId::new(Uuid::now_v7());
    let held_up =
        ledger.blocking_call(waiting.tenant(), waiting.session(), later, &waiting.plan(), &[]).await?;
    same("the blocking call", &held_up, &Some(waiting.call()))?;
    let leaves = ledger.standing_approvals(running.tenant(), &given.tool, NOW).await?;
    same("the standing approvals", &leaves.iter().map(|leave| (**leave).clone()).collect(), &vec![given])?;
    ensure!(ledger.active_halt(running.tenant()).await?.is_some(), "the halt is gone");
    admin_action(&*ledger, "local", AdminActionKind::Lift).await?;
    let mut next = CallScript::beginning(ScriptSettings::default(), ledger.owner())?;
    let busy = ledger.append(next.batch()).await;
    ensure!(
        matches!(busy, Err(AppendError::StartBlocked(StartBlockedError::SessionBusy { call, .. })) if call == running.call()),
        "the session was not kept busy: {busy:?}"
    );
    let drivable = ledger.resumable_calls(NOW + QUESTION_MS, 10).await?;
    ensure!(
        drivable.contains(&running.call()) && drivable.contains(&waiting.call()),
        "calls were lost: {drivable:?}"
    );
    let interrupted = ledger.interrupt(running.call(), attempt, NOW).await?;
    same("the owner that died", &interrupted, &Interruption::Recorded)
}

/// Converts the entries into lines of another call.
fn as_lines_of(call: CallId, mut batch: Batch) -> Batch {
    batch.call = call;
    let mut before = batch.prev_link;
    for line in &mut batch.chained_entries {
        *line = ChainedEntry::new(call, before, line.seq(), line.body().to_owned());
        before = line.link();
    }
    batch
}

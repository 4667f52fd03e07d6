//! Cases for lists: the newest first, filtered and paged.

use byleave_core::admin_action::AdminActionKind;
use byleave_core::decision::Verdict;
use byleave_core::entry::RecordEvent;
use byleave_core::id::{CallId, QuestionId, SessionId, TenantId};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::review::{Review, ReviewNote, ReviewOutcome};

use super::{AuditLogHarness, OpenedStore};
use crate::ledger::record_script::{CLOSINGS, CallScript, NOW, QUESTION_MS, ScriptSettings, admin_action};
use crate::ledger::{ConformanceError, ensure, same};
use byleave_gate::audit_log::{CallFilter, CallItem, CallState, PageRequest, QuestionFilter, QuestionItem};

/// More items than any list here has.
const ALL: PageRequest = PageRequest::with_limit(100);

pub(super) async fn calls_are_found_by_what_is_asked_for(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let settings = [
        ScriptSettings::default(),
        ScriptSettings { session: "r", ..ScriptSettings::default() },
        ScriptSettings { tool: "u", ..ScriptSettings::default() },
        ScriptSettings { tenant: "other", ..ScriptSettings::default() },
        ScriptSettings::asking(),
        ScriptSettings { verdict: Verdict::Deny, ..ScriptSettings::default() },
        ScriptSettings::default(),
    ];
    let mut calls = Vec::new();
    for (setting, age) in settings.into_iter().zip(0..) {
        let mut script = CallScript::ready(ScriptSettings { received_at: NOW + age * 1_000, ..setting })?;
        match script.setting.verdict {
            Verdict::Ask => {
                script.ask()?;
            }
            Verdict::Deny => script.settle()?,
            // The last one has not ended.
            Verdict::Allow if age == 6 => {}
            Verdict::Allow => {
                script.start(one.ledger.owner())?;
                script.end()?;
                script.settle()?;
            }
        }
        one.append(&mut script).await?;
        calls.push(script.call());
    }
    let any = CallFilter::default;
    let state = |state| CallFilter { state: Some(state), ..any() };
    let outcome = |word: &str| CallFilter { outcome: Some(word.into()), ..any() };
    let tenant = |name| Ok::<_, ConformanceError>(CallFilter { tenant: Some(TenantId::new(name)?), ..any() });
    let session =
        |name| Ok::<_, ConformanceError>(CallFilter { session: Some(SessionId::new(name)?), ..any() });
    let tool = |name: &str| CallFilter { tool: Some(name.into()), ..any() };
    let checks: [(CallFilter, &[usize]); 19] = [
        (any(), &[6, 5, 4, 3, 2, 1, 0]),
        (tenant("local")?, &[6, 5, 4, 2, 1, 0]),
        (tenant("other")?, &[3]),
        (tenant("nobody")?, &[]),
        (session("r")?, &[1]),
        (session("s")?, &[6, 5, 4, 3, 2, 0]),
        (tool("u"), &[2]),
        (tool("%"), &[]),
        (state(CallState::Open), &[6]),
        (state(CallState::Waiting), &[4]),
        (state(CallState::Settled), &[5, 3, 2, 1, 0]),
        (state(CallState::Damaged), &[]),
        (outcome("completed"), &[3, 2, 1, 0]),
        (outcome("refused"), &[5]),
        (outcome("unknown"), &[]),
        (CallFilter { since: Some(NOW + 4_000), ..any() }, &[6, 5, 4]),
        (CallFilter { until: Some(NOW + 2_000), ..any() }, &[1, 0]),
        (CallFilter { since: Some(NOW + 1), until: Some(NOW + 3_001), ..any() }, &[3, 2, 1]),
        (CallFilter { tool: Some("t".into()), since: Some(NOW + 1), ..tenant("local")? }, &[6, 5, 4, 1]),
    ];
    for (filter, wanted) in checks {
        let wanted: Vec<CallId> = wanted.iter().filter_map(|at| calls.get(*at).copied()).collect();
        for opened in [&one, &two] {
            let seen = ids(&opened.audit_log.calls(filter.clone(), ALL).await?);
            same(&format!("{filter:?}"), &seen, &wanted)?;
        }
    }
    Ok(())
}

pub(super) async fn calls_are_found_by_who_what_and_how(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let of = |agent, summary| ScriptSettings { agent, summary, ..ScriptSettings::default() };
    let settings = [
        of("ada", "Copies the Notes"),
        of("sub-agent `ada` of `bob`", "100% of it"),
        of("bob", "1000 of it"),
        // Not a sub-agent called `ada`, although the name looks like one.
        of("x sub-agent `ada` of `bob`", "a_b"),
        ScriptSettings { verdict: Verdict::Deny, ..of("%", "axb") },
        ScriptSettings { verdict: Verdict::Ask, ..of("ad", "asks") },
        ScriptSettings { verdict: Verdict::Ask, ..of("ad", "asks and is declined") },
    ];
    let mut calls = Vec::new();
    for (setting, age) in settings.into_iter().zip(0..) {
        let mut script = CallScript::ready(ScriptSettings { received_at: NOW + age, ..setting })?;
        match script.setting.verdict {
            Verdict::Ask => {
                script.ask()?;
            }
            Verdict::Deny => script.settle()?,
            Verdict::Allow => {}
        }
        one.append(&mut script).await?;
        if age == 6 {
            script.answer(Answer::No { feedback: None })?;
            script.settle()?;
            one.append(&mut script).await?;
        }
        calls.push(script.call());
    }
    let any = CallFilter::default;
    let agent = |name: &str| CallFilter { agent: Some(name.into()), ..any() };
    let code = |word: &str| CallFilter { code: Some(word.into()), ..any() };
    let text = |text: &str| CallFilter { text: Some(text.into()), ..any() };
    let asked = CallFilter { asked_only: true, ..any() };
    let checks: [(CallFilter, &[usize]); 20] = [
        (agent("ada"), &[1, 0]),
        (agent("bob"), &[2]),
        (agent("sub-agent `ada` of `bob`"), &[1]),
        (agent("%"), &[4]),
        (agent("a"), &[]),
        (agent(""), &[]),
        (code("denied"), &[4]),
        (code("declined"), &[6]),
        (code("d%"), &[]),
        (text("notes"), &[0]),
        (text("COPIES THE"), &[0]),
        (text("100%"), &[1]),
        (text("100"), &[2, 1]),
        (text("a_b"), &[3]),
        (text(""), &[6, 5, 4, 3, 2, 1, 0]),
        (asked.clone(), &[6, 5]),
        (CallFilter { state: Some(CallState::Waiting), ..asked.clone() }, &[5]),
        (CallFilter { state: Some(CallState::Open), ..asked.clone() }, &[]),
        (CallFilter { text: Some("declined".into()), agent: Some("ad".into()), ..asked }, &[6]),
        (CallFilter { state: Some(CallState::Open), agent: Some("ada".into()), ..any() }, &[1, 0]),
    ];
    for (filter, wanted) in checks {
        let wanted: Vec<CallId> = wanted.iter().filter_map(|at| calls.get(*at).copied()).collect();
        for opened in [&one, &two] {
            let seen = ids(&opened.audit_log.calls(filter.clone(), ALL).await?);
            same(&format!("{filter:?}"), &seen, &wanted)?;
        }
    }
    Ok(())
}

pub(super) async fn what_is_new_is_told_once(bench: &dyn AuditLogHarness) -> Result<(), ConformanceError> {
    let (writes, watches) = (bench.open().await?, bench.open().await?);
    let mut old = CallScript::waiting(ScriptSettings::asking())?;
    writes.append(&mut old).await?;
    let begin = watches.audit_log.records_since(None, 100).await?;
    same("at first", &begin.calls, &Vec::new())?;
    same("nothing new", &watches.audit_log.records_since(Some(begin.cursor), 100).await?, &begin)?;

    let mut fresh = CallScript::waiting(ScriptSettings { session: "r", ..ScriptSettings::asking() })?;
    writes.append(&mut fresh).await?;
    old.answer(Answer::No { feedback: None })?;
    writes.append(&mut old).await?;
    // An admin action is not a call and is not reported, but it does not hide what comes after it.
    admin_action(&*writes.ledger, "local", AdminActionKind::Halt { reason: "for a while".into() }).await?;
    old.settle()?;
    writes.append(&mut old).await?;
    let news = watches.audit_log.records_since(Some(begin.cursor), 100).await?;
    same("calls with new entries", &news.calls, &vec![fresh.call(), old.call()])?;
    let none = watches.audit_log.records_since(Some(news.cursor), 100).await?;
    same("told once", &none.calls, &Vec::new())?;

    // Parts return the same calls, wherever they are split.
    let (mut upto, mut seen) = (begin.cursor, Vec::new());
    for _ in 0..4 {
        let part = watches.audit_log.records_since(Some(upto), 1).await?;
        ensure!(part.cursor > upto, "a part of what is new has no end");
        upto = part.cursor;
        seen.extend(part.calls);
    }
    same("in parts", &seen, &vec![fresh.call(), old.call(), old.call()])?;
    same("the end", &upto, &news.cursor)
}

pub(super) async fn pages_have_no_gaps_and_no_doubles(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut scripts = Vec::new();
    for age in 0..11 {
        let session = if age % 2 == 0 { "even" } else { "odd" };
        let mut script = CallScript::waiting(ScriptSettings {
            session,
            received_at: NOW + age,
            ..ScriptSettings::asking()
        })?;
        opened.append(&mut script).await?;
        scripts.push(script);
    }
    let newest_first: Vec<CallId> = scripts.iter().rev().map(CallScript::call).collect();
    let of_even = |script: &&CallScript| script.setting.session == "even";
    let even: Vec<CallId> = scripts.iter().rev().filter(of_even).map(CallScript::call).collect();
    let even_only = Some(SessionId::new("even")?);
    for limit in [1, 2, 3, 11, 12] {
        let filter = CallFilter::default();
        same(&format!("by {limit}"), &paged_calls(&opened, &filter, limit).await?, &newest_first)?;
        let filter = CallFilter { session: even_only.clone(), ..filter };
        same(&format!("the even by {limit}"), &paged_calls(&opened, &filter, limit).await?, &even)?;
        let filter = QuestionFilter::default();
        let asked = paged_questions(&opened, &filter, limit).await?;
        same(&format!("questions by {limit}"), &asked, &newest_first)?;
        let filter = QuestionFilter { session: even_only.clone(), ..filter };
        let asked = paged_questions(&opened, &filter, limit).await?;
        same(&format!("the even questions by {limit}"), &asked, &even)?;
    }
    let none = opened.audit_log.calls(CallFilter::default(), PageRequest::with_limit(0)).await?;
    ensure!(none.is_empty(), "none were asked for, and some were listed");

    // Between two pages a new call arrives and an old one continues. Neither changes the remaining pages.
    let first = opened.audit_log.calls(CallFilter::default(), PageRequest::with_limit(4)).await?;
    opened
        .append(&mut CallScript::ready(ScriptSettings {
            received_at: NOW + 99,
            ..ScriptSettings::default()
        })?)
        .await?;
    let [oldest, ..] = scripts.as_mut_slice() else { return Err(ConformanceError::new("no calls")) };
    oldest.answer(Answer::No { feedback: None })?;
    oldest.settle()?;
    opened.append(oldest).await?;
    let page = PageRequest { limit: 100, after: first.last().map(|item| item.cursor) };
    let rest = opened.audit_log.calls(CallFilter::default(), page).await?;
    same("both pages", &[ids(&first), ids(&rest)].concat(), &newest_first)
}

pub(super) async fn a_call_is_listed_as_far_as_it_has_come(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut script = CallScript::ready(ScriptSettings { effects: Vec::new(), ..ScriptSettings::asking() })?;
    opened.append(&mut script).await?;
    is_listed(&opened, &script, CallState::Open).await?;
    script.ask()?;
    opened.append(&mut script).await?;
    is_listed(&opened, &script, CallState::Waiting).await?;
    script.later(NOW + 5_000);
    script.answer(Answer::Yes { note: None })?;
    opened.append(&mut script).await?;
    is_listed(&opened, &script, CallState::Open).await?;
    script.start(opened.ledger.owner())?;
    opened.append(&mut script).await?;
    is_listed(&opened, &script, CallState::Open).await?;
    script.end()?;
    script.settle()?;
    opened.append(&mut script).await?;
    is_listed(&opened, &script, CallState::Settled).await?;

    let mut declined = CallScript::waiting(ScriptSettings::asking())?;
    opened.append(&mut declined).await?;
    declined.answer(Answer::No { feedback: Some("not now".into()) })?;
    declined.settle()?;
    opened.append(&mut declined).await?;
    is_listed(&opened, &declined, CallState::Settled).await
}

/// Checks that the newest call of the list is the call of this script, as in its record.
async fn is_listed(
    opened: &OpenedStore,
    script: &CallScript,
    state: CallState,
) -> Result<(), ConformanceError> {
    let listed = opened.audit_log.calls(CallFilter::default(), PageRequest::with_limit(1)).await?;
    let [item] = listed.as_slice() else { return Err(ConformanceError::new("the call is not listed")) };
    let entries = script.record.entries();
    let outcome = script.record.outcome();
    let wanted = CallItem {
        call: script.call(),
        cursor: item.cursor,
        call_summary: script.call_summary().clone(),
        state,
        outcome: outcome.map(|outcome| outcome.as_str().into()),
        code: outcome.and_then(|outcome| outcome.refusal()).map(|refusal| refusal.code.as_str().into()),
        opened_at: entries.first().map_or(0, |entry| entry.at),
        changed_at: entries.last().map_or(0, |entry| entry.at),
    };
    same("the call in the list", item, &wanted)
}

pub(super) async fn open_questions_are_found_by_what_is_asked_for(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let (one, two) = (bench.open().await?, bench.open().await?);
    let approval = CallScript::waiting(ScriptSettings::asking())?;
    let checkpoint =
        CallScript::waiting(ScriptSettings { checkpoint: true, session: "r", ..ScriptSettings::default() })?;
    let release = held_result(&one, ScriptSettings { tenant: "other", ..ScriptSettings::default() })?;
    let mut asked = Vec::new();
    for (mut script, kind) in [
        (approval, QuestionKind::Approval),
        (checkpoint, QuestionKind::Checkpoint),
        (release, QuestionKind::Release),
    ] {
        let batch = script.batch();
        let question = batch.pending_question.as_ref().map(|waits| waits.question.id);
        let question = question.ok_or_else(|| ConformanceError::new("the script does not wait"))?;
        one.ledger.append(batch).await?;
        asked.push((question, kind, script));
    }
    let any = QuestionFilter::default;
    let of_kind = |kind| QuestionFilter { kind: Some(kind), ..any() };
    let tenant =
        |name| Ok::<_, ConformanceError>(QuestionFilter { tenant: Some(TenantId::new(name)?), ..any() });
    let session =
        |name| Ok::<_, ConformanceError>(QuestionFilter { session: Some(SessionId::new(name)?), ..any() });
    let checks: [(QuestionFilter, &[usize]); 9] = [
        (any(), &[2, 1, 0]),
        (of_kind(QuestionKind::Approval), &[0]),
        (of_kind(QuestionKind::Checkpoint), &[1]),
        (of_kind(QuestionKind::Release), &[2]),
        (tenant("local")?, &[1, 0]),
        (tenant("nobody")?, &[]),
        (session("r")?, &[1]),
        (session("s")?, &[2, 0]),
        (QuestionFilter { kind: Some(QuestionKind::Checkpoint), ..session("s")? }, &[]),
    ];
    for (filter, wanted) in checks {
        for opened in [&one, &two] {
            let seen = opened.audit_log.questions(filter.clone(), ALL).await?;
            same(&format!("how many of {filter:?}"), &seen.len(), &wanted.len())?;
            for (item, at) in seen.iter().zip(wanted) {
                let Some((question, kind, script)) = asked.get(*at) else { continue };
                let wanted = QuestionItem {
                    question: *question,
                    cursor: item.cursor,
                    kind: *kind,
                    call: script.call(),
                    call_summary: script.call_summary().clone(),
                    asked_at: script.record.entries().last().map_or(0, |entry| entry.at),
                    expires_at: NOW + QUESTION_MS,
                };
                same(&format!("a question of {filter:?}"), item, &wanted)?;
            }
        }
    }
    Ok(())
}

pub(super) async fn a_question_is_listed_until_it_is_closed(
    bench: &dyn AuditLogHarness,
) -> Result<(), ConformanceError> {
    let opened = bench.open().await?;
    let mut stays = CallScript::ready(ScriptSettings::asking())?;
    let stays_open = stays.ask()?.id;
    opened.append(&mut stays).await?;
    for (what, close) in CLOSINGS {
        let mut script = CallScript::ready(ScriptSettings::asking())?;
        let question = script.ask()?.id;
        opened.append(&mut script).await?;
        same(&format!("before {what}"), &open_questions(&opened).await?, &vec![question, stays_open])?;
        close(&mut script)?;
        opened.append(&mut script).await?;
        same(&format!("after {what}"), &open_questions(&opened).await?, &vec![stays_open])?;
        // A late answer gets an error that says so, instead of one for an unknown question.
        same(
            &format!("its call after {what}"),
            &opened.ledger.call_for_question(question).await?,
            &Some(script.call()),
        )?;
    }
    Ok(())
}

/// Returns a call whose result is about to be held for a person.
fn held_result(opened: &OpenedStore, setting: ScriptSettings) -> Result<CallScript, ConformanceError> {
    let mut script = CallScript::beginning(setting, opened.ledger.owner())?;
    script.end()?;
    let note = ReviewNote { reviewer: "r".into(), outcome: ReviewOutcome::Held, reason: None, cached: false };
    script.push(RecordEvent::OutputReviewed(Ok(Review { notes: vec![note], replacement: None })))?;
    script.ask()?;
    Ok(script)
}

async fn open_questions(opened: &OpenedStore) -> Result<Vec<QuestionId>, ConformanceError> {
    let items = opened.audit_log.questions(QuestionFilter::default(), ALL).await?;
    Ok(items.iter().map(|item| item.question).collect())
}

async fn paged_calls(
    opened: &OpenedStore,
    filter: &CallFilter,
    limit: usize,
) -> Result<Vec<CallId>, ConformanceError> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = opened.audit_log.calls(filter.clone(), PageRequest { limit, after }).await?;
        ensure!(page.len() <= limit, "a page of {} where {limit} were asked for", page.len());
        let Some(last) = page.last() else { return Ok(seen) };
        ensure!(seen.len() <= 100, "the pages never end");
        after = Some(last.cursor);
        seen.extend(ids(&page));
    }
}

async fn paged_questions(
    opened: &OpenedStore,
    filter: &QuestionFilter,
    limit: usize,
) -> Result<Vec<CallId>, ConformanceError> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = opened.audit_log.questions(filter.clone(), PageRequest { limit, after }).await?;
        ensure!(page.len() <= limit, "a page of {} where {limit} were asked for", page.len());
        let Some(last) = page.last() else { return Ok(seen) };
        ensure!(seen.len() <= 100, "the pages never end");
        after = Some(last.cursor);
        seen.extend(page.iter().map(|item| item.call));
    }
}

fn ids(items: &[CallItem]) -> Vec<CallId> {
    items.iter().map(|item| item.call).collect()
}

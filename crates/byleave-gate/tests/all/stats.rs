//! Tests of the fold with constructed records.

use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::digest::Digest;
use byleave_core::entry::RecordEvent;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AgentId, OwnerId, SessionId};
use byleave_core::pipeline::{NextStep, Task, next_step};
use byleave_core::question::Answer;
use byleave_core::record::Record;
use byleave_core::review::Review;
use uuid::Uuid;

use byleave_conformance::ledger::record_script::{
    CallScript, NOW, QUESTION_MS, ScriptSettings, standing_approval,
};
use byleave_gate::stats::{
    AnswerCounts, DayCount, DestructiveCounts, OutcomeCounts, Stats, StatsAccumulator, StatsFilter,
};

const DAY: u64 = 86_400_000;

/// Returns a call with an open question, asked by these rules with these causes.
fn asks(setting: ScriptSettings, by: &[(Option<&str>, AskCause)]) -> CallScript {
    let reason = |(rule, cause): &(Option<&str>, AskCause)| DecisionReason {
        verdict: Verdict::Ask,
        cause: Some(*cause),
        rule: rule.map(str::to_owned),
        origin: rule.map(|rule| format!("user, {rule}.toml:3")),
        effects: Vec::new(),
        message: "because".into(),
    };
    let ruling = PolicyDecision {
        verdict: Verdict::Ask,
        reasons: by.iter().map(reason).collect(),
        policy: Digest::compute(b"policy"),
        standing_approval: None,
        guarantees: Vec::new(),
        challenge: None,
        cached: false,
    };
    let mut script = CallScript::new(setting).unwrap();
    loop {
        if !script.record.is_empty()
            && matches!(next_step(&script.record), NextStep::Do(Task::EvaluatePolicy))
        {
            script.push(RecordEvent::PolicyEvaluated(Ok(ruling.clone()))).unwrap();
        } else if !script.step().unwrap() {
            break;
        }
    }
    script.ask().unwrap();
    script
}

fn runs(script: &mut CallScript) {
    script.start(OwnerId::new(Uuid::from_u128(1))).unwrap();
    script.end().unwrap();
    script.settle().unwrap();
}

/// Returns when the question of a script was asked.
fn asked_at(script: &CallScript) -> u64 {
    script.record.entries().last().unwrap().at
}

fn answered(mut script: CallScript, after: u64, answer: Answer) -> CallScript {
    let at = asked_at(&script) + after;
    script.later(at);
    script.answer(answer).unwrap();
    script
}

fn yes() -> Answer {
    Answer::Yes { note: None }
}

fn counted(wanted: StatsFilter, scripts: &[CallScript]) -> Stats {
    let mut tally = StatsAccumulator::new(wanted);
    scripts.iter().for_each(|script| tally.add(&script.record));
    tally.finish()
}

/// Returns several calls on two days.
fn calls() -> Vec<CallScript> {
    let mut all = Vec::new();
    let on = |day: u64, tool| ScriptSettings {
        tool,
        received_at: NOW - DAY + day * DAY,
        ..ScriptSettings::default()
    };

    // No question.
    let mut plain = CallScript::ready(on(0, "look")).unwrap();
    runs(&mut plain);
    all.push(plain);
    all.push({
        let mut denied =
            CallScript::ready(ScriptSettings { verdict: Verdict::Deny, ..on(0, "look") }).unwrap();
        denied.settle().unwrap();
        denied
    });

    // A rule that is always answered yes, once with a standing approval.
    let by = [(Some("notes"), AskCause::Rule)];
    for after in [1_000, 3_000] {
        let mut script = answered(asks(on(1, "write"), &by), after, yes());
        runs(&mut script);
        all.push(script);
    }
    all.push(answered(asks(on(1, "write"), &by), 8_000, Answer::StandingApproval(standing_approval())));

    // A rule together with a dangerous cause, for which no standing approval is possible.
    let by = [(Some("rm"), AskCause::Rule), (None, AskCause::Dangerous)];
    let mut no = answered(asks(on(1, "bash"), &by), 2_000, Answer::No { feedback: None });
    no.settle().unwrap();
    all.push(no);
    let mut edited = asks(on(1, "bash"), &by);
    let content = edited.content_ref(b"{}");
    let edited = answered(edited, 2_000, Answer::Edit { content, note: None });
    all.push(edited);

    // Expired, aborted, cancelled, failed, still waiting, and waiting at a checkpoint.
    let by = [(None, AskCause::Default)];
    let mut expired = asks(on(1, "bash"), &by);
    expired.expire().unwrap();
    all.push(expired);
    all.push(answered(asks(on(0, "bash"), &by), 1_000, Answer::Abort));
    let mut cancelled = asks(on(0, "bash"), &by);
    cancelled.push(RecordEvent::Cancelled { actor: "ada".into() }).unwrap();
    all.push(cancelled);
    let mut broken = asks(on(0, "bash"), &by);
    broken.fail_approver().unwrap();
    all.push(broken);
    all.push(asks(on(0, "bash"), &by));
    all.push(CallScript::waiting(ScriptSettings { checkpoint: true, ..on(0, "release") }).unwrap());
    all
}

// req: R5
#[test]
fn a_result_in_the_place_of_the_tool_is_counted() {
    let mut script = asks(ScriptSettings::default(), &[(None, AskCause::Default)]);
    let output = script.content_ref(b"{}");
    let mut script = answered(script, 1_000, Answer::Result { output });
    script.push(RecordEvent::OutputReviewed(Ok(Review::default()))).unwrap();
    script.settle().unwrap();
    let stats = counted(StatsFilter::default(), &[script]);
    assert_eq!(stats.outcomes, OutcomeCounts { answered: 1, ..OutcomeCounts::default() });
    assert_eq!(stats.questions.answers, AnswerCounts { result: 1, ..AnswerCounts::default() });
    assert_eq!(stats.destructive.executed, 0);
    assert_eq!(stats.outcomes.counts().iter().filter(|(_, number)| *number > 0).count(), 1);
}

// req: R5
#[test]
fn calls_questions_and_answers_are_counted() {
    let stats = counted(StatsFilter::default(), &calls());
    assert_eq!(stats.calls, 13);
    let wanted = OutcomeCounts { completed: 3, refused: 2, waiting: 2, open: 6, ..OutcomeCounts::default() };
    assert_eq!(stats.outcomes, wanted);
    assert_eq!(stats.codes.into_iter().collect::<Vec<_>>(), [("declined", 1), ("denied", 1)]);
    assert_eq!(stats.destructive, DestructiveCounts { calls: 2, executed: 0 });
    let wanted = AnswerCounts {
        yes: 2,
        no: 1,
        edit: 1,
        partial: 0,
        standing_approval: 1,
        result: 0,
        abort: 1,
        expired: 1,
        cancelled: 1,
        approver_failed: 1,
        open: 2,
    };
    assert_eq!((stats.questions.count, stats.questions.answers), (11, wanted));

    // Cancelled and failed questions did not wait for a person.
    let waited = &stats.questions.open_durations;
    let expiry = waited.longest_ms();
    assert!((QUESTION_MS - 10..QUESTION_MS).contains(&expiry), "{expiry}");
    assert_eq!(waited.count(), 7);
    assert_eq!(waited.sum_ms(), 1_000 + 3_000 + 8_000 + 2_000 + 2_000 + 1_000 + expiry);
    assert_eq!(waited.median_ms(), 2_000 / 16 * 16);
    let last = NOW / DAY;
    let days =
        [DayCount { day: last - 1, calls: 7, questions: 5 }, DayCount { day: last, calls: 6, questions: 6 }];
    assert_eq!(stats.days, days);
    let tools: Vec<_> =
        stats.tools.iter().map(|tool| (tool.tool.as_str(), tool.calls, tool.questions)).collect();
    assert_eq!(tools, [("bash", 7, 7), ("write", 3, 3), ("look", 2, 0), ("release", 1, 1)]);
    assert_eq!((stats.unlisted, stats.damaged), (0, 0));
}

#[test]
fn rules_are_counted_with_what_was_said_to_them() {
    let stats = counted(StatsFilter::default(), &calls());
    let seen: Vec<_> = stats
        .rules
        .iter()
        .map(|rule| {
            let name = rule.rule.as_deref().or(rule.question_kind).unwrap_or_default();
            (name, rule.cause, rule.questions, rule.answers.yes, rule.avoidable, rule.is_always_yes())
        })
        .collect();
    let wanted = [
        ("", Some(AskCause::Default), 5, 0, 5, false),
        ("notes", Some(AskCause::Rule), 3, 2, 3, true),
        ("", Some(AskCause::Dangerous), 2, 0, 0, false),
        ("rm", Some(AskCause::Rule), 2, 0, 0, false),
        ("checkpoint", None, 1, 0, 0, false),
    ];
    assert_eq!(seen, wanted);
    assert_eq!(stats.rules[1].origin.as_deref(), Some("user, notes.toml:3"));

    // A dangerous call is never avoidable, even if always answered yes.
    let dangerous = [(Some("rm"), AskCause::Rule), (None, AskCause::Dangerous)];
    let said: Vec<CallScript> =
        (0..3).map(|_| answered(asks(ScriptSettings::default(), &dangerous), 1, yes())).collect();
    assert!(counted(StatsFilter::default(), &said).rules.iter().all(|rule| !rule.is_always_yes()));
}

#[test]
fn only_what_is_wanted_is_counted() {
    let scripts = calls();
    let of = |wanted: StatsFilter| counted(wanted, &scripts).calls;
    assert_eq!(of(StatsFilter { tool: Some("write".into()), ..StatsFilter::default() }), 3);
    assert_eq!(of(StatsFilter { since: Some(NOW), ..StatsFilter::default() }), 6);
    assert_eq!(of(StatsFilter { until: Some(NOW), ..StatsFilter::default() }), 7);
    assert_eq!(of(StatsFilter { session: Some(SessionId::new("s").unwrap()), ..StatsFilter::default() }), 13);
    assert_eq!(of(StatsFilter { session: Some(SessionId::new("r").unwrap()), ..StatsFilter::default() }), 0);
    assert_eq!(of(StatsFilter { agent: Some(AgentId::new("agent").unwrap()), ..StatsFilter::default() }), 13);
    assert_eq!(of(StatsFilter { agent: Some(AgentId::new("other").unwrap()), ..StatsFilter::default() }), 0);
}

// req: A1
#[test]
fn of_a_damaged_record_nothing_is_believed() {
    let mut script = CallScript::new(ScriptSettings::default()).unwrap();
    while script.step().unwrap() {}
    let batch = script.batch();
    let forged: Vec<ChainedEntry> = batch
        .chained_entries
        .iter()
        .map(|line| ChainedEntry::from_stored(line.seq(), line.body().replace("\"t\"", "\"u\""), line.link()))
        .collect();
    let record = Record::from_stored_entries(script.call(), &forged);
    let mut tally = StatsAccumulator::new(StatsFilter::default());
    tally.add(&record);
    let stats = tally.finish();
    assert_eq!((stats.damaged, stats.calls, stats.tools.len()), (1, 0, 0));
}

#[test]
fn names_that_never_end_cost_no_memory() {
    let mut tally = StatsAccumulator::new(StatsFilter::default());
    for number in 0..1_200_u32 {
        let tool: &'static str = format!("t{number}").leak();
        tally.add(&CallScript::ready(ScriptSettings { tool, ..ScriptSettings::default() }).unwrap().record);
    }
    let stats = tally.finish();
    assert_eq!((stats.calls, stats.tools.len(), stats.unlisted), (1_200, 1_000, 200));
}

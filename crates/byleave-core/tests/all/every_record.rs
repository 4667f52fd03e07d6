//! Every reachable record, and every way to corrupt one.
//!
//! Each `NextStep` is answered with every variant of entry, down to the end of the call, with at most two drafts and
//! two attempts. At every prefix every other entry is tried too: a misplaced one, a duplicate, one from another
//! call. Inserted anywhere, it must not change what is safe.

use std::collections::BTreeMap;
use std::path::Path;

use byleave_core::decision::{AskCause, Verdict};
use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::outcome::Outcome;
use byleave_core::pipeline::{NextStep, Task, next_step};
use byleave_core::question::{Answer, QuestionKind};
use byleave_core::record::{Attempt, QuestionClosure, Record};
use byleave_core::refusal::Code;

use crate::words::{CALL, WORDS, entry_for, said};

/// No legal record with two drafts and two attempts is longer.
const STEPS_MAX: usize = 32;

#[derive(Default)]
struct RecordCounts {
    /// The words that are followed. Every existing word is tried at every prefix.
    followed: Vec<&'static str>,
    records: u64,
    settled: u64,
    spoiled: u64,
    read_back: u64,
    longest: usize,
    codes: BTreeMap<&'static str, u64>,
    words: BTreeMap<&'static str, u64>,
}

/// Explores every kind of tool with two drafts.
#[test]
#[ignore = "long: scripts/prove every-record"]
fn every_record() {
    check_every_word(WORDS.to_vec());
}

/// Every kind of tool with one draft.
#[test]
fn every_record_of_one_draft() {
    const ONE_DRAFT: &[&str] = &[
        "resolved/1",
        "resolved/1:repeatable",
        "resolved/1:checkpoint",
        "resolved/1:before",
        "resolved/1:after",
        "resolved/1:stands-in",
        "resolved/1:rehearsed",
    ];
    let others = WORDS.iter().filter(|word| !word.starts_with("resolved") || **word == "resolved:no");
    check_every_word(others.chain(ONE_DRAFT).copied().collect());
}

/// A plain tool with two drafts.
#[test]
fn every_record_of_two_drafts() {
    let plain = |word: &str| !word.contains("resolved") || matches!(word, "resolved" | "resolved:no");
    let skipped =
        ["received:dry", "planned:no", "permitted:leave", "cancelled", "output:change", "ended:failed"];
    check_run(WORDS.iter().copied().filter(|word| plain(word) && !skipped.contains(word)).collect());
}

/// A tool with rehearsal, with two drafts.
#[test]
fn every_record_of_two_rehearsed_drafts() {
    let skipped = [
        "received:dry",
        "planned:no",
        "planned:ab",
        "validated:no",
        "permitted:leave",
        "permitted:danger",
        "permitted:no",
        "reviewed:no",
        "reviewed:change",
        "asked:no",
        "answered:leave",
        "answered:abort",
        "unasked",
        "expired",
        "cancelled",
        "begun:no",
        "ended:failed",
        "output:change",
        "output:hold",
        "output:no",
    ];
    let rehearsed = |word: &str| {
        word == "resolved:rehearsed" || !word.starts_with("resolved") && !skipped.contains(&word)
    };
    check_run(WORDS.iter().copied().filter(|word| rehearsed(word)).collect());
}

/// Follows these words everywhere, and asserts that each of them was used.
fn check_every_word(followed: Vec<&'static str>) {
    let tally = check_run(followed);
    for word in &tally.followed {
        assert!(tally.words.contains_key(word), "`{word}` was never taken");
    }
    assert!(tally.codes.len() > 20, "{:?}", tally.codes);
}

/// Follows these words everywhere.
#[expect(clippy::print_stdout, reason = "the figures of the proof")]
fn check_run(followed: Vec<&'static str>) -> RecordCounts {
    let mut tally = RecordCounts { followed, ..RecordCounts::default() };
    explore(&mut Record::new(CALL), &mut Vec::new(), &mut tally);
    println!(
        "figure: {} records ({} settled, the longest of {} entries), {} spoiled ones ({} of them read back whole)",
        tally.records, tally.settled, tally.longest, tally.spoiled, tally.read_back
    );
    assert!(tally.records > 5_000, "only {} records", tally.records);
    tally
}

/// Visits a record and all its continuations.
fn explore(record: &mut Record, lines: &mut Vec<ChainedEntry>, tally: &mut RecordCounts) {
    tally.records += 1;
    tally.longest = tally.longest.max(record.entries().len());
    assert!(record.entries().len() <= STEPS_MAX, "does not settle: {:?}", kinds(record));
    let now = next_step(record);
    if !record.is_empty() {
        check(record, &now, tally);
    }
    if record.outcome().is_some() {
        tally.settled += 1;
    }
    let mut foreign = None;
    let mut moves = Vec::new();
    for word in WORDS.iter().chain(tally.followed.clone().iter().filter(|word| word.contains('/'))) {
        let entry = entry_for(record, &now, word);
        match record.check_append(&entry) {
            Ok(()) => moves.push((*word, entry)),
            Err(_) => {
                tally.spoiled += 1;
                foreign = Some(entry);
            }
        }
    }
    for repeated in record.entries() {
        if record.check_append(repeated).is_err() {
            tally.spoiled += 1;
        }
    }
    if let Some(foreign) = foreign {
        spoil(record, lines, &foreign, tally);
    }
    assert!(!moves.is_empty() || record.outcome().is_some(), "stuck: {:?}", kinds(record));
    for (word, entry) in moves {
        // A commit is retried however often it is interrupted. Two times are enough for the test.
        let seen_enough = word == "interrupted" && record.attempts() > 1;
        if tally.followed.contains(&word) && !(seen_enough && commits(record)) {
            *tally.words.entry(word).or_default() += 1;
            let mut after = record.clone();
            lines.push(after.push(entry).unwrap());
            explore(&mut after, lines, tally);
            lines.pop();
        }
    }
}

/// Appends a misplaced entry to a record, correctly chained, as someone with write access to the file could.
///
/// Nothing after the damage is read, so appending to every prefix covers every position. The pipeline treats all
/// damaged records alike, so one per prefix is read back.
fn spoil(record: &Record, lines: &[ChainedEntry], entry: &Entry, tally: &mut RecordCounts) {
    let body = serde_json::to_string(entry).unwrap();
    let link = byleave_core::hash_chain::compute_link(CALL, &record.head(), record.len(), &body);
    let forged = ChainedEntry::from_stored(record.len(), body, link);
    let all: Vec<ChainedEntry> = lines.iter().cloned().chain([forged]).collect();
    let spoiled = Record::from_stored_entries(CALL, &all);
    tally.read_back += 1;
    assert!(spoiled.damage().is_some(), "taken: {entry:?} after {:?}", kinds(record));
    assert_eq!(spoiled.entries(), record.entries(), "nothing behind the damage counts");
    let next = next_step(&spoiled);
    let NextStep::Settle(outcome) = &next else { panic!("a spoiled record goes on: {}", said(&next)) };
    assert!(matches!(outcome, Outcome::Refused(_) | Outcome::Unknown(_)), "{}", said(&next));
    if !record.is_empty() {
        check(&spoiled, &next, tally);
    }
}

/// The invariants of every record.
fn check(record: &Record, next: &NextStep, tally: &mut RecordCounts) {
    let facts: Vec<&RecordEvent> = record.entries().iter().map(|entry| &entry.event).collect();
    match next {
        NextStep::Do(Task::Execute { attempt, grant }) => {
            let Some(Attempt::Open(claim)) = record.attempt() else { panic!("execute without a claim") };
            assert_eq!(claim.attempt, *attempt);
            assert!(grant.covers(claim), "the claim rests on another grant");
            assert_consent(record);
        }
        NextStep::Do(Task::Start(_)) => assert_consent(record),
        NextStep::Settle(Outcome::Completed { .. } | Outcome::Failed { .. }) => {
            assert!(
                facts.iter().any(|fact| matches!(fact, RecordEvent::Ended { .. })),
                "completed without an end"
            );
            assert!(
                facts.iter().any(|fact| matches!(fact, RecordEvent::OutputReviewed(Ok(_)))),
                "output not reviewed"
            );
            assert_consent(record);
        }
        NextStep::Settle(Outcome::Answered { .. }) => {
            assert!(
                facts.iter().any(|fact| matches!(fact, RecordEvent::OutputReviewed(Ok(_)))),
                "output not reviewed"
            );
            let answers = facts.iter().filter_map(|fact| match fact {
                RecordEvent::Answered(answered) => Some(answered),
                _ => None,
            });
            let by_person = answers.into_iter().any(|answered| {
                let kind = record.question(answered.question).map(|question| question.kind);
                matches!(answered.answer, Answer::Result { .. })
                    && kind == Some(QuestionKind::Approval)
                    && answered.approver.assurance.is_person()
            });
            assert!(by_person, "nobody answered in the place of the tool: {:?}", kinds(record));
        }
        NextStep::Do(_) | NextStep::Wait(_) | NextStep::Settle(_) => {}
    }
    let denied = facts
        .iter()
        .any(|fact| matches!(fact, RecordEvent::PolicyEvaluated(Ok(r)) if r.verdict == Verdict::Deny));
    if denied {
        let NextStep::Settle(Outcome::Refused(refusal)) = next else {
            panic!("a deny became {}", said(next))
        };
        assert!(matches!(refusal.code, Code::Denied | Code::Cancelled), "{refusal}");
    }
    let draft = record.draft().filter(|_| record.cancelled_by().is_none() && record.damage().is_none());
    let seen = draft.and_then(|draft| draft.rehearsal_summary()).and_then(|head| head.decision.as_ref());
    if seen.is_some_and(|ruling| ruling.verdict == Verdict::Deny) {
        let NextStep::Settle(Outcome::Refused(refusal)) = next else {
            panic!("seen, and yet {}", said(next))
        };
        assert_eq!(refusal.code, Code::Denied);
    }
    if let NextStep::Settle(outcome) = next {
        let begun = facts.iter().any(|fact| matches!(fact, RecordEvent::Started(Ok(_))));
        match outcome {
            Outcome::Refused(_) | Outcome::DryRun { .. } | Outcome::Answered { .. } => {
                assert!(!begun, "it ran: {:?}", kinds(record));
            }
            Outcome::Completed { .. } | Outcome::Failed { .. } | Outcome::Withheld(_) => assert!(begun),
            Outcome::Unknown(_) => assert!(begun || record.damage().is_some()),
        }
        if let Some(refusal) = outcome.refusal() {
            let seen = tally.codes.entry(refusal.code.as_str()).or_default();
            if *seen == 0 {
                let page = Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join(format!("../../docs/refusals/{}.md", refusal.code));
                assert!(page.exists(), "no page for `{}`", refusal.code);
            }
            *seen += 1;
        }
    }
}

/// The current draft was validated, planned, permitted and reviewed. If a question was required, it was answered.
fn assert_consent(record: &Record) {
    let draft = record.draft().unwrap();
    assert!(matches!(draft.validation(), Some(Ok(_))));
    let plan = draft.plan().unwrap().as_ref().unwrap();
    let ruling = draft.decision().unwrap().as_ref().unwrap();
    let review = draft.review().unwrap().as_ref().unwrap();
    let terms = record.resolved_tool().unwrap().as_ref().unwrap();
    assert_ne!(ruling.verdict, Verdict::Deny);
    let stood_in = terms.challenge.required && terms.challenge.replaces_checkpoint;
    let checkpoint = terms.checkpoint && !stood_in;
    if !checkpoint && ruling.verdict == Verdict::Allow && !review.is_held() {
        return;
    }
    let rehearsal = draft.rehearsal_summary();
    let spared = rehearsal.is_some_and(|head| head.no_effects && head.only_unclear && head.committable);
    if spared && !terms.checkpoint && !review.is_held() && ruling.causes() == [AskCause::Default] {
        return;
    }
    let answers = record.entries().iter().filter_map(|entry| match &entry.event {
        RecordEvent::Asked(Ok(question)) => Some(question),
        _ => None,
    });
    let consented = answers.into_iter().any(|question| {
        let Some(QuestionClosure::Answered { answer: answered, .. }) = record.question_closure(question.id)
        else {
            return false;
        };
        let (shown, _) = record.question_context(question.id).unwrap();
        match &answered.answer {
            Answer::Yes { .. } | Answer::StandingApproval(_) => {
                // If a rehearsal is gone, nobody has seen the changes that the next one makes.
                let of_this = draft
                    .question()
                    .is_some_and(|asked| asked.as_ref().is_ok_and(|one| one.id == question.id));
                shown.plan == plan.plan && (rehearsal.is_none() || of_this)
            }
            Answer::Partial { .. } => {
                shown.plan == plan.plan && rehearsal.is_some_and(|head| head.committable)
            }
            Answer::Edit { content, .. } => {
                !checkpoint
                    && *content == draft.content
                    && plan.effects.iter().all(|e| shown.effects.contains(e))
            }
            Answer::No { .. } | Answer::Result { .. } | Answer::Abort => false,
        }
    });
    assert!(consented, "nobody consented: {:?}", kinds(record));
}

fn commits(record: &Record) -> bool {
    record.draft().and_then(|draft| draft.rehearsal_summary()).is_some_and(|head| head.committable)
}

fn kinds(record: &Record) -> Vec<&'static str> {
    record.entries().iter().map(|entry| entry.event.kind()).collect()
}

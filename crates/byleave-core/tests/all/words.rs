//! Records written as words, so that tests of the pipeline are readable.
//!
//! `received resolved validated planned:ab permitted:ask reviewed asked answered:yes begun ended …`: each word is one
//! entry. The ids that it refers to (the open question, the grant, the attempt) are taken from the pipeline's next
//! step.

use byleave_core::call::{Millis, Mode};
use byleave_core::challenge::{ChallengeSummary, ChallengeTiming, ChallengeVerdict};
use byleave_core::decision::{AskCause, DecisionReason, PolicyDecision, Verdict};
use byleave_core::digest::{ContentRef, Digest};
use byleave_core::effect::{EffectDigest, PlanSummary};
use byleave_core::entry::{CallHeader, ChallengeTerms, Entry, Limits, RecordEvent, ResolvedTool, ValidDraft};
use byleave_core::grant::{Claim, GrantedBy};
use byleave_core::id::{
    AgentId, AttemptId, CallId, OwnerId, QuestionId, SessionId, StandingApprovalId, TenantId,
};
use byleave_core::outcome::{ExecutionEnd, ExecutionStatus, Outcome};
use byleave_core::pattern::Pattern;
use byleave_core::pipeline::{NextStep, QuestionRequest, RECORD_VERSION, Task, next_step};
use byleave_core::question::{Answer, ApproverIdentity, Assurance, Question, QuestionKind, RecordedAnswer};
use byleave_core::record::Record;
use byleave_core::refusal::{Code, Refusal};
use byleave_core::rehearsal::{RehearsalOutcome, RehearsalSettings, RehearsalSummary};
use byleave_core::review::{Review, ReviewNote, ReviewOutcome};
use byleave_core::standing_approval::StandingApproval;
use uuid::Uuid;

pub(crate) const NOW: Millis = 1_000_000;
pub(crate) const CALL: CallId = CallId::new(Uuid::from_u128(1));

/// All words, so that each can be tried everywhere.
pub(crate) const WORDS: &[&str] = &[
    "received",
    "received:dry",
    "resolved",
    "resolved:repeatable",
    "resolved:checkpoint",
    "resolved:before",
    "resolved:after",
    "resolved:stands-in",
    "resolved:rehearsed",
    "resolved:no",
    "validated",
    "validated:no",
    "planned:a",
    "planned:ab",
    "planned:no",
    "permitted:allow",
    "permitted:leave",
    "permitted:ask",
    "permitted:danger",
    "permitted:deny",
    "permitted:no",
    "reviewed",
    "reviewed:change",
    "reviewed:hold",
    "reviewed:no",
    "challenged:proceed",
    "challenged:stop",
    "challenged:no",
    "rehearsing",
    "rehearsed",
    "rehearsed:quiet",
    "rehearsed:wants",
    "rehearsed:deny",
    "rehearsed:not",
    "lost",
    "asked",
    "asked:no",
    "answered:yes",
    "answered:no",
    "answered:edit",
    "answered:leave",
    "answered:part",
    "answered:result",
    "answered:abort",
    "expired",
    "unasked",
    "cancelled",
    "begun",
    "begun:no",
    "interrupted",
    "ended",
    "ended:failed",
    "ended:lost",
    "output",
    "output:change",
    "output:hold",
    "output:no",
    "settled",
];

pub(crate) fn held(name: &str) -> ContentRef {
    ContentRef { digest: Digest::compute(name.as_bytes()), size: name.len() as u64 }
}

fn no(code: Code) -> Refusal {
    Refusal::new(code, "no")
}

/// `resolved/1` is `resolved` with a single draft allowed. `resolved/1:repeatable` is the same for
/// `resolved:repeatable`.
fn terms(word: &str) -> ResolvedTool {
    let flavour = word.split_once(':').map_or("", |(_, flavour)| flavour);
    let drafts = if word.starts_with("resolved/1") { 1 } else { 2 };
    let challenge = |when, stands_in| ChallengeTerms { required: true, when, replaces_checkpoint: stands_in };
    ResolvedTool {
        tool: "t".into(),
        manifest: Digest::compute(b"manifest"),
        operation: "invoke".into(),
        read_only: false,
        destructive: false,
        concurrency_safe: false,
        idempotent: flavour == "repeatable",
        checkpoint: matches!(flavour, "checkpoint" | "stands-in"),
        challenge: match flavour {
            "before" => challenge(ChallengeTiming::BeforeQuestion, false),
            "after" => challenge(ChallengeTiming::AfterAnswer, false),
            "stands-in" => challenge(ChallengeTiming::BeforeQuestion, true),
            _ => ChallengeTerms::default(),
        },
        rehearsal: (flavour == "rehearsed").then_some(RehearsalSettings { may_skip_question: true }),
        limits: Limits { max_drafts: drafts, max_attempts: 2, ..Limits::default() },
    }
}

fn ruling(verdict: Verdict, cause: Option<AskCause>, leave: Option<StandingApprovalId>) -> PolicyDecision {
    let reason =
        DecisionReason { verdict, cause, rule: None, origin: None, effects: vec![], message: "why".into() };
    let policy = Digest::compute(b"policy");
    PolicyDecision {
        verdict,
        reasons: vec![reason],
        policy,
        standing_approval: leave,
        guarantees: vec![],
        challenge: None,
        cached: false,
    }
}

fn review(said: Option<ReviewOutcome>, change: Option<ContentRef>) -> Review {
    let note = |said| ReviewNote { reviewer: "r".into(), outcome: said, reason: None, cached: false };
    Review { notes: said.map(note).into_iter().collect(), replacement: change }
}

/// The question that a word refers to if the pipeline expects none: that of another call.
fn foreign_question() -> Question {
    let binding = Digest::compute(b"foreign");
    Question {
        id: QuestionId::new(Uuid::from_u128(99)),
        kind: QuestionKind::Approval,
        binding,
        expires_at: NOW + 5,
    }
}

/// Makes the entry for a word, at the end of this record.
pub(crate) fn entry(record: &Record, word: &str) -> Entry {
    entry_for(record, &next_step(record), word)
}

/// Makes the entry for a word if the next step is already known.
pub(crate) fn entry_for(record: &Record, next: &NextStep, word: &str) -> Entry {
    let serial = u128::from(record.len()) + 1_000;
    let question = match next {
        NextStep::Wait(question) => question.clone(),
        _ => foreign_question(),
    };
    let mut at = NOW;
    let fact = match word {
        "received" | "received:dry" => RecordEvent::Received(CallHeader {
            record_version: RECORD_VERSION,
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            lineage: Vec::new(),
            tool: "t".into(),
            arguments: held("arguments"),
            reason: None,
            cwd: "/w".into(),
            mode: Mode::ConfirmSensitive,
            dry_run: word.ends_with(":dry"),
        }),
        "resolved:no" => RecordEvent::Resolved(Err(no(Code::ToolUnknown))),
        _ if word.starts_with("resolved") => RecordEvent::Resolved(Ok(terms(word))),
        "validated" => RecordEvent::Validated(Ok(ValidDraft {})),
        "validated:no" => RecordEvent::Validated(Err(no(Code::ArgumentsInvalid))),
        "planned:no" => RecordEvent::Planned(Err(no(Code::PlanFailed))),
        _ if word.starts_with("planned:") => {
            let effects =
                word.trim_start_matches("planned:").bytes().map(u128::from).map(EffectDigest::from_number);
            RecordEvent::Planned(Ok(PlanSummary {
                plan: held(word),
                effects: effects.collect(),
                read_only: false,
                irreversible: false,
                data: Vec::new(),
            }))
        }
        "permitted:allow" => RecordEvent::PolicyEvaluated(Ok(ruling(Verdict::Allow, None, None))),
        "permitted:leave" => RecordEvent::PolicyEvaluated(Ok(ruling(
            Verdict::Allow,
            None,
            Some(StandingApprovalId::new(Uuid::from_u128(7))),
        ))),
        "permitted:ask" => {
            RecordEvent::PolicyEvaluated(Ok(ruling(Verdict::Ask, Some(AskCause::Default), None)))
        }
        "permitted:danger" => {
            RecordEvent::PolicyEvaluated(Ok(ruling(Verdict::Ask, Some(AskCause::Dangerous), None)))
        }
        "permitted:deny" => RecordEvent::PolicyEvaluated(Ok(ruling(Verdict::Deny, None, None))),
        "permitted:no" => RecordEvent::PolicyEvaluated(Err(no(Code::PolicyFailed))),
        "reviewed" => RecordEvent::Reviewed(Ok(review(None, None))),
        "reviewed:change" => RecordEvent::Reviewed(Ok(review(
            Some(ReviewOutcome::Changed),
            Some(held(&format!("draft {serial}"))),
        ))),
        "reviewed:hold" => RecordEvent::Reviewed(Ok(review(Some(ReviewOutcome::Held), None))),
        "reviewed:no" => RecordEvent::Reviewed(Err(no(Code::ReviewDenied))),
        "challenged:proceed" | "challenged:stop" => RecordEvent::Challenged(Ok(ChallengeSummary {
            challenge: held("challenge"),
            verdict: if word.ends_with("stop") { ChallengeVerdict::Stop } else { ChallengeVerdict::Proceed },
        })),
        "challenged:no" => RecordEvent::Challenged(Err(no(Code::ChallengeFailed))),
        "rehearsing" => RecordEvent::RehearsalStarted {
            binding: match next {
                NextStep::Do(Task::StartRehearsal(binding)) => *binding,
                _ => Digest::compute(b"foreign"),
            },
        },
        "rehearsed:not" => {
            RecordEvent::RehearsalFinished(RehearsalOutcome::Unavailable { reason: "why".into() })
        }
        _ if word.starts_with("rehearsed") => {
            let (quiet, stands) = (word.ends_with(":quiet"), !word.ends_with(":wants"));
            let ruling = word.ends_with(":deny").then(|| ruling(Verdict::Deny, None, None));
            let rehearsal = held(&format!("rehearsal {serial}"));
            RecordEvent::RehearsalFinished(RehearsalOutcome::Ran(RehearsalSummary {
                rehearsal,
                decision: ruling,
                committable: stands,
                no_effects: quiet,
                only_unclear: true,
                failed_unchanged: false,
            }))
        }
        "lost" => {
            let head = record.draft().and_then(|draft| draft.rehearsal_summary());
            RecordEvent::RehearsalCopyMissing {
                rehearsal: head.map_or(Digest::compute(b"foreign"), RehearsalSummary::digest),
            }
        }
        "asked" => {
            let asking = match next {
                NextStep::Do(Task::Ask(asking)) => *asking,
                _ => QuestionRequest { kind: QuestionKind::Approval, binding: Digest::compute(b"foreign") },
            };
            let QuestionRequest { kind, binding } = asking;
            let id = QuestionId::new(Uuid::from_u128(serial));
            RecordEvent::Asked(Ok(Question { id, kind, binding, expires_at: NOW + 100 }))
        }
        "asked:no" => RecordEvent::Asked(Err(no(Code::NoApprover))),
        _ if word.starts_with("answered:") => {
            let answer = match word.trim_start_matches("answered:") {
                "yes" => Answer::Yes { note: None },
                "no" => Answer::No { feedback: None },
                "edit" => Answer::Edit { content: held(&format!("edit {serial}")), note: None },
                "leave" => Answer::StandingApproval(StandingApproval {
                    id: StandingApprovalId::new(Uuid::from_u128(serial)),
                    tool: "t".into(),
                    scope: vec![Pattern::Invoke("t".into())],
                    session: None,
                    expires_at: None,
                    max_uses: None,
                }),
                "part" => Answer::Partial { paths: held("paths"), note: None },
                "result" => Answer::Result { output: held("output") },
                "abort" => Answer::Abort,
                other => panic!("no answer `{other}`"),
            };
            let by = ApproverIdentity { name: "p".into(), assurance: Assurance::Terminal };
            RecordEvent::Answered(RecordedAnswer {
                question: question.id,
                digest: question.digest(),
                answer,
                approver: by,
            })
        }
        "expired" => {
            at = question.expires_at;
            RecordEvent::Expired { question: question.id }
        }
        "unasked" => RecordEvent::ApproverFailed { question: question.id, refusal: no(Code::ApproverFailed) },
        "cancelled" => RecordEvent::Cancelled { actor: "p".into() },
        "begun" => {
            let attempt = AttemptId::new(Uuid::from_u128(serial));
            let owner = OwnerId::new(Uuid::from_u128(5));
            RecordEvent::Started(Ok(match next {
                NextStep::Do(Task::Start(grant)) => grant.claim(attempt, owner),
                _ => Claim {
                    attempt,
                    owner,
                    binding: Digest::compute(b"foreign"),
                    granted_by: GrantedBy::Rule,
                },
            }))
        }
        "begun:no" => RecordEvent::Started(Err(no(Code::PolicyStricter))),
        "interrupted" => RecordEvent::Interrupted { attempt: open_attempt(next) },
        "ended" | "ended:failed" | "ended:lost" => RecordEvent::Ended {
            attempt: open_attempt(next),
            end: ExecutionEnd {
                status: match word {
                    "ended" => ExecutionStatus::Succeeded,
                    "ended:lost" => ExecutionStatus::Unknown,
                    _ => ExecutionStatus::Failed,
                },
                output: held("output"),
                duration_ms: 1,
                truncated: false,
                undoable: false,
                read_foreign: word == "ended:failed",
                observed: None,
            },
        },
        "output" => RecordEvent::OutputReviewed(Ok(review(None, None))),
        "output:change" => RecordEvent::OutputReviewed(Ok(review(
            Some(ReviewOutcome::Changed),
            Some(held("changed output")),
        ))),
        "output:hold" => RecordEvent::OutputReviewed(Ok(review(Some(ReviewOutcome::Held), None))),
        "output:no" => RecordEvent::OutputReviewed(Err(no(Code::OutputDenied))),
        "settled" => RecordEvent::Settled(match next {
            NextStep::Settle(outcome) => outcome.clone(),
            _ => Outcome::Completed { output: held("forged") },
        }),
        other => panic!("no word `{other}`"),
    };
    Entry { at, event: fact }
}

fn open_attempt(next: &NextStep) -> AttemptId {
    match next {
        NextStep::Do(Task::Execute { attempt, .. }) => *attempt,
        _ => AttemptId::new(Uuid::from_u128(98)),
    }
}

/// A record written as words.
pub(crate) fn record(words: &str) -> Record {
    let mut record = Record::new(CALL);
    for word in words.split_whitespace() {
        let entry = entry(&record, word);
        if let Err(misplaced) = record.push(entry) {
            panic!("`{word}` in `{words}`: {misplaced}");
        }
    }
    record
}

/// Formats the next step as words.
pub(crate) fn said(next: &NextStep) -> String {
    match next {
        NextStep::Do(Task::Ask(asking)) => format!("ask {:?}", asking.kind).to_lowercase(),
        NextStep::Do(task) => task.name().into(),
        NextStep::Wait(question) => format!("wait {:?}", question.kind).to_lowercase(),
        NextStep::Settle(outcome) => match outcome.refusal() {
            None => outcome.as_str().into(),
            Some(refusal) => format!("{} {}", outcome.as_str(), refusal.code),
        },
    }
}

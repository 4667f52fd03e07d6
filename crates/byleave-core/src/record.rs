//! The record: the entries of one call, in order, and how to read the stages back from it.
//!
//! Entries must be added only through [`crate::transition`], which checks what may be written.

use crate::call::Millis;
use crate::challenge::ChallengeSummary;
use crate::decision::PolicyDecision;
use crate::digest::{ContentRef, Digest};
use crate::effect::PlanSummary;
use crate::entry::{CallHeader, Entry, RecordEvent, ResolvedTool, ValidDraft};
use crate::grant::Claim;
use crate::hash_chain::{ChainDamageError, GENESIS};
use crate::id::{AttemptId, CallId, QuestionId};
use crate::outcome::{ExecutionEnd, Outcome};
use crate::question::{Answer, Question, QuestionKind, RecordedAnswer};
use crate::refusal::{Refusal, StageResult};
use crate::rehearsal::{RehearsalOutcome, RehearsalSummary};
use crate::review::Review;

/// The entries of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    call: CallId,
    entries: Vec<Entry>,
    head: Digest,
    damage: Option<ChainDamageError>,
}

impl Record {
    /// Creates an empty record.
    pub const fn new(call: CallId) -> Self {
        Self { call, entries: Vec::new(), head: GENESIS, damage: None }
    }

    pub(crate) fn append_entry(&mut self, entry: Entry, link: Digest) {
        if self.entries.capacity() == 0 {
            // The number of entries of a call that asks nobody.
            self.entries.reserve(12);
        }
        self.entries.push(entry);
        self.head = link;
    }

    pub(crate) fn mark_damaged(&mut self, damage: ChainDamageError) {
        self.damage = Some(damage);
    }

    /// Returns the call that the record belongs to.
    pub const fn call(&self) -> CallId {
        self.call
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether the record is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the link of the last line.
    pub const fn head(&self) -> Digest {
        self.head
    }

    /// Returns all entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the damage, if the record is damaged.
    pub const fn damage(&self) -> Option<&ChainDamageError> {
        self.damage.as_ref()
    }

    /// Returns the call as it was received.
    pub fn header(&self) -> Option<&CallHeader> {
        match self.entries.first().map(|entry| &entry.event) {
            Some(RecordEvent::Received(heading)) => Some(heading),
            _ => None,
        }
    }

    /// Returns the tool and its terms.
    pub fn resolved_tool(&self) -> Option<&StageResult<ResolvedTool>> {
        find_event(&self.entries, |fact| match fact {
            RecordEvent::Resolved(step) => Some(step),
            _ => None,
        })
    }

    /// Returns the current draft: the model's, until a reviewer or a person changes it.
    pub fn draft(&self) -> Option<Draft<'_>> {
        let mut draft = None;
        let mut number = 0;
        let mut latest = None;
        let mut rest = self.entries.as_slice();
        while let Some((entry, after)) = rest.split_first() {
            let begun_here = match &entry.event {
                RecordEvent::Received(heading) => Some((heading.arguments, DraftAuthor::Model)),
                RecordEvent::Reviewed(Ok(Review { replacement: Some(content), .. })) => {
                    Some((*content, DraftAuthor::Reviewer))
                }
                RecordEvent::Answered(RecordedAnswer {
                    question,
                    answer: Answer::Edit { content, .. },
                    ..
                }) if !self.is_release_question(*question) => {
                    Some((*content, DraftAuthor::Person { question: *question, at: entry.at }))
                }
                // The same arguments again. Everything decided about them is void, even a person's own edit. They are treated as the
                // model's, so that they are asked about again.
                RecordEvent::RehearsalCopyMissing { .. } => {
                    latest.map(|content| (content, DraftAuthor::Model))
                }
                _ => None,
            };
            if let Some((content, by)) = begun_here {
                number += 1;
                latest = Some(content);
                draft = Some(Draft { number, content, author: by, entries: after });
            }
            rest = after;
        }
        draft
    }

    /// Returns a question by its id.
    pub fn question(&self, id: QuestionId) -> Option<&Question> {
        find_event(&self.entries, |fact| match fact {
            RecordEvent::Asked(Ok(question)) if question.id == id => Some(question),
            _ => None,
        })
    }

    /// Returns the plan and the decision that were current when a question was asked.
    pub fn question_context(&self, id: QuestionId) -> Option<(&PlanSummary, &PolicyDecision)> {
        let (mut plan, mut ruling) = (None, None);
        for entry in &self.entries {
            match &entry.event {
                RecordEvent::Planned(Ok(head)) => plan = Some(head),
                RecordEvent::PolicyEvaluated(Ok(one)) => ruling = Some(one),
                RecordEvent::Asked(Ok(question)) if question.id == id => return plan.zip(ruling),
                _ => {}
            }
        }
        None
    }

    /// Returns how a question was closed.
    pub fn question_closure(&self, id: QuestionId) -> Option<QuestionClosure<'_>> {
        self.entries.iter().find_map(|entry| match &entry.event {
            RecordEvent::Answered(answered) if answered.question == id => {
                Some(QuestionClosure::Answered { answer: answered, at: entry.at })
            }
            RecordEvent::Expired { question } if *question == id => Some(QuestionClosure::Expired),
            RecordEvent::ApproverFailed { question, refusal } if *question == id => {
                Some(QuestionClosure::ApproverFailed(refusal))
            }
            _ => None,
        })
    }

    /// Returns the newest attempt to execute.
    pub fn attempt(&self) -> Option<Attempt<'_>> {
        let mut attempt = None;
        for entry in &self.entries {
            match &entry.event {
                RecordEvent::Started(Ok(claim)) => attempt = Some(Attempt::Open(claim)),
                RecordEvent::Interrupted { .. } => attempt = Some(Attempt::Interrupted),
                RecordEvent::Observed { run, .. } => attempt = Some(Attempt::Observed(run)),
                RecordEvent::Ended { end, .. } => attempt = Some(Attempt::Ended(end)),
                _ => {}
            }
        }
        attempt
    }

    /// Returns the number of attempts that have begun, except one that only ran on a copy.
    pub fn attempts(&self) -> usize {
        let mut count: usize = 0;
        for entry in &self.entries {
            match &entry.event {
                RecordEvent::Started(Ok(_)) => count = count.saturating_add(1),
                RecordEvent::Observed { .. } => count = count.saturating_sub(1),
                _ => {}
            }
        }
        count
    }

    /// Returns whether an attempt with this id has begun.
    pub fn has_attempt(&self, id: AttemptId) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(&entry.event, RecordEvent::Started(Ok(claim)) if claim.attempt == id))
    }

    /// Returns the refusal to begin, if there is one.
    pub fn start_refusal(&self) -> Option<&Refusal> {
        find_event(&self.entries, |fact| match fact {
            RecordEvent::Started(Err(refusal)) => Some(refusal),
            _ => None,
        })
    }

    /// Returns the person or program that cancelled the call.
    pub fn cancelled_by(&self) -> Option<&str> {
        find_event(&self.entries, |fact| match fact {
            RecordEvent::Cancelled { actor: by } => Some(by.as_str()),
            _ => None,
        })
    }

    /// Returns the result that a person gave in the place of the tool.
    pub fn person_result(&self) -> Option<ContentRef> {
        self.entries.iter().find_map(|entry| match &entry.event {
            RecordEvent::Answered(RecordedAnswer { answer: Answer::Result { output }, .. }) => Some(*output),
            _ => None,
        })
    }

    /// Returns the review of the result.
    pub fn output_review(&self) -> Option<&StageResult<Review>> {
        find_event(&self.entries, |fact| match fact {
            RecordEvent::OutputReviewed(step) => Some(step),
            _ => None,
        })
    }

    /// Returns the question whether a held result may be released.
    pub fn release_question(&self) -> Option<&StageResult<Question>> {
        let place =
            self.entries.iter().position(|entry| matches!(entry.event, RecordEvent::OutputReviewed(_)))?;
        find_event(self.entries.get(place..)?, |fact| match fact {
            RecordEvent::Asked(step) => Some(step),
            _ => None,
        })
    }

    /// Returns the outcome, if the call has one.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self.entries.last().map(|entry| &entry.event) {
            Some(RecordEvent::Settled(outcome)) => Some(outcome),
            _ => None,
        }
    }

    fn is_release_question(&self, id: QuestionId) -> bool {
        self.question(id).is_some_and(|question| question.kind == QuestionKind::Release)
    }
}

/// One version of a call's arguments, and the stages recorded for it.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// The number, from 1.
    pub number: u8,
    /// The arguments.
    pub content: ContentRef,
    /// The author.
    pub author: DraftAuthor,
    entries: &'a [Entry],
}

/// The author of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftAuthor {
    /// The model.
    Model,
    /// A reviewer.
    Reviewer,
    /// A person, in answer to a question.
    Person {
        /// The question.
        question: QuestionId,
        /// The time of the answer.
        at: Millis,
    },
}

macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident, $variant:ident, $value:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Option<&'a StageResult<$value>> {
            find_event(self.entries, |fact| match fact {
                RecordEvent::$variant(step) => Some(step),
                _ => None,
            })
        }
    )*};
}

impl<'a> Draft<'a> {
    stages! {
        /// Returns whether the draft fits the schema.
        validation, Validated, ValidDraft;
        /// Returns the predicted effects.
        plan, Planned, PlanSummary;
        /// Returns the decision of the policy.
        decision, PolicyEvaluated, PolicyDecision;
        /// Returns the review.
        review, Reviewed, Review;
        /// Returns the challenge.
        challenge, Challenged, ChallengeSummary;
    }

    /// Returns the question about the draft, or about what its attempt changed on a copy.
    pub fn question(&self) -> Option<&'a StageResult<Question>> {
        find_event(self.after_observation(), |fact| match fact {
            RecordEvent::Asked(step) => Some(step),
            _ => None,
        })
    }

    /// Returns the entries after an attempt that ran on a copy, or all of them.
    fn after_observation(&self) -> &'a [Entry] {
        let place =
            self.entries.iter().rposition(|entry| matches!(entry.event, RecordEvent::Observed { .. }));
        place.and_then(|place| self.entries.get(place..)).unwrap_or(self.entries)
    }

    /// Returns what an attempt changed on a copy, if the policy did not allow all of it.
    pub fn observed_run(&self) -> Option<&'a RehearsalSummary> {
        self.entries.iter().rev().find_map(|entry| match &entry.event {
            RecordEvent::Observed { run, .. } => Some(run),
            _ => None,
        })
    }

    /// Returns the binding under which the draft runs on a copy.
    pub fn rehearsal_binding(&self) -> Option<Digest> {
        self.entries.iter().find_map(|entry| match &entry.event {
            RecordEvent::RehearsalStarted { binding } => Some(*binding),
            _ => None,
        })
    }

    /// Returns the outcome of the rehearsal.
    pub fn rehearsal_outcome(&self) -> Option<&'a RehearsalOutcome> {
        find_event(self.entries, |fact| match fact {
            RecordEvent::RehearsalFinished(rehearsed) => Some(rehearsed),
            _ => None,
        })
    }

    /// Returns the newest run on a copy that is not committed.
    pub fn rehearsal_summary(&self) -> Option<&'a RehearsalSummary> {
        if let Some(observed) = self.observed_run() {
            return Some(observed);
        }
        match self.rehearsal_outcome()? {
            RehearsalOutcome::Ran(head) => Some(head),
            RehearsalOutcome::Unavailable { .. } => None,
        }
    }
}

/// The way in which a question was closed.
#[derive(Clone, Copy, Debug)]
pub enum QuestionClosure<'a> {
    /// An answer closed it.
    Answered {
        /// The answer.
        answer: &'a RecordedAnswer,
        /// The time of the answer.
        at: Millis,
    },
    /// The question expired.
    Expired,
    /// The approver failed.
    ApproverFailed(&'a Refusal),
}

/// The progress of an attempt to execute.
#[derive(Clone, Copy, Debug)]
pub enum Attempt<'a> {
    /// The attempt holds a claim and has not ended.
    Open(&'a Claim),
    /// The owner of the attempt is gone.
    Interrupted,
    /// The attempt ran on a copy, and nothing is committed yet.
    Observed(&'a RehearsalSummary),
    /// The attempt ended.
    Ended(&'a ExecutionEnd),
}

fn find_event<'a, T: ?Sized>(
    entries: &'a [Entry],
    pick: impl Fn(&'a RecordEvent) -> Option<&'a T>,
) -> Option<&'a T> {
    entries.iter().find_map(|entry| pick(&entry.event))
}

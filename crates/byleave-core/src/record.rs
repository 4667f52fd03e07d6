//! The record: the entries of one call, in order, and how to read the stages back from it.
//!
//! What may be written on it is said in [`crate::transition`]; there is no other way to add an entry.

use crate::call::Millis;
use crate::challenge::ChallengeSummary;
use crate::decision::PolicyDecision;
use crate::digest::{ContentRef, Digest};
use crate::effect::PlanSummary;
use crate::entry::{CallHeader, Entry, RecordEvent, ResolvedTool, ValidDraft};
use crate::grant::Claim;
use crate::hash_chain::{ChainDamage, GENESIS};
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
    damage: Option<ChainDamage>,
}

impl Record {
    /// A record with nothing on it yet.
    pub const fn new(call: CallId) -> Self {
        Self { call, entries: Vec::new(), head: GENESIS, damage: None }
    }

    pub(crate) fn put(&mut self, entry: Entry, link: Digest) {
        if self.entries.capacity() == 0 {
            // As many as a call has that nobody is asked about.
            self.entries.reserve(12);
        }
        self.entries.push(entry);
        self.head = link;
    }

    pub(crate) fn break_at(&mut self, damage: ChainDamage) {
        self.damage = Some(damage);
    }

    /// Whose record it is.
    pub const fn call(&self) -> CallId {
        self.call
    }

    /// How many entries it has.
    pub fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The link of the last line.
    pub const fn head(&self) -> Digest {
        self.head
    }

    /// All entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where it is broken, if it is.
    pub const fn damage(&self) -> Option<&ChainDamage> {
        self.damage.as_ref()
    }

    /// The call as it came in.
    pub fn heading(&self) -> Option<&CallHeader> {
        match self.entries.first().map(|entry| &entry.fact) {
            Some(RecordEvent::Received(heading)) => Some(heading),
            _ => None,
        }
    }

    /// Its tool and terms.
    pub fn resolved(&self) -> Option<&StageResult<ResolvedTool>> {
        find(&self.entries, |fact| match fact {
            RecordEvent::Resolved(step) => Some(step),
            _ => None,
        })
    }

    /// The draft that counts: the model's, until a reviewer or a person changes it.
    pub fn draft(&self) -> Option<Draft<'_>> {
        let mut draft = None;
        let mut number = 0;
        let mut latest = None;
        let mut rest = self.entries.as_slice();
        while let Some((entry, after)) = rest.split_first() {
            let begun_here = match &entry.fact {
                RecordEvent::Received(heading) => Some((heading.arguments, DraftAuthor::Model)),
                RecordEvent::Reviewed(Ok(Review { change: Some(content), .. })) => {
                    Some((*content, DraftAuthor::Reviewer))
                }
                RecordEvent::Answered(RecordedAnswer {
                    question,
                    answer: Answer::Edit { content, .. },
                    ..
                }) if !self.is_release(*question) => {
                    Some((*content, DraftAuthor::Person { question: *question, at: entry.at }))
                }
                // The same arguments once more. What was said of them no longer holds, not even a person's own edit: they count as
                // the model's, so that they are asked about again.
                RecordEvent::RehearsalLost { .. } => latest.map(|content| (content, DraftAuthor::Model)),
                _ => None,
            };
            if let Some((content, by)) = begun_here {
                number += 1;
                latest = Some(content);
                draft = Some(Draft { number, content, by, since: after });
            }
            rest = after;
        }
        draft
    }

    /// A question by its id.
    pub fn question(&self, id: QuestionId) -> Option<&Question> {
        find(&self.entries, |fact| match fact {
            RecordEvent::Asked(Ok(question)) if question.id == id => Some(question),
            _ => None,
        })
    }

    /// The plan and the ruling that stood when a question was asked.
    pub fn shown(&self, id: QuestionId) -> Option<(&PlanSummary, &PolicyDecision)> {
        let (mut plan, mut ruling) = (None, None);
        for entry in &self.entries {
            match &entry.fact {
                RecordEvent::Planned(Ok(head)) => plan = Some(head),
                RecordEvent::Permitted(Ok(one)) => ruling = Some(one),
                RecordEvent::Asked(Ok(question)) if question.id == id => return plan.zip(ruling),
                _ => {}
            }
        }
        None
    }

    /// How a question was closed.
    pub fn closing(&self, id: QuestionId) -> Option<QuestionClosure<'_>> {
        self.entries.iter().find_map(|entry| match &entry.fact {
            RecordEvent::Answered(answered) if answered.question == id => {
                Some(QuestionClosure::Answered { answered, at: entry.at })
            }
            RecordEvent::Expired { question } if *question == id => Some(QuestionClosure::Expired),
            RecordEvent::Unasked { question, refusal } if *question == id => {
                Some(QuestionClosure::Unasked(refusal))
            }
            _ => None,
        })
    }

    /// The newest attempt to execute.
    pub fn attempt(&self) -> Option<Attempt<'_>> {
        let mut attempt = None;
        for entry in &self.entries {
            match &entry.fact {
                RecordEvent::Begun(Ok(claim)) => attempt = Some(Attempt::Open(claim)),
                RecordEvent::Interrupted { .. } => attempt = Some(Attempt::Interrupted),
                RecordEvent::Ended { end, .. } => attempt = Some(Attempt::Ended(end)),
                _ => {}
            }
        }
        attempt
    }

    /// How many attempts have begun.
    pub fn attempts(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(&entry.fact, RecordEvent::Begun(Ok(_)))).count()
    }

    /// Whether an attempt with this id has begun.
    pub fn has_attempt(&self, id: AttemptId) -> bool {
        self.entries
            .iter()
            .any(|entry| matches!(&entry.fact, RecordEvent::Begun(Ok(claim)) if claim.attempt == id))
    }

    /// Why the last attempt to begin was refused.
    pub fn begin_refused(&self) -> Option<&Refusal> {
        find(&self.entries, |fact| match fact {
            RecordEvent::Begun(Err(refusal)) => Some(refusal),
            _ => None,
        })
    }

    /// Who called it off.
    pub fn cancelled(&self) -> Option<&str> {
        find(&self.entries, |fact| match fact {
            RecordEvent::Cancelled { by } => Some(by.as_str()),
            _ => None,
        })
    }

    /// What the reviewers said of the result.
    pub fn output_reviewed(&self) -> Option<&StageResult<Review>> {
        find(&self.entries, |fact| match fact {
            RecordEvent::OutputReviewed(step) => Some(step),
            _ => None,
        })
    }

    /// The question whether a held result may be released.
    pub fn release_asked(&self) -> Option<&StageResult<Question>> {
        let place =
            self.entries.iter().position(|entry| matches!(entry.fact, RecordEvent::OutputReviewed(_)))?;
        find(self.entries.get(place..)?, |fact| match fact {
            RecordEvent::Asked(step) => Some(step),
            _ => None,
        })
    }

    /// What came of it.
    pub fn settled(&self) -> Option<&Outcome> {
        match self.entries.last().map(|entry| &entry.fact) {
            Some(RecordEvent::Settled(outcome)) => Some(outcome),
            _ => None,
        }
    }

    fn is_release(&self, id: QuestionId) -> bool {
        self.question(id).is_some_and(|question| question.kind == QuestionKind::Release)
    }
}

/// One version of a call's arguments, and what has been found out about it.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// From 1.
    pub number: u8,
    /// The arguments.
    pub content: ContentRef,
    /// Whose.
    pub by: DraftAuthor,
    since: &'a [Entry],
}

/// Whose draft it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftAuthor {
    /// The model's.
    Model,
    /// A reviewer's.
    Reviewer,
    /// A person's, in answer to a question.
    Person {
        /// Which.
        question: QuestionId,
        /// When.
        at: Millis,
    },
}

macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident, $variant:ident, $value:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self) -> Option<&'a StageResult<$value>> {
            find(self.since, |fact| match fact {
                RecordEvent::$variant(step) => Some(step),
                _ => None,
            })
        }
    )*};
}

impl<'a> Draft<'a> {
    stages! {
        /// Whether it fits the schema.
        validated, Validated, ValidDraft;
        /// What it would do.
        planned, Planned, PlanSummary;
        /// What the policy says of it.
        permitted, Permitted, PolicyDecision;
        /// What the reviewers say of it.
        reviewed, Reviewed, Review;
        /// The case against it.
        challenged, Challenged, ChallengeSummary;
        /// The question about it.
        asked, Asked, Question;
    }

    /// The binding under which it is run on a copy.
    pub fn rehearsing(&self) -> Option<Digest> {
        self.since.iter().find_map(|entry| match &entry.fact {
            RecordEvent::Rehearsing { binding } => Some(*binding),
            _ => None,
        })
    }

    /// What came of the run on a copy.
    pub fn rehearsed(&self) -> Option<&'a RehearsalOutcome> {
        find(self.since, |fact| match fact {
            RecordEvent::Rehearsed(rehearsed) => Some(rehearsed),
            _ => None,
        })
    }

    /// The run on a copy, if there was one.
    pub fn rehearsal(&self) -> Option<&'a RehearsalSummary> {
        match self.rehearsed()? {
            RehearsalOutcome::Ran(head) => Some(head),
            RehearsalOutcome::Not { .. } => None,
        }
    }
}

/// How a question was closed.
#[derive(Clone, Copy, Debug)]
pub enum QuestionClosure<'a> {
    /// By an answer.
    Answered {
        /// Which.
        answered: &'a RecordedAnswer,
        /// When.
        at: Millis,
    },
    /// By time.
    Expired,
    /// By an approver that broke.
    Unasked(&'a Refusal),
}

/// How far an attempt to execute has come.
#[derive(Clone, Copy, Debug)]
pub enum Attempt<'a> {
    /// Claimed, and not ended.
    Open(&'a Claim),
    /// Its owner is gone.
    Interrupted,
    /// Ended.
    Ended(&'a ExecutionEnd),
}

fn find<'a, T: ?Sized>(
    entries: &'a [Entry],
    pick: impl Fn(&'a RecordEvent) -> Option<&'a T>,
) -> Option<&'a T> {
    entries.iter().find_map(|entry| pick(&entry.fact))
}

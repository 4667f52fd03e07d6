//! Whether what is to be appended continues the record, and what is kept of the call then. Pure: nothing here asks the engine.

use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::record::Record;
use byleave_gate::ledger::{Batch, CallSummary, PendingQuestion};

use crate::packing::{Kept, Projected, continue_lines};
use crate::wire::Append;

/// A batch that the walk admits.
pub(super) struct Checked {
    /// The record without it.
    pub(super) before: Record,
    /// The record with it.
    pub(super) after: Record,
    /// What is kept of the call then.
    pub(super) kept: Kept,
    pub(super) batch: Batch,
}

impl Checked {
    /// Holds what is to be appended against what is kept of the call; says what is wrong with it.
    pub(super) fn new(kept: Option<Kept>, append: &Append) -> Result<Self, String> {
        let lines = continue_lines(append.call, append.at_len, append.before, &append.bodies);
        if lines.last().map(|line| line.link()) != Some(append.head) {
            return Err("its lines do not lead to its last link".into());
        }
        let mut all = kept.as_ref().map(|kept| kept.lines(append.call)).unwrap_or_default();
        let before = Record::from_stored_entries(append.call, &all);
        all.extend(lines.iter().cloned());
        let after = Record::from_stored_entries(append.call, &all);
        if let Some(damage) = after.damage() {
            return Err(damage.to_string());
        }
        let heading = after.header().ok_or("a record begins with `received`")?;
        let caller = heading.caller();
        if heading.tenant != append.tenant || heading.session != append.session {
            return Err("the call is of another session".into());
        }
        let entries: Vec<Entry> = after.entries().iter().skip(before.entries().len()).cloned().collect();
        let waits = match (&append.waits, entries.last().map(|entry| &entry.event)) {
            (None, _) => None,
            (Some(effects), Some(RecordEvent::Asked(Ok(question)))) => {
                Some(PendingQuestion { question: question.clone(), effects: effects.clone() })
            }
            (Some(_), _) => return Err("it waits for a question that it does not ask".into()),
        };
        if append.begins.is_some_and(|begins| begins.exclusive != runs_alone(&after)) {
            return Err("whether it runs alone is not what its terms say".into());
        }
        let listing = CallSummary {
            tenant: append.tenant.clone(),
            session: append.session.clone(),
            agent: String::new(),
            tool: String::new(),
            operation: String::new(),
            summary: String::new(),
        };
        let batch = Batch {
            call: append.call,
            expected_len: append.at_len,
            prev_link: append.before,
            chained_entries: lines,
            entries,
            contents: Vec::new(),
            key: None,
            call_summary: listing,
            pending_question: waits,
            attempt_start: append.begins.map(Into::into),
            is_final: append.settles,
        };
        let (key, mut bodies, mut projected) = match kept {
            None => {
                let projected = append.noted.as_ref().map(|_| Projected::default());
                (append.key.clone().map(|key| key.0), Vec::new(), projected)
            }
            Some(_) if append.key.is_some() => return Err("a key comes with the first lines".into()),
            Some(kept) => (kept.key, kept.bodies, kept.projected),
        };
        bodies.extend(append.bodies.iter().cloned());
        if let Some(projected) = &mut projected {
            projected.cuts.push(u32::try_from(append.bodies.len()).map_err(|_| "it has too many lines")?);
            if let Some(noted) = &append.noted {
                projected.noted.clone_from(noted);
                projected.noted.agent = noted.agent.clone().filter(|agent| *agent != caller);
            }
            if key.is_none() {
                projected.noted.summary.clear();
            }
        }
        let kept = Kept { token: append.token, key, head: append.head, bodies, projected };
        Ok(Self { before, after, kept, batch })
    }
}

/// Whether attempts of a call run alone in their session, by the terms that it was resolved on.
pub(super) fn runs_alone(record: &Record) -> bool {
    !matches!(record.resolved_tool(), Some(Ok(terms)) if terms.concurrency_safe)
}

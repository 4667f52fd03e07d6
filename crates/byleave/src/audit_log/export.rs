//! Exports records as JSON or Markdown. It must never include original contents unless they are requested.

use std::fmt::Write as _;

use byleave_core::entry::{Entry, RecordEvent};
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::CallId;
use byleave_core::rehearsal::RehearsalOutcome;
use futures::stream::{self, Stream};
use serde_json::{Value, json};

use super::{AuditLog, CallFilter, Cursor, PageRequest, StoredCall};
use crate::ledger::{LedgerError, RecordContent};

/// How many calls are looked up per page.
const PAGE: usize = 64;

/// Whether original contents are exported with the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeContents {
    /// Exports only the digest and size of each content.
    #[default]
    LeftOut,
    /// Exports all contents that can still be read.
    Included,
}

/// One record to export.
#[derive(Clone, Debug)]
pub struct ExportedRecord {
    /// The call.
    pub call: CallId,
    /// Its record.
    pub kept: StoredCall,
    /// Its contents, if requested.
    pub contents: Vec<RecordContent>,
}

/// Reads one record to export. Returns `None` if the call does not exist.
pub async fn one(
    book: &dyn AuditLog,
    call: CallId,
    contents: IncludeContents,
) -> Result<Option<ExportedRecord>, LedgerError> {
    let Some(kept) = book.record(call).await? else { return Ok(None) };
    let contents = match contents {
        IncludeContents::LeftOut => Vec::new(),
        IncludeContents::Included => book.contents(call).await?,
    };
    Ok(Some(ExportedRecord { call, kept, contents }))
}

/// Streams every record that matches the filter, the newest first.
pub fn records(
    book: &dyn AuditLog,
    filter: CallFilter,
    contents: IncludeContents,
) -> impl Stream<Item = Result<ExportedRecord, LedgerError>> + '_ {
    let state = Some((filter, None::<Cursor>, Vec::new().into_iter()));
    stream::unfold(state, move |state| async move {
        let (filter, mut after, mut ready) = state?;
        loop {
            if ready.len() == 0 {
                match book.calls(filter.clone(), PageRequest { limit: PAGE, after }).await {
                    Ok(items) if items.is_empty() => return None,
                    Ok(items) => {
                        after = items.last().map(|item| item.cursor);
                        ready = items.into_iter().map(|item| item.call).collect::<Vec<_>>().into_iter();
                    }
                    Err(fault) => return Some((Err(fault), None)),
                }
            }
            let call = ready.next()?;
            match one(book, call, contents).await {
                Ok(Some(exported)) => return Some((Ok(exported), Some((filter, after, ready)))),
                Ok(None) => {}
                Err(fault) => return Some((Err(fault), None)),
            }
        }
    })
}

impl ExportedRecord {
    /// Returns the record as JSON. Each entry has its link, so that it can be verified without the audit log.
    pub fn json(&self) -> Value {
        let entries: Vec<Value> = self.kept.lines.iter().map(line_json).collect();
        let mut value = json!({
            "call": self.call,
            "forgotten": self.kept.forgotten,
            "damage": self.kept.record.damage().map(ToString::to_string),
            "lines": entries,
        });
        if let (Some(listing), Some(fields)) = (&self.kept.listing, value.as_object_mut()) {
            fields.insert("tenant".into(), json!(listing.tenant));
            fields.insert("session".into(), json!(listing.session));
            fields.insert("agent".into(), json!(listing.agent));
            fields.insert("tool".into(), json!(listing.tool));
            fields.insert("operation".into(), json!(listing.operation));
            fields.insert("summary".into(), json!(listing.summary));
        }
        if let (false, Some(fields)) = (self.contents.is_empty(), value.as_object_mut()) {
            let contents: Vec<Value> = self.contents.iter().map(content_json).collect();
            fields.insert("contents".into(), contents.into());
        }
        value
    }

    /// Returns the record as Markdown, for people.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let mut put = |text: &str| {
            out.push_str(text);
            out.push('\n');
        };
        put(&format!("## Call {}", self.call));
        put("");
        if let Some(listing) = &self.kept.listing {
            put(&format!("- tool: {} ({})", code(&listing.tool), inline(&listing.operation)));
            put(&format!("- agent: {}, session: {}", code(&listing.agent), code(listing.session.as_str())));
            if !listing.summary.is_empty() {
                put(&format!("- summary: {}", inline(&listing.summary)));
            }
        }
        if self.kept.forgotten {
            put("- its contents were forgotten");
        }
        if let Some(damage) = self.kept.record.damage() {
            put(&format!("- **damaged**: {damage}"));
        }
        put("");
        put("| line | at (ms) | what | |");
        put("|---|---|---|---|");
        for (seq, entry) in self.kept.record.entries().iter().enumerate() {
            put(&format!("| {seq} | {} | {} | {} |", entry.at, entry.fact.kind(), inline(&remark(entry))));
        }
        for content in &self.contents {
            put("");
            put(&format!("### Content {} ({} bytes)", content.held.digest.short(), content.held.bytes));
            put("");
            let text = String::from_utf8_lossy(&content.bytes);
            let fence = fence_for(&text);
            put(&fence);
            put(&text);
            put(&fence);
        }
        out
    }
}

fn line_json(line: &ChainedEntry) -> Value {
    let entry = serde_json::from_str(line.body()).unwrap_or(Value::Null);
    // The text is included because the link is computed over these exact bytes.
    json!({ "seq": line.seq(), "link": line.link(), "entry": entry, "text": line.body() })
}

fn content_json(content: &RecordContent) -> Value {
    match std::str::from_utf8(&content.bytes) {
        Ok(text) => json!({ "digest": content.held.digest, "bytes": content.held.bytes, "text": text }),
        Err(_) => {
            let mut hex = String::with_capacity(content.bytes.len() * 2);
            for byte in &content.bytes {
                // Writing to a string cannot fail.
                write!(hex, "{byte:02x}").unwrap_or_default();
            }
            json!({ "digest": content.held.digest, "bytes": content.held.bytes, "hex": hex })
        }
    }
}

/// Describes an entry beyond its kind, for people. The text is not escaped.
pub fn remark(entry: &Entry) -> String {
    let refused = |refusal: &byleave_core::refusal::Refusal| format!("refused: {refusal}");
    match &entry.fact {
        RecordEvent::Received(heading) => format!("{} in {}", heading.tool, heading.cwd),
        RecordEvent::Resolved(step) => step.as_ref().map_or_else(refused, |terms| terms.tool.clone()),
        RecordEvent::Validated(step) => step.as_ref().map_or_else(refused, |_| String::new()),
        RecordEvent::Planned(step) => step.as_ref().map_or_else(refused, |plan| match plan.effects.len() {
            1 => "1 effect".to_owned(),
            many => format!("{many} effects"),
        }),
        RecordEvent::Permitted(step) => step.as_ref().map_or_else(refused, |ruling| {
            let why = ruling.decisive().map(|reason| reason.why.as_str()).unwrap_or_default();
            format!("{:?}: {why}", ruling.verdict).to_lowercase()
        }),
        RecordEvent::Reviewed(step) | RecordEvent::OutputReviewed(step) => {
            step.as_ref().map_or_else(refused, |review| {
                let said = |note: &byleave_core::review::ReviewNote| {
                    format!("{} {:?}", note.reviewer, note.said).to_lowercase()
                };
                review.notes.iter().map(said).collect::<Vec<_>>().join(", ")
            })
        }
        RecordEvent::Challenged(step) => {
            step.as_ref().map_or_else(refused, |head| format!("{:?}", head.verdict).to_lowercase())
        }
        RecordEvent::Rehearsing { .. } | RecordEvent::RehearsalLost { .. } => String::new(),
        RecordEvent::Rehearsed(RehearsalOutcome::Not { why }) => format!("not: {why}"),
        RecordEvent::Rehearsed(RehearsalOutcome::Ran(head)) => match (head.quiet, head.stands) {
            (true, _) => "did nothing".to_owned(),
            (false, true) => "did something".to_owned(),
            (false, false) => "wanted the network".to_owned(),
        },
        RecordEvent::Asked(step) => step.as_ref().map_or_else(refused, |question| question.id.to_string()),
        RecordEvent::Answered(answered) => format!("by {}", answered.by.name),
        RecordEvent::Expired { question } => question.to_string(),
        RecordEvent::Unasked { refusal, .. } => refused(refusal),
        RecordEvent::Cancelled { by } => format!("by {by}"),
        RecordEvent::Begun(step) => step.as_ref().map_or_else(refused, |claim| claim.attempt.to_string()),
        RecordEvent::Interrupted { attempt } => attempt.to_string(),
        RecordEvent::Ended { end, .. } => format!("{:?} after {} ms", end.status, end.ran_ms).to_lowercase(),
        RecordEvent::Settled(outcome) => {
            let why = outcome.refusal().map(|refusal| format!(": {refusal}")).unwrap_or_default();
            format!("{}{why}", outcome.word())
        }
    }
}

/// Escapes text so that it cannot break out of its line or table cell.
fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

fn code(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c == '`' || c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("`{text}`")
}

/// Returns a code fence longer than any run of backticks in the text.
fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.saturating_add(1).max(3))
}

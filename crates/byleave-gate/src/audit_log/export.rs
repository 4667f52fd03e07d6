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
const PAGE_SIZE: usize = 64;

/// Whether original contents are exported with the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeContents {
    /// Exports only the digest and size of each content.
    #[default]
    Omitted,
    /// Exports all contents that can still be read.
    Included,
}

/// One record to export.
#[derive(Clone, Debug)]
pub struct ExportedRecord {
    /// The call.
    pub call: CallId,
    /// Its record.
    pub stored: StoredCall,
    /// Its contents, if requested.
    pub contents: Vec<RecordContent>,
}

/// Reads one record to export. Returns `None` if the call does not exist.
pub async fn export_one(
    book: &dyn AuditLog,
    call: CallId,
    contents: IncludeContents,
) -> Result<Option<ExportedRecord>, LedgerError> {
    let Some(kept) = book.record(call).await? else { return Ok(None) };
    let contents = match contents {
        IncludeContents::Omitted => Vec::new(),
        IncludeContents::Included => book.contents(call).await?,
    };
    Ok(Some(ExportedRecord { call, stored: kept, contents }))
}

/// Streams every record that matches the filter, the newest first.
pub fn export_records(
    book: &dyn AuditLog,
    filter: CallFilter,
    contents: IncludeContents,
) -> impl Stream<Item = Result<ExportedRecord, LedgerError>> + '_ {
    let state = Some((filter, None::<Cursor>, Vec::new().into_iter()));
    stream::unfold(state, move |state| async move {
        let (filter, mut after, mut ready) = state?;
        loop {
            if ready.len() == 0 {
                match book.calls(filter.clone(), PageRequest { limit: PAGE_SIZE, after }).await {
                    Ok(items) if items.is_empty() => return None,
                    Ok(items) => {
                        after = items.last().map(|item| item.cursor);
                        ready = items.into_iter().map(|item| item.call).collect::<Vec<_>>().into_iter();
                    }
                    Err(fault) => return Some((Err(fault), None)),
                }
            }
            let call = ready.next()?;
            match export_one(book, call, contents).await {
                Ok(Some(exported)) => return Some((Ok(exported), Some((filter, after, ready)))),
                Ok(None) => {}
                Err(fault) => return Some((Err(fault), None)),
            }
        }
    })
}

impl ExportedRecord {
    /// Returns the record as JSON. Each entry has its link, so that it can be verified without the audit log.
    pub fn to_json(&self) -> Value {
        let entries: Vec<Value> = self.stored.chained_entries.iter().map(entry_json).collect();
        let mut value = json!({
            "call": self.call,
            "forgotten": self.stored.forgotten,
            "integrity_error": self.stored.record.damage().map(ToString::to_string),
            "entries": entries,
        });
        if let (Some(listing), Some(fields)) = (&self.stored.call_summary, value.as_object_mut()) {
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
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        let mut put = |text: &str| {
            out.push_str(text);
            out.push('\n');
        };
        put(&format!("## Call {}", self.call));
        put("");
        if let Some(listing) = &self.stored.call_summary {
            put(&format!("- tool: {} ({})", format_code(&listing.tool), escape_inline(&listing.operation)));
            put(&format!(
                "- agent: {}, session: {}",
                format_code(&listing.agent),
                format_code(listing.session.as_str())
            ));
            if !listing.summary.is_empty() {
                put(&format!("- summary: {}", escape_inline(&listing.summary)));
            }
        }
        if self.stored.forgotten {
            put("- the contents were forgotten");
        }
        if let Some(damage) = self.stored.record.damage() {
            put(&format!("- **damaged**: {damage}"));
        }
        put("");
        put("| entry | at (ms) | event | |");
        put("|---|---|---|---|");
        for (seq, entry) in self.stored.record.entries().iter().enumerate() {
            put(&format!(
                "| {seq} | {} | {} | {} |",
                entry.at,
                entry.event.kind(),
                escape_inline(&describe_entry(entry))
            ));
        }
        for content in &self.contents {
            put("");
            put(&format!(
                "### Content {} ({} bytes)",
                content.content_ref.digest.short_hex(),
                content.content_ref.size
            ));
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

fn entry_json(line: &ChainedEntry) -> Value {
    let entry = serde_json::from_str(line.body()).unwrap_or(Value::Null);
    // The text is included because the link is computed over these exact bytes.
    json!({ "seq": line.seq(), "link": line.link(), "entry": entry, "text": line.body() })
}

fn content_json(content: &RecordContent) -> Value {
    match std::str::from_utf8(&content.bytes) {
        Ok(text) => {
            json!({ "digest": content.content_ref.digest, "bytes": content.content_ref.size, "text": text })
        }
        Err(_) => {
            let mut hex = String::with_capacity(content.bytes.len() * 2);
            for byte in &content.bytes {
                // Writing to a string cannot fail.
                write!(hex, "{byte:02x}").unwrap_or_default();
            }
            json!({ "digest": content.content_ref.digest, "bytes": content.content_ref.size, "hex": hex })
        }
    }
}

/// Describes an entry beyond its kind, for people. The text is not escaped.
pub fn describe_entry(entry: &Entry) -> String {
    let refused = |refusal: &byleave_core::refusal::Refusal| format!("refused: {refusal}");
    match &entry.event {
        RecordEvent::Received(heading) => format!("{} in {}", heading.tool, heading.cwd),
        RecordEvent::Resolved(step) => step.as_ref().map_or_else(refused, |terms| terms.tool.clone()),
        RecordEvent::Validated(step) => step.as_ref().map_or_else(refused, |_| String::new()),
        RecordEvent::Planned(step) => step.as_ref().map_or_else(refused, |plan| match plan.effects.len() {
            1 => "1 effect".to_owned(),
            many => format!("{many} effects"),
        }),
        RecordEvent::PolicyEvaluated(step) => step.as_ref().map_or_else(refused, |ruling| {
            let why = ruling.decisive_reason().map(|reason| reason.message.as_str()).unwrap_or_default();
            format!("{:?}: {why}", ruling.verdict).to_lowercase()
        }),
        RecordEvent::Reviewed(step) | RecordEvent::OutputReviewed(step) => {
            step.as_ref().map_or_else(refused, |review| {
                let said = |note: &byleave_core::review::ReviewNote| {
                    format!("{} {:?}", note.reviewer, note.outcome).to_lowercase()
                };
                review.notes.iter().map(said).collect::<Vec<_>>().join(", ")
            })
        }
        RecordEvent::Challenged(step) => {
            step.as_ref().map_or_else(refused, |head| format!("{:?}", head.verdict).to_lowercase())
        }
        RecordEvent::RehearsalStarted { .. } | RecordEvent::RehearsalCopyMissing { .. } => String::new(),
        RecordEvent::RehearsalFinished(RehearsalOutcome::Unavailable { reason: why }) => {
            format!("not rehearsed: {why}")
        }
        RecordEvent::RehearsalFinished(RehearsalOutcome::Ran(head)) => {
            match (head.no_effects, head.committable) {
                (true, _) => "had no effects".to_owned(),
                (false, true) => "had effects".to_owned(),
                (false, false) => "tried to reach the network".to_owned(),
            }
        }
        RecordEvent::Asked(step) => step.as_ref().map_or_else(refused, |question| question.id.to_string()),
        RecordEvent::Answered(answered) => answered.description(),
        RecordEvent::Expired { question } => question.to_string(),
        RecordEvent::ApproverFailed { refusal, .. } => refused(refusal),
        RecordEvent::Cancelled { actor: by } => format!("by {by}"),
        RecordEvent::Started(step) => step.as_ref().map_or_else(refused, |claim| claim.attempt.to_string()),
        RecordEvent::Interrupted { attempt } => attempt.to_string(),
        RecordEvent::Observed { run, .. } => run.decision.as_ref().map_or_else(String::new, |decision| {
            let why = decision.decisive_reason().map(|reason| reason.message.as_str()).unwrap_or_default();
            format!("what it changed: {}: {why}", decision.verdict.as_str())
        }),
        RecordEvent::Ended { end, .. } => {
            format!("{:?} after {} ms", end.status, end.duration_ms).to_lowercase()
        }
        RecordEvent::Settled(outcome) => {
            let why = outcome.refusal().map(|refusal| format!(": {refusal}")).unwrap_or_default();
            format!("{}{why}", outcome.as_str())
        }
    }
}

/// Escapes text so that it cannot break out of its line or table cell.
fn escape_inline(text: &str) -> String {
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

fn format_code(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c == '`' || c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("`{text}`")
}

/// Returns a code fence longer than any run of backticks in the text.
fn fence_for(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.saturating_add(1).max(3))
}

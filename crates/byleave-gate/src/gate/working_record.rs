//! A call in progress: its record, its contents, and entries that are not durable yet.

use std::any::Any;
use std::sync::Arc;

use byleave_core::call::{Call, Millis};
use byleave_core::challenge::Challenge;
use byleave_core::digest::{ContentRef, Digest, RecordKey, canonical_json};
use byleave_core::effect::{Effect, Plan, PlanSummary};
use byleave_core::entry::{CallHeader, Entry, RecordEvent, ResolvedTool};
use byleave_core::grant::GrantedBy;
use byleave_core::hash_chain::ChainedEntry;
use byleave_core::id::{AttemptId, CallId};
use byleave_core::outcome::Output;
use byleave_core::pipeline::{NextStep, RECORD_VERSION, next_step};
use byleave_core::question::QuestionKind;
use byleave_core::record::{Attempt, Record};
use byleave_core::refusal::{Code, Refusal, StageResult};
use byleave_core::session::SessionNode;
use byleave_core::transition::TransitionError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::gate::ledger_snapshot::LedgerSnapshot;
use crate::ledger::{
    AppendError, AttemptStart, Batch, CallSummary, ContentError, Ledger, LedgerError, LoadedRecord,
    PendingQuestion, RecordContent,
};
use crate::redact::redact;

/// The maximum length of a call summary in lists.
const SUMMARY_CHARS_MAX: usize = 200;

/// A call in progress.
pub(crate) struct WorkingRecord {
    pub(crate) record: Record,
    key: Option<RecordKey>,
    /// The length of the durable part of the record, and its last link.
    durable: (u32, Digest),
    chained_entries: Vec<ChainedEntry>,
    new_contents: Vec<RecordContent>,
    /// A linear search is enough, because a call has only a few contents.
    contents: Vec<(Digest, Arc<dyn Any + Send + Sync>)>,
    /// The attempt that this drive has claimed and not yet run.
    pub(crate) claimed_attempt: Option<AttemptId>,
    /// Whether an attempt has run whose end is not durable yet.
    pub(crate) has_unrecorded_run: bool,
    /// The state of the ledger when the call arrived.
    pub(crate) snapshot: Option<LedgerSnapshot>,
    summary: String,
}

impl WorkingRecord {
    /// Opens the record of a new call.
    pub(crate) fn new(
        call: &Call,
        lineage: Vec<SessionNode>,
        key: RecordKey,
        at: Millis,
    ) -> Result<Self, TransitionError> {
        let mut desk = Self::with_record(Record::new(call.id), Some(key));
        let arguments = desk.store_json(&call.arguments);
        let reason = call.reason.as_ref().map(|reason| desk.store_content(&Value::from(reason.as_str())));
        let heading = CallHeader { lineage, ..new_header(call, arguments, reason) };
        desk.append_event(at, RecordEvent::Received(heading))?;
        Ok(desk)
    }

    /// Opens the record of a call that is already in the ledger.
    pub(crate) fn from_record(record: Record, key: Option<RecordKey>) -> Self {
        Self::with_record(record, key)
    }

    fn with_record(record: Record, key: Option<RecordKey>) -> Self {
        Self {
            durable: (record.len(), record.head()),
            record,
            key,
            chained_entries: Vec::new(),
            new_contents: Vec::new(),
            contents: Vec::new(),
            claimed_attempt: None,
            has_unrecorded_run: false,
            snapshot: None,
            summary: String::new(),
        }
    }

    pub(crate) const fn call(&self) -> CallId {
        self.record.call()
    }

    /// Checks whether a call has the same body as the call that opened this record. Returns `None` if that cannot be checked.
    pub(crate) fn is_same_call(&self, call: &Call) -> Option<bool> {
        let key = self.key.as_ref()?;
        let arguments = key.content_ref(canonical_json(&call.arguments).as_bytes());
        let reason = match &call.reason {
            None => None,
            Some(reason) => Some(key.content_ref(&serde_json::to_vec(reason).ok()?)),
        };
        let mine = self.record.header()?;
        // The lineage of the session is not part of the call. It was looked up when the call first arrived.
        let lineage = mine.lineage.clone();
        Some(*mine == CallHeader { lineage, ..new_header(call, arguments, reason) })
    }

    pub(crate) fn resolved_tool(&self) -> Option<&ResolvedTool> {
        self.record.resolved_tool()?.as_ref().ok()
    }

    /// Returns the maximum size of an output that is stored.
    pub(crate) fn stored_output_limit(&self) -> u64 {
        let limits = self.resolved_tool().map(|terms| terms.limits);
        limits.map_or(0, |limits| limits.max_stored_bytes.max(limits.max_output_bytes))
    }

    /// Stores a content and returns the reference for the record.
    pub(crate) fn store_content<T: Serialize + Clone + Send + Sync + 'static>(
        &mut self,
        content: &T,
    ) -> ContentRef {
        // Contents are types of this workspace with strings, numbers and JSON, so serialization never fails.
        let bytes = serde_json::to_vec(content).unwrap_or_default();
        self.add_content(content.clone(), bytes)
    }

    /// Stores a JSON value in canonical form.
    pub(crate) fn store_json(&mut self, value: &Value) -> ContentRef {
        self.add_content(value.clone(), canonical_json(value).into_bytes())
    }

    fn add_content<T: Send + Sync + 'static>(&mut self, content: T, bytes: Vec<u8>) -> ContentRef {
        let held = match &self.key {
            Some(key) => key.content_ref(&bytes),
            // The key was forgotten. The new content can be verified, but never read again.
            None => ContentRef { digest: Digest::compute(&bytes), size: bytes.len() as u64 },
        };
        self.contents.push((held.digest, Arc::new(content)));
        self.new_contents.push(RecordContent { content_ref: held, bytes });
        held
    }

    /// Returns a cached content, the newest first. A content that was cached as another type is read again.
    fn cached_content(&self, held: ContentRef) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.contents.iter().rev().find(|(digest, _)| *digest == held.digest).map(|(_, content)| content)
    }

    /// Returns a content of any record from the cache.
    pub(crate) fn cached<T: Send + Sync + 'static>(&self, held: ContentRef) -> Option<Arc<T>> {
        self.cached_content(held).cloned().and_then(|any| any.downcast::<T>().ok())
    }

    /// Caches a content of another record, whose digest was checked.
    pub(crate) fn cache_content<T: Send + Sync + 'static>(&mut self, held: ContentRef, content: T) -> Arc<T> {
        let content = Arc::new(content);
        self.contents.push((held.digest, content.clone()));
        content
    }

    /// Stores a plan and returns its summary for the record.
    pub(crate) fn store_plan(&mut self, plan: &Plan) -> StageResult<PlanSummary> {
        let Some(key) = self.key.clone() else {
            return Err(Refusal::new(Code::Forgotten, "the contents of this call were forgotten"));
        };
        self.summary = summarize_plan(plan);
        let held = self.store_content(plan);
        Ok(plan.summarize(&key, held))
    }

    /// Reads a content from the cache or from the ledger.
    pub(crate) async fn read_content<T: DeserializeOwned + Send + Sync + 'static>(
        &mut self,
        ledger: &dyn Ledger,
        held: ContentRef,
    ) -> Result<Arc<T>, ContentError> {
        if let Some(content) = self.cached(held) {
            return Ok(content);
        }
        let bytes = ledger.content(self.call(), held).await?;
        let key = self.key.as_ref().ok_or(ContentError::Forgotten)?;
        // Only the approved content may run, whatever the store returns.
        if key.content_ref(&bytes) != held {
            return Err(ContentError::Corrupted);
        }
        let content: T = serde_json::from_slice(&bytes).map_err(|_| ContentError::Corrupted)?;
        let content = Arc::new(content);
        self.contents.push((held.digest, content.clone()));
        Ok(content)
    }

    /// Reads the arguments of the current draft.
    pub(crate) async fn arguments(&mut self, ledger: &dyn Ledger) -> Result<Arc<Value>, ContentError> {
        let held = self.record.draft().map(|draft| draft.content).ok_or(ContentError::Missing)?;
        self.read_content(ledger, held).await
    }

    /// Reads the plan of the current draft.
    pub(crate) async fn plan(&mut self, ledger: &dyn Ledger) -> Result<Arc<Plan>, ContentError> {
        let planned = self.record.draft().and_then(|draft| draft.plan()).and_then(|step| step.as_ref().ok());
        let held = planned.map(|head| head.plan).ok_or(ContentError::Missing)?;
        self.read_content(ledger, held).await
    }

    /// Reads the challenge of the current draft.
    pub(crate) async fn challenge(
        &mut self,
        ledger: &dyn Ledger,
    ) -> Result<Option<Arc<Challenge>>, ContentError> {
        let step =
            self.record.draft().and_then(|draft| draft.challenge()).and_then(|step| step.as_ref().ok());
        match step.map(|head| head.challenge) {
            None => Ok(None),
            Some(held) => self.read_content(ledger, held).await.map(Some),
        }
    }

    /// Reads the output of the tool, or the result of a person in its place, after review.
    pub(crate) async fn output(&mut self, ledger: &dyn Ledger) -> Result<Arc<Output>, ContentError> {
        let mut held = match self.record.attempt() {
            Some(Attempt::Ended(end)) => end.output,
            _ => self.record.person_result().ok_or(ContentError::Missing)?,
        };
        if let Some(Ok(review)) = self.record.output_review() {
            held = review.replacement.unwrap_or(held);
        }
        self.read_content(ledger, held).await
    }

    /// Adds an event to the record. It is durable only after [`WorkingRecord::flush`].
    pub(crate) fn append_event(&mut self, at: Millis, fact: RecordEvent) -> Result<(), TransitionError> {
        let line = self.record.push(Entry { at, event: fact })?;
        self.chained_entries.push(line);
        Ok(())
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.chained_entries.is_empty()
    }

    pub(crate) const fn durable_len(&self) -> u32 {
        self.durable.0
    }

    /// Checks whether the entries that are not durable yet are irrelevant to incoming calls.
    ///
    /// Such entries ask no question, so that they block no call. They neither give nor use a standing approval.
    pub(crate) fn affects_only_this_call(&self) -> bool {
        self.pending_entries().iter().all(|entry| match &entry.event {
            RecordEvent::Started(Ok(claim)) => !matches!(claim.granted_by, GrantedBy::StandingApproval(_)),
            RecordEvent::Asked(_) | RecordEvent::Answered(_) => false,
            _ => true,
        })
    }

    /// Checks whether an attempt has run, or may be running elsewhere.
    pub(crate) fn may_have_run(&self) -> bool {
        let durable = self.record.entries().iter().zip(0..self.durable.0);
        self.has_unrecorded_run
            || durable.into_iter().any(|(entry, _)| matches!(entry.event, RecordEvent::Started(Ok(_))))
    }

    /// Returns the entries that are not durable yet.
    fn pending_entries(&self) -> &[Entry] {
        let place = usize::try_from(self.durable.0).unwrap_or(usize::MAX);
        self.record.entries().get(place..).unwrap_or_default()
    }

    /// Rebuilds the lines of the entries that are not durable yet, because a failed append has consumed the original lines.
    fn pending_chained_entries(&self) -> Vec<ChainedEntry> {
        let (mut seq, mut before) = self.durable;
        let mut lines = Vec::new();
        for entry in self.pending_entries() {
            // The entry was serialized before, when it was put on the record.
            let body = serde_json::to_string(entry).unwrap_or_default();
            let line = ChainedEntry::new(self.call(), before, seq, body);
            (seq, before) = (seq.saturating_add(1), line.link());
            lines.push(line);
        }
        lines
    }

    /// Truncates the record to this many entries. The pipeline continues from there.
    fn rewind_to(&mut self, len: u32) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut record = Record::new(self.call());
        let mut lines = Vec::new();
        for entry in self.record.entries().iter().take(len) {
            // Each entry was accepted at this position before.
            lines.extend(record.push(entry.clone()));
        }
        lines.retain(|line| line.seq() >= self.durable.0);
        self.record = record;
        self.chained_entries = lines;
        self.claimed_attempt = None;
    }

    /// Drops everything that is not durable. The pipeline continues from the durable part.
    pub(crate) fn rewind(&mut self) {
        self.rewind_to(self.durable.0);
        self.new_contents.clear();
    }

    /// Keeps only the receipt, so that it can be made durable before the call steps back.
    pub(crate) fn rewind_to_received(&mut self) {
        if self.durable.0 > 0 {
            return self.rewind();
        }
        self.rewind_to(1);
        let received = self.record.header().map(|heading| (heading.arguments, heading.reason));
        self.new_contents.retain(|content| {
            received.is_some_and(|(arguments, reason)| {
                content.content_ref == arguments || Some(content.content_ref) == reason
            })
        });
    }

    /// Removes a claim that the ledger did not accept, and keeps everything before it.
    pub(crate) fn withdraw_claim(&mut self) {
        if let Some(RecordEvent::Started(Ok(_))) = self.pending_entries().last().map(|entry| &entry.event) {
            self.rewind_to(self.record.len().saturating_sub(1));
        }
    }

    /// Returns the end of an attempt that ran here, if it is not durable yet.
    pub(crate) fn pending_end(&self) -> Option<Entry> {
        let ends =
            |entry: &&Entry| matches!(entry.event, RecordEvent::Ended { .. } | RecordEvent::Observed { .. });
        self.pending_entries().iter().find(ends).cloned()
    }

    /// Checks whether a record that another writer opened belongs to the same call.
    pub(crate) fn is_same_record(&self, loaded: &LoadedRecord) -> bool {
        let Some(mine) = self.record.header() else { return false };
        if self.durable.0 > 0 {
            return loaded.record.header() == Some(mine);
        }
        let theirs = |held: ContentRef| {
            let content = self.cached_content(held)?.downcast_ref::<Value>()?;
            Some(loaded.key.as_ref()?.content_ref(canonical_json(content).as_bytes()))
        };
        let Some(arguments) = theirs(mine.arguments) else { return false };
        let reason = mine.reason.and_then(theirs);
        let Some(found) = loaded.record.header() else { return false };
        let lineage = found.lineage.clone();
        *found == CallHeader { arguments, reason, lineage, ..mine.clone() }
    }

    /// Continues from a record that another writer has changed.
    ///
    /// The end of an attempt that ran here is kept, if the attempt is still open on that record.
    pub(crate) fn rebase_on(&mut self, LoadedRecord { record, key }: LoadedRecord) {
        let ended = self.pending_end();
        self.key = key;
        self.durable = (record.len(), record.head());
        self.record = record;
        self.chained_entries.clear();
        self.claimed_attempt = None;
        let contents = std::mem::take(&mut self.new_contents);
        let Some(Entry { at, event }) = ended else { return };
        let result = match &event {
            RecordEvent::Ended { end, .. } => end.output,
            RecordEvent::Observed { run, .. } => run.rehearsal,
            _ => return,
        };
        if self.append_event(at, event).is_ok() {
            self.new_contents =
                contents.into_iter().filter(|content| content.content_ref == result).collect();
        }
    }

    /// Appends everything that is not durable yet to the ledger.
    pub(crate) async fn flush(&mut self, ledger: &dyn Ledger) -> Result<(), AppendError> {
        if self.chained_entries.is_empty() {
            return Ok(());
        }
        let Some(mut batch) = self.build_batch(ledger).await else {
            return Err(LedgerError::new(
                "cannot append to the record",
                "the record does not begin with a call",
            )
            .into());
        };
        batch.chained_entries = std::mem::take(&mut self.chained_entries);
        if let Err(fault) = ledger.append(batch).await
            && !self.was_appended(ledger, &fault).await
        {
            self.chained_entries = self.pending_chained_entries();
            return Err(fault);
        }
        self.durable = (self.record.len(), self.record.head());
        self.chained_entries.clear();
        self.new_contents.clear();
        self.has_unrecorded_run = false;
        Ok(())
    }

    /// Checks whether the lines were appended although the ledger reported an error.
    async fn was_appended(&self, ledger: &dyn Ledger, fault: &AppendError) -> bool {
        let AppendError::Ledger(_) = fault else { return false };
        match ledger.load(self.call()).await {
            Ok(Some(loaded)) => {
                (loaded.record.len(), loaded.record.head()) == (self.record.len(), self.record.head())
            }
            Ok(None) | Err(_) => false,
        }
    }

    /// Builds the batch for the ledger, without the lines.
    async fn build_batch(&mut self, ledger: &dyn Ledger) -> Option<Batch> {
        let next = next_step(&self.record);
        let waits = match &next {
            NextStep::Wait(question) => {
                // A call with a result has no effects any more, so it blocks no other call.
                let has_result = question.kind == QuestionKind::Release;
                let effects = if has_result { Vec::new() } else { self.plan_effects(ledger).await };
                Some(PendingQuestion { question: question.clone(), effects })
            }
            NextStep::Do(_) | NextStep::Settle(_) => None,
        };
        // A reopened record still has its plan, and lists must continue to show its summary.
        if self.summary.is_empty()
            && let Ok(plan) = self.plan(ledger).await
        {
            self.summary = summarize_plan(&plan);
        }
        Some(Batch {
            call: self.call(),
            expected_len: self.durable.0,
            prev_link: self.durable.1,
            chained_entries: Vec::new(),
            entries: self.pending_entries().to_vec(),
            contents: self.new_contents.clone(),
            key: if self.durable.0 == 0 { self.key.clone() } else { None },
            call_summary: self.call_summary()?,
            pending_question: waits,
            attempt_start: self.attempt_start(),
            is_final: self.record.outcome().is_some(),
        })
    }

    async fn plan_effects(&mut self, ledger: &dyn Ledger) -> Vec<Effect> {
        match self.plan(ledger).await {
            Ok(plan) => plan.effects.clone(),
            Err(_) => vec![Effect::Unknown { reason: "the plan cannot be read".into() }],
        }
    }

    fn attempt_start(&self) -> Option<AttemptStart> {
        let attempt = match self.record.attempt() {
            Some(Attempt::Open(claim)) if Some(claim.attempt) == self.claimed_attempt => claim,
            _ => return None,
        };
        // The maximum number of uses is recorded with the standing approval. The ledger looks it up there.
        let leave = match attempt.granted_by {
            GrantedBy::StandingApproval(leave) => Some((leave, None)),
            GrantedBy::Rule | GrantedBy::Answer(_) | GrantedBy::Rehearsal => None,
        };
        let exclusive = !self.resolved_tool().is_some_and(|terms| terms.concurrency_safe);
        Some(AttemptStart { attempt: attempt.attempt, exclusive, standing_approval: leave })
    }

    fn call_summary(&self) -> Option<CallSummary> {
        let heading = self.record.header()?;
        let terms = self.resolved_tool();
        Some(CallSummary {
            tenant: heading.tenant.clone(),
            session: heading.session.clone(),
            agent: heading.caller(),
            tool: terms.map_or_else(|| redact(&heading.tool), |terms| terms.tool.clone()),
            operation: terms.map_or_else(|| "invoke".into(), |terms| terms.operation.clone()),
            summary: self.summary.clone(),
        })
    }
}

/// Describes the effects of a plan in one line, with secrets removed.
fn summarize_plan(plan: &Plan) -> String {
    let effects: Vec<String> = plan.effects.iter().map(ToString::to_string).collect();
    redact(&effects.join(", ")).chars().take(SUMMARY_CHARS_MAX).collect()
}

fn new_header(call: &Call, arguments: ContentRef, reason: Option<ContentRef>) -> CallHeader {
    CallHeader {
        record_version: RECORD_VERSION,
        tenant: call.tenant.clone(),
        session: call.session.clone(),
        agent: call.agent.clone(),
        lineage: Vec::new(),
        tool: call.tool.clone(),
        arguments,
        reason,
        cwd: call.cwd.clone(),
        mode: call.mode,
        dry_run: call.dry_run,
    }
}

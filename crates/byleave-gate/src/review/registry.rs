//! The registry of all reviewers of a gate. It runs them in order, each on the result of those before.
//!
//! Running them has no effect except the returned value. A call must never pass a reviewer that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byleave_core::digest::Digest;
use byleave_core::outcome::Output;
use byleave_core::refusal::{Code, FailureCause, Refusal, StageResult};
use byleave_core::review::{ReviewNote, ReviewOutcome};
use serde_json::Value;

use super::cache::{OpinionCache, OpinionSubject};
use super::{InputReviewer, Opinion, OutputReviewer, OwnedInput, OwnedOutput, ReviewError, ReviewScope};
use crate::plugin_guard::{PluginFailure, guard};
use crate::redact::redact;

/// All reviewers, in the order in which they were added.
#[derive(Clone)]
pub struct Reviewers {
    inputs: Vec<RegisteredReviewer<dyn InputReviewer>>,
    outputs: Vec<RegisteredReviewer<dyn OutputReviewer>>,
    timeout: Duration,
    cache: Arc<OpinionCache>,
}

/// The combined result of the reviewers, if none of them refused.
#[derive(Clone, Debug, PartialEq)]
pub struct ReviewResult<T> {
    /// The note of each reviewer, in order. Reviewers without an objection are left out.
    pub notes: Vec<ReviewNote>,
    /// The value that replaces the reviewed one.
    pub replacement: Option<T>,
}

struct RegisteredReviewer<R: ?Sized> {
    scope: ReviewScope,
    reviewer: Arc<R>,
    /// Read once, when the reviewer is added, so that no plugin code runs outside the guard later.
    name: String,
    cacheable: bool,
    /// Its own time limit.
    timeout: Option<Duration>,
    /// Distinguishes two reviewers with the same name.
    registration: u64,
}

impl<R: ?Sized> RegisteredReviewer<R> {
    fn new(
        covers: ReviewScope,
        reviewer: Arc<R>,
        (name, cacheable, timeout): (String, bool, Option<Duration>),
    ) -> Self {
        static REGISTRATIONS: AtomicU64 = AtomicU64::new(0);
        let registration = REGISTRATIONS.fetch_add(1, Ordering::Relaxed);
        Self { scope: covers, reviewer, name, cacheable, timeout, registration }
    }
}

impl<R: ?Sized> Clone for RegisteredReviewer<R> {
    fn clone(&self) -> Self {
        let Self { scope: covers, reviewer, name, cacheable, timeout, registration } = self;
        Self {
            scope: covers.clone(),
            reviewer: Arc::clone(reviewer),
            name: name.clone(),
            cacheable: *cacheable,
            timeout: *timeout,
            registration: *registration,
        }
    }
}

impl Default for Reviewers {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            outputs: Vec::new(),
            timeout: Self::DEFAULT_TIMEOUT,
            cache: Arc::new(OpinionCache::new(Self::CACHE_ENTRIES)),
        }
    }
}

impl Reviewers {
    /// How long a reviewer may take by default.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
    const CACHE_ENTRIES: usize = 4_096;

    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long each reviewer without a limit of its own may take before it is treated as an objection.
    pub fn set_timeout(&mut self, limit: Duration) {
        self.timeout = limit;
    }

    /// Sets how many opinions of cacheable reviewers are kept. 0 disables the cache.
    pub fn set_cache_entries(&mut self, entries: usize) {
        self.cache = Arc::new(OpinionCache::new(entries));
    }

    /// Checks whether there are no reviewers of arguments.
    pub fn has_no_input_reviewers(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Checks whether there are no reviewers of results.
    pub fn has_no_output_reviewers(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Adds a reviewer of arguments after the existing ones.
    pub fn add_input(&mut self, covers: impl Into<ReviewScope>, reviewer: impl InputReviewer) {
        let about = (reviewer.name().to_owned(), reviewer.is_cacheable(), reviewer.timeout());
        self.inputs.push(RegisteredReviewer::new(covers.into(), Arc::new(reviewer), about));
    }

    /// Adds a reviewer of results after the existing ones.
    pub fn add_output(&mut self, covers: impl Into<ReviewScope>, reviewer: impl OutputReviewer) {
        let about = (reviewer.name().to_owned(), false, reviewer.timeout());
        self.outputs.push(RegisteredReviewer::new(covers.into(), Arc::new(reviewer), about));
    }

    /// Reviews a draft. `manifest` is the digest of the tool's manifest.
    pub async fn review_input(
        &self,
        mut input: OwnedInput,
        manifest: Digest,
    ) -> StageResult<ReviewResult<Value>> {
        let mut notes = Vec::new();
        let first = Arc::clone(&input.arguments);
        let tool = Arc::clone(&input.tool);
        for post in self.inputs.iter().filter(|post| post.scope.matches(&tool)) {
            let note = ReviewNoteWriter { reviewer: &post.name, codes: &INPUT_CODES };
            let (opinion, cached) = self
                .input_opinion(post, &input, manifest)
                .await
                .map_err(|broken| note.failure_refusal(broken))?;
            let Some(change) = note.apply(opinion, cached, &input.arguments, &mut notes)? else { continue };
            if !change.is_object() {
                return Err(note.invalid_response("changed the arguments to something that is not an object"));
            }
            input.arguments = Arc::new(change);
        }
        let change = (input.arguments != first).then(|| Arc::unwrap_or_clone(input.arguments));
        Ok(ReviewResult { notes, replacement: change })
    }

    /// Reviews a result.
    pub async fn review_output(&self, mut output: OwnedOutput) -> StageResult<ReviewResult<Output>> {
        let mut notes = Vec::new();
        let first = Arc::clone(&output.output);
        let tool = Arc::clone(&output.tool);
        for post in self.outputs.iter().filter(|post| post.scope.matches(&tool)) {
            let note = ReviewNoteWriter { reviewer: &post.name, codes: &OUTPUT_CODES };
            let (reviewer, subject) = (Arc::clone(&post.reviewer), output.clone());
            let limit = post.timeout.unwrap_or(self.timeout);
            let opinion = guard(limit, || async move { reviewer.review(subject.as_subject()).await })
                .await
                .map_err(|broken| note.failure_refusal(broken))?;
            let opinion = keep_run_facts(&output.output, opinion);
            let Some(change) = note.apply(opinion, false, &output.output, &mut notes)? else { continue };
            output.output = Arc::new(change);
        }
        let change = (output.output != first).then(|| Arc::unwrap_or_clone(output.output));
        Ok(ReviewResult { notes, replacement: change })
    }

    async fn input_opinion(
        &self,
        post: &RegisteredReviewer<dyn InputReviewer>,
        input: &OwnedInput,
        manifest: Digest,
    ) -> Result<(Opinion<Value>, bool), PluginFailure<ReviewError>> {
        let subject = if post.cacheable { OpinionSubject::new(input, manifest) } else { None };
        let key = subject.map(|subject| subject.key(post.registration, &post.name));
        if let Some(opinion) = key.as_ref().and_then(|key| self.cache.get(key)) {
            return Ok((opinion, true));
        }
        let (reviewer, subject) = (Arc::clone(&post.reviewer), input.clone());
        let limit = post.timeout.unwrap_or(self.timeout);
        let opinion = guard(limit, || async move { reviewer.review(subject.as_subject()).await }).await?;
        if let Some(key) = key {
            self.cache.put(key, opinion.clone());
        }
        Ok((opinion, false))
    }
}

/// Restores the facts of a result. A reviewer may change its contents, but not its failure, its duration or how to undo it.
fn keep_run_facts(output: &Output, opinion: Opinion<Output>) -> Opinion<Output> {
    match opinion {
        Opinion::Change { value, reason: why } => {
            let value = Output {
                is_error: output.is_error,
                truncated: output.truncated || value.truncated,
                execution_time_ms: output.execution_time_ms,
                undo: output.undo.clone(),
                ..value
            };
            Opinion::Change { value, reason: why }
        }
        Opinion::Pass | Opinion::Hold { .. } | Opinion::Deny { .. } => opinion,
    }
}

struct ReviewCodes {
    subject: &'static str,
    denied: Code,
    failed: Code,
}

const INPUT_CODES: ReviewCodes =
    ReviewCodes { subject: "arguments", denied: Code::ReviewDenied, failed: Code::ReviewFailed };

const OUTPUT_CODES: ReviewCodes =
    ReviewCodes { subject: "result", denied: Code::OutputDenied, failed: Code::OutputReviewFailed };

/// The writer of one reviewer's note, or of a refusal in its name.
struct ReviewNoteWriter<'a> {
    reviewer: &'a str,
    codes: &'static ReviewCodes,
}

impl ReviewNoteWriter<'_> {
    /// Returns the changed value, if it differs.
    fn apply<T: PartialEq>(
        &self,
        opinion: Opinion<T>,
        cached: bool,
        current: &T,
        notes: &mut Vec<ReviewNote>,
    ) -> StageResult<Option<T>> {
        let (said, why, change) = match opinion {
            Opinion::Pass => return Ok(None),
            Opinion::Change { value, .. } if value == *current => return Ok(None),
            Opinion::Change { value, reason: why } => (ReviewOutcome::Changed, why, Some(value)),
            Opinion::Hold { reason: why } => (ReviewOutcome::Held, why, None),
            Opinion::Deny { reason: why } => {
                let what = self.codes.subject;
                let why = why.map_or_else(
                    || format!("refused the {what}"),
                    |why| format!("refused the {what}: {why}"),
                );
                return Err(self.refusal(self.codes.denied, &why));
            }
        };
        let why = why.map(|why| redact(&why));
        notes.push(ReviewNote { reviewer: self.reviewer.to_owned(), outcome: said, reason: why, cached });
        Ok(change)
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads best as the last step of a chain")]
    fn failure_refusal(&self, broken: PluginFailure<ReviewError>) -> Refusal {
        if let PluginFailure::Failed(ReviewError::InvalidResponse(why)) = &broken {
            return self.invalid_response(&format!("gave an invalid answer: {why}"));
        }
        self.refusal(self.codes.failed, &broken.to_string()).with_cause(broken.cause())
    }

    fn invalid_response(&self, why: &str) -> Refusal {
        self.refusal(self.codes.failed, why).with_cause(FailureCause::InvalidResponse)
    }

    /// Builds a refusal. The text is redacted first, because a plugin may quote the content it reviewed.
    fn refusal(&self, code: Code, why: &str) -> Refusal {
        Refusal::new(code, format!("reviewer `{}` {}", self.reviewer, redact(why)))
    }
}

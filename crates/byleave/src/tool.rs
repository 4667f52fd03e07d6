//! Tools: what agents can use. A tool knows nothing of screens, permissions or the book (T1).

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use byleave_core::call::Mode;
use byleave_core::effect::Plan;
use byleave_core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_core::manifest::Manifest;
use byleave_core::outcome::Output;
use byleave_core::policy::Policy;
use byleave_core::rehearsal::Rehearsal;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::boxed::BoxFuture;

/// What an agent can use.
pub trait Tool: Send + Sync + 'static {
    /// What the tool says of itself. Must always be the same: an approval binds its digest.
    fn manifest(&self) -> &Manifest;

    /// The description for the model, which may depend on who asks and where.
    fn describe(&self, _site: &ToolContext) -> Cow<'_, str> {
        Cow::Borrowed(&self.manifest().description)
    }

    /// Works out the effects of a draft by itself. `None`: by the tool's permission class, as for most tools.
    ///
    /// Must not change anything. What it says is judged; what it leaves out is not permitted.
    fn plan<'a>(
        &'a self,
        _arguments: &'a Value,
        _site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        None
    }

    /// Says whether this call needs an approval; asked only where the manifest says that it depends (T8).
    fn needs_approval<'a>(&'a self, _arguments: &'a Value) -> BoxFuture<'a, Result<bool, ToolError>> {
        Box::pin(async { Ok(true) })
    }

    /// Says why this call cannot run here, whatever a person answers. Called before a person is asked.
    fn can_run(&self, _run: RunContext) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    /// Says that the first poll of [`Tool::execute`] comes back at once, whatever it then waits for.
    ///
    /// Such a tool is begun in place, which saves a change of threads. Must be false for one that blocks its thread:
    /// begun in place it could be neither cancelled nor timed out.
    fn is_prompt(&self) -> bool {
        false
    }

    /// How the tool runs on a copy first, where a person would be asked. `None`: it cannot.
    fn rehearser(&self) -> Option<&dyn Rehearsable> {
        None
    }

    /// Does it. Never fails outward: a failure is an output that the model can read (T3).
    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output>;
}

/// A tool's way to run on a copy first, and to make that very run final afterwards.
///
/// Where the copy is and how it is made is the tool's business; a copy is known by its call, and a call has at most one.
pub trait Rehearsable: Send + Sync {
    /// Runs a draft on a copy and on nothing else. A copy that an earlier draft of the call left is dropped.
    ///
    /// Nothing may come of it but the copy: no change elsewhere, no word to anyone.
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>>;

    /// Whether the copy is still there, just as it was seen.
    fn is_kept<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool>;

    /// Makes what was seen final, or the part of it beneath these paths.
    ///
    /// All or nothing, also when the process ends in the middle: called again, it finishes what it began, and what is finished it
    /// only reports.
    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output>;

    /// Drops the copy. Best effort: one that cannot be dropped now is dropped when its time is over.
    fn discard(&self, call: CallId) -> BoxFuture<'_, ()>;
}

/// Why there was no rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RehearseError {
    /// It cannot be had here, or not for this call. For people, and for the record: without contents of the call.
    #[error("{0}")]
    Not(String),
    /// Another process is at it.
    #[error("another process rehearses it")]
    Elsewhere,
}

/// Something a tool could not work out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// Who asks, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolContext {
    /// Whose session: the name of one says nothing alone.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The directory the call works in, absolute.
    pub cwd: PathBuf,
}

/// What a tool is given to run with.
#[derive(Clone)]
pub struct RunContext {
    /// The call.
    pub call: CallId,
    /// Who asks, and where.
    pub site: ToolContext,
    /// The effects that were permitted. Anything else is not.
    pub plan: Arc<Plan>,
    /// Told when the work must stop.
    pub cancel: CancellationToken,
    /// The rules in force, for a tool that makes what they deny impossible. Where nobody said, such a tool does nothing.
    pub rules: Option<Arc<Policy>>,
    /// How much is asked in the session.
    pub mode: Mode,
    /// What the rule that allows the call requires of the sandbox, by name. A waiver does not count against it.
    pub guarantees: Vec<String>,
    progress: Arc<dyn Fn(Progress) + Send + Sync>,
    printed: Option<Arc<dyn Fn(OutputChunk) + Send + Sync>>,
}

/// How far a call has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// From 0 to 1, where that can be said.
    pub fraction: Option<f64>,
    /// In words.
    pub detail: String,
}

/// Something that a call has printed while it runs.
///
/// For people at a screen, as it comes: no reviewer has seen it, nothing in it is masked, and it is not what the model gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// What was printed. Whole characters, however the bytes of them came.
    pub text: Arc<str>,
    /// How many bytes just before it were printed too fast to be passed on. The result of the call has them, as far as it goes.
    pub left_out: u64,
}

impl RunContext {
    /// What a tool is given to run with; `progress` is called with each report.
    pub fn new(
        call: CallId,
        site: ToolContext,
        plan: Arc<Plan>,
        cancel: CancellationToken,
        progress: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Self {
        Self {
            call,
            site,
            plan,
            cancel,
            rules: None,
            mode: Mode::default(),
            guarantees: Vec::new(),
            progress,
            printed: None,
        }
    }

    /// The same under these rules, in this mode.
    #[must_use]
    pub fn under(self, rules: Arc<Policy>, mode: Mode) -> Self {
        Self { rules: Some(rules), mode, ..self }
    }

    /// The same, where the sandbox must guarantee this.
    #[must_use]
    pub fn requiring(self, guarantees: Vec<String>) -> Self {
        Self { guarantees, ..self }
    }

    /// The same with somebody who sees what is printed while it runs; `printed` must not block.
    #[must_use]
    pub fn with_printed(self, printed: Arc<dyn Fn(OutputChunk) + Send + Sync>) -> Self {
        Self { printed: Some(printed), ..self }
    }

    /// Passes on what was printed, to whoever watches. In a rehearsal nobody does.
    ///
    /// What is passed on waits in a queue of so many events, not bytes, for who is slow: put together what comes within a moment.
    pub fn printed(&self, printed: OutputChunk) {
        if let Some(pass_on) = &self.printed {
            pass_on(printed);
        }
    }

    /// Says how far the work has come.
    pub fn progress(&self, fraction: impl Into<Option<f64>>, detail: impl Into<String>) {
        let fraction = fraction.into().map(|fraction| fraction.clamp(0.0, 1.0));
        (self.progress)(Progress { fraction, detail: detail.into() });
    }
}

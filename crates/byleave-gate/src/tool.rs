//! Tools that agents can use. A tool must not depend on screens, permissions or the audit log (T1).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use byleave_core::call::Mode;
use byleave_core::effect::Plan;
use byleave_core::entry::Limits;
use byleave_core::git_transport::GitTransport;
use byleave_core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_core::manifest::Manifest;
use byleave_core::outcome::Output;
use byleave_core::policy::Policy;
use byleave_core::rehearsal::Rehearsal;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::boxed::BoxFuture;

/// A tool that an agent can use.
pub trait Tool: Send + Sync + 'static {
    /// Returns the tool's description of itself. It must always be the same, because an approval binds its digest.
    fn manifest(&self) -> &Manifest;

    /// Returns the description for the model, which may depend on the agent and the directory.
    fn describe(&self, _site: &ToolContext) -> Cow<'_, str> {
        Cow::Borrowed(&self.manifest().description)
    }

    /// Computes the effects of a draft. `None` means that they follow from the tool's permission class, as for most tools.
    ///
    /// It must not change anything. The policy evaluates the returned effects; an effect that is missing is not permitted.
    fn plan<'a>(
        &'a self,
        _arguments: &'a Value,
        _site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        None
    }

    /// Returns whether this call needs an approval. It is called only if the manifest says that it depends on the call (T8).
    fn needs_approval<'a>(&'a self, _arguments: &'a Value) -> BoxFuture<'a, Result<bool, ToolError>> {
        Box::pin(async { Ok(true) })
    }

    /// Returns an error if this call cannot run here, regardless of any answer. It is called before a person is asked.
    fn can_run(&self, _run: RunContext) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    /// Returns whether the first poll of [`Tool::execute`] returns at once, even if the call then waits.
    ///
    /// Such a tool is started in place, which saves a thread switch. It must be `false` for a tool that blocks its thread.
    /// Started in place, that tool could be neither cancelled nor timed out.
    fn is_nonblocking(&self) -> bool {
        false
    }

    /// Returns how long a call with these arguments may last at most, if it is a job: a server or a watcher, which stays until it is
    /// stopped. Other calls of its session run meanwhile.
    fn job_duration(&self, _arguments: &Value) -> Option<Duration> {
        None
    }

    /// Returns whether the output may hold text of strangers, beyond what the plan and the manifest show: hosts that a command or a fetch
    /// reaches, and tools of MCP servers.
    fn returns_foreign_text(&self) -> bool {
        false
    }

    /// Returns the tool's support for rehearsals, used before a person would be asked. `None` means that it has none.
    fn as_rehearsable(&self) -> Option<&dyn Rehearsable> {
        None
    }

    /// Executes the call. It never returns an error: a failure is an output that the model can read (T3).
    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output>;
}

/// A tool's support for running on a copy first, and for committing that exact run afterwards.
///
/// The tool decides where and how the copy is made. A copy is identified by its call, and a call has at most one.
pub trait Rehearsable: Send + Sync {
    /// Runs a draft on a copy only. Drops a copy from an earlier draft of the call.
    ///
    /// It must have no effect except the copy: no other change and no communication.
    fn rehearse(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Result<Rehearsal, RehearseError>>;

    /// Returns whether a call with these arguments can run on a copy.
    fn runs_on_copy(&self, _arguments: &Value) -> bool {
        true
    }

    /// Runs a granted call on a copy, with the access that its plan permits. The gate judges what it changed, and then commits or discards
    /// it.
    fn run_on_copy(
        &self,
        arguments: Value,
        run: RunContext,
    ) -> BoxFuture<'_, Result<Rehearsal, RehearseError>> {
        self.rehearse(arguments, run)
    }

    /// Checks whether the copy still exists, exactly as it was seen.
    fn has_copy<'a>(&'a self, call: CallId, seen: &'a Rehearsal) -> BoxFuture<'a, bool>;

    /// Commits the changes that were seen, or the part of them beneath these paths.
    ///
    /// It is atomic, even if the process ends in the middle. A second call finishes an unfinished commit, and only reports a
    /// finished one.
    fn commit(&self, seen: Rehearsal, only: Option<Vec<String>>, run: RunContext) -> BoxFuture<'_, Output>;

    /// Drops the copy. Best effort: a copy that cannot be dropped now is dropped when it expires.
    fn discard(&self, call: CallId) -> BoxFuture<'_, ()>;
}

/// The reason why there was no rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RehearseError {
    /// It is not possible here, or not for this call. The text is for people and for the record, without contents of the call.
    #[error("{0}")]
    Unavailable(String),
    /// Another process is rehearsing it.
    #[error("another process rehearses the call")]
    RunningElsewhere,
}

/// The error of a tool that could not compute something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolError(pub String);

/// The agent that calls, with its session and directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolContext {
    /// The tenant of the session. A session name is unique only within its tenant.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The absolute path of the directory that the call works in.
    pub cwd: PathBuf,
}

/// The context that a tool runs with.
#[derive(Clone)]
pub struct RunContext {
    /// The call.
    pub call: CallId,
    /// The agent that calls, with its session and directory.
    pub context: ToolContext,
    /// The permitted effects. Anything else is not permitted.
    pub plan: Arc<Plan>,
    /// Signals when the work must stop.
    pub cancel: CancellationToken,
    /// The rules in force, for a tool that makes denied effects impossible. Without them, such a tool does nothing.
    pub policy: Option<Arc<Policy>>,
    /// How much the session asks.
    pub mode: Mode,
    /// Whether the session has read text of strangers, for a tool that evaluates rules itself.
    pub read_foreign: bool,
    /// How long the work may take if the call does not say, for a tool whose calls can ask for more.
    pub default_timeout: Duration,
    /// The guarantees of the sandbox that the allowing rule requires, by name. A waiver does not override them.
    pub guarantees: Vec<String>,
    /// The data of earlier calls that the manifest asks for with `wants_data`, by the name of the tool that returned it.
    pub data: Arc<BTreeMap<String, EarlierData>>,
    /// The Git transports that a person approved when they saw the rehearsal, for a tool that lends them.
    pub approved_git: Vec<GitTransport>,
    /// Whether neither a rule nor a person allowed the call: its rehearsal did nothing, so nobody was asked.
    pub spared_by_rehearsal: bool,
    progress_listener: Arc<dyn Fn(Progress) + Send + Sync>,
    output_listener: Option<Arc<dyn Fn(OutputChunk) + Send + Sync>>,
}

/// The data of an earlier call of the session, as it was released.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierData {
    /// The call that returned it.
    pub call: CallId,
    /// The structured data of its result.
    pub data: Value,
}

/// The progress of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// From 0 to 1, if known.
    pub fraction: Option<f64>,
    /// A description in words.
    pub detail: String,
}

/// Output that a call has printed while it runs.
///
/// It is live output for people at a screen. No reviewer has seen it, nothing in it is masked, and the model does not get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The printed text. It has only whole characters, however the bytes arrived.
    pub text: Arc<str>,
    /// How many bytes directly before it were dropped because they came too fast. The result of the call has them, as far as it goes.
    pub skipped_bytes: u64,
}

impl RunContext {
    /// Creates the context of a run. `progress` is called with each report.
    pub fn new(
        call: CallId,
        site: ToolContext,
        plan: Arc<Plan>,
        cancel: CancellationToken,
        progress: Arc<dyn Fn(Progress) + Send + Sync>,
    ) -> Self {
        Self {
            call,
            context: site,
            plan,
            cancel,
            policy: None,
            mode: Mode::default(),
            read_foreign: false,
            default_timeout: Duration::from_millis(Limits::default().timeout_ms),
            guarantees: Vec::new(),
            data: Arc::default(),
            approved_git: Vec::new(),
            spared_by_rehearsal: false,
            progress_listener: progress,
            output_listener: None,
        }
    }

    /// Returns a path argument as an absolute path: relative paths are in the directory of the call.
    pub fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.context.cwd.join(path)
    }

    /// Sets the rules and the mode.
    #[must_use]
    pub fn with_policy(self, rules: Arc<Policy>, mode: Mode) -> Self {
        Self { policy: Some(rules), mode, ..self }
    }

    /// Sets whether the session has read text of strangers.
    #[must_use]
    pub fn with_read_foreign(self, read_foreign: bool) -> Self {
        Self { read_foreign, ..self }
    }

    /// Sets how long the work may take if the call does not say.
    #[must_use]
    pub fn with_default_timeout(self, default_timeout: Duration) -> Self {
        Self { default_timeout, ..self }
    }

    /// Sets whether neither a rule nor a person allowed the call.
    #[must_use]
    pub fn with_spared_by_rehearsal(self, spared_by_rehearsal: bool) -> Self {
        Self { spared_by_rehearsal, ..self }
    }

    /// Sets the guarantees that the sandbox must give.
    #[must_use]
    pub fn with_guarantees(self, guarantees: Vec<String>) -> Self {
        Self { guarantees, ..self }
    }

    /// Sets the data of earlier calls.
    #[must_use]
    pub fn with_data(self, data: Arc<BTreeMap<String, EarlierData>>) -> Self {
        Self { data, ..self }
    }

    /// Sets the Git transports that were approved.
    #[must_use]
    pub fn with_approved_git(self, approved_git: Vec<GitTransport>) -> Self {
        Self { approved_git, ..self }
    }

    /// Sets a listener for output printed during the run. `printed` must not block.
    #[must_use]
    pub fn with_output_listener(self, printed: Arc<dyn Fn(OutputChunk) + Send + Sync>) -> Self {
        Self { output_listener: Some(printed), ..self }
    }

    /// Sends printed output to the listener. A rehearsal has no listener.
    ///
    /// For a slow listener it waits in a queue limited by events, not bytes. Combine output that arrives within a short time.
    pub fn emit_output(&self, printed: OutputChunk) {
        if let Some(pass_on) = &self.output_listener {
            pass_on(printed);
        }
    }

    /// Reports the progress of the work.
    pub fn report_progress(&self, fraction: impl Into<Option<f64>>, detail: impl Into<String>) {
        let fraction = fraction.into().map(|fraction| fraction.clamp(0.0, 1.0));
        (self.progress_listener)(Progress { fraction, detail: detail.into() });
    }
}

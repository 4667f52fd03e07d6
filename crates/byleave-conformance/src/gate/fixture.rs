//! The fixture of scenarios: a directory, a clock, a few tools, and checks of results.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use byleave_core::call::{Call, Millis, Mode};
use byleave_core::decision::Verdict;
use byleave_core::effect::Plan;
use byleave_core::entry::RecordEvent;
use byleave_core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
use byleave_core::outcome::Output;
use byleave_core::pattern::Pattern;
use byleave_core::policy::{Layer, PathVariables, Policy, Rule, builtin_rules};
use byleave_core::question::{ApproverIdentity as By, Assurance, Question};
use byleave_core::record::Record;
use byleave_core::refusal::Code;
use byleave_gate::approver::Reply;
use byleave_gate::boxed::BoxFuture;
use byleave_gate::clock::{ManualClock, fresh_id};
use byleave_gate::event::GateEvent;
use byleave_gate::gate::{AnswerError, Gate, GateBuilder, SubmittedAnswer};
use byleave_gate::ledger::Ledger;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::fake_copies::TestCopies;
use crate::ledger::record_script::loaded;
use crate::ledger::{ConformanceError, LedgerHarness, ensure};

/// The time at which scenarios begin.
pub(super) const NOW: Millis = 1_700_000_000_000;

/// The fixture of one scenario.
pub(super) struct ScenarioContext<'a> {
    pub(super) bench: &'a dyn LedgerHarness,
    pub(super) temp_dir: TestDir,
    pub(super) clock: ManualClock,
    pub(super) run_log: RunLog,
    pub(super) copies: TestCopies,
}

impl<'a> ScenarioContext<'a> {
    pub(super) fn new(bench: &'a dyn LedgerHarness) -> Result<Self, ConformanceError> {
        let folder = TestDir::new()?;
        fs::create_dir(folder.path("open"))?;
        fs::create_dir(folder.path("closed"))?;
        fs::write(folder.path("f"), "old f")?;
        fs::write(folder.path("g"), "old g")?;
        Ok(Self {
            bench,
            temp_dir: folder,
            clock: ManualClock::new(NOW),
            run_log: RunLog::default(),
            copies: TestCopies::default(),
        })
    }

    /// Opens another owner on the store.
    pub(super) async fn ledger(&self) -> Result<Arc<dyn Ledger>, ConformanceError> {
        Ok(self.bench.open().await?)
    }

    /// Returns a builder for a gate on its own ledger.
    pub(super) async fn gate(&self) -> Result<GateBuilder, ConformanceError> {
        self.gate_on(self.ledger().await?)
    }

    /// Returns a builder for a gate on this ledger, with the tools and the policy of the fixture.
    pub(super) fn gate_on(&self, ledger: Arc<dyn Ledger>) -> Result<GateBuilder, ConformanceError> {
        let builder = Gate::builder()
            .ledger(ledger)
            .clock(self.clock.clone())
            .settings(quick())
            .policy(self.policy([])?)
            .tool(self.probe("free", |arguments, _| async move { Output::text(format!("did {arguments}")) }))
            .tool(self.probe("ask", |arguments, _| async move { Output::text(format!("did {arguments}")) }))
            .tool(self.file("read", PermissionClass::Readonly, ArgumentRole::ReadPath).with(|manifest| {
                manifest.concurrency_safe = true;
                manifest.idempotent = true;
            }))
            .tool(self.file("write", PermissionClass::File, ArgumentRole::WritePath))
            .tool(self.file("edit", PermissionClass::File, ArgumentRole::EditPath));
        Ok(builder)
    }

    /// Returns the policy of the fixture with additional rules.
    ///
    /// The directory may be read, `open` may be written, and `free` tools may be used. `closed` is denied. Everything else asks.
    pub(super) fn policy(&self, more: impl IntoIterator<Item = Rule>) -> Result<Policy, ConformanceError> {
        let root = self.temp_dir.text("")?;
        let mut rules = builtin_rules(&PathVariables { workspace: Some(&root), ..PathVariables::default() })?;
        let (open, closed) = (format!("{root}/open/**"), format!("{root}/closed/**"));
        rules.push(rule("open", Verdict::Allow, vec![Pattern::Write(open)]));
        rules.push(rule("free", Verdict::Allow, vec![Pattern::Invoke("free*".into())]));
        let closed = vec![Pattern::Read(closed.clone()), Pattern::Write(closed)];
        rules.push(rule("closed", Verdict::Deny, closed));
        rules.extend(more);
        Ok(Policy::new(rules)?.with_workspace(Some(&root)))
    }

    /// Creates a call of the default agent in the default session.
    pub(super) fn call(&self, tool: &str, arguments: Value) -> Result<Call, ConformanceError> {
        Ok(Call {
            id: CallId::new(fresh_id()),
            tenant: tenant()?,
            session: SessionId::new("s")?,
            agent: AgentId::new("agent")?,
            tool: tool.into(),
            arguments,
            reason: Some("because the task says so".into()),
            cwd: self.temp_dir.text("")?,
            mode: Mode::ConfirmSensitive,
            dry_run: false,
        })
    }

    /// Creates a call that writes to a file of the directory.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<Call, ConformanceError> {
        self.call("write", json!({"path": path, "text": text}))
    }

    /// Creates a call that reads a file of the directory.
    pub(super) fn read(&self, path: &str) -> Result<Call, ConformanceError> {
        self.call("read", json!({ "path": path }))
    }

    /// Creates a tool of the generic class that runs this function and logs its runs.
    pub(super) fn probe<F, Fut>(&self, name: &str, body: F) -> ProbeTool
    where
        F: Fn(Value, RunContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Output> + Send + 'static,
    {
        let mut manifest = Manifest::new(name, format!("does {name}"), json!({"type": "object"}));
        manifest.permission_class = PermissionClass::Generic;
        manifest.sensitive = Some(false);
        let (runs, noted) = (self.run_log.clone(), name.to_owned());
        let body = move |arguments: Value, run: RunContext| -> BoxFuture<'static, Output> {
            runs.note(&noted, &arguments);
            Box::pin(body(arguments, run))
        };
        ProbeTool { manifest, body: Box::new(body), planner: None, predicate: None, prompt: false }
    }

    /// Creates a tool that reads a file or appends a line to it, according to its role.
    fn file(&self, name: &str, class: PermissionClass, role: ArgumentRole) -> ProbeTool {
        let reads = role == ArgumentRole::ReadPath;
        let probe = self.probe(name, move |arguments, run| async move {
            let text =
                |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let path = run.context.cwd.join(text("path"));
            let done = if reads {
                fs::read_to_string(&path)
            } else {
                let before = fs::read_to_string(&path).unwrap_or_default();
                fs::write(&path, format!("{before}+{}", text("text"))).map(|()| "written".into())
            };
            done.map_or_else(|error| Output::failure(error.to_string()), Output::text)
        });
        probe.with(|manifest| {
            manifest.permission_class = class;
            manifest.roles.insert("/path".into(), role);
            manifest.input_schema = json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
                "required": ["path"],
                "additionalProperties": false
            });
        })
    }
}

/// Returns the default settings with a short poll interval.
pub(super) fn quick() -> GateSettings {
    GateSettings {
        poll_interval: Duration::from_millis(5),
        stop_grace: Duration::from_millis(100),
        ..GateSettings::default()
    }
}

/// Returns the same settings with an inbox, so that questions stay open.
pub(super) fn inbox() -> GateSettings {
    GateSettings { inbox: true, ..quick() }
}

/// Creates a rule of the user layer.
pub(super) fn rule(id: &str, verdict: Verdict, patterns: Vec<Pattern>) -> Rule {
    Rule { reason: format!("so says `{id}`"), ..Rule::new(id, Layer::User, verdict, patterns) }
}

pub(super) fn tenant() -> Result<TenantId, ConformanceError> {
    Ok(TenantId::new("local")?)
}

/// A directory that is removed on drop.
pub(super) struct TestDir(PathBuf);

impl TestDir {
    fn new() -> Result<Self, ConformanceError> {
        let root = fs::canonicalize(std::env::temp_dir())?.join(format!("byleave-scenario-{}", fresh_id()));
        fs::create_dir(&root)?;
        Ok(Self(root))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.0.clone() } else { self.0.join(name) }
    }

    /// Returns a path as text.
    pub(super) fn text(&self, name: &str) -> Result<String, ConformanceError> {
        let path = self.path(name).into_os_string().into_string();
        path.map_err(|path| ConformanceError::new(format!("`{}` is not text", Path::new(&path).display())))
    }

    /// Reads a file.
    pub(super) fn read(&self, name: &str) -> Result<String, ConformanceError> {
        Ok(fs::read_to_string(self.path(name))?)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "cannot remove the folder of a scenario");
        }
    }
}

/// The runs of all tools, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLog(Arc<Mutex<Vec<(String, Value)>>>);

impl RunLog {
    pub(super) fn note(&self, tool: &str, arguments: &Value) {
        self.0.lock().push((tool.to_owned(), arguments.clone()));
    }

    pub(super) fn all(&self) -> Vec<(String, Value)> {
        self.0.lock().clone()
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    pub(super) fn count(&self) -> usize {
        self.all().len()
    }

    /// Returns the number of runs of one tool.
    pub(super) fn of(&self, tool: &str) -> usize {
        self.all().iter().filter(|(name, _)| name == tool).count()
    }

    pub(super) fn nothing(&self, when: impl fmt::Display) -> Result<(), ConformanceError> {
        ensure!(self.count() == 0, "{when}: something ran: {:?}", self.all());
        Ok(())
    }
}

type ProbeBody = Box<dyn Fn(Value, RunContext) -> BoxFuture<'static, Output> + Send + Sync>;
type ProbePlanner =
    Box<dyn Fn(&Value, &ToolContext) -> BoxFuture<'static, Result<Plan, ToolError>> + Send + Sync>;
type ProbePredicate = Box<dyn Fn(&Value) -> BoxFuture<'static, Result<bool, ToolError>> + Send + Sync>;

/// A tool that runs a given function.
pub(super) struct ProbeTool {
    manifest: Manifest,
    body: ProbeBody,
    planner: Option<ProbePlanner>,
    predicate: Option<ProbePredicate>,
    prompt: bool,
}

impl ProbeTool {
    /// Marks the tool as prompt, so that the gate begins it in place.
    pub(super) fn prompt(mut self) -> Self {
        self.prompt = true;
        self
    }

    /// Changes the manifest of the tool.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Manifest)) -> Self {
        change(&mut self.manifest);
        self
    }

    /// Gives the tool its own planner.
    pub(super) fn planning<Fut>(
        mut self,
        planner: impl Fn(&Value, &ToolContext) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Result<Plan, ToolError>> + Send + 'static,
    {
        self.planner = Some(Box::new(move |arguments, site| Box::pin(planner(arguments, site))));
        self
    }

    /// Gives the tool a predicate for approval.
    pub(super) fn asking<Fut>(mut self, predicate: impl Fn(&Value) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Result<bool, ToolError>> + Send + 'static,
    {
        self.manifest.needs_approval = ApprovalRequirement::Depends;
        self.predicate = Some(Box::new(move |arguments| Box::pin(predicate(arguments))));
        self
    }
}

impl Tool for ProbeTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        self.planner.as_ref().map(|planner| planner(arguments, site))
    }

    fn needs_approval<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Result<bool, ToolError>> {
        match &self.predicate {
            Some(predicate) => predicate(arguments),
            None => Box::pin(async { Ok(true) }),
        }
    }

    fn is_nonblocking(&self) -> bool {
        self.prompt
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        (self.body)(arguments, run)
    }
}

/// Returns the person who answers.
pub(super) fn ada() -> By {
    By { name: "ada".into(), assurance: Assurance::Terminal }
}

/// Returns a yes without a note.
pub(super) fn yes() -> Reply {
    Reply::Yes { note: None }
}

/// Answers a question as it was shown.
pub(super) async fn answer(gate: &Gate, question: &Question, reply: Reply) -> Result<CallId, AnswerError> {
    let (digest, question) = (question.digest(), question.id);
    gate.answer(SubmittedAnswer { question, digest, reply, approver: ada() }).await
}

/// Returns the question that a call waits for.
pub(super) fn waiting(standing: CallStatus) -> Result<Question, ConformanceError> {
    match standing {
        CallStatus::Waiting { question, .. } => Ok(question),
        other => Err(ConformanceError::new(format!("expected a call that waits, got {other:?}"))),
    }
}

/// Returns the result of a settled call.
pub(super) fn settled(standing: CallStatus) -> Result<CallResult, ConformanceError> {
    match standing {
        CallStatus::Settled(result) => Ok(result),
        other => Err(ConformanceError::new(format!("expected a settled call, got {other:?}"))),
    }
}

/// Returns the output of a completed call.
pub(super) fn completed(result: &CallResult) -> Result<&Output, ConformanceError> {
    match &result.outcome {
        CallOutcome::Completed(output) => Ok(output),
        other => Err(ConformanceError::new(format!("expected a completed call, got {other:?}"))),
    }
}

/// Returns the output of a failed call.
pub(super) fn failed(result: &CallResult) -> Result<&Output, ConformanceError> {
    match &result.outcome {
        CallOutcome::Failed(output) => Ok(output),
        other => Err(ConformanceError::new(format!("expected a failed call, got {other:?}"))),
    }
}

/// Checks that a call ended with this word and this code.
pub(super) fn ended(result: &CallResult, word: &str, code: Code) -> Result<(), ConformanceError> {
    let seen = (result.outcome.as_str(), result.outcome.refusal().map(|refusal| refusal.code));
    ensure!(seen == (word, Some(code)), "expected {word} ({code}), got {:?}", result.outcome);
    Ok(())
}

/// Checks that a call was refused with this code.
pub(super) fn refused(result: &CallResult, code: Code) -> Result<(), ConformanceError> {
    ended(result, "refused", code)
}

/// Loads the record of a call.
pub(super) async fn record(ledger: &dyn Ledger, call: CallId) -> Result<Record, ConformanceError> {
    loaded(ledger, call).await
}

/// Returns the kinds of the events on a record, in order.
pub(super) fn kinds(record: &Record) -> Vec<&'static str> {
    record.entries().iter().map(|entry| entry.event.kind()).collect()
}

/// Counts the events on a record that match.
pub(super) fn how_often(record: &Record, is: impl Fn(&RecordEvent) -> bool) -> usize {
    record.entries().iter().filter(|entry| is(&entry.event)).count()
}

/// Waits until a matching event is recorded.
pub(super) async fn until(
    events: &mut broadcast::Receiver<GateEvent>,
    wanted: impl Fn(&RecordEvent) -> bool,
) -> Result<CallId, ConformanceError> {
    loop {
        if let GateEvent::Entry { call, entry, .. } = events.recv().await?
            && wanted(&entry.event)
        {
            return Ok(call);
        }
    }
}

/// Panics as foreign code would, without a message on the terminal.
pub(super) fn fall_over<T>() -> T {
    std::panic::resume_unwind(Box::new("fell over"))
}

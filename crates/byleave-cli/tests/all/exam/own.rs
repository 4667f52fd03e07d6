//! A separate gate at a window, for tools that the program does not have, and for settings that only a gate takes.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, CallId, QuestionId, SessionId, TenantId};
use byleave_gate::core::manifest::ApprovalRequirement;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::core::policy::{
    Layer, PathVariables, Policy, RuleFile, SkipExamples, builtin_rules, load_rules,
};
use byleave_gate::gate::{Gate, GateBuilder};
use byleave_gate::ledger::Ledger as _;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::result::CallResult;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::{RunContext, ToolContext};
use byleave_gate::typed_tool::TypedTool;
use byleave_sandbox::guarantee::Guarantee;
use byleave_terminal::NoBackend;
use byleave_tools::{BuiltinToolOptions, ExecutionEnv, builtin_catalog};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::surface::Surface;
use crate::window::TestWindow;

/// A gate whose questions appear on the screen of a window.
pub(crate) struct WindowGate {
    pub(crate) gate: Gate,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) window: TestWindow,
    pub(crate) runtime: Runtime,
    /// The arguments that `exec` was called with, word by word.
    pub(crate) ran: Arc<Mutex<Vec<Vec<String>>>>,
    /// Held open, because the window would close otherwise.
    _end: File,
}

impl WindowGate {
    pub(crate) fn new(surface: Surface) -> Self {
        Self::with(surface, "", GateSettings::default(), |builder| builder)
    }

    /// Creates a gate with these rules besides the built-in ones, after a change to its builder.
    pub(crate) fn with(
        surface: Surface,
        rules: &str,
        settings: GateSettings,
        change: impl FnOnce(GateBuilder) -> GateBuilder,
    ) -> Self {
        let (window, end) = TestWindow::open(80, 24);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut workplace = ExecutionEnv::new("/state/copies".into(), "/ws".into());
        workplace.home = Some("/home/u".into());
        workplace.private_paths = vec!["/state".into()];
        workplace.environment = [("PATH".into(), "/usr/bin:/bin".into())].into();
        workplace.waived = BTreeSet::from([Guarantee::MemoryLimited]);
        let ran = Arc::<Mutex<Vec<Vec<String>>>>::default();
        let ledger = Arc::new(MemoryLedger::new());
        let builder = Gate::builder()
            .ledger(Arc::clone(&ledger) as Arc<_>)
            .policy(policy(rules))
            .settings(settings)
            .catalog(builtin_catalog(&workplace, &BuiltinToolOptions::default()).unwrap())
            .tool(exec(Arc::clone(&ran)))
            .tool(skill())
            .tool(ask_user());
        let gate = change(surface.asks(builder, &window, Arc::new(NoBackend))).build().unwrap();
        Self { gate, ledger, window, runtime, ran, _end: end }
    }

    /// Starts a call in a task of its own.
    pub(crate) fn begin(&self, call: Call) -> tokio::task::JoinHandle<CallResult> {
        let gate = self.gate.clone();
        self.runtime.spawn(async move { gate.settle(call).await })
    }

    pub(crate) fn end(&self, going: tokio::task::JoinHandle<CallResult>) -> CallResult {
        let end = async { tokio::time::timeout(Duration::from_secs(120), going).await };
        self.runtime.block_on(end).expect("the call ends").unwrap()
    }

    /// Makes a call that needs no question.
    pub(crate) fn settle(&self, call: Call) -> CallResult {
        self.end(self.begin(call))
    }

    pub(crate) fn question_of(&self, call: CallId) -> QuestionId {
        let loaded = self.runtime.block_on(self.ledger.load(call)).unwrap().unwrap();
        match next_step(&loaded.record) {
            NextStep::Wait(question) => question.id,
            other => panic!("does not wait: {other:?}"),
        }
    }

    /// Declines the question on the screen.
    pub(crate) fn no(&mut self) {
        self.window.choose("n", "no");
        self.window.await_shown("What should the model do instead?");
        self.window.press("\r");
    }

    pub(crate) fn yes(&mut self) {
        super::reading::whole(&mut self.window);
        self.window.choose("y", "yes");
    }
}

pub(crate) fn policy(rules: &str) -> Policy {
    let places = PathVariables {
        workspace: Some("/ws"),
        home: Some("/home/u"),
        state: Some("/state"),
        ..PathVariables::default()
    };
    let mut all = builtin_rules(&places).unwrap();
    let file = RuleFile { name: "exam.toml", layer: Layer::User, text: rules };
    all.extend(load_rules(&file, &places, &SkipExamples).unwrap().rules);
    Policy::new(all).unwrap()
}

pub(crate) fn call(tool: &str, arguments: Value) -> Call {
    Call {
        id: CallId::new(uuid::Uuid::new_v4()),
        tenant: TenantId::new("local").unwrap(),
        session: SessionId::new("s").unwrap(),
        agent: AgentId::new("agent").unwrap(),
        tool: tool.into(),
        arguments,
        reason: None,
        cwd: "/ws".into(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    }
}

/// Returns the code of the refusal, if the call was refused.
pub(crate) fn ending(result: &CallResult) -> Option<&'static str> {
    result.outcome.refusal().map(|refusal| refusal.code.as_str())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecArguments {
    /// The words of the command
    argv: Vec<String>,
    /// Whether it leaves the sandbox
    #[serde(default)]
    elevated: bool,
}

/// A third-party tool that would run a program with these arguments. Here it only stores them.
fn exec(ran: Arc<Mutex<Vec<Vec<String>>>>) -> TypedTool<ExecArguments> {
    let does = move |args: ExecArguments, _run: RunContext| {
        ran.lock().unwrap().push(args.argv);
        async { Output::text("ran") }
    };
    let plan = |args: &ExecArguments, _site: &ToolContext| {
        let name = args.argv.first().cloned().unwrap_or_default();
        let program = if name.contains('/') { name } else { format!("/usr/bin/{name}") };
        let mut effects = vec![Effect::Run { program, argv: args.argv.clone() }];
        if args.elevated {
            effects.push(Effect::Unconfined { guarantee: "network-closed".into() });
        }
        Ok::<_, String>(Plan { effects, ..Plan::default() })
    };
    TypedTool::new("exec", "Runs a program.", does)
        .search_hint("run a program by its words")
        .with_planner(plan)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "what is asked about, and never used")]
struct SkillArguments {
    /// Its name
    name: String,
}

fn skill() -> TypedTool<SkillArguments> {
    TypedTool::new("skill", "Loads a skill.", |_: SkillArguments, _run: RunContext| async { "loaded" })
        .search_hint("load a skill by name")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "what is asked about, and never used")]
struct AskUserArguments {
    /// What to ask
    question: String,
}

fn ask_user() -> TypedTool<AskUserArguments> {
    TypedTool::new("ask_user", "Asks the person.", |_: AskUserArguments, _run: RunContext| async { "yes" })
        .search_hint("ask the person something")
        .needs_approval(ApprovalRequirement::Always)
}

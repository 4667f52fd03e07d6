//! A gate with two tools and a scripted model, for the tests of the agent loop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use byleave_agent::agent_loop::{
    Agent, AgentEvent, ConversationContext, ModelHandle, OnQuestion, RunOutcome,
};
use byleave_agent::limits::TaskLimits;
use byleave_agent::model::StreamEvent;
use byleave_agent::persona::Persona;
use byleave_agent::provider::ProviderKind;
use byleave_gate::approver::{Approver, callback};
use byleave_gate::core::call::Mode;
use byleave_gate::core::id::{AgentId, SessionId, TenantId};
use byleave_gate::core::manifest::{ApprovalRequirement, PermissionClass};
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::gate::{Gate, GateBuilder};
use byleave_gate::ledger::Ledger;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::fake::{FakeProvider, FakeResponse, ReplyPart, reply};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct PathArguments {
    /// Which.
    path: String,
}

/// A gate with two tools, and a scripted model.
pub(crate) struct AgentFixture {
    pub(crate) kind: ProviderKind,
    pub(crate) fake: FakeProvider,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The paths that were written, in order.
    pub(crate) wrote: Arc<Mutex<Vec<String>>>,
    pub(crate) reads: Arc<AtomicUsize>,
    /// Notified when the tool that never ends has begun.
    pub(crate) began: Arc<Notify>,
    pub(crate) limits: TaskLimits,
    pub(crate) persona: &'static str,
    pub(crate) mode: Mode,
    pub(crate) dry_run: bool,
}

impl AgentFixture {
    pub(crate) async fn new(kind: ProviderKind, script: Vec<FakeResponse>) -> Self {
        Self::on(kind, FakeProvider::new(script).await)
    }

    /// Picks the next reply by the number of its replies in the request, so that a lost reply is repeated.
    pub(crate) async fn steady(kind: ProviderKind, turns: &[&[ReplyPart]]) -> Self {
        let turns: Vec<String> = turns.iter().map(|parts| reply(kind, parts)).collect();
        let decide = move |body: &Value| {
            let said =
                body.get("messages").or_else(|| body.get("contents")).and_then(Value::as_array).unwrap();
            let spoken = said.iter().filter(|m| m["role"] == "assistant" || m["role"] == "model").count();
            FakeResponse::Stream(turns.get(spoken).unwrap().clone())
        };
        Self::on(kind, FakeProvider::deciding(decide).await)
    }

    pub(crate) fn on(kind: ProviderKind, fake: FakeProvider) -> Self {
        Self {
            kind,
            fake,
            ledger: Arc::new(MemoryLedger::new()),
            wrote: Arc::default(),
            reads: Arc::default(),
            began: Arc::default(),
            limits: TaskLimits::default(),
            persona: "plain",
            mode: Mode::ConfirmSensitive,
            dry_run: false,
        }
    }

    pub(crate) async fn says(kind: ProviderKind, turns: &[&[ReplyPart]]) -> Self {
        Self::new(kind, turns.iter().map(|parts| FakeResponse::Stream(reply(kind, parts))).collect()).await
    }

    pub(crate) fn builder(&self) -> GateBuilder {
        let (reads, wrote, began) =
            (Arc::clone(&self.reads), Arc::clone(&self.wrote), Arc::clone(&self.began));
        let read = TypedTool::new("read", "Reads a file.", move |args: PathArguments, _run: RunContext| {
            reads.fetch_add(1, Ordering::Relaxed);
            async move { format!("there is {}", args.path) }
        })
        .permission_class(PermissionClass::Readonly)
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive();
        let write = TypedTool::new("write", "Writes a file.", move |args: PathArguments, run: RunContext| {
            let (wrote, began) = (Arc::clone(&wrote), Arc::clone(&began));
            async move {
                if args.path == "slow" {
                    began.notify_one();
                    run.cancel.cancelled().await;
                    return Err("stopped".to_owned());
                }
                wrote.lock().unwrap().push(args.path);
                Ok("written")
            }
        })
        .permission_class(PermissionClass::Generic)
        .needs_approval(ApprovalRequirement::Always);
        Gate::builder().ledger(Arc::clone(&self.ledger)).tool(read).tool(write)
    }

    pub(crate) fn agent(&self, builder: GateBuilder) -> Agent {
        let fake = self.fake.clone();
        self.watched(builder, move |happening| {
            if matches!(happening, AgentEvent::Stream(StreamEvent::Text(_))) {
                fake.was_heard();
            }
        })
    }

    pub(crate) fn watched(
        &self,
        builder: GateBuilder,
        watch: impl Fn(AgentEvent<'_>) + Send + Sync + 'static,
    ) -> Agent {
        self.on_gate(builder.build().unwrap(), watch)
    }

    pub(crate) fn on_gate(
        &self,
        gate: Gate,
        watch: impl Fn(AgentEvent<'_>) + Send + Sync + 'static,
    ) -> Agent {
        let seat = ConversationContext {
            tenant: TenantId::new("local").unwrap(),
            session: SessionId::new("talk").unwrap(),
            agent: AgentId::new("tester").unwrap(),
            cwd: "/".into(),
            mode: self.mode,
            dry_run: self.dry_run,
        };
        let model = Arc::new(self.fake.provider(self.kind));
        let (name, endpoint) = ("fake/some-model".into(), self.fake.url.clone());
        let speaker = ModelHandle { name, endpoint, host: None, model };
        let persona = Persona::load(self.persona, None).unwrap();
        let ledger = Arc::clone(&self.ledger);
        Agent::new(gate, ledger, seat, persona, speaker, self.limits, Arc::new(watch)).unwrap()
    }

    /// Runs a whole task with this approver.
    pub(crate) async fn task(&self, approver: Option<Arc<dyn Approver>>) -> RunOutcome {
        let mut builder = self.builder();
        if let Some(approver) = approver {
            builder = builder.approver(approver);
        }
        let agent = self.agent(builder);
        agent.add_user_message("Do it.").await.unwrap();
        agent.run(OnQuestion::Wait, &CancellationToken::new()).await.unwrap()
    }

    /// Returns the text of a request, without the parts that all requests share.
    pub(crate) fn told(&self, request: usize) -> String {
        let got = self.fake.got();
        let body = &got.get(request).unwrap().body;
        let said = body.get("messages").or_else(|| body.get("contents")).and_then(Value::as_array).unwrap();
        said.iter().filter(|message| message["role"] != "system").map(Value::to_string).collect()
    }

    pub(crate) fn wrote(&self) -> Vec<String> {
        self.wrote.lock().unwrap().clone()
    }
}

pub(crate) fn yes() -> Option<Arc<dyn Approver>> {
    Some(Arc::new(callback("ann", |_: &QuestionView| true)))
}

pub(crate) const DONE: &[ReplyPart] = &[ReplyPart::Text("Done.")];
pub(crate) const WRITES: &[ReplyPart] =
    &[ReplyPart::Text("I write."), ReplyPart::Call("write", &["{\"path\": \"a\"}"])];

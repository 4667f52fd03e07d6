//! The fixture: a gate with a few tools, a gateway in front, and real clients of every protocol version.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_gate::approver::Reply;
use byleave_gate::core::call::Mode;
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::id::{CallId, TenantId};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::event::GateEvent;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::ledger::Ledger;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::settings::GateSettings;
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::gateway::{Gateway, GatewaySettings, NamingScheme, NoServers, TransportKind};
use byleave_mcp::upstream::Servers;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, Implementation, JsonObject, ProgressNotificationParam, ProtocolVersion,
    ResourceUpdatedNotificationParam,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, NotificationContext, RequestContext, RoleClient,
    RunningService,
};
use rmcp::{ClientHandler, ErrorData, ServiceExt as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

/// Long enough for anything that happens at all.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// The supported protocol versions.
pub(crate) const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// The activity of the tools.
#[derive(Default)]
pub(crate) struct ToolActivity {
    pub(crate) marks: AtomicUsize,
    pub(crate) slow_began: Notify,
    pub(crate) slow_stopped: Notify,
}

/// A gate with a few tools, which can be created again as after a restart.
pub(crate) struct GatewayFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) deeds: Arc<ToolActivity>,
    pub(crate) gate: Gate,
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) exchange: ActiveCallers,
}

#[derive(Deserialize, JsonSchema)]
struct TextArguments {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

impl GatewayFixture {
    pub(crate) fn new() -> Self {
        let (ledger, deeds) = (Arc::new(MemoryLedger::new()), Arc::<ToolActivity>::default());
        let gate = gate(&ledger, &deeds);
        let (servers, exchange): (Arc<dyn Servers>, _) =
            (Arc::new(NoServers::default()), ActiveCallers::default());
        Self { dir: tempfile::tempdir().unwrap(), ledger, deeds, gate, servers, exchange }
    }

    /// Keeps the audit log, and recreates everything else as after a restart.
    pub(crate) fn restart(&mut self) {
        self.gate = gate(&self.ledger, &self.deeds);
        self.exchange = ActiveCallers::default();
    }

    pub(crate) fn setup(&self) -> GatewaySettings {
        GatewaySettings {
            tenant: TenantId::new("local").unwrap(),
            cwd: self.dir.path().to_str().unwrap().to_owned(),
            mode: Mode::ConfirmSensitive,
            dry_run: false,
            agent: None,
            elicitation: true,
            min_decline_time: Duration::ZERO,
            pages: None,
            call_timeout: None,
            progress_interval: Duration::from_secs(5),
            naming: NamingScheme::Catalog,
            pending_dir: self.dir.path().join("pending"),
            notifier: None,
        }
    }

    pub(crate) fn gateway(&self, setup: GatewaySettings) -> Gateway {
        let servers = Arc::clone(&self.servers);
        Gateway::new(self.gate.clone(), self.exchange.clone(), servers, setup).unwrap()
    }

    /// A client connected to a gateway with these settings.
    pub(crate) async fn client(
        &self,
        setup: GatewaySettings,
        client: TestClient,
    ) -> RunningService<RoleClient, TestClient> {
        connect(&self.gateway(setup), client).await
    }

    /// Subscribes to all questions from now on.
    pub(crate) fn questions(&self) -> QuestionEvents {
        QuestionEvents(self.gate.subscribe())
    }

    /// Answers a question, as a person at a terminal does.
    pub(crate) async fn answer(&self, question: &Question, reply: Reply) -> CallId {
        let by = ApproverIdentity { name: "ada".into(), assurance: Assurance::Terminal };
        let given = SubmittedAnswer { question: question.id, digest: question.digest(), reply, approver: by };
        self.gate.answer(given).await.unwrap()
    }

    pub(crate) fn marks(&self) -> usize {
        self.deeds.marks.load(Ordering::SeqCst)
    }

    /// The approvers whose answers are on the record of a call.
    pub(crate) async fn answered_by(&self, call: CallId) -> Vec<ApproverIdentity> {
        let record = self.ledger.load(call).await.unwrap().unwrap().record;
        let answers = record.entries().iter().filter_map(|entry| match &entry.event {
            RecordEvent::Answered(answered) => Some(answered.approver.clone()),
            _ => None,
        });
        answers.collect()
    }
}

pub(crate) fn yes() -> Reply {
    Reply::Yes { note: None }
}

pub(crate) fn no(why: &str) -> Reply {
    Reply::No { feedback: Some(why.into()) }
}

/// The questions as they are asked.
pub(crate) struct QuestionEvents(broadcast::Receiver<GateEvent>);

impl QuestionEvents {
    pub(crate) async fn next(&mut self) -> (CallId, Question) {
        let asked = async {
            loop {
                if let GateEvent::Entry { call, entry, .. } = self.0.recv().await.unwrap()
                    && let RecordEvent::Asked(Ok(question)) = &entry.event
                {
                    return (call, question.clone());
                }
            }
        };
        tokio::time::timeout(SOON, asked).await.expect("nobody was asked")
    }
}

fn gate(ledger: &Arc<MemoryLedger>, deeds: &Arc<ToolActivity>) -> Gate {
    let echo =
        TypedTool::new("echo", "Says a text back.", |args: TextArguments, _run: RunContext| async move {
            args.text
        })
        .permission_class(PermissionClass::Readonly)
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive();
    let marks = Arc::clone(deeds);
    let mark = TypedTool::new("mark", "Leaves a mark.", move |args: TextArguments, _run: RunContext| {
        let marks = Arc::clone(&marks);
        async move { format!("mark {} {}", marks.marks.fetch_add(1, Ordering::SeqCst) + 1, args.text) }
    })
    .permission_class(PermissionClass::Generic);
    let seen = Arc::clone(deeds);
    let slow =
        TypedTool::new("slow", "Works until it is stopped.", move |_: NoArguments, run: RunContext| {
            let seen = Arc::clone(&seen);
            async move {
                run.report_progress(0.25, "a quarter");
                run.report_progress(0.5, "half");
                seen.slow_began.notify_one();
                run.cancel.cancelled().await;
                seen.slow_stopped.notify_one();
                "stopped"
            }
        })
        .permission_class(PermissionClass::Readonly)
        .concurrency_safe()
        .not_sensitive();
    let settings =
        GateSettings { inbox: true, poll_interval: Duration::from_millis(20), ..GateSettings::default() };
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    Gate::builder().ledger(ledger).tool(echo).tool(mark).tool(slow).settings(settings).build().unwrap()
}

/// A client of one protocol version, with the person's answer to forms.
#[derive(Clone)]
pub(crate) struct TestClient {
    pub(crate) version: ProtocolVersion,
    /// The person's answer to a form. With `None` the client does not support forms. `Null` leaves the form
    /// unanswered.
    pub(crate) form: Option<Value>,
    pub(crate) shown: Arc<Mutex<Vec<String>>>,
    pub(crate) progress: Arc<Mutex<Vec<(f64, String)>>>,
    pub(crate) heard: Arc<Notify>,
    pub(crate) news: Arc<Mutex<Vec<String>>>,
}

impl TestClient {
    pub(crate) fn new(version: &ProtocolVersion) -> Self {
        Self {
            version: version.clone(),
            form: None,
            shown: Arc::default(),
            progress: Arc::default(),
            heard: Arc::default(),
            news: Arc::default(),
        }
    }

    pub(crate) fn with_form(self, form: Value) -> Self {
        Self { form: Some(form), ..self }
    }

    pub(crate) fn lifecycle(&self) -> ClientLifecycleMode {
        if self.version >= ProtocolVersion::V_2026_07_28 {
            ClientLifecycleMode::Discover { preferred_versions: vec![self.version.clone()] }
        } else {
            ClientLifecycleMode::Initialize
        }
    }
}

impl ClientHandler for TestClient {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.form.is_some() {
            capabilities.elicitation = Some(Default::default());
        }
        let mut info = ClientConfig::new(capabilities, Implementation::new("tester", "1"));
        info.protocol_version = self.version.clone();
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if let ElicitRequestParams::FormElicitationParams { message, .. } = request {
            self.shown.lock().unwrap().push(message);
        }
        match &self.form {
            None => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            Some(Value::Null) => std::future::pending().await,
            Some(said) => Ok(serde_json::from_value(said.clone()).unwrap()),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.news.lock().unwrap().push("tools".into());
        self.heard.notify_one();
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.news.lock().unwrap().push(format!("updated {}", params.uri));
        self.heard.notify_one();
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.lock().unwrap().push((params.progress, params.message.unwrap_or_default()));
        self.heard.notify_one();
    }
}

/// Connects a client to a gateway, over a pipe in memory.
pub(crate) async fn connect(gateway: &Gateway, client: TestClient) -> RunningService<RoleClient, TestClient> {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let connection = gateway.new_connection(TransportKind::Pipe).unwrap();
    tokio::spawn(async move {
        let served = connection.serve(ours).await.unwrap();
        served.waiting().await.unwrap();
    });
    let lifecycle = client.lifecycle();
    tokio::time::timeout(SOON, client.serve_with_lifecycle(theirs, lifecycle)).await.unwrap().unwrap()
}

pub(crate) fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

pub(crate) fn mark(text: &str) -> CallToolRequestParams {
    call("mark", json!({ "text": text }))
}

/// All the text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    let blocks = result.content.iter().filter_map(|block| block.as_text().map(|text| text.text.clone()));
    blocks.collect::<Vec<_>>().join("\n")
}

pub(crate) fn is_error(result: &CallToolResult) -> bool {
    result.is_error == Some(true)
}

pub(crate) fn is_pending(result: &CallToolResult) -> bool {
    result.meta.as_ref().is_some_and(|meta| meta.contains_key("byleave/pending"))
}

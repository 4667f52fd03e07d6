//! A stage: a gate with a few tools, a gateway before it, and real clients in every era of the protocol.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave::approve::Reply;
use byleave::core::call::Mode;
use byleave::core::entry::Fact;
use byleave::core::id::{CallId, TenantId};
use byleave::core::manifest::Class;
use byleave::core::question::{Approver, Grade, Question};
use byleave::event::Event;
use byleave::gate::{Gate, GivenAnswer};
use byleave::ledger::Ledger;
use byleave::ledger::memory::MemoryLedger;
use byleave::settings::Settings;
use byleave::tool::Run;
use byleave::typed::Typed;
use byleave_mcp::exchange::Exchange;
use byleave_mcp::gateway::{Gateway, Names, NoServers, Setup, Wire};
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

/// The versions of the protocol that are spoken.
pub(crate) const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// What tools have done.
#[derive(Default)]
pub(crate) struct Deeds {
    pub(crate) marks: AtomicUsize,
    pub(crate) slow_began: Notify,
    pub(crate) slow_stopped: Notify,
}

/// A gate with a few tools, that can be made again as after a restart.
pub(crate) struct Stage {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) ledger: Arc<MemoryLedger>,
    pub(crate) deeds: Arc<Deeds>,
    pub(crate) gate: Gate,
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) exchange: Exchange,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Stage {
    pub(crate) fn new() -> Self {
        let (ledger, deeds) = (Arc::new(MemoryLedger::new()), Arc::<Deeds>::default());
        let gate = gate(&ledger, &deeds);
        let (servers, exchange): (Arc<dyn Servers>, _) =
            (Arc::new(NoServers::default()), Exchange::default());
        Self { dir: tempfile::tempdir().unwrap(), ledger, deeds, gate, servers, exchange }
    }

    /// The same book, and everything else as after a restart.
    pub(crate) fn restart(&mut self) {
        self.gate = gate(&self.ledger, &self.deeds);
        self.exchange = Exchange::default();
    }

    pub(crate) fn setup(&self) -> Setup {
        Setup {
            tenant: TenantId::new("local").unwrap(),
            cwd: self.dir.path().to_str().unwrap().to_owned(),
            mode: Mode::ConfirmSensitive,
            agent: None,
            elicitation: true,
            pages: None,
            deadline: None,
            tick: Duration::from_secs(5),
            names: Names::Ours,
            pending: self.dir.path().join("pending"),
            told: None,
        }
    }

    pub(crate) fn gateway(&self, setup: Setup) -> Gateway {
        let servers = Arc::clone(&self.servers);
        Gateway::new(self.gate.clone(), self.exchange.clone(), servers, setup).unwrap()
    }

    /// A client that is connected to a gateway with this set up.
    pub(crate) async fn client(&self, setup: Setup, client: Client) -> RunningService<RoleClient, Client> {
        connect(&self.gateway(setup), client).await
    }

    /// Hears of every question from now on.
    pub(crate) fn questions(&self) -> Questions {
        Questions(self.gate.subscribe())
    }

    /// Answers a question, as a person at a terminal does.
    pub(crate) async fn answer(&self, question: &Question, reply: Reply) -> CallId {
        let by = Approver { name: "ada".into(), grade: Grade::Terminal };
        let given = GivenAnswer { question: question.id, digest: question.digest(), reply, by };
        self.gate.answer(given).await.unwrap()
    }

    pub(crate) fn marks(&self) -> usize {
        self.deeds.marks.load(Ordering::SeqCst)
    }

    /// The answers on the record of a call, by whom.
    pub(crate) async fn answered_by(&self, call: CallId) -> Vec<Approver> {
        let record = self.ledger.load(call).await.unwrap().unwrap().record;
        let answers = record.entries().iter().filter_map(|entry| match &entry.fact {
            Fact::Answered(answered) => Some(answered.by.clone()),
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
pub(crate) struct Questions(broadcast::Receiver<Event>);

impl Questions {
    pub(crate) async fn next(&mut self) -> (CallId, Question) {
        let asked = async {
            loop {
                if let Event::Entry { call, entry, .. } = self.0.recv().await.unwrap()
                    && let Fact::Asked(Ok(question)) = &entry.fact
                {
                    return (call, question.clone());
                }
            }
        };
        tokio::time::timeout(SOON, asked).await.expect("nobody was asked")
    }
}

fn gate(ledger: &Arc<MemoryLedger>, deeds: &Arc<Deeds>) -> Gate {
    let echo = Typed::new("echo", "Says a text back.", |args: Text, _run: Run| async move { args.text })
        .class(Class::Readonly)
        .read_only()
        .concurrency_safe()
        .repeatable()
        .not_sensitive();
    let marks = Arc::clone(deeds);
    let mark = Typed::new("mark", "Leaves a mark.", move |args: Text, _run: Run| {
        let marks = Arc::clone(&marks);
        async move { format!("mark {} {}", marks.marks.fetch_add(1, Ordering::SeqCst) + 1, args.text) }
    })
    .class(Class::Generic);
    let seen = Arc::clone(deeds);
    let slow = Typed::new("slow", "Works until it is stopped.", move |_: Nothing, run: Run| {
        let seen = Arc::clone(&seen);
        async move {
            run.progress(0.25, "a quarter");
            run.progress(0.5, "half");
            seen.slow_began.notify_one();
            run.cancel.cancelled().await;
            seen.slow_stopped.notify_one();
            "stopped"
        }
    })
    .class(Class::Readonly)
    .concurrency_safe()
    .not_sensitive();
    let settings = Settings { inbox: true, poll: Duration::from_millis(20), ..Settings::default() };
    let ledger = Arc::clone(ledger) as Arc<dyn Ledger>;
    Gate::builder().ledger(ledger).tool(echo).tool(mark).tool(slow).settings(settings).build().unwrap()
}

/// A client of one version, with what its person says to forms.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) version: ProtocolVersion,
    /// What the person does with a form; without, the client cannot show any. `Null` leaves it unanswered.
    pub(crate) form: Option<Value>,
    pub(crate) shown: Arc<Mutex<Vec<String>>>,
    pub(crate) progress: Arc<Mutex<Vec<(f64, String)>>>,
    pub(crate) heard: Arc<Notify>,
    pub(crate) news: Arc<Mutex<Vec<String>>>,
}

impl Client {
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

impl ClientHandler for Client {
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
pub(crate) async fn connect(gateway: &Gateway, client: Client) -> RunningService<RoleClient, Client> {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let connection = gateway.connection(Wire::Pipe).unwrap();
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

/// The text of a result, all of it.
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

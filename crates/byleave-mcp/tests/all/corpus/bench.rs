//! A bench: a place of its own for a case, servers in it as real processes, a gate under the case's rules, and a person who says
//! one thing to everything and keeps what they were shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave::approver::{Approver, ApproverError, Reply};
use byleave::boxed::BoxFuture;
use byleave::catalog::Catalog;
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::manifest::Manifest;
use byleave::core::outcome::Output;
use byleave::core::policy::{Layer, PathVariables, Policy, Rule, RuleFile, SkipExamples, load_rules};
use byleave::core::question::Assurance;
use byleave::core::question_view::QuestionView;
use byleave::core::render::Rendering;
use byleave::gate::Gate;
use byleave::policy_case;
use byleave::result::{CallOutcome, CallResult};
use byleave::tool::{RunContext, Tool};
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::gateway::{Gateway, GatewaySettings, NamingScheme, TransportKind};
use byleave_mcp::upstream::login_store::LoginStore;
use byleave_mcp::upstream::pins::PinFile;
use byleave_mcp::upstream::server_definition::{Launch, ServerDefinition, ServerName};
use byleave_mcp::upstream::tool_names::catalog_name;
use byleave_mcp::upstream::{AcceptanceContext, ServerEnvironment, ServerStatus, Upstream};
use byleave_sandbox::guarantee::Guarantee;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, Implementation, ReadResourceRequestParams,
    SamplingMessage, UrlElicitationCapability,
};
use rmcp::service::{RequestContext, RoleClient, RunningService};
use rmcp::{ClientHandler, ErrorData, ServiceExt as _};
use serde_json::{Value, json};

use super::CorpusCase;
use crate::fixture::{PATIENCE, example};

/// Where a case happens: `/ws`, `/outside` and the marker of the corpus, as directories of its own.
pub(super) struct CaseDirectory(tempfile::TempDir);

/// A gate with servers behind it, in a place.
pub(super) struct CorpusFixture {
    pub(super) gate: Gate,
    pub(super) upstream: Upstream,
    pub(super) person: Arc<FixedApprover>,
    exchange: ActiveCallers,
    root: PathBuf,
}

/// Says one thing to everything.
pub(super) struct FixedApprover {
    says: Reply,
    shown: Mutex<Vec<Rendering>>,
}

/// What came of a call.
pub(super) struct CallAttempt {
    /// The server answered it.
    pub(super) reached: bool,
    /// How often the person was asked.
    pub(super) asked: usize,
    pub(super) result: CallResult,
}

/// An agent whose person fills in every form, and whose model answers everything.
#[derive(Clone, Default)]
pub(super) struct PermissiveClient {
    pub(super) sampled: Arc<Mutex<usize>>,
    pub(super) forms: Arc<Mutex<Vec<Value>>>,
}

pub(super) fn yes() -> Reply {
    Reply::Yes { note: None }
}

pub(super) fn no() -> Reply {
    Reply::No { feedback: None }
}

pub(super) fn name(server: &str) -> ServerName {
    ServerName::new(server).unwrap()
}

/// The name that an agent calls a tool of a server by.
pub(super) fn called(server: &str, tool: &str) -> String {
    catalog_name(&name(server), tool)
}

/// A tool that says that it only reads, as a server lists it.
pub(super) fn tool(name: &str, description: &str) -> Value {
    let hints = json!({ "readOnlyHint": true, "destructiveHint": false });
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" }, "annotations": hints })
}

/// A server that lists these tools, and says `reached` to every call.
pub(super) fn script(tools: &[Value]) -> Value {
    let reached = json!({ "content": [{ "type": "text", "text": "reached" }] });
    let answers: serde_json::Map<String, Value> =
        tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), reached.clone())).collect();
    json!({ "tools": tools, "answers": answers })
}

impl CaseDirectory {
    /// The place, after what the case does first.
    pub(super) fn of(case: &CorpusCase) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for directory in ["ws", "outside", "state"] {
            std::fs::create_dir(place.root().join(directory)).unwrap();
        }
        if let Some(first) = case.setup.strip_prefix("sh: ") {
            let mut shell = std::process::Command::new("sh");
            shell.arg("-c").arg(place.meant(first)).current_dir(place.root().join("ws"));
            assert!(shell.status().unwrap().success(), "{}", case.id);
        }
        place
    }

    pub(super) fn root(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    pub(super) fn marker(&self) -> PathBuf {
        self.root().join("gate-marker")
    }

    /// The places of a case, as they are here.
    pub(super) fn meant(&self, text: &str) -> String {
        let root = self.root();
        let root = root.to_str().unwrap();
        // What leads upwards from the workspace leads there by itself.
        text.replace("../outside", "../(outside)")
            .replace("/ws", &format!("{root}/ws"))
            .replace("/outside", &format!("{root}/outside"))
            .replace("/tmp/gate-marker", &format!("{root}/gate-marker"))
            .replace("(outside)", "outside")
    }

    pub(super) fn arguments(&self, arguments: &Value) -> Value {
        serde_json::from_str(&self.meant(&arguments.to_string())).unwrap()
    }

    /// The rules of a case as a person would have written them, with more beside them; nothing is built in.
    pub(super) fn policy(&self, case: &CorpusCase, beside: &str) -> Policy {
        let root = self.root();
        let root = root.to_str().unwrap();
        let places = PathVariables { workspace: Some(root), ..PathVariables::default() };
        let rules: Vec<policy_case::CaseRule> =
            serde_json::from_str(&self.meant(&json!(case.rules).to_string())).unwrap();
        let (mut rules, left_out) = policy_case::parse_rules(&rules, &places).unwrap();
        assert!(left_out.is_empty(), "{}: {left_out:?}", case.id);
        rules.extend(self.rules(beside));
        Policy::new(rules).unwrap()
    }

    fn rules(&self, text: &str) -> Vec<Rule> {
        let text = self.meant(text);
        let file = RuleFile { name: "beside.toml", layer: Layer::User, text: &text };
        load_rules(&file, &PathVariables::default(), &SkipExamples).unwrap().rules
    }

    /// Says what a scripted server is from now on.
    pub(super) fn define(&self, server: &str, script: &Value) {
        std::fs::write(self.file(server), script.to_string()).unwrap();
    }

    fn file(&self, server: &str) -> PathBuf {
        self.root().join("state").join(format!("{server}.json"))
    }

    /// A scripted server whose word the person trusts.
    pub(super) fn server(&self, server: &str, script: &Value) -> ServerDefinition {
        self.define(server, script);
        self.hostile(server, &["scripted", self.file(server).to_str().unwrap()])
    }

    /// The fixture with these words.
    pub(super) fn hostile(&self, server: &str, words: &[&str]) -> ServerDefinition {
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        let command = example("hostile").to_str().unwrap().to_owned();
        let launch = Launch::Child { command, args, env: BTreeMap::new(), cwd: None };
        ServerDefinition { trusted: true, ..ServerDefinition::new(name(server), launch) }
    }

    /// A gate with servers behind it, none of them started; as after a restart, where there was one before.
    pub(super) fn bench(&self, policy: Policy, says: Reply, servers: Vec<ServerDefinition>) -> CorpusFixture {
        self.bench_in(policy, says, servers, true)
    }

    /// The same, with the servers in the sandbox or without it.
    pub(super) fn bench_in(
        &self,
        policy: Policy,
        says: Reply,
        servers: Vec<ServerDefinition>,
        bare: bool,
    ) -> CorpusFixture {
        let person = Arc::new(FixedApprover { says, shown: Mutex::default() });
        let root = self.root();
        let approver = Arc::clone(&person) as Arc<dyn Approver>;
        let ground = ServerEnvironment {
            unfinished_runs: None,
            homes: root.join("homes"),
            workspace: root.join("ws"),
            home: None,
            hidden_paths: Vec::new(),
            environment: std::env::vars().chain([("BLOCKED".to_owned(), "x".to_owned())]).collect(),
            policy: Arc::new(Policy::new(Vec::new()).unwrap()),
            // Not every machine that tests run on lets us make groups of processes.
            waived: [Guarantee::MemoryLimited].into(),
            logins: LoginStore::in_state_dir(&root.join("state")),
            bare,
        };
        let gate = Gate::builder()
            .policy(policy)
            .catalog(Catalog::new())
            .approver(Arc::clone(&approver))
            .checkpoint(approver)
            .build()
            .unwrap();
        gate.catalog().register(FakeBash::new()).unwrap();
        let exchange = ActiveCallers::default();
        let pins = PinFile::in_state_dir(&root.join("state"));
        let upstream = Upstream::new(servers, &ground, pins, &exchange, gate.catalog().clone()).unwrap();
        CorpusFixture { gate, upstream, person, exchange, root }
    }

    /// The same, with every server accepted as it is.
    pub(super) async fn accepted(
        &self,
        policy: Policy,
        says: Reply,
        servers: Vec<ServerDefinition>,
    ) -> CorpusFixture {
        let names: Vec<ServerName> = servers.iter().map(|server| server.name.clone()).collect();
        let bench = self.bench(policy, says, servers);
        for server in names {
            bounded(bench.upstream.accept_without_asking(&server)).await.unwrap();
        }
        bench
    }
}

impl CorpusFixture {
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> CallAttempt {
        let before = self.person.asked();
        let call = Call {
            id: CallId::new(fresh_id()),
            tenant: "local".parse().unwrap(),
            session: SessionId::new("s").unwrap(),
            agent: AgentId::new("a").unwrap(),
            tool: tool.into(),
            arguments,
            reason: None,
            cwd: self.cwd(),
            mode: Mode::ConfirmSensitive,
            dry_run: false,
        };
        let result = bounded(self.gate.settle(call)).await;
        let reached = result.is_success() && result.to_text().contains("reached");
        CallAttempt { reached, asked: self.person.asked() - before, result }
    }

    pub(super) async fn look(&self, server: &str) -> ServerStatus {
        bounded(self.upstream.refresh(&name(server))).await
    }

    /// Has the person asked about whatever of a server is not accepted yet.
    pub(super) async fn ask(&self, server: &str) -> Result<(), String> {
        bounded(self.upstream.accept(&self.gate, &self.asking(), &name(server))).await
    }

    pub(super) fn asking(&self) -> AcceptanceContext {
        AcceptanceContext { tenant: "local".parse().unwrap(), cwd: self.cwd() }
    }

    /// The tools of servers that agents are offered.
    pub(super) fn offered(&self) -> Vec<String> {
        let entries = self.gate.catalog().list();
        let names = entries.iter().filter(|entry| entry.manifest().server.is_some());
        names.map(|entry| entry.name().to_owned()).collect()
    }

    /// An agent before the gateway, which offers under these names.
    pub(super) async fn agent(
        &self,
        names: NamingScheme,
    ) -> (RunningService<RoleClient, PermissiveClient>, PermissiveClient) {
        let setup = GatewaySettings {
            tenant: TenantId::new("local").unwrap(),
            cwd: self.cwd(),
            mode: Mode::ConfirmSensitive,
            agent: None,
            // The person is asked by the gate alone, so that forms are the servers' own.
            elicitation: false,
            pages: None,
            call_timeout: None,
            progress_interval: Duration::from_secs(5),
            naming: names,
            pending_dir: self.root.join("state/pending"),
            notifier: None,
        };
        let servers = Arc::new(self.upstream.clone());
        let gateway = Gateway::new(self.gate.clone(), self.exchange.clone(), servers, setup).unwrap();
        let (theirs, ours) = tokio::io::duplex(64 * 1024);
        let connection = gateway.new_connection(TransportKind::Pipe).unwrap();
        tokio::spawn(async move { connection.serve(ours).await.unwrap().waiting().await.unwrap() });
        let agent = PermissiveClient::default();
        (bounded(agent.clone().serve(theirs)).await.unwrap(), agent)
    }

    fn cwd(&self) -> String {
        self.root.join("ws").to_str().unwrap().to_owned()
    }
}

/// Reads a resource as an agent does; what it gets, as text.
pub(super) async fn resource(
    client: &RunningService<RoleClient, PermissiveClient>,
    uri: &str,
) -> Result<String, String> {
    let read = bounded(client.read_resource(ReadResourceRequestParams::new(uri))).await;
    read.map(|read| serde_json::to_string(&read).unwrap()).map_err(|error| error.to_string())
}

/// Everything is over by then.
pub(super) async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.unwrap()
}

impl FixedApprover {
    pub(super) fn asked(&self) -> usize {
        self.shown.lock().unwrap().len()
    }

    /// All that was shown; it could be approved only if it was whole.
    pub(super) fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap();
        assert!(shown.iter().all(|rendering| rendering.complete), "something was left out");
        let text: Vec<String> = shown.iter().map(Rendering::to_text).collect();
        let text = text.join("\n");
        let hides = |c: char| c.is_control() && c != '\n' || ('\u{E0000}'..='\u{E007F}').contains(&c);
        assert!(!text.chars().any(hides), "{text:?}");
        text
    }
}

impl Approver for FixedApprover {
    fn name(&self) -> &str {
        "a person"
    }

    fn assurance(&self) -> Assurance {
        Assurance::Terminal
    }

    fn ask<'a>(
        &'a self,
        _: &'a QuestionView,
        shown: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        self.shown.lock().unwrap().push(shown.clone());
        let says = self.says.clone();
        Box::pin(async move { Ok(says) })
    }
}

impl ClientHandler for PermissiveClient {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::builder().enable_elicitation().enable_sampling().build();
        let forms = ElicitationCapability::new().with_form(Default::default());
        can.elicitation = Some(forms.with_url(UrlElicitationCapability::default()));
        ClientConfig::new(can, Implementation::new("agent", "1"))
    }

    async fn create_elicitation(
        &self,
        form: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.forms.lock().unwrap().push(serde_json::to_value(&form).unwrap());
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "key": "given" })))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        *self.sampled.lock().unwrap() += 1;
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("sampled"), "none".into()))
    }
}

/// What the program calls `bash`, as far as it is judged; it runs nothing, and says that it was reached.
struct FakeBash(Manifest);

impl FakeBash {
    fn new() -> Self {
        Self(policy_case::manifest_for("bash"))
    }
}

impl Tool for FakeBash {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn execute(&self, _: Value, _: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async { Output::text("reached our own") })
    }
}

pub(super) fn is_refused(tried: &CallAttempt) -> bool {
    matches!(tried.result.outcome, CallOutcome::Refused(_))
}

pub(super) fn source(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

//! The fixture of a case: its own directory, servers as real processes, and a gate with the case's rules. Its
//! approver has one fixed answer and stores what it was shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::catalog::Catalog;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::Output;
use byleave_gate::core::policy::{Layer, PathVariables, Policy, Rule, RuleFile, SkipExamples, load_rules};
use byleave_gate::core::question::Assurance;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::Rendering;
use byleave_gate::gate::Gate;
use byleave_gate::policy_case;
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_gate::tool::{RunContext, Tool};
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

/// The directory of a case: its own versions of `/ws`, `/outside` and the marker of the corpus.
pub(super) struct CaseDirectory(tempfile::TempDir);

/// A gate with servers behind it, in a directory.
pub(super) struct CorpusFixture {
    pub(super) gate: Gate,
    pub(super) upstream: Upstream,
    pub(super) person: Arc<FixedApprover>,
    exchange: ActiveCallers,
    root: PathBuf,
}

/// An approver that gives the same answer to every question.
pub(super) struct FixedApprover {
    says: Reply,
    shown: Mutex<Vec<Rendering>>,
}

/// The outcome of a call.
pub(super) struct CallAttempt {
    /// Whether the server answered it.
    pub(super) reached: bool,
    /// How many times the approver was asked.
    pub(super) asked: usize,
    pub(super) result: CallResult,
}

/// A client that fills in every form and answers every sampling request.
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

/// The name by which an agent calls a tool of a server.
pub(super) fn called(server: &str, tool: &str) -> String {
    catalog_name(&name(server), tool)
}

/// A tool definition that declares itself read-only.
pub(super) fn tool(name: &str, description: &str) -> Value {
    let hints = json!({ "readOnlyHint": true, "destructiveHint": false });
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" }, "annotations": hints })
}

/// A server that lists these tools, and answers `reached` to every call.
pub(super) fn script(tools: &[Value]) -> Value {
    let reached = json!({ "content": [{ "type": "text", "text": "reached" }] });
    let answers: serde_json::Map<String, Value> =
        tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), reached.clone())).collect();
    json!({ "tools": tools, "answers": answers })
}

impl CaseDirectory {
    /// Creates the directory and runs the setup of the case.
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

    /// Replaces the paths of a case with their actual ones.
    pub(super) fn meant(&self, text: &str) -> String {
        let root = self.root();
        let root = root.to_str().unwrap();
        // A relative path from the workspace already leads there, so it is not replaced.
        text.replace("../outside", "../(outside)")
            .replace("/ws", &format!("{root}/ws"))
            .replace("/outside", &format!("{root}/outside"))
            .replace("/tmp/gate-marker", &format!("{root}/gate-marker"))
            .replace("(outside)", "outside")
    }

    pub(super) fn arguments(&self, arguments: &Value) -> Value {
        serde_json::from_str(&self.meant(&arguments.to_string())).unwrap()
    }

    /// The rules of a case as a user would write them, and further rules. There are no built-in rules.
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

    /// Sets the definition of a scripted server from now on.
    pub(super) fn define(&self, server: &str, script: &Value) {
        std::fs::write(self.file(server), script.to_string()).unwrap();
    }

    fn file(&self, server: &str) -> PathBuf {
        self.root().join("state").join(format!("{server}.json"))
    }

    /// A scripted server whose declarations the user trusts.
    pub(super) fn server(&self, server: &str, script: &Value) -> ServerDefinition {
        self.define(server, script);
        self.hostile(server, &["scripted", self.file(server).to_str().unwrap()])
    }

    /// The hostile fixture with these arguments.
    pub(super) fn hostile(&self, server: &str, words: &[&str]) -> ServerDefinition {
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        let command = example("hostile").to_str().unwrap().to_owned();
        let launch = Launch::Child { command, args, env: BTreeMap::new(), cwd: None };
        ServerDefinition { trusted: true, ..ServerDefinition::new(name(server), launch) }
    }

    /// A gate with servers behind it, none of them started. It uses the state of an earlier gate, as after a
    /// restart.
    pub(super) fn bench(&self, policy: Policy, says: Reply, servers: Vec<ServerDefinition>) -> CorpusFixture {
        self.bench_in(policy, says, servers, true)
    }

    /// The same, with or without the sandbox.
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
            // Some test machines do not allow cgroups.
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

    /// Asks the approver about everything of a server that is not accepted yet.
    pub(super) async fn ask(&self, server: &str) -> Result<(), String> {
        bounded(self.upstream.accept(&self.gate, &self.asking(), &name(server))).await
    }

    pub(super) fn asking(&self) -> AcceptanceContext {
        AcceptanceContext { tenant: "local".parse().unwrap(), cwd: self.cwd(), at_terminal: false }
    }

    /// The server tools that agents are offered.
    pub(super) fn offered(&self) -> Vec<String> {
        let entries = self.gate.catalog().list();
        let names = entries.iter().filter(|entry| entry.manifest().server.is_some());
        names.map(|entry| entry.name().to_owned()).collect()
    }

    /// An agent connected to the gateway, which uses this naming scheme.
    pub(super) async fn agent(
        &self,
        names: NamingScheme,
    ) -> (RunningService<RoleClient, PermissiveClient>, PermissiveClient) {
        let setup = GatewaySettings {
            tenant: TenantId::new("local").unwrap(),
            cwd: self.cwd(),
            mode: Mode::ConfirmSensitive,
            dry_run: false,
            agent: None,
            // Only the gate asks the person, so that every form comes from a server.
            elicitation: false,
            min_decline_time: Duration::ZERO,
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

/// Reads a resource as an agent does, and returns it as text.
pub(super) async fn resource(
    client: &RunningService<RoleClient, PermissiveClient>,
    uri: &str,
) -> Result<String, String> {
    let read = bounded(client.read_resource(ReadResourceRequestParams::new(uri))).await;
    read.map(|read| serde_json::to_string(&read).unwrap()).map_err(|error| error.to_string())
}

/// Fails if this takes longer than the limit.
pub(super) async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.unwrap()
}

impl FixedApprover {
    pub(super) fn asked(&self) -> usize {
        self.shown.lock().unwrap().len()
    }

    /// All the text that was shown. Every question view must have been complete.
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

/// A tool with the name and the effects of `bash`. It runs nothing, and answers that it was reached.
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

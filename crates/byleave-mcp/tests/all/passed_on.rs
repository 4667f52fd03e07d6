//! Resources, prompts and other features of a server, and its tools under their own names, passed through the gateway
//! to a real server and back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_mcp::active_callers::ActiveCallers;
use byleave_mcp::gateway::{GatewaySettings, NamingScheme};
use byleave_mcp::result_conversion::output_from_response;
use byleave_mcp::upstream::{Server, ServerChange, Servers};
use rmcp::model::{
    ArgumentInfo, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams,
    CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, Prompt, PromptMessage, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RequestContext, RoleClient, RoleServer, RunningService};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};

use crate::stage::{GatewayFixture, SOON, TestClient, VERSIONS, call, is_pending, text, yes};

/// A server with one of every feature.
#[derive(Clone, Default)]
struct FixtureServer {
    watched: Arc<Mutex<Vec<String>>>,
    changed: Arc<Notify>,
}

impl ServerHandler for FixtureServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("fixture", "7"))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = request.arguments.unwrap_or_default();
        let image = ContentBlock::image("aGk=", "image/png");
        let mut result = CallToolResult::success(vec![ContentBlock::text(format!("did {said:?}")), image]);
        result.structured_content = Some(json!({"did": true}));
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new("greet", Some("Greets."), None)]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        assert_eq!(request.name, "greet");
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, "good day")]).into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new("test://note", "note")]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![ResourceTemplate::new(
            "test://item/{id}",
            "item",
        )]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = format!("content of {}", request.uri);
        Ok(ReadResourceResult::new(vec![ResourceContents::text(text, request.uri)]).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let name = match request.r#ref {
            Reference::Prompt(prompt) => prompt.name,
            Reference::Resource(resource) => resource.uri,
            _ => String::new(),
        };
        Ok(CompleteResult::new(CompletionInfo::new(vec![name]).unwrap()))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.lock().unwrap().push(request.uri);
        self.changed.notify_one();
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.lock().unwrap().retain(|uri| *uri != request.uri);
        self.changed.notify_one();
        Ok(())
    }
}

/// The fixture, connected directly.
struct DirectServer {
    running: RunningService<RoleClient, ()>,
    tools: HashMap<String, Arc<rmcp::model::Tool>>,
}

impl Server for DirectServer {
    fn name(&self) -> &str {
        "fix"
    }

    fn peer_info(&self) -> Option<Arc<rmcp::model::ServerPeerInfo>> {
        self.running.peer().peer_info()
    }

    fn peer(&self) -> Option<Peer<RoleClient>> {
        Some(self.running.peer().clone())
    }

    fn definition(&self, tool: &str) -> Option<Arc<rmcp::model::Tool>> {
        self.tools.get(tool).cloned()
    }
}

struct SingleServer {
    server: Arc<DirectServer>,
    news: broadcast::Sender<(String, ServerChange)>,
}

impl Servers for SingleServer {
    fn list(&self) -> Vec<Arc<dyn Server>> {
        vec![Arc::clone(&self.server) as Arc<dyn Server>]
    }

    fn subscribe(&self) -> broadcast::Receiver<(String, ServerChange)> {
        self.news.subscribe()
    }
}

/// The fixture's tool, as a tool of the gate.
struct ForwardTool {
    manifest: Manifest,
    server: Arc<DirectServer>,
    _exchange: ActiveCallers,
}

impl Tool for ForwardTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn execute(&self, arguments: Value, _run: RunContext) -> BoxFuture<'_, Output> {
        Box::pin(async move {
            let arguments = serde_json::from_value(arguments).unwrap();
            let request = CallToolRequestParams::new("do.it").with_arguments(arguments);
            output_from_response(&self.server.running.call_tool_once(request).await.unwrap()).unwrap()
        })
    }
}

struct ForwardingFixture {
    stage: GatewayFixture,
    fixture: FixtureServer,
    news: broadcast::Sender<(String, ServerChange)>,
}

async fn scene() -> ForwardingFixture {
    let mut stage = GatewayFixture::new();
    let fixture = FixtureServer::default();
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let served = fixture.clone();
    tokio::spawn(async move { served.serve(ours).await.unwrap().waiting().await.unwrap() });
    let running = ().serve(theirs).await.unwrap();
    let schema = json!({"type": "object", "x-kept": 1});
    let mut definition = rmcp::model::Tool::new("do.it", "Does it.", rmcp::model::object(schema.clone()));
    definition.title = Some("Do it".into());
    let tools = [("mcp_fix_do_it".to_owned(), Arc::new(definition))].into();
    let server = Arc::new(DirectServer { running, tools });
    let manifest =
        Manifest { server: Some("fix".into()), ..Manifest::new("mcp_fix_do_it", "Does it.", schema) };
    let forward = ForwardTool { manifest, server: Arc::clone(&server), _exchange: stage.exchange.clone() };
    stage.gate.catalog().register(forward).unwrap();
    let news = broadcast::Sender::new(16);
    stage.servers = Arc::new(SingleServer { server, news: news.clone() });
    ForwardingFixture { stage, fixture, news }
}

fn theirs(stage: &GatewayFixture) -> GatewaySettings {
    GatewaySettings { naming: NamingScheme::Upstream, ..stage.setup() }
}

// req: M2
#[tokio::test]
async fn a_servers_tool_is_offered_as_it_was_said_and_its_result_passed_on_whole() {
    for version in &VERSIONS {
        let ForwardingFixture { stage, .. } = scene().await;
        let client = stage.client(stage.setup(), TestClient::new(version)).await;
        let tools = client.list_all_tools().await.unwrap();
        let ours = tools.iter().find(|tool| tool.name == "mcp_fix_do_it").unwrap();
        assert_eq!(ours.title.as_deref(), Some("Do it"));
        assert_eq!(ours.input_schema.get("x-kept"), Some(&json!(1)));

        let mut questions = stage.questions();
        let client = stage.client(theirs(&stage), TestClient::new(version)).await;
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        assert_eq!(names, ["do.it"], "{version}: its own name, and nothing of ours");
        let info = client.peer_info().unwrap();
        assert_eq!(info.server_info.as_ref().map(|info| info.name.as_str()), Some("fixture"), "{version}");
        assert!(client.call_tool(call("echo", json!({"text": "x"}))).await.is_err(), "nothing of ours");
        assert!(client.call_tool(call("mcp_fix_do_it", json!({}))).await.is_err(), "only its own name");
        let peer = client.peer().clone();
        let held = tokio::spawn(async move { peer.call_tool(call("do.it", json!({"a": 1}))).await });
        let (_, question) = questions.next().await;
        stage.answer(&question, yes()).await;
        let result = tokio::time::timeout(SOON, held).await.unwrap().unwrap().unwrap();
        assert!(text(&result).starts_with("did "), "{version}: {}", text(&result));
        assert_eq!(result.content.len(), 2, "the picture too");
        assert_eq!(result.structured_content, Some(json!({"did": true})));
    }
}

// req: M2
#[tokio::test]
async fn prompts_and_completion_go_to_the_server_that_they_belong_to() {
    for version in &VERSIONS {
        let ForwardingFixture { stage, .. } = scene().await;
        for (setup, name) in [(stage.setup(), "fix_greet"), (theirs(&stage), "greet")] {
            let client = stage.client(setup, TestClient::new(version)).await;
            let prompts = client.list_all_prompts().await.unwrap();
            let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
            assert_eq!(names, [name]);
            let got = client.get_prompt(GetPromptRequestParams::new(name)).await.unwrap();
            assert_eq!(got.messages.len(), 1);
            assert!(client.get_prompt(GetPromptRequestParams::new("greet_fix")).await.is_err());
            let argument = ArgumentInfo::new("who", "a");
            let completed =
                client.complete(CompleteRequestParams::new(Reference::for_prompt(name), argument)).await;
            assert_eq!(completed.unwrap().completion.values, ["greet"], "by the name that it has there");
        }
    }
}

// req: M2
#[tokio::test]
async fn a_resource_is_read_through_the_gate_and_only_if_it_is_offered() {
    for version in &VERSIONS {
        let ForwardingFixture { stage, .. } = scene().await;
        let mut questions = stage.questions();
        let client = stage.client(stage.setup(), TestClient::new(version)).await;
        assert_eq!(client.list_all_resources().await.unwrap().len(), 1);
        assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 1);
        for uri in ["test://other", "file:///etc/passwd", "test://item/a/b"] {
            let refused = client.read_resource(ReadResourceRequestParams::new(uri)).await;
            assert!(refused.is_err(), "{version}: {uri}");
        }
        for uri in ["test://note", "test://item/7"] {
            let peer = client.peer().clone();
            let held =
                tokio::spawn(async move { peer.read_resource(ReadResourceRequestParams::new(uri)).await });
            let (_, question) = questions.next().await;
            let sheet = stage.gate.question_view(question.id).await.unwrap();
            assert_eq!(sheet.arguments, json!({"uri": uri}));
            stage.answer(&question, yes()).await;
            let read = tokio::time::timeout(SOON, held).await.unwrap().unwrap().unwrap();
            let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
                panic!("no text")
            };
            assert_eq!(*text, format!("content of {uri}"), "{version}");
        }
        // The tool that reads resources is not offered to agents, and they cannot call it by name.
        let tools = client.list_all_tools().await.unwrap();
        assert!(!tools.iter().any(|tool| tool.name.starts_with("mcp-")));
        assert!(client.call_tool(call("mcp-resources-of-fix", json!({"uri": "test://note"}))).await.is_err());
    }
}

// req: M2
#[tokio::test]
async fn news_reach_clients_of_the_older_protocol_that_subscribed() {
    let ForwardingFixture { stage, fixture, news } = scene().await;
    let handler = TestClient::new(&VERSIONS[1]);
    let client = stage.client(stage.setup(), handler.clone()).await;
    client.subscribe(SubscribeRequestParams::new("test://note")).await.unwrap();
    assert_eq!(*fixture.watched.lock().unwrap(), ["test://note"]);
    assert!(client.subscribe(SubscribeRequestParams::new("test://other")).await.is_err());
    let resource = |uri: &str| ("fix".to_owned(), ServerChange::Resource { uri: uri.into() });
    for said in [resource("test://item/9"), resource("test://note"), ("fix".into(), ServerChange::Tools)] {
        news.send(said).unwrap();
    }
    let all = async {
        while handler.news.lock().unwrap().len() < 2 {
            handler.heard.notified().await;
        }
    };
    tokio::time::timeout(SOON, all).await.unwrap();
    assert_eq!(*handler.news.lock().unwrap(), ["updated test://note", "tools"]);
    client.unsubscribe(UnsubscribeRequestParams::new("test://note")).await.unwrap();
    let unwatched = async {
        while !fixture.watched.lock().unwrap().is_empty() {
            fixture.changed.notified().await;
        }
    };
    tokio::time::timeout(SOON, unwatched).await.unwrap();
}

// req: M2
#[tokio::test]
async fn news_reach_clients_of_the_newest_protocol_that_listen() {
    let ForwardingFixture { stage, fixture, news } = scene().await;
    let client = stage.client(stage.setup(), TestClient::new(&VERSIONS[2])).await;
    let filter =
        SubscriptionFilter::builder().tools_list_changed().resource_subscriptions(["test://note"]).build();
    let mut listening = client.listen(filter).await.unwrap();
    assert_eq!(listening.acknowledged().tools_list_changed, Some(true));
    let watched = async {
        while fixture.watched.lock().unwrap().is_empty() {
            fixture.changed.notified().await;
        }
    };
    tokio::time::timeout(SOON, watched).await.unwrap();
    news.send(("fix".into(), ServerChange::Prompts)).unwrap();
    news.send(("fix".into(), ServerChange::Tools)).unwrap();
    news.send(("fix".into(), ServerChange::Resource { uri: "test://note".into() })).unwrap();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let next = tokio::time::timeout(SOON, listening.next()).await.unwrap().unwrap().unwrap();
        heard.push(serde_json::to_value(next).unwrap()["method"].clone());
    }
    assert_eq!(heard, ["notifications/tools/list_changed", "notifications/resources/updated"]);
}

// req: M2 R5
#[tokio::test]
async fn a_servers_call_that_waits_is_pending_and_runs_when_it_is_picked_up() {
    let ForwardingFixture { stage, .. } = scene().await;
    let mut questions = stage.questions();
    let setup = GatewaySettings { call_timeout: Some(std::time::Duration::ZERO), ..theirs(&stage) };
    let client = stage.client(setup, TestClient::new(&VERSIONS[1])).await;
    assert!(is_pending(&client.call_tool(call("do.it", json!({"a": 1}))).await.unwrap()));
    let (_, question) = questions.next().await;
    stage.answer(&question, yes()).await;
    let done = client.call_tool(call("do.it", json!({"a": 1}))).await.unwrap();
    assert!(text(&done).contains("did "), "{}", text(&done));
    assert!(is_pending(&client.call_tool(call("do.it", json!({"a": 1}))).await.unwrap()));
}

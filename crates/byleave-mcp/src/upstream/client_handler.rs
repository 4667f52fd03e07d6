//! Messages that a server sends by itself. Progress, log lines and questions go to the client of the call. Questions are
//! marked as the server's.
//!
//! Nothing that a server sends here is an approval of anything.

#![expect(
    deprecated,
    reason = "roots, sampling and logging are, and the installed base of servers uses them"
)]

use std::sync::{Arc, Weak};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ResourceUpdatedNotificationParam, Root, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::broadcast;

use super::ServerChange;
use super::active_calls::ActiveCalls;
use super::server_definition::ServerDefinition;
use crate::active_callers::{ActiveCallers, Caller};

/// The context of messages from a server.
pub(super) struct HandlerContext {
    pub(super) definition: ServerDefinition,
    pub(super) exchange: ActiveCallers,
    pub(super) active_calls: ActiveCalls,
    pub(super) roots: Vec<String>,
    pub(super) changes: broadcast::Sender<(String, ServerChange)>,
}

/// Receives the messages of one server.
#[derive(Clone)]
pub(super) struct UpstreamHandler {
    around: Weak<HandlerContext>,
}

impl UpstreamHandler {
    pub(super) fn new(around: Weak<HandlerContext>) -> Self {
        Self { around }
    }

    fn around(&self) -> Result<Arc<HandlerContext>, ErrorData> {
        self.around.upgrade().ok_or_else(|| ErrorData::internal_error("the gateway has stopped", None))
    }

    /// Returns the client of the call that a question of the server belongs to.
    fn asked(&self) -> Result<(Arc<HandlerContext>, Arc<Caller>), ErrorData> {
        let around = self.around()?;
        let call = around.active_calls.single_session_call();
        let caller = call.and_then(|call| around.exchange.caller(call));
        let nobody = || {
            ErrorData::invalid_request(
                "there is nobody to ask: no call is running, or calls of several sessions are",
                None,
            )
        };
        Ok((Arc::clone(&around), caller.ok_or_else(nobody)?))
    }

    fn tell(&self, news: ServerChange) {
        if let Ok(around) = self.around() {
            // There may be no listener.
            drop(around.changes.send((around.definition.name.to_string(), news)));
        }
    }
}

impl ClientHandler for UpstreamHandler {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        let form = FormElicitationCapability::default();
        can.elicitation =
            Some(ElicitationCapability::new().with_form(form).with_url(UrlElicitationCapability::default()));
        can.roots = Some(Default::default());
        if self.around().is_ok_and(|around| around.definition.sampling) {
            can.sampling = Some(Default::default());
        }
        ClientConfig::new(can, Implementation::new("byleave", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        mut params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Ok((around, caller)) = self.asked() else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        mark_source(&mut params, around.definition.name.as_str());
        let can = caller.capabilities.as_ref().is_some_and(|can| can.elicitation.is_some());
        if !can {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        let asked = caller.peer.create_elicitation(params).await;
        asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let (around, caller) = self.asked()?;
        if !around.definition.sampling {
            let why =
                "the person did not allow this server to use the agent's model (`sampling` in mcp.toml)";
            return Err(ErrorData::invalid_request(why, None));
        }
        let said = caller.peer.create_message(params).await;
        said.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let around = self.around()?;
        let mut roots = ListRootsResult::default();
        roots.roots = around.roots.iter().map(|path| Root::new(format!("file://{path}"))).collect();
        Ok(roots)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Ok(around) = self.around() {
            around.active_calls.report_progress(params);
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let Ok(around) = self.around() else { return };
        // A message that several calls could have caused goes to the first of them. It is for people who look for errors.
        around.active_calls.forwarding.send_modify(|count| *count += 1);
        let caller = around.active_calls.note_activity().and_then(|call| around.exchange.caller(call));
        if let Some(caller) = caller
            && let Err(error) = caller.peer.notify_logging_message(params).await
        {
            tracing::debug!(%error, "cannot pass on a log line of a server");
        }
        around.active_calls.forwarding.send_modify(|count| *count = count.saturating_sub(1));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.tell(ServerChange::Resource { uri: params.uri });
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(ServerChange::Resources);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(ServerChange::Tools);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(ServerChange::Prompts);
    }
}

/// Marks a question of a server, so that it cannot be mistaken for one of ours or of another server.
pub(super) fn mark_source(params: &mut ElicitRequestParams, server: &str) {
    let marked =
        |message: &mut String| *message = format!("[the MCP server `{server}` asks, not byleave] {message}");
    match params {
        ElicitRequestParams::FormElicitationParams { message, .. } => marked(message),
        ElicitRequestParams::UrlElicitationParams { message, .. } => marked(message),
        _ => {}
    }
}

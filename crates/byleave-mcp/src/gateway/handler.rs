//! Dispatches the requests of a client.

#![expect(deprecated, reason = "clients and servers of the older protocol use logging and subscriptions")]

use std::path::PathBuf;
use std::sync::Arc;

use byleave_gate::tool::ToolContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};

use super::client_identity::ClientIdentity;
use super::connection::{ClientConnection, lock};
use super::notifications::{self, ServerChangeReceiver};
use super::{call_tool, passthrough, read_resource, server_info, tool_list};

impl ServerHandler for ClientConnection {
    fn get_info(&self) -> ServerConfig {
        server_info::server_config(&self.gateway)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        tool_list::list_tools(&self.gateway, &self.site(&cx)?, request)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let setup = &self.gateway.setup;
        let agent = setup.agent.clone().or_else(|| "mcp".parse().ok())?;
        let (tenant, session) = (setup.tenant.clone(), self.session.clone());
        tool_list::get_tool(
            &self.gateway,
            &ToolContext { tenant, session, agent, cwd: PathBuf::from(&setup.cwd) },
            name,
        )
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call_tool::call(self, request, &cx).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        passthrough::list_prompts(&self.gateway, request).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        passthrough::get_prompt(&self.gateway, request, &cx).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        passthrough::list_resources(&self.gateway, request).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        passthrough::list_templates(&self.gateway, request).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        read_resource::read_resource(self, request, &cx).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        passthrough::complete(&self.gateway, request).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        passthrough::set_level(&self.gateway, &request).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !lock(&self.resource_watches).contains_key(&request.uri) {
            let watch = notifications::watch(&self.gateway, &request.uri).await?;
            lock(&self.resource_watches).insert(request.uri, watch);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let watch = lock(&self.resource_watches).remove(&request.uri);
        drop(watch);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        notifications::notify_subscriber(&self.gateway, &context).await;
        Ok(())
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let watches = Arc::clone(&self.resource_watches);
        let watched = move |uri: &str| lock(&watches).contains_key(uri);
        let teller = tokio::spawn(notifications::notify_legacy_client(
            ServerChangeReceiver::new(&self.gateway),
            cx.peer,
            watched,
        ));
        if let Some(before) = lock(&self.notifier_task).replace(teller.abort_handle()) {
            before.abort();
        }
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _cx: NotificationContext<RoleServer>,
    ) {
        if let Some(request) = notification.request_id {
            self.cancel(request);
        }
    }
}

impl ClientConnection {
    fn site(&self, cx: &RequestContext<RoleServer>) -> Result<ToolContext, ErrorData> {
        let who =
            ClientIdentity::from_request(self, cx).map_err(|why| ErrorData::invalid_params(why, None))?;
        let setup = &self.gateway.setup;
        let (tenant, cwd) = (setup.tenant.clone(), PathBuf::from(&setup.cwd));
        Ok(ToolContext { tenant, session: who.session, agent: who.agent, cwd })
    }
}

//! What a client asks for, and where that goes.

#![expect(
    deprecated,
    reason = "clients and servers of the older protocol speak of logging and subscriptions"
)]

use std::path::PathBuf;
use std::sync::Arc;

use byleave::tool::Site;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};

use super::connection::{Connection, held};
use super::news::{self, Hearing};
use super::who::Who;
use super::{call, introduction, offer, passing, reading};

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        introduction::of(&self.gateway)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        offer::list(&self.gateway, &self.site(&cx)?, request)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let setup = &self.gateway.setup;
        let agent = setup.agent.clone().or_else(|| "mcp".parse().ok())?;
        let (tenant, session) = (setup.tenant.clone(), self.session.clone());
        offer::get(&self.gateway, &Site { tenant, session, agent, cwd: PathBuf::from(&setup.cwd) }, name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        call::call(self, request, &cx).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        passing::list_prompts(&self.gateway, request).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        passing::get_prompt(&self.gateway, request, &cx).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        passing::list_resources(&self.gateway, request).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        passing::list_templates(&self.gateway, request).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        reading::read(self, request, &cx).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        passing::complete(&self.gateway, request).await
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        passing::set_level(&self.gateway, &request).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !held(&self.watches).contains_key(&request.uri) {
            let watch = news::watch(&self.gateway, &request.uri).await?;
            held(&self.watches).insert(request.uri, watch);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let watch = held(&self.watches).remove(&request.uri);
        drop(watch);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        news::tell(&self.gateway, &context).await;
        Ok(())
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let watches = Arc::clone(&self.watches);
        let watched = move |uri: &str| held(&watches).contains_key(uri);
        let teller = tokio::spawn(news::tell_all(Hearing::new(&self.gateway), cx.peer, watched));
        if let Some(before) = held(&self.teller).replace(teller.abort_handle()) {
            before.abort();
        }
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        _cx: NotificationContext<RoleServer>,
    ) {
        if let Some(request) = notification.request_id {
            self.call_off(request);
        }
    }
}

impl Connection {
    fn site(&self, cx: &RequestContext<RoleServer>) -> Result<Site, ErrorData> {
        let who = Who::of(self, cx).map_err(|why| ErrorData::invalid_params(why, None))?;
        let setup = &self.gateway.setup;
        let (tenant, cwd) = (setup.tenant.clone(), PathBuf::from(&setup.cwd));
        Ok(Site { tenant, session: who.session, agent: who.agent, cwd })
    }
}

//! One client: what it asks for, and where that goes.

#![expect(
    deprecated,
    reason = "clients and servers of the older protocol speak of logging and subscriptions"
)]

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byleave::core::id::SessionId;
use byleave::tool::Site;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelledNotificationParam, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, RequestId, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ErrorData, ServerHandler};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::news::{self, Hearing, Watch};
use super::who::Who;
use super::{Inner, Wire, call, introduction, offer, passing, reading};

/// How long the word that a request is called off may come after the request was ended by it.
const WORD: Duration = Duration::from_millis(200);

/// How many requests that were called off are remembered.
const CALLED_OFF_MAX: usize = 1_024;

/// What serves one client.
pub struct Connection {
    pub(super) gateway: Arc<Inner>,
    session: SessionId,
    wire: Wire,
    called_off: Mutex<HashSet<RequestId>>,
    word: Notify,
    /// The resources that it subscribed to, in the older protocol.
    watches: Arc<Mutex<HashMap<String, Watch>>>,
    /// What tells it of news, in the older protocol.
    teller: Mutex<Option<AbortHandle>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(teller) = held(&self.teller).take() {
            teller.abort();
        }
    }
}

impl Connection {
    pub(super) fn new(gateway: Arc<Inner>, session: SessionId, wire: Wire) -> Self {
        Self {
            gateway,
            session,
            wire,
            called_off: Mutex::default(),
            word: Notify::new(),
            watches: Arc::default(),
            teller: Mutex::default(),
        }
    }

    /// The session of its calls. A client whose requests come one by one has the gateway's.
    pub(super) fn session(&self, version: Option<&ProtocolVersion>) -> SessionId {
        let is_modern = version.is_some_and(|version| *version >= ProtocolVersion::V_2026_07_28);
        match self.wire {
            Wire::Http if is_modern => self.gateway.session.clone(),
            Wire::Http | Wire::Pipe => self.session.clone(),
        }
    }

    /// Whether a request that ended was called off, and not only left by a client that went away.
    pub(super) async fn is_called_off(&self, request: &RequestId) -> bool {
        // There, letting go of a request is how it is called off.
        if self.wire == Wire::Http {
            return true;
        }
        let heard = async {
            loop {
                let word = self.word.notified();
                if self.called_off().contains(request) {
                    return;
                }
                word.await;
            }
        };
        tokio::time::timeout(WORD, heard).await.is_ok()
    }

    fn called_off(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        held(&self.called_off)
    }

    fn site(&self, cx: &RequestContext<RoleServer>) -> Result<Site, ErrorData> {
        let who = Who::of(self, cx).map_err(|why| ErrorData::invalid_params(why, None))?;
        let setup = &self.gateway.setup;
        let (tenant, cwd) = (setup.tenant.clone(), PathBuf::from(&setup.cwd));
        Ok(Site { tenant, session: who.session, agent: who.agent, cwd })
    }
}

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
        let Some(request) = notification.request_id else { return };
        let mut called_off = self.called_off();
        if called_off.len() >= CALLED_OFF_MAX {
            called_off.clear();
        }
        called_off.insert(request);
        drop(called_off);
        self.word.notify_waiters();
    }
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Notifies clients of changes at servers: changed lists, and changed resources that they watch.
//!
//! A client of the older protocol is notified of lists without asking, and of resources that it subscribed to. A client of
//! the newer protocol lists in one request what it wants to hear of, for as long as that request lasts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{
    ResourceUpdatedNotificationParam, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSendError};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use super::GatewayInner;
use super::prompts_and_resources::{self, ReachableServer, to_client_error};
use crate::protocol_version::is_modern;
use crate::upstream::ServerChange;

/// The resources that are watched at servers, for any client.
pub(super) struct WatchedResources {
    by: Mutex<HashMap<(String, String), WatchedResource>>,
    updates: broadcast::Sender<(String, ServerChange)>,
}

struct WatchedResource {
    clients: usize,
    /// The task that listens to a server of the newer protocol.
    listens: Option<AbortHandle>,
}

/// A client's watch of a resource, until this is dropped.
pub(super) struct ResourceWatch {
    gateway: Arc<GatewayInner>,
    reached: ReachableServer,
    uri: String,
}

impl Default for WatchedResources {
    fn default() -> Self {
        Self { by: Mutex::default(), updates: broadcast::Sender::new(256) }
    }
}

impl WatchedResources {
    fn by(&self) -> MutexGuard<'_, HashMap<(String, String), WatchedResource>> {
        self.by.lock()
    }
}

/// Watches a resource at the server that offers it.
pub(super) async fn watch(gateway: &Arc<GatewayInner>, uri: &str) -> Result<ResourceWatch, ErrorData> {
    let Some(reached) = prompts_and_resources::server_for_resource(gateway, uri).await else {
        return Err(ErrorData::resource_not_found("no server offers this resource", None));
    };
    let key = (reached.server.name().to_owned(), uri.to_owned());
    let is_first = {
        let mut by = gateway.watched.by();
        let watching = by.entry(key.clone()).or_insert(WatchedResource { clients: 0, listens: None });
        watching.clients += 1;
        watching.clients == 1
    };
    // From here on, dropping `watch` undoes the watch on every path.
    let watch = ResourceWatch { gateway: Arc::clone(gateway), reached, uri: uri.to_owned() };
    if is_first {
        let listens = begin(gateway, &watch.reached, uri).await?;
        if let Some(watching) = gateway.watched.by().get_mut(&key) {
            watching.listens = listens;
        }
    }
    Ok(watch)
}

async fn begin(
    gateway: &Arc<GatewayInner>,
    reached: &ReachableServer,
    uri: &str,
) -> Result<Option<AbortHandle>, ErrorData> {
    let is_modern = reached.server.peer_info().is_some_and(|says| is_modern(&says.protocol_version));
    if !is_modern {
        #[expect(deprecated, reason = "servers of the older protocol support nothing else")]
        let subscribed = reached.peer.subscribe(SubscribeRequestParams::new(uri)).await;
        return subscribed.map(|()| None).map_err(to_client_error);
    }
    let filter = SubscriptionFilter::builder().resource_subscriptions([uri]).build();
    let mut listening = reached.peer.listen(filter).await.map_err(to_client_error)?;
    let (updates, server) = (gateway.watched.updates.clone(), reached.server.name().to_owned());
    let task = tokio::spawn(async move {
        while let Ok(Some(notification)) = listening.next().await {
            if let ServerNotification::ResourceUpdatedNotification(update) = notification {
                // There may be no listener.
                drop(updates.send((server.clone(), ServerChange::Resource { uri: update.params.uri })));
            }
        }
    });
    Ok(Some(task.abort_handle()))
}

impl Drop for ResourceWatch {
    fn drop(&mut self) {
        let key = (self.reached.server.name().to_owned(), self.uri.clone());
        let mut by = self.gateway.watched.by();
        let Some(watching) = by.get_mut(&key) else { return };
        watching.clients = watching.clients.saturating_sub(1);
        if watching.clients > 0 {
            return;
        }
        let listened = by.remove(&key).and_then(|watching| watching.listens);
        drop(by);
        match listened {
            Some(listened) => listened.abort(),
            None => {
                let (peer, uri) = (self.reached.peer.clone(), self.uri.clone());
                tokio::spawn(async move {
                    #[expect(deprecated, reason = "servers of the older protocol support nothing else")]
                    let unsubscribed = peer.unsubscribe(UnsubscribeRequestParams::new(uri)).await;
                    if let Err(error) = unsubscribed {
                        tracing::debug!(%error, "cannot unsubscribe from a resource that no client watches");
                    }
                });
            }
        }
    }
}

/// All changes at servers, from both sources.
pub(super) struct ServerChangeReceiver {
    servers: broadcast::Receiver<(String, ServerChange)>,
    ours: broadcast::Receiver<(String, ServerChange)>,
    gateway: Arc<GatewayInner>,
}

impl ServerChangeReceiver {
    pub(super) fn new(gateway: &Arc<GatewayInner>) -> Self {
        let (servers, ours) = (gateway.servers.subscribe(), gateway.watched.updates.subscribe());
        Self { servers, ours, gateway: Arc::clone(gateway) }
    }

    /// Returns the next change; `None` if there will be no more.
    pub(super) async fn next(&mut self) -> Option<ServerChange> {
        let heard = tokio::select! {
            heard = self.servers.recv() => heard,
            heard = self.ours.recv() => heard,
        };
        match heard {
            Ok((server, news)) => {
                if news == ServerChange::Resources {
                    self.gateway.shelf.forget(&server);
                }
                Some(news)
            }
            // This receiver was too slow. Of the missed changes, changed tools matter most.
            Err(RecvError::Lagged(_)) => Some(ServerChange::Tools),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Notifies a client of the older protocol until it is gone.
pub(super) async fn notify_legacy_client(
    mut hearing: ServerChangeReceiver,
    peer: Peer<RoleServer>,
    watches: impl Fn(&str) -> bool,
) {
    while let Some(news) = hearing.next().await {
        let told = match news {
            ServerChange::Tools => peer.notify_tool_list_changed().await,
            ServerChange::Prompts => peer.notify_prompt_list_changed().await,
            ServerChange::Resources => peer.notify_resource_list_changed().await,
            ServerChange::Resource { uri } if watches(&uri) => {
                peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
            }
            ServerChange::Resource { .. } => Ok(()),
        };
        if told.is_err() {
            return;
        }
    }
}

/// Notifies a client of the newer protocol of the changes that it requested, until it cancels.
pub(super) async fn notify_subscriber(gateway: &Arc<GatewayInner>, context: &SubscriptionContext) {
    let mut hearing = ServerChangeReceiver::new(gateway);
    let mut watches = Vec::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        match watch(gateway, uri).await {
            Ok(watch) => watches.push(watch),
            Err(error) => tracing::info!(%uri, error = %error.message, "cannot subscribe to a resource"),
        }
    }
    loop {
        let news = tokio::select! {
            () = context.cancelled() => return,
            news = hearing.next() => news,
        };
        let Some(news) = news else { return context.cancelled().await };
        let sink = context.sink();
        let told = match news {
            ServerChange::Tools => sink.notify_tool_list_changed().await,
            ServerChange::Prompts => sink.notify_prompt_list_changed().await,
            ServerChange::Resources => sink.notify_resource_list_changed().await,
            ServerChange::Resource { uri } => sink.notify_resource_updated(uri).await,
        };
        match told {
            Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => {}
            Err(_) => return,
        }
    }
}

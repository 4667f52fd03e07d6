//! Passes requests on to the server that they belong to: prompts, lists of resources, completion, the log level.
//!
//! These requests bypass the gate because they have no effects. Reading a resource is a call through the gate.

#![expect(deprecated, reason = "clients and servers of the older protocol use logging and subscriptions")]

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, Reference,
    SetLevelRequestParams,
};
use rmcp::service::{RequestContext, RoleServer};

use super::prompts_and_resources::{self, ReachableServer, to_client_error};
use super::tool_list::paginate;
use super::{GatewayInner, NamingScheme};
use crate::protocol_version::is_modern;

pub(super) async fn list_prompts(
    gateway: &GatewayInner,
    request: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let all =
        prompts_and_resources::list_prompts(gateway).await.into_iter().map(|(name, (_, mut prompt))| {
            prompt.name = name;
            if gateway.setup.naming == NamingScheme::Catalog {
                prompt.icons = None;
            }
            prompt
        });
    let (items, next) = paginate(all.collect(), request, |prompt| prompt.name.clone())?;
    let mut result = ListPromptsResult::with_all_items(items).with_cache_scope(CacheScope::Private);
    (result.ttl_ms, result.next_cursor) = (Some(0), next);
    Ok(result)
}

pub(super) async fn list_resources(
    gateway: &GatewayInner,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let all = prompts_and_resources::resources(gateway).await.into_values().collect();
    let (items, next) = paginate(all, request, |resource: &rmcp::model::Resource| resource.uri.clone())?;
    let mut result = ListResourcesResult::with_all_items(items).with_cache_scope(CacheScope::Private);
    (result.ttl_ms, result.next_cursor) = (Some(0), next);
    Ok(result)
}

pub(super) async fn list_templates(
    gateway: &GatewayInner,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourceTemplatesResult, ErrorData> {
    let all = prompts_and_resources::templates(gateway).await.into_values().collect();
    let name = |template: &rmcp::model::ResourceTemplate| template.uri_template.clone();
    let (items, next) = paginate(all, request, name)?;
    let mut result = ListResourceTemplatesResult::with_all_items(items).with_cache_scope(CacheScope::Private);
    (result.ttl_ms, result.next_cursor) = (Some(0), next);
    Ok(result)
}

pub(super) async fn get_prompt(
    gateway: &GatewayInner,
    mut request: GetPromptRequestParams,
    cx: &RequestContext<RoleServer>,
) -> Result<GetPromptResponse, ErrorData> {
    let (reached, name) = prompt(gateway, &request.name).await?;
    request.name = name;
    tokio::select! {
        got = reached.peer.get_prompt_once(request) => got.map_err(to_client_error),
        // Dropping the request notifies the server.
        () = cx.ct.cancelled() => Err(super::call_tool::client_gone_error()),
    }
}

pub(super) async fn complete(
    gateway: &GatewayInner,
    mut request: CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let reached = match &mut request.r#ref {
        Reference::Prompt(reference) => {
            let (reached, name) = prompt(gateway, &reference.name).await?;
            reference.name = name;
            reached
        }
        Reference::Resource(reference) => {
            let whose = prompts_and_resources::server_for_resource(gateway, &reference.uri).await;
            whose.ok_or_else(|| ErrorData::invalid_params("no server offers this resource", None))?
        }
        _ => return Err(ErrorData::invalid_params("this kind of reference is not supported", None)),
    };
    reached.peer.complete(request).await.map_err(to_client_error)
}

pub(super) async fn set_level(
    gateway: &GatewayInner,
    request: &SetLevelRequestParams,
) -> Result<(), ErrorData> {
    for reached in prompts_and_resources::reachable_servers(gateway, |has| has.logging.is_some()) {
        let is_older = reached.server.peer_info().is_some_and(|says| !is_modern(&says.protocol_version));
        if is_older {
            let set = reached.peer.set_level(request.clone()).await;
            if let Err(error) = set {
                tracing::info!(server = reached.server.name(), %error, "a server does not accept the log level");
            }
        }
    }
    Ok(())
}

/// Returns the server of a prompt, and the prompt's name there.
async fn prompt(gateway: &GatewayInner, name: &str) -> Result<(ReachableServer, String), ErrorData> {
    let found = prompts_and_resources::list_prompts(gateway)
        .await
        .remove(name)
        .map(|(reached, prompt)| (reached, prompt.name));
    found.ok_or_else(|| {
        ErrorData::invalid_params(format!("there is no prompt `{}`", name.escape_debug()), None)
    })
}

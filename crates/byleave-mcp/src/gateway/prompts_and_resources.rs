//! The prompts and resources of servers: which server has which, and under what name.
//!
//! The server of an item is looked up in the servers' lists, and never parsed from a name. A server that does not answer
//! costs only its own part of a list.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, Prompt, Resource, ResourceTemplate};
use rmcp::service::{Peer, RoleClient, ServiceError};

use super::{GatewayInner, NamingScheme};
use crate::upstream::Server;

/// How long the list of a server is cached.
const FRESH: Duration = Duration::from_secs(60);

/// How long a server may take to list its items.
const LISTING: Duration = Duration::from_secs(20);

/// The cached lists of servers.
#[derive(Default)]
pub(super) struct ResourceDirectory {
    resources: Mutex<HashMap<String, Arc<ServerResources>>>,
}

/// The resources that one server offers.
pub(super) struct ServerResources {
    uris: HashSet<String>,
    templates: Vec<String>,
    at: Instant,
}

/// A connected server.
#[derive(Clone)]
pub(super) struct ReachableServer {
    pub(super) server: Arc<dyn Server>,
    pub(super) peer: Peer<RoleClient>,
}

impl ResourceDirectory {
    /// Drops the cached lists of a server.
    pub(super) fn forget(&self, server: &str) {
        self.resources().remove(server);
    }

    fn resources(&self) -> MutexGuard<'_, HashMap<String, Arc<ServerResources>>> {
        self.resources.lock()
    }
}

impl ServerResources {
    fn has(&self, uri: &str) -> bool {
        self.uris.contains(uri) || self.templates.iter().any(|template| fits(template, uri))
    }

    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }
}

/// Returns the connected servers with the requested capability, by name.
pub(super) fn reachable_servers(
    gateway: &GatewayInner,
    has: impl Fn(&rmcp::model::ServerCapabilities) -> bool,
) -> Vec<ReachableServer> {
    let mut servers = gateway.servers.list();
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    let reach = |server: Arc<dyn Server>| {
        let peer =
            server.peer().filter(|_| server.peer_info().is_some_and(|says| has(&says.capabilities)))?;
        Some(ReachableServer { server, peer })
    };
    servers.into_iter().filter_map(reach).collect()
}

/// Returns all prompts by their names here, sorted, each with its server and its original definition.
pub(super) async fn list_prompts(gateway: &GatewayInner) -> BTreeMap<String, (ReachableServer, Prompt)> {
    let mut all = BTreeMap::new();
    for reached in reachable_servers(gateway, |has| has.prompts.is_some()) {
        for prompt in listed(&reached, "prompts", reached.peer.list_all_prompts()).await {
            let name = outward(gateway, &reached, &prompt.name);
            if all.contains_key(&name) {
                tracing::warn!(%name, "two prompts would have the same name; only the first is offered");
                continue;
            }
            all.insert(name, (reached.clone(), prompt));
        }
    }
    all
}

/// Returns the name of a prompt here.
fn outward(gateway: &GatewayInner, reached: &ReachableServer, name: &str) -> String {
    match gateway.setup.naming {
        NamingScheme::Catalog => format!("{}_{name}", reached.server.name()),
        NamingScheme::Upstream => name.to_owned(),
    }
}

/// Returns all resources, by address.
pub(super) async fn resources(gateway: &GatewayInner) -> BTreeMap<String, Resource> {
    let mut all = BTreeMap::new();
    for reached in reachable_servers(gateway, |has| has.resources.is_some()) {
        for resource in listed(&reached, "resources", reached.peer.list_all_resources()).await {
            all.entry(resource.uri.clone()).or_insert(resource);
        }
    }
    all
}

/// Returns all resource templates, by template.
pub(super) async fn templates(gateway: &GatewayInner) -> BTreeMap<String, ResourceTemplate> {
    let mut all = BTreeMap::new();
    for reached in reachable_servers(gateway, |has| has.resources.is_some()) {
        let listing = reached.peer.list_all_resource_templates();
        for template in listed(&reached, "resource templates", listing).await {
            all.entry(template.uri_template.clone()).or_insert(template);
        }
    }
    all
}

/// Returns the server that offers a resource, by its address or by a matching template.
pub(super) async fn server_for_resource(gateway: &GatewayInner, uri: &str) -> Option<ReachableServer> {
    for reached in reachable_servers(gateway, |has| has.resources.is_some()) {
        let name = reached.server.name();
        let known = gateway.shelf.resources().get(name).cloned();
        if known.is_some_and(|known| known.is_fresh() && known.has(uri)) {
            return Some(reached);
        }
        let uris = listed(&reached, "resources", reached.peer.list_all_resources()).await;
        let templates =
            listed(&reached, "resource templates", reached.peer.list_all_resource_templates()).await;
        let advertised = Arc::new(ServerResources {
            uris: uris.into_iter().map(|resource| resource.uri).collect(),
            templates: templates.into_iter().map(|template| template.uri_template).collect(),
            at: Instant::now(),
        });
        gateway.shelf.resources().insert(name.to_owned(), Arc::clone(&advertised));
        if advertised.has(uri) || advertised.templates.iter().any(|template| template == uri) {
            return Some(reached);
        }
    }
    None
}

/// Converts the error of a server to one for the agent.
pub(super) fn to_client_error(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => {
            ErrorData::new(ErrorCode::INTERNAL_ERROR, format!("the server did not answer: {other}"), None)
        }
    }
}

async fn listed<T>(
    reached: &ReachableServer,
    what: &str,
    listing: impl Future<Output = Result<Vec<T>, ServiceError>>,
) -> Vec<T> {
    let server = reached.server.name();
    match tokio::time::timeout(LISTING, listing).await {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => {
            tracing::warn!(server, %error, "a server failed to list its {what}");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(server, "a server takes too long to list its {what}");
            Vec::new()
        }
    }
}

/// Checks whether a template can produce an address. A plain name in it matches anything without a slash; any other
/// expression matches anything. Takes time proportional to the product of both lengths, whatever a server sends.
fn fits(template: &str, uri: &str) -> bool {
    // The positions in the address at which the processed part of the template may end.
    let mut ends = vec![false; uri.len() + 1];
    if let Some(start) = ends.first_mut() {
        *start = true;
    }
    let mut rest = template;
    loop {
        let (literal, expression) = match rest.split_once('{') {
            None => (rest, None),
            Some((literal, after)) => match after.split_once('}') {
                None => return false,
                Some((expression, after)) => {
                    rest = after;
                    (literal, Some(expression))
                }
            },
        };
        ends = after_literal(&ends, literal, uri);
        let Some(expression) = expression else { return ends.last().copied().unwrap_or_default() };
        let is_plain = expression.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        ends = after_value(&ends, uri, |c| !is_plain || !matches!(c, '/' | '?' | '#'));
    }
}

fn after_literal(ends: &[bool], literal: &str, uri: &str) -> Vec<bool> {
    let stands_before = |end: usize| {
        let Some(start) = end.checked_sub(literal.len()) else { return false };
        ends.get(start) == Some(&true) && uri.get(start..end) == Some(literal)
    };
    (0..ends.len()).map(stands_before).collect()
}

fn after_value(ends: &[bool], uri: &str, may_be: impl Fn(char) -> bool) -> Vec<bool> {
    let mut after = vec![false; ends.len()];
    let mut is_inside = false;
    for (at, c) in uri.char_indices() {
        is_inside = (is_inside || ends.get(at) == Some(&true)) && may_be(c);
        if let Some(end) = after.get_mut(at + c.len_utf8()) {
            *end = is_inside;
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: M1
    #[test]
    fn a_template_fits_what_it_makes() {
        for (template, uri, expected) in [
            ("test://static", "test://static", true),
            ("test://static", "test://static/more", false),
            ("test://{id}/data", "test://7/data", true),
            ("test://{id}/data", "test:///data", false),
            ("test://{id}/data", "test://7/8/data", false),
            ("test://{id}/data", "test://7/datum", false),
            ("file:///{+path}", "file:///a/b", true),
            ("file:///ws/{name}", "file:///ws/../etc/passwd", false),
            ("a{x}b{y}", "a1b2", true),
            ("a{x}b{y}", "a1b", false),
            ("a{x", "a1", false),
            ("{x}{y}", "ab", true),
            ("{x}{y}", "a", false),
            ("ä{x}", "äöü", true),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }
}

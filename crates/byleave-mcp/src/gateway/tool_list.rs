//! `tools/list`: the tools of the catalog, in order, under their public names.

use std::sync::Arc;

use byleave_gate::catalog::CatalogEntry;
use byleave_gate::provider_formats::{ProviderFormat, schema};
use byleave_gate::tool::ToolContext;
use rmcp::ErrorData;
use rmcp::model::{CacheScope, ListToolsResult, PaginatedRequestParams, Tool};

use super::{GatewayInner, NamingScheme};
use crate::upstream::ACCEPT_TOOL;

/// The number of items on one page of a list.
const PAGE: usize = 100;

/// Lists the tools, sorted by name, one page at a time.
pub(super) fn list_tools(
    gateway: &GatewayInner,
    site: &ToolContext,
    request: Option<PaginatedRequestParams>,
) -> Result<ListToolsResult, ErrorData> {
    let mut tools: Vec<Tool> =
        offered(gateway).iter().filter_map(|entry| tool(gateway, entry, site)).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let (page, next) = paginate(tools, request, |tool| tool.name.to_string())?;
    let mut result = ListToolsResult::with_all_items(page).with_cache_scope(CacheScope::Private);
    result.ttl_ms = Some(0);
    result.next_cursor = next;
    Ok(result)
}

/// Returns one tool by its public name.
pub(super) fn get_tool(gateway: &GatewayInner, site: &ToolContext, name: &str) -> Option<Tool> {
    let meant = catalog_name(gateway, name)?;
    let entry = gateway.gate.catalog().get(&meant).ok()?;
    tool(gateway, &entry, site)
}

/// Returns the catalog name of a tool by its public name. Tools that are not offered cannot be named.
pub(super) fn catalog_name(gateway: &GatewayInner, name: &str) -> Option<String> {
    match gateway.setup.naming {
        // The gate refuses unknown tools, and the audit log records that.
        NamingScheme::Catalog => (!is_hidden(name)).then(|| name.to_owned()),
        NamingScheme::Upstream => offered(gateway).into_iter().find_map(|entry| {
            let said = definition(gateway, &entry)?;
            (said.name == name).then(|| entry.name().to_owned())
        }),
    }
}

/// The name prefix of the tools behind `resources/read`. They are in the catalog but never offered.
pub(super) const RESOURCE_TOOL_PREFIX: &str = "mcp-resources-of-";

fn is_hidden(name: &str) -> bool {
    name.starts_with(RESOURCE_TOOL_PREFIX) || name == ACCEPT_TOOL
}

fn offered(gateway: &GatewayInner) -> Vec<Arc<CatalogEntry>> {
    let theirs = gateway.setup.naming == NamingScheme::Upstream;
    let mut entries = gateway.gate.catalog().list();
    entries.retain(|entry| !is_hidden(entry.name()) && (!theirs || entry.manifest().server.is_some()));
    entries
}

/// Converts a catalog entry to a tool of the protocol.
fn tool(gateway: &GatewayInner, entry: &CatalogEntry, site: &ToolContext) -> Option<Tool> {
    let mut tool = described(gateway, entry, site)?;
    if gateway.setup.dry_run {
        // The result of a dry run is text. A client would reject it if the tool promised structured output.
        tool.output_schema = None;
    }
    Some(tool)
}

/// Returns the server's definition of a tool, or that of the catalog. This is the only place that does so.
fn described(gateway: &GatewayInner, entry: &CatalogEntry, site: &ToolContext) -> Option<Tool> {
    if let Some(said) = definition(gateway, entry) {
        let mut tool = (*said).clone();
        if gateway.setup.naming == NamingScheme::Catalog {
            tool.name = entry.name().to_owned().into();
            // A client that shows icons fetches them. The tool's provider would learn who looks at it, and when.
            tool.icons = None;
        }
        return Some(tool);
    }
    let form = schema(ProviderFormat::Mcp, entry, site).ok()?;
    serde_json::from_value(form)
        .inspect_err(|error| tracing::warn!(tool = entry.name(), %error, "cannot offer a tool"))
        .ok()
}

/// Returns the server's own definition of a tool.
fn definition(gateway: &GatewayInner, entry: &CatalogEntry) -> Option<Arc<Tool>> {
    let of = entry.manifest().server.as_deref()?;
    let servers = gateway.servers.list();
    servers.iter().find(|server| server.name() == of)?.definition(entry.name())
}

/// Returns one page of a sorted list, and the cursor of the next. A cursor is the last name of the page before.
pub(super) fn paginate<T>(
    mut items: Vec<T>,
    request: Option<PaginatedRequestParams>,
    name: impl Fn(&T) -> String,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    if let Some(cursor) = request.and_then(|request| request.cursor) {
        let after = cursor.strip_prefix("after:");
        let after = after.ok_or_else(|| ErrorData::invalid_params("the cursor is not valid", None))?;
        items.retain(|item| name(item).as_str() > after);
    }
    let more = items.len() > PAGE;
    items.truncate(PAGE);
    let next = items.last().filter(|_| more).map(|last| format!("after:{}", name(last)));
    Ok((items, next))
}

//! The `tool_search` tool (G3): lets a model find tools, so that thousands of them need not be sent to it.
//!
//! It only lists tools. Finding a tool does not give permission to use it.

use std::sync::Arc;

use byleave_core::manifest::PermissionClass;
use byleave_core::outcome::Output;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::{Catalog, CatalogEntry};
use crate::tool::{RunContext, Tool, ToolContext};
use crate::typed_tool::{Json, TypedTool};

/// The name of the tool.
pub const TOOL_NAME: &str = "tool_search";

const LIMIT_MAX: usize = 50;

/// The arguments of `tool_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Query {
    /// Words that describe the tool, or the beginning of its name
    query: String,
    /// Maximum number of tools to return
    #[serde(default = "limit_default")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
}

fn limit_default() -> usize {
    10
}

impl Query {
    fn matches(&self, catalog: &Catalog) -> Vec<Arc<CatalogEntry>> {
        // One more, because the search tool may be among the results.
        let limit = self.limit.clamp(1, LIMIT_MAX);
        let mut entries = catalog.search(&self.query, limit + 1);
        entries.retain(|entry| entry.name() != TOOL_NAME);
        entries.truncate(limit);
        entries
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct ToolSearchResult {
    tools: Vec<FoundTool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FoundTool {
    name: String,
    description: String,
    input_schema: Value,
}

impl FoundTool {
    fn new(entry: &CatalogEntry, site: &ToolContext) -> Self {
        Self {
            name: entry.name().into(),
            description: entry.describe(site).into_owned(),
            input_schema: entry.manifest().offered_schema().into_owned(),
        }
    }
}

/// Returns a tool that searches this catalog, to register in it or in another. It does not keep the catalog alive.
pub fn tool_search(catalog: &Catalog) -> impl Tool {
    let catalog = catalog.downgrade();
    let search = move |args: Query, run: RunContext| {
        let found = catalog.upgrade().map(|catalog| {
            let entries = args.matches(&catalog);
            ToolSearchResult {
                tools: entries.iter().map(|entry| FoundTool::new(entry, &run.context)).collect(),
            }
        });
        async move { found.map(Json).ok_or("the tool catalog no longer exists; tools cannot be searched") }
    };
    TypedTool::new(
        TOOL_NAME,
        "Finds tools by name or purpose. Returns names, descriptions and schemas.",
        search,
    )
    .permission_class(PermissionClass::Readonly)
    .search_hint("find tools by name or purpose")
    .audit_operation("read")
    .read_only()
    .concurrency_safe()
    .idempotent()
    .not_sensitive()
}

/// Returns the names in the output of `tool_search`. `None` if the output has no list of tools, for example because it was too long.
pub fn found_names(output: &Output) -> Option<Vec<String>> {
    let result = ToolSearchResult::deserialize(output.data.as_ref()?).ok()?;
    Some(result.tools.into_iter().map(|tool| tool.name).collect())
}

/// Returns the names that `tool_search` would find now with these arguments. Invalid arguments find nothing.
pub fn matching_names(catalog: &Catalog, arguments: &Value) -> Vec<String> {
    let found = Query::deserialize(arguments).map(|query| query.matches(catalog)).unwrap_or_default();
    found.iter().map(|entry| entry.name().to_owned()).collect()
}

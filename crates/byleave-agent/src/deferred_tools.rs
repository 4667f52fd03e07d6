//! Deferred loading of tools (L9, G3): with many tools, a model gets a few, and finds the others with `tool_search`.
//!
//! This saves tokens and permits nothing. A model can call a tool that was not sent to it, and the gate evaluates every call.

use std::collections::BTreeSet;
use std::sync::Arc;

use byleave_gate::catalog::{Catalog, CatalogEntry};
use byleave_gate::result::{CallOutcome, CallResult};
use byleave_gate::tool_search::{self, TOOL_NAME};

use crate::conversation::Conversation;

/// The number of tools up to which all of them are sent to the model.
pub const ALL_TOOLS_MAX: usize = 40;

/// The tools that are always sent, if the persona has them.
const CORE_TOOLS: [&str; 7] = [TOOL_NAME, "bash", "edit", "glob", "grep", "read_file", "write_file"];

/// Removes the tools that the model has not searched for, if there are too many. Returns the number of removed tools.
pub(crate) fn defer(
    tools: &mut Vec<Arc<CatalogEntry>>,
    catalog: &Catalog,
    conversation: &Conversation,
) -> usize {
    let can_search = tools.iter().any(|entry| entry.name() == TOOL_NAME);
    if tools.len() <= ALL_TOOLS_MAX || !can_search {
        return 0;
    }
    let calls = conversation.turns.iter().flat_map(|taken| &taken.calls);
    let searches = calls.filter_map(|made| made.result.as_ref()).filter(|result| result.tool == TOOL_NAME);
    let found: BTreeSet<String> = searches.flat_map(|result| found_names(result, catalog)).collect();
    let all = tools.len();
    tools.retain(|entry| CORE_TOOLS.contains(&entry.name()) || found.contains(entry.name()));
    all - tools.len()
}

/// Returns the names that a search has found. A search that did not run or whose output was cut is made again.
fn found_names(result: &CallResult, catalog: &Catalog) -> Vec<String> {
    match &result.outcome {
        CallOutcome::Completed(output) if !output.truncated => {
            tool_search::found_names(output).unwrap_or_default()
        }
        CallOutcome::Completed(_) | CallOutcome::DryRun(_) => {
            tool_search::matching_names(catalog, &result.arguments)
        }
        CallOutcome::Failed(_)
        | CallOutcome::Withheld(_)
        | CallOutcome::Refused(_)
        | CallOutcome::Unknown(_)
        | CallOutcome::Answered(_) => Vec::new(),
    }
}

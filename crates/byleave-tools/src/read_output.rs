//! The tool `read_output`: reads the rest of a truncated output. It must only show what was released to the same session. Text that
//! reviewers removed or withheld stays hidden.

use std::sync::Arc;

use byleave_gate::core::id::CallId;
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::{Outcome, Output};
use byleave_gate::core::pipeline::{NextStep, next_step};
use byleave_gate::ledger::{Ledger, LoadedRecord};
use byleave_gate::tool::{RunContext, Tool, ToolContext};
use byleave_gate::typed_tool::TypedTool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::gate_lines::strip_gate_prefix;

/// The maximum size at once, so that the answer itself is not truncated.
const BYTES_MAX: usize = 50_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadOutput {
    /// The id of the call, as shown where its output was cut
    call: String,
    /// The first byte to show, from 0
    #[serde(default)]
    from: usize,
    /// The maximum number of bytes to show
    #[serde(default)]
    #[schemars(range(min = 1, max = 50_000))]
    bytes: Option<usize>,
}

/// Creates the tool for outputs in a ledger.
pub fn read_output(ledger: Arc<dyn Ledger>) -> impl Tool {
    let body = move |args: ReadOutput, run: RunContext| {
        let ledger = Arc::clone(&ledger);
        async move { read(&args, &*ledger, &run).await }
    };
    TypedTool::new("read_output", "Shows more of a call's output that was cut.", body)
        .permission_class(PermissionClass::Readonly)
        .search_hint("continue reading an output that was cut")
        .audit_operation("read")
        .read_only()
        .concurrency_safe()
        .idempotent()
        .not_sensitive()
}

async fn read(args: &ReadOutput, ledger: &dyn Ledger, run: &RunContext) -> Result<Output, String> {
    let shown = args.call.escape_debug();
    // A call of another session is treated as missing, so that not even its existence is revealed.
    let none =
        || format!("this session has no call `{shown}`; use the id that is shown where the output was cut");
    let call: CallId = args.call.parse().map_err(|_| none())?;
    let load = async |call| {
        ledger.load(call).await.map_err(|fault| format!("cannot read the audit log: {fault}; try again"))
    };
    let loaded = load(call).await?.filter(|loaded| is_of(loaded, &run.context)).ok_or_else(none)?;
    let NextStep::Settle(
        Outcome::Completed { output } | Outcome::Failed { output } | Outcome::Answered { output },
    ) = next_step(&loaded.record)
    else {
        return Err(format!("call `{shown}` has no released output; there is nothing to read"));
    };
    let bytes = ledger.content(call, output).await;
    let bytes = bytes.map_err(|fault| {
        format!("the output of `{shown}` can no longer be read: {fault}; run the call again")
    })?;
    let output: Output = serde_json::from_slice(&bytes)
        .map_err(|error| format!("the output of `{shown}` is damaged: {error}; run the call again"))?;
    page(&output.text, args)
}

/// Checks whether a call belongs to the requesting session.
fn is_of(loaded: &LoadedRecord, site: &ToolContext) -> bool {
    let heading = loaded.record.header();
    heading.is_some_and(|heading| (&heading.tenant, &heading.session) == (&site.tenant, &site.session))
}

fn page(text: &str, args: &ReadOutput) -> Result<Output, String> {
    let whole = text.len();
    if args.from >= whole {
        return Err(format!(
            "the output has {whole} bytes, so there is nothing from byte {} on; use a smaller `from`",
            args.from
        ));
    }
    let from = text.floor_char_boundary(args.from);
    let most = args.bytes.unwrap_or(BYTES_MAX).clamp(1, BYTES_MAX);
    let to = text.ceil_char_boundary(from.saturating_add(most).min(whole));
    let shown = text.get(from..to).unwrap_or_default();
    let is_within = text.get(..from).is_some_and(|before| !before.is_empty() && !before.ends_with('\n'));
    let mut shown = if is_within { from_within(shown) } else { shown.to_owned() };
    if to < whole {
        shown.push_str(&format!("\n[byleave] {} bytes more; continue with from = {to}", whole - to));
    }
    Ok(Output::text(shown).with_data(json!({ "from": from, "to": to, "bytes": whole })))
}

/// Returns a text that begins within a line. That first part must not look like a line of the gate.
fn from_within(text: &str) -> String {
    let end = text.find('\n').map_or(text.len(), |end| end + 1);
    let (line, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    strip_gate_prefix(line) + rest
}

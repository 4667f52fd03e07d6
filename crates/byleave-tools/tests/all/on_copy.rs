//! Runs a tool as the gate does, but without a policy: on a copy, which is committed at once.

use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use serde_json::Value;

/// Runs a granted call on a copy, and commits everything that it changed. A cancelled call commits nothing.
pub(crate) async fn run_and_commit(tool: &dyn Tool, arguments: Value, run: RunContext) -> Output {
    let Some(rehearser) = tool.as_rehearsable().filter(|tool| tool.runs_on_copy(&arguments)) else {
        return tool.execute(arguments, run).await;
    };
    let cancel = run.cancel.clone();
    match rehearser.run_on_copy(arguments, run.clone()).await {
        Err(unable) => Output::failure(unable.to_string()),
        Ok(seen) if cancel.is_cancelled() => {
            rehearser.discard(run.call).await;
            let text = format!("{}[byleave] none of its changes were kept\n", seen.output.text);
            Output { is_error: true, error: Some("cancelled".into()), text, ..seen.output }
        }
        Ok(seen) => rehearser.commit(seen, None, run).await,
    }
}

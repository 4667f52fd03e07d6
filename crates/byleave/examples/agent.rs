//! The gate in the loop of an agent. All calls of a model's turn go to the gate at once, and the results go back to the model. The
//! audit log is in SQLite, and is verified at the end.
//!
//! The model here is a short script. For a loop with real models, see the crate `byleave-agent`.
//!
//! `cargo run -p byleave --example agent`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::sync::Arc;

use byleave::audit_log::{CallFilter, PageRequest, SqliteLedger, SqliteOptions};
use byleave::prelude::*;
use byleave::tool::result_json;

#[derive(Deserialize, JsonSchema)]
struct WriteNote {
    /// The file.
    path: String,
    /// The whole text.
    text: String,
}

async fn write_note(args: WriteNote, run: RunContext) -> std::io::Result<String> {
    std::fs::write(run.resolve(&args.path), args.text)?;
    Ok(format!("wrote {}", args.path))
}

/// A scripted model: its calls in each turn, from the results of the last turn.
fn model(results: &[Value]) -> Vec<(&'static str, Value)> {
    match results {
        [] => vec![
            ("write_note", json!({ "path": "a.md", "text": "one" })),
            ("write_note", json!({ "path": "../b.md", "text": "two" })),
        ],
        // A write outside was refused, so it writes inside. It misspells the tool.
        [_, second] if second["success"] == json!(false) => {
            vec![("writenote", json!({ "path": "b.md", "text": "two" }))]
        }
        [only] if only["success"] == json!(false) => {
            vec![("write_note", json!({ "path": "b.md", "text": "two" }))]
        }
        _ => Vec::new(),
    }
}

#[tokio::main]
async fn main() -> byleave::Result<()> {
    let dir = tempfile::tempdir()?;
    let work = dir.path().canonicalize()?.join("work");
    std::fs::create_dir(&work)?;

    let inside = format!("{}/", work.display());
    let log = Arc::new(SqliteLedger::open(&dir.path().join("state"), &SqliteOptions::default())?);
    let gate = Gate::builder()
        .ledger(log.clone())
        .tool(TypedTool::new("write_note", "Writes a note", write_note).writes_path("/path"))
        .approve_with(move |question: &QuestionView| {
            question.plan.only_affects_paths(|path| path.starts_with(&inside))
        })
        .build()?;
    let session = gate.session("example").agent("demo").cwd(&work);

    let mut results: Vec<Value> = Vec::new();
    loop {
        let calls = model(&results);
        if calls.is_empty() {
            break;
        }
        // There are as many results as calls, in the same order. This never fails.
        let turn = session.call_all(calls).await;
        // In a format for any model. `openai_messages`, `anthropic_messages` and `gemini_messages` are for providers.
        results = turn.iter().map(|result| result_json(&result.to_report())).collect();
        for result in &results {
            println!("{result}");
        }
    }
    assert_eq!(std::fs::read_to_string(work.join("b.md"))?, "two");
    assert!(!dir.path().join("b.md").exists());

    let calls = log.calls(CallFilter::default(), PageRequest::with_limit(10)).await?;
    let verified = log.verify().await?;
    println!("{} calls, {} entries, intact: {}", calls.len(), verified.entries, verified.is_intact());
    assert!(calls.len() == 4 && verified.is_intact());
    Ok(())
}

//! The gate in your own agent. All calls of a model's turn go to the gate at once, and the results go back to the model. The audit log
//! is a real one, and is verified at the end.
//!
//! The model here is three lines of script. For a loop with real models, see the crate `byleave-agent`.
//!
//! `cargo run -p byleave --example agent`
#![expect(clippy::print_stdout, reason = "an example says what it does")]

use std::sync::Arc;

use byleave::approver::callback;
use byleave::audit_log::sqlite::{SqliteLedger, SqliteOptions};
use byleave::audit_log::{AuditLog as _, CallFilter, PageRequest};
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::manifest::{ArgumentRole, PermissionClass};
use byleave::core::question_view::QuestionView;
use byleave::gate::Gate;
use byleave::provider_formats::result_json;
use byleave::tool::RunContext;
use byleave::typed_tool::TypedTool;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WriteNote {
    /// The file.
    path: String,
    /// All of its text.
    text: String,
}

async fn write_note(args: WriteNote, run: RunContext) -> std::io::Result<String> {
    std::fs::write(run.context.cwd.join(&args.path), args.text)?;
    Ok(format!("wrote {}", args.path))
}

/// A scripted model: its calls in each turn, by the results of the last.
fn model(told: &[Value]) -> Vec<(&'static str, Value)> {
    match told {
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

fn call(tool: &str, arguments: Value) -> Result<Call, Box<dyn std::error::Error>> {
    Ok(Call {
        id: CallId::new(fresh_id()),
        tenant: TenantId::new("local")?,
        session: SessionId::new("example")?,
        agent: AgentId::new("demo")?,
        tool: tool.into(),
        arguments,
        reason: None,
        cwd: std::env::temp_dir().canonicalize()?.display().to_string(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let (work, state) = (place.path().canonicalize()?.join("work"), place.path().join("state"));
    std::fs::create_dir(&work)?;
    let work = work.display().to_string();

    let tool = TypedTool::new("write_note", "Writes a note", write_note)
        .permission_class(PermissionClass::File)
        .role("/path", ArgumentRole::WritePath);
    let inside = format!("{work}/");
    let approver = callback("only-inside", move |sheet: &QuestionView| {
        sheet.plan.effects.iter().all(|effect| effect.path().is_none_or(|path| path.starts_with(&inside)))
    });
    let book = Arc::new(SqliteLedger::open(&state, &SqliteOptions::default())?);
    let gate = Gate::builder()
        .ledger(Arc::clone(&book) as Arc<_>)
        .tool(tool)
        .approver(Arc::new(approver))
        .build()?;

    let mut told: Vec<Value> = Vec::new();
    loop {
        let asked = model(&told);
        if asked.is_empty() {
            break;
        }
        let calls: Result<Vec<Call>, _> = asked
            .into_iter()
            .map(|(tool, arguments)| {
                Ok::<_, Box<dyn std::error::Error>>(Call { cwd: work.clone(), ..call(tool, arguments)? })
            })
            .collect();
        // There are always as many results as calls, in the same order. This never fails.
        let results = gate.settle_all(calls?).await;
        // In a format for any model. `openai_messages`, `anthropic_messages` and `gemini_messages` are for providers.
        told = results.iter().map(|result| result_json(&result.to_report())).collect();
        for report in &told {
            println!("{report}");
        }
    }
    assert_eq!(std::fs::read_to_string(place.path().join("work/b.md"))?, "two");
    assert!(!place.path().join("b.md").exists());

    let calls = book.calls(CallFilter::default(), PageRequest::with_limit(10)).await?;
    let verified = book.verify().await?;
    println!(
        "{} calls in the book, {} lines, flaw: {:?}",
        calls.len(),
        verified.entries,
        verified.integrity_error
    );
    assert!(calls.len() == 4 && verified.integrity_error.is_none());
    Ok(())
}

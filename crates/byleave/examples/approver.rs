//! Your own approver: it is shown what a call would do, says yes, no, or yes with other arguments, and may take its time. Its
//! answer is bound to what it was shown.
//!
//! `cargo run -p byleave --example approver`
#![expect(clippy::print_stdout, reason = "an example says what it does")]

use std::sync::Arc;

use byleave::approver::{Approver, ApproverError, Reply};
use byleave::boxed::BoxFuture;
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::manifest::{ArgumentRole, PermissionClass};
use byleave::core::question::Assurance;
use byleave::core::question_view::QuestionView;
use byleave::core::render::Rendering;
use byleave::gate::Gate;
use byleave::provider_formats::result_text;
use byleave::tool::RunContext;
use byleave::typed_tool::TypedTool;
use serde_json::{Value, json};

/// A remote person, whom you reach in your own way: by chat, a pager, a web page.
struct RemoteApprover;

impl Approver for RemoteApprover {
    fn name(&self) -> &str {
        "the desk"
    }

    /// The assurance that its answers come from a person. This one is a program and says so, so it cannot answer
    /// questions that require a person.
    fn assurance(&self) -> Assurance {
        Assurance::Program
    }

    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(async move {
            // A question view that cannot be shown in full must not be approved.
            if !rendering.complete {
                return Err(ApproverError::Failed("it cannot be shown in full".into()));
            }
            for line in rendering.lines.iter().take(3) {
                println!("  | {}", line.text);
            }
            let path = sheet.arguments.get("path").and_then(Value::as_str).unwrap_or_default();
            Ok(match path {
                "notes.txt" => Reply::Yes { note: Some("but keep it short next time".into()) },
                "draft.txt" => Reply::Edit { value: json!({ "path": "notes.txt" }), note: None },
                _ => Reply::No { feedback: Some("write into notes.txt instead".into()) },
            })
        })
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Touch {
    /// The file.
    path: String,
}

async fn touch(args: Touch, run: RunContext) -> std::io::Result<String> {
    std::fs::File::create(run.context.cwd.join(&args.path))?;
    Ok(format!("made {}", args.path))
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
    let here = place.path().canonicalize()?.display().to_string();
    let tool = TypedTool::new("touch", "Makes a file", touch)
        .permission_class(PermissionClass::File)
        .role("/path", ArgumentRole::WritePath);
    let gate = Gate::builder().tool(tool).approver(Arc::new(RemoteApprover)).build()?;
    let touch = async |path: &str| -> Result<_, Box<dyn std::error::Error>> {
        let call = Call { cwd: here.clone(), ..call("touch", json!({ "path": path }))? };
        Ok(gate.settle(call).await)
    };

    let done = touch("notes.txt").await?;
    println!("{}\n", result_text(&done.to_report()));
    assert!(done.is_success());

    // Edited arguments are evaluated and asked about again, and the model is informed.
    let edited = touch("draft.txt").await?;
    println!("{}\n", result_text(&edited.to_report()));
    assert!(edited.is_success() && !place.path().join("draft.txt").exists());

    let refused = touch("other.txt").await?;
    let told = result_text(&refused.to_report());
    println!("{told}");
    assert!(told.contains("write into notes.txt instead"));
    assert!(!place.path().join("other.txt").exists());
    Ok(())
}

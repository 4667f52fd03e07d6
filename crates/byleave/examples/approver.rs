//! Your own approver: it gets the whole question, and answers yes, no, or yes with other arguments. The gate binds the answer to the
//! question that was shown.
//!
//! `cargo run -p byleave --example approver`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use byleave::approver::{ApproverError, Assurance, BoxFuture, Rendering};
use byleave::prelude::*;
use byleave::tool::result_text;

/// A remote person, whom you reach in your own way: by chat, a pager or a web page.
struct RemoteApprover;

impl Approver for RemoteApprover {
    fn name(&self) -> &str {
        "on-call"
    }

    /// How certain it is that a person answers. This one is a program and says so, so it cannot answer questions that require a
    /// person.
    fn assurance(&self) -> Assurance {
        Assurance::Program
    }

    fn ask<'a>(
        &'a self,
        question: &'a QuestionView,
        rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        Box::pin(async move {
            // A question that cannot be shown in full must not be approved.
            if !rendering.complete {
                return Err(ApproverError::Failed("the question cannot be shown in full".into()));
            }
            for line in rendering.lines.iter().take(3) {
                println!("  | {}", line.text);
            }
            let path = question.arguments.get("path").and_then(Value::as_str).unwrap_or_default();
            Ok(match path {
                "notes.txt" => Reply::Yes { note: Some("but keep it short next time".into()) },
                "draft.txt" => Reply::Edit { value: json!({ "path": "notes.txt" }), note: None },
                _ => Reply::No { feedback: Some("write into notes.txt instead".into()) },
            })
        })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Touch {
    /// The file.
    path: String,
}

async fn touch(args: Touch, run: RunContext) -> std::io::Result<String> {
    std::fs::File::create(run.resolve(&args.path))?;
    Ok(format!("created {}", args.path))
}

#[tokio::main]
async fn main() -> byleave::Result<()> {
    let dir = tempfile::tempdir()?;
    let tool = TypedTool::new("touch", "Creates a file", touch).writes_path("/path");
    let gate = Gate::builder().tool(tool).approver(RemoteApprover).build()?;
    let session = gate.session("example").cwd(dir.path());

    let done = session.call("touch", json!({ "path": "notes.txt" })).await;
    println!("{}\n", result_text(&done.to_report()));
    assert!(done.is_success());

    // Edited arguments are evaluated and asked about again, and the model is informed.
    let edited = session.call("touch", json!({ "path": "draft.txt" })).await;
    println!("{}\n", result_text(&edited.to_report()));
    assert!(edited.is_success() && !dir.path().join("draft.txt").exists());

    let refused = session.call("touch", json!({ "path": "other.txt" })).await;
    println!("{}", result_text(&refused.to_report()));
    assert_eq!(refused.code(), Some(Code::Declined));
    assert!(refused.error().is_some_and(|error| error.contains("write into notes.txt instead")));
    assert!(!dir.path().join("other.txt").exists());
    Ok(())
}

//! Your own tool: a struct for its arguments, a function, and the information that the gate needs to evaluate
//! it.
//!
//! `cargo run -p byleave --example tool`
#![expect(clippy::print_stdout, reason = "an example says what it does")]

use std::sync::Arc;

use byleave::approver::callback;
use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::effect::Effect;
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::manifest::{ArgumentRole, PermissionClass};
use byleave::core::question_view::QuestionView;
use byleave::gate::Gate;
use byleave::provider_formats::result_text;
use byleave::tool::RunContext;
use byleave::typed_tool::TypedTool;
use serde_json::{Value, json};

/// The arguments that the model writes. The schema is made from this struct. It is shown to the model, and its
/// arguments are validated with it.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountLines {
    /// The file to count in, in the directory that the agent works in.
    path: String,
    /// Only lines with this word.
    word: Option<String>,
}

async fn count_lines(args: CountLines, run: RunContext) -> std::io::Result<String> {
    // Subscribers see the progress.
    run.report_progress(None, "reading");
    let text = std::fs::read_to_string(run.context.cwd.join(&args.path))?;
    let fits = |line: &&str| args.word.as_ref().is_none_or(|word| line.contains(word.as_str()));
    Ok(text.lines().filter(fits).count().to_string())
}

fn call(arguments: Value) -> Result<Call, Box<dyn std::error::Error>> {
    Ok(Call {
        id: CallId::new(fresh_id()),
        tenant: TenantId::new("local")?,
        session: SessionId::new("example")?,
        agent: AgentId::new("demo")?,
        tool: "count_lines".into(),
        arguments,
        reason: Some("how long is it?".into()),
        cwd: std::env::temp_dir().canonicalize()?.display().to_string(),
        mode: Mode::ConfirmSensitive,
        dry_run: false,
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tool = TypedTool::new("count_lines", "Counts the lines of a file", count_lines)
        // The permission class and the roles of the arguments, from which the gate predicts the effects of a
        // call.
        .permission_class(PermissionClass::File)
        .role("/path", ArgumentRole::ReadPath)
        // It changes nothing, and can run concurrently with other calls.
        .read_only()
        .concurrency_safe();
    // No rule covers this directory, so somebody is asked. They see the effects, and not only the arguments.
    let approver = callback("example", |sheet: &QuestionView| {
        let reads = |effect: &Effect| matches!(effect, Effect::Read { .. });
        sheet.plan.effects.iter().all(reads)
    });
    let gate = Gate::builder().tool(tool).approver(Arc::new(approver)).build()?;

    let name = format!("byleave-example-{}.txt", std::process::id());
    let path = std::env::temp_dir().join(&name);
    std::fs::write(&path, "one\ntwo\nthree\n")?;

    let done = gate.settle(call(json!({ "path": name }))?).await;
    println!("{}: {}", done.outcome.as_str(), done.to_text());
    assert_eq!(done.to_text(), "3");

    let done = gate.settle(call(json!({ "path": name, "word": "tw" }))?).await;
    assert_eq!(done.to_text(), "1");

    // Arguments that do not match the schema never reach the function. The model gets the expected form.
    let wrong = gate.settle(call(json!({ "file": name }))?).await;
    println!("{}", result_text(&wrong.to_report()));
    assert!(!wrong.is_success());

    // A tool that fails is a result, too.
    let failed = gate.settle(call(json!({ "path": "no-such-file" }))?).await;
    println!("{}", result_text(&failed.to_report()));
    assert_eq!(failed.outcome.as_str(), "failed");

    std::fs::remove_file(path)?;
    Ok(())
}

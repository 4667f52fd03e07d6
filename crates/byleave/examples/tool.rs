//! Your own tool: a struct for its arguments, a function, and the declaration that the gate needs to predict its effects.
//!
//! `cargo run -p byleave --example tool`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use byleave::prelude::*;
use byleave::tool::result_text;

/// The arguments that the model writes. The schema is made from this struct. It is shown to the model, and the gate validates
/// arguments with it.
#[derive(Deserialize, JsonSchema)]
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
    let text = std::fs::read_to_string(run.resolve(&args.path))?;
    let matches = |line: &&str| args.word.as_ref().is_none_or(|word| line.contains(word.as_str()));
    Ok(text.lines().filter(matches).count().to_string())
}

#[tokio::main]
async fn main() -> byleave::Result<()> {
    let tool = TypedTool::new("count_lines", "Counts the lines of a file", count_lines)
        // From this the gate predicts the effects of a call.
        .reads_path("/path")
        // It changes nothing, and can run concurrently with other calls.
        .read_only()
        .concurrency_safe();
    // No rule covers this directory, so the gate asks. The question has the effects, not only the arguments.
    let only_reads = |question: &QuestionView| {
        question.plan.effects.iter().all(|effect| matches!(effect, Effect::Read { .. }))
    };
    let gate = Gate::builder().tool(tool).approve_with(only_reads).build()?;

    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("text"), "one\ntwo\nthree\n")?;
    let session = gate.session("example").cwd(dir.path());

    let done = session.call("count_lines", json!({ "path": "text" })).await;
    println!("{}: {}", done.outcome.as_str(), done.to_text());
    assert_eq!(done.to_text(), "3");

    let done = session.call("count_lines", json!({ "path": "text", "word": "tw" })).await;
    assert_eq!(done.to_text(), "1");

    // Arguments that do not match the schema never reach the function. The model gets the expected form.
    let wrong = session.call("count_lines", json!({ "file": "text" })).await;
    println!("{}", result_text(&wrong.to_report()));
    assert_eq!(wrong.code(), Some(Code::ArgumentsInvalid));

    // A tool that fails has a result, too.
    let failed = session.call("count_lines", json!({ "path": "no-such-file" })).await;
    println!("{}", result_text(&failed.to_report()));
    assert!(matches!(failed.outcome, CallOutcome::Failed(_)));
    Ok(())
}

//! Reviewers: one that corrects the arguments of a call, one that masks a part of the output, and one that fails, which counts as a
//! no.
//!
//! `cargo run -p byleave --example reviewer`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use byleave::policy::{Layer, Pattern, Rule};
use byleave::prelude::*;
use byleave::review::{InputSubject, Opinion, OutputSubject, ReviewScope, input_reviewer, output_reviewer};
use byleave::tool::{Output, result_text};

#[derive(Deserialize, JsonSchema)]
struct Send {
    /// Name of the recipient.
    to: String,
    /// Text of the message.
    text: String,
}

async fn send(args: Send, _run: RunContext) -> Result<String, std::convert::Infallible> {
    Ok(format!("sent to {}: {}", args.to, args.text))
}

/// Corrects names to lower case. The model is informed.
fn lower_case(subject: InputSubject<'_>) -> Opinion<Value> {
    let Some(to) = subject.arguments.get("to").and_then(Value::as_str) else {
        return Opinion::deny("the recipient is missing");
    };
    let lower = to.to_lowercase();
    if lower == to {
        return Opinion::Pass;
    }
    let text = subject.arguments.get("text");
    Opinion::change(json!({ "to": lower, "text": text }), "names are written in lower case")
}

/// Masks the secret name of the project in the output.
fn mask_project(subject: OutputSubject<'_>) -> Opinion<Output> {
    let text = subject.output.text.replace("Bluebird", "[the project]");
    if text == subject.output.text {
        return Opinion::Pass;
    }
    Opinion::change(Output { text, ..subject.output.clone() }, "the project's name is secret")
}

#[tokio::main]
async fn main() -> byleave::Result<()> {
    let tool = |name: &str| TypedTool::new(name, "Sends a message", send).not_sensitive();
    let broken = |_: InputSubject<'_>| -> Result<bool, &str> { Err("the list of people cannot be read") };
    let messages = vec![Pattern::Invoke("{send,broadcast}".into())];
    let gate = Gate::builder()
        .policy(Policy::new(vec![Rule::new("messages", Layer::User, Verdict::Allow, messages)])?)
        .tool(tool("send"))
        .tool(tool("broadcast"))
        .review_input(ReviewScope::All, input_reviewer("lower-case", lower_case))
        .review_output("send", output_reviewer("mask-project", mask_project))
        .review_input("broadcast", input_reviewer("broken", broken))
        .build()?;
    let session = gate.session("example");

    let done = session.call("send", json!({ "to": "Ann", "text": "Bluebird is late" })).await;
    println!("{}", done.to_text());
    assert!(done.to_text().ends_with("sent to ann: [the project] is late"), "{}", done.to_text());
    // The model gets all changes, with their reasons.
    assert_eq!(done.modifications.len(), 2);

    // A reviewer that fails, hangs or panics objects. It is never skipped.
    let refused = session.call("broadcast", json!({ "to": "ann", "text": "hello" })).await;
    println!("{}", result_text(&refused.to_report()));
    assert_eq!(refused.code(), Some(Code::ReviewFailed));
    Ok(())
}

//! Reviewers: one that corrects the arguments before a call, one that holds the output, and one that fails, which is treated as a no.
//!
//! `cargo run -p byleave --example reviewer`
#![expect(clippy::print_stdout, reason = "an example says what it does")]

use byleave::clock::fresh_id;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave::core::outcome::Output;
use byleave::gate::Gate;
use byleave::provider_formats::result_text;
use byleave::review::{self, InputSubject, Opinion, OutputSubject, ReviewScope};
use byleave::tool::RunContext;
use byleave::typed_tool::TypedTool;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    /// To whom.
    to: String,
    /// What.
    text: String,
}

async fn say(args: Say, _run: RunContext) -> Result<String, std::convert::Infallible> {
    Ok(format!("said to {}: {}", args.to, args.text))
}

/// Names are in lower case. Others are corrected, and the model is informed.
fn names(subject: InputSubject<'_>) -> Opinion<Value> {
    let Some(to) = subject.arguments.get("to").and_then(Value::as_str) else {
        return Opinion::deny("nobody is named");
    };
    let lower = to.to_lowercase();
    if lower == to {
        return Opinion::Pass;
    }
    let text = subject.arguments.get("text");
    Opinion::change(json!({ "to": lower, "text": text }), "names are written in lower case")
}

/// The output never contains the secret name of the project.
fn discreet(subject: OutputSubject<'_>) -> Opinion<Output> {
    let text = subject.output.text.replace("Bluebird", "[the project]");
    if text == subject.output.text {
        return Opinion::Pass;
    }
    Opinion::change(Output { text, ..subject.output.clone() }, "the project's name stays here")
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
    let tool = |name: &str| TypedTool::new(name, "Says something to somebody", say).not_sensitive();
    let broken = |_: InputSubject<'_>| -> Result<bool, &str> { Err("the list of people cannot be read") };
    let allows = byleave::core::policy::Rule::new(
        "say",
        byleave::core::policy::Layer::User,
        byleave::core::decision::Verdict::Allow,
        vec![byleave::core::pattern::Pattern::Invoke("{say,shout}".into())],
    );
    let gate = Gate::builder()
        .policy(byleave::core::policy::Policy::new(vec![allows])?)
        .tool(tool("say"))
        .tool(tool("shout"))
        .review_input(ReviewScope::All, review::input_reviewer("names", names))
        .review_output("say", review::output_reviewer("discreet", discreet))
        .review_input("shout", review::input_reviewer("broken", broken))
        .build()?;

    let done = gate.settle(call("say", json!({ "to": "Ann", "text": "Bluebird is late" }))?).await;
    println!("{}", done.to_text());
    assert!(done.to_text().ends_with("said to ann: [the project] is late"), "{}", done.to_text());
    // The model gets all changes, with their reasons.
    assert_eq!(done.modifications.len(), 2);

    // A reviewer that fails, hangs or panics objects. It is never skipped.
    let refused = gate.settle(call("shout", json!({ "to": "ann", "text": "hello" }))?).await;
    println!("{}", result_text(&refused.to_report()));
    assert_eq!(refused.outcome.refusal().map(|refusal| refusal.code.as_str()), Some("review-failed"));
    Ok(())
}

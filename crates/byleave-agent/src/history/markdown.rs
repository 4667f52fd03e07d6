//! Renders a conversation as Markdown.

use byleave_gate::core::time_format::format_utc;
use serde_json::Value;

use super::{History, HistoryMessage, MessageRole};

/// Renders a conversation as Markdown. Tool output is fenced, so that nothing in it looks like a message.
pub fn render_markdown(history: &History) -> String {
    let mut out = format!("# {}\n\n", line(history.title()));
    out.push_str(&format!(
        "- session: `{}`\n- begun: {}\n- persona: {}, model: `{}`\n- used: {} turns, {} tokens read, {} written\n",
        line(&history.session),
        format_utc(history.started_at),
        line(&history.persona),
        line(&history.model),
        history.used.turns,
        history.used.input_tokens,
        history.used.output_tokens,
    ));
    if history.dry_run {
        out.push_str("- a dry run: nothing was executed\n");
    }
    for message in &history.messages {
        out.push_str(&section(message));
    }
    out
}

fn section(message: &HistoryMessage) -> String {
    let when = format_utc(message.timestamp);
    match (&message.result, message.role) {
        (Some(result), _) => {
            let tool = line(&result.tool);
            format!(
                "\n## Tool `{tool}`: {}\n\n{when} · call `{}`\n\n{}",
                result.outcome,
                result.call,
                fenced("text", &message.content)
            )
        }
        (None, MessageRole::User) => format!("\n## Person\n\n{when}\n\n{}", quoted(&message.content)),
        (None, _) => {
            let mut out = format!("\n## Model\n\n{when}\n\n");
            for thought in &message.thoughts {
                out.push_str(&format!(
                    "<details><summary>thought</summary>\n\n{}</details>\n\n",
                    fenced("text", thought)
                ));
            }
            if !message.content.is_empty() {
                out.push_str(&quoted(&message.content));
            }
            for call in &message.calls {
                let why = call.reason.as_deref().map(|why| format!(" ({})", line(why))).unwrap_or_default();
                let arguments = serde_json::to_string_pretty(&Value::Object(call.arguments.clone()));
                out.push_str(&format!(
                    "\nasks for `{}`{why}, call `{}`:\n\n{}",
                    line(&call.tool),
                    call.call,
                    fenced("json", &arguments.unwrap_or_default())
                ));
            }
            out
        }
    }
}

/// Quotes a message, so that a heading in it does not look like a heading of the document.
fn quoted(text: &str) -> String {
    // In Markdown a single carriage return also ends a line.
    text.replace('\r', "\n")
        .lines()
        .map(|line| if line.is_empty() { ">\n".to_owned() } else { format!("> {line}\n") })
        .collect()
}

/// Fences a text with more backticks than any run in it.
fn fenced(tag: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{tag}\n{text}{end}{fence}\n")
}

/// Returns the text on one line, without characters that would end the markup around it.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect()
}

//! Renders a conversation as one HTML page, which must neither load anything nor run scripts.

use byleave_gate::core::time_format::format_utc;
use serde_json::Value;

use super::{History, HistoryMessage, MessageRole};

const STYLE: &str = include_str!("style.css");

/// Renders a conversation as one page. All messages are escaped as text.
pub fn render_html(history: &History) -> String {
    let title = escaped(history.title());
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<p class=\"about\">session {} · begun {} · {} · {} · {} turns, {} tokens read, {} written{}</p>\n",
        escaped(&history.session),
        format_utc(history.started_at),
        escaped(&history.persona),
        escaped(&history.model),
        history.used.turns,
        history.used.input_tokens,
        history.used.output_tokens,
        if history.dry_run { " · a dry run: nothing was executed" } else { "" },
    );
    for message in &history.messages {
        out.push_str(&section(message));
    }
    out.push_str("</body></html>\n");
    out
}

fn section(message: &HistoryMessage) -> String {
    let when = format_utc(message.timestamp);
    if let Some(result) = &message.result {
        let (tool, outcome) = (escaped(&result.tool), escaped(&result.outcome));
        return format!(
            "<section class=\"tool\"><h2>{tool}: {outcome}</h2><p class=\"about\">{when} · call {}</p>\
             <details open><summary>result</summary><pre>{}</pre></details></section>\n",
            result.call,
            escaped(&message.content)
        );
    }
    let (class, who) = match message.role {
        MessageRole::User => ("user", "Person"),
        MessageRole::Assistant | MessageRole::Tool => ("assistant", "Model"),
    };
    let mut out = format!("<section class=\"{class}\"><h2>{who}</h2><p class=\"about\">{when}</p>");
    for thought in &message.thoughts {
        out.push_str(&format!(
            "<details><summary>thought</summary><pre>{}</pre></details>",
            escaped(thought)
        ));
    }
    out.push_str(&format!("<div class=\"words\">{}</div>", escaped(&message.content)));
    for call in &message.calls {
        let why = call.reason.as_deref().map(|why| format!(": {}", escaped(why))).unwrap_or_default();
        let arguments =
            serde_json::to_string_pretty(&Value::Object(call.arguments.clone())).unwrap_or_default();
        out.push_str(&format!(
            "<p>asks for <b>{}</b>{why}</p><pre>{}</pre>",
            escaped(&call.tool),
            escaped(&arguments)
        ));
    }
    out.push_str("</section>\n");
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

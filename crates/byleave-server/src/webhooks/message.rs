//! The messages to a webhook: the list data of questions without secrets, and the address to answer at.

use byleave_gate::audit_log::QuestionItem;
use byleave_gate::redact::redact;
use serde_json::{Value, json};

use super::WebhookFormat;
use crate::api_types::kind_as_str;

/// The maximum length of a text.
const TEXT_CHARS_MAX: usize = 500;

/// A message.
pub(super) struct WebhookMessage {
    /// The id, which is the same for repeated deliveries.
    pub(super) id: String,
    /// The kind of event.
    kind: &'static str,
    data: Value,
    text: String,
}

impl WebhookMessage {
    /// Creates the message that a question was asked. `short_text` is the question as its card says it, if it is known.
    pub(super) fn question_asked(
        item: &QuestionItem,
        short_text: Option<&str>,
        tenant: &str,
        link: &str,
    ) -> Self {
        let listing = &item.call_summary;
        let (agent, tool, summary) = (cut(&listing.agent), cut(&listing.tool), cut(&listing.summary));
        // A message goes to another service, so secrets are removed from the command as well.
        let short_text = short_text.map_or_else(|| summary.clone(), |text| cut(&redact(text)));
        let text = format!(
            "Byleave: {} asks to use {}: {}\nAnswer: <{link}>",
            code(&agent),
            code(&tool),
            code(&short_text)
        );
        let data = json!({
            "tenant": tenant,
            "question": item.question,
            "kind": kind_as_str(item.kind),
            "tool": tool,
            "agent": agent,
            "summary": summary,
            "short_text": short_text,
            "asked_at": item.asked_at,
            "expires_at": item.expires_at,
            "link": link,
        });
        Self { id: format!("question_{}", item.question), kind: "question.asked", data, text }
    }

    /// Creates the message that this many questions are open. `is_all` is false if there are more.
    pub(super) fn questions_open(id: String, count: usize, is_all: bool, tenant: &str, link: &str) -> Self {
        let many = if is_all { count.to_string() } else { format!("more than {count}") };
        let wait = if count == 1 { "open question" } else { "open questions" };
        let text = format!("Byleave: {many} {wait}\nAnswer: <{link}>");
        let data = json!({ "tenant": tenant, "count": count, "all": is_all, "link": link });
        Self { id, kind: "questions.open", data, text }
    }

    /// Creates a test message.
    pub(super) fn test(id: String, tenant: &str) -> Self {
        let text = "Byleave: this is a test message".to_owned();
        Self { id, kind: "webhook.test", data: json!({ "tenant": tenant }), text }
    }

    /// Returns the body to send.
    pub(super) fn body(&self, form: WebhookFormat) -> Vec<u8> {
        let body = match form {
            WebhookFormat::Generic => json!({ "type": self.kind, "data": self.data }),
            WebhookFormat::Slack => json!({ "text": self.text }),
        };
        body.to_string().into_bytes()
    }
}

/// Returns the beginning of a text, on one line.
fn cut(text: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    let mut cut: String = text.chars().take(TEXT_CHARS_MAX).map(line).collect();
    if text.chars().nth(TEXT_CHARS_MAX).is_some() {
        cut.push('…');
    }
    cut
}

/// Formats untrusted text as code, in which nothing is a link, a mention or markup. This works for Slack, which needs three
/// characters escaped, and for services that accept Slack's format but read it as Markdown.
fn code(text: &str) -> String {
    let mut out = String::from("`");
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '`' => out.push('\''),
            // Mentions nobody, even if code is not treated as code.
            '@' => out.push_str("@ "),
            _ => out.push(c),
        }
    }
    out.push('`');
    out.replace("://", ": //").replace("www.", "www .")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_makes_no_links_and_calls_nobody() {
        assert_eq!(code("rm a & b"), "`rm a &amp; b`");
        for hostile in [
            "<!channel> look",
            "<https://evil.example/|the question>",
            "<@U024BE7LH>",
            "` <!here> `",
            "@channel @all",
            "[the question](https://evil.example)",
            "https://evil.example www.evil.example",
            "&lt;!channel&gt;",
        ] {
            let said = code(hostile);
            let inner = said.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap();
            assert!(!inner.contains(['<', '>', '`']), "{said}");
            assert!(!inner.contains("://") && !inner.contains("www."), "{said}");
            assert!(!inner.contains("@c") && !inner.contains("@a") && !inner.contains("@U"), "{said}");
        }
        assert_eq!(code("&lt;!channel&gt;"), "`&amp;lt;!channel&amp;gt;`");
        assert_eq!(cut("a\nb\u{1b}[31m"), "a b [31m");
        assert_eq!(cut(&"x".repeat(501)).chars().count(), 501);
    }
}

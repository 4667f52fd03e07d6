//! Redacts secrets from text by the common patterns of tokens, keys and passwords.
//!
//! It uses patterns, not meaning. A secret that looks like an ordinary word passes, and an ordinary word is sometimes
//! redacted. It must never be the only protection between a secret and the model.

mod output;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

pub use output::{RedactedOutput, redact_output};

/// Replaces all text that looks like a secret by a mark that says what it was.
///
/// Redaction is idempotent.
pub fn redact(text: &str) -> String {
    redact_cow(text).into_owned()
}

/// Redacts every text in a value, and clears every field that is named like a secret.
pub fn redact_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redact(text)),
        Value::Array(items) => items.iter().map(redact_value).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, item)| (redact(name), redact_field(name, item))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn redact_field(name: &str, item: &Value) -> Value {
    match item {
        Value::String(text) if !text.is_empty() && !has_placeholder(text) && SECRET_NAME.is_match(name) => {
            Value::String(placeholder("secret"))
        }
        Value::Number(_) if SECRET_NAME.is_match(name) && !COUNT_NAME.is_match(name) => {
            Value::String(placeholder("secret"))
        }
        item => redact_value(item),
    }
}

fn redact_cow(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    // Most text has no secret, so a quick check for fixed words avoids the patterns.
    if !PREFILTER.is_match(&text) {
        return text;
    }
    for shape in SHAPES.iter() {
        if let Cow::Owned(changed) = shape.apply(&text) {
            text = Cow::Owned(changed);
        }
    }
    text
}

fn placeholder(what: &str) -> String {
    format!("[redacted: {what}]")
}

/// Returns all marks.
fn placeholders() -> impl Iterator<Item = String> {
    WHOLE_PATTERNS.iter().chain(GROUP_PATTERNS).map(|(what, _)| placeholder(what))
}

fn has_placeholder(text: &str) -> bool {
    text.starts_with("[redacted: ")
}

struct SecretPattern {
    kind: &'static str,
    regex: Regex,
    /// Whether the secret is only the group `secret`, and only if it looks like one. Otherwise it is the whole match.
    has_secret_group: bool,
}

impl SecretPattern {
    fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.regex.replace_all(text, |found: &Captures<'_>| {
            let whole = found.get(0).map_or("", |m| m.as_str());
            if !self.has_secret_group {
                return placeholder(self.kind);
            }
            let Some(secret) = found.name("secret").map(|m| m.as_str()) else { return whole.to_owned() };
            let quote = found.name("quote").map_or("", |m| m.as_str());
            if quote.is_empty() && !looks_like_secret(secret) || has_placeholder(secret) {
                return whole.to_owned();
            }
            let before = found.name("before").map_or("", |m| m.as_str());
            let after = found.name("after").map_or("", |m| m.as_str());
            format!("{before}{quote}{}{after}", placeholder(self.kind))
        })
    }
}

/// Checks whether the unquoted right side of a `token: …` is a value, and not a type, a call or a reference in source code.
fn looks_like_secret(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "any",
        "bool",
        "boolean",
        "bytes",
        "false",
        "int",
        "no",
        "none",
        "null",
        "number",
        "optional",
        "required",
        "str",
        "string",
        "true",
        "u64",
        "undefined",
        "usize",
        "vec",
        "void",
        "yes",
    ];
    let code = |c: char| matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | '{' | '}' | '$' | '*' | '|');
    let a_type = value.starts_with(|c: char| c.is_ascii_uppercase())
        && value.chars().all(|c| c.is_ascii_alphabetic())
        && value.chars().any(|c| c.is_ascii_lowercase());
    let reference = value.contains("::") || value.starts_with([':', '&']) || value.starts_with("self.");
    !(value.contains(code) || a_type || reference || WORDS.contains(&value.to_lowercase().as_str()))
}

/// The kinds of secrets with their patterns. The order matters: more specific patterns come first.
const WHOLE_PATTERNS: &[(&str, &str)] = &[
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    ("JSON web token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"),
    ("AWS key", r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA)[A-Z0-9]{16}\b"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("GitLab token", r"\bgl[a-z]{2,5}-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"\b(?:xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,})"),
    ("Slack webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]+"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{16,}"),
    ("OpenAI key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("Google key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}"),
];

const GROUP_PATTERNS: &[(&str, &str)] = &[
    ("authorization", r"(?i)(?<before>\b(?:bearer|basic)\s+)(?<secret>[A-Za-z0-9._~+/=-]{16,})"),
    ("password", r"(?<before>[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)(?<secret>[^\s/@]+)(?<after>@)"),
    // NAME = "value", NAME: 'value', "NAME": "value"; then the same without quotes.
    (
        "secret",
        r#"(?i)(?<before>\b[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)\b\\?["']?\s*(?::|=>?)\s*)(?<quote>\\?["'`])(?<secret>[^"'`\\\r\n]{3,})(?<after>\\?["'`])"#,
    ),
    (
        "secret",
        r#"(?i)(?<before>\b[\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)["']?(?:\s*:\s+|:|\s*=\s*))(?<secret>[^\s"'`,;&]{4,})"#,
    ),
];

/// A fixed part of every pattern, to skip text without any of them quickly.
#[expect(clippy::expect_used, reason = "a constant; a test uses all of it")]
static PREFILTER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)private key|eyJ|AKIA|ASIA|AGPA|AIDA|AROA|ANPA|ANVA|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|xox|xapp-|hooks\.slack|sk-|k_live|k_test|AIza|npm_|bearer|basic|://|passw|passphrase|secret|token|key|credential",
    )
    .expect("a valid expression")
});

#[expect(clippy::expect_used, reason = "constants; a test uses every one of them")]
static SHAPES: LazyLock<Vec<SecretPattern>> = LazyLock::new(|| {
    let compile = |table: &'static [(&str, &str)], named: bool| {
        table.iter().map(move |(what, regex)| {
            let regex = Regex::new(regex).expect("a shape is a valid expression");
            SecretPattern { kind: what, regex, has_secret_group: named }
        })
    };
    compile(WHOLE_PATTERNS, false).chain(compile(GROUP_PATTERNS, true)).collect()
});

#[expect(clippy::expect_used, reason = "a constant; a test uses it")]
static SECRET_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|^authorization)$")
        .expect("a valid expression")
});

/// Names of numbers that count tokens.
#[expect(clippy::expect_used, reason = "a constant; a test uses it")]
static COUNT_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[_-])(?:max|min|num|n|count|per|next|total)[_-]?token$")
        .expect("a valid expression")
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(len: usize) -> String {
        "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7".chars().cycle().take(len).collect()
    }

    #[test]
    fn common_secrets_go_and_say_what_they_were() {
        let upper = fill(16).to_uppercase();
        let cases = [
            ("AWS key", format!("AKIA{upper}")),
            ("GitHub token", format!("ghp_{}", fill(36))),
            ("GitHub token", format!("github_pat_{}", fill(40))),
            ("GitLab token", format!("glpat-{}", fill(20))),
            ("Slack token", format!("xoxb-{}", fill(24))),
            ("Slack webhook", format!("https://hooks.slack.com/services/T0/B0/{}", fill(24))),
            ("Anthropic key", format!("sk-ant-api03-{}", fill(40))),
            ("OpenAI key", format!("sk-proj-{}", fill(40))),
            ("OpenAI key", format!("sk-{}", fill(48))),
            ("Stripe key", format!("sk_live_{}", fill(24))),
            ("Google key", format!("AIza{}", fill(35))),
            ("npm token", format!("npm_{}", fill(36))),
            ("JSON web token", format!("eyJ{}.eyJ{}.{}", fill(20), fill(30), fill(20))),
            (
                "private key",
                format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", fill(90)),
            ),
            ("private key", format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n(cut)", fill(90))),
        ];
        for (what, secret) in &cases {
            let redacted = redact(&format!("before {secret}"));
            assert_eq!(redacted, format!("before [redacted: {what}]"));
            assert_eq!(redact(&redacted), redacted, "twice is once");
        }
    }

    #[test]
    fn pairs_keep_their_name_and_lose_their_value() {
        let cases = [
            ("password=hunter2", "password=[redacted: secret]"),
            ("password: swordfish\nuser: ann", "password: [redacted: secret]\nuser: ann"),
            ("token: abcd1234", "token: [redacted: secret]"),
            ("DB_PASSWORD='correct horse'", "DB_PASSWORD='[redacted: secret]'"),
            (r#"{"api_key":"k-1-2-3"}"#, r#"{"api_key":"[redacted: secret]"}"#),
            (r#"{\"token\": \"abc123\"}"#, r#"{\"token\": \"[redacted: secret]\"}"#),
            ("a=1&access_token=zzz999&b=2", "a=1&access_token=[redacted: secret]&b=2"),
            ("aws_secret_access_key = abc/def+ghi", "aws_secret_access_key = [redacted: secret]"),
            ("Authorization: Bearer abcdefghijklmnop1234", "Authorization: Bearer [redacted: authorization]"),
            ("postgres://ann:s3cret@db/x", "postgres://ann:[redacted: password]@db/x"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text), expected);
            assert_eq!(redact(expected), expected, "twice is once");
        }
    }

    #[test]
    fn source_code_stays_readable() {
        for text in [
            "fn login(password: &str, token: CancellationToken) -> Result<(), Error>",
            "let token = parser.next_token();",
            "pub password: Option<String>,",
            "const tokens: string[] = [];",
            "password: $DB_PASSWORD",
            "the tokenizer reads a token; the password is asked for",
            "https://example.org:8080/a@b",
            "token::Kind",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn values_are_redacted_through_and_through() {
        let key = format!("ghp_{}", fill(36));
        let value = json!({
            "user": "ann", "password": "x", "session_token": 12345678, "max_token": 100, "empty_secret": "",
            "list": [{"note": format!("use {key}")}], (key): true,
        });
        let expected = json!({
            "user": "ann", "password": "[redacted: secret]", "session_token": "[redacted: secret]",
            "max_token": 100, "empty_secret": "",
            "list": [{"note": "use [redacted: GitHub token]"}], "[redacted: GitHub token]": true,
        });
        assert_eq!(redact_value(&value), expected);
        assert_eq!(redact_value(&expected), expected);
    }
}

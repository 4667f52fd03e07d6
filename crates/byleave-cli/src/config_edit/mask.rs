//! Masks settings for display: values in environments and headers, and everything else that looks like a secret.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged as _;
use toml_edit::{Document, Item, TableLike};

use super::FileFormat;
use super::json::OPTIONS;

/// The replacement for a secret.
const MASK: &str = "****";
/// Tables whose values are taken as secrets.
const SECRET: [&str; 5] = ["env", "envs", "headers", "http_headers", "requestInit"];

/// Returns the text for display. A text that does not parse is not shown at all.
pub(crate) fn mask_secrets(format: FileFormat, text: &str) -> String {
    let ranges = match format {
        FileFormat::Json => json(text),
        FileFormat::Toml => toml(text),
        FileFormat::Text => Some(Vec::new()),
        FileFormat::Yaml => return byleave_gate::redact::redact(&yaml(text)),
    };
    let Some(mut ranges) = ranges else { return "(the file cannot be parsed)\n".to_owned() };
    ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
    let mut shown = text.to_owned();
    for range in ranges {
        shown.replace_range(range, &format!("\"{MASK}\""));
    }
    byleave_gate::redact::redact(&shown)
}

/// Checks whether a text is only the name of a variable, which is not a secret.
fn is_reference(text: &str) -> bool {
    let inner = text.strip_prefix("Bearer ").unwrap_or(text);
    let inner = inner.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|name| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_'))
}

type ByteRanges = Vec<std::ops::Range<usize>>;

fn json(text: &str) -> Option<ByteRanges> {
    let mut found = Vec::new();
    if text.trim().is_empty() {
        return Some(found);
    }
    let parsed = jsonc_parser::parse_to_ast(text, &jsonc_parser::CollectOptions::default(), &OPTIONS).ok()?;
    json_value(&parsed.value?, false, &mut found);
    Some(found)
}

fn json_value(value: &ast::Value<'_>, is_secret: bool, found: &mut ByteRanges) {
    match value {
        ast::Value::Object(object) => {
            for prop in &object.properties {
                json_value(&prop.value, is_secret || SECRET.contains(&prop.name.as_str()), found);
            }
        }
        ast::Value::Array(array) => array.elements.iter().for_each(|item| json_value(item, is_secret, found)),
        ast::Value::StringLit(text) if is_secret && is_reference(&text.value) => {}
        other if is_secret => found.push(other.range().start..other.range().end),
        _ => {}
    }
}

fn toml(text: &str) -> Option<ByteRanges> {
    let document = Document::parse(text).ok()?;
    let mut found = Vec::new();
    toml_table(document.as_table(), false, &mut found);
    Some(found)
}

fn toml_table(table: &dyn TableLike, is_secret: bool, found: &mut ByteRanges) {
    for (key, item) in table.iter() {
        let is_secret = is_secret || SECRET.contains(&key);
        match item {
            Item::Value(toml_edit::Value::InlineTable(below)) => toml_table(below, is_secret, found),
            Item::Value(toml_edit::Value::String(text)) if is_secret && is_reference(text.value()) => {}
            Item::Value(value) if is_secret => found.extend(value.span()),
            Item::Table(below) => toml_table(below, is_secret, found),
            Item::ArrayOfTables(all) => all.iter().for_each(|below| toml_table(below, is_secret, found)),
            Item::Value(_) | Item::None => {}
        }
    }
}

/// Masks by lines: everything indented further than the name of such a table, except names.
fn yaml(text: &str) -> String {
    let mut secret_from: Option<usize> = None;
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let indent = line.chars().take_while(|letter| *letter == ' ').count();
        let body = line.trim();
        if !body.is_empty() && secret_from.is_some_and(|from| indent <= from) {
            secret_from = None;
        }
        let is_masked = secret_from.is_some() && !body.is_empty();
        let (key, value) = body.split_once(':').unwrap_or((body, ""));
        let key_is_secret = SECRET.contains(&key.trim_matches(['"', '\'', ' ']));
        if secret_from.is_none() && key_is_secret {
            secret_from = Some(indent);
        }
        let value = value.trim();
        let hides = match (is_masked, key_is_secret) {
            (true, _) => !is_reference(value.trim_matches('"')),
            // The whole table is on the same line.
            (false, true) => !value.is_empty() && value != "{}",
            (false, false) => false,
        };
        match hides {
            true if body.contains(':') => shown.push_str(&format!("{}{key}: {MASK}\n", " ".repeat(indent))),
            true => shown.push_str(&format!("{}{MASK}\n", " ".repeat(indent))),
            false => shown.push_str(line),
        }
    }
    shown
}

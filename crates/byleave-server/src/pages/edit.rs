//! Arguments, or a held result, as fields that a person edits. A text is a text field; everything else is JSON.

use byleave_gate::core::escape::{EscapeLevel, escape_json, is_printable, make_visible};
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::QuestionView;
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::form::FormFields;
use crate::problem::{Problem, ProblemKind};

/// The maximum number of fields. A larger value is edited as one text.
const FIELDS_MAX: usize = 24;
const WHOLE: &str = "whole";
const MORE: &str = "more";

/// Returns the value to edit.
fn value(sheet: &QuestionView) -> Map<String, Value> {
    let value = match (sheet.question.kind, &sheet.output) {
        (QuestionKind::Release, Some(output)) => serde_json::to_value(output).unwrap_or_default(),
        _ => sheet.arguments.clone(),
    };
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Checks whether a browser returns a text unchanged, and whether it has no invisible characters.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| matches!(c, '\n' | '\t') || is_printable(c))
}

fn in_fields(value: &Map<String, Value>) -> bool {
    (1..=FIELDS_MAX).contains(&value.len())
        && value.keys().all(|key| make_visible(key, EscapeLevel::Name) == *key)
}

fn as_json(value: &Value) -> String {
    escape_json(&format!("{value:#}"))
}

/// Renders the fields.
pub(super) fn render_fields(sheet: &QuestionView) -> Markup {
    let value = value(sheet);
    if !in_fields(&value) {
        let text = as_json(&Value::Object(value));
        return html! { (area(WHOLE, "Everything, as JSON", &text)) };
    }
    html! {
        @for (key, value) in &value {
            @match value {
                Value::String(text) if is_plain(text) => (area(&format!("text:{key}"), key, text)),
                other => (area(&format!("json:{key}"), &format!("{key}, as JSON; leave empty to omit"), &as_json(other))),
            }
        }
        (area(MORE, "Other fields, as a JSON object", "{}"))
    }
}

fn area(name: &str, label: &str, text: &str) -> Markup {
    let rows = text.lines().count().clamp(1, 20) + 1;
    html! {
        label for={ "edit-" (name) } { (label) }
        // HTML drops a line feed right after the tag. Without this one, the first line feed of the text would be lost.
        textarea id={ "edit-" (name) } name=(name) rows=(rows) spellcheck="false" autocomplete="off" { "\n" (text) }
    }
}

/// Reads the edited value from the fields.
pub(super) fn parse_fields(sheet: &QuestionView, fields: &FormFields) -> Result<Map<String, Value>, Problem> {
    let original = value(sheet);
    let text = |name: &str| fields.require(name).map(|text| text.replace("\r\n", "\n"));
    if !in_fields(&original) {
        return object(WHOLE, &text(WHOLE)?);
    }
    let mut edited = Map::new();
    for (key, value) in &original {
        match value {
            Value::String(known) if is_plain(known) => {
                edited.insert(key.clone(), Value::String(text(&format!("text:{key}"))?));
            }
            _ => {
                let said = text(&format!("json:{key}"))?;
                if !said.trim().is_empty() {
                    edited.insert(key.clone(), json(key, &said)?);
                }
            }
        }
    }
    for (key, value) in object(MORE, &text(MORE)?)? {
        if edited.insert(key.clone(), value).is_some() {
            return Err(Problem::new(ProblemKind::Unusable, format!("the field `{key}` occurs twice")));
        }
    }
    Ok(edited)
}

fn json(name: &str, text: &str) -> Result<Value, Problem> {
    serde_json::from_str(text)
        .map_err(|error| Problem::new(ProblemKind::Unusable, format!("`{name}` is not valid JSON: {error}")))
}

fn object(name: &str, text: &str) -> Result<Map<String, Value>, Problem> {
    match json(name, text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(Problem::new(ProblemKind::Unusable, format!("`{name}` is not a JSON object"))),
    }
}

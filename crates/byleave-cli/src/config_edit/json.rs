//! JSON with comments and trailing commas, as agents and editors accept it. Nothing looser than that.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

use super::{EditError, EditOp, ordered};

/// The options with which VS Code reads its own settings.
pub(super) const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn read(text: &str) -> Result<Value, EditError> {
    jsonc_parser::parse_to_serde_value(text, &OPTIONS).map_err(unreadable)
}

pub(super) fn apply(text: &str, op: &EditOp) -> Result<String, EditError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(text, &OPTIONS).map_err(unreadable)?;
    let top = root.object_value().ok_or(EditError::UnsupportedSyntax)?;
    match op {
        EditOp::Set { at, value } => {
            let (last, above) = at.split_last().ok_or(EditError::UnsupportedSyntax)?;
            let object = made(&top, above)?;
            match object.get(last) {
                Some(there) => there.set_value(input(value)),
                None => drop(object.append(last, input(value))),
            }
        }
        EditOp::Remove { at } => {
            let (last, above) = at.split_last().ok_or(EditError::UnsupportedSyntax)?;
            let there = found(&top, above).and_then(|object| object.get(last));
            if let Some(there) = there {
                there.remove();
            }
        }
        EditOp::Append { at, value } => {
            let (last, above) = at.split_last().ok_or(EditError::UnsupportedSyntax)?;
            let object = made(&top, above)?;
            let is_null = |node: CstNode| node.as_null_keyword().is_some();
            let list = match object.get(last).and_then(|there| there.value()) {
                Some(node) if is_null(node.clone()) => Some(object.array_value_or_set(last)),
                _ => object.array_value_or_create(last),
            };
            let list = list.ok_or_else(|| EditError::UnexpectedStructure(at.join(".")))?;
            if matches!(value, Value::Object(_)) {
                list.ensure_multiline();
            }
            list.append(input(value));
        }
        EditOp::Drop { at, value } => {
            let Some((last, above)) = at.split_last() else { return Err(EditError::UnsupportedSyntax) };
            let list = found(&top, above).and_then(|object| object.array_value(last));
            let items = list.map(|list| list.elements()).unwrap_or_default();
            for item in items.into_iter().filter(|item| item.to_serde_value().as_ref() == Some(value)) {
                item.remove();
            }
        }
    }
    Ok(root.to_string())
}

fn found(top: &CstObject, at: &[String]) -> Option<CstObject> {
    at.iter().try_fold(top.clone(), |object, key| object.object_value(key))
}

fn made(top: &CstObject, at: &[String]) -> Result<CstObject, EditError> {
    at.iter().try_fold(top.clone(), |object, key| {
        let is_null = object
            .get(key)
            .and_then(|there| there.value())
            .is_some_and(|node| node.as_null_keyword().is_some());
        let below =
            if is_null { Some(object.object_value_or_set(key)) } else { object.object_value_or_create(key) };
        below.ok_or_else(|| EditError::UnexpectedStructure(at.join(".")))
    })
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(yes) => CstInputValue::Bool(*yes),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| (key.clone(), input(value));
            CstInputValue::Object(ordered(fields).into_iter().map(field).collect())
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn unreadable(error: jsonc_parser::errors::ParseError) -> EditError {
    EditError::Unreadable(error.to_string())
}

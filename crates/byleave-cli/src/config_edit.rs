//! Edits other programs' settings in place: JSON with comments, TOML and YAML.
//!
//! An edit is a list of small operations. Each is applied to the text, so that comments, order, indentation and line ends stay.
//! The same operations are applied to the parsed value. A text that does not parse to exactly that value is never returned: in
//! doubt, nothing is changed.

mod json;
mod mask;
pub(crate) mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(crate) use self::mask::mask_secrets;

/// The key of the whole content of a [`FileFormat::Text`].
pub(crate) const TEXT: &str = "text";

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FileFormat {
    Json,
    Toml,
    Yaml,
    /// A text that is written as a whole. Its value has one key, `text`.
    Text,
}

/// One operation. `at` is the path from the top, key by key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EditOp {
    /// Sets a value and replaces what was there. Missing parents are created.
    Set { at: Vec<String>, value: Value },
    /// Removes the value.
    Remove { at: Vec<String> },
    /// Appends a value to the list.
    Append { at: Vec<String>, value: Value },
    /// Removes every item with this value from the list.
    Drop { at: Vec<String>, value: Value },
}

/// The reason why a text was not edited.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// It does not parse in its format.
    #[error("the file cannot be parsed: {0}")]
    Unreadable(String),
    /// A value of another type is where the change would go.
    #[error("`{0}` has an unexpected structure")]
    UnexpectedStructure(String),
    /// It is written in a way that cannot be changed without touching the rest.
    #[error("the file uses syntax that byleave cannot edit without changing other parts")]
    UnsupportedSyntax,
}

/// Parses a text. An empty text is an empty table.
pub(crate) fn read(format: FileFormat, text: &str) -> Result<Value, EditError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    match format {
        FileFormat::Json => json::read(text),
        FileFormat::Toml => toml::read(text),
        FileFormat::Yaml => yaml::read(text),
        FileFormat::Text => Ok(json!({ TEXT: text })),
    }
}

/// Returns the text after these operations, with everything else unchanged.
pub(crate) fn apply(format: FileFormat, text: &str, ops: &[EditOp]) -> Result<String, EditError> {
    let wanted = apply_to_value(&read(format, text)?, ops)?;
    let (mark, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
    let mut edited = body.to_owned();
    for op in ops {
        edited = match format {
            FileFormat::Json => json::apply(&edited, op)?,
            FileFormat::Toml => toml::apply(&edited, op)?,
            FileFormat::Yaml => yaml::apply(&edited, op)?,
            FileFormat::Text => whole_text(op)?,
        };
    }
    if read(format, &edited)? != wanted {
        return Err(EditError::UnsupportedSyntax);
    }
    Ok(format!("{mark}{edited}"))
}

/// Returns the value after these operations.
pub(crate) fn apply_to_value(value: &Value, ops: &[EditOp]) -> Result<Value, EditError> {
    let mut value = value.clone();
    for op in ops {
        match op {
            EditOp::Set { at, value: new } => *make(&mut value, at)? = new.clone(),
            EditOp::Remove { at } => remove(&mut value, at),
            EditOp::Append { at, value: new } => {
                let list = make(&mut value, at)?;
                if list.is_null() {
                    *list = Value::Array(Vec::new());
                }
                list.as_array_mut()
                    .ok_or_else(|| EditError::UnexpectedStructure(at.join(".")))?
                    .push(new.clone());
            }
            EditOp::Drop { at, value: old } => {
                if let Some(list) = find_mut(&mut value, at).and_then(Value::as_array_mut) {
                    list.retain(|item| item != old);
                }
            }
        }
    }
    Ok(value)
}

/// Returns the operations that revert these, for a file that was `before` and is `current` now. Later changes by others are kept.
pub(crate) fn inverse(ops: &[EditOp], before: &Value, current: &Value) -> Vec<EditOp> {
    let mut back: Vec<EditOp> = ops.iter().rev().filter_map(|op| inverse_of(op, before, current)).collect();
    // Tables and lists that were created for us and are empty now are removed too, innermost first.
    let Ok(mut rest) = apply_to_value(current, &back) else { return back };
    for op in ops {
        let (EditOp::Set { at, .. } | EditOp::Append { at, .. }) = op else { continue };
        for length in (1..=at.len()).rev() {
            let above = at.get(..length).unwrap_or_default();
            let is_ours = find(before, above).is_none();
            if is_ours && find(&rest, above).is_some_and(is_hollow) {
                let gone = EditOp::Remove { at: above.to_vec() };
                remove(&mut rest, above);
                back.push(gone);
            }
        }
    }
    back
}

fn inverse_of(op: &EditOp, before: &Value, current: &Value) -> Option<EditOp> {
    match op {
        EditOp::Set { at, value } if find(current, at) == Some(value) => Some(match find(before, at) {
            Some(old) => EditOp::Set { at: at.clone(), value: old.clone() },
            None => EditOp::Remove { at: at.clone() },
        }),
        EditOp::Remove { at } if find(current, at).is_none() => {
            find(before, at).map(|old| EditOp::Set { at: at.clone(), value: old.clone() })
        }
        EditOp::Append { at, value } if holds(current, at, value) && !holds(before, at, value) => {
            Some(EditOp::Drop { at: at.clone(), value: value.clone() })
        }
        EditOp::Drop { at, value } if holds(before, at, value) && !holds(current, at, value) => {
            Some(EditOp::Append { at: at.clone(), value: value.clone() })
        }
        _ => None,
    }
}

/// Returns the value at a path.
pub(crate) fn find<'a>(value: &'a Value, at: &[impl AsRef<str>]) -> Option<&'a Value> {
    at.iter().try_fold(value, |value, key| value.as_object()?.get(key.as_ref()))
}

/// Returns the fields of a table in a familiar order that does not depend on build features.
fn ordered(fields: &Map<String, Value>) -> Vec<(&String, &Value)> {
    const FIRST: [&str; 11] =
        ["version", "name", "matcher", "type", "command", "cmd", "bash", "args", "url", "uri", "cwd"];
    let rank = |key: &str| FIRST.iter().position(|first| *first == key).unwrap_or(FIRST.len());
    let mut all: Vec<(&String, &Value)> = fields.iter().collect();
    all.sort_by(|a, b| (rank(a.0), a.0).cmp(&(rank(b.0), b.0)));
    all
}

/// Returns the text that an operation writes as a whole.
fn whole_text(op: &EditOp) -> Result<String, EditError> {
    match op {
        EditOp::Set { at, value: Value::String(text) } if *at == [TEXT] => Ok(text.clone()),
        EditOp::Remove { .. } => Ok(String::new()),
        _ => Err(EditError::UnsupportedSyntax),
    }
}

/// Splits a path to an entry of a top-level table. Formats that are edited by whole entries support only such paths.
fn two(at: &[String]) -> Result<(&str, &str), EditError> {
    match at {
        [outer, inner] => Ok((outer, inner)),
        _ => Err(EditError::UnsupportedSyntax),
    }
}

fn holds(value: &Value, at: &[String], item: &Value) -> bool {
    find(value, at).and_then(Value::as_array).is_some_and(|list| list.contains(item))
}

fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Null => true,
        _ => false,
    }
}

fn find_mut<'a>(value: &'a mut Value, at: &[String]) -> Option<&'a mut Value> {
    at.iter().try_fold(value, |value, key| value.as_object_mut()?.get_mut(key))
}

/// Returns the value at a path, and creates it if it is missing.
fn make<'a>(value: &'a mut Value, at: &[String]) -> Result<&'a mut Value, EditError> {
    at.iter().try_fold(value, |value, key| {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let fields = value.as_object_mut().ok_or_else(|| EditError::UnexpectedStructure(at.join(".")))?;
        Ok(fields.entry(key.clone()).or_insert(Value::Null))
    })
}

fn remove(value: &mut Value, at: &[impl AsRef<str>]) {
    let Some((last, above)) = at.split_last() else { return };
    let found = above.iter().try_fold(value, |value, key| value.as_object_mut()?.get_mut(key.as_ref()));
    if let Some(fields) = found.and_then(Value::as_object_mut) {
        fields.remove(last.as_ref());
    }
}

#[cfg(test)]
mod tests;

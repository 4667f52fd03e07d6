//! Drops named fields from structured results (R11).

use serde_json::Value;

use crate::review::{Opinion, OutputReviewer, OutputSubject, output_reviewer};

/// Returns a reviewer of results that drops every field with one of these names from the data, at any depth. It does the
/// same in text that is JSON. Names are compared case-insensitively.
pub fn drop_fields(names: impl IntoIterator<Item = impl Into<String>>) -> impl OutputReviewer {
    let names: Vec<String> = names.into_iter().map(|name| name.into().to_lowercase()).collect();
    output_reviewer("drop-fields", move |subject: OutputSubject<'_>| {
        let before = subject.output;
        let mut after = before.clone();
        if let Some(data) = &mut after.data {
            drop_from(data, &names);
        }
        if let Some(text) = without_fields(&before.text, &names) {
            after.text = text;
        }
        after.error = after.error.map(|error| without_fields(&error, &names).unwrap_or(error));
        if after == *before {
            return Opinion::Pass;
        }
        Opinion::change(after, format!("dropped fields: {}", names.join(", ")))
    })
}

/// Returns the text without the fields, if it is JSON that has them.
fn without_fields(text: &str, names: &[String]) -> Option<String> {
    let before: Value = serde_json::from_str(text).ok()?;
    let mut after = before.clone();
    drop_from(&mut after, names);
    (after != before).then(|| after.to_string())
}

fn drop_from(value: &mut Value, names: &[String]) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !names.contains(&name.to_lowercase()));
            fields.values_mut().for_each(|item| drop_from(item, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_from(item, names)),
        // Otherwise JSON within a string could smuggle the fields past this reviewer.
        Value::String(text) => {
            if let Some(clean) = without_fields(text, names) {
                *text = clean;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

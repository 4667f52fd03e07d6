//! The notebook that Claude Code's `NotebookEdit` should leave, computed from its input and the current notebook.
//!
//! The tool parses the notebook, changes a cell, and writes the whole as JSON with an indentation of one space. Numbers that JavaScript
//! would write in another form, and keys that it would sort, are not computed. Neither is a new cell, because its id is random.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// The largest whole number that JavaScript keeps exactly.
const NUMBER_MAX: u64 = 1 << 53;

/// A JSON value that keeps the order of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Json {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

/// Returns the accepted notebooks. An error says why they cannot be computed.
pub(crate) fn edited_notebook(
    input: &Map<String, Value>,
    notebook: &str,
) -> Result<Vec<String>, &'static str> {
    let text = |key: &str| match input.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err("an argument is not text"),
    };
    let book: Json = serde_json::from_str(notebook)
        .map_err(|_| "the notebook is not JSON, or has values that JavaScript would write differently")?;
    let cells = book.field("cells").and_then(Json::as_list).ok_or("the notebook has no cells")?;
    let cell_id = text("cell_id")?;
    let place = cell_id.map_or(Some(0), |id| cell_place(cells, id));
    let place = place.filter(|place| *place < cells.len()).ok_or("the notebook has no such cell")?;
    let source = text("new_source")?;
    let cell_type = text("cell_type")?;
    let edits: Vec<Json> = match text("edit_mode")?.unwrap_or("replace") {
        "delete" => {
            let mut book = book;
            book.cells_mut().ok_or("the notebook has no cells")?.remove(place);
            vec![book]
        }
        "replace" => {
            let source = source.ok_or("the input does not say the new source")?;
            // Versions of the tool differ in what they do with the output of the old source.
            [OldOutput::Removed, OldOutput::Cleared]
                .into_iter()
                .map(|output| {
                    let mut book = book.clone();
                    let cells = book.cells_mut().ok_or("the notebook has no cells")?;
                    let cell = cells.get_mut(place).ok_or("the notebook has no such cell")?;
                    replace_source(cell, source, cell_type, output);
                    Ok(book)
                })
                .collect::<Result<_, &'static str>>()?
        }
        _ => return Err("a new cell has a random id"),
    };
    let mut results: Vec<String> = Vec::new();
    for book in edits {
        let written = written(&book).ok_or("the notebook cannot be written")?;
        // The tool ends the file without a line end. One that keeps the end of the file is accepted as well.
        let kept = notebook.ends_with('\n').then(|| format!("{written}\n"));
        for result in std::iter::once(written).chain(kept) {
            if !results.contains(&result) {
                results.push(result);
            }
        }
    }
    Ok(results)
}

/// What happens to the output of a cell whose source is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldOutput {
    /// A code cell has none and no number any more. Other cells stay as they are.
    Cleared,
    /// Every cell gets an empty output, and its number is removed.
    Removed,
}

fn replace_source(cell: &mut Json, source: &str, cell_type: Option<&str>, output: OldOutput) {
    let is_code = cell.field("cell_type") == Some(&Json::Text("code".into()));
    cell.set("source", Json::Text(source.to_owned()));
    match output {
        OldOutput::Cleared if is_code => {
            cell.set("execution_count", Json::Null);
            cell.set("outputs", Json::List(Vec::new()));
        }
        OldOutput::Cleared => {}
        OldOutput::Removed => {
            if let Json::Fields(fields) = cell {
                fields.retain(|(name, _)| name != "execution_count");
            }
            cell.set("outputs", Json::List(Vec::new()));
        }
    }
    if let Some(cell_type) = cell_type {
        cell.set("cell_type", Json::Text(cell_type.to_owned()));
    }
}

/// Returns the place of a cell: by its id, or by its number as in `cell-3`.
fn cell_place(cells: &[Json], id: &str) -> Option<usize> {
    let has_id = |cell: &Json| cell.field("id").is_some_and(|own| *own == Json::Text(id.to_owned()));
    cells.iter().position(has_id).or_else(|| id.strip_prefix("cell-")?.parse().ok())
}

/// Writes a value as `JSON.stringify` does with an indentation of one space.
fn written(book: &Json) -> Option<String> {
    let mut bytes = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b" ");
    book.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, form)).ok()?;
    String::from_utf8(bytes).ok()
}

impl Json {
    fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Fields(fields) => fields.iter().find(|(own, _)| own == name).map(|(_, value)| value),
            _ => None,
        }
    }

    fn cells_mut(&mut self) -> Option<&mut Vec<Self>> {
        let Self::Fields(fields) = self else { return None };
        match fields.iter_mut().find(|(name, _)| name == "cells") {
            Some((_, Self::List(cells))) => Some(cells),
            _ => None,
        }
    }

    /// Sets a field in its place, or adds it at the end.
    fn set(&mut self, name: &str, value: Self) {
        let Self::Fields(fields) = self else { return };
        match fields.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => *old = value,
            None => fields.push((name.to_owned(), value)),
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_i64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(list) => serializer.collect_seq(list),
            Self::Fields(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value that JavaScript writes in the same form")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Json, E> {
        if value.unsigned_abs() < NUMBER_MAX {
            Ok(Json::Number(value))
        } else {
            Err(E::custom("a large number"))
        }
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Json, E> {
        i64::try_from(value).map_err(E::custom).and_then(|value| self.visit_i64(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        use serde::de::Error as _;

        let mut fields: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, Json>()? {
            // JavaScript sorts numbers among the keys, and keeps one of two equal keys.
            let is_sorted = name.bytes().all(|byte| byte.is_ascii_digit());
            if is_sorted || name == "__proto__" || fields.iter().any(|(own, _)| *own == name) {
                return Err(A::Error::custom("a key that JavaScript moves"));
            }
            fields.push((name, value));
        }
        Ok(Json::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOOK: &str = "{\n \"cells\": [\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 3,\n   \"id\": \"a\",\n   \"metadata\": {},\n   \"outputs\": [\n    1\n   ],\n   \"source\": [\n    \"x\"\n   ]\n  },\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"b\",\n   \"source\": \"t\"\n  }\n ],\n \"nbformat\": 4\n}\n";

    fn edited(input: &Value, notebook: &str) -> Result<Vec<String>, &'static str> {
        edited_notebook(input.as_object().unwrap(), notebook)
    }

    // req: M2
    #[test]
    fn what_an_edit_of_a_notebook_leaves_is_computed() {
        let results = edited(&json!({"cell_id": "a", "new_source": "y\n\"é\""}), BOOK).unwrap();
        let cleared = BOOK.replace("3,", "null,").replace("[\n    1\n   ]", "[]");
        let cleared = cleared.replace("[\n    \"x\"\n   ]", "\"y\\n\\\"é\\\"\"");
        let removed = cleared.replace("   \"execution_count\": null,\n", "");
        let ends = |text: &str| [text.trim_end().to_owned(), text.to_owned()];
        assert_eq!(results, [ends(&removed), ends(&cleared)].concat());
        // Another cell, by its number. One of the results only has the new source.
        let results = edited(&json!({"cell_id": "cell-1", "new_source": "u"}), BOOK).unwrap();
        assert!(results.contains(&BOOK.replace("\"t\"", "\"u\"")), "{results:?}");
        let results =
            edited(&json!({"cell_id": "b", "new_source": "", "edit_mode": "delete"}), BOOK).unwrap();
        assert!(results.len() == 2 && !results[0].contains("markdown") && results[0].contains("\"x\""));
    }

    // req: M2
    #[test]
    fn what_javascript_would_write_differently_is_not_computed() {
        let replace = json!({"cell_id": "a", "new_source": "y"});
        for (input, notebook) in [
            (json!({"cell_id": "a", "new_source": "y", "edit_mode": "insert"}), BOOK),
            (json!({"cell_id": "none", "new_source": "y"}), BOOK),
            (json!({"cell_id": "cell-2", "new_source": "y"}), BOOK),
            (json!({"cell_id": "a"}), BOOK),
            (replace.clone(), "{}"),
            (replace.clone(), "not json"),
            (replace.clone(), "{\"cells\": [{\"id\": \"a\"}], \"n\": 1.0}"),
            (replace.clone(), "{\"cells\": [{\"id\": \"a\"}], \"n\": 9007199254740993}"),
            (replace.clone(), "{\"cells\": [{\"id\": \"a\"}], \"1\": 1}"),
            (replace, "{\"cells\": [{\"id\": \"a\"}], \"n\": 1, \"n\": 2}"),
        ] {
            assert!(edited(&input, notebook).is_err(), "{input} {notebook}");
        }
    }
}

//! Converts JSON Schema to the subset that Gemini accepts in `parameters`: a part of an OpenAPI 3.0 schema object.
//!
//! It has no references, `const` or `oneOf`, only enums of strings, and one type for each value. Other constraints are
//! written into the description if that helps the model, or omitted. The arguments are validated with the full schema.

use serde_json::{Map, Value, json};

/// The maximum number of schemas after expanding references.
const NODES_MAX: usize = 5_000;
/// Their maximum depth.
const DEPTH_MAX: usize = 32;
/// The keywords that are copied unchanged.
const PASSTHROUGH_KEYS: &[&str] = &[
    "description",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
];
const FORMATS: &[&str] = &["float", "double", "int32", "int64", "date-time"];

/// The error for a schema that is too large after expansion.
pub(super) struct SchemaTooLargeError;

/// Returns the parameters of a function, or `None` if it has none.
pub(super) fn parameters(schema: &Value) -> Result<Option<Value>, SchemaTooLargeError> {
    let mut writer = GeminiSchemaWriter { root: schema, nodes: 0 };
    let mut parameters = writer.write(schema, &[], 0)?;
    parameters.insert("type".into(), "OBJECT".into());
    parameters.remove("nullable");
    let has_fields = parameters.contains_key("properties") || parameters.contains_key("anyOf");
    Ok(has_fields.then_some(Value::Object(parameters)))
}

struct GeminiSchemaWriter<'a> {
    root: &'a Value,
    nodes: usize,
}

impl<'a> GeminiSchemaWriter<'a> {
    /// Converts a schema. `within` are the references that led to it.
    fn write(
        &mut self,
        schema: &'a Value,
        within: &[&'a str],
        depth: usize,
    ) -> Result<Map<String, Value>, SchemaTooLargeError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return Err(SchemaTooLargeError);
        }
        let Value::Object(fields) = schema else { return Ok(any_schema()) };
        let mut out = Map::new();
        let mut within = within.to_vec();
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            match target {
                Some(target) if !within.contains(&reference) => {
                    within.push(reference);
                    out = self.write(target, &within, depth + 1)?;
                }
                // The reference is recursive, so any object is accepted from here on.
                _ => out = object(json!({ "type": "OBJECT" })),
            }
        }
        for part in fields.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            merge(&mut out, self.write(part, &within, depth + 1)?);
        }
        for key in PASSTHROUGH_KEYS {
            if let Some(value) = fields.get(*key) {
                out.insert((*key).into(), value.clone());
            }
        }
        if let Some(format) = fields.get("format").filter(|f| FORMATS.iter().any(|known| *f == known)) {
            out.insert("format".into(), format.clone());
        }
        self.write_fields(fields, &mut out, &within, depth)?;
        self.write_items(fields, &mut out, &within, depth)?;
        write_values(fields, &mut out);
        self.write_alternatives(fields, &mut out, &within, depth)?;
        write_type(fields, &mut out);
        Ok(if is_untyped(&out) { with_description(any_schema(), &out) } else { out })
    }

    fn write_fields(
        &mut self,
        fields: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        within: &[&'a str],
        depth: usize,
    ) -> Result<(), SchemaTooLargeError> {
        let mut own = Map::new();
        if let Some(Value::Object(properties)) = fields.get("properties") {
            let mut written = Map::new();
            for (name, property) in properties {
                written.insert(name.clone(), Value::Object(self.write(property, within, depth + 1)?));
            }
            if !written.is_empty() {
                own.insert("properties".into(), Value::Object(written));
            }
        }
        if let Some(required) = fields.get("required") {
            own.insert("required".into(), required.clone());
        }
        merge(out, own);
        // Gemini rejects a required field that is not described.
        let described: Vec<String> = out
            .get("properties")
            .and_then(Value::as_object)
            .map_or_else(Vec::new, |p| p.keys().cloned().collect());
        if let Some(Value::Array(required)) = out.get_mut("required") {
            required
                .retain(|name| name.as_str().is_some_and(|name| described.iter().any(|known| known == name)));
            if required.is_empty() {
                out.remove("required");
            }
        }
        Ok(())
    }

    fn write_items(
        &mut self,
        fields: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        within: &[&'a str],
        depth: usize,
    ) -> Result<(), SchemaTooLargeError> {
        if let Some(places) = fields.get("prefixItems").and_then(Value::as_array) {
            let mut kinds = Vec::new();
            for place in places {
                let kind = Value::Object(self.write(place, within, depth + 1)?);
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            let items = if kinds.len() == 1 { kinds.pop() } else { Some(json!({ "anyOf": kinds })) };
            out.insert("items".into(), items.unwrap_or_else(|| Value::Object(any_schema())));
        } else if let Some(items) = fields.get("items").filter(|items| !items.is_array()) {
            out.insert("items".into(), Value::Object(self.write(items, within, depth + 1)?));
        }
        Ok(())
    }

    fn write_alternatives(
        &mut self,
        fields: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        within: &[&'a str],
        depth: usize,
    ) -> Result<(), SchemaTooLargeError> {
        let lists = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| fields.get(keyword)?.as_array());
        let alternatives: Vec<&'a Value> = lists.flatten().collect();
        if alternatives.is_empty() {
            return Ok(());
        }
        let mut written = Vec::new();
        for alternative in alternatives {
            if is_null(alternative) {
                out.insert("nullable".into(), true.into());
            } else {
                written.push(self.write(alternative, within, depth + 1)?);
            }
        }
        if let Some(words) = one_enum(&written) {
            out.insert("type".into(), "STRING".into());
            out.insert("enum".into(), words);
        } else if written.len() == 1 {
            written.into_iter().for_each(|only| merge(out, only));
        } else if !written.is_empty() {
            out.insert("anyOf".into(), written.into_iter().map(Value::Object).collect());
        }
        Ok(())
    }
}

/// Converts allowed values: strings to an enum, one number to its bounds, anything else to words.
fn write_values(fields: &Map<String, Value>, out: &mut Map<String, Value>) {
    let mut values: Vec<Value> = match (fields.get("const"), fields.get("enum")) {
        (Some(only), _) => vec![only.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return,
    };
    let before = values.len();
    values.retain(|value| !value.is_null());
    if values.len() < before {
        out.insert("nullable".into(), true.into());
    }
    match values.as_slice() {
        [] => {}
        values if values.iter().all(Value::is_string) => {
            out.insert("type".into(), "STRING".into());
            out.insert("enum".into(), values.to_vec().into());
        }
        [Value::Number(only)] => {
            let kind = if only.is_f64() { "NUMBER" } else { "INTEGER" };
            out.insert("type".into(), kind.into());
            out.insert("minimum".into(), only.clone().into());
            out.insert("maximum".into(), only.clone().into());
        }
        values => {
            let listed: Vec<String> = values.iter().map(Value::to_string).collect();
            add_to_description(out, &format!("one of: {}", listed.join(", ")));
            if values.iter().all(Value::is_boolean) {
                out.insert("type".into(), "BOOLEAN".into());
            } else if values.iter().all(Value::is_number) {
                out.insert("type".into(), "NUMBER".into());
            }
        }
    }
}

fn write_type(fields: &Map<String, Value>, out: &mut Map<String, Value>) {
    let said: Vec<&str> = match fields.get("type") {
        Some(Value::String(only)) => vec![only],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let types: Vec<&str> = said.iter().copied().filter(|kind| *kind != "null").collect();
    if types.len() < said.len() {
        if types.is_empty() {
            out.insert("type".into(), "NULL".into());
            return;
        }
        out.insert("nullable".into(), true.into());
    }
    match types.as_slice() {
        [] => {
            let guess = [("properties", "OBJECT"), ("items", "ARRAY")];
            if let Some((_, kind)) = guess.iter().find(|(key, _)| out.contains_key(*key)) {
                out.entry("type").or_insert((*kind).into());
            }
        }
        [only] => {
            out.insert("type".into(), only.to_uppercase().into());
        }
        several if !out.contains_key("anyOf") && !out.contains_key("type") => {
            let items = out.remove("items");
            let kinds = several.iter().map(|kind| {
                let mut one = object(json!({ "type": kind.to_uppercase() }));
                if let (&"array", Some(items)) = (kind, &items) {
                    one.insert("items".into(), items.clone());
                }
                Value::Object(with_items(one))
            });
            out.insert("anyOf".into(), kinds.collect());
        }
        _ => {}
    }
    *out = with_items(std::mem::take(out));
}

/// Adds `items` to an array, because it is required.
fn with_items(mut out: Map<String, Value>) -> Map<String, Value> {
    if out.get("type").is_some_and(|kind| kind == "ARRAY") {
        out.entry("items").or_insert_with(|| Value::Object(any_schema()));
    }
    out
}

/// Merges missing fields. Properties and requirements are combined.
fn merge(out: &mut Map<String, Value>, part: Map<String, Value>) {
    for (key, value) in part {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(more)) if key == "properties" => {
                more.into_iter().for_each(|(name, property)| {
                    there.insert(name, property);
                });
            }
            (Some(Value::Array(there)), Value::Array(more)) if key == "required" => {
                for name in more {
                    if !there.contains(&name) {
                        there.push(name);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => {
                out.insert(key, value);
            }
        }
    }
}

/// Combines alternatives that are all enums of strings into one enum.
fn one_enum(written: &[Map<String, Value>]) -> Option<Value> {
    let mut words = Vec::new();
    for one in written {
        let plain = one.keys().all(|key| key == "enum" || key == "type");
        words.extend(one.get("enum").filter(|_| plain)?.as_array()?.iter().cloned());
    }
    (written.len() > 1).then_some(Value::Array(words))
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null") || schema.get("const").is_some_and(Value::is_null)
}

fn is_untyped(out: &Map<String, Value>) -> bool {
    !out.contains_key("type") && !out.contains_key("anyOf")
}

/// Returns a schema for any type, as far as the format allows.
fn any_schema() -> Map<String, Value> {
    object(json!({
        "anyOf": [{ "type": "STRING" }, { "type": "NUMBER" }, { "type": "BOOLEAN" }, { "type": "OBJECT" }],
        "nullable": true,
    }))
}

fn with_description(mut any: Map<String, Value>, out: &Map<String, Value>) -> Map<String, Value> {
    if let Some(description) = out.get("description") {
        any.insert("description".into(), description.clone());
    }
    any
}

fn add_to_description(out: &mut Map<String, Value>, more: &str) {
    let text = match out.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} ({more})"),
        None => more.to_owned(),
    };
    out.insert("description".into(), text.into());
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

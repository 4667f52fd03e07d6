//! Describes the arguments of a tool in words: name, type, whether it is required, and its description.
//!
//! The words say only what they can say exactly. If a schema contains anything else, the whole schema follows the words as JSON.

use byleave_core::digest::canonical_json;
use serde_json::{Map, Value};

/// The maximum depth to which words describe a schema.
const DEPTH_MAX: usize = 6;
/// The maximum number of arguments of one tool that are described in words, including nested ones.
const FIELDS_MAX: usize = 200;
/// Keywords that any part of a schema may have. The words either express them or may omit them.
const ANYWHERE: [&str; 8] =
    ["type", "description", "title", "default", "format", "$schema", "$defs", "definitions"];

/// One line of the description. A deeper line belongs to the one above it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SchemaLine {
    pub(super) depth: usize,
    pub(super) text: String,
}

/// Describes the arguments of a schema, one per line, required ones first. The schema itself follows if the words do not express all of it.
pub(super) fn lines(schema: &Value) -> Vec<SchemaLine> {
    let mut teller = SchemaWriter { root: schema, lines: Vec::new(), says_all: true };
    match schema.as_object() {
        Some(top) => teller.fields(top, 0),
        None => teller.says_all = false,
    }
    let SchemaWriter { mut lines, says_all, .. } = teller;
    if !says_all {
        let text = format!("all of it, as a JSON schema: {}", canonical_json(schema));
        lines.push(SchemaLine { depth: 0, text });
    } else if lines.is_empty() {
        lines.push(SchemaLine { depth: 0, text: "no arguments".to_owned() });
    }
    lines
}

struct SchemaWriter<'a> {
    root: &'a Value,
    lines: Vec<SchemaLine>,
    says_all: bool,
}

/// The type of a value in words, and the object whose fields are described with it.
struct TypeDescription<'a> {
    words: String,
    fields: Option<&'a Map<String, Value>>,
}

impl<'a> SchemaWriter<'a> {
    fn fields(&mut self, object: &'a Map<String, Value>, depth: usize) {
        self.expect(object, &["properties", "required", "additionalProperties"]);
        // Additional properties could have their own schema.
        self.says_all &= object.get("additionalProperties").is_none_or(Value::is_boolean);
        let is_required = |name: &str| {
            let names = object.get("required").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|required| required == name))
        };
        let properties = object.get("properties").and_then(Value::as_object);
        // Sorted, because the order of keys in an object depends on the features of the build.
        let mut fields: Vec<_> = properties
            .into_iter()
            .flatten()
            .map(|(name, field)| (!is_required(name), name.as_str(), field))
            .collect();
        fields.sort_by_key(|(is_optional, name, _)| (*is_optional, *name));
        for (is_optional, name, field) in fields {
            self.field(name, field, is_optional, depth);
        }
    }

    fn field(&mut self, name: &str, field: &'a Value, is_optional: bool, depth: usize) {
        if self.lines.len() >= FIELDS_MAX {
            self.says_all = false;
            return;
        }
        let TypeDescription { words, fields } = self.kind(field, depth);
        let required = if is_optional { "" } else { ", required" };
        let default = field.get("default").filter(|default| !default.is_null()).map(canonical_json);
        let default = default.map(|default| format!(", default {default}")).unwrap_or_default();
        let description = field.get("description").and_then(Value::as_str);
        let description = description.map(|text| format!(": {text}")).unwrap_or_default();
        self.lines
            .push(SchemaLine { depth, text: format!("`{name}` ({words}{required}{default}){description}") });
        if let Some(fields) = fields {
            self.fields(fields, depth.saturating_add(1));
        }
    }

    fn kind(&mut self, schema: &'a Value, depth: usize) -> TypeDescription<'a> {
        let Some((schema, or_null)) = self.followed(schema).filter(|_| depth < DEPTH_MAX) else {
            return self.unsaid();
        };
        if let Some(words) = choices(schema) {
            return TypeDescription { words, fields: None };
        }
        let (name, is_nullable) = type_of(schema);
        let or_null = if or_null || is_nullable { " or null" } else { "" };
        let kind = |words| TypeDescription { words, fields: None };
        match name {
            Some("object") => TypeDescription { words: format!("object{or_null}"), fields: Some(schema) },
            Some("array") => {
                self.expect(schema, &["items", "minItems", "maxItems"]);
                let bounds = bounds(schema, "minItems", "maxItems", " of them");
                let Some(items) = schema.get("items") else { return kind(format!("list{or_null}{bounds}")) };
                let of = self.kind(items, depth.saturating_add(1));
                TypeDescription { words: format!("list of {}{or_null}{bounds}", of.words), ..of }
            }
            Some("string") => {
                self.expect(schema, &["minLength", "maxLength"]);
                let format = schema.get("format").and_then(Value::as_str);
                let format = format.map(|format| format!(", {format}")).unwrap_or_default();
                let bounds = bounds(schema, "minLength", "maxLength", " characters");
                kind(format!("string{or_null}{format}{bounds}"))
            }
            Some(name @ ("integer" | "number")) => {
                self.expect(schema, &["minimum", "maximum"]);
                kind(format!("{name}{or_null}{}", bounds(schema, "minimum", "maximum", "")))
            }
            Some("boolean") => {
                self.expect(schema, &[]);
                kind(format!("boolean{or_null}"))
            }
            _ => self.unsaid(),
        }
    }

    /// Resolves references and the choice between a schema and null. Returns the schema, and whether null is allowed.
    fn followed(&mut self, schema: &'a Value) -> Option<(&'a Map<String, Value>, bool)> {
        let (mut schema, mut or_null) = (schema.as_object()?, false);
        for _ in 0..DEPTH_MAX {
            let next = if let Some(reference) = schema.get("$ref") {
                self.expect(schema, &["$ref"]);
                self.root.pointer(reference.as_str()?.strip_prefix('#')?)?
            } else if let Some(either) = schema.get("anyOf") {
                self.expect(schema, &["anyOf"]);
                let is_null = |one: &&Value| one.get("type").is_some_and(|name| name == "null");
                let (null, others): (Vec<&Value>, Vec<&Value>) = either.as_array()?.iter().partition(is_null);
                or_null |= !null.is_empty();
                let &[other] = others.as_slice() else { return None };
                other
            } else {
                return Some((schema, or_null));
            };
            schema = next.as_object()?;
        }
        None
    }

    /// Notes if the schema has keywords other than these, which the words do not express.
    fn expect(&mut self, schema: &Map<String, Value>, known: &[&str]) {
        let is_known = |key: &String| ANYWHERE.contains(&key.as_str()) || known.contains(&key.as_str());
        self.says_all &= schema.keys().all(is_known);
    }

    fn unsaid(&mut self) -> TypeDescription<'a> {
        self.says_all = false;
        TypeDescription { words: "according to the schema".to_owned(), fields: None }
    }
}

/// Returns the type other than null, if there is one, and whether null is allowed.
fn type_of(schema: &Map<String, Value>) -> (Option<&str>, bool) {
    match schema.get("type") {
        Some(Value::String(name)) => (Some(name), false),
        Some(Value::Array(names)) => {
            let others: Vec<&str> =
                names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect();
            let [name] = others.as_slice() else { return (None, false) };
            (Some(name), names.len() > 1)
        }
        _ => (None, false),
    }
}

/// Returns the allowed values, if the schema consists only of such a choice.
fn choices(schema: &Map<String, Value>) -> Option<String> {
    let branches = match schema.get("oneOf") {
        Some(branches) => branches.as_array()?.iter().map(Value::as_object).collect::<Option<Vec<_>>>()?,
        None => vec![schema],
    };
    let mut all = Vec::new();
    for branch in branches {
        let what = branch.get("description").and_then(Value::as_str).filter(|_| schema.contains_key("oneOf"));
        let what = what.map(|what| format!(" ({what})")).unwrap_or_default();
        match (branch.get("const"), branch.get("enum")) {
            (Some(only), None) => all.push(format!("{}{what}", canonical_json(only))),
            (None, Some(several)) => {
                all.extend(several.as_array()?.iter().map(|one| format!("{}{what}", canonical_json(one))));
            }
            _ => return None,
        }
    }
    Some(format!("one of {}", all.join(", ")))
}

fn bounds(schema: &Map<String, Value>, least: &str, most: &str, of: &str) -> String {
    match (schema.get(least), schema.get(most)) {
        (Some(least), Some(most)) => format!(", {least} to {most}{of}"),
        (Some(least), None) => format!(", at least {least}{of}"),
        (None, Some(most)) => format!(", at most {most}{of}"),
        (None, None) => String::new(),
    }
}

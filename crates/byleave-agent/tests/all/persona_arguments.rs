//! Arguments described in prose: exact, or with the schema added.

use byleave_agent::persona::{Persona, ToolCallFormat, ToolDescription};
use byleave_core::manifest::Manifest;
use serde_json::{Value, json};

fn check(schema: Value, expected: &[&str]) {
    let persona = Persona::load("plain", None).unwrap().persona;
    let tool = ToolDescription::from(&Manifest::new("t", "Does.", schema));
    let told = persona.system_prompt(&[tool], ToolCallFormat::Blocks);
    let (_, told) = told.split_once("- `t`: Does.\n  (a person may be asked)\n").unwrap();
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

fn of(field: &Value) -> Value {
    json!({"type": "object", "properties": {"a": field}, "additionalProperties": false})
}

// req: L4
#[test]
fn types_and_limits_in_words() {
    for (field, words) in [
        (json!({"type": "string"}), "string"),
        (json!({"type": "string", "format": "uuid"}), "string, uuid"),
        (json!({"type": ["string", "null"], "maxLength": 9}), "string or null, at most 9 characters"),
        (json!({"type": "integer", "minimum": 1, "maximum": 5, "default": 2}), "integer, 1 to 5, default 2"),
        (json!({"type": "number", "minimum": 0.5}), "number, at least 0.5"),
        (json!({"type": "boolean", "default": false}), "boolean, default false"),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 3}),
            "list of string, at most 3 of them",
        ),
        (json!({"enum": ["x", 1, null]}), r#"one of "x", 1, null"#),
        (json!({"const": "x"}), r#"one of "x""#),
        (
            json!({"oneOf": [{"enum": ["x", "y"]}, {"const": "z", "description": "the last"}]}),
            r#"one of "x", "y", "z" (the last)"#,
        ),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "string or null"),
    ] {
        check(of(&field), &[&format!("  - `a` ({words})")]);
    }
}

// req: L4
#[test]
fn what_must_be_given_comes_first_and_what_is_inside_stands_beneath() {
    let schema = json!({
        "type": "object",
        "$defs": {"Edit": {
            "type": "object",
            "properties": {"all": {"type": "boolean"}, "old": {"type": "string", "description": "What is there"}},
            "required": ["old"],
        }},
        "properties": {
            "a": {"type": "boolean"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}, "description": "In order"},
            "z": {"type": "string", "description": "A line\nand another"},
        },
        "required": ["z", "edits"],
    });
    check(
        schema,
        &[
            "  - `edits` (list of object, required): In order",
            "    - `old` (string, required): What is there",
            "    - `all` (boolean)",
            "  - `z` (string, required): A line",
            "    and another",
            "  - `a` (boolean)",
        ],
    );
    check(json!({"type": "object"}), &["  - no arguments"]);
}

// req: L4
#[test]
fn what_words_do_not_say_is_told_as_a_schema() {
    let told = |words: &str, schema: &Value| {
        let whole = byleave_core::digest::canonical_json(schema);
        [format!("  - `a` ({words})"), format!("  - all of it, as a JSON schema: {whole}")]
    };
    let itself = json!({
        "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": false,
        "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
    });
    let deep = "list of list of list of list of list of list of according to the schema";
    for (words, schema) in [
        ("string", of(&json!({"type": "string", "pattern": "^a+$"}))),
        ("according to the schema", of(&json!({"type": ["string", "integer"]}))),
        ("according to the schema", of(&json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}))),
        ("according to the schema", of(&json!({"$ref": "#/$defs/Nowhere"}))),
        ("according to the schema", of(&json!(true))),
        ("object", of(&json!({"type": "object", "additionalProperties": {"type": "string"}}))),
        (deep, itself),
    ] {
        let told = told(words, &schema);
        check(schema, &told.each_ref().map(String::as_str));
    }
    let top = json!({"type": "object", "minProperties": 1});
    check(top, &[r#"  - all of it, as a JSON schema: {"minProperties":1,"type":"object"}"#]);
}

// A recursive schema must not be followed for ever, and a wide one must not fill the prompt.
#[test]
fn what_refers_to_itself_ends() {
    let fields: serde_json::Map<String, Value> =
        (0..40).map(|n| (format!("f{n}"), json!({"$ref": "#/$defs/A"}))).collect();
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "object", "properties": fields}},
    });
    let persona = Persona::load("plain", None).unwrap().persona;
    let told = persona
        .system_prompt(&[ToolDescription::from(&Manifest::new("t", "", schema))], ToolCallFormat::Blocks);
    assert!(told.lines().count() < 300 && told.contains("all of it, as a JSON schema"));
}

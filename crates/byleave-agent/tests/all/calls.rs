//! A block is either read as exactly the call that it holds, or reported with the position of the error and
//! the expected syntax.

use byleave_agent::tool_blocks::{BlockCall, ToolBlockErrorKind, ToolBlockParser};
use serde_json::{Value, json};

use crate::stage::{ParsedPiece, read};

/// Parses a block with this content.
fn held(json: &str) -> Result<BlockCall, String> {
    let seen = read([format!("~~~tool\n{json}\n~~~\n").as_str()], ToolBlockParser::new());
    match <[ParsedPiece; 1]>::try_from(seen) {
        Ok([ParsedPiece::Call(call)]) => Ok(call),
        Ok([ParsedPiece::Flaw(flaw)]) => {
            assert!(matches!(flaw.kind, ToolBlockErrorKind::Malformed(_)), "{flaw:?}");
            Err(flaw.to_string())
        }
        other => panic!("{json}: {other:?}"),
    }
}

// req: L1
#[test]
fn a_call_is_what_was_written() {
    let call = held(
        "{\"reason\": \"see\\u00e9\", \"args\": {\"b\": [1, -2, 0.5, 18446744073709551615, null, true, \"\\ud83e\\udd80\"],\r\n \"a\": {}}, \"name\": \"ls\"}",
    );
    let call = call.unwrap();
    assert_eq!((call.name.as_str(), call.reason.as_deref()), ("ls", Some("seeé")));
    assert_eq!(Value::Object(call.args), json!({"a": {}, "b": [1, -2, 0.5, u64::MAX, null, true, "🦀"]}));
    assert_eq!(held(r#"{"name":"ls","args":{}}"#).unwrap().reason, None);
}

// req: L1
#[test]
fn what_is_no_call_is_told_with_its_place_and_what_was_expected() {
    let long = format!(r#"{{"name": "a", "{}": 1}}"#, "k".repeat(5000));
    let deep = format!(r#"{{"name": "a", "args": {{"x": {}{}}}}}"#, "[".repeat(200), "]".repeat(200));
    let cases = [
        // Not an object.
        "",
        " \t\n",
        "null",
        "[]",
        "\"a\"",
        r#"["a", {}, "c"]"#,
        "name: a",
        "// a\n{}",
        "é",
        // Invalid JSON.
        "{",
        r#"{"name""#,
        r#"{"name": "#,
        r#"{"name": "a"#,
        r#"{"name": "a", "#,
        r#"{"name": "a", "args": {"x": [1, "#,
        r#"{"name" "a"}"#,
        r#"{"name": "a" "args": {}}"#,
        r#"{"name": "a", "args": {},}"#,
        r#"{"name": "a", "args": {"x": [1,]}}"#,
        r#"{"name": "a", "args": {"x": [1 2]}}"#,
        r#"{'name': 'a'}"#,
        r#"{name: "a"}"#,
        r#"{"name": 'a'}"#,
        r#"{"name": "a", "args": {"x": tru}}"#,
        r#"{"name": "a", "args": {"x": 01}}"#,
        r#"{"name": "a", "args": {"x": .5}}"#,
        r#"{"name": "a", "args": {"x": NaN}}"#,
        r#"{"name": "a", "args": {"x": "\q"}}"#,
        r#"{"name": "a", "args": {"x": "\ud83e"}}"#,
        r#"{"name": "a", "args": {"x": "\u12"}}"#,
        "{\"name\": \"a\", \"args\": {\"x\": \"1\n2\"}}",
        "{\"name\": \"a\", \"args\": {\"x\": \"1\t2\"}}",
        r#"{"name": "a", "args": {} /* x */}"#,
        // Numbers that would lose precision.
        r#"{"name": "a", "args": {"x": 1e999}}"#,
        r#"{"name": "a", "args": {"x": 18446744073709551616}}"#,
        r#"{"name": "a", "args": {"x": -9223372036854775809}}"#,
        // Text after the object.
        r#"{"name": "a", "args": {}} thanks"#,
        "{\"name\": \"a\", \"args\": {}}\n{\"name\": \"b\", \"args\": {}}",
        // Missing or unknown fields.
        "{}",
        r#"{"name": "a"}"#,
        r#"{"args": {}}"#,
        r#"{"name": "", "args": {}}"#,
        r#"{"name": " ", "args": {}}"#,
        r#"{"name": 1, "args": {}}"#,
        r#"{"name": null, "args": {}}"#,
        r#"{"name": "a", "args": []}"#,
        r#"{"name": "a", "args": null}"#,
        r#"{"name": "a", "args": "{}"}"#,
        r#"{"name": "a", "args": {}, "reason": null}"#,
        r#"{"name": "a", "args": {}, "reason": ["x"]}"#,
        r#"{"name": "a", "arguments": {}}"#,
        r#"{"Name": "a", "args": {}}"#,
        r#"{"name": "a", "args": {}, "id": true}"#,
        &long,
        // Duplicate keys.
        r#"{"name": "a", "name": "a", "args": {}}"#,
        r#"{"name": "a", "args": {}, "n\u0061me": "b"}"#,
        r#"{"name": "a", "args": {}, "args": {"x": 1}}"#,
        r#"{"name": "a", "args": {"x": 1, "x": 1}}"#,
        "{\"name\": \"a\",\n \"args\": {\"x\": [{\"é\": 1,\r\n   \"y\": 2, \"é\": 3}]}}",
        r#"{"name": "a", "args": {"\u202e\n": 1, "\u202e\n": 2}}"#,
        // Too deep.
        &deep,
    ];
    let mut told = String::new();
    for json in cases {
        let flaw = held(json).expect_err(json);
        assert!(flaw.contains("expected"), "{json}: {flaw}");
        assert!(flaw.len() < 400 && !flaw.contains(char::is_control), "{json}: {flaw}");
        let json: String =
            json.escape_debug().to_string().replace("\\\"", "\"").replace("\\\\", "\\").replace("\\'", "'");
        let shown: String = json.chars().take(100).collect();
        let flaw = flaw.strip_prefix("tool block 1 was not run: ").unwrap();
        told.push_str(&format!("{shown}\n    {flaw}\n"));
    }
    insta::assert_snapshot!(told);
}

// req: L1
#[test]
fn as_deep_as_is_said_is_a_call() {
    let nested = |levels: usize| {
        // The object itself and its arguments use two levels.
        held(&format!(
            r#"{{"name": "a", "args": {{"x": {}{}}}}}"#,
            "[".repeat(levels - 2),
            "]".repeat(levels - 2)
        ))
    };
    assert!(nested(127).is_ok());
    assert!(nested(128).is_err());
}

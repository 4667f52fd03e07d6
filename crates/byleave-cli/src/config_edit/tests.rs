use serde_json::json;

use super::*;

fn at(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn set(keys: &[&str], value: Value) -> EditOp {
    EditOp::Set { at: at(keys), value }
}

fn gone(keys: &[&str]) -> EditOp {
    EditOp::Remove { at: at(keys) }
}

const JSON: &str = "{\n    // mine\n\t\"theme\": \"dark\", /* odd */\n    \"mcpServers\": {\n      \"a\": {\"command\": \"x\"}, // of a\n\n      // about b\n      \"b\": {\n        \"command\": \"y\",\n      },\n    },\n    \"ünïcode\": [1.50, 1e3],\n}\n";
const TOML: &str = "# top\nmodel = 'o'  # odd\n\n[mcp_servers.a]\ncommand = \"x\" # of a\n[mcp_servers.a.env]\nK = \"v\"\n\n# about b\n[mcp_servers.b]\ncommand = \"y\"\n\n[other]\nx = 1\n";
const YAML: &str = "# top\nextensions:\n    a: # of a\n        cmd: x\n        args:\n        - -y\n        # inside a\n        envs: {}\n\n    # about b\n    b:\n        cmd: |\n          many\n\n          lines\nGOOSE_MODEL: \"é\"   # odd\n";

/// Returns a text without some lines.
fn without(text: &str, cut: &[&str]) -> String {
    text.split_inclusive('\n').filter(|line| !cut.contains(&line.trim_end())).collect()
}

#[test]
fn nothing_is_changed_but_what_is_asked_for() {
    for (format, text, outer) in [
        (FileFormat::Json, JSON, "mcpServers"),
        (FileFormat::Toml, TOML, "mcp_servers"),
        (FileFormat::Yaml, YAML, "extensions"),
    ] {
        let value = json!({ "command": "c", "args": ["1", "two words", "no"], "timeout": 3 });
        let ops = [gone(&[outer, "a"]), set(&[outer, "ours"], value)];
        let edited = apply(format, text, &ops).unwrap();
        for kept in ["mine", "odd", "top", "about b", "1.50", "ünïcode", "é", "   lines"] {
            assert_eq!(edited.contains(kept), text.contains(kept), "{kept}: {edited}");
        }
        assert!(!edited.contains("of a"), "{edited}");
        let before = read(format, text).unwrap();
        let back = inverse(&ops, &before, &read(format, &edited).unwrap());
        assert_eq!(read(format, &apply(format, &edited, &back).unwrap()).unwrap(), before, "{edited}");
    }
}

#[test]
fn what_is_cut_is_cut_by_lines() {
    let cut = apply(FileFormat::Toml, TOML, &[gone(&["mcp_servers", "a"])]).unwrap();
    let wanted =
        TOML.replace("[mcp_servers.a]\ncommand = \"x\" # of a\n[mcp_servers.a.env]\nK = \"v\"\n\n", "");
    assert_eq!(cut, wanted);
    let cut = apply(FileFormat::Yaml, YAML, &[gone(&["extensions", "b"])]).unwrap();
    assert_eq!(
        cut,
        without(YAML, &["    b:", "        cmd: |", "          many", "          lines"]).replacen(
            "about b\n\n",
            "about b\n",
            1
        )
    );
    let cut = apply(FileFormat::Json, JSON, &[gone(&["mcpServers", "a"])]).unwrap();
    assert_eq!(cut, without(JSON, &["      \"a\": {\"command\": \"x\"}, // of a"]));
}

#[test]
fn line_ends_and_marks_stay() {
    for (format, text) in [
        (FileFormat::Json, "{\r\n  \"a\": {\r\n    \"b\": {}\r\n  }\r\n}\r\n"),
        (FileFormat::Toml, "[a.b]\r\nx = 1\r\n"),
        (FileFormat::Yaml, "a:\r\n  b:\r\n    x: 1\r\n"),
    ] {
        let text = format!("\u{feff}{text}");
        let edited = apply(format, &text, &[set(&["a", "c"], json!({ "y": 2 }))]).unwrap();
        assert!(edited.starts_with('\u{feff}'), "{edited:?}");
        assert_eq!(edited.matches('\n').count(), edited.matches("\r\n").count(), "{edited:?}");
    }
}

#[test]
fn who_is_in_doubt_refuses() {
    let cases = [
        (FileFormat::Json, "{\"a\": 1, \"a\": 2}", gone(&["a"])),
        (FileFormat::Json, "[]", set(&["a"], json!(1))),
        (FileFormat::Json, "{\"a\": []}", set(&["a", "b"], json!(1))),
        (FileFormat::Json, "{\"a\": 'x'}", set(&["b"], json!(1))),
        (FileFormat::Yaml, "extensions: {a: {cmd: x}, b: 1}\n", gone(&["extensions", "a"])),
        (FileFormat::Yaml, "extensions: [1]\n", set(&["extensions", "a"], json!({ "b": 1 }))),
        (FileFormat::Yaml, "extensions:\n  a: &x\n    cmd: y\nother: *x\n", gone(&["extensions", "a"])),
        (FileFormat::Yaml, "a: 1\n---\nb: 2\n", set(&["extensions", "a"], json!({ "b": 1 }))),
        (FileFormat::Toml, "mcp_servers = 3\n", set(&["mcp_servers", "a"], json!({ "b": 1 }))),
    ];
    for (format, text, op) in cases {
        let edited = apply(format, text, std::slice::from_ref(&op));
        assert!(edited.is_err(), "{text}: {op:?}: {edited:?}");
    }
}

#[test]
fn nothing_there_is_enough_to_begin() {
    for format in [FileFormat::Json, FileFormat::Toml, FileFormat::Yaml] {
        let edited = apply(format, "", &[set(&["a", "b"], json!({ "c": "d" }))]).unwrap();
        assert!(edited.ends_with('\n'), "{edited:?}");
        assert_eq!(read(format, &edited).unwrap(), json!({ "a": { "b": { "c": "d" } } }));
    }
    for text in ["a:\nz: 1\n", "a: {}\nz: 1\n", "a: {} # c\nz: 1", "z: 1\na:"] {
        let edited = apply(FileFormat::Yaml, text, &[set(&["a", "b"], json!({ "c": "d" }))]).unwrap();
        let back = apply(FileFormat::Yaml, &edited, &[gone(&["a", "b"])]).unwrap();
        assert_eq!(read(FileFormat::Yaml, &back).unwrap()["a"], json!({}), "{edited}");
    }
}

#[test]
fn lists_grow_and_shrink() {
    let at = at(&["hooks", "Pre"]);
    let op = EditOp::Append { at: at.clone(), value: json!({ "m": 1 }) };
    for text in ["{}", "{\n  \"hooks\": {\n    \"Pre\": [ // mine\n      {\"x\": 1} // too\n    ]\n  }\n}\n"]
    {
        let edited = apply(FileFormat::Json, text, std::slice::from_ref(&op)).unwrap();
        let before = read(FileFormat::Json, text).unwrap();
        let back = inverse(std::slice::from_ref(&op), &before, &read(FileFormat::Json, &edited).unwrap());
        let back = apply(FileFormat::Json, &edited, &back).unwrap();
        assert_eq!(read(FileFormat::Json, &back).unwrap(), before);
        assert_eq!(back.contains("// too"), text.contains("// too"), "{back}");
    }
}

#[test]
fn secrets_are_masked_and_names_are_not() {
    let json = r#"{"s": {"env": {"A": "hunter\u0032", "B": "${HOME}", "N": 5}, "args": ["--x"]}, "headers": {"Authorization": "Bearer t0p"}}"#;
    let toml = "[s]\nargs = [\"--x\"]\nenv = { A = \"hunter2\", B = \"${HOME}\" }\n[s.http_headers]\nAuthorization = 't0p'\n";
    let yaml = "s:\n  args: [--x]\n  envs:\n    A: hunter2\n    B: ${HOME}\n    C: |\n      hunter2\n  headers: {Authorization: t0p}\n  after: seen\n";
    for (format, text) in [(FileFormat::Json, json), (FileFormat::Toml, toml), (FileFormat::Yaml, yaml)] {
        let shown = mask_secrets(format, text);
        for secret in ["hunter", "t0p", "0032"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        for plain in ["${HOME}", "--x", "after: seen"] {
            assert_eq!(shown.contains(plain), text.contains(plain), "{shown}");
        }
    }
    assert!(!mask_secrets(FileFormat::Json, "{\"env\": {\"A\": \"hunter2\"").contains("hunter"));
}

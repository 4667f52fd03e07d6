//! Tools and results in the formats of providers.

use std::sync::Arc;

use byleave_gate::catalog::{Catalog, CatalogEntry};
use byleave_gate::core::manifest::PermissionClass;
use byleave_gate::core::outcome::Output;
use byleave_gate::provider_formats::{
    FormatError, ProviderFormat, ToolReport, anthropic_messages, gemini_messages, mcp_result,
    openai_messages, result_json, schema, schemas,
};
use byleave_gate::tool::RunContext;
use byleave_gate::typed_tool::TypedTool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{ManifestOnlyTool, site};

/// One of each thing that formats treat differently.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Edit {
    /// The file
    path: String,
    /// What to do
    kind: Kind,
    /// Where
    at: Option<Place>,
    /// How far
    reach: Option<u32>,
    tags: Vec<String>,
    pair: (i64, i64),
    extra: Value,
    tree: Tree,
    target: Target,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Insert,
    Remove,
}

/// A place in a file
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Place {
    line: u32,
    column: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is looked at")]
enum Target {
    File { path: String },
    Line { number: u32 },
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn catalog() -> Catalog {
    let catalog = Catalog::new();
    let edit = TypedTool::new("edit", "Edits a file", |_: Edit, _: RunContext| async {})
        .permission_class(PermissionClass::File)
        .destructive()
        .with_describer(|site| format!("Edits a file beneath {}", site.cwd.display()));
    catalog.register(edit).unwrap();
    let now = TypedTool::new("now", "Tells the time", |_: Nothing, _: RunContext| async {})
        .read_only()
        .idempotent();
    catalog.register(now).unwrap();
    catalog
}

fn in_form(form: ProviderFormat) -> Vec<Value> {
    schemas(form, &catalog().list(), &site()).unwrap()
}

// req: T9
#[test]
fn schemas_for_openai() {
    insta::assert_json_snapshot!(in_form(ProviderFormat::OpenAi));
}

// req: T9
#[test]
fn schemas_for_anthropic() {
    insta::assert_json_snapshot!(in_form(ProviderFormat::Anthropic));
}

// req: T9
#[test]
fn schemas_for_gemini() {
    insta::assert_json_snapshot!(in_form(ProviderFormat::Gemini));
}

// req: T9
#[test]
fn schemas_for_mcp() {
    insta::assert_json_snapshot!(in_form(ProviderFormat::Mcp));
}

// req: T9, G1
#[test]
fn schemas_for_an_allowed_set() {
    let allowed = catalog().filter(["now"]).unwrap();
    let schemas = schemas(ProviderFormat::Anthropic, &allowed, &site()).unwrap();
    assert_eq!(schemas.len(), 1);
    assert_eq!(schemas[0]["name"], "now");
    assert!(catalog().filter(["never"]).is_err());
}

fn entry(name: &str, schema: Value) -> Arc<CatalogEntry> {
    Catalog::new().register(ManifestOnlyTool::with_schema(name, schema)).unwrap()
}

// req: T9
#[test]
fn names_must_fit_the_provider() {
    let object = || json!({"type": "object"});
    let check = |name: &str, takers: &[ProviderFormat]| {
        for form in ProviderFormat::ALL {
            let made = schema(form, &entry(name, object()), &site());
            assert_eq!(made.is_ok(), takers.contains(&form), "{name} for {form}: {made:?}");
        }
    };
    check("read_file-2", &ProviderFormat::ALL);
    check("a.b", &[ProviderFormat::Gemini, ProviderFormat::Mcp]);
    check("2fa", &[ProviderFormat::OpenAi, ProviderFormat::Anthropic, ProviderFormat::Mcp]);
    check("a/b", &[ProviderFormat::Mcp]);
    check(&"x".repeat(63), &ProviderFormat::ALL);
    check(&"x".repeat(64), &[ProviderFormat::OpenAi, ProviderFormat::Anthropic, ProviderFormat::Mcp]);
    check(&"x".repeat(65), &[ProviderFormat::Mcp]);
    let unfit = schema(ProviderFormat::OpenAi, &entry("a.b", object()), &site()).unwrap_err();
    assert_eq!(
        unfit.to_string(),
        "OpenAI does not accept the name `a.b`: it accepts 1 to 64 letters, digits, `_` and `-`; \
         register the tool under another name"
    );
}

// req: T9
#[test]
fn what_a_provider_would_refuse_is_said_here() {
    let either = json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    for form in [ProviderFormat::OpenAi, ProviderFormat::Anthropic] {
        let unfit = schema(form, &entry("either", either.clone()), &site()).unwrap_err();
        assert_eq!(
            unfit,
            FormatError::TopLevelAlternative { format: form, tool: "either".into(), keyword: "oneOf" }
        );
    }
    let many: serde_json::Map<String, Value> =
        (0..6_000).map(|i| (format!("p{i}"), json!({"type": "string"}))).collect();
    let unfit =
        schema(ProviderFormat::Gemini, &entry("many", json!({"properties": many})), &site()).unwrap_err();
    assert_eq!(unfit, FormatError::TooLarge { format: ProviderFormat::Gemini, tool: "many".into() });
}

// req: T9
#[test]
fn gemini_gets_what_it_can_take() {
    let check = |given: Value, wanted: Value| {
        let schema = json!({"type": "object", "properties": {"x": given}, "$defs": {
            "word": {"type": "string", "description": "a word"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/list"}},
        }});
        let made =
            byleave_gate::provider_formats::schema(ProviderFormat::Gemini, &entry("t", schema), &site())
                .unwrap();
        assert_eq!(made["parameters"]["properties"]["x"], wanted, "{given}");
    };
    check(json!({"type": ["string", "null"]}), json!({"type": "STRING", "nullable": true}));
    check(json!({"const": "a"}), json!({"type": "STRING", "enum": ["a"]}));
    check(json!({"const": 7}), json!({"type": "INTEGER", "minimum": 7, "maximum": 7}));
    check(json!({"enum": ["a", null]}), json!({"type": "STRING", "enum": ["a"], "nullable": true}));
    check(
        json!({"type": "integer", "enum": [1, 2], "description": "n"}),
        json!({"type": "INTEGER", "description": "n (one of: 1, 2)"}),
    );
    check(
        json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}),
        json!({"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}),
    );
    check(json!({"oneOf": [{"const": "a"}, {"const": "b"}]}), json!({"type": "STRING", "enum": ["a", "b"]}));
    check(
        json!({"anyOf": [{"$ref": "#/$defs/word"}, {"type": "null"}]}),
        json!({"type": "STRING", "description": "a word", "nullable": true}),
    );
    check(
        json!({"$ref": "#/$defs/word", "description": "my word"}),
        json!({"type": "STRING", "description": "my word"}),
    );
    check(json!({"$ref": "#/$defs/list"}), json!({"type": "ARRAY", "items": {"type": "OBJECT"}}));
    check(
        json!({"type": ["integer", "string"]}),
        json!({"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}),
    );
    check(
        json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
                         {"properties": {"b": {"type": "string"}}, "required": ["b", "c"]}]}),
        json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": "STRING"}},
               "required": ["a", "b"]}),
    );
    check(
        json!({"type": "object", "additionalProperties": false, "title": "T", "default": {}, "$comment": "c"}),
        json!({"type": "OBJECT"}),
    );
    check(json!({"type": "string", "format": "uri"}), json!({"type": "STRING"}));
    check(json!({"type": "string", "format": "date-time"}), json!({"type": "STRING", "format": "date-time"}));
}

fn reports() -> Vec<ToolReport> {
    let done = Output {
        data: Some(json!([1, 2])),
        truncated: true,
        execution_time_ms: 12,
        ..Output::text("two lines\nof text")
    };
    let failed = Output { text: "got so far".into(), execution_time_ms: 3, ..Output::failure("disk full") };
    vec![
        ToolReport::for_output("read_file", "call_1", json!({"path": "a"}), done),
        ToolReport::for_output("write_file", "call_2", json!({"path": "b"}), failed),
        ToolReport::for_refusal(
            "bash",
            "call_3",
            json!("rm -rf /"),
            "the arguments must be a JSON object (arguments-invalid)",
        ),
    ]
}

// req: L2
#[test]
fn results_as_json() {
    insta::assert_json_snapshot!(reports().iter().map(result_json).collect::<Vec<_>>());
}

// req: L2
#[test]
fn results_for_openai() {
    insta::assert_json_snapshot!(openai_messages(&reports()));
}

// req: L2
#[test]
fn results_for_anthropic() {
    insta::assert_json_snapshot!(anthropic_messages(&reports()));
}

// req: L2
#[test]
fn results_for_gemini() {
    insta::assert_json_snapshot!(gemini_messages(&reports()));
}

// req: L2
#[test]
fn results_for_mcp() {
    insta::assert_json_snapshot!(reports().iter().map(mcp_result).collect::<Vec<_>>());
}

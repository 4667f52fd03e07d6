//! Validation of arguments with a schema.

use byleave_gate::core::refusal::Code;
use byleave_gate::schema::{JsonLimits, JsonTooLargeError, SchemaError, Validator};
use proptest::prelude::*;
use serde_json::{Value, json};

fn validator(schema: Value) -> Validator {
    Validator::new(&schema).unwrap()
}

fn refusal(schema: &Value, arguments: &Value) -> (Code, String) {
    let refusal = validator(schema.clone()).check(arguments, &JsonLimits::ARGUMENTS).unwrap_err();
    (refusal.code, refusal.message)
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| Value::Object([("a".to_owned(), inner)].into_iter().collect()))
}

// req: T2, T3
#[test]
fn what_does_not_fit_is_told_so_that_the_model_can_do_better() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"enum": ["read", "write"]},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "place": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Place"}]},
        },
        "required": ["path"],
        "additionalProperties": false,
        "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
    });
    let check = |arguments: Value, wanted: &str| {
        let (code, why) = refusal(&schema, &arguments);
        assert_eq!(code, Code::ArgumentsInvalid);
        assert_eq!(why, format!("the arguments do not match the schema: {wanted}"));
    };
    check(json!({}), r#""path" is a required property"#);
    check(json!({"path": 5}), r#"`/path`: 5 is not of type "string""#);
    check(json!({"path": "a", "pth": 1}), "Additional properties are not allowed ('pth' was unexpected)");
    check(json!({"path": "a", "mode": "eat"}), r#"`/mode`: "eat" is not one of "read" or "write""#);
    check(json!({"path": "a", "lines": [1, 0]}), "`/lines/1`: 0 is less than the minimum of 1");
    check(
        json!({"path": "a", "place": {"x": "1"}}),
        "`/place`: {\"x\":\"1\"} is not valid under any of the schemas listed in the 'anyOf' keyword \
         (nearest: `/place/x` \"1\" is not of type \"integer\")",
    );
    check(
        json!({"path": [("x".repeat(100_000))]}),
        &format!("`/path`: [\"{}… is not of type \"string\"", "x".repeat(78)),
    );
    let (_, why) = refusal(&schema, &json!({"path": "a", "lines": vec![0; 20]}));
    assert_eq!(why.matches("less than the minimum").count(), 5);
    assert!(why.ends_with("; and 15 more"), "{why}");
    assert_eq!(
        validator(schema).check(&json!({"path": "a", "place": {"x": 1}}), &JsonLimits::ARGUMENTS),
        Ok(())
    );
}

#[test]
fn arguments_are_an_object() {
    let schema = json!({"type": "object"});
    for (arguments, kind) in
        [(json!(null), "null"), (json!([1]), "an array"), (json!("{}"), "a string"), (json!(1), "a number")]
    {
        let (code, why) = refusal(&schema, &arguments);
        assert_eq!(code, Code::ArgumentsInvalid);
        assert_eq!(why, format!("the arguments must be a JSON object, not {kind}"));
    }
    for schema in [json!({"type": "string"}), json!({"type": 5}), json!([]), json!(true), json!(null)] {
        assert_eq!(Validator::new(&schema).unwrap_err(), SchemaError::NotAnObjectSchema, "{schema}");
    }
    for schema in [json!({}), json!({"type": ["object", "null"]})] {
        assert_eq!(validator(schema).check(&json!({}), &JsonLimits::ARGUMENTS), Ok(()));
    }
}

// req: T3
#[test]
fn arguments_are_bounded_before_they_are_looked_at() {
    let validator = validator(json!({"properties": {"x": {"pattern": "^(a+)+$"}}}));
    let limits = JsonLimits { max_bytes: 1_000, max_depth: 5, max_nodes: 100 };
    let check = |arguments: Value, wanted: &str| {
        let refusal = validator.check(&arguments, &limits).unwrap_err();
        assert_eq!(refusal.code, Code::ArgumentsTooLarge);
        assert_eq!(refusal.message, format!("the arguments are {wanted}"));
    };
    check(json!({"x": "y".repeat(1_000)}), "larger than 1000 bytes");
    check(json!({"y".repeat(1_000): 1}), "larger than 1000 bytes");
    check(nested(6), "nested deeper than 5 levels");
    check(json!(vec![0; 100]), "made of more than 100 values");
    assert_eq!(validator.check(&nested(5), &limits), Ok(()));
    // Deeper than any stack allows. Taken apart by hand, because dropping it recurses too.
    let mut deep = nested(1_000_000);
    assert_eq!(JsonLimits::ARGUMENTS.measure(&deep), Err(JsonTooLargeError::Depth { max: 64 }));
    while let Some(inner) = deep.get_mut("a").map(Value::take) {
        deep = inner;
    }
}

#[test]
fn a_schema_stays_within_itself() {
    let check = |schema: Value, wanted: SchemaError| {
        assert_eq!(Validator::new(&schema).unwrap_err(), wanted, "{schema}");
    };
    for reference in [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/x#/a",
        "file:///etc/passwd",
        "other.json",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let remote = || SchemaError::RemoteReference { reference: reference.into() };
        check(json!({"$ref": reference}), remote());
        check(json!({"properties": {"a": {"items": {"$ref": reference}}}}), remote());
        check(json!({"$defs": {"unused": {"$dynamicRef": reference}}}), remote());
    }
    check(
        json!({"properties": {"a": {"$id": "https://example.com/a", "$ref": "#/x"}}}),
        SchemaError::EmbeddedSchema { id: "https://example.com/a".into() },
    );
    assert!(matches!(
        Validator::new(&json!({"$schema": "https://example.com/my-dialect"})),
        Err(SchemaError::Invalid { .. })
    ));
    assert!(matches!(Validator::new(&json!({"$ref": "#/$defs/none"})), Err(SchemaError::Invalid { .. })));
    assert!(matches!(
        Validator::new(&json!({"properties": {"a": {"type": "x"}}})),
        Err(SchemaError::Invalid { .. })
    ));
    // Keys that only look like references.
    for fine in [
        json!({"properties": {"$ref": {"type": "string"}}}),
        json!({"properties": {"a": {"const": {"$ref": "https://example.com"}}}}),
        json!({"properties": {"a": {"$ref": "#/$defs/b%20c"}}, "$defs": {"b c": {"type": "string"}}}),
        json!({"properties": {"a": {"$ref": "#b"}}, "$defs": {"b": {"$anchor": "b", "type": "string"}}}),
        json!({"$id": "https://example.com/s", "properties": {"a": {"$ref": "https://example.com/s#/$defs/b"}},
               "$defs": {"b": {"type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
               "properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {"type": "string"}}}),
    ] {
        validator(fine);
    }
}

#[test]
fn the_draft_is_the_one_that_the_schema_names() {
    // `items` as a list is a tuple in draft 7, and is not allowed in 2020-12.
    let tuple = json!({"type": "object", "properties": {"a": {"items": [{"type": "string"}]}}});
    assert!(Validator::new(&tuple).is_err());
    let mut old = tuple;
    old["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    let (_, why) = refusal(&old, &json!({"a": [1]}));
    assert!(why.contains("`/a/0`"), "{why}");
}

#[test]
fn a_hostile_schema_is_refused_or_harmless() {
    // Each refers twice to the next, which expands to a billion.
    let doubling = |keyword: &str| {
        let defs: serde_json::Map<String, Value> = (0..30)
            .map(|i| {
                let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
                (format!("d{i}"), json!({keyword: [next, next]}))
            })
            .chain([("d30".to_owned(), json!({"type": "string"}))])
            .collect();
        json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    };
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
        assert_eq!(Validator::new(&doubling(keyword)).unwrap_err(), SchemaError::TooComplex, "{keyword}");
    }
    let all_to_all: serde_json::Map<String, Value> = (0..15)
        .map(|i| {
            let others = (0..15).filter(|j| *j != i).map(|j| json!({"$ref": format!("#/$defs/d{j}")}));
            (format!("d{i}"), json!({"allOf": others.collect::<Vec<_>>()}))
        })
        .collect();
    let round = json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": all_to_all});
    assert_eq!(Validator::new(&round).unwrap_err(), SchemaError::Circular);
    assert_eq!(Validator::new(&json!({"$ref": "#"})).unwrap_err(), SchemaError::Circular);

    let chain: serde_json::Map<String, Value> = (0..5_000)
        .map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)})))
        .chain([("d5000".to_owned(), json!({}))])
        .collect();
    let chain = json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": chain});
    assert_eq!(Validator::new(&chain).unwrap_err(), SchemaError::TooComplex);

    let deep = (0..100).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    assert_eq!(
        Validator::new(&deep).unwrap_err(),
        SchemaError::TooLarge(JsonTooLargeError::Depth { max: 64 })
    );
    let wide: serde_json::Map<String, Value> = (0..30_000).map(|i| (format!("p{i}"), json!({}))).collect();
    assert!(matches!(Validator::new(&json!({"properties": wide})), Err(SchemaError::TooLarge(_))));
}

#[test]
fn a_schema_that_comes_back_to_itself_is_checked_in_time() {
    let tree = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": false});
    assert_eq!(validator(tree.clone()).check(&json!({"a": {"a": {}}}), &JsonLimits::ARGUMENTS), Ok(()));
    let (_, why) = refusal(&tree, &json!({"a": {"a": {"b": 1}}}));
    assert!(why.contains("`/a/a`"), "one way round: {why}");

    // Two branches at each level: 2^60 paths to the wrong leaf.
    let branching = json!({
        "allOf": [{"properties": {"a": {"$ref": "#/$defs/t"}}}, {"properties": {"a": {"$ref": "#/$defs/t"}}}],
        "$defs": {"t": {
            "anyOf": [{"type": "string"}, {"type": "object"}],
            "allOf": [{"properties": {"a": {"$ref": "#/$defs/t"}}}, {"properties": {"a": {"$ref": "#/$defs/t"}}}],
        }},
    });
    let (code, why) = refusal(&branching, &nested(60));
    assert_eq!(code, Code::ArgumentsInvalid);
    assert!(why.contains("nested too deeply to say where"), "{why}");
    let (_, why) = refusal(&branching, &nested(2));
    assert!(why.contains("`/a/a`: 1 is not"), "{why}");

    // As deep as allowed, in both ways. It must fit in half the stack of a worker thread.
    let chain = |links: usize, end: Value| {
        let defs: serde_json::Map<String, Value> = (0..links)
            .map(|i| (format!("d{i}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}]})))
            .chain([(format!("d{links}"), json!({"type": "object", "properties": {"a": end}}))])
            .collect();
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    };
    assert_eq!(Validator::new(&chain(48, json!({"$ref": "#"}))).unwrap_err(), SchemaError::TooComplex);
    let worst = move || {
        let deep = chain(46, json!({"$ref": "#"}));
        assert_eq!(refusal(&deep, &nested(64)).0, Code::ArgumentsTooLarge);
        let (code, why) = refusal(&deep, &nested(10));
        assert_eq!(code, Code::ArgumentsInvalid);
        assert!(why.contains("1 is not of type \"object\""), "{why}");
        let (code, _) = refusal(&chain(5, json!({"$ref": "#"})), &nested(64));
        assert_eq!(code, Code::ArgumentsInvalid);
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(worst).unwrap().join().unwrap();
}

#[test]
fn patterns_are_bounded() {
    // Takes exponential time in backtracking engines. Without a limit this test would not end.
    let linear = json!({"properties": {"x": {"pattern": "^(a+)+$"}}});
    let evil = json!({"x": format!("{}!", "a".repeat(50_000))});
    assert_eq!(refusal(&linear, &evil).0, Code::ArgumentsInvalid);
    // Look-ahead, which generators use, works. If it would take forever, validation fails.
    let ahead = json!({"properties": {"x": {"pattern": "^(?!admin)[a-z]+$"}}});
    assert_eq!(validator(ahead.clone()).check(&json!({"x": "user"}), &JsonLimits::ARGUMENTS), Ok(()));
    assert_eq!(refusal(&ahead, &json!({"x": "admin"})).0, Code::ArgumentsInvalid);
    let endless = r"^(?=a)((a+)+)+\1!$";
    let evil = json!({"x": "a".repeat(100)});
    for schema in [
        json!({"properties": {"x": {"pattern": endless}}}),
        json!({"properties": {"x": {"not": {"pattern": endless}}}}),
        json!({"properties": {"x": {"if": {"pattern": endless}, "then": false}}}),
        json!({"properties": {"x": {"if": {"pattern": endless}, "else": false}}}),
    ] {
        assert_eq!(refusal(&schema, &evil).0, Code::ArgumentsInvalid, "{schema}");
    }
    let names = json!({"patternProperties": {endless: {"type": "string"}}});
    let many: serde_json::Map<String, Value> = (0..100).map(|i| ("a".repeat(100 + i), json!(1))).collect();
    assert_eq!(refusal(&names, &Value::Object(many)).0, Code::ArgumentsInvalid);
    // Expands to a billion states.
    assert!(Validator::new(&json!({"properties": {"x": {"pattern": "((a{1000}){1000}){1000}"}}})).is_err());
}

// req: M1
#[test]
fn a_null_optional_argument_counts_as_absent_where_null_is_not_accepted() {
    let validator = validator(json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "limit": {"type": "integer"},
            "a/b~c": {"$ref": "#/$defs/word"},
            "either": {"type": ["string", "null"]},
            "any": {},
            "inner": {"type": "object", "properties": {"x": {"type": "string"}}},
        },
        "required": ["path"],
        "$defs": {"word": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
    }));
    let check = |given: Value, wanted: Value| {
        assert_eq!(validator.without_nulls(given, &JsonLimits::ARGUMENTS), wanted);
    };
    check(json!({"path": "a", "limit": null, "a/b~c": null}), json!({"path": "a"}));
    check(
        json!({"path": "a", "either": null, "any": null}),
        json!({"path": "a", "either": null, "any": null}),
    );
    check(json!({"path": "a", "either": null, "limit": null}), json!({"path": "a", "either": null}));
    check(json!({"path": null}), json!({"path": null}));
    check(json!({"path": "a", "unknown": null}), json!({"path": "a", "unknown": null}));
    check(json!({"path": "a", "inner": {"x": null}}), json!({"path": "a", "inner": {"x": null}}));
    check(json!(null), json!(null));
    check(json!([null]), json!([null]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-d$/~]{0,2}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Values made of JSON Schema keywords, so that some are schemas and many nearly are.
fn nearly_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"pattern": "^(?=a)b*$"})),
        Just(json!({"pattern": "["})),
        Just(json!({"enum": [1, "a", null]})),
        any_json(),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let keyword = prop::sample::select(vec![
            "properties",
            "$defs",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "then",
            "items",
            "prefixItems",
            "patternProperties",
            "additionalProperties",
            "unevaluatedProperties",
            "required",
            "dependentSchemas",
            "contains",
            "propertyNames",
            "minimum",
            "maxLength",
            "uniqueItems",
            "multipleOf",
            "format",
        ]);
        let value = prop_oneof![
            inner.clone(),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ];
        prop::collection::btree_map(keyword, value, 0..4)
            .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            .prop_map(Value::Object)
    })
}

/// Tests whether a schema uses only keywords that Gemini knows. An argument may have the name of one.
fn speaks_gemini(schema: &Value) -> bool {
    const UNKNOWN: &[&str] = &["$ref", "oneOf", "const", "additionalProperties"];
    let Some(map) = schema.as_object() else { return true };
    map.iter().all(|(keyword, value)| match keyword.as_str() {
        unknown if UNKNOWN.contains(&unknown) => false,
        "properties" => value.as_object().is_none_or(|arguments| arguments.values().all(speaks_gemini)),
        "anyOf" => value.as_array().is_none_or(|choices| choices.iter().all(speaks_gemini)),
        "items" => speaks_gemini(value),
        _ => true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // req: T3
    #[test]
    fn checking_never_panics(schema in nearly_schema(), arguments in any_json()) {
        if let Ok(validator) = Validator::new(&schema) {
            let wrapped = json!({"a": arguments, "b": null});
            for arguments in [arguments, wrapped] {
                let first = validator.check(&arguments, &JsonLimits::ARGUMENTS);
                prop_assert_eq!(&first, &validator.check(&arguments, &JsonLimits::ARGUMENTS));
                if let Err(refusal) = first {
                    prop_assert!(refusal.message.chars().count() <= 2_001);
                    prop_assert!(!refusal.message.contains("could not be checked"), "{}", refusal.message);
                }
                validator.without_nulls(arguments, &JsonLimits::ARGUMENTS);
            }
        }
    }

    // req: T9
    #[test]
    fn any_schema_can_be_put_into_any_form_or_is_refused(schema in nearly_schema()) {
        let catalog = byleave_gate::catalog::Catalog::new();
        if catalog.register(crate::support::ManifestOnlyTool::with_schema("t", schema)).is_ok() {
            for form in byleave_gate::provider_formats::ProviderFormat::ALL {
                if let Ok(schemas) = byleave_gate::provider_formats::schemas(form, &catalog.list(), &crate::support::site()) {
                    prop_assert_eq!(schemas.len(), 1);
                    if form == byleave_gate::provider_formats::ProviderFormat::Gemini {
                        prop_assert!(speaks_gemini(&schemas[0]["parameters"]), "{}", schemas[0]);
                    }
                }
            }
        }
    }
}

//! Tools from a struct and a function.

use std::sync::Arc;
use std::time::Duration;

use byleave_gate::catalog::{Catalog, ManifestError, RegisterError};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool, ToolError};
use byleave_gate::typed_tool::{Json, TypedTool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{run, run_reporting, site};

#[derive(Debug, Deserialize, JsonSchema)]
struct AppendLine {
    /// The file to append to
    path: String,
    /// The line, without its end
    line: String,
    /// How many times
    #[serde(default)]
    times: Option<u8>,
}

fn append() -> TypedTool<AppendLine> {
    TypedTool::new(
        "append_line",
        "Appends a line to a file",
        |args: AppendLine, run: RunContext| async move {
            run.report_progress(0.5, "half way");
            format!("{} + {} x {}", args.path, args.line, args.times.unwrap_or(1))
        },
    )
}

// req: T2
#[test]
fn the_schema_comes_from_the_struct() {
    insta::assert_json_snapshot!(append().manifest().input_schema, @r#"
    {
      "properties": {
        "line": {
          "description": "The line, without its end",
          "type": "string"
        },
        "path": {
          "description": "The file to append to",
          "type": "string"
        },
        "times": {
          "default": null,
          "description": "How many times",
          "format": "uint8",
          "maximum": 255,
          "minimum": 0,
          "type": [
            "integer",
            "null"
          ]
        }
      },
      "required": [
        "path",
        "line"
      ],
      "type": "object"
    }
    "#);
}

// req: T1, T2
#[tokio::test]
async fn arguments_come_in_read_and_progress_goes_out() {
    let reports = Arc::default();
    let output =
        append().execute(json!({"path": "a", "line": "b", "times": 2}), run_reporting(&reports)).await;
    assert_eq!(output, Output::text("a + b x 2"));
    let reports = reports.lock().unwrap();
    assert_eq!((reports[0].fraction, reports[0].detail.as_str()), (Some(0.5), "half way"));
}

// req: T3
#[tokio::test]
async fn arguments_that_cannot_be_read_are_a_failure_the_model_can_read() {
    let output = append().execute(json!({"path": "a"}), run()).await;
    assert!(output.is_error);
    assert_eq!(output.error.unwrap(), "cannot read the arguments of `append_line`: missing field `line`");
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize)]
struct Lines {
    count: u32,
}

// req: T2, T3, T4
#[tokio::test]
async fn a_function_may_return_what_suits_it() {
    async fn output_of(tool: TypedTool<Nothing>) -> Output {
        tool.execute(json!({}), run()).await
    }
    let text = TypedTool::new("t", "", |_: Nothing, _| async { "text" });
    assert_eq!(output_of(text).await, Output::text("text"));
    let nothing = TypedTool::new("t", "", |_: Nothing, _| async {});
    assert_eq!(output_of(nothing).await, Output::default());
    let whole = TypedTool::new("t", "", |_: Nothing, _| async {
        Output { truncated: true, undo: Some(json!(1)), ..Output::text("x") }
    });
    assert!(output_of(whole).await.truncated);
    let failed = TypedTool::new("t", "", |_: Nothing, _| async { "x".parse::<u8>().map(|n| n.to_string()) });
    assert_eq!(output_of(failed).await, Output::failure("invalid digit found in string"));
    let data = TypedTool::new("t", "", |_: Nothing, _| async { Ok::<_, String>(Json(Lines { count: 3 })) });
    let data = output_of(data).await;
    assert_eq!(data.data, Some(json!({"count": 3})));
    assert_eq!(data.text, "{\n  \"count\": 3\n}");
    let unwritable = TypedTool::new("t", "", |_: Nothing, _| async {
        Json(std::collections::BTreeMap::from([((1, 2), 3)]))
    });
    assert!(output_of(unwritable).await.error.unwrap().starts_with("cannot encode the result as JSON"));
}

// req: T5, T6, T7
#[test]
fn everything_can_be_declared() {
    let tool = append()
        .permission_class(PermissionClass::File)
        .aliases(["append", "add_line"])
        .search_hint("append text line to file")
        .role("/path", ArgumentRole::EditPath)
        .audit_operation("edit")
        .destructive()
        .sensitive()
        .idempotent()
        .reversible()
        .concurrency_safe()
        .read_only()
        .requires_checkpoint()
        .requires_reverse_thinking()
        .timeout(Duration::from_secs(5))
        .needs_approval(ApprovalRequirement::Always);
    let manifest = Manifest { input_schema: "…".into(), ..tool.manifest().clone() };
    insta::assert_json_snapshot!(manifest, @r#"
    {
      "name": "append_line",
      "description": "Appends a line to a file",
      "input_schema": "…",
      "aliases": [
        "append",
        "add_line"
      ],
      "search_hint": "append text line to file",
      "permission_class": "file",
      "roles": {
        "/path": "edit-path"
      },
      "audit_operation": "edit",
      "needs_approval": "always",
      "concurrency_safe": true,
      "read_only": true,
      "destructive": true,
      "sensitive": true,
      "idempotent": true,
      "reversible": true,
      "requires_checkpoint": true,
      "requires_reverse_thinking": true,
      "timeout_ms": 5000
    }
    "#);
    Catalog::new().register(tool).unwrap();
    // req: T6, a class of the author's choice reaches the engine through the manifest alone.
    assert_eq!(append().manifest().permission_class, PermissionClass::Undeclared);
}

// req: T8
#[tokio::test]
async fn an_approval_may_depend_on_the_arguments() {
    let long = json!({"path": "a", "line": "long enough"});
    let short = json!({"path": "a", "line": "b"});

    let sync = append().needs_approval_when(|args| args.line.len() > 3);
    assert_eq!(sync.manifest().needs_approval, ApprovalRequirement::Depends);
    assert_eq!(Tool::needs_approval(&sync, &long).await, Ok(true));
    assert_eq!(Tool::needs_approval(&sync, &short).await, Ok(false));

    let later = append().needs_approval_when_async(|args| async move {
        tokio::task::yield_now().await;
        if args.line == "b" { Err("cannot tell") } else { Ok(false) }
    });
    assert_eq!(Tool::needs_approval(&later, &long).await, Ok(false));
    assert_eq!(Tool::needs_approval(&later, &short).await, Err(ToolError("cannot tell".into())));
    assert!(
        Tool::needs_approval(&later, &json!({})).await.is_err(),
        "unreadable arguments are a failure, not a no"
    );

    let unsaid = append().needs_approval(ApprovalRequirement::Depends);
    assert_eq!(Tool::needs_approval(&unsaid, &short).await, Ok(true), "depends on nothing: needed");
}

// req: T1
#[tokio::test]
async fn a_tool_may_describe_itself_by_the_site_and_plan_by_itself() {
    let tool = append()
        .with_describer(|site| format!("Appends beneath {}", site.cwd.display()))
        .with_planner(|args, _site| {
            let effects = vec![Effect::Write { path: args.path.clone() }];
            Ok::<_, String>(Plan { effects, ..Plan::default() })
        });
    assert_eq!(tool.describe(&site()), "Appends beneath /w");
    let plan = tool.plan(&json!({"path": "/w/a", "line": ""}), &site()).unwrap().await.unwrap();
    assert_eq!(plan.effects, [Effect::Write { path: "/w/a".into() }]);
    assert!(append().plan(&json!({}), &site()).is_none());
}

// req: T5
#[test]
fn bad_metadata_is_an_error_at_registration() {
    let check = |tool: TypedTool<AppendLine>, wanted: &str| match Catalog::new().register(tool) {
        Err(RegisterError::InvalidManifest { error: why, .. }) => {
            assert!(why.to_string().contains(wanted), "{why}")
        }
        other => panic!("{wanted}: {other:?}"),
    };
    let named = |name: &str| TypedTool::new(name, "", |_: AppendLine, _| async {});
    for bad in ["", " ", "a b", "-a", "é", "a\u{202e}b", &"x".repeat(129)] {
        check(named(bad), "is not a valid name");
        check(append().aliases([bad]), "is not a valid name");
    }
    check(append().aliases(["x", "x"]), "the alias `x` is already used");
    check(append().aliases(["append_line"]), "the alias `append_line` is already used");
    check(append().search_hint("two words"), "3 to 10 words, this one has 2");
    check(append().search_hint("a b c d e f g h i j k"), "this one has 11");
    check(append().audit_operation(" "), "audit operation is empty");
    check(append().timeout(Duration::ZERO), "timeout is 0");
    for bad in ["/file", "path", "", "/path/0", "/"] {
        check(append().role(bad, ArgumentRole::ReadPath), "the schema has no such argument");
    }
    let error = Catalog::new().register(append().search_hint("x")).unwrap_err();
    assert!(matches!(error, RegisterError::InvalidManifest { error: ManifestError::Hint { words: 1 }, .. }));
    assert_eq!(
        error.to_string(),
        "cannot register tool `append_line`: a search hint must have 3 to 10 words, this one has 1"
    );
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Copy {
    from: Option<Place>,
    more: Vec<Place>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is looked at")]
struct Place {
    path: String,
}

// req: T5
#[test]
fn a_role_may_name_a_nested_argument() {
    let copy = || TypedTool::new("copy", "", |_: Copy, _| async {});
    for good in ["/from/path", "/more/0/path", "/more"] {
        Catalog::new().register(copy().role(good, ArgumentRole::ReadPath)).unwrap();
    }
    for bad in ["/from/file", "/more/path", "/more/x/path"] {
        Catalog::new().register(copy().role(bad, ArgumentRole::ReadPath)).unwrap_err();
    }
}

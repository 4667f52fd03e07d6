//! The tool `read_file`: shows a text file, or some of its lines.

use std::fmt::Write as _;

use byleave_gate::core::effect::Effect;
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::blocking::run_blocking;
use crate::execution_env::ExecutionEnv;
use crate::gate_lines::{push_gate_line, strip_gate_prefix};
use crate::workspace_files::Files;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadFile {
    /// The file
    #[expect(dead_code, reason = "the plan contains the evaluated path, and that one is used")]
    path: String,
    /// The first line to show, from 1
    #[serde(default)]
    #[schemars(range(min = 1))]
    from_line: Option<usize>,
    /// How many lines to show
    #[serde(default)]
    #[schemars(range(min = 1))]
    lines: Option<usize>,
    /// Whether to number the lines; true by default
    #[serde(default)]
    numbered: Option<bool>,
}

/// Creates the tool for an execution environment.
pub fn read_file(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let workplace = workplace.clone();
    let body = move |args: ReadFile, run: RunContext| {
        let workplace = workplace.clone();
        run_blocking(move || read(&args, &Files::for_run(&workplace, &run)?, &run))
    };
    TypedTool::new(
        "read_file",
        "Shows a text file with numbered lines, completely or from a given line on.",
        body,
    )
    .permission_class(PermissionClass::Readonly)
    .role("/path", ArgumentRole::ReadPath)
    .aliases(["view_file"])
    .search_hint("show the content of a text file")
    .audit_operation("read")
    .read_only()
    .concurrency_safe()
    .idempotent()
    .not_sensitive()
}

fn read(args: &ReadFile, files: &Files, run: &RunContext) -> Result<Output, String> {
    let mut effects = run.plan.named_effects();
    let (Some(Effect::Read { path }), None) = (effects.next(), effects.next()) else {
        return Err("the plan does not name exactly one file to read; call again with one `path`".into());
    };
    let (text, _) = files.read_text(path)?;
    let all = text.lines().count();
    let from = args.from_line.unwrap_or(1).max(1);
    if from > all.max(1) {
        return Err(format!(
            "`{}` has {all} lines, so there are none from line {from} on; use a smaller `from_line`",
            files.display_path(path)
        ));
    }
    let lines = text.split_inclusive('\n').zip(1..).skip(from - 1).take(args.lines.unwrap_or(usize::MAX));
    let numbered = args.numbered.unwrap_or(true);
    let mut shown = String::new();
    let mut last = from - 1;
    for (line, number) in lines {
        last = number;
        if numbered {
            write!(shown, "{number:>6}\t").map_err(|error| error.to_string())?;
        }
        shown.push_str(line);
    }
    shown = strip_gate_prefix(&shown);
    if last < all {
        push_gate_line(
            &mut shown,
            &format!("{} more lines; continue with from_line = {}", all - last, last + 1),
        );
    }
    if text.is_empty() {
        push_gate_line(&mut shown, "the file is empty");
    }
    let data = json!({ "path": path, "lines": all, "from": from, "to": last });
    Ok(Output::text(shown).with_data(data))
}

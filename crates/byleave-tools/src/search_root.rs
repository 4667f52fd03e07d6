//! The start directory of tools that search directories: their plan, the evaluated path, and the notes in their result.

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::path_resolution::resolve_argument;
use byleave_gate::tool::{RunContext, ToolContext, ToolError};

use crate::dir_walk::{MAX_ENTRIES, WalkSummary};
use crate::gate_lines::push_gate_line;

/// The default maximum number of lines or paths.
pub(crate) const DEFAULT_MAX_RESULTS: usize = 1_000;

/// Plans a tool that reads a directory. The default is the working directory.
pub(crate) fn plan_directory_read(path: Option<&str>, site: &ToolContext) -> Result<Plan, ToolError> {
    let path = resolve_argument(path.unwrap_or("."), &site.cwd)?;
    Ok(Plan { effects: vec![Effect::Read { path }], read_only: true, ..Plan::default() })
}

/// Returns the evaluated path.
pub(crate) fn granted_path(run: &RunContext) -> Result<&str, String> {
    let mut effects = run.plan.named_effects();
    match (effects.next(), effects.next()) {
        (Some(Effect::Read { path }), None) => Ok(path),
        _ => Err("the plan does not name exactly one directory to read; call again with one `path`".into()),
    }
}

/// Adds what a walk omitted, and why.
pub(crate) fn push_omissions(text: &mut String, told: &WalkSummary) {
    let WalkSummary { hidden: kept, unread, is_truncated: is_cut, hit_depth_limit: is_deeper, .. } = *told;
    if kept > 0 {
        let verb = if kept == 1 { "path was" } else { "paths were" };
        push_gate_line(text, &format!("{kept} {verb} left out because a rule denies reading them"));
    }
    if unread > 0 {
        let what = if unread == 1 { "directory or file" } else { "directories or files" };
        push_gate_line(
            text,
            &format!("{unread} {what} could not be read; ask the person to change their modes"),
        );
    }
    if is_cut {
        push_gate_line(
            text,
            &format!(
                "there are more than {MAX_ENTRIES} entries, and not all were searched; narrow with `path`"
            ),
        );
    }
    if is_deeper {
        push_gate_line(text, "some directories are too deep to be searched; name one of them as `path`");
    }
}

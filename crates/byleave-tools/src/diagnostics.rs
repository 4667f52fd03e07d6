//! The tool `diagnostics`: the findings of compilers and linters in the workspace, in one format.
//!
//! It runs every checker that the workspace has a project for and that is installed. This runs code of the workspace: build scripts,
//! macros, plugins and executable settings. It is safe without a question because of where it runs:
//!
//! - in the sandbox, without a network (connections are refused),
//! - on a copy of the workspace that is discarded afterwards,
//! - with all files hidden that rules deny.
//!
//! The only result is the output, which is parsed as findings. Build results in scratch directories (`target/`, caches) are kept for later
//! runs of this tool and for rehearsals, which are confined in the same way. Nothing with more rights uses them. If one of the required
//! guarantees is waived, the tool does not run. It must never commit anything.

mod checker;
mod finding;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_copy::WorkspaceCopy;
use byleave_gate::core::call::Mode;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{RunContext, Tool, ToolContext, ToolError};
use byleave_gate::typed_tool::TypedTool;
use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::launch::{CapturedOutput, CommandOutcome, CommandStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::blocking::run_blocking;
use crate::copy_commit::discard_copy;
use crate::execution_env::{ExecutionEnv, NetworkAccess, PrepareCopyError};
use crate::gate_lines::strip_gate_prefix;
use crate::rehearsal_result;
use crate::run_command;
use crate::workspace_files::Files;
use checker::CheckerRun;
use finding::{CheckerFinding, Severity};

/// The name of the tool.
pub const TOOL_NAME: &str = "diagnostics";

const SHOWN_MAX: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(600);
/// The part of the timeout that is reserved for assembling the result.
const AFTERWARDS: Duration = Duration::from_secs(20);
const EACH_MAX: Duration = Duration::from_secs(300);
/// The maximum output. A compiler that reports on every file prints more than a usual command may.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
const TELLING_LINES_MAX: usize = 6;

/// The arguments of `diagnostics`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DiagnosticsArguments {
    /// Show only findings in these files or directories
    #[serde(default)]
    paths: Vec<String>,
    /// Run only these checkers; by default all that the workspace has
    #[serde(default)]
    tools: Vec<CheckerName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CheckerName {
    /// clippy, or check if clippy is missing
    Cargo,
    Eslint,
    Tsc,
    Ruff,
    Mypy,
    /// go vet
    Go,
}

impl CheckerName {
    const fn word(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Eslint => "eslint",
            Self::Tsc => "tsc",
            Self::Ruff => "ruff",
            Self::Mypy => "mypy",
            Self::Go => "go",
        }
    }
}

/// A finding in the common format.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Finding {
    severity: Severity,
    file: String,
    line: u64,
    column: u64,
    code: Option<String>,
    message: String,
    tool: &'static str,
}

/// The result of a checker on a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct CheckerResult {
    tool: &'static str,
    directory: String,
    how: CheckerStatus,
    /// The reason, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckerStatus {
    Ran,
    Missing,
    Failed,
}

/// Creates the tool for an execution environment.
pub fn diagnostics(workplace: ExecutionEnv) -> impl Tool {
    let workplace = Arc::new(workplace);
    let check = move |args: DiagnosticsArguments, run: RunContext| {
        let workplace = Arc::clone(&workplace);
        run_blocking(move || checked(&workplace, &args, &run))
    };
    let description = "Runs the compilers and linters of the workspace (cargo clippy, eslint, tsc, ruff, mypy, go vet) on a copy without network, \
        and returns their findings: file, line, severity, message. Changes nothing.";
    TypedTool::new(TOOL_NAME, description, check)
        .permission_class(PermissionClass::Readonly)
        .role("/paths", ArgumentRole::ReadPath)
        .with_planner(|args: &DiagnosticsArguments, site| planned(&args.paths, site))
        .search_hint("compiler linter errors warnings of the workspace")
        .audit_operation("read")
        .read_only()
        .idempotent()
        .not_sensitive()
        .timeout(TIMEOUT)
}

/// Plans the call. It always reads its working directory, independent of which findings are shown.
fn planned(paths: &[String], site: &ToolContext) -> Result<Plan, ToolError> {
    let mut manifest = Manifest::new(TOOL_NAME, "", json!({"type": "object", "properties": {"paths": {}}}));
    manifest.permission_class = PermissionClass::Readonly;
    manifest.roles = [("/paths".to_owned(), ArgumentRole::ReadPath)].into();
    let all: Vec<&str> = std::iter::once(".").chain(paths.iter().map(String::as_str)).collect();
    plan_by_class(&manifest, &json!({ "paths": all }), site)
}

fn checked(
    workplace: &ExecutionEnv,
    args: &DiagnosticsArguments,
    run: &RunContext,
) -> Result<Output, String> {
    let weaker = workplace.missing_guarantees();
    if !weaker.is_empty() {
        let weaker = weaker.join(", ");
        return Err(format!(
            "this machine runs commands {weaker}, and workspace code does not run that way without a question; use bash"
        ));
    }
    let mut paths = run.plan.effects.iter().filter_map(|effect| match effect {
        Effect::Read { path } => Some(PathBuf::from(path)),
        _ => None,
    });
    let directory =
        paths.next().ok_or("the plan allows no reads, so nothing can be checked; call diagnostics again")?;
    let only: Vec<PathBuf> = paths.collect();
    let inside = confined(run);
    let confinement = workplace.build_copy_confinement(&inside, NetworkAccess::Blocked)?;
    let workspace = workplace.workspace_for(&directory);
    let wanted: Vec<String> = args.tools.iter().map(|name| name.word().to_owned()).collect();
    let files = Files::for_run(workplace, run)?;
    let checks = checker::find_checker_runs(&directory, &workspace, &wanted, &files);
    if checks.is_empty() {
        return Err(format!(
            "there is nothing to check in `{}`: no Cargo.toml, eslint config, tsconfig.json, Python file or go.mod that `tools` allows; call \
             diagnostics in the directory of a project",
            directory.display()
        ));
    }
    let looked = DiagnosticsResults::at(workplace, &confinement, &checks, &inside);
    if run.cancel.is_cancelled() {
        return Err("the call was stopped; use fewer `tools` to save time".into());
    }
    Ok(looked.told(&directory, &workspace, &only, &files))
}

/// Returns the context of the confined run. Programs run in every mode, because they change only a copy that is discarded.
fn confined(run: &RunContext) -> RunContext {
    let mut plan = (*run.plan).clone();
    plan.effects.push(Effect::Invoke { tool: TOOL_NAME.to_owned() });
    let mut inside = run.clone();
    (inside.plan, inside.mode) = (Arc::new(plan), Mode::ConfirmSensitive);
    inside
}

/// Runs one checker on its own copy, and discards the copy.
fn run_one(
    workplace: &ExecutionEnv,
    confinement: &Confinement,
    script: &str,
    limit: Duration,
    run: &RunContext,
) -> Result<CommandOutcome, String> {
    let mut confinement = confinement.clone();
    (confinement.limits.wall_time, confinement.limits.output_bytes) = (limit, OUTPUT_BYTES_MAX);
    let ready =
        workplace.create_copy(run, &mut confinement, NetworkAccess::Blocked, None).map_err(|unready| {
            match unready {
                PrepareCopyError::RunningElsewhere => {
                    "another process is running this call; wait for it".to_owned()
                }
                PrepareCopyError::Failed(why) => {
                    format!("cannot create a copy to work on: {why}; use bash instead")
                }
            }
        })?;
    let outcome = rehearsal_result::filesystem_now(&confinement).and_then(|began| {
        let outcome = run_command::run_quietly(workplace, &confinement, script, run)?;
        // The file was not hidden, so the output may contain it.
        match rehearsal_result::newly_visible_hidden(&confinement, began).first() {
            Some(why) => Err(format!("the findings are not shown: {why}; call diagnostics again")),
            None => Ok(outcome),
        }
    });
    drop(ready.scratch_stacks);
    ended(ready.copy, outcome.is_ok() && !run.cancel.is_cancelled());
    outcome
}

/// Discards a copy except for its scratch files. After a stop their state is unknown, so they are discarded too.
fn ended(copy: WorkspaceCopy, is_whole: bool) {
    // Listing the changes finds new scratch files.
    let kept = is_whole && copy.changes().and_then(|_| copy.end_unchanged()).is_ok();
    if !kept {
        discard_copy(copy);
    }
}

/// The findings so far, and the result of each checker.
#[derive(Default)]
struct DiagnosticsResults {
    found: Vec<(PathBuf, &'static str, CheckerFinding)>,
    fared: Vec<(PathBuf, CheckerResult)>,
}

impl DiagnosticsResults {
    /// Runs the checkers one after the other, because each uses the whole machine.
    fn at(
        workplace: &ExecutionEnv,
        confinement: &Confinement,
        checks: &[CheckerRun],
        run: &RunContext,
    ) -> Self {
        let began = Instant::now();
        let mut looked = Self::default();
        for (number, check) in checks.iter().enumerate() {
            let left = TIMEOUT.saturating_sub(AFTERWARDS).saturating_sub(began.elapsed());
            if run.cancel.is_cancelled() {
                break;
            }
            #[expect(clippy::cast_precision_loss, reason = "a few")]
            run.report_progress(number as f64 / checks.len() as f64, check.checker.name);
            let limit = EACH_MAX.min(left);
            let (found, how, why) = match run_one(workplace, confinement, &check.script, limit, run) {
                Ok(outcome) => fared(check, &outcome, limit),
                Err(why) => {
                    (Vec::new(), CheckerStatus::Failed, Some(format!("cannot run the checker: {why}")))
                }
            };
            let (tool, at) = (check.checker.name, check.directory.clone());
            looked.found.extend(found.into_iter().map(|one| (at.clone(), tool, one)));
            looked
                .fared
                .push((at.clone(), CheckerResult { tool, directory: at.display().to_string(), how, why }));
        }
        looked
    }

    fn told(self, directory: &Path, workspace: &Path, only: &[PathBuf], files: &Files) -> Output {
        let mut findings: Vec<Finding> = Vec::new();
        for (at, tool, found) in self.found {
            let file = placed(&found.file, &at, workspace, files);
            if !only.is_empty() && !only.iter().any(|path| file.starts_with(path)) {
                continue;
            }
            let file = file.strip_prefix(directory).unwrap_or(&file).to_string_lossy().into_owned();
            let CheckerFinding { line, column, severity, code, message, .. } = found;
            findings.push(Finding { severity, file, line, column, code, message, tool });
        }
        findings.sort();
        findings.dedup();
        let mut totals: BTreeMap<&str, usize> = BTreeMap::new();
        for finding in &findings {
            let total = totals.entry(finding.severity.as_str()).or_default();
            *total = total.saturating_add(1);
        }
        let is_cut = findings.len() > SHOWN_MAX;
        let all = findings.len();
        findings.truncate(SHOWN_MAX);
        let fared: Vec<CheckerResult> = self.fared.into_iter().map(|(_, fared)| fared).collect();
        let ran: Vec<&str> =
            fared.iter().filter(|one| one.how == CheckerStatus::Ran).map(|one| one.tool).collect();
        let mut lines: Vec<String> = Vec::new();
        for one in &fared {
            lines.extend(one.why.as_ref().map(|why| format!("[byleave] {}: {why}", one.tool)));
        }
        let sums: Vec<String> =
            totals.iter().map(|(word, count)| format!("{count} {word}{}", plural(*count))).collect();
        lines.push(match (ran.is_empty(), all) {
            (true, 0) => "[byleave] nothing was checked".to_owned(),
            (_, 0) => format!("[byleave] nothing found by {}", ran.join(", ")),
            _ => format!(
                "[byleave] {} ({})",
                sums.join(", "),
                if ran.is_empty() { "in part".to_owned() } else { ran.join(", ") }
            ),
        });
        if is_cut {
            lines.push(format!(
                "[byleave] the first {SHOWN_MAX} of {all} are shown; give `paths` or `tools` to see others"
            ));
        }
        let said: String = findings.iter().map(|finding| format!("{}\n", line(finding))).collect();
        let text = format!("{}\n{}", lines.join("\n"), strip_gate_prefix(&said));
        let data = json!({ "findings": findings, "totals": totals, "tools": fared });
        let error = (ran.is_empty() && all == 0).then(|| {
            "no checker finished, so there are no findings; follow the advice for each checker above"
                .to_owned()
        });
        Output {
            text,
            is_error: error.is_some(),
            error,
            data: Some(data),
            truncated: is_cut,
            ..Output::default()
        }
    }
}

/// Returns the findings and the status of a checker.
fn fared(
    check: &CheckerRun,
    outcome: &CommandOutcome,
    limit: Duration,
) -> (Vec<CheckerFinding>, CheckerStatus, Option<String>) {
    let [output, errors] = [&outcome.stdout, &outcome.stderr].map(printed);
    let found = (check.checker.parse_output)(&output, &errors);
    if outcome.limit_exceeded.is_some() {
        let why = format!(
            "stopped at a limit ({} seconds, or memory); run this checker alone with `tools`",
            limit.as_secs()
        );
        return (found, CheckerStatus::Failed, Some(why));
    }
    if outcome.stdout.dropped_bytes > 0 || outcome.stderr.dropped_bytes > 0 {
        let why =
            "the output was too long, so findings are missing; give `paths` or run the checker with bash";
        return (found, CheckerStatus::Failed, Some(why.to_owned()));
    }
    match outcome.status {
        CommandStatus::Exited(127) if found.is_empty() => {
            let why = format!("not installed; to install it: {}", check.checker.install_hint);
            (found, CheckerStatus::Missing, Some(why))
        }
        CommandStatus::Exited(code) if check.checker.success_codes.contains(&code) => {
            (found, CheckerStatus::Ran, None)
        }
        // The findings of a failed build say why it failed.
        CommandStatus::Exited(_) if found.iter().any(|one| one.severity == Severity::Error) => {
            (found, CheckerStatus::Ran, None)
        }
        status => {
            let how = match status {
                CommandStatus::Exited(code) => format!("status {code}"),
                CommandStatus::Signalled(signal) => format!("signal {signal}"),
                CommandStatus::NotStarted(errno) => format!("error {errno} at its start"),
            };
            let told = if errors.trim().is_empty() { &output } else { &errors };
            let told: Vec<&str> =
                told.lines().filter(|line| !line.trim().is_empty()).take(TELLING_LINES_MAX).collect();
            let told: String = told.join(" | ").chars().take(800).collect();
            let told = told.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'");
            let why = format!(
                "the checker ended with {how} and printed: {told}. There is no network here, so dependencies must have been fetched before; fix the \
                 problem, or run the checker with bash"
            );
            (found, CheckerStatus::Failed, Some(why))
        }
    }
}

fn printed(printed: &CapturedOutput) -> String {
    String::from_utf8_lossy(&printed.bytes).into_owned()
}

/// Resolves a path that a checker printed: relative to its project, or to a directory above that it works from.
///
/// Code of the workspace controls the output. The choice among several paths must therefore reveal nothing about hidden files.
fn placed(file: &str, project: &Path, workspace: &Path, files: &Files) -> PathBuf {
    let file = Path::new(file.strip_prefix("./").unwrap_or(file));
    if file.is_absolute() {
        return file.to_path_buf();
    }
    let above = project.ancestors().take_while(|above| above.starts_with(workspace));
    let there = above.map(|above| above.join(file)).find(|path| files.is_visible(path));
    there.unwrap_or_else(|| project.join(file))
}

fn line(finding: &Finding) -> String {
    let Finding { severity, file, line, column, code, message, tool } = finding;
    let code = code.as_ref().map(|code| format!("[{code}]")).unwrap_or_default();
    format!("{}:{line}:{column}: {}{code} {message} ({tool})", file.escape_debug(), severity.as_str())
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checker_can_be_named() {
        let names = [
            CheckerName::Cargo,
            CheckerName::Eslint,
            CheckerName::Tsc,
            CheckerName::Ruff,
            CheckerName::Mypy,
            CheckerName::Go,
        ]
        .map(CheckerName::word);
        assert_eq!(names, checker::ALL_CHECKERS.each_ref().map(|checker| checker.name));
    }
}

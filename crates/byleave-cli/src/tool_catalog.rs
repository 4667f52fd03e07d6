//! The tools of the program: the built-in ones, and two for people who try things out, `echo` and `append_line`. Models are not offered those.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_gate::catalog::{Catalog, RegisterError};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::manifest::{ArgumentRole, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::ledger::Ledger;
use byleave_gate::ledger::memory::MemoryLedger;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::TypedTool;
use byleave_sandbox::probe::check_container_wall;
use byleave_tools::{BuiltinToolOptions, CommandHost, ContainerTrust, ExecutionEnv, Jobs, OuterRepository};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::resolved_options::ResolvedOptions;

/// Returns all tools of the program for calls in this directory. Without a ledger they are for listing only.
pub(crate) fn catalog(
    options: &ResolvedOptions,
    workspace: &str,
    ledger: Option<Arc<dyn Ledger>>,
) -> Result<Catalog, RegisterError> {
    let ledger = ledger.unwrap_or_else(|| Arc::new(MemoryLedger::new()));
    // The program ends with its call, so the call holds a background job. A program that serves others continues without the job.
    let jobs = options.held_jobs.clone().map_or_else(Jobs::elsewhere, Jobs::held);
    let offer =
        BuiltinToolOptions { allow_delete: options.allow_delete, ledger: Some(ledger), jobs: Some(jobs) };
    let catalog = byleave_tools::builtin_catalog(&workplace(options, workspace), &offer)?;
    if options.demo_tools {
        catalog.register_generated(echo())?;
        catalog.register_generated(append_line())?;
    }
    Ok(catalog)
}

/// Returns the environment for commands in this directory. Copies are kept beside the audit log.
pub(crate) fn workplace(options: &ResolvedOptions, workspace: &str) -> ExecutionEnv {
    let state = options.state.canonicalize().unwrap_or_else(|_| options.state.clone());
    let mut workplace = ExecutionEnv::new(state.join("copies"), PathBuf::from(workspace));
    workplace.home = options.home.as_ref().map(PathBuf::from);
    workplace.repository = OuterRepository::find(&workplace.workspace, workplace.home.as_deref());
    workplace.run_markers_dir = Some(unfinished(&state));
    workplace.jobs_dir = Some(jobs_dir(&state));
    workplace.private_paths = vec![options.root_state_dir().canonicalize().unwrap_or(state)];
    workplace.environment = std::env::vars().collect();
    workplace.waived.clone_from(&options.waived);
    workplace.required.clone_from(&options.required);
    workplace.max_file_bytes = options.settings.file_bytes();
    workplace.command_host = command_host(options, Path::new(workspace));
    workplace.container = container_trust(options);
    workplace
}

/// Returns whether the container around this program is the outer wall. The setting has no effect where it is none.
pub(crate) fn container_trust(options: &ResolvedOptions) -> ContainerTrust {
    if !options.settings.trusts_container() {
        return ContainerTrust::Untrusted;
    }
    match check_container_wall(options.home.as_ref().map(Path::new), Path::new(&options.cwd)) {
        Ok(()) => ContainerTrust::Trusted,
        Err(why) => ContainerTrust::NoWall(why),
    }
}

/// Returns where commands of this workspace run. If a container is set and there is no engine, they do not run at all.
pub(crate) fn command_host(options: &ResolvedOptions, workspace: &Path) -> CommandHost {
    match options.settings.run_on().engine(workspace) {
        Ok(None) => CommandHost::Native,
        Ok(Some(engine)) => CommandHost::Container(engine),
        Err(error) => CommandHost::Unavailable(format!(
            "{error}; the setting `run_on` requires a container: install podman, or change the setting"
        )),
    }
}

/// Returns the directory that notes unfinished runs. It is shared, so that the next process stops what an earlier one left.
pub(crate) fn unfinished(state: &Path) -> PathBuf {
    state.join("unfinished")
}

/// Returns the directory with the notes about running jobs.
pub(crate) fn jobs_dir(state: &Path) -> PathBuf {
    state.join("jobs")
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    /// The text to return
    text: String,
}

fn echo() -> impl Tool {
    TypedTool::new(
        "echo",
        "Returns a text unchanged.",
        |args: Echo, _run: RunContext| async move { args.text },
    )
    .permission_class(PermissionClass::Readonly)
    .search_hint("echo a text back unchanged")
    .read_only()
    .concurrency_safe()
    .idempotent()
    .not_sensitive()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppendLineArguments {
    /// The file; created if it does not exist
    #[expect(dead_code, reason = "the evaluated path is in the plan, and that one is used")]
    path: String,
    /// The line, without its end
    #[schemars(regex(pattern = "^[^\\n]*$"))]
    line: String,
}

fn append_line() -> impl Tool {
    TypedTool::new(
        "append_line",
        "Appends one line to a file.",
        |args: AppendLineArguments, run: RunContext| async move { append(&args.line, &run.plan) },
    )
    .permission_class(PermissionClass::File)
    .role("/path", ArgumentRole::WritePath)
    .search_hint("append one line to a file")
    .audit_operation("write")
}

/// Appends to the permitted path, which had no links when it was evaluated. A link in it now is new, and fails.
fn append(line: &str, plan: &Plan) -> Result<Output, String> {
    let [Effect::Write { path }] = plan.effects.as_slice() else {
        return Err("the plan does not name one file to write".into());
    };
    let fault = |error: std::io::Error| format!("cannot append to `{path}`: {error}");
    // Non-blocking, because a pipe without a reader would block forever.
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let opened = openat2(CWD, path.as_str(), flags, Mode::from_raw_mode(0o666), ResolveFlags::NO_SYMLINKS);
    let mut file = File::from(opened.map_err(|errno| fault(errno.into()))?);
    if !file.metadata().map_err(fault)?.is_file() {
        return Err(format!("cannot append to `{path}`: it is not a file"));
    }
    let bytes = format!("{line}\n").into_bytes();
    // One write, so that lines of concurrent writers stay whole.
    let written = file.write(&bytes).map_err(fault)?;
    if written < bytes.len() {
        return Err(format!("only {written} of {} bytes were appended to `{path}`", bytes.len()));
    }
    file.sync_all().map_err(fault)?;
    let data = json!({ "path": path, "bytes": written });
    Ok(Output::text(format!("appended {written} bytes to {path}")).with_data(data))
}

//! The tool `bash`: runs a shell command, confined, on a copy of everything that it may write.

mod held;
mod rehearse;

use std::sync::Arc;
use std::time::Duration;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::host::LOCALHOST;
use byleave_gate::core::manifest::{ArgumentRole, Manifest, NOT_OFFERED, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::plan::plan_by_class;
use byleave_gate::tool::{Rehearsable, RunContext, Tool, ToolContext, ToolError};
use byleave_gate::typed_tool::TypedTool;
use byleave_shell::services::find_service;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::background_jobs::Jobs;
use crate::blocking::run_blocking;
use crate::execution_env::{ExecutionEnv, NetworkAccess};
use crate::gate_lines::push_gate_line;
use crate::held_jobs::HELD_MAX;
use crate::run_command::RunAdvice;
use crate::service_watch::{KnownService, KnownServices, describe};

/// The maximum running time of a command within its call, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 600_000;
/// The default number of output bytes that are kept. It is slightly less than a gate keeps of an output.
const OUTPUT_BYTES_MAX: usize = 4_000_000;

/// The time that a job has to end after its own limit.
const HELD_GRACE: Duration = Duration::from_secs(60);

/// The tool that runs shell commands.
#[derive(Clone, Debug)]
pub struct Bash {
    manifest: Arc<Manifest>,
    workplace: Arc<ExecutionEnv>,
    jobs: Jobs,
    output_bytes_max: usize,
}

// This type has no doc comment because the model would read it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BashArguments {
    /// The command, as bash reads it. Returns stdout and stderr together, in order; a long output is cut in the middle
    command: String,
    /// Directories outside the workspace that the command writes to
    #[serde(default)]
    #[expect(dead_code, reason = "the plan contains the evaluated value")]
    write: Vec<String>,
    /// Files outside the workspace that the command reads
    #[serde(default)]
    #[expect(dead_code, reason = "the plan contains the evaluated value")]
    read: Vec<String>,
    /// Timeout in milliseconds; by default that of a call (usually 30000), or 8 hours for a background job. Set it for builds and tests
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// Same as `timeout`
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Return at once and keep the command running. Use `bash_output` to read its output and `bash_kill` to end it. The command works on the real files: its changes cannot be undone
    #[serde(default)]
    background: bool,
    /// Ports from 1024 on which the background job will serve, to open them on this machine. `bash_output` returns the address of each
    #[serde(default)]
    ports: Vec<u16>,
}

impl Bash {
    /// Creates the tool for an execution environment, without background jobs.
    pub fn new(workplace: ExecutionEnv) -> Self {
        Self {
            manifest: Arc::new(manifest(&Jobs::disabled())),
            workplace: Arc::new(workplace),
            jobs: Jobs::disabled(),
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }

    /// Adds background jobs, which are held in this table. In a container there are none.
    #[must_use]
    pub fn with_jobs(self, jobs: Jobs) -> Self {
        let jobs = if self.workplace.command_host.check_jobs().is_ok() { jobs } else { Jobs::disabled() };
        Self { manifest: Arc::new(manifest(&jobs)), jobs, ..self }
    }

    /// Sets the number of output bytes that are kept: half from the beginning, half from the end.
    #[must_use]
    pub fn with_max_output_bytes(self, output_bytes_max: usize) -> Self {
        Self { output_bytes_max, ..self }
    }

    /// Parses the arguments of a call, and returns an error if the call cannot succeed.
    fn read(&self, arguments: Value) -> Result<BashArguments, String> {
        let mut arguments: BashArguments = serde_json::from_value(arguments)
            .map_err(|error| format!("cannot read the arguments of `bash`: {error}"))?;
        self.recognize_job(&mut arguments);
        if arguments.command.trim().is_empty() {
            return Err("the command is empty; give a command".into());
        }
        if arguments.command.contains('\0') {
            return Err("a command cannot contain a zero byte; write it as `\\0` for `printf`".into());
        }
        if arguments.timeout.zip(arguments.timeout_ms).is_some_and(|(one, other)| one != other) {
            return Err("`timeout` and `timeout_ms` differ; give one of them".into());
        }
        if !arguments.background && !arguments.ports.is_empty() {
            return Err("`ports` are those of a background job; set `background: true`".into());
        }
        if let Some(port) = arguments.ports.iter().find(|port| **port < 1024) {
            return Err(format!("port {port} cannot be opened, because only ports from 1024 can"));
        }
        if arguments.background {
            self.workplace.command_host.check_jobs()?;
            self.jobs.check_available()?;
        }
        Ok(arguments)
    }

    /// Makes a server or a watcher a job, unless the call limits its time. It would never end otherwise. The port that it names is asked for.
    fn recognize_job(&self, arguments: &mut BashArguments) {
        if self.jobs.held_by_call().is_none() {
            return;
        }
        let known =
            self.known_services().and_then(|known| known.find(&self.workplace.workspace, &arguments.command));
        if let Some(known) = known {
            arguments.background = true;
            if arguments.ports.is_empty() {
                arguments.ports.push(known.port);
            }
            return;
        }
        if !arguments.background && arguments.requested_timeout().is_some() {
            return;
        }
        let Some(service) = find_service(&arguments.command) else { return };
        arguments.background = true;
        if arguments.ports.is_empty() {
            arguments.ports.extend(service.port);
        }
    }

    fn known_services(&self) -> Option<KnownServices> {
        self.workplace.jobs_dir.as_deref().map(KnownServices::new)
    }

    /// Remembers that a command is a service, so that the next call with it is a job.
    fn remember_service(&self, command: &str, port: u16, run: &RunContext) {
        let service = KnownService { call: run.call, port };
        let added =
            self.known_services().map(|known| known.add(&self.workplace.workspace, command, &service));
        if let Some(Err(error)) = added {
            tracing::warn!(%error, "cannot remember that a command is a service");
        }
    }

    /// Returns an error if the rehearsal of this call found that its command is a service. A yes would only end it again.
    fn check_no_service(&self, run: &RunContext) -> Result<(), String> {
        let found = self.jobs.held_by_call().and_then(|_| self.known_services()?.found_by(run.call));
        found.map_or(Ok(()), |port| Err(describe(port)))
    }

    fn advice(&self) -> RunAdvice {
        RunAdvice { background: self.jobs.outlive_calls() }
    }
}

/// Returns the manifest. Models are offered background jobs only if jobs outlive their calls.
fn manifest(jobs: &Jobs) -> Manifest {
    let described =
        TypedTool::new("bash", "Runs a shell command in the workspace.", |_: BashArguments, _| async {});
    let described = described
        .permission_class(PermissionClass::Bash)
        .role("/command", ArgumentRole::Command)
        .role("/write", ArgumentRole::WritePath)
        .role("/read", ArgumentRole::ReadPath)
        .search_hint("run a shell command or program")
        .audit_operation("execute")
        .not_sensitive()
        .reversible()
        .timeout(Duration::from_millis(TIMEOUT_MS_MAX));
    let mut manifest = described.manifest().clone();
    if jobs.outlive_calls() {
        return manifest;
    }
    if let Some(offered) = manifest.input_schema.get_mut("properties").and_then(Value::as_object_mut) {
        for name in ["background", "ports"] {
            match offered.get_mut(name).and_then(Value::as_object_mut) {
                Some(property) if jobs.are_known() => {
                    property.insert(NOT_OFFERED.into(), true.into());
                }
                _ => {
                    offered.remove(name);
                }
            }
        }
        if let Some(timeout) = offered.get_mut("timeout").and_then(Value::as_object_mut) {
            let plain = "Timeout in milliseconds; by default that of a call (usually 30000). Set it for builds and tests";
            timeout.insert("description".into(), plain.into());
        }
    }
    manifest
}

impl BashArguments {
    /// Returns the maximum running time of the command that the call asks for.
    fn requested_timeout(&self) -> Option<Duration> {
        let requested = self.timeout.or(self.timeout_ms)?;
        Some(Duration::from_millis(requested.clamp(1, TIMEOUT_MS_MAX)))
    }

    /// Returns the maximum running time of the command within its call.
    fn timeout(&self, run: &RunContext) -> Duration {
        self.requested_timeout().unwrap_or(run.default_timeout).min(Duration::from_millis(TIMEOUT_MS_MAX))
    }
}

impl Tool for Bash {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn can_run(&self, run: RunContext) -> BoxFuture<'_, Result<(), ToolError>> {
        let bash = self.clone();
        Box::pin(async move {
            let look = move || bash.check_no_service(&run).and_then(|()| bash.workplace.check_can_run(&run));
            let looked = tokio::task::spawn_blocking(look).await;
            looked.map_err(|broken| ToolError(broken.to_string()))?.map_err(ToolError)
        })
    }

    fn plan<'a>(
        &'a self,
        arguments: &'a Value,
        site: &'a ToolContext,
    ) -> Option<BoxFuture<'a, Result<Plan, ToolError>>> {
        // A call that cannot succeed must not cause a question. For all others the permission class makes the plan.
        let read = match self.read(arguments.clone()) {
            Err(why) => return Some(Box::pin(async { Err(ToolError(why)) })),
            Ok(read) => read,
        };
        Some(Box::pin(async move {
            let mut plan = plan_by_class(self.manifest(), arguments, site)?;
            let opened = |port: &u16| Effect::Reach { host: LOCALHOST.to_owned(), port: *port };
            plan.effects.extend(read.ports.iter().map(opened));
            plan.deny_control_ports();
            if !read.background {
                plan.effects.extend(self.workplace.large_copy(&site.cwd));
            }
            plan.has_session_tmp = !read.background && self.workplace.has_session_tmp(&site.cwd);
            Ok(plan)
        }))
    }

    fn job_duration(&self, arguments: &Value) -> Option<Duration> {
        self.jobs.held_by_call()?;
        let arguments = self.read(arguments.clone()).ok().filter(|arguments| arguments.background)?;
        // The sandbox ends it first.
        Some(arguments.requested_timeout().unwrap_or(HELD_MAX) + HELD_GRACE)
    }

    fn as_rehearsable(&self) -> Option<&dyn Rehearsable> {
        Some(self)
    }

    fn execute(&self, arguments: Value, run: RunContext) -> BoxFuture<'_, Output> {
        let bash = self.clone();
        Box::pin(run_blocking(move || {
            let arguments = bash.read(arguments)?;
            if !arguments.background {
                return Err("a command runs on a copy, and only a background job runs without one".into());
            }
            bash.start(&arguments, &run)
        }))
    }
}

impl Bash {
    /// Starts a granted command in the background.
    fn start(&self, arguments: &BashArguments, run: &RunContext) -> Result<Output, String> {
        let confinement = self.workplace.build_confinement(run, NetworkAccess::Granted)?;
        let time = arguments.requested_timeout();
        let job = self.jobs.start(&self.workplace, confinement, &arguments.command, time, run)?;
        let mut text = String::new();
        push_gate_line(
            &mut text,
            &format!(
                "job `{job}` runs in the background: `bash_output` returns its output, `bash_kill` ends it"
            ),
        );
        push_gate_line(&mut text, "the job works on the real files: its changes cannot be undone");
        Ok(Output::text(text).with_data(json!({ "job": job, "running": true })))
    }
}

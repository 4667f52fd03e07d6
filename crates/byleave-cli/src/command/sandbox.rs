//! `byleave sandbox exec`: runs any command confined, for example a whole coding agent.
//!
//! The person grants what they type: the command, and what the options name. Denials by rules still hold, and rules about files
//! and hosts apply to everything that the command does.

mod stdio_forward;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::core::policy::{Policy, PolicyRequest};
use byleave_gate::settings::GateSettings;
use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::{self, CallHostPolicy, RunEnvironment};
use byleave_sandbox::launch::{
    self, CommandOutcome, LaunchError, NetworkBridge, OciEngine, RunAs, RunningCommand, StartedCommand,
    start_with_network,
};
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec;
use byleave_sandbox::probe::ProbeReport;
use byleave_sandbox::report::describe_outcome;
use clap::{Args as Group, Subcommand, ValueEnum};
use serde_json::json;
use tokio::sync::mpsc;

use crate::app_context::AppContext;
use crate::args::{AskArg, guarantee};
use crate::console::{Console, Tone, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::run_on::RunOn;
use crate::{signals, tool_catalog};

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Run a command confined to this directory, without network
    ///
    /// The command has no access to secrets. The options grant more access. The policy applies to everything that the command does:
    /// denied files are hidden or read-only, and allowed hosts can be reached. At a terminal, the command gets its own terminal. The
    /// exit code is that of the command, 128 plus the signal that ended it, or 125 if the command was not run.
    Exec(SandboxExecArgs),
}

#[derive(Debug, Group)]
pub(crate) struct SandboxExecArgs {
    /// Kind of command
    #[arg(long, value_enum, default_value_t = SandboxProfileArg::Workspace)]
    pub(crate) profile: SandboxProfileArg,
    /// Path outside this directory that the command may write
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Path outside this directory that the command may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Host to reach and to send to; port 443 if none is given
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) reach: Vec<String>,
    /// Environment variable to pass on, besides the usual ones
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Sandbox guarantee to waive; recorded in the audit log
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// Reason for the waiver, for the audit log [default: requested by NAME]
    #[arg(long, value_name = "TEXT", requires = "waive")]
    pub(crate) reason: Option<String>,
    /// Where the command runs: native or oci:IMAGE [default: the setting run_on]
    ///
    /// `native` is the sandbox of this machine. `oci:IMAGE` is a container of podman or docker, without a network. The image must
    /// exist, because nothing is pulled. A container cannot give all guarantees; Byleave says which ones.
    #[arg(long, value_name = "PLACE", conflicts_with = "backend")]
    pub(crate) on: Option<RunOn>,
    /// Sandbox backend [default: the strongest that gives all guarantees]
    #[arg(long, value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<BackendArg>,
    /// Command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The kind of a confined command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxProfileArg {
    /// Works in this directory
    Workspace,
    /// Reads and changes nothing
    ReadOnly,
    /// Runs a whole agent in this directory: no time limit, four times the memory
    Agent,
}

/// A sandbox backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// Namespaces and mounts of Byleave, with Landlock and a system call filter
    Native,
    /// The same, created by the bwrap of the system
    Bwrap,
    /// Landlock and the system call filter only
    Landlock,
}

impl From<BackendArg> for Backend {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Native => Self::Native,
            BackendArg::Bwrap => Self::Bwrap,
            BackendArg::Landlock => Self::Landlock,
        }
    }
}

/// The time limit of a command that runs as long as a person wants.
const NO_END: Duration = Duration::from_secs(365 * 24 * 3600);

pub(crate) async fn run(
    command: SandboxCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let SandboxCommand::Exec(mut typed) = command;
    // From the settings and from the command line.
    let set = options.waived.iter().map(|guarantee| guarantee.name().to_owned());
    let set: Vec<String> = set.filter(|name| !typed.waive.contains(name)).collect();
    typed.waive.extend(set);
    let container = container(&mut typed, options)?;
    let house = AppContext::open_or_create(options)?;
    let policy = Arc::new(house.policy(options, &options.cwd)?);
    let plan = plan(&typed, options)?;
    let (session, agent) = (SessionId::new("cli")?, AgentId::new("cli")?);
    if let Some(why) = denied(&policy, &plan, &session, &agent) {
        let no = CliError::refused(format!("a rule denies the command: {why}"));
        return Err(no.hint("`byleave policy` shows the rules in force").into());
    }
    let mut confinement = confinement(&typed, &plan, &policy, options)?;
    if let Some(engine) = &container {
        engine.adapt(&mut confinement);
    }
    if !typed.waive.is_empty() {
        // The waiver must be in the audit log before the command runs.
        let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
        let place = container.as_ref().map(|engine| format!(" for a container of `{}`", engine.image));
        let requested = || format!("requested by {}{}", options.person.name, place.unwrap_or_default());
        let why = typed.reason.clone().unwrap_or_else(requested);
        gate.waive(&options.tenant, &options.person.name, typed.waive.clone(), &why).await?;
    }
    let keeper = CallHostPolicy::new(policy, &plan, session, agent);
    let (backend, argv) = (typed.backend.map(Backend::from), typed.command);
    let note = container.as_ref().map(missing_note);
    // Before the command starts, so that no signal is missed.
    let ending = signals::termination_signals()?;
    let (running, confinement) = tokio::task::spawn_blocking(move || {
        let running = match container {
            Some(engine) => started_in(&engine, &confinement, argv),
            None => started(&confinement, argv, keeper, backend).map(StartedCommand::from),
        };
        running.map(|running| (running, confinement))
    })
    .await?
    .map_err(|error| not_run(&error))?;
    let (ended, signal) = waited(running, ending).await?;
    let outcome =
        ended.map_err(|error| CliError::not_run(one_line(&format!("the command was stopped: {error}"))))?;
    let mut lines = describe_outcome(&confinement, &outcome);
    lines.extend(note);
    if screen.json() {
        let status = format!("{:?}", outcome.status);
        let wall = u64::try_from(outcome.wall_time.as_millis()).unwrap_or(u64::MAX);
        screen.message(&json!({ "status": status, "wall_ms": wall, "notes": lines }).to_string());
    } else {
        for line in &lines {
            screen.message_with_tone(Tone::Careful, "byleave:", line);
        }
    }
    Ok(match signal {
        Some(signal) => ExitStatus::from_command(launch::CommandStatus::Signalled(signal)),
        None => ExitStatus::from_command(outcome.status),
    })
}

/// Waits for the end of the command. On a signal it stops the command first, and returns the signal as well. It
/// still waits for the outcome then, so that planted files are found.
async fn waited(
    running: StartedCommand,
    mut ending: mpsc::UnboundedReceiver<i32>,
) -> Result<(Result<CommandOutcome, LaunchError>, Option<i32>)> {
    let stopper = running.stopper()?;
    let mut carried = tokio::task::spawn_blocking(move || stdio_forward::forward_until_exit(running));
    tokio::select! {
        ended = &mut carried => Ok((ended?, None)),
        Some(signal) = ending.recv() => {
            tokio::task::spawn_blocking(move || stopper.stop()).await??;
            Ok((carried.await?, Some(signal)))
        }
    }
}

/// Returns the container engine, if the command runs in a container. Choosing a container waives what no engine gives.
fn container(typed: &mut SandboxExecArgs, options: &ResolvedOptions) -> Result<Option<OciEngine>> {
    let on = match (&typed.on, typed.backend) {
        (Some(on), _) => on.clone(),
        // A backend is a part of this machine.
        (None, Some(_)) => RunOn::Native,
        (None, None) => options.settings.run_on(),
    };
    let found = on.engine(&PathBuf::from(&options.cwd).canonicalize()?);
    let missing = |error| not_run(&error).hint("install podman, or run the command with `--on native`");
    let Some(engine) = found.map_err(missing)? else { return Ok(None) };
    if let Some(host) = typed.reach.first() {
        let error = CliError::new(format!("a container has no network, so it cannot reach `{host}`"));
        return Err(error.hint("omit `--reach`, or run the command with `--on native`").into());
    }
    for (guarantee, _) in engine.missing_guarantees() {
        if !typed.waive.iter().any(|name| name == guarantee.name()) {
            typed.waive.push(guarantee.name().to_owned());
        }
    }
    Ok(Some(engine))
}

/// Says in one line which guarantees a container does not give.
fn missing_note(engine: &OciEngine) -> String {
    let missing = engine.missing_guarantees();
    let names: Vec<&str> = missing.iter().map(|(guarantee, _)| guarantee.name()).collect();
    let (names, image) = (names.join(", "), &engine.image);
    format!("a container does not fully give {names}; `BYLEAVE_RUN_ON=oci:{image} byleave doctor` says why")
}

/// Returns the effects that the person grants by typing them.
fn plan(typed: &SandboxExecArgs, options: &ResolvedOptions) -> Result<Plan> {
    let argv: Vec<String> = typed.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let program = argv.first().cloned().unwrap_or_default();
    let mut effects = vec![Effect::Run { program, argv }];
    let at = |path: &PathBuf| -> Result<String> {
        let whole = Path::new(&options.cwd).join(path);
        let missing = || {
            CliError::new(format!("the path `{}` does not exist", path.display()))
                .hint("choose an existing path, or create it first")
        };
        Ok(real_path(&whole)?.ok_or_else(missing)?)
    };
    for path in &typed.write {
        effects.push(Effect::Write { path: at(path)? });
    }
    for path in &typed.read {
        let path = at(path)?;
        if !Path::new(&path).exists() {
            let missing = CliError::new(format!("the path `{path}` does not exist"));
            return Err(missing.hint("choose an existing path, or omit `--read`").into());
        }
        effects.push(Effect::Read { path });
    }
    for host in &typed.reach {
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => {
                let wrong =
                    |_| CliError::new(format!("`{port}` is not a port")).hint("write HOST or HOST:PORT");
                (host, port.parse().map_err(wrong)?)
            }
            None => (host.as_str(), 443),
        };
        // A person names the host, usually the API of an agent. So the command may send to it as well.
        let host = host.to_ascii_lowercase();
        effects.push(Effect::Reach { host: host.clone(), port });
        effects.push(Effect::Send { host, port });
    }
    for guarantee in &typed.waive {
        effects.push(Effect::Unconfined { guarantee: guarantee.clone() });
    }
    let mut plan = Plan { effects, ..Plan::default() };
    plan.deny_control_ports();
    Ok(plan)
}

/// Returns the reason if a rule denies it. An ask is answered by typing the command.
fn denied(policy: &Policy, plan: &Plan, session: &SessionId, agent: &AgentId) -> Option<String> {
    let manifest = Manifest::for_commands("sandbox");
    let ruling = policy.evaluate(&PolicyRequest::new(&manifest, plan, session, agent));
    let why = || match ruling.decisive_reason().map(|reason| (&reason.rule, &reason.message)) {
        Some((Some(rule), why)) => format!("{why} (`{rule}`)"),
        Some((None, why)) => why.clone(),
        None => "no reason is given".to_owned(),
    };
    (ruling.verdict == Verdict::Deny).then(why)
}

fn confinement(
    typed: &SandboxExecArgs,
    plan: &Plan,
    policy: &Arc<Policy>,
    options: &ResolvedOptions,
) -> Result<Confinement> {
    let state = options.state.canonicalize().ok();
    let place = RunEnvironment {
        repository: None,
        workspace: PathBuf::from(&options.cwd).canonicalize()?,
        cwd: PathBuf::from(&options.cwd).canonicalize()?,
        home: options.home.as_ref().map(PathBuf::from),
        run_markers_dir: state.as_deref().map(tool_catalog::unfinished),
        private_paths: state.into_iter().collect(),
        environment: std::env::vars().collect(),
        read_only: typed.profile == SandboxProfileArg::ReadOnly,
        is_rehearsal: false,
        on_copy: false,
    };
    let mut confinement = from_plan::build_confinement(plan, policy, &place)?;
    for name in &typed.env {
        let unset = |_| {
            CliError::new(format!("the variable `{name}` is not set here"))
                .hint(format!("set it, or omit `--env {name}`"))
        };
        confinement.environment.insert(name.clone(), std::env::var(name).map_err(unset)?);
    }
    if typed.profile == SandboxProfileArg::Agent {
        (confinement.limits.wall_time, confinement.limits.cpu_time) = (NO_END, NO_END);
        confinement.limits.memory_bytes = confinement.limits.memory_bytes.saturating_mul(4);
    }
    Ok(confinement)
}

/// Starts the command in a container. At a terminal, the engine connects it to the container.
fn started_in(
    engine: &OciEngine,
    confinement: &Confinement,
    argv: Vec<OsString>,
) -> Result<StartedCommand, LaunchError> {
    let terminal = stdio_forward::terminal();
    let command =
        CommandSpec { argv, terminal, caller_owns_streams: terminal.is_none(), ..CommandSpec::default() };
    engine.start(confinement, &command, RunAs::Caller, None).map(StartedCommand::from)
}

fn started(
    confinement: &Confinement,
    argv: Vec<OsString>,
    keeper: CallHostPolicy,
    on: Option<Backend>,
) -> Result<RunningCommand, LaunchError> {
    let terminal = stdio_forward::terminal();
    let command =
        &CommandSpec { argv, terminal, caller_owns_streams: terminal.is_none(), ..CommandSpec::default() };
    let backend = match on {
        Some(backend) => backend,
        None => ProbeReport::choose_first(confinement, RunAs::Caller)?,
    };
    if backend == Backend::Native && confinement.network == Network::Proxied {
        let door = Egress::new(Arc::new(keeper));
        let bridge = NetworkBridge::new()?.with_own_interceptor();
        return start_with_network(confinement, command, RunAs::Caller, &bridge, door);
    }
    backend::start_on(backend, confinement, command, RunAs::Caller)
}

fn not_run(error: &LaunchError) -> CliError {
    let complaint = CliError::not_run(one_line(&format!("the command was not run: {error}")));
    // The other errors say themselves what to do.
    let LaunchError::Unenforceable(lacking) = error else { return complaint };
    let names: Vec<&str> = lacking.missing.iter().map(|(guarantee, _)| guarantee.name()).collect();
    complaint.hint(format!(
        "`byleave doctor` shows how to get it; `--waive {}` waives it, and is recorded in the audit log",
        names.join(" --waive ")
    ))
}

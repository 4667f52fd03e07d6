//! A server as a child process in the sandbox, with the access of its profile. Nothing of it remains after it is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::policy::Policy;
use byleave_sandbox::confinement::{Confinement, Network};
use byleave_sandbox::from_plan::{self, CallHostPolicy, RunEnvironment};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{LaunchError, NetworkBridge, RunAs, Stopper, start, start_with_network};
use byleave_sandbox::net::egress::Egress;
use byleave_sandbox::plan::CommandSpec;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::login_store::LoginStore;
use super::pins;
use super::server_definition::{DirectoryAccess, Launch, ServerDefinition};

/// The environment and policy of servers.
#[derive(Clone)]
pub struct ServerEnvironment {
    /// The directory that the agent works in, absolute and resolved.
    pub workspace: PathBuf,
    /// The person's home directory, which is empty for servers.
    pub home: Option<PathBuf>,
    /// Directories of Byleave that servers cannot see: the state directory.
    pub hidden_paths: Vec<PathBuf>,
    /// The directory inside the state directory that lists unfinished runs.
    pub unfinished_runs: Option<PathBuf>,
    /// The parent of each server's own persistent home directory.
    pub homes: PathBuf,
    /// The person's environment. The usual variables are passed on, others only if a definition refers to them.
    pub environment: BTreeMap<String, String>,
    /// The policy. Files that it denies to read are not visible to servers either.
    pub policy: Arc<Policy>,
    /// The person's logins at servers over HTTP.
    pub logins: LoginStore,
    /// Guarantees that the operator has waived, by name.
    pub waived: std::collections::BTreeSet<Guarantee>,
    /// Whether servers run outside the sandbox, for tests of other parts.
    pub bare: bool,
}

/// A running server.
#[derive(Debug)]
pub(super) struct ServerProcess {
    pub(super) stderr: StderrTail,
    pub(super) stdin: pipe::Sender,
    pub(super) stdout: pipe::Receiver,
    pub(super) kill_on_drop: KillOnDrop,
}

/// Kills a server with all processes that it started when it is dropped.
#[derive(Debug)]
pub(super) struct KillOnDrop(ProcessHandle);

#[derive(Debug)]
enum ProcessHandle {
    Confined(Stopper),
    Bare(u32),
}

/// The reason why a server was not started.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// Its definition refers to a variable that is not set.
    #[error("the server needs the variable `{0}`, which is not set; set it, or change `env` of the server")]
    NoVariable(String),
    /// The sandbox is not available.
    #[error("cannot confine the server: {0}")]
    Unconfined(String),
    /// A system call failed.
    #[error("cannot start the server: {0}")]
    Io(#[from] io::Error),
}

impl From<LaunchError> for ServerStartError {
    fn from(error: LaunchError) -> Self {
        Self::Unconfined(error.to_string())
    }
}

/// Starts a server. Blocks for a moment.
pub(super) fn start_server(
    definition: &ServerDefinition,
    ground: &ServerEnvironment,
) -> Result<ServerProcess, ServerStartError> {
    let Launch::Child { command, args, env, cwd } = &definition.launch else {
        return Err(ServerStartError::Io(io::Error::other("the server is not a local program")));
    };
    let env = resolve_variables(env, &ground.environment)?;
    let argv: Vec<OsString> = std::iter::once(command).chain(args).map(OsString::from).collect();
    let name = definition.name.as_str();
    let (stdin, stdout, stderr, leash) = if ground.bare || definition.profile.unconfined {
        bare(&argv, env, cwd.as_deref().unwrap_or(&ground.workspace), ground)?
    } else {
        confined(definition, argv, env, cwd.clone(), ground)?
    };
    let stderr = StderrTail::follow(name, pipe::Receiver::from_owned_fd(stderr)?);
    Ok(ServerProcess {
        stderr,
        stdin: pipe::Sender::from_owned_fd(stdin)?,
        stdout: pipe::Receiver::from_owned_fd(stdout)?,
        kill_on_drop: KillOnDrop(leash),
    })
}

/// Replaces `${NAME}` from the person's environment.
pub(super) fn resolve_variables(
    wanted: &BTreeMap<String, String>,
    environment: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, ServerStartError> {
    let one = |text: &String| {
        let mut whole = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { break };
            let value = environment.get(name).ok_or_else(|| ServerStartError::NoVariable(name.to_owned()))?;
            whole.push_str(before);
            whole.push_str(value);
            rest = after;
        }
        whole.push_str(rest);
        Ok::<_, ServerStartError>(whole)
    };
    wanted.iter().map(|(name, text)| Ok((name.clone(), one(text)?))).collect()
}

type SpawnedProcess = (std::os::fd::OwnedFd, std::os::fd::OwnedFd, std::os::fd::OwnedFd, ProcessHandle);

fn confined(
    definition: &ServerDefinition,
    argv: Vec<OsString>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    ground: &ServerEnvironment,
) -> Result<SpawnedProcess, ServerStartError> {
    let home = own_home(&ground.homes, definition.name.as_str())?;
    let plan = granted_by(definition, ground);
    let mut confinement = confinement(definition, &plan, &home, cwd, ground)?;
    confinement.environment.extend(env);
    let command = CommandSpec { argv, caller_owns_streams: true, ..CommandSpec::default() };
    let mut running = if confinement.network == Network::Proxied {
        let uplink = NetworkBridge::new().map_err(|error| ServerStartError::Unconfined(error.to_string()))?;
        let uplink = uplink.with_own_interceptor();
        // The server itself reaches the host, whichever call it is for.
        let (session, agent) = (SessionId::new("mcp"), AgentId::new(definition.name.as_str()));
        let (Ok(session), Ok(agent)) = (session, agent) else {
            return Err(ServerStartError::Unconfined("the name of the server is not valid".into()));
        };
        let keeper = CallHostPolicy::new(Arc::clone(&ground.policy), &plan, session, agent);
        start_with_network(&confinement, &command, RunAs::Caller, &uplink, Egress::new(Arc::new(keeper)))?
    } else {
        start(&confinement, &command, RunAs::Caller)?
    };
    let pipes = running.take_pipes().ok_or_else(|| io::Error::other("cannot get its standard streams"))?;
    let stopper = running.stopper()?;
    let name = definition.name.to_string();
    let server = name.clone();
    running.on_planted(move |planted| {
        tracing::warn!(server, count = planted.len(), "a server planted files");
    });
    thread::Builder::new().name("byleave-mcp-server".into()).spawn(move || match running.finish() {
        Ok(_) => {}
        Err(error @ LaunchError::Tripwire(_)) => {
            tracing::error!(server = name, %error, "cannot rename files that a server planted; the server was ended");
        }
        Err(error) => tracing::debug!(server = name, %error, "a server ended with an error"),
    })?;
    Ok((pipes.stdin, pipes.stdout, pipes.stderr, ProcessHandle::Confined(stopper)))
}

/// Returns the access of a profile as effects.
fn granted_by(definition: &ServerDefinition, ground: &ServerEnvironment) -> Plan {
    let profile = &definition.profile;
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let mut plan = Plan::default();
    // The program itself, which was accepted by its content, with the files of its installation.
    let search = ground.environment.get("PATH").map(String::as_str).unwrap_or_default();
    let programs = pins::launched_files(definition, search);
    plan.effects.extend(programs.iter().map(|program| Effect::Read { path: path(&installed_in(program)) }));
    plan.effects.extend(profile.read.iter().map(|read| Effect::Read { path: path(read) }));
    plan.effects.extend(profile.write.iter().map(|write| Effect::Write { path: path(write) }));
    // A server talks to its hosts, so a person who accepts them accepts that it sends there.
    plan.effects.extend(profile.hosts.iter().flat_map(|host| {
        let (host, port) = match host.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((host, Ok(port))) => (host, port),
            _ => (host.as_str(), 443),
        };
        [Effect::Reach { host: host.to_owned(), port }, Effect::Send { host: host.to_owned(), port }]
    }));
    if profile.workspace == DirectoryAccess::Write {
        plan.effects.push(Effect::mcp_invoke(definition.name.as_str(), "*"));
    }
    plan
}

/// Returns the files that a program needs to run: the packages around it, or only itself.
fn installed_in(program: &Path) -> PathBuf {
    let packages = program.ancestors().filter(|above| above.ends_with("node_modules")).last();
    let environment = || program.ancestors().nth(2).filter(|above| above.join("pyvenv.cfg").is_file());
    packages.or_else(environment).unwrap_or(program).to_path_buf()
}

fn confinement(
    definition: &ServerDefinition,
    plan: &Plan,
    home: &Path,
    cwd: Option<PathBuf>,
    ground: &ServerEnvironment,
) -> Result<Confinement, ServerStartError> {
    let workspace = match definition.profile.workspace {
        DirectoryAccess::None => home.to_path_buf(),
        DirectoryAccess::Read | DirectoryAccess::Write => ground.workspace.clone(),
    };
    let place = RunEnvironment {
        repository: None,
        cwd: cwd.filter(|cwd| cwd.starts_with(&workspace)).unwrap_or_else(|| workspace.clone()),
        workspace,
        home: ground.home.clone(),
        private_paths: ground.hidden_paths.clone(),
        run_markers_dir: ground.unfinished_runs.clone(),
        environment: ground.environment.clone(),
        read_only: false,
        is_rehearsal: false,
        on_copy: false,
    };
    let mut confinement = from_plan::build_confinement(plan, &ground.policy, &place)
        .map_err(|fault| ServerStartError::Unconfined(fault.to_string()))?;
    confinement.files.writable.push(home.to_path_buf());
    confinement.files.writable.dedup();
    confinement.environment.insert("HOME".into(), home.to_string_lossy().into_owned());
    confinement.waived.extend(ground.waived.iter().copied());
    // A server lives as long as this process. The other resource limits remain.
    let long = Duration::from_secs(365 * 24 * 3_600);
    (confinement.limits.wall_time, confinement.limits.cpu_time) = (long, long);
    Ok(confinement)
}

/// Returns the server's own persistent directory, so that it finds its downloads again.
fn own_home(homes: &Path, name: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let home = homes.join(name);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
    home.canonicalize()
}

fn bare(
    argv: &[OsString],
    env: BTreeMap<String, String>,
    cwd: &Path,
    ground: &ServerEnvironment,
) -> Result<SpawnedProcess, ServerStartError> {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    let (program, args) = argv.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
    let kept = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER"];
    let kept = ground.environment.iter().filter(|(name, _)| kept.contains(&name.as_str()));
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .envs(kept)
        .envs(env)
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let missing = || io::Error::other("cannot get its standard streams");
    let stdin = child.stdin.take().ok_or_else(missing)?.into();
    let stdout = child.stdout.take().ok_or_else(missing)?.into();
    let stderr = child.stderr.take().ok_or_else(missing)?.into();
    let id = child.id();
    thread::Builder::new().name("byleave-mcp-server".into()).spawn(move || {
        if let Err(error) = child.wait() {
            tracing::debug!(%error, "a server ended with an error");
        }
    })?;
    Ok((stdin, stdout, stderr, ProcessHandle::Bare(id)))
}

/// The last lines that a server wrote to its standard error, escaped, and a limited part of each.
#[derive(Debug)]
pub(super) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: tokio::sync::Mutex<JoinHandle<()>>,
}

impl StderrTail {
    const LINES_MAX: usize = 5;
    const LINE_CHARS_MAX: usize = 200;
    /// How long the output of a server that has ended may take to arrive.
    const ARRIVES_WITHIN: Duration = Duration::from_secs(1);

    /// Logs the standard error of a server until it ends, and keeps its last lines.
    fn follow(name: &str, stderr: pipe::Receiver) -> Self {
        let name = name.to_owned();
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&lines);
        let reader = tokio::spawn(async move {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut reader).take(8_192).read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {
                        let said = String::from_utf8_lossy(&line).trim_end().escape_debug().to_string();
                        tracing::debug!(server = name, %said);
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        if kept.len() == Self::LINES_MAX {
                            kept.pop_front();
                        }
                        kept.push_back(said.chars().take(Self::LINE_CHARS_MAX).collect::<String>());
                    }
                }
            }
        });
        Self { lines, reader: tokio::sync::Mutex::new(reader) }
    }

    /// Returns what a server that failed wrote last, as the end of an error message.
    pub(super) async fn reason(&self) -> String {
        {
            let mut reader = self.reader.lock().await;
            if !reader.is_finished() {
                // A server that still runs has written what it has to say.
                drop(tokio::time::timeout(Self::ARRIVES_WITHIN, &mut *reader).await);
            }
        }
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        if said.is_empty() {
            String::new()
        } else {
            format!("; its standard error ends with `{}`", said.join(" "))
        }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        match &self.0 {
            ProcessHandle::Confined(stopper) => {
                if let Err(error) = stopper.stop() {
                    tracing::error!(%error, "cannot stop a server");
                }
            }
            ProcessHandle::Bare(id) => {
                let group = i32::try_from(*id).ok().and_then(rustix::process::Pid::from_raw);
                if let Some(group) = group
                    && let Err(error) =
                        rustix::process::kill_process_group(group, rustix::process::Signal::KILL)
                {
                    tracing::debug!(%error, "a server had already ended");
                }
            }
        }
    }
}

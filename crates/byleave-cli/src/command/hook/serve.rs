//! `byleave hook serve`: the gate for hooks, behind a socket that only its owner can open.
//!
//! A lock allows one process for each state directory; the kernel releases it when the process dies. It answers hooks of its own
//! user with the same version and the same settings. All others must evaluate the call by themselves. It must never answer a
//! request that it cannot evaluate exactly as the hook would.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use byleave_hook::{
    AgentKind, GateReply, GateRequest, HookDecision, MAX_INPUT_BYTES, PROTOCOL_VERSION, SOCKET_NAME,
    parse_request,
};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::ctrl_c;
use tokio::sync::Notify;

use super::HookServeArgs;
use crate::app_context::{AppContext, collect_garbage_in_background};
use crate::console::{Console, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook::{Fingerprint, HookEvaluator, TicketStore};
use crate::resolved_options::ResolvedOptions;

const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// The time limit for reading a hook's request.
const LISTENS: Duration = Duration::from_secs(5);
/// The maximum number of directories with a ready gate.
const JUDGES_MAX: usize = 64;

/// The state that all connections share.
struct HookServerState {
    house: AppContext,
    options: ResolvedOptions,
    program: PathBuf,
    /// The fingerprint of the settings and the program at the start.
    began: Fingerprint,
    judges: Mutex<HashMap<String, (Fingerprint, HookEvaluator)>>,
    /// The reason to end, once there is one.
    over: Mutex<Option<String>>,
    stirred: Notify,
}

pub(super) async fn run(
    typed: &HookServeArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_or_create(options)?;
    let _lock = alone(options)?;
    TicketStore::new(options).remove_old(SystemTime::now());
    collect_garbage_in_background(options);
    let program = std::env::current_exe().context("cannot determine the path of this program")?;
    let settings = options.config_files().into_iter().map(|file| file.path);
    let began = Fingerprint::from_files(settings.chain([program.clone()]));
    let path = options.state.join(SOCKET_NAME);
    // The previous holder of the lock is dead, so its socket is unused.
    if path.exists() {
        fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    let listener =
        UnixListener::bind(&path).with_context(|| format!("cannot listen at `{}`", path.display()))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let shared = Arc::new(HookServerState {
        house,
        options: options.clone(),
        program,
        began,
        judges: Mutex::default(),
        over: Mutex::default(),
        stirred: Notify::new(),
    });
    screen.message(&prose(&format!(
        "evaluating calls for hooks at `{}`; press Ctrl-C to stop",
        path.display()
    )));
    let idle = typed.idle_s.map_or(Duration::MAX, Duration::from_secs);
    let ended = serve(&shared, &listener, idle).await;
    // The socket is ours as long as we hold the lock.
    drop(fs::remove_file(&path));
    match ended? {
        None if screen.json() => {
            screen.value(&json!({ "ended": true }));
            Ok(ExitStatus::Completed)
        }
        None => Ok(ExitStatus::Completed),
        Some(why) => Err(CliError::refused(format!("no longer evaluating calls for hooks: {why}"))
            .hint("start `byleave hook serve` again; until then each hook evaluates calls itself")
            .into()),
    }
}

/// Serves until Ctrl-C, until it is idle for too long, or until it must end.
async fn serve(
    shared: &Arc<HookServerState>,
    listener: &UnixListener,
    idle: Duration,
) -> Result<Option<String>> {
    loop {
        let over = shared.stirred.notified();
        if let Some(why) = shared.over.lock().clone() {
            return Ok(Some(why));
        }
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("cannot accept a hook's connection")?;
                let shared = Arc::clone(shared);
                // A failure of one connection does not affect the others. A hook without an answer denies.
                tokio::spawn(async move { shared.attend(stream).await });
            }
            () = over => {}
            _ = ctrl_c() => return Ok(None),
            () = tokio::time::sleep(idle) => return Ok(None),
        }
    }
}

fn alone(options: &ResolvedOptions) -> Result<File> {
    let path = options.state.join("hook.lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let lock = lock.with_context(|| format!("cannot write `{}`", path.display()))?;
    let taken = |_| {
        let shown = options.state.display();
        CliError::new(format!("another process already evaluates calls for the hooks of `{shown}`"))
            .hint("one is enough for all agents; `byleave doctor` checks it")
    };
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(taken)?;
    Ok(lock)
}

impl HookServerState {
    async fn attend(&self, mut stream: UnixStream) -> Result<()> {
        let ours = rustix::process::geteuid().as_raw();
        if stream.peer_cred()?.uid() != ours {
            return Ok(());
        }
        let mut line = String::new();
        let (read, mut write) = stream.split();
        let mut asking = BufReader::new(read.take(2 * MAX_INPUT_BYTES));
        tokio::time::timeout(LISTENS, asking.read_line(&mut line)).await??;
        let until =
            Instant::now() + serde_json::from_str::<HookDeadline>(&line).unwrap_or_default().duration();
        let reply = tokio::select! {
            reply = self.reply(&line) => reply,
            // The hook was killed, so nobody reads an answer. Its mark stays, and the call ends.
            () = hung_up(&mut asking, until) => return Ok(()),
        };
        let reply = match reply {
            Ok(answer) => GateReply { answer: Some(answer), ..elsewhere(None) },
            Err(WrongGateError(why)) => elsewhere(Some(why)),
        };
        let mut line = serde_json::to_vec(&reply)?;
        line.push(b'\n');
        write.write_all(&line).await?;
        write.shutdown().await?;
        Ok(())
    }

    async fn reply(&self, line: &str) -> Result<HookDecision, WrongGateError> {
        let away = |why: &str| WrongGateError(why.to_owned());
        let request: GateRequest =
            serde_json::from_str(line).map_err(|_| away("the request cannot be parsed"))?;
        let began = Instant::now();
        if request.protocol != PROTOCOL_VERSION || request.program != PROGRAM {
            return Err(
                self.end(format!("the hook has version {}, and this program is {PROGRAM}", request.program))
            );
        }
        if let Some(path) = self.began.changed() {
            return Err(self.end(format!("`{}` has changed", path.display())));
        }
        let here = std::env::vars().filter(|(name, _)| GateRequest::is_relevant_variable(name)).collect();
        if request.environment != here {
            return Err(away("the hook's environment has different settings"));
        }
        let dialect =
            AgentKind::from_name(&request.dialect).ok_or_else(|| away("the dialect is not known"))?;
        let deny = |error: &anyhow::Error| HookDecision::Deny { reason: format!("{error:#}") };
        let heard = match parse_request(dialect, request.input.as_bytes()) {
            Ok(heard) => heard,
            Err(unheard) => return Ok(HookDecision::Deny { reason: unheard.to_string() }),
        };
        let deadline = began + Duration::from_millis(request.deadline_ms).mul_f32(0.95);
        let judge = match self.judge(&heard.workspace(&request.cwd)) {
            Ok(judge) => judge,
            Err(error) => return Ok(deny(&error)),
        };
        Ok(judge.answer(dialect, &heard, &request.agent, deadline).await.unwrap_or_else(|error| deny(&error)))
    }

    /// Returns the evaluator for a directory, and rebuilds it if its rules or settings have changed.
    fn judge(&self, workspace: &str) -> Result<HookEvaluator> {
        let mut judges = self.judges.lock();
        if let Some((made_from, judge)) = judges.get(workspace)
            && made_from.changed().is_none()
        {
            return Ok(judge.clone());
        }
        let judge = HookEvaluator::new(&self.house, &self.options, workspace, &self.program)?.resident();
        if judges.len() >= JUDGES_MAX {
            judges.clear();
        }
        judges.insert(workspace.to_owned(), (judge.fingerprint(), judge.clone()));
        Ok(judge)
    }

    fn end(&self, why: String) -> WrongGateError {
        *self.over.lock() = Some(why.clone());
        self.stirred.notify_one();
        WrongGateError(why)
    }
}

/// The time limit of a request, before all of it is read.
#[derive(Default, serde::Deserialize)]
struct HookDeadline {
    #[serde(default)]
    deadline_ms: u64,
}

impl HookDeadline {
    fn duration(&self) -> Duration {
        Duration::from_millis(self.deadline_ms).mul_f32(0.95)
    }
}

/// Waits until the hook has closed the connection before its time was up. It sends nothing after its request. A hook that ended because its
/// time was up has told its agent.
async fn hung_up(asking: &mut (impl AsyncRead + Unpin), until: Instant) {
    let mut rest = [0; 64];
    while asking.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    if Instant::now() >= until {
        std::future::pending::<()>().await;
    }
}

/// The error that this gate must not evaluate the request.
struct WrongGateError(String);

fn elsewhere(why: Option<String>) -> GateReply {
    GateReply { protocol: PROTOCOL_VERSION, program: PROGRAM.into(), answer: None, not_handled_reason: why }
}

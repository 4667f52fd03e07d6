//! `byleave acp`: a proxy between an editor on our standard streams and an agent that it starts.
//!
//! The agent ends with the proxy: when the editor goes away, and when a signal ends the proxy.

use std::collections::HashMap;
use std::ffi::OsString;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_acp::{CallerIdentity, EditorApprover, GateProvider, Proxy};
use byleave_gate::core::id::AgentId;
use byleave_gate::gate::Gate;
use byleave_gate::settings::GateSettings;
use clap::{Args as Group, ValueEnum};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::Command as Program;
use tokio_util::sync::CancellationToken;

use crate::app_context::AppContext;
use crate::args::{AskArg, ModeArg};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::signals::termination_signals;

/// The time that an agent has to end by itself, at each step.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Debug, Group)]
pub(crate) struct AcpArgs {
    /// Name of the agent in the audit log
    #[arg(long, default_value = "acp")]
    pub(crate) agent: AgentId,
    /// Where questions go
    #[arg(long, value_enum, default_value_t = AcpAskArg::Inbox)]
    pub(crate) ask: AcpAskArg,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Agent command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "AGENT")]
    pub(crate) command: Vec<OsString>,
}

/// Where questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcpAskArg {
    /// Keep the question open, to be answered with `byleave inbox`; the agent waits
    Inbox,
    /// Ask in the editor, which is trusted that a person answers
    Editor,
    /// Ask nobody: refuse calls that need an answer
    None,
}

pub(crate) async fn run(typed: AcpArgs, options: &ResolvedOptions) -> Result<ExitStatus> {
    let chosen = options.settings.clone().with_mode(typed.mode);
    let house = AppContext::open_or_create(options)?;
    let client = Arc::new(EditorApprover::default());
    let who = CallerIdentity {
        tenant: options.tenant.clone(),
        agent: typed.agent,
        mode: chosen.mode(),
        dry_run: chosen.is_dry_run(),
        cwd: options.cwd.clone(),
    };
    let asked = (typed.ask == AcpAskArg::Editor).then(|| Arc::clone(&client));
    let ask = if typed.ask == AcpAskArg::Inbox { AskArg::Inbox } else { AskArg::None };
    let (options, settings) = (options.clone(), chosen.gate());
    let gates =
        Arc::new(GatesByDirectory { house, options, ask, settings, client: asked, gates: Mutex::default() });
    let mut words = typed.command.iter();
    let program = words.next().map(OsString::as_os_str).unwrap_or_default();
    let started = Program::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        // With everything that the agent starts, so that it can be ended as a whole.
        .process_group(0)
        .spawn();
    let mut agent = started.map_err(|error| {
        CliError::new(format!("cannot start the agent `{}`: {error}", program.to_string_lossy()))
            .hint("name an existing program after `--`")
    })?;
    let reads = agent.stdout.take().context("the agent has no standard output")?;
    let writes = agent.stdin.take().context("the agent has no standard input")?;
    let group = agent.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let editor_is_gone = CancellationToken::new();
    let stdin = NotifiesEnd { inner: tokio::io::stdin(), ended: editor_is_gone.clone() };
    let mut proxy =
        std::pin::pin!(Proxy::run(who, gates, client, (stdin, tokio::io::stdout()), (reads, writes)));
    let mut signals = termination_signals()?;
    let reason = tokio::select! {
        ended = &mut proxy => {
            ended?;
            EndReason::AgentEnded
        }
        Some(signal) = signals.recv() => EndReason::Signal(signal),
        () = async { editor_is_gone.cancelled().await; tokio::time::sleep(GRACE).await } => EndReason::EditorGone,
    };
    if reason != EndReason::AgentEnded {
        send(group, Signal::TERM);
        // The proxy ends with the agent, and withdraws its open questions.
        if tokio::time::timeout(GRACE, &mut proxy).await.is_err() {
            send(group, Signal::KILL);
            drop(tokio::time::timeout(GRACE, &mut proxy).await);
        }
    }
    let ended = match reason {
        EndReason::AgentEnded => agent.wait().await?,
        _ => tokio::time::timeout(GRACE, agent.wait()).await.context("the agent does not end")??,
    };
    // Whatever the agent left behind.
    send(group, Signal::KILL);
    let code = match reason {
        EndReason::Signal(signal) => u8::try_from(signal.saturating_add(128)).unwrap_or(1),
        _ => ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
    };
    // A thread that waits for the editor's input must not keep the process alive.
    std::process::exit(ExitStatus::Command(code).code().into());
}

/// The reason why the proxy ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    AgentEnded,
    EditorGone,
    Signal(i32),
}

fn send(group: Option<Pid>, signal: Signal) {
    // Everything in the group may have ended.
    let _is_gone = group.is_none_or(|group| kill_process_group(group, signal).is_err());
}

/// A reader that tells when its input has ended.
struct NotifiesEnd<R> {
    inner: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for NotifiesEnd<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if matches!(read, Poll::Ready(_)) && buffer.filled().len() == before {
            self.ended.cancel();
        }
        read
    }
}

/// A gate for each directory that sessions work in. The rules of a project hold only in its directory.
struct GatesByDirectory {
    house: AppContext,
    options: ResolvedOptions,
    ask: AskArg,
    settings: GateSettings,
    client: Option<Arc<EditorApprover>>,
    gates: Mutex<HashMap<String, Gate>>,
}

impl GateProvider for GatesByDirectory {
    fn gate(&self, cwd: &str) -> Result<Gate, String> {
        let cwd = real_path(std::path::Path::new(cwd)).map_err(|error| format!("{error:#}"))?;
        let cwd = cwd.ok_or("the session does not name its working directory")?;
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(&cwd) {
            return Ok(gate.clone());
        }
        let built = || -> Result<Gate> {
            let mut builder = self.house.builder(&self.options, &cwd, self.ask, self.settings.clone())?;
            if let Some(client) = &self.client {
                builder = builder.approver(Arc::clone(client) as Arc<_>);
            }
            Ok(builder.build()?)
        };
        let gate = built().map_err(|error| format!("{error:#}"))?;
        gates.insert(cwd, gate.clone());
        Ok(gate)
    }
}

//! `byleave exec`: runs a shell call that a hook has prepared. It has the output and the exit code of the command.
//!
//! It passes output on as it arrives only if no reviewer reads results. Otherwise the agent gets the released output at the end.
//! Output of a rehearsed run is shown once the run is committed.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Result;
use byleave_gate::approver::Reply;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::entry::CallHeader;
use byleave_gate::core::id::CallId;
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::event::GateEvent;
use byleave_gate::gate::{Gate, SubmittedAnswer};
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_tools::strip_gate_prefix;
use clap::Args as Group;
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, prose};
use crate::drive_call::{closing_words, drive, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook::{AttendedCalls, TicketStore, WindowTicket, WindowTickets};
use crate::job_signals::JobSignals;
use crate::notify;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;

/// How long nobody is sent to the inbox, because the agent's hook is about to report that the agent has asked.
const HOOK_REPORTS: Duration = Duration::from_secs(2);

#[derive(Debug, Group)]
pub(crate) struct HookTicketArgs {
    /// Call id
    pub(crate) call: CallId,
    /// Ticket of a question that the agent asked in its own window
    #[arg(long, value_name = "TICKET", hide = true)]
    pub(crate) ticket: Option<String>,
}

pub(crate) async fn run(
    typed: &HookTicketArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options).map_err(within_another_sandbox)?;
    let call = typed.call;
    let unknown = || {
        CliError::new(format!("no call {call} was prepared for an agent"))
            .hint("a hook prepares calls, and tells the agent what to run")
    };
    TicketStore::new(options).find(call)?.ok_or_else(unknown)?;
    let kept = house.audit_log.record(call).await?.ok_or_else(unknown)?;
    let heading = kept.record.header().ok_or_else(unknown)?;
    if heading.tool != "bash" {
        return Err(CliError::not_run(format!("call {call} must be executed by the agent, not by a shell"))
            .hint("`byleave log show` shows the evaluated call")
            .into());
    }
    if kept.record.attempts() > 0 {
        return Err(CliError::not_run(format!(
            "call {call} was already started, and a call never runs twice"
        ))
        .hint("make the call again")
        .into());
    }
    let mut window = match &typed.ticket {
        Some(secret) => Some(WindowAnswer::find(secret, call, heading, options)?),
        None => None,
    };
    // Held until this process ends: calls that conflict with this one wait behind it.
    let attended = AttendedCalls::new(options).mark(call, None);
    let options = options.in_directory(heading.cwd.clone())?;
    let gate = house.gate(&options, &options.cwd, AskArg::Inbox, options.settings.gate())?;
    record_waivers(&gate, &options).await?;
    // Otherwise a server would stay behind an agent that was killed.
    let _signals =
        JobSignals::listen(&options, Some(Signal::TERM), |line| out(&format!("[byleave] {line}\n")))?;
    let (over, is_over) = oneshot::channel::<()>();
    let streams = !gate.has_output_reviewers();
    let printing = streams.then(|| tokio::spawn(print(gate.subscribe(), call, is_over)));
    let mut driven = drive(&gate, call, gate.resume(call), &options, screen).await;
    let mut asked = None;
    while let (CallStatus::Waiting { question, .. }, false) = (&driven.call_status, driven.interrupted) {
        let question = question.clone();
        let own = window.clone().filter(|window| window.is_about(&question));
        let is_own = own.is_some();
        let mut shown = Box::pin(async move {
            match own {
                Some(window) => window.until_shown().await,
                None => std::future::pending().await,
            }
        });
        // The agent may start the command before its hook has reported that it asked.
        let mut is_shown = is_own && timeout(HOOK_REPORTS, &mut shown).await.is_ok();
        // The agent cannot begin the call again, so this process stays for the answer.
        if !is_shown && asked.replace(question.id) != Some(question.id) {
            let id = short(&question.id);
            screen.message(&format!(
                "byleave: waiting: a person must answer question {id} first (`byleave inbox show {id}`)"
            ));
            let what = gate.question_view(question.id).await;
            let what = what.map_or_else(|_| "bash".to_owned(), |view| notify::short_text(&view));
            // A person without a notification still finds the question in the inbox.
            drop(notify::try_notify(&options.settings, &question, &what));
        }
        let waiting = driven.call_status;
        let work = async {
            if !is_shown {
                tokio::select! {
                    () = gate.wait_for_progress(&waiting) => {}
                    () = shown => is_shown = true,
                }
            }
            if is_shown && let Some(window) = window.take() {
                window.answer(&gate, &options).await;
            }
            gate.resume(call).await
        };
        driven = drive(&gate, call, work, &options, screen).await;
    }
    if let Some(question) = asked
        && let Some(answer) = closing_words(&house, call, question).await
    {
        screen.message(&prose(&format!("byleave: answered: {answer}")));
    }
    if let Some(mark) = attended {
        mark.release();
    }
    drop(over);
    let printed = match printing {
        Some(printing) => printing.await.unwrap_or(false),
        None => false,
    };
    match &driven.call_status {
        CallStatus::Settled(result) => Ok(told(result, printed, screen)),
        _ => Err(CliError::not_run("the call is not done, and its result is not known here")
            .hint("`byleave log show` shows it")
            .into()),
    }
}

/// An answer that a person gives in the agent's window, as the agent says.
#[derive(Clone)]
struct WindowAnswer {
    tickets: WindowTickets,
    ticket: WindowTicket,
    secret: String,
}

impl WindowAnswer {
    /// Finds the ticket of a call.
    fn find(secret: &str, call: CallId, heading: &CallHeader, options: &ResolvedOptions) -> Result<Self> {
        let tickets = WindowTickets::new(options);
        let is_for_call = |ticket: &WindowTicket| {
            ticket.call == call
                && ticket.session == heading.session.as_str()
                && ticket.agent == heading.agent.as_str()
        };
        let ticket = tickets.find(secret)?.filter(is_for_call).ok_or_else(|| {
            CliError::not_run(format!("the ticket is not valid for call {call}, or was used"))
                .hint("make the call again")
        })?;
        Ok(Self { tickets, ticket, secret: secret.to_owned() })
    }

    fn is_about(&self, question: &Question) -> bool {
        self.ticket.question == question.id && self.ticket.digest == question.digest()
    }

    async fn until_shown(&self) {
        self.tickets.until_shown(&self.secret).await;
    }

    /// Answers the question, once. The agent starts its command only after a yes in its window. If that fails, the question stays open.
    async fn answer(self, gate: &Gate, options: &ResolvedOptions) {
        match self.tickets.take(&self.secret) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return tracing::warn!("cannot use the ticket of a call: {error:#}"),
        }
        // The same call needs a new question.
        if let Err(error) = TicketStore::new(options).mark_delivered(&self.ticket.key) {
            tracing::warn!("the same call may find this one again: {error:#}");
        }
        let approver = ApproverIdentity {
            name: format!("{} for its user", self.ticket.agent),
            assurance: Assurance::ClientAttested,
        };
        let (question, digest) = (self.ticket.question, self.ticket.digest);
        let reply = Reply::Yes { note: None };
        if let Err(error) = gate.answer(SubmittedAnswer { question, digest, reply, approver }).await {
            // Another answer may have come first.
            tracing::info!("the answer in the agent's window is not used: {error}");
        }
    }
}

/// Explains why the state directory cannot be written, if the agent started this program in a sandbox of its own.
fn within_another_sandbox(error: anyhow::Error) -> anyhow::Error {
    let is_read_only = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|cause| cause.kind() == io::ErrorKind::ReadOnlyFilesystem)
    };
    if !error.chain().any(is_read_only) {
        return error;
    }
    CliError::not_run(format!("the command did not run, because the agent runs it in a sandbox of its own: {error:#}"))
        .hint("for Codex, `byleave init codex` writes the rule that lets the command run in the sandbox of byleave; then restart Codex")
        .into()
}

/// Passes output on line by line, and returns whether there was any.
async fn print(mut events: Receiver<GateEvent>, call: CallId, mut is_over: oneshot::Receiver<()>) -> bool {
    let (mut line, mut any, mut over) = (String::new(), false, false);
    loop {
        let event = if over {
            match events.try_recv() {
                Ok(event) => Ok(event),
                Err(_) => break,
            }
        } else {
            tokio::select! {
                biased;
                event = events.recv() => event,
                _ = &mut is_over => { over = true; continue; }
            }
        };
        match event {
            Ok(GateEvent::Output { call: of, chunk: printed }) if of == call => {
                any = true;
                if printed.skipped_bytes > 0 {
                    line.push_str(&format!(
                        "\n[…{} bytes were printed too fast to be passed on]\n",
                        printed.skipped_bytes
                    ));
                }
                line.push_str(&printed.text);
                let whole = line.rfind('\n').map_or(0, |at| at + 1);
                let rest = line.split_off(whole);
                out(&strip_gate_prefix(&line));
                line = rest;
            }
            Err(RecvError::Closed) => break,
            Ok(_) | Err(RecvError::Lagged(_)) => {}
        }
    }
    out(&strip_gate_prefix(&line));
    any
}

/// Shows the result and returns the exit status of the command.
fn told(result: &CallResult, printed: bool, screen: &mut Console) -> ExitStatus {
    match &result.outcome {
        CallOutcome::Completed(output) | CallOutcome::Failed(output) => {
            let text = result.to_text();
            if printed {
                let ours = text.split_inclusive('\n').filter(|line| line.starts_with("[byleave]"));
                ours.for_each(out);
            } else {
                out(&text);
            }
            let code = output.data.as_ref().and_then(|data| data.get("exit")).and_then(Value::as_u64);
            match (&result.outcome, code) {
                (CallOutcome::Completed(_), None) => ExitStatus::Completed,
                (_, Some(code)) => ExitStatus::Command(u8::try_from(code).unwrap_or(1)),
                (_, None) => {
                    let error = result.error().unwrap_or_else(|| "the call failed".into());
                    screen.message(&prose(&format!("byleave: {error}")));
                    ExitStatus::NOT_RUN
                }
            }
        }
        CallOutcome::Answered(_) | CallOutcome::DryRun(_) => {
            out(&result.to_text());
            ExitStatus::Completed
        }
        CallOutcome::Withheld(_) | CallOutcome::Refused(_) | CallOutcome::Unknown(_) => {
            let error = result.error().unwrap_or_else(|| "the call did not run".into());
            screen.message(&prose(&format!("byleave: {error}")));
            ExitStatus::NOT_RUN
        }
    }
}

/// Writes the output of the command unescaped, because the reader asked for the command. A missing reader is not an error.
fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

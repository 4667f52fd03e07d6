//! `byleave call`: makes one call and drives it as far as possible.

use std::fs::File;
use std::io::{self, Read, Write as _};

use anyhow::{Context as _, Result};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Call;
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::result::CallStatus;
use clap::Args as Group;
use serde_json::Value;

use crate::app_context::AppContext;
use crate::args::{AskArg, ModeArg};
use crate::command::session;
use crate::console::{Console, Tone, one_line};
use crate::default_session;
use crate::drive_call::{drive, follow_run, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::job_signals::JobSignals;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::terminal_mark::{self, TerminalMark};
use crate::{call_display, mcp_servers, notify, terminal_approver};

#[derive(Debug, Group)]
pub(crate) struct CallArgs {
    /// Tool
    pub(crate) tool: String,
    /// Arguments: JSON, `@FILE`, or `-` for stdin
    #[arg(long, value_name = "JSON", default_value = "{}")]
    pub(crate) args: String,
    /// How much is asked [default: setting `mode`, or confirm-sensitive]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeArg>,
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Session of the call [default: $BYLEAVE_SESSION, or one for each terminal and directory]
    ///
    /// Calls of a session that change something run in order.
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Parent session. Cannot be changed later
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Name of the agent that makes the call
    #[arg(long, default_value = "cli")]
    pub(crate) agent: AgentId,
    /// Reason, in the words of the agent; shown in questions
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Id of the call. A call with the same id is never run twice
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<CallId>,
    /// Where questions go [default: setting `ask`, or terminal if there is one, else none]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
    /// Timeout for commands, and for tools that set none [default: setting `call_timeout`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: Option<u64>,
}

/// Returns the session of the call with this id, if it was made before. The same call may be made again from another terminal.
async fn recorded_session(house: &AppContext, id: CallId) -> Result<Option<SessionId>> {
    let stored = house.audit_log.record(id).await?;
    Ok(stored.and_then(|stored| Some(stored.record.header()?.session.clone())))
}

/// The maximum size of JSON input. It has room for a file of 10 MiB in which every character is escaped. The gate has further limits.
const JSON_BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(
    typed: CallArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let chosen = options.settings.clone().with_mode(typed.mode).with_timeout(typed.timeout_ms);
    call_display::print_tightened(screen, &chosen);
    let house = AppContext::open_or_create(options)?;
    let session = match (typed.session, typed.id) {
        (None, Some(id)) => recorded_session(&house, id).await?,
        (given, _) => given,
    };
    let session = default_session::resolve(session.as_ref(), options)?;
    let call = Call {
        id: typed.id.unwrap_or_else(|| CallId::new(fresh_id())),
        tenant: options.tenant.clone(),
        session,
        agent: typed.agent,
        tool: typed.tool,
        arguments: json("--args", &typed.args)?,
        reason: typed.reason,
        cwd: options.cwd.clone(),
        mode: chosen.mode(),
        dry_run: typed.dry_run || options.settings.is_dry_run(),
    };
    let ask = options.resolve_ask(typed.ask, AskArg::None);
    let gate = terminal_approver::gate(&house, options, &options.cwd, ask, chosen.gate())?;
    record_waivers(&gate, options).await?;
    if let Some(parent) = typed.parent {
        session::open_under_parent(&gate, options, &call, parent).await?;
    }
    let servers = mcp_servers::attach_for_tool(gate.catalog(), &house, options, &call.tool).await?;
    servers.print_problems(screen);
    if ask == AskArg::Terminal {
        for older in terminal_mark::cancel_abandoned(&gate, &house, options, &call).await? {
            let line =
                format!("call {} was cancelled: the terminal that asked about it is gone", short(&older));
            screen.message_with_tone(Tone::Careful, "note:", &line);
        }
    }
    let _signals = JobSignals::listen(options, None, |line| {
        // A missing reader is not an error.
        drop(writeln!(io::stderr(), "[byleave] {line}"));
    })?;
    let _mark = TerminalMark::set(options, ask, call.id);
    let tool = call.tool.clone();
    let id = call.id;
    let work = async {
        let status = gate.advance(call).await;
        // A person who answers in another place continues the call there. Its result is shown here, too.
        if ask == AskArg::Terminal { follow_run(&gate, &house, status, options).await } else { status }
    };
    let driven = drive(&gate, id, work, options, screen).await;
    if let CallStatus::Waiting { question, .. } = &driven.call_status {
        let view = gate.question_view(question.id).await;
        let what = view.map_or_else(|_| one_line(&tool), |view| notify::short_text(&view));
        notify::notify_waiting(&chosen, question, &what, screen);
    }
    call_display::print_status(screen, &driven.call_status);
    Ok(driven.status())
}

/// Reads JSON as typed, from a file or from standard input.
pub(crate) fn json(option: &str, typed: &str) -> Result<Value> {
    let wrong = |error| {
        CliError::new(format!("{option} is not JSON: {error}")).hint(format!(
            "write `{option} '{{\"text\":\"hi\"}}'`, `{option} @FILE`, or `{option} -` for standard input"
        ))
    };
    Ok(serde_json::from_str(&text(option, typed)?).map_err(wrong)?)
}

/// Reads the text of an option: as typed, from `@FILE`, or from standard input for `-`.
pub(crate) fn text(option: &str, typed: &str) -> Result<String> {
    Ok(match typed.strip_prefix('@') {
        _ if typed == "-" => read(io::stdin()).context("cannot read standard input")?,
        Some(path) => {
            #[expect(
                clippy::disallowed_methods,
                reason = "a person names it in this very command, and it may be a pipe of theirs"
            )]
            let file = File::open(path).and_then(read);
            file.map_err(|error| {
                CliError::new(format!("cannot read `{path}`: {error}")).hint(format!(
                    "`{option} @FILE` reads an existing file, `{option} -` reads standard input"
                ))
            })?
        }
        None => typed.to_owned(),
    })
}

fn read(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let read = from.take(JSON_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > JSON_BYTES_MAX {
        return Err(io::Error::other(format!("more than {JSON_BYTES_MAX} bytes")));
    }
    Ok(text)
}

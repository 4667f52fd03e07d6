//! `byleave inbox`: the open questions and their answers.

mod answer;
mod digest;
mod standing_approval;
mod withheld_result;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use byleave_gate::approver::Reply;
use byleave_gate::audit_log::{AuditLog as _, PageRequest, QuestionFilter};
use byleave_gate::core::approval_scopes::approval_scopes;
use byleave_gate::core::id::QuestionId;
use byleave_gate::core::question::QuestionKind;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::render::{LineRole, render};
use byleave_gate::ledger::Ledger as _;
use byleave_terminal::inbox::{self, InboxBackend, InboxExit};
use clap::Subcommand;
use serde_json::{Value, json};
use tokio::signal::ctrl_c;
use tokio::task::spawn_blocking;

use self::answer::AnswerCommand;
use crate::app_context::AppContext;
use crate::args::{AskArg, ListArgs};
use crate::call_display::{self, fitted_table};
use crate::console::{Console, one_line};
use crate::drive_call::{self, drive, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::hook::{self, AttendedCalls};
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::terminal_approver::{self, LocalBackend, is_dumb_terminal, prompt_settings};
use crate::time::{format_duration, format_utc, now};
use crate::{json_output, mcp_servers, resume_call};

#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// List the open questions, newest first (the default)
    List(ListArgs),
    /// Show a question on a full screen and answer it there
    ///
    /// The exit code is that of the call.
    Open {
        /// Question id
        id: String,
    },
    /// Show a question in full
    Show {
        /// Question id
        id: String,
    },
    /// Answer a question and continue its call
    ///
    /// Prints the result of the call.
    Answer {
        /// Question id
        id: String,
        #[command(subcommand)]
        answer: AnswerCommand,
        /// Digest of the question as shown; a different question is then not answered
        #[arg(long, global = true)]
        digest: Option<String>,
    },
}

pub(crate) async fn run(
    command: Option<InboxCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let Some(command) = command else {
        // At a terminal the questions can be answered; elsewhere they are listed.
        return match is_seen(screen) {
            true => sit(None, options, screen).await,
            false => list(ListArgs::default(), options, screen).await,
        };
    };
    match command {
        InboxCommand::List(which) => list(which, options, screen).await,
        InboxCommand::Open { id } => sit(Some(&id), options, screen).await,
        InboxCommand::Show { id } => show(&id, options, screen).await,
        InboxCommand::Answer { id, answer, digest } => {
            answer::run(&id, answer, digest.as_deref(), options, screen).await
        }
    }
}

/// Shows the full screen until the person quits, or has answered the question that they named.
async fn sit(id: Option<&str>, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    if !is_seen(screen) {
        let nobody = CliError::new("there is no terminal to show the inbox on");
        return Err(nobody
            .hint("`byleave inbox show ID` prints a question, `byleave inbox answer ID` answers it")
            .into());
    }
    let house = AppContext::open_or_create(options)?;
    hook::end_abandoned(&house, options).await?;
    let only = match id {
        Some(id) => Some(short_ids::question(&house, id).await?),
        None => None,
    };
    let clerk: Arc<dyn InboxBackend> = Arc::new(LocalBackend::new(options, &house));
    let manner = prompt_settings(options);
    let ends = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&ends);
    let shown = spawn_blocking(move || match only {
        Some(question) => inbox::run_one(Path::new("/dev/tty"), &manner, &clerk, &ends, question),
        None => inbox::run(Path::new("/dev/tty"), &manner, &clerk, &ends),
    });
    let mut shown = pin!(shown);
    let left = tokio::select! {
        left = &mut shown => left,
        _ = ctrl_c() => {
            heard.store(true, Ordering::Relaxed);
            shown.await
        }
    };
    Ok(match left.context("the inbox failed")?.context("the terminal failed")? {
        InboxExit::Answered(sheet, reply) => return answered(&house, &sheet, reply, options, screen).await,
        // The call may have continued elsewhere in the meantime.
        InboxExit::Quit if only.is_some() => return stands(&house, only, options, screen).await,
        InboxExit::Quit => ExitStatus::Completed,
        InboxExit::TerminalClosed if !heard.load(Ordering::Relaxed) => ExitStatus::Completed,
        InboxExit::TerminalClosed | InboxExit::Aborted => ExitStatus::Aborted,
    })
}

/// Gives the answer in the person's name and continues the call.
async fn answered(
    house: &AppContext,
    sheet: &QuestionView,
    reply: Reply,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let workspace = house.workspace_of(sheet.call).await?;
    let gate = house.gate(options, &workspace, AskArg::Inbox, options.settings.gate())?;
    record_waivers(&gate, options).await?;
    let _servers = match reply {
        // The tool does not run.
        Reply::Result { .. } => None,
        _ => Some(mcp_servers::attach_for_call(&gate, house, options, sheet.call).await?),
    };
    let driven =
        drive_call::answer_and_drive((&gate, house), &sheet.question, reply, options, screen).await?;
    call_display::print_status(screen, &driven.call_status);
    Ok(driven.status())
}

/// Shows the status of a question's call after it was not answered here.
async fn stands(
    house: &AppContext,
    question: Option<QuestionId>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let call = match question {
        Some(question) => house.audit_log.call_for_question(question).await?,
        None => None,
    };
    let Some(call) = call else { return Ok(ExitStatus::Completed) };
    let workspace = house.workspace_of(call).await?;
    let gate = house.gate(options, &workspace, AskArg::Inbox, options.settings.gate())?;
    let driven = drive(&gate, call, resume_call::resume(&gate, house, call, options), options, screen).await;
    call_display::print_status(screen, &driven.call_status);
    Ok(driven.status())
}

/// Checks whether there is a terminal that can be drawn on.
fn is_seen(screen: &Console) -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !screen.json() && !is_dumb_terminal()
}

async fn list(which: ListArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    hook::end_abandoned(&house, options).await?;
    let filter = QuestionFilter { session: which.session, ..QuestionFilter::default() };
    let open = house.audit_log.questions(filter, PageRequest::with_limit(which.limit)).await?;
    if screen.json() {
        screen.value(&open.iter().map(json_output::question_item).collect());
    } else if open.is_empty() {
        screen.message("there are no open questions");
    } else {
        let now = now();
        let attended = AttendedCalls::new(options);
        let ids: Vec<QuestionId> = open.iter().map(|item| item.question).collect();
        let texts = terminal_approver::short_texts(&house, options, &ids).await;
        let rows: Vec<Vec<String>> = open
            .iter()
            .map(|item| {
                // An agent that waits must make its call again after that.
                let until = attended.waits_until(item.call).unwrap_or(item.expires_at);
                let left = until.checked_sub(now).map_or_else(|| "too late".into(), format_duration);
                let kind = match item.kind {
                    QuestionKind::Approval => String::new(),
                    other => format!("{}: ", kind(other)),
                };
                vec![
                    short(&item.question),
                    format!("{} ago", format_duration(now.saturating_sub(item.asked_at))),
                    left,
                    one_line(&item.call_summary.agent),
                    format!("{kind}{}", terminal_approver::question_text(&texts, item)),
                ]
            })
            .collect();
        fitted_table(screen, &["ID", "ASKED", "LEFT", "AGENT", "WHAT"], rows);
        if let Some(line) = hook::waiting_behind(&house, options).await? {
            screen.message(&line);
        }
    }
    Ok(ExitStatus::Completed)
}

/// Shows the question from the verified record, with the common renderer.
async fn show(id: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_to_read(options, None)?;
    let question = short_ids::question(&house, id).await?;
    let gate = house.gate(options, &options.cwd, AskArg::Inbox, options.settings.gate())?;
    let sheet = gate.question_view(question).await.map_err(CliError::from)?;
    let rendering = render(&sheet);
    if screen.json() {
        let mut value = json!(sheet);
        if let Value::Object(fields) = &mut value {
            fields.insert("question".into(), json_output::question(&sheet.question));
            fields.insert("rendering".into(), json!(rendering));
        }
        screen.value(&value);
        return Ok(ExitStatus::Completed);
    }
    let lines = rendering.wrap(screen.columns().unwrap_or(usize::MAX));
    for line in &lines {
        match line.role {
            LineRole::Title => screen.title(&line.text),
            LineRole::Heading if line.gutter == 0 => {
                screen.line("");
                screen.title(&line.text);
            }
            LineRole::Expiry => {
                let at = sheet.question.expires_at;
                let left = at.checked_sub(now()).map_or_else(|| "too late".to_owned(), format_duration);
                screen.line(&format!("  can be answered until {} (left: {left})", format_utc(at)));
            }
            _ => screen.line(&line.text),
        }
    }
    let id = short(&question);
    if rendering.complete && sheet.question.kind == QuestionKind::Release {
        screen.hint(&format!(
            "answer with `byleave inbox answer {id} release --digest {}`, or withhold, redact, edit, abort",
            sheet.question.digest().short_hex()
        ));
    } else if rendering.complete {
        let confirm = if sheet.question.kind == QuestionKind::Checkpoint { " --confirm release" } else { "" };
        let case =
            if sheet.needs_challenge() { " --assumption TEXT --failure TEXT --because TEXT" } else { "" };
        // A part can be kept only if a yes would commit that very rehearsal.
        let stands = matches!(&sheet.rehearsal, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.is_committable());
        let partial = if stands { "partial, " } else { "" };
        let approval = if approval_scopes(&sheet).is_ok() { "standing-approval, " } else { "" };
        let result = if sheet.question.kind == QuestionKind::Approval { "result, " } else { "" };
        screen.hint(&format!(
            "answer with `byleave inbox answer {id} yes{confirm}{case} --digest {}`, or no, {partial}edit, {approval}{result}abort",
            sheet.question.digest().short_hex()
        ));
    } else {
        screen.hint(&format!(
            "the question cannot be shown in full, so it cannot be approved: `byleave inbox answer {id} no`"
        ));
    }
    Ok(ExitStatus::Completed)
}

const fn kind(kind: QuestionKind) -> &'static str {
    match kind {
        QuestionKind::Approval => "approval",
        QuestionKind::Checkpoint => "checkpoint",
        QuestionKind::Release => "release",
    }
}

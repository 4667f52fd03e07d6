//! `byleave agent run`: lets a model do a task by itself, once or repeatedly.

mod events;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_agent::agent_loop::{Agent, AgentEvent, OnQuestion, RunOutcome};
use byleave_agent::conversation::Conversation;
use byleave_agent::limits::TaskUsage;
use byleave_agent::model_turn::new_session_id;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::SessionId;
use byleave_gate::event::GateEvent;
use clap::Args as Group;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use self::events::{RunEvent, print_event};
use crate::agent_setup::ModelArgs;
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, Tone, prose};
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::signals::two_stage_shutdown;
use crate::time::{format_utc, now, parse_duration, parse_start_time};
use crate::{agent_setup, call_display, error_report, json_output, mcp_servers, notify};

#[derive(Debug, Group)]
pub(crate) struct RunArgs {
    /// Task, in words; `-` reads it from stdin
    #[arg(required_unless_present = "resume")]
    pub(crate) task: Option<String>,
    /// Continue this session after a crash, a limit or an answer; a task is optional
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["every", "at"])]
    pub(crate) resume: Option<String>,
    /// Repeat the task, starting at this interval: a number and s, m, h, d or w, as in `15m`
    #[arg(long, value_name = "DURATION")]
    pub(crate) every: Option<String>,
    /// Start time in UTC: a time of day, as in `07:30`, or a date, as in `2026-03-01T14:30`
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) model_args: ModelArgs,
}

/// The maximum length of a task.
const TASK_BYTES_MAX: u64 = 256 * 1024;

pub(crate) async fn run(
    mut typed: RunArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    typed.model_args.dry_run |= options.settings.is_dry_run();
    let every = typed.every.as_deref().map(parse_duration).transpose()?;
    let at = typed.at.as_deref().map(|at| parse_start_time(at, now())).transpose()?;
    let task = typed.task.as_deref().map(task).transpose()?;
    let (end, at_once) = two_stage_shutdown()?;
    tokio::spawn(async move {
        at_once.cancelled().await;
        // Open calls stay open until somebody continues the session.
        std::process::exit(ExitStatus::Aborted.code().into());
    });
    let mut next = at.unwrap_or_else(now);
    loop {
        let wait = next.saturating_sub(now());
        if wait > 0 {
            screen.message(&format!("the next run begins at {}", format_utc(next)));
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait)) => {}
                () = end.cancelled() => return Ok(ExitStatus::Aborted),
            }
        }
        let status = match DirectoryLock::enter(options)? {
            Some(_turnstile) => {
                let came = once(&typed, task.as_deref(), options, &end, screen).await;
                // A failed run does not end the later ones.
                if every.is_some() {
                    came.unwrap_or_else(|error| error_report::report_error(screen, &error))
                } else {
                    came?
                }
            }
            None if every.is_some() => {
                screen.message_with_tone(
                    Tone::Careful,
                    "note:",
                    "another run is active in this directory; this one is skipped",
                );
                ExitStatus::Completed
            }
            None => {
                return Err(CliError::new("another run is active in this directory")
                    .hint("wait until it has ended, or use another directory")
                    .into());
            }
        };
        let Some(every) = every.filter(|_| !end.is_cancelled()) else { return Ok(status) };
        // Missed runs are not made up for.
        next = next.saturating_add(every).max(now());
    }
}

/// Runs one task, or the rest of one.
async fn once(
    typed: &RunArgs,
    task: Option<&str>,
    options: &ResolvedOptions,
    end: &CancellationToken,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_or_create(options)?;
    let ask = options.resolve_ask(typed.model_args.ask, AskArg::None);
    let gate = agent_setup::gate(&house, options, &typed.model_args, ask)?;
    record_waivers(&gate, options).await?;
    let servers = mcp_servers::attach(gate.catalog(), &house, options).await?;
    servers.print_problems(screen);
    let session = match &typed.resume {
        Some(named) => agent_setup::session(named, &house, options).await?,
        None => new_session_id("run")?,
    };
    let before = match &typed.resume {
        Some(_) => agent_setup::conversation(&gate, &house, options, &session).await?,
        None => Conversation { turns: Vec::new() },
    };
    let (tell, told) = unbounded_channel();
    let watcher = Arc::new(move |happening: AgentEvent<'_>| {
        // If the receiver has ended, nobody needs the event.
        drop(tell.send(RunEvent::of(happening)));
    });
    let agent =
        agent_setup::agent(&gate, &house, options, session.clone(), &typed.model_args, &before, watcher)?;
    if screen.json() {
        let dry_run = typed.model_args.dry_run;
        print_event(screen, &json!({ "event": "session", "session": session, "dry_run": dry_run }));
    } else {
        let kind = if typed.model_args.dry_run { " (a dry run: nothing is executed)" } else { "" };
        screen.message(&format!("session {session}{kind}"));
    }
    let approvals = gate.subscribe();
    if let Some(task) = task {
        agent.add_user_message(task).await?;
    }
    let patience = if ask == AskArg::Terminal { OnQuestion::Wait } else { OnQuestion::Exit };
    let went = watched(&agent, patience, end, told, approvals, screen).await?;
    let used = TaskUsage::from_turns(&agent.conversation().await?.turns, typed.model_args.prices);
    Ok(ended(&went, used, &session, &typed.model_args, options, screen))
}

async fn watched(
    agent: &Agent,
    patience: OnQuestion,
    end: &CancellationToken,
    mut told: UnboundedReceiver<RunEvent>,
    mut approvals: Receiver<GateEvent>,
    screen: &mut Console,
) -> Result<RunOutcome> {
    let mut going = std::pin::pin!(agent.run(patience, end));
    let went = loop {
        tokio::select! {
            biased;
            Some(told) = told.recv() => events::show_in_order(&told, &mut approvals, screen),
            approval = events::next_approval(&mut approvals) => approval.show(screen),
            went = &mut going => break went,
        }
    };
    while let Ok(told) = told.try_recv() {
        events::show_in_order(&told, &mut approvals, screen);
    }
    events::show_approvals(&mut approvals, screen);
    Ok(went?)
}

fn ended(
    went: &RunOutcome,
    used: TaskUsage,
    session: &SessionId,
    typed: &ModelArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> ExitStatus {
    let (word, why, status) = match went {
        RunOutcome::Done => ("done", None, ExitStatus::Completed),
        RunOutcome::Waiting(questions) => {
            for question in questions {
                notify::notify_waiting(&options.settings, question, "a call of the model", screen);
            }
            let why = match questions.len() {
                0 => "another process runs the next call, or a person must answer first".to_owned(),
                many => format!("{} to answer", call_display::format_count(many as u64, "question")),
            };
            ("waiting", Some(why), ExitStatus::Waiting)
        }
        RunOutcome::LimitReached(reached) => ("stopped", Some(reached.to_string()), ExitStatus::Failed),
        RunOutcome::Failed(why) => ("failed", Some(why.clone()), ExitStatus::Failed),
        RunOutcome::Cancelled => ("called off", None, ExitStatus::Aborted),
    };
    if screen.json() {
        let questions: Vec<Value> = match went {
            RunOutcome::Waiting(questions) => questions.iter().map(json_output::question).collect(),
            _ => Vec::new(),
        };
        let end = json!({
            "event": "end", "outcome": word, "reason": why, "session": session, "used": used, "questions": questions,
            "exit": status.code(),
        });
        print_event(screen, &end);
        return status;
    }
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    let tone = if status == ExitStatus::Completed { Tone::Strong } else { Tone::Careful };
    screen.message_with_tone(
        tone,
        &format!("{word}{}", prose(&why)),
        &format!("({})", agent_setup::format_usage(used)),
    );
    let dry_run = agent_setup::dry_run_option(typed);
    match went {
        RunOutcome::Done | RunOutcome::Cancelled => {}
        RunOutcome::Waiting(_) => screen.hint(&format!(
            "answer with `byleave inbox`, then continue with `byleave agent run{dry_run} --ask inbox --resume {session}`"
        )),
        RunOutcome::LimitReached(_) | RunOutcome::Failed(_) => screen.hint(&format!(
            "continue with `byleave agent run{dry_run} --resume {session}`, and add instructions if needed"
        )),
    }
    status
}

/// A lock that allows one run at a time in a directory. Released when it is dropped or its process dies.
struct DirectoryLock(#[expect(dead_code, reason = "it is held, not read")] File);

impl DirectoryLock {
    /// Takes the lock. Returns `None` if another run holds it.
    fn enter(options: &ResolvedOptions) -> Result<Option<Self>> {
        let dir = options.state.join("runs");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let path = dir.join(Digest::compute(options.cwd.as_bytes()).short_hex());
        let cannot = || format!("cannot lock `{}`", path.display());
        made.with_context(cannot)?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.with_context(cannot)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno).with_context(cannot),
        }
    }
}

fn task(typed: &str) -> Result<String> {
    let mut text = String::new();
    if typed == "-" {
        let read = std::io::stdin().take(TASK_BYTES_MAX.saturating_add(1)).read_to_string(&mut text);
        read.context("cannot read standard input")?;
    } else {
        text.push_str(typed);
    }
    if text.trim().is_empty() {
        return Err(CliError::new("the task is empty").hint("describe the task").into());
    }
    if text.len() as u64 > TASK_BYTES_MAX {
        return Err(CliError::new(format!("the task has more than {TASK_BYTES_MAX} bytes"))
            .hint("put the text into a file, and name the file in the task")
            .into());
    }
    Ok(text)
}

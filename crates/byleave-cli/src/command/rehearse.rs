//! `byleave rehearse`: runs a command on a copy, shows what it would change, and commits or discards it.
//!
//! It is an ordinary call that always raises a question. The rules hold, and the audit log records it.

mod keyboard;
mod report;

pub(crate) use report::differences;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use byleave_gate::approver::{Reply, RiskLevel};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::core::question::Question;
use byleave_gate::core::question_view::{QuestionView, RehearsalView};
use byleave_gate::core::refusal::Code;
use byleave_gate::core::rehearsal::Rehearsal;
use byleave_gate::gate::{AnswerError, Gate};
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_sandbox::guarantee::Guarantee;
use clap::Args as Group;
use serde_json::json;

use self::keyboard::{KeyReader, KeyboardInput, QuestionClosed};
use crate::app_context::{AppContext, recover_and_gc_copies};
use crate::args::{AskArg, guarantee};
use crate::call_display::{self, relative};
use crate::console::{Console, Tone, prose};
use crate::default_session;
use crate::drive_call::{DriveResult, answer_and_drive, closing_words, drive, follow_run, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};
use crate::short_ids::short;

#[derive(Debug, Group)]
pub(crate) struct RehearseArgs {
    /// Apply the changes without asking
    #[arg(short, long, conflicts_with_all = ["no", "later"])]
    pub(crate) yes: bool,
    /// Show the changes and discard them
    #[arg(short, long, conflicts_with = "later")]
    pub(crate) no: bool,
    /// Show the changes and keep them in `byleave inbox` for a day
    #[arg(short, long)]
    pub(crate) later: bool,
    /// Show the differences of all text files at once
    #[arg(short, long)]
    pub(crate) diff: bool,
    /// Directory outside this one that the command may write, on a copy
    #[arg(long, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,
    /// Path outside this directory that the command may read
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Sandbox guarantee to waive; recorded in the audit log (for all commands: BYLEAVE_WAIVE)
    #[arg(long, value_name = "GUARANTEE", value_parser = guarantee)]
    pub(crate) waive: Vec<String>,
    /// Session of the call [default: $BYLEAVE_SESSION, or one for each terminal and directory]
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Timeout of the command
    #[arg(long, value_name = "N", default_value_t = 600_000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub(crate) timeout_ms: u64,
    /// Command and its arguments; a single word with spaces is parsed by the shell
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(
    typed: RehearseArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let mut options = options.clone();
    options.waived.extend(typed.waive.iter().filter_map(|name| Guarantee::from_name(name)));
    let options = &options;
    let mut settings = options.settings.gate();
    settings.limits.timeout_ms = typed.timeout_ms;
    // The person asks for exactly this, whatever the setting says about other calls.
    settings.rehearse = true;
    let house = AppContext::open_or_create(options)?;
    recover_and_gc_copies(options, screen)?;
    let gate = house.gate(options, &options.cwd, AskArg::Inbox, settings)?;
    record_waivers(&gate, options).await?;
    let call = call(&typed, options)?;
    let id = call.id;
    if !screen.json() {
        screen.message("running the command on a copy; nothing changes until you approve");
    }
    let began = Instant::now();
    let driven = drive(&gate, id, gate.advance(call), options, screen).await;
    let CallStatus::Waiting { question, .. } = &driven.call_status else {
        return Ok(ended(screen, &driven));
    };
    let sheet = gate.question_view(question.id).await.map_err(CliError::from)?;
    let took = began.elapsed();
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.rehearsal else {
        return not_rehearsed((&gate, &house), question, &sheet, id, options, screen).await;
    };
    if !screen.json() {
        report::show(screen, rehearsal, Path::new(&options.cwd), took, typed.diff);
    }
    let told = |committed: bool| json!({ "call": id, "committed": committed, "rehearsal": rehearsal });
    let gates = (&gate, &house);
    let mut answered: QuestionClosed<'_> = Box::pin(until_answered(&gate, &driven.call_status));
    let chosen = choose(&typed, rehearsal, &mut answered, options, screen).await?;
    drop(answered);
    if let RehearsalChoice::Interrupted = chosen {
        if is_answered(&gate, question).await {
            return elsewhere(gates, question, id, options, screen).await;
        }
        answer_and_drive(gates, question, Reply::No { feedback: None }, options, screen).await?;
        screen.message("interrupted: the run is discarded, and nothing has changed");
        return Ok(ExitStatus::Aborted);
    }
    if let RehearsalChoice::Answered = chosen {
        return elsewhere(gates, question, id, options, screen).await;
    }
    let RehearsalChoice::Reply(reply) = chosen else {
        if screen.json() {
            let mut told = told(false);
            if let Some(fields) = told.as_object_mut() {
                fields.insert("question".into(), crate::json_output::question(question));
            }
            screen.value(&told);
        }
        let (question, call) = (short(&question.id), short(&id));
        screen.hint(&format!(
            "kept for a day: `byleave inbox answer {question} yes` commits it, `no` discards it, `byleave diff \
             {call}` shows it"
        ));
        return Ok(ExitStatus::Waiting);
    };
    let is_dropped = matches!(reply, Reply::No { .. });
    // Somebody else may have been faster.
    if is_answered(&gate, question).await {
        return elsewhere(gates, question, id, options, screen).await;
    }
    let driven = answer_and_drive(gates, question, reply, options, screen).await?;
    let output = match &driven.call_status {
        _ if is_dropped => {
            if screen.json() {
                screen.value(&told(false));
            }
            screen.message("discarded: nothing has changed");
            return Ok(ExitStatus::Completed);
        }
        CallStatus::Settled(CallResult {
            outcome: CallOutcome::Completed(output) | CallOutcome::Failed(output),
            ..
        }) => output,
        _ => return Ok(ended(screen, &driven)),
    };
    // A committed rehearsal was already shown. A second run, or a run that could not be committed, was not.
    let is_as_shown = rehearsal.is_committable() && (output.undo.is_some() || rehearsal.changes.is_empty());
    match (screen.json(), is_as_shown) {
        (true, true) => screen.value(&told(true)),
        (false, true) => {}
        (_, false) => call_display::print_status(screen, &driven.call_status),
    }
    // The status of a call says it itself.
    if output.undo.is_some() && (is_as_shown || screen.json()) {
        screen.message_with_tone(
            Tone::Strong,
            "committed:",
            &format!("`byleave undo {}` undoes it", short(&id)),
        );
    }
    Ok(driven.status())
}

/// Returns the typed call, in the mode that asks about everything, so that it is shown before it is committed.
fn call(typed: &RehearseArgs, options: &ResolvedOptions) -> Result<Call> {
    let words: Vec<String> = typed.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = match words.as_slice() {
        [one] if one.contains(' ') => one.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    };
    let at = |path: &PathBuf| -> Result<String> {
        let whole = Path::new(&options.cwd).join(path);
        let missing = || {
            CliError::new(format!("the path `{}` does not exist", path.display()))
                .hint("choose an existing path, or create it first")
        };
        Ok(real_path(&whole)?.filter(|path| Path::new(path).exists()).ok_or_else(missing)?)
    };
    if let Some(own) = typed.write.iter().find(|path| is_of_the_sandbox(&Path::new(&options.cwd).join(path)))
    {
        let own = own.display();
        let wrong = CliError::new(format!(
            "`{own}` is a temporary directory: the command gets its own, which is discarded"
        ));
        return Err(wrong
            .hint("let the command write into this directory, or into another that is not temporary")
            .into());
    }
    let mut arguments = json!({ "command": command });
    for (name, paths) in [("write", &typed.write), ("read", &typed.read)] {
        let paths = paths.iter().map(at).collect::<Result<Vec<_>>>()?;
        if let (false, Some(fields)) = (paths.is_empty(), arguments.as_object_mut()) {
            fields.insert(name.into(), json!(paths));
        }
    }
    Ok(Call {
        id: CallId::new(fresh_id()),
        tenant: options.tenant.clone(),
        session: default_session::resolve(typed.session.as_ref(), options)?,
        agent: AgentId::new("rehearse")?,
        tool: "bash".into(),
        arguments,
        reason: None,
        cwd: options.cwd.clone(),
        mode: Mode::ConfirmAll,
        dry_run: false,
    })
}

/// Checks whether the sandbox has its own directory at this path.
fn is_of_the_sandbox(path: &Path) -> bool {
    ["/tmp", "/var/tmp", "/dev", "/proc", "/sys"].iter().any(|own| path.starts_with(own))
}

/// Quotes a word so that the shell reads it unchanged.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The person's choice.
enum RehearsalChoice {
    Reply(Reply),
    /// No choice yet.
    Later,
    /// Ctrl-C was pressed.
    Interrupted,
    /// The question was answered in another place.
    Answered,
}

/// Waits until a question no longer waits for an answer.
async fn until_answered(gate: &Gate, waiting: &CallStatus) {
    let CallStatus::Waiting { question, .. } = waiting else { return };
    while !is_answered(gate, question).await {
        gate.wait_for_progress(waiting).await;
    }
}

async fn is_answered(gate: &Gate, question: &Question) -> bool {
    matches!(gate.question_view(question.id).await, Err(AnswerError::QuestionClosed))
}

/// Shows what came of a call whose question was answered in another place.
async fn elsewhere(
    (gate, house): (&Gate, &AppContext),
    question: &Question,
    call: CallId,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    if let Some(answer) = closing_words(house, call, question.id).await {
        screen.message_with_tone(Tone::Strong, "answered elsewhere:", &prose(&answer));
    }
    let work = async { follow_run(gate, house, gate.resume(call).await, options).await };
    let driven = drive(gate, call, work, options, screen).await;
    Ok(ended(screen, &driven))
}

/// Returns the choice from the options, or asks the person.
async fn choose(
    typed: &RehearseArgs,
    rehearsal: &Rehearsal,
    answered: &mut QuestionClosed<'_>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<RehearsalChoice> {
    let yes = || RehearsalChoice::Reply(Reply::Yes { note: None });
    let no = || RehearsalChoice::Reply(Reply::No { feedback: None });
    if typed.no {
        return Ok(no());
    }
    if typed.yes {
        return Ok(yes());
    }
    // A run without changes needs no answer, unless it wanted the network and may have to run again with it.
    if rehearsal.changes.is_empty() && rehearsal.is_committable() {
        return Ok(yes());
    }
    if typed.later || screen.json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(RehearsalChoice::Later);
    }
    // Keys typed while it ran were not typed for this question.
    let mut keyboard = KeyReader::new()?;
    std::thread::sleep(RiskLevel::Normal.min_read_time());
    keyboard.discard_typed_ahead()?;
    let apply =
        if rehearsal.is_committable() { "[y] apply this" } else { "[y] run it again with these hosts" };
    loop {
        let is_divisible = rehearsal.changes.list.len() > 1 && rehearsal.is_committable();
        let (some, keys) = if is_divisible { ("  [p] only some", "ynldp") } else { ("", "ynld") };
        let asked = format!("{apply}  [n] discard it{some}  [d] differences  [l] later > ");
        match keyboard.prompt(&asked, keys, answered).await? {
            KeyboardInput::Key(key) => match key {
                'y' => return Ok(yes()),
                'n' => return Ok(no()),
                'l' => return Ok(RehearsalChoice::Later),
                'd' => differences(screen, &rehearsal.changes, Path::new(&options.cwd)),
                'p' => match some_of(rehearsal, options, &mut keyboard, answered).await? {
                    RehearsalChoice::Later => {}
                    chosen => return Ok(chosen),
                },
                _ => {}
            },
            KeyboardInput::End => return Ok(RehearsalChoice::Later),
            KeyboardInput::Interrupt => return Ok(RehearsalChoice::Interrupted),
            KeyboardInput::Answered => return Ok(RehearsalChoice::Answered),
        }
    }
}

/// Asks for each change whether it is applied. If none is, the person chooses again.
async fn some_of(
    rehearsal: &Rehearsal,
    options: &ResolvedOptions,
    keyboard: &mut KeyReader,
    answered: &mut QuestionClosed<'_>,
) -> Result<RehearsalChoice> {
    let mut applied = Vec::new();
    for change in &rehearsal.changes.list {
        let path = relative(&change.path, Path::new(&options.cwd));
        // The question names what happens to the file, because "keep" would mean the opposite for a deletion.
        let verb = change.kind().verb();
        let asked = format!("{verb} {path}?  [y] {verb} it  [n] leave it as it was > ");
        match keyboard.prompt(&asked, "yn", answered).await? {
            KeyboardInput::Key('y') => applied.push(change.path.clone()),
            KeyboardInput::Key(_) => {}
            KeyboardInput::End => return Ok(RehearsalChoice::Later),
            KeyboardInput::Interrupt => return Ok(RehearsalChoice::Interrupted),
            KeyboardInput::Answered => return Ok(RehearsalChoice::Answered),
        }
    }
    if applied.is_empty() {
        return Ok(RehearsalChoice::Later);
    }
    Ok(RehearsalChoice::Reply(Reply::Partial { paths: applied, note: None }))
}

/// Reports that it could not run on a copy. Nothing is run in another way, and the question is closed.
async fn not_rehearsed(
    gates: (&Gate, &AppContext),
    question: &Question,
    sheet: &QuestionView,
    id: CallId,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let why = match &sheet.rehearsal {
        Some(RehearsalView::Unavailable { reason: why }) => why.clone(),
        _ => "no reason was given".to_owned(),
    };
    answer_and_drive(
        gates,
        question,
        Reply::No { feedback: Some("cannot run on a copy".into()) },
        options,
        screen,
    )
    .await?;
    let complaint =
        CliError::not_run(format!("the command was not run: no copy is available: {}", prose(&why)));
    let hint = format!(
        "`byleave doctor` shows what this machine supports; `--waive GUARANTEE` waives a guarantee; `byleave \
         log show {}` shows the record",
        short(&id)
    );
    Err(complaint.hint(hint).into())
}

fn ended(screen: &mut Console, driven: &DriveResult) -> ExitStatus {
    call_display::print_status(screen, &driven.call_status);
    match &driven.call_status {
        CallStatus::Settled(CallResult { outcome: CallOutcome::Refused(refusal), .. })
            if refusal.code == Code::CannotRun =>
        {
            ExitStatus::NOT_RUN
        }
        _ => driven.status(),
    }
}

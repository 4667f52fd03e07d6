//! `byleave agent chat`: a conversation with a model on a full screen.
//!
//! The screen has its own thread; it receives events and returns the person's actions. This module connects it to the agent loop:
//! one conversation at a time, and the task that works on it.

mod approver;
mod event_mapping;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context as _, Result};
use byleave_agent::agent_loop::{Agent, AgentError, OnQuestion, RunOutcome};
use byleave_agent::conversation::{Conversation, RecordedTurn};
use byleave_agent::history::History;
use byleave_agent::limits::TaskUsage;
use byleave_agent::model_turn::new_session_id;
use byleave_files::own;
use byleave_gate::core::id::SessionId;
use byleave_gate::gate::Gate;
use byleave_terminal::QuestionBackend as _;
use byleave_terminal::chat::{self, ChatAction, ChatEvent, ChatStatusBar, PickerItem, SlashCommand};
use clap::{Args as Group, ValueEnum as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::approver::{AnswerWaiters, ChatApprover};
use super::history;
use super::history::HistoryFormat;
use crate::agent_setup::ModelArgs;
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::command::policy::approvals::ApprovalsCommand;
use crate::command::policy::{self, approvals};
use crate::console::Console;
use crate::drive_call::record_waivers;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::mcp_servers::AttachedServers;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::terminal_approver::{self, LocalBackend};
use crate::{agent_setup, mcp_servers, notify, undo_target};

#[derive(Debug, Group)]
pub(crate) struct ChatArgs {
    /// First message
    pub(crate) message: Option<String>,
    /// Continue this conversation; without a session, choose one from a list
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) model_args: ModelArgs,
}

/// The maximum number of conversations to choose from.
const PICKS_MAX: usize = 200;

pub(crate) async fn run(
    mut typed: ChatArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    typed.model_args.dry_run |= options.settings.is_dry_run();
    if screen.json() || terminal_approver::is_dumb_terminal() || own::open("/dev/tty").is_err() {
        return Err(CliError::new("the chat needs an interactive terminal")
            .hint("`byleave agent run` works without a terminal")
            .into());
    }
    let house = AppContext::open_or_create(options)?;
    let (tell, news) = channel();
    let (act, acts) = unbounded_channel();
    let mut chat = ChatController {
        house: &house,
        options,
        model_args: &typed.model_args,
        tell: tell.clone(),
        answers: AnswerWaiters::default(),
        open: None,
        work: None,
        next: VecDeque::new(),
        is_lent: false,
    };
    // Errors are reported before the screen opens.
    match typed.resume.as_deref() {
        Some("") => chat.offer()?,
        Some(named) => {
            let session = agent_setup::session(named, &house, options).await?;
            chat.open(Some(session)).await?;
        }
        None => chat.open(None).await?,
    }
    if let Some(word) = typed.message.clone() {
        chat.tell(ChatEvent::QueueMessage(word));
    }
    let manner = terminal_approver::prompt_settings(options);
    let shown = tokio::task::spawn_blocking(move || {
        chat::run(Path::new("/dev/tty"), &manner, &news, |wanted| {
            // If the receiver is gone, this thread ends soon as well.
            drop(act.send(wanted));
        })
    });
    let left = chat.go(acts).await;
    let last = chat.begun().await;
    drop(tell.send(ChatEvent::End));
    let there = shown.await.context("the screen failed")?;
    left?;
    if there.context("the terminal failed")?
        && let Some(session) = last
    {
        let dry_run = agent_setup::dry_run_option(&typed.model_args);
        screen.hint(&format!("continue with `byleave agent chat{dry_run} --resume {session}`"));
    }
    if chat.work.is_some() {
        // Open calls stay open until somebody continues the conversation. Nobody waits for a command to end.
        std::process::exit(ExitStatus::Aborted.code().into());
    }
    Ok(ExitStatus::Completed)
}

/// An open conversation.
struct OpenConversation {
    agent: Arc<Agent>,
    session: SessionId,
    /// Ends with the conversation.
    following: JoinHandle<()>,
    _servers: AttachedServers,
}

impl Drop for OpenConversation {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// A task that works on a conversation.
struct ConversationTask {
    stop: CancellationToken,
    went: JoinHandle<Result<RunOutcome, AgentError>>,
}

/// The controller between the screen and the agent loop.
struct ChatController<'a> {
    house: &'a AppContext,
    options: &'a ResolvedOptions,
    model_args: &'a ModelArgs,
    tell: Sender<ChatEvent>,
    answers: AnswerWaiters,
    open: Option<OpenConversation>,
    work: Option<ConversationTask>,
    /// Messages to send once the model rests.
    next: VecDeque<String>,
    /// An editor has the terminal.
    is_lent: bool,
}

impl ChatController<'_> {
    /// Carries out the person's actions until they quit.
    async fn go(&mut self, mut acts: UnboundedReceiver<ChatAction>) -> Result<()> {
        let heard = || "cannot listen for signals";
        let mut interrupts = signal(SignalKind::interrupt()).with_context(heard)?;
        let mut ends = signal(SignalKind::terminate()).with_context(heard)?;
        self.rested().await;
        loop {
            tokio::select! {
                biased;
                went = finished(&mut self.work) => {
                    self.went(went).await;
                    self.rested().await;
                }
                // Without a terminal nobody can answer. Open questions stay open until somebody returns.
                act = acts.recv() => match act {
                    None => return Ok(()),
                    Some(ChatAction::Quit) => break,
                    Some(act) => self.act(act).await,
                },
                _ = interrupts.recv() => match &self.work {
                    // An editor has the terminal, and the key was for it.
                    _ if self.is_lent => {}
                    None => break,
                    // Second request: the work is left as it is and can be continued later.
                    Some(work) if work.stop.is_cancelled() => return Ok(()),
                    Some(_) => self.call_off(),
                },
                _ = ends.recv() => return Ok(()),
            }
        }
        let Some(work) = &self.work else { return Ok(()) };
        work.stop.cancel();
        self.hint("cancelling the model's work; press Ctrl-C to exit at once");
        tokio::select! {
            _ = finished(&mut self.work) => {}
            _ = interrupts.recv() => {}
            _ = ends.recv() => {}
            () = until_gone(&mut acts) => {}
        }
        Ok(())
    }

    fn tell(&self, news: ChatEvent) {
        // If the screen is gone, nobody needs the event.
        drop(self.tell.send(news));
    }

    fn told(&self, text: impl Into<String>) {
        self.tell(ChatEvent::Message(text.into()));
    }

    fn hint(&self, text: &str) {
        self.tell(ChatEvent::Hint(text.to_owned()));
    }

    fn call_off(&self) {
        if let Some(work) = &self.work {
            work.stop.cancel();
            self.hint("cancelling; press Ctrl-C to exit at once");
        }
    }

    async fn act(&mut self, act: ChatAction) {
        match act {
            ChatAction::Nothing | ChatAction::Quit | ChatAction::Editor(_) => {}
            ChatAction::SendMessage(word) => {
                self.next.push_back(word);
                self.rested().await;
            }
            ChatAction::CancelWork => self.call_off(),
            ChatAction::TerminalLent => self.is_lent = true,
            ChatAction::TerminalReturned => self.is_lent = false,
            ChatAction::Answer(question, reply) => {
                if !self.answers.deliver(question, reply) {
                    self.told("the question was answered elsewhere, cancelled or has expired");
                }
            }
            ChatAction::Open(session) => {
                if let Err(error) = self.go_to(&session).await {
                    self.told(complete(&error));
                }
            }
            ChatAction::PreviewApproval(leave) => {
                self.beside(move |behind| ChatEvent::CoveredCalls(behind.covered_calls(&leave)))
            }
            ChatAction::Undo => self.beside(|behind| ChatEvent::Message(behind.undo())),
            ChatAction::SlashCommand(order) => {
                if let Err(error) = self.order(order).await {
                    self.told(complete(&error));
                }
            }
        }
    }

    async fn order(&mut self, order: SlashCommand) -> Result<()> {
        match order {
            SlashCommand::Help | SlashCommand::Quit => {}
            SlashCommand::New => {
                self.open(None).await?;
                self.rested().await;
            }
            SlashCommand::Sessions => {
                self.hint("looking for conversations …");
                self.offer()?;
            }
            SlashCommand::Continue => self.begin(),
            SlashCommand::Undo => {
                let Some(open) = &self.open else { return Ok(()) };
                let came =
                    undo_target::undo_newest_in_session(&open.session, self.house, self.options).await?;
                self.told(format!("{came}; the model is not notified"));
            }
            SlashCommand::Approvals { revoke } => {
                let mut page = Console::buffered();
                let command = revoke.map(|id| ApprovalsCommand::Revoke { id });
                approvals::run(command, self.options, &mut page).await?;
                let text = page.into_text();
                let how =
                    "To give a standing approval, press l at a question. `/approvals revoke ID` revokes one.";
                self.tell(ChatEvent::Page("Standing approvals".into(), format!("{text}\n{how}\n")));
            }
            SlashCommand::Policy => {
                let mut page = Console::buffered();
                policy::run(None, self.options, &mut page).await?;
                let mode = self.options.settings.clone().with_mode(self.model_args.mode).mode();
                let text = format!("mode: {}\n\n{}", mode.as_str(), page.into_text());
                self.tell(ChatEvent::Page("The rules in force".into(), text));
            }
            SlashCommand::Export { format: form, file } => self.export(&form, file).await?,
        }
        Ok(())
    }

    /// Switches to another conversation. If it cannot be opened, the current one stays.
    async fn go_to(&mut self, session: &str) -> Result<()> {
        self.open(Some(session.parse()?)).await?;
        self.rested().await;
        Ok(())
    }

    /// Opens a conversation or a new one, and continues it if something in it is open.
    async fn open(&mut self, session: Option<SessionId>) -> Result<()> {
        if self.work.is_some() {
            return Err(CliError::new("the model is working").hint("press Esc twice to cancel").into());
        }
        let is_new = session.is_none();
        let session = session.map_or_else(|| new_session_id("chat"), Ok)?;
        let gate = self.gate()?;
        record_waivers(&gate, self.options).await?;
        let servers = mcp_servers::attach(gate.catalog(), self.house, self.options).await?;
        let before = match is_new {
            true => Conversation { turns: Vec::new() },
            false => agent_setup::conversation(&gate, self.house, self.options, &session).await?,
        };
        let watcher = event_mapping::event_listener(self.tell.clone());
        let (house, options) = (self.house, self.options);
        let agent =
            agent_setup::agent(&gate, house, options, session.clone(), self.model_args, &before, watcher)?;
        let (persona, model) = agent.persona_and_model();
        let heading = ChatStatusBar {
            persona_and_model: format!("{persona} with {model}"),
            session: short(&session),
            directory: self.options.cwd.clone(),
            is_dry_run: self.model_args.dry_run,
        };
        self.tell(ChatEvent::Begin(heading, event_mapping::transcript_entries(&before)));
        servers.problems().into_iter().for_each(|problem| self.told(problem));
        let following = tokio::spawn(event_mapping::forward_events(gate.subscribe(), self.tell.clone()));
        self.open = Some(OpenConversation { agent: Arc::new(agent), session, following, _servers: servers });
        if !is_new {
            self.begin();
        }
        Ok(())
    }

    fn ask(&self) -> AskArg {
        self.options.resolve_ask(self.model_args.ask, AskArg::Terminal)
    }

    fn gate(&self) -> Result<Gate> {
        let (house, options) = (self.house, self.options);
        let settings = options.settings.clone().with_mode(self.model_args.mode).gate();
        let offered = options.for_models();
        terminal_approver::gate_with(house, &offered, &options.cwd, self.ask(), settings, || {
            Ok(Arc::new(ChatApprover::new(options, house, self.tell.clone(), self.answers.clone())))
        })
    }

    /// Lets the model continue.
    fn begin(&mut self) {
        let Some(open) = self.open.as_ref().filter(|_| self.work.is_none()) else { return };
        let (agent, stop) = (Arc::clone(&open.agent), CancellationToken::new());
        let stopped = stop.clone();
        let patience = if self.ask() == AskArg::Terminal { OnQuestion::Wait } else { OnQuestion::Exit };
        let went = tokio::spawn(async move { agent.run(patience, &stopped).await });
        self.work = Some(ConversationTask { stop, went });
    }

    /// Sends the next queued message. If there is none, it is the person's turn.
    async fn rested(&mut self) {
        let Some(open) = self.open.as_ref().filter(|_| self.work.is_none()) else { return };
        let Some(word) = self.next.pop_front() else {
            let used = match open.agent.conversation().await {
                Ok(conversation) if conversation.turns.is_empty() => String::new(),
                Ok(conversation) => agent_setup::format_usage(TaskUsage::from_turns(
                    &conversation.turns,
                    self.model_args.prices,
                )),
                Err(fault) => fault.to_string(),
            };
            return self.tell(ChatEvent::WorkFinished(used));
        };
        match open.agent.add_user_message(&word).await {
            Ok(()) => self.begin(),
            Err(broken) => {
                self.told(format!("the message was not sent: {broken}"));
                self.tell(ChatEvent::WorkFinished(String::new()));
            }
        }
    }

    async fn went(&mut self, went: Result<RunOutcome>) {
        match went {
            Ok(went) => {
                if let RunOutcome::Waiting(questions) = &went {
                    for question in questions {
                        // The screen shows them below as well.
                        notify::try_notify(&self.options.settings, question, "a call of the model")
                            .unwrap_or_default();
                    }
                }
                if let Some(text) = event_mapping::outcome_message(&went) {
                    self.told(text);
                }
            }
            Err(error) => self.told(complete(&error)),
        }
    }

    /// Searches the conversations that can be continued here, and shows them.
    fn offer(&self) -> Result<()> {
        let gate =
            self.house.gate(self.options, &self.options.cwd, AskArg::None, self.options.settings.gate())?;
        let (house, options, tell) = (self.house.clone(), self.options.clone(), self.tell.clone());
        let dry_run = self.model_args.dry_run;
        // There may be many.
        tokio::spawn(async move {
            let found = match picks(&gate, &house, &options, dry_run).await {
                Ok(picks) => ChatEvent::Pick(picks),
                Err(error) => ChatEvent::Message(complete(&error)),
            };
            drop(tell.send(found));
        });
        Ok(())
    }

    /// Returns the open conversation, if it has any message.
    async fn begun(&self) -> Option<SessionId> {
        let open = self.open.as_ref()?;
        let conversation = open.agent.conversation().await.ok()?;
        (!conversation.turns.is_empty()).then(|| open.session.clone())
    }

    async fn export(&self, form: &str, file: Option<String>) -> Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        let form = HistoryFormat::from_str(form, false).map_err(CliError::new)?;
        let end = match form {
            HistoryFormat::Markdown => "md",
            HistoryFormat::Json => "json",
            HistoryFormat::Html => "html",
        };
        let path = file.map_or_else(|| PathBuf::from(format!("{}.{end}", open.session)), PathBuf::from);
        let history = History::from_conversation(open.session.as_str(), &open.agent.conversation().await?);
        history::write(&path, &history::format_history(&history, form)?)?;
        self.told(format!("written to {}", path.display()));
        Ok(())
    }

    /// Does slow work and sends its event afterwards.
    fn beside(&self, work: impl FnOnce(&LocalBackend) -> ChatEvent + Send + 'static) {
        let (behind, tell) = (LocalBackend::new(self.options, self.house), self.tell.clone());
        tokio::task::spawn_blocking(move || drop(tell.send(work(&behind))));
    }
}

/// Returns the conversations of this directory, newest first: the dry runs or the others.
async fn picks(
    gate: &Gate,
    house: &AppContext,
    options: &ResolvedOptions,
    dry_run: bool,
) -> Result<Vec<PickerItem>> {
    let mut picks = Vec::new();
    for session in agent_setup::sessions(house, options).await? {
        let Ok(conversation) = agent_setup::conversation(gate, house, options, &session).await else {
            continue;
        };
        // Conversations of other directories are continued there.
        let is_from_here = |last: &RecordedTurn| last.cwd == options.cwd && last.arguments.dry_run == dry_run;
        if !conversation.last_known_turn().is_some_and(is_from_here) {
            continue;
        }
        let history = History::from_conversation(session.as_str(), &conversation);
        let (title, about) = (history.title().to_owned(), agent_setup::describe(&history));
        picks.push(PickerItem { key: session.to_string(), title, description: about });
        if picks.len() == PICKS_MAX {
            break;
        }
    }
    Ok(picks)
}

/// Formats an error and its hint in one line.
fn complete(error: &anyhow::Error) -> String {
    match CliError::hint_in(error) {
        Some(hint) => format!("{error:#}: {hint}"),
        None => format!("{error:#}"),
    }
}

/// Waits for the outcome of the task. Without a task it waits forever.
async fn finished(work: &mut Option<ConversationTask>) -> Result<RunOutcome> {
    let went = match work {
        Some(work) => (&mut work.went).await,
        None => std::future::pending().await,
    };
    *work = None;
    Ok(went.context("the agent loop failed")??)
}

/// Ignores all actions until the screen is gone.
async fn until_gone(acts: &mut UnboundedReceiver<ChatAction>) {
    while acts.recv().await.is_some() {}
}

//! Evaluates the requests of an agent's hook in one directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::sqlite::SqliteLedger;
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Millis, Mode};
use byleave_gate::core::id::{AgentId, CallId, SessionId};
use byleave_gate::gate::Gate;
use byleave_gate::result::{CallOutcome, CallResult, CallStatus, ModifiedPart};
use byleave_hook::{
    AgentKind, AgentVariables, HookDecision, HookEvent, HookRequest, PreparedCall, ToolEffect, ToolKind,
    exec_command_line, is_background, is_gateway_tool, parse_exec_call, tool_effects, with_command,
    working_directory,
};
use byleave_tools::{find_service, is_known_service};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::attended_calls::{AttendedCalls, is_abandoned};
use super::fingerprint::Fingerprint;
use super::session_notes::SessionNotes;
use super::tickets::{HookTicket, TicketKey, TicketStore};
use super::window_tickets::WindowTickets;
use super::{agent_tool, codex_sandbox, post_tool_report};
use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::one_line;
use crate::error::CliError;
use crate::notify;
use crate::resolved_options::{ResolvedOptions, real_path, text_of};
use crate::short_ids::short;
use crate::time::now;
use crate::tool_catalog::jobs_dir;

/// The interval at which an answer is checked.
const LOOKS_EVERY: Duration = Duration::from_millis(50);
/// The maximum run time of an agent's command.
const TIMEOUT_MS_MAX: u64 = 600_000;
/// What an agent is told about a command that stays.
const JOB_NOTE: &str = "byleave runs this as a background job: its output and its end are those of the command, it sees the workspace \
    read-only as it is, and it says on which port it listens; name the port in the command (`--port 5173`) to have it opened";
/// The number of retries if other processes take the same call first.
const TRIES: usize = 8;

/// A gate for the calls of agents in one directory.
#[derive(Clone)]
pub(crate) struct HookEvaluator {
    pub(super) gate: Gate,
    pub(super) options: ResolvedOptions,
    pub(super) tickets: TicketStore,
    attended: AttendedCalls,
    pub(super) notes: SessionNotes,
    pub(super) window_tickets: WindowTickets,
    /// The program that begins a prepared call.
    pub(super) program: String,
    pub(super) state: String,
    pub(super) book: Arc<SqliteLedger>,
    /// Some rule allows only with a guarantee of the sandbox.
    demanding: bool,
    /// Whether the process, and a call in it, continues after the answer.
    is_resident: bool,
}

impl HookEvaluator {
    /// Creates the gate for calls in this workspace.
    pub(crate) fn new(
        house: &AppContext,
        options: &ResolvedOptions,
        workspace: &str,
        program: &Path,
    ) -> Result<Self> {
        let real = real_path(Path::new(workspace))?.filter(|real| Path::new(real).is_dir());
        let real = real.ok_or_else(|| {
            CliError::new(format!("the agent works in `{workspace}`, which is not a directory"))
                .hint("start the agent in an existing directory")
        })?;
        let options = options.in_directory(real)?;
        let gate = house.gate(&options, &options.cwd, AskArg::Inbox, options.settings.gate())?;
        gate.catalog().replace_generated(post_tool_report::ReportedRunTool::new())?;
        let state = options.state.canonicalize().context("cannot find the state directory")?;
        let policy = house.policy(&options, &options.cwd)?;
        Ok(Self {
            gate,
            tickets: TicketStore::new(&options),
            attended: AttendedCalls::new(&options),
            notes: SessionNotes::new(&options),
            window_tickets: WindowTickets::new(&options),
            program: text_of(program)?,
            state: text_of(&state)?,
            book: Arc::clone(&house.audit_log),
            demanding: policy.rules().any(|rule| !rule.guarantees.is_empty()),
            is_resident: false,
            options,
        })
    }

    /// Marks that the process continues after the answer.
    pub(crate) fn resident(self) -> Self {
        Self { is_resident: true, ..self }
    }

    /// Returns the files that this gate was built from.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let rules = ActivePolicy { options: &self.options, workspace: &self.options.cwd, state: &self.state };
        let rules = rules.files().into_iter().map(|file| file.path);
        let settings = self.options.config_files().into_iter().map(|file| file.path);
        let reviewers = self.options.settings.reviewers().iter();
        let secrets = reviewers.filter_map(|reviewer| reviewer.kind.secret_file().cloned());
        Fingerprint::from_files(rules.chain(settings).chain(secrets).collect::<Vec<PathBuf>>())
    }

    /// Returns the answer for an agent, before the deadline.
    pub(crate) async fn answer(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        agent: &AgentVariables,
        deadline: Instant,
    ) -> Result<HookDecision> {
        match heard.kind {
            HookEvent::PermissionPrompt => self.shown_in_window(dialect, heard, agent),
            HookEvent::PostToolUse => self.after(dialect, heard).await,
            HookEvent::PreToolUse => self.before(dialect, heard, agent, deadline).await,
            HookEvent::TurnEnd => self.end_of_turn(dialect, heard).await,
        }
    }

    async fn before(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        agent: &AgentVariables,
        deadline: Instant,
    ) -> Result<HookDecision> {
        // The gateway evaluates these calls.
        if is_gateway_tool(dialect, &heard.tool, heard.server.as_deref()) {
            return Ok(passed(None));
        }
        if let Some(line) = heard.command()
            && let Some(prepared) = parse_exec_call(line, &self.program, &self.state)
        {
            return self.prepared_before(dialect, heard, prepared).await;
        }
        let kind = tool_effects(&heard.tool, &heard.input).kind;
        let mode = self.mode(dialect, heard, kind)?;
        let key = self.key(dialect, heard, mode);
        if dialect == AgentKind::Codex
            && heard.command().is_some()
            && let Some(reason) =
                codex_sandbox::obstacle(heard, &self.options.cwd, &self.program, &self.state)
        {
            return Ok(HookDecision::Deny { reason });
        }
        let looks = matches!(kind, ToolKind::ReadsFiles | ToolKind::AgentInternal) && !self.demanding;
        if looks && self.tickets.waiting(&key)?.is_none() {
            return self.look(dialect, heard, mode, (&key, deadline)).await;
        }
        self.end_earlier_window_questions(dialect, heard).await;
        let has_window = mode == self.options.settings.mode() && self.has_window(dialect, heard, agent);
        for _ in 0..TRIES {
            let ticket = HookTicket::new(CallId::new(fresh_id()), dialect, &heard.tool, &self.options.cwd);
            let ticket = self.tickets.open(&key, &ticket)?;
            // If this process is killed, or the agent hangs up, the mark stays and says that nobody waits for the answer.
            let mark = self.attended.mark(ticket.call, Some(time_of(deadline)));
            self.end_abandoned(Some(ticket.call)).await;
            let answer =
                self.evaluate_once((dialect, heard), (mode, has_window), (&key, ticket.call), deadline).await;
            if let Some(mark) = mark {
                mark.release();
            }
            if let Some(answer) = answer? {
                return Ok(answer);
            }
        }
        Ok(HookDecision::Deny { reason: "the same call is made too often at once; make it again".into() })
    }

    /// Evaluates the call of a ticket. Returns `None` if the ticket is used, so that the same call needs a new one.
    async fn evaluate_once(
        &self,
        (dialect, heard): (AgentKind, &HookRequest),
        (mode, has_window): (Mode, bool),
        (key, id): (&TicketKey, CallId),
        deadline: Instant,
    ) -> Result<Option<HookDecision>> {
        let call = self.call(dialect, heard, mode, id)?;
        let is_shell = call.tool == "bash";
        let may_ask = has_window && is_shell;
        let standing = self.drive(call, may_ask, deadline).await;
        let answer = match standing {
            Some(CallStatus::Ready { .. }) if !self.tickets.mark_delivered(key)? => return Ok(None),
            Some(CallStatus::Ready { call }) if is_shell => self.rewritten_to_exec(dialect, heard, call),
            Some(CallStatus::Ready { call }) => match self.unguaranteed(call).await? {
                Some(why) => HookDecision::Deny { reason: why },
                None => match self.pass_on(call, deadline).await {
                    Some(CallStatus::Settled(result)) => {
                        self.note_edit(dialect, heard, call)?;
                        self.told(heard, &result)
                    }
                    // What the call would leave is not allowed, so a person is asked about it.
                    other => {
                        self.tickets.take_back(key)?;
                        self.not_yet(other.as_ref())
                    }
                },
            },
            // An earlier hook of the same call was killed, and its question is gone with it.
            Some(CallStatus::Settled(result)) if self.was_abandoned(result.call).await? => {
                self.tickets.mark_delivered(key)?;
                return Ok(None);
            }
            // It was refused, or another process was faster with the same call.
            Some(CallStatus::Settled(result)) => match result.outcome {
                CallOutcome::Completed(_) | CallOutcome::Failed(_) => {
                    self.tickets.mark_delivered(key)?;
                    return Ok(None);
                }
                _ if !self.tickets.mark_delivered(key)? => return Ok(None),
                // `byleave exec` says what would run, and succeeds.
                CallOutcome::DryRun(_) if is_shell => self.rewritten_to_exec(dialect, heard, result.call),
                _ => self.told(heard, &result),
            },
            Some(CallStatus::Waiting { call, question }) if may_ask => {
                match self.window_question(&question).await {
                    Some(text) => self.ask_in_window((dialect, heard), key, (call, &question), text)?,
                    None => self.not_yet(Some(&CallStatus::Waiting { call, question })),
                }
            }
            waiting => self.not_yet(waiting.as_ref()),
        };
        Ok(Some(answer))
    }

    /// Ends the calls whose agent is gone. It is no reason to deny this one if that fails.
    async fn end_abandoned(&self, own: Option<CallId>) {
        match self.attended.end_abandoned(&self.gate, &self.book, own).await {
            Ok(ended) => {
                ended.iter().for_each(|call| tracing::info!(%call, "the agent of a waiting call is gone"))
            }
            Err(error) => tracing::warn!("cannot end the calls whose agents are gone: {error:#}"),
        }
    }

    async fn was_abandoned(&self, call: CallId) -> Result<bool> {
        Ok(self.book.record(call).await?.is_some_and(|kept| is_abandoned(&kept.record)))
    }

    /// Returns the agent's input with a command that runs the prepared call.
    fn rewritten_to_exec(&self, dialect: AgentKind, heard: &HookRequest, call: CallId) -> HookDecision {
        let prepared = PreparedCall { call: &call.to_string(), ticket: None };
        let (input, note) = self.exec_input(dialect, heard, prepared);
        HookDecision::Rewrite { input, note }
    }

    /// Returns the agent's input with a command that runs the prepared call, and a note for the agent.
    pub(super) fn exec_input(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        prepared: PreparedCall<'_>,
    ) -> (Value, Option<String>) {
        let line = exec_command_line(&self.program, &self.state, prepared);
        let mut input = with_command(&heard.input, &line);
        let note = self.is_job(heard).then(|| {
            // An agent that has a background must not wait for a server.
            if let Some(background) = in_background(dialect, &mut input) {
                *background = Value::Bool(true);
            }
            JOB_NOTE.to_owned()
        });
        (input, note)
    }

    /// Evaluates a call that only reads. It gets a ticket only once it is known whether a person must be asked.
    async fn look(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        mode: Mode,
        (key, deadline): (&TicketKey, Instant),
    ) -> Result<HookDecision> {
        let call = self.call(dialect, heard, mode, CallId::new(fresh_id()))?;
        let ticket = HookTicket::new(call.id, dialect, &heard.tool, &self.options.cwd);
        let id = call.id;
        match self.gate.advance(call.clone()).await {
            CallStatus::Settled(result) => {
                self.tickets.record_delivered(key, &ticket)?;
                Ok(self.told(heard, &result))
            }
            _ => {
                self.tickets.open(key, &ticket)?;
                let mark = self.attended.mark(id, Some(time_of(deadline)));
                let standing = self.drive(call, false, deadline).await;
                let answer = match standing {
                    Some(CallStatus::Ready { .. }) if self.tickets.mark_delivered(key)? => {
                        match self.gate.resume(id).await {
                            CallStatus::Settled(result) => self.told(heard, &result),
                            other => self.not_yet(Some(&other)),
                        }
                    }
                    Some(CallStatus::Settled(result)) if self.tickets.mark_delivered(key)? => {
                        self.told(heard, &result)
                    }
                    waiting => self.not_yet(waiting.as_ref()),
                };
                if let Some(mark) = mark {
                    mark.release();
                }
                Ok(answer)
            }
        }
    }

    /// Returns the reason if a rule allows only with guarantees. Nobody can give them if the agent does the call itself.
    async fn unguaranteed(&self, call: CallId) -> Result<Option<String>> {
        if !self.demanding {
            return Ok(None);
        }
        let kept = self.book.record(call).await?.context("the call is not in the audit log")?;
        let Some(Ok(ruling)) = kept.record.draft().and_then(|draft| draft.decision()) else {
            return Ok(Some("the call has no decision".into()));
        };
        if ruling.guarantees.is_empty() {
            return Ok(None);
        }
        let wanted = ruling.guarantees.join(", ");
        self.gate.cancel(call, "the hook").await?;
        Ok(Some(format!(
            "the call is allowed only with `{wanted}`, which byleave cannot guarantee if the agent executes it itself"
        )))
    }

    /// Handles the rewritten line of a shell call, which comes again if an agent has two hooks for one call.
    async fn prepared_before(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        prepared: PreparedCall<'_>,
    ) -> Result<HookDecision> {
        let call = prepared.call;
        let known = match call.parse::<CallId>() {
            Ok(call) if self.tickets.find(call)?.is_some() => self.book.record(call).await?,
            _ => None,
        };
        let header = known.as_ref().and_then(|kept| kept.record.header());
        let Some(header) = header else {
            return Ok(HookDecision::Deny { reason: format!("no call {call} was prepared here") });
        };
        if header.session.as_str() != session_name(dialect, heard) {
            return Ok(HookDecision::Deny {
                reason: format!("call {call} was prepared for another session; it did not run"),
            });
        }
        match prepared.ticket {
            // Otherwise the model could start the call without the question.
            Some(ticket) if !self.is_of_this_use(dialect, heard, ticket)? => Ok(HookDecision::Deny {
                reason: "the ticket belongs to another call of the agent; the call did not run".into(),
            }),
            _ => Ok(passed(None)),
        }
    }

    /// Returns the mode of a call. A session that left something else than was judged asks about everything but reads.
    fn mode(&self, dialect: AgentKind, heard: &HookRequest, kind: ToolKind) -> Result<Mode> {
        let set = self.options.settings.mode();
        let reads = matches!(kind, ToolKind::ReadsFiles | ToolKind::AgentInternal);
        if reads || set == Mode::ReadOnly {
            return Ok(set);
        }
        let note = self.notes.of(dialect, &heard.session);
        let asks = note.asking_reason()?.is_some()
            || !note.edits()?.is_empty() && self.passed_edits(dialect, heard)?.has_unsettled()?;
        Ok(if asks { Mode::ConfirmAll } else { set })
    }

    pub(super) fn key(&self, dialect: AgentKind, heard: &HookRequest, mode: Mode) -> TicketKey {
        TicketKey::for_call(dialect, heard, &self.options.cwd, mode, self.options.settings.is_dry_run())
    }

    /// Drives a call that passes to its end, or to a question about what it would leave.
    async fn pass_on(&self, call: CallId, deadline: Instant) -> Option<CallStatus> {
        match self.gate.resume(call).await {
            CallStatus::Settled(result) => Some(CallStatus::Settled(result)),
            CallStatus::Waiting { .. } => match self.drive_existing(call, deadline).await {
                Some(CallStatus::Ready { .. }) => Some(self.gate.resume(call).await),
                other => other,
            },
            other => Some(other),
        }
    }

    /// Creates the call for the agent's request.
    fn call(&self, dialect: AgentKind, heard: &HookRequest, mode: Mode, id: CallId) -> Result<Call> {
        let is_shell = heard.command().is_some() && dialect.can_rewrite_input() && heard.can_rewrite_input;
        let claimed = tool_effects(&heard.tool, &heard.input);
        // A person is asked about an argument that nobody knows, and the agent runs what was answered.
        let is_known = !claimed.effects.iter().any(|claim| matches!(claim, ToolEffect::Unknown(_)));
        if !is_shell || !is_known {
            let place = (&self.options, self.options.cwd.as_str());
            let tool = agent_tool::register_tool(self.gate.catalog(), dialect, &heard.tool, Some(place))?;
            let mut call = self.named(dialect, heard, mode, id, &tool)?;
            call.arguments =
                agent_tool::resolve_paths(call.arguments, &self.directories(heard, &heard.input))?;
            return Ok(call);
        }
        let mut call = self.named(dialect, heard, mode, id, "bash")?;
        let command = placed(heard.command().unwrap_or_default(), &self.directories(heard, &heard.input));
        call.arguments = if self.is_job(heard) {
            json!({ "command": command, "background": true })
        } else {
            let timeout_ms = heard.input.get("timeout").and_then(Value::as_u64);
            let timeout_ms = timeout_ms.unwrap_or(TIMEOUT_MS_MAX).clamp(1, TIMEOUT_MS_MAX);
            json!({ "command": command, "timeout_ms": timeout_ms })
        };
        Ok(call)
    }

    /// Returns the directories from the workspace to the call: the agent's directory, and the one that the model names.
    fn directories<'a>(&self, heard: &'a HookRequest, input: &'a Value) -> Vec<&'a str> {
        let said = heard.cwd.as_deref().filter(|said| !self.is_workspace(said));
        said.into_iter().chain(working_directory(&heard.tool, input)).collect()
    }

    /// Checks whether a command is meant to stay: the agent runs it in the background, or it is a known server or watcher.
    fn is_job(&self, heard: &HookRequest) -> bool {
        let Some(command) = heard.command().filter(|_| self.options.settings.run_on().is_native()) else {
            return false;
        };
        let command = placed(command, &self.directories(heard, &heard.input));
        let (jobs, workspace) = (jobs_dir(&self.options.state), Path::new(&self.options.cwd));
        is_background(&heard.input)
            || find_service(&command).is_some()
            || is_known_service(&jobs, workspace, &command)
    }

    fn is_workspace(&self, directory: &str) -> bool {
        real_path(Path::new(directory)).is_ok_and(|real| real.as_deref() == Some(&self.options.cwd))
    }

    pub(super) fn named(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        mode: Mode,
        id: CallId,
        tool: &str,
    ) -> Result<Call> {
        let reason = heard.input.get("description").and_then(Value::as_str);
        Ok(Call {
            id,
            tenant: self.options.tenant.clone(),
            session: SessionId::new(session_name(dialect, heard))?,
            agent: AgentId::new(dialect.name())?,
            tool: tool.to_owned(),
            arguments: heard.input.clone(),
            reason: reason.map(str::to_owned),
            cwd: self.options.cwd.clone(),
            mode,
            dry_run: self.options.settings.is_dry_run(),
        })
    }

    /// Drives a call until it is ready or settled, or the time is up. In a resident process, the call continues after that.
    ///
    /// With `may_ask`, it stops at a question that the agent can ask in its own window.
    async fn drive(&self, call: Call, may_ask: bool, deadline: Instant) -> Option<CallStatus> {
        let (gate, id, tool) = (self.gate.clone(), call.id, call.tool.clone());
        let work = tokio::spawn(async move { gate.prepare(call).await });
        self.wait(work, (id, &tool), may_ask, deadline).await
    }

    /// Drives a call that is already on the record.
    async fn drive_existing(&self, call: CallId, deadline: Instant) -> Option<CallStatus> {
        let gate = self.gate.clone();
        let work = tokio::spawn(async move { gate.prepare_existing(call).await });
        self.wait(work, (call, "an edit"), false, deadline).await
    }

    async fn wait(
        &self,
        mut work: JoinHandle<CallStatus>,
        (id, tool): (CallId, &str),
        may_ask: bool,
        deadline: Instant,
    ) -> Option<CallStatus> {
        let mut is_told = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let standing = match tokio::time::timeout(left, &mut work).await {
                Ok(Ok(standing)) => standing,
                Ok(Err(_)) => return None,
                // It takes longer than the agent waits.
                Err(_) if self.is_resident => return None,
                // The process ends. A stage whose threads end with it would be recorded as failed, and the call would be refused
                // for good.
                Err(_) => {
                    work.abort();
                    drop(work.await);
                    return None;
                }
            };
            match &standing {
                CallStatus::Settled(_) | CallStatus::Ready { .. } => return Some(standing),
                CallStatus::Waiting { question, .. } if !is_told => {
                    is_told = true;
                    if may_ask && self.window_question(question).await.is_some() {
                        return Some(standing);
                    }
                    let what = self.gate.question_view(question.id).await;
                    let what = what.map_or_else(|_| one_line(tool), |view| notify::short_text(&view));
                    // A person without a notification still finds the question in the inbox.
                    drop(notify::try_notify(&self.options.settings, question, &what));
                }
                _ => {}
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left <= LOOKS_EVERY {
                return Some(standing);
            }
            let gate = self.gate.clone();
            work = tokio::spawn(async move {
                tokio::time::sleep(LOOKS_EVERY).await;
                gate.prepare_existing(id).await
            });
        }
    }

    /// Returns the decision for a call that the agent does itself.
    fn told(&self, heard: &HookRequest, result: &CallResult) -> HookDecision {
        if !matches!(result.outcome, CallOutcome::Completed(_)) {
            return HookDecision::Deny { reason: result.denial_reason().unwrap_or_else(|| "denied".into()) };
        }
        // The agent has the result of its tool itself, so no change of a result can apply to it.
        let notes = result.modifications.iter().filter(|change| change.part != ModifiedPart::Output);
        let notes =
            notes.filter_map(|change| Some(format!("{}: {}", change.author, change.reason.as_ref()?)));
        let notes: Vec<String> = notes.collect();
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        let input = agent_tool::original_arguments(result.arguments.clone());
        // A changed call must have been evaluated in the directory in which the agent would run it.
        let evaluated = agent_tool::resolve_paths(input.clone(), &self.directories(heard, &input));
        if !evaluated.is_ok_and(|evaluated| evaluated == result.arguments) {
            let reason =
                "the call was modified so that it would run in another directory; the call did not run";
            return HookDecision::Deny { reason: reason.into() };
        }
        if input == heard.input { passed(note) } else { HookDecision::Rewrite { input, note } }
    }

    /// Returns the answer for an agent that cannot wait any longer.
    pub(super) fn not_yet(&self, standing: Option<&CallStatus>) -> HookDecision {
        let again = "then make exactly the same call again: it finds the answer, which is valid once";
        let why = match standing {
            Some(CallStatus::Waiting { question, .. }) => {
                let id = short(&question.id);
                format!(
                    "denied for now: a person must answer question {id} first (`byleave inbox` shows it); {again}"
                )
            }
            Some(CallStatus::Blocked { blocked_by: by, .. }) => format!(
                "denied for now: call {} of this session comes first; it waits for a person (`byleave inbox` shows it), or was answered just now; {again}",
                short(by)
            ),
            Some(CallStatus::RunningElsewhere { .. }) => {
                "denied: another process has started this call; `byleave log` shows the outcome".into()
            }
            Some(CallStatus::Settled(_) | CallStatus::Ready { .. }) | None => {
                "denied: the call could not be evaluated in time; make exactly the same call again".into()
            }
        };
        HookDecision::Deny { reason: why }
    }
}

/// Returns the time of a deadline on the clock of this machine.
fn time_of(deadline: Instant) -> Millis {
    let left = deadline.saturating_duration_since(Instant::now());
    now().saturating_add(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the field by which an agent runs a command in the background, if it has one.
fn in_background(dialect: AgentKind, input: &mut Value) -> Option<&mut Value> {
    let fields = input.as_object_mut().filter(|_| dialect == AgentKind::ClaudeCode)?;
    Some(fields.entry("run_in_background").or_insert(Value::Bool(true)))
}

/// Returns the command with `cd` to these directories, each relative to the one before. They are evaluated with it, so that none
/// becomes the workspace.
fn placed(command: &str, directories: &[&str]) -> String {
    if directories.is_empty() {
        return command.to_owned();
    }
    let steps =
        directories.iter().map(|directory| format!("cd -- '{}' && ", directory.replace('\'', r"'\''")));
    format!("{}{{\n{command}\n}}", steps.collect::<String>())
}

/// Returns the session, as the audit log names it.
pub(super) fn session_name(dialect: AgentKind, heard: &HookRequest) -> String {
    let session: String = heard.session.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
    format!("{}:{session}", dialect.name()).chars().take(128).collect()
}

pub(super) fn passed(note: Option<String>) -> HookDecision {
    HookDecision::Allow { note }
}

//! Questions that an agent asks its person in its own window.
//!
//! Only where the hook's input proves that a person is asked there, and never about a grave call. The command that the agent starts after a
//! yes has a ticket. It is valid only if the agent has reported that it asks: an agent that lets the hook's question pass in silence
//! starts a command that waits for the inbox.

use std::path::Path;

use anyhow::Result;
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::core::id::CallId;
use byleave_gate::core::question::Question;
use byleave_gate::core::render::{QuestionCard, QuestionClass};
use byleave_gate::redact::redact;
use byleave_hook::{AgentKind, AgentVariables, HookDecision, HookRequest, PreparedCall, parse_exec_call};
use serde_json::Value;

use super::attended_calls::is_answered;
use super::evaluate::{HookEvaluator, passed, session_name};
use super::tickets::TicketKey;
use super::window_tickets::WindowTicket;
use crate::agent_configs;

/// The maximum size of a question in a window. A longer one is asked in the inbox, because an agent might show only a part of it.
const LINES_MAX: usize = 24;
const TEXT_BYTES_MAX: usize = 2_000;
/// The actor of a cancellation in the audit log.
const ACTOR: &str = "byleave, because the agent went on without a yes in its window";

/// A question as an agent shows it.
pub(super) struct WindowQuestion {
    /// The card.
    text: String,
    /// The card in a line.
    short: String,
}

impl HookEvaluator {
    /// Checks whether the agent asks a person in its own window if the hook wants that, and whether only the person answers there.
    pub(super) fn has_window(&self, dialect: AgentKind, heard: &HookRequest, agent: &AgentVariables) -> bool {
        self.options.settings.hook_ask()
            && heard.has_window(dialect, agent)
            && heard.use_id.is_some()
            && self.reports_every_question(dialect, agent).unwrap_or(false)
    }

    /// Checks whether the agent's settings report every question in its window to our hook, and to no other that could answer it.
    fn reports_every_question(&self, dialect: AgentKind, agent: &AgentVariables) -> Result<bool> {
        let mut places = self.options.agent_places(None)?;
        places.claude = agent.config_dir.as_ref().map(Into::into);
        let layers = agent_configs::layer_values(dialect, &places, Path::new(&self.options.cwd))?;
        let values: Vec<Value> = layers.into_iter().map(|(_, value)| value).collect();
        Ok(agent_configs::sees_every_permission_request(&values))
    }

    /// Returns a question as an agent may show it, or `None` if it may not.
    pub(super) async fn window_question(&self, question: &Question) -> Option<WindowQuestion> {
        let view = self.gate.question_view(question.id).await.ok()?;
        let card = QuestionCard::new(&view);
        if card.class == QuestionClass::Grave || !card.is_enough {
            return None;
        }
        let text = format!("byleave asks: {}", card.to_rendering().to_text().trim());
        let fits = text.len() <= TEXT_BYTES_MAX && text.lines().count() <= LINES_MAX;
        // The agent keeps what it shows.
        (fits && redact(&text) == text).then(|| WindowQuestion { text, short: card.short_text() })
    }

    /// Returns the answer that lets the agent ask, and start the call after a yes.
    pub(super) fn ask_in_window(
        &self,
        (dialect, heard): (AgentKind, &HookRequest),
        key: &TicketKey,
        (call, question): (CallId, &Question),
        shown: WindowQuestion,
    ) -> Result<HookDecision> {
        let ticket = self.window_tickets.issue(&WindowTicket {
            call,
            question: question.id,
            digest: question.digest(),
            agent: dialect.name().into(),
            session: session_name(dialect, heard),
            use_id: heard.use_id.clone().unwrap_or_default(),
            prompt: heard.prompt.clone(),
            key: key.clone(),
        })?;
        let prepared = PreparedCall { call: &call.to_string(), ticket: Some(&ticket) };
        let (mut input, _) = self.exec_input(dialect, heard, prepared);
        // The window shows it beside our command line. The model's own words are no description of what it runs.
        if let Some(fields) = input.as_object_mut() {
            fields.insert("description".into(), shown.short.into());
        }
        Ok(HookDecision::Ask { input, question: shown.text })
    }

    /// Notes that the agent asks its person about a call of ours. Nobody else's question is answered here.
    pub(super) fn shown_in_window(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        agent: &AgentVariables,
    ) -> Result<HookDecision> {
        let prepared = heard.command().and_then(|line| parse_exec_call(line, &self.program, &self.state));
        let Some(PreparedCall { call, ticket: Some(secret) }) = prepared else { return Ok(passed(None)) };
        let ticket = self.window_tickets.find(secret)?.filter(|ticket| {
            ticket.call.to_string() == call
                && ticket.agent == dialect.name()
                && ticket.session == session_name(dialect, heard)
        });
        if ticket.is_none() {
            let reason = "the ticket is not valid for this call, or was used; the call did not run";
            return Ok(HookDecision::Deny { reason: reason.into() });
        }
        // Otherwise the question stays in the inbox, where the command waits for the answer.
        if self.has_asking_mode(dialect, heard, agent) {
            self.window_tickets.mark_shown(secret)?;
        }
        Ok(passed(None))
    }

    fn has_asking_mode(&self, dialect: AgentKind, heard: &HookRequest, agent: &AgentVariables) -> bool {
        heard.has_window(dialect, agent) && self.reports_every_question(dialect, agent).unwrap_or(false)
    }

    /// Checks whether a ticket was issued for this very use of a tool.
    pub(super) fn is_of_this_use(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        secret: &str,
    ) -> Result<bool> {
        Ok(self.window_tickets.find(secret)?.is_some_and(|ticket| {
            Some(&ticket.use_id) == heard.use_id.as_ref()
                && ticket.agent == dialect.name()
                && ticket.session == session_name(dialect, heard)
        }))
    }

    /// Ends the questions in the window that the agent asked before its person typed again. They got no yes.
    pub(super) async fn end_earlier_window_questions(&self, dialect: AgentKind, heard: &HookRequest) {
        if heard.prompt.is_some() {
            let is_earlier = |ticket: &WindowTicket| ticket.prompt != heard.prompt;
            self.end_window_questions(dialect, heard, is_earlier).await;
        }
    }

    /// Ends questions in the window of a session. It is no reason to deny a call if that fails.
    pub(super) async fn end_window_questions(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        is_over: impl Fn(&WindowTicket) -> bool,
    ) {
        if let Err(error) = self.try_end_window_questions(dialect, heard, is_over).await {
            tracing::warn!("cannot end the questions in an agent's window: {error:#}");
        }
    }

    async fn try_end_window_questions(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        is_over: impl Fn(&WindowTicket) -> bool,
    ) -> Result<()> {
        for ticket in self.window_tickets.take_unused(&session_name(dialect, heard), is_over)? {
            let Some(kept) = self.book.record(ticket.call).await? else { continue };
            let record = &kept.record;
            if record.outcome().is_none() && record.attempts() == 0 && !is_answered(record) {
                self.gate.cancel(ticket.call, ACTOR).await?;
            }
        }
        Ok(())
    }
}

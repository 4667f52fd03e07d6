//! Answers what agents report: the use of a tool that has ended, and the end of a turn.

use std::path::Path;

use anyhow::Result;
use byleave_copy::CopyState;
use byleave_gate::agent_report;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallItem, CallState, PageRequest};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::Mode;
use byleave_gate::core::file_change::FileChanges;
use byleave_gate::core::id::{CallId, SessionId};
use byleave_gate::result::{CallOutcome, CallResult, CallStatus};
use byleave_hook::{
    AgentKind, HookDecision, HookRequest, ToolKind, is_gateway_tool, parse_exec_call, shell_word,
    tool_effects,
};

use super::evaluate::{HookEvaluator, passed, session_name};
use super::passed_edits::PassedEdits;
use super::post_tool_report;
use super::session_notes::{PassedEdit, TurnEnd};
use super::tickets::HookTicket;
use super::turn_summary::TurnSummary;
use crate::time::now;
use crate::tool_catalog::workplace;

/// The maximum number of calls of a turn that are searched.
const CALLS_MAX: usize = 10_000;

impl HookEvaluator {
    pub(super) async fn after(&self, dialect: AgentKind, heard: &HookRequest) -> Result<HookDecision> {
        let line = heard.command().and_then(|line| parse_exec_call(line, &self.program, &self.state));
        let ticket = match line.and_then(|prepared| prepared.call.parse::<CallId>().ok()) {
            Some(call) => self.tickets.find(call)?,
            None => self.last_delivered(dialect, heard)?,
        };
        if is_gateway_tool(dialect, &heard.tool, heard.server.as_deref()) {
            return Ok(passed(None));
        }
        let different = self.compare(dialect, heard, ticket.as_ref())?;
        let mut call =
            self.named(dialect, heard, Mode::default(), CallId::new(fresh_id()), post_tool_report::NAME)?;
        call.arguments = post_tool_report::reported_run(heard, ticket.as_ref(), different.as_deref());
        call.reason = None;
        // A separate session: the report waits for no question and must not settle other calls. Its name says which call it is
        // about.
        let of = ticket.map(|ticket| ticket.call);
        call.session = SessionId::new(agent_report::session_name(dialect.name(), of))?;
        // The report raises no question.
        call.mode = Mode::ConfirmSensitive;
        Ok(match self.gate.advance(call).await {
            CallStatus::Settled(CallResult { outcome: CallOutcome::Completed(_), .. }) => match different {
                Some(text) => HookDecision::Notice { text: format!("byleave: {text}") },
                None => passed(None),
            },
            CallStatus::Settled(result) => HookDecision::Deny {
                reason: result.error().unwrap_or_else(|| "the agent's report was not recorded".into()),
            },
            other => self.not_yet(Some(&other)),
        })
    }

    /// Returns the text about an edit that is not as it was judged.
    fn compare(
        &self,
        dialect: AgentKind,
        heard: &HookRequest,
        ticket: Option<&HookTicket>,
    ) -> Result<Option<String>> {
        let changes_files = tool_effects(&heard.tool, &heard.input).kind == ToolKind::ChangesFiles;
        if !changes_files || !dialect.reports_file_changes() {
            return Ok(None);
        }
        let edits = self.passed_edits(dialect, heard)?;
        let failed = heard.is_failure_report();
        let open = edits.note.edits()?;
        if let Some(edit) = ticket.and_then(|ticket| open.iter().find(|edit| edit.call == ticket.call)) {
            let other = heard.reported_path().filter(|named| !self.names(heard, named, edit));
            let wrong = other.map(|named| format!("it reported the path `{}`", named.escape_debug()));
            let must_be_made = !failed && dialect.reports_failures_apart();
            return edits.settle_reported(edit, wrong, must_be_made);
        }
        if ticket.is_some() || failed {
            return Ok(None);
        }
        // The agent used another input than was judged. Its own id says for which call, if it has one.
        let same_use = |edit: &&PassedEdit| match (&edit.use_id, &heard.use_id) {
            (Some(judged), Some(reported)) => judged == reported,
            _ => true,
        };
        let Some(edit) = open.iter().rev().find(same_use) else { return Ok(None) };
        let wrong = "it used another input".to_owned();
        edits.settle_reported(edit, Some(wrong), false)
    }

    /// Checks whether a path that the agent names is a file of the edit.
    fn names(&self, heard: &HookRequest, named: &str, edit: &PassedEdit) -> bool {
        let directory = Path::new(&self.options.cwd).join(heard.cwd.as_deref().unwrap_or_default());
        let named = directory.join(named);
        let real = named.parent().and_then(|above| above.canonicalize().ok()).zip(named.file_name());
        let real = real.map_or_else(|| named.clone(), |(above, name)| above.join(name));
        edit.paths.iter().any(|path| Path::new(path) == real)
    }

    /// Notes the edit of a call that passes, before the agent may make it.
    pub(super) fn note_edit(&self, dialect: AgentKind, heard: &HookRequest, call: CallId) -> Result<()> {
        let changes_files = tool_effects(&heard.tool, &heard.input).kind == ToolKind::ChangesFiles;
        if !changes_files || !dialect.reports_file_changes() {
            return Ok(());
        }
        self.passed_edits(dialect, heard)?.add(call, heard.use_id.as_deref())
    }

    pub(super) fn passed_edits(&self, dialect: AgentKind, heard: &HookRequest) -> Result<PassedEdits> {
        Ok(PassedEdits {
            store: workplace(&self.options, &self.options.cwd).open_store()?,
            note: self.notes.of(dialect, &heard.session),
            session: session_name(dialect, heard),
        })
    }

    /// Returns what passed without a question since the last turn, if anything did.
    pub(super) async fn end_of_turn(&self, dialect: AgentKind, heard: &HookRequest) -> Result<HookDecision> {
        self.end_window_questions(dialect, heard, |_| true).await;
        let session = SessionId::new(session_name(dialect, heard))?;
        let edits = self.passed_edits(dialect, heard)?;
        let last = edits.note.last_turn_end()?;
        let at = now();
        let filter = CallFilter {
            session: Some(session.clone()),
            since: Some(last.open_since),
            ..CallFilter::default()
        };
        let page = || PageRequest::with_limit(CALLS_MAX);
        let mut calls = self.book.calls(filter.clone(), page()).await?;
        let asked = self.book.calls(CallFilter { asked_only: true, ..filter }, page()).await?;
        calls.reverse();
        let open = calls.iter().filter(|item| item.state == CallState::Open).map(|item| item.opened_at).min();
        calls.retain(|item| item.changed_at >= last.at);
        let committed = |call: &CallId| {
            matches!(edits.store.state(call.uuid()), Ok(CopyState::Committed))
                .then(|| edits.store.stored_changes(call.uuid()).ok())
                .flatten()
        };
        let of = |items: &[CallItem]| -> Vec<(CallId, FileChanges)> {
            items.iter().filter_map(|item| Some((item.call, committed(&item.call)?))).collect()
        };
        let mut lines: Vec<String> =
            edits.settle_all(&of(&calls))?.into_iter().map(|text| format!("byleave: {text}")).collect();
        let mut summary = TurnSummary::default();
        for (call, changes) in of(&calls) {
            if !asked.iter().any(|item| item.call == call) {
                summary.add(&changes);
                let before = |path: &str| edits.store.restored_text(call.uuid(), path).ok().flatten();
                summary.add_settings(&changes, before);
            }
        }
        let undo = shell_word(session.as_str());
        lines.extend(summary.line(Path::new(&self.options.cwd), &undo));
        edits.note.set_turn_end(TurnEnd { at, open_since: open.unwrap_or(at).min(at) })?;
        Ok(match lines.is_empty() {
            true => passed(None),
            false => HookDecision::Notice { text: lines.join("\n") },
        })
    }

    /// Returns the call whose answer was last handed out for this request, in the mode of then.
    fn last_delivered(&self, dialect: AgentKind, heard: &HookRequest) -> Result<Option<HookTicket>> {
        for mode in [self.options.settings.mode(), Mode::ConfirmAll] {
            if let Some(ticket) = self.tickets.last_delivered(&self.key(dialect, heard, mode))? {
                return Ok(Some(ticket));
            }
        }
        Ok(None)
    }
}

//! The account of a call: what happened, for a person who reads the audit log.
//!
//! First the command or the edit, as on the card of a question. Then one line for each step that matters: why a person was asked, who
//! answered what, how the run ended. Then what it changed. All of it is made from the record and its contents. A content that was forgotten
//! is missing, and the account says so.

mod steps;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::Millis;
use crate::digest::ContentRef;
use crate::effect::{Effect, Plan};
use crate::entry::{CallHeader, RecordEvent};
use crate::escape::EscapeLevel;
use crate::file_change::FileChanges;
use crate::id::StandingApprovalId;
use crate::outcome::{Outcome, Output};
use crate::question::Answer;
use crate::record::Record;
use crate::rehearsal::{Rehearsal, RehearsalOutcome};
use crate::time_format::{LocalTime, format_utc_offset};

use super::card::changes::{self, CardChanges};
use super::card::headline::{CardHeadline, HeadlineSource, headline};
use super::card::last_lines;
use super::line::{LineRole, Rendering};
use super::value::GUTTER;
use super::writer::{RenderingBuilder, WARNING_GUTTER};

/// The maximum length of a call in one line.
const SHORT_CHARS_MAX: usize = 160;

/// Everything that an account is made from.
pub struct AccountSource<'a> {
    /// The record.
    pub record: &'a Record,
    /// Returns a content of the record, if it can still be read.
    pub content: &'a dyn Fn(ContentRef) -> Option<&'a [u8]>,
    /// The changes to files that were kept with the call, and whether they were made.
    pub changes: Option<(&'a FileChanges, ChangesState)>,
    /// The report of the agent that executed the call itself.
    pub report: Option<AgentReport>,
    /// The scopes of standing approvals, and who gave them.
    pub approvals: &'a [(StandingApprovalId, String)],
}

/// Whether changes were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesState {
    /// They were made on a copy only.
    OnCopy,
    /// They were made.
    Made,
    /// They were made, and undone later.
    Undone,
}

/// The report of an agent that executed a call itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentReport {
    /// The time of the report.
    pub at: Millis,
    /// How the agent's edit differs from what was judged.
    pub different: Option<String>,
}

/// What happened in a call, for a person. All texts are escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAccount {
    /// The command, the edit or the call.
    pub headline: CardHeadline,
    /// The time at which it was received.
    pub received_at: Millis,
    /// Who made the call, and where.
    pub caller: String,
    /// The reason in the words of the model.
    pub reason: Option<String>,
    /// The steps that matter, in order.
    pub steps: Vec<AccountStep>,
    /// What it changed.
    pub changes: CardChanges,
    /// Whether the changes were made, if there are any.
    pub changes_state: Option<ChangesState>,
    /// What it reached or sent to, in a line each.
    pub network: Vec<String>,
    /// The last lines of its result.
    pub output: Vec<String>,
    /// Some contents can no longer be read.
    pub is_forgotten: bool,
}

/// One step of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStep {
    /// The time.
    pub at: Millis,
    /// The step in a word.
    pub word: &'static str,
    /// What happened. Escaped.
    pub text: String,
    /// A person must notice it.
    pub is_warning: bool,
}

impl CallAccount {
    /// Makes the account of a call.
    pub fn new(source: &AccountSource<'_>) -> Self {
        let mut page = RenderingBuilder::default();
        let record = source.record;
        let header = record.header();
        let cwd = header.map_or("", |header| header.cwd.as_str());
        let run = run_on_copy(source);
        let (found, changes_state) = known_changes(source, run.as_ref());
        let changes = found
            .as_ref()
            .map_or_else(CardChanges::default, |found| changes::changes(&mut page, found, cwd, &|_| false));
        let draft = record.draft().map(|draft| draft.content);
        let arguments = draft.and_then(|content| source.read::<Value>(content));
        let mut headline = source.headline(&mut page, arguments.as_ref(), found.as_ref());
        if let (true, Some(line), [file]) =
            (headline.names_change, headline.lines.first_mut(), changes.files.as_slice())
        {
            line.push_str(&file.counts());
        }
        Self {
            received_at: record.entries().first().map_or(0, |entry| entry.at),
            caller: header.map(|header| caller(&mut page, header)).unwrap_or_default(),
            reason: header
                .and_then(|header| source.read::<Value>(header.reason?))
                .and_then(|reason| Some(page.quote(reason.as_str()?))),
            steps: steps::steps(&mut page, source, run.as_ref()),
            network: network(&mut page, source, run.as_ref()),
            output: released_output(source).map(|text| last_lines(&mut page, &text)).unwrap_or_default(),
            is_forgotten: draft.is_some() && arguments.is_none(),
            headline,
            changes,
            changes_state,
        }
    }

    /// Returns the account as lines for a screen. `utc_offset` says how many seconds the person's clock is ahead of UTC at a time.
    pub fn to_rendering(&self, utc_offset: &dyn Fn(Millis) -> i32) -> Rendering {
        let mut page = RenderingBuilder::default();
        self.headline.write(&mut page);
        let local = |at: Millis| LocalTime::new(at, utc_offset(at));
        let received = local(self.received_at);
        let zone = format_utc_offset(utc_offset(self.received_at));
        page.push_line(LineRole::Detail, "  ", &format!("{received} ({zone}), {}", self.caller));
        if let Some(reason) = &self.reason {
            page.push_line(LineRole::Model, "  ", &format!("the model's reason: {reason}"));
        }
        if self.is_forgotten {
            page.push_line(LineRole::Warning, WARNING_GUTTER, "the contents of this call were forgotten");
        }
        for step in &self.steps {
            let time = local(step.at);
            let time = if time.date == received.date { time.clock } else { time.to_string() };
            let (role, gutter) = match step.is_warning {
                true => (LineRole::Warning, WARNING_GUTTER),
                false => (LineRole::Outcome, "  "),
            };
            let line = format!("{time}  {:<9}  {}", step.word, step.text);
            page.push_line(role, gutter, line.trim_end());
        }
        if let Some(state) = self.changes_state {
            let what = match state {
                ChangesState::OnCopy => "on the copy only:",
                ChangesState::Made => "changed:",
                ChangesState::Undone => "changed, and undone later:",
            };
            page.push_line(LineRole::Outcome, "  ", what);
        }
        self.changes.write(&mut page, false);
        for line in &self.network {
            page.push_line(LineRole::Outcome, "  ", line);
        }
        if !self.output.is_empty() {
            page.push_line(LineRole::Outcome, "  ", "result:");
        }
        for line in &self.output {
            page.push_line(LineRole::Content, GUTTER, line);
        }
        page.finish()
    }

    /// Returns the call in one line, for lists: the headline, and what it changed.
    pub fn short_text(&self) -> String {
        let mut text = self.headline.one_line_with_arguments();
        if text.chars().nth(SHORT_CHARS_MAX).is_some() {
            text = text.chars().take(SHORT_CHARS_MAX).collect();
            text.push('…');
        }
        let changed = self.changes.one_line();
        if !changed.is_empty() && !self.headline.names_change {
            text.push_str(&format!("  ({changed})"));
        }
        text
    }
}

impl<'a> AccountSource<'a> {
    /// Reads a content of the record.
    fn read<T: DeserializeOwned>(&self, content: ContentRef) -> Option<T> {
        serde_json::from_slice((self.content)(content)?).ok()
    }

    /// Makes the headline of the call with these arguments.
    fn headline(
        &self,
        page: &mut RenderingBuilder,
        arguments: Option<&Value>,
        changes: Option<&FileChanges>,
    ) -> CardHeadline {
        let header = self.record.header();
        let resolved = self.record.resolved_tool().and_then(|step| step.as_ref().ok());
        let tool = resolved.map(|resolved| resolved.tool.as_str());
        let plan = self.plan().unwrap_or_default();
        headline(
            page,
            &HeadlineSource {
                tool: tool.or(header.map(|header| header.tool.as_str())).unwrap_or_default(),
                arguments: arguments.unwrap_or(&Value::Null),
                cwd: header.map_or("", |header| header.cwd.as_str()),
                effects: &plan.effects,
                changes,
                is_release: false,
            },
        )
    }

    /// Returns the newest plan.
    fn plan(&self) -> Option<Plan> {
        let planned = self.record.entries().iter().rev().find_map(|entry| match &entry.event {
            RecordEvent::Planned(Ok(plan)) => Some(plan.plan),
            _ => None,
        });
        self.read(planned?)
    }

    /// Returns the standing approval in words.
    fn approval(&self, id: StandingApprovalId) -> Option<&'a str> {
        self.approvals.iter().find(|(known, _)| *known == id).map(|(_, text)| text.as_str())
    }
}

/// Returns the newest run on a copy.
fn run_on_copy(source: &AccountSource<'_>) -> Option<Rehearsal> {
    let content = source.record.entries().iter().rev().find_map(|entry| match &entry.event {
        RecordEvent::Observed { run, .. } => Some(run.rehearsal),
        RecordEvent::RehearsalFinished(RehearsalOutcome::Ran(run)) => Some(run.rehearsal),
        _ => None,
    });
    source.read(content?)
}

/// Returns the changes of the call, and whether they were made.
fn known_changes(
    source: &AccountSource<'_>,
    run: Option<&Rehearsal>,
) -> (Option<FileChanges>, Option<ChangesState>) {
    if let Some((changes, state)) = source.changes {
        return (Some(changes.clone()), (!changes.is_empty()).then_some(state));
    }
    let Some(run) = run else { return (None, None) };
    let ended = matches!(source.record.outcome(), Some(Outcome::Completed { .. } | Outcome::Failed { .. }))
        || matches!(source.record.outcome(), Some(Outcome::Withheld(_)));
    // A run that wanted the network was not committed, but run once more.
    let state = if ended && run.is_committable() { ChangesState::Made } else { ChangesState::OnCopy };
    let part = source.record.entries().iter().rev().find_map(|entry| match &entry.event {
        RecordEvent::Answered(answered) => match &answered.answer {
            Answer::Partial { paths, .. } => source.read::<Vec<String>>(*paths),
            _ => None,
        },
        _ => None,
    });
    let changes = match part {
        Some(paths) if state == ChangesState::Made => run.changes.only_paths(&paths),
        _ => run.changes.clone(),
    };
    let state = (!changes.is_empty()).then_some(state);
    (Some(changes), state)
}

fn caller(page: &mut RenderingBuilder, header: &CallHeader) -> String {
    let agent = page.escape(&header.caller(), EscapeLevel::Name);
    let session = page.escape(header.session.as_str(), EscapeLevel::Name);
    let cwd = page.escape(&header.cwd, EscapeLevel::Name);
    let dry = if header.dry_run { ", as a dry run" } else { "" };
    format!("by {agent} in session {session}, in {cwd}{dry}")
}

/// Returns what the call reached, or would have been let to reach.
fn network(page: &mut RenderingBuilder, source: &AccountSource<'_>, run: Option<&Rehearsal>) -> Vec<String> {
    let has_run =
        source.record.entries().iter().any(|entry| matches!(entry.event, RecordEvent::Ended { .. }));
    let mut lines = Vec::new();
    let reached = run.map(|run| run.reached_hosts.as_slice()).unwrap_or_default();
    if !reached.is_empty() {
        let hosts: Vec<String> = reached.iter().map(|host| page.escape(host, EscapeLevel::Name)).collect();
        lines.push(format!("Reached: {}.", hosts.join(", ")));
        return lines;
    }
    let plan = source.plan().unwrap_or_default();
    let mut named = |sends: bool| {
        let mut hosts: Vec<String> = Vec::new();
        for effect in plan.effects.iter().filter(|effect| matches!(effect, Effect::Send { .. }) == sends) {
            let Some((host, port)) = effect.host() else { continue };
            let host = page.escape(host, EscapeLevel::Name);
            let port = if port == 0 || port == 443 { String::new() } else { format!(":{port}") };
            let host = format!("{host}{port}");
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts.join(", ")
    };
    let (sends, reads) = (named(true), named(false));
    if has_run && !sends.is_empty() {
        lines.push(format!("It could send to: {sends}."));
    }
    if has_run && !reads.is_empty() {
        lines.push(format!("It could reach: {reads}."));
    }
    lines
}

/// Returns the text of the result, if it was released.
fn released_output(source: &AccountSource<'_>) -> Option<String> {
    let (Outcome::Completed { output } | Outcome::Failed { output } | Outcome::Answered { output }) =
        source.record.outcome()?
    else {
        return None;
    };
    Some(source.read::<Output>(*output)?.text)
}

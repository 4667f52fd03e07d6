//! `byleave log`: lists, shows, follows and counts the calls in the audit log.

mod account;
mod follow;
mod stats;

use anyhow::Result;
use byleave_gate::agent_report;
use byleave_gate::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallItem, CallState, PageRequest};
use byleave_gate::core::id::CallId;
use byleave_gate::core::refusal::Code;
use byleave_gate::ledger::CallSummary;
use clap::builder::PossibleValuesParser;
use clap::{Args as Group, Subcommand, ValueEnum};

use self::follow::FollowArgs;
use self::stats::StatsArgs;
use crate::app_context::AppContext;
use crate::args::ListArgs;
use crate::call_display::fitted_table;
use crate::console::{Console, Tone, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json_output;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::{self, short};
use crate::time::{format_local, now, parse_time};

#[derive(Debug, Group)]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: Option<LogCommand>,
    #[command(flatten)]
    filter: LogFilterArgs,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Show what happened in a call: who asked, who answered what, and what it changed
    Show {
        /// Call id
        call: String,
        /// Show the record entry by entry
        #[arg(long)]
        full: bool,
        /// Include the contents: arguments, plan and output (implies `--full`)
        #[arg(long)]
        contents: bool,
    },
    /// Follow the calls of all processes live, until Ctrl-C
    ///
    /// A terminal shows a live view. Otherwise each event is one line. The output of running commands is shown before any reviewer
    /// has seen it, so it is for your eyes only.
    Follow(FollowArgs),
    /// Show statistics of calls, questions, answers and rules
    Stats(StatsArgs),
}

/// The number of calls of a list that are read from their records. Those after them show the summary of their effects.
const ACCOUNTS_MAX: usize = 200;

/// The seven outcomes, as the audit log names them.
const OUTCOMES: [&str; 7] = ["completed", "failed", "withheld", "refused", "dry-run", "unknown", "answered"];

#[derive(Debug, Default, Group)]
pub(crate) struct LogFilterArgs {
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this agent, as named in lists; a sub-agent also by its own name
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only calls in this state (`--state` is the state directory)
    #[arg(long = "is", value_enum, value_name = "STATE")]
    pub(crate) call_state: Option<CallStateArg>,
    /// Only calls with this outcome
    #[arg(long, value_parser = PossibleValuesParser::new(OUTCOMES))]
    pub(crate) outcome: Option<String>,
    /// Only calls refused with this code (see docs/refusals)
    #[arg(long, hide_possible_values = true, value_parser = PossibleValuesParser::new(codes()))]
    pub(crate) code: Option<String>,
    /// Only calls received since: a duration, as in `2h`, or a date, as in `2026-03-01` or `2026-03-01T14:30`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only calls received before: same format as `--since`
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only calls with this text in the summary of their effects (case-insensitive)
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Only calls that a person was asked about
    #[arg(long)]
    pub(crate) asked: bool,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallStateArg {
    /// Can continue
    Open,
    /// Waiting for a person
    Waiting,
    /// Finished, with an outcome
    Settled,
    /// Record is damaged
    Damaged,
}

impl From<CallStateArg> for CallState {
    fn from(state: CallStateArg) -> Self {
        match state {
            CallStateArg::Open => Self::Open,
            CallStateArg::Waiting => Self::Waiting,
            CallStateArg::Settled => Self::Settled,
            CallStateArg::Damaged => Self::Damaged,
        }
    }
}

fn codes() -> Vec<&'static str> {
    Code::ALL.iter().map(|code| code.as_str()).collect()
}

pub(crate) async fn run(
    typed: LogArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match typed.command {
        None => list(typed.filter, options, screen).await,
        Some(LogCommand::Show { call, full, contents }) => {
            let house = AppContext::open_to_read(options, None)?;
            let call = short_ids::call(&house, &call).await?;
            match full || contents || screen.json() {
                true => show(&house, call, include_contents(contents), screen).await,
                false => account::show(&house, call, options, screen).await,
            }
        }
        Some(LogCommand::Follow(typed)) => follow::run(typed, options, screen).await,
        Some(LogCommand::Stats(typed)) => stats::run(typed, options, screen).await,
    }
}

/// Returns whether the contents of calls are included.
pub(super) const fn include_contents(contents: bool) -> IncludeContents {
    if contents { IncludeContents::Included } else { IncludeContents::Omitted }
}

async fn list(which: LogFilterArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let now = now();
    let filter = CallFilter {
        tenant: None,
        session: which.list.session,
        tool: which.tool,
        agent: which.agent,
        state: which.call_state.map(CallState::from),
        outcome: which.outcome,
        code: which.code,
        text: which.text,
        asked_only: which.asked,
        since: which.since.as_deref().map(|typed| parse_time(typed, now)).transpose()?,
        until: which.until.as_deref().map(|typed| parse_time(typed, now)).transpose()?,
    };
    let house = AppContext::open_to_read(options, None)?;
    if screen.json() {
        let calls = house.audit_log.calls(filter, PageRequest::with_limit(which.list.limit)).await?;
        screen.value(&calls.iter().map(json_output::call_item).collect());
        return Ok(ExitStatus::Completed);
    }
    let calls = calls_without_reports(&house, filter, which.list.limit).await?;
    if calls.is_empty() {
        screen.message("the audit log has no such call");
        return Ok(ExitStatus::Completed);
    }
    let mut rows = Vec::new();
    for (item, place) in calls.iter().zip(0..) {
        let told = match place < ACCOUNTS_MAX {
            true => account::short_text(&house, item.call, options).await?,
            false => None,
        };
        rows.push(row(item, told));
    }
    fitted_table(screen, &["CALL", "RECEIVED", "AGENT", "SESSION", "TOOL", "OUTCOME", "WHAT"], rows);
    Ok(ExitStatus::Completed)
}

/// Lists the newest calls. The report of an agent about its call is a part of that call, unless the list is about reports.
async fn calls_without_reports(
    house: &AppContext,
    filter: CallFilter,
    limit: usize,
) -> Result<Vec<CallItem>> {
    let with_reports = filter.tool.as_deref() == Some(agent_report::TOOL);
    let (mut found, mut page) = (Vec::new(), PageRequest::with_limit(limit));
    while found.len() < limit {
        let items = house.audit_log.calls(filter.clone(), page).await?;
        page.after = items.last().map(|item| item.cursor);
        let is_last = items.len() < limit;
        for item in items {
            if with_reports || !is_part_of_a_call(house, &item).await? {
                found.push(item);
            }
        }
        if is_last {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Checks whether it is the report of an agent about a call of its own that is in the audit log, too. Nothing else is left out of a list.
async fn is_part_of_a_call(house: &AppContext, item: &CallItem) -> Result<bool> {
    let CallSummary { tool, session, .. } = &item.call_summary;
    let Some(call) = agent_report::reported_call(tool, session.as_str(), item.outcome.as_deref()) else {
        return Ok(false);
    };
    let of = house.audit_log.record(call).await?;
    let agent = of.as_ref().and_then(|of| of.record.header()).map(|header| header.agent.as_str());
    Ok(agent.is_some_and(|agent| agent_report::session_name(agent, Some(call)) == session.as_str()))
}

fn row(item: &CallItem, told: Option<(String, Option<String>)>) -> Vec<String> {
    let outcome = item.outcome.as_deref().unwrap_or(item.state.as_str());
    let code = item.code.as_deref().map(|code| format!(" ({code})")).unwrap_or_default();
    let (what, answer) = told.unwrap_or_else(|| (one_line(&item.call_summary.summary), None));
    let answer = answer.map(|answer| format!(", {answer}")).unwrap_or_default();
    vec![
        short(&item.call),
        format_local(item.opened_at),
        one_line(&item.call_summary.agent),
        one_line(item.call_summary.session.as_str()),
        one_line(&item.call_summary.tool),
        one_line(&format!("{outcome}{code}{answer}")),
        // Accounts are escaped already.
        what,
    ]
}

/// Returns the record of a call, if it exists.
pub(super) async fn record(
    house: &AppContext,
    call: CallId,
    contents: IncludeContents,
) -> Result<ExportedRecord> {
    let missing = || CliError::new(format!("there is no call {call} in the audit log"));
    let found = export::export_one(&*house.audit_log, call, contents).await?;
    Ok(found.ok_or_else(|| missing().hint("`byleave log` lists the calls"))?)
}

async fn show(
    house: &AppContext,
    call: CallId,
    contents: IncludeContents,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let found = record(house, call, contents).await?;
    if screen.json() {
        screen.value(&found.to_json());
        return Ok(ExitStatus::Completed);
    }
    screen.title(&format!("call {}", found.call));
    if let Some(listing) = &found.stored.call_summary {
        let who = format!("{} by {} in session {}", listing.tool, listing.agent, listing.session);
        screen.line(&one_line(&who));
        if !listing.summary.is_empty() {
            screen.line(&one_line(&listing.summary));
        }
        // The operation is more than a word: the call describes itself.
        if listing.operation.contains(' ') {
            screen.line(&one_line(&listing.operation));
        }
    }
    if found.stored.forgotten {
        screen.line("the contents of this call were forgotten");
    }
    screen.line("");
    for (seq, entry) in found.stored.record.entries().iter().enumerate() {
        let remark = one_line(&export::describe_entry(entry));
        let line = format!("{seq:>3}  {}  {:<22}  {remark}", format_local(entry.at), entry.event.kind());
        screen.line(line.trim_end());
    }
    for content in &found.contents {
        screen.line("");
        screen.title(&format!(
            "content {} ({} bytes)",
            content.content_ref.digest.short_hex(),
            content.content_ref.size
        ));
        screen.text(&String::from_utf8_lossy(&content.bytes));
    }
    if let Some(damage) = found.stored.record.damage() {
        screen.message_with_tone(Tone::Bad, "damaged:", &one_line(&damage.to_string()));
        return Ok(ExitStatus::Failed);
    }
    Ok(ExitStatus::Completed)
}

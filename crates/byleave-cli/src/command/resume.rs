//! `byleave resume`: continues all calls that can continue: answered, expired, interrupted, blocked or never finished.

use std::collections::HashSet;

use anyhow::Result;
use byleave_gate::core::id::CallId;
use byleave_gate::ledger::Ledger as _;
use byleave_gate::result::CallStatus;
use clap::Args as Group;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, one_line};
use crate::drive_call::drive;
use crate::exit_status::ExitStatus;
use crate::hook::AttendedCalls;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::terminal_mark::TerminalMark;
use crate::time::now;
use crate::{json_output, proxied, resume_call, terminal_approver};

#[derive(Debug, Group)]
pub(crate) struct ResumeArgs {
    /// Where new questions go [default: setting `ask`, or terminal if there is one, else inbox]
    #[arg(long, value_enum)]
    pub(crate) ask: Option<AskArg>,
}

const AT_ONCE: usize = 1_000;

pub(crate) async fn run(
    typed: &ResumeArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let house = AppContext::open_to_write(options)?;
    // If nobody is here, a new question stays open, so that an accepted call is not lost.
    let ask = options.resolve_ask(typed.ask, AskArg::Inbox);
    let gate = terminal_approver::gate(&house, options, &options.cwd, ask, options.settings.gate())?;
    proxied::register_tools(&gate)?;
    let mut worst = ExitStatus::Completed;
    let attended = AttendedCalls::new(options);
    for call in attended.end_abandoned(&gate, &house.audit_log, None).await? {
        screen.message(&format!("call {} has ended, because its agent is gone", short(&call)));
    }
    let mut seen: HashSet<CallId> = HashSet::new();
    let mut values = Vec::new();
    'looking: loop {
        // A finished call may unblock others, so the search repeats until it finds nothing new.
        let drivable = house.audit_log.resumable_calls(now(), AT_ONCE).await?;
        let fresh: Vec<CallId> = drivable.into_iter().filter(|call| seen.insert(*call)).collect();
        if fresh.is_empty() {
            break;
        }
        for call in fresh {
            gate.set_policy(house.policy(options, &house.workspace_of(call).await?)?);
            // Nobody would take the answer to a new question.
            if attended.end_unasked(&gate, &house.audit_log, call).await? {
                screen.message(&format!("call {} has ended, because its agent is gone", short(&call)));
                continue;
            }
            let _mark = TerminalMark::set(options, ask, call);
            let driven =
                drive(&gate, call, resume_call::resume(&gate, &house, call, options), options, screen).await;
            worst = worst.max(driven.status());
            if screen.json() {
                values.push(json_output::status(&driven.call_status));
            } else {
                screen.line(&line(&driven.call_status));
            }
            if driven.interrupted {
                break 'looking;
            }
        }
    }
    if screen.json() {
        screen.value(&values.into());
    } else if seen.is_empty() {
        screen.message("there is nothing to continue");
    }
    Ok(worst)
}

fn line(standing: &CallStatus) -> String {
    let call = short(&standing.call());
    match standing {
        CallStatus::Settled(result) => {
            let why = result.error().map(|error| format!("  {error}")).unwrap_or_default();
            one_line(&format!("{call}  {}  {}{why}", result.tool, result.outcome.as_str()))
        }
        CallStatus::Waiting { question, .. } => format!("{call}  waiting  question {}", short(&question.id)),
        CallStatus::Blocked { blocked_by: by, .. } => format!("{call}  blocked  by call {}", short(by)),
        CallStatus::RunningElsewhere { .. } => format!("{call}  running  in another process"),
        CallStatus::Ready { .. } => format!("{call}  ready  for its agent"),
    }
}

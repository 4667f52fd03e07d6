//! `byleave halt`: refuses all calls in every process until it is lifted.

use anyhow::Result;
use byleave_gate::settings::GateSettings;
use clap::Args as Group;
use serde_json::json;

use crate::app_context::AppContext;
use crate::args::AskArg;
use crate::console::{Console, one_line};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Group)]
pub(crate) struct HaltArgs {
    /// Reason, recorded in the audit log [default: requested by NAME]
    #[arg(long, value_name = "TEXT", conflicts_with = "lift")]
    pub(crate) reason: Option<String>,
    /// Lift the halt, so that calls can start again
    #[arg(long)]
    pub(crate) lift: bool,
}

pub(crate) async fn run(
    typed: HaltArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // A halt before the first call is valid as well.
    let house = AppContext::open_or_create(options)?;
    let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
    let by = &options.person.name;
    if typed.lift {
        gate.lift(&options.tenant, by).await?;
        tell(screen, false, "calls may start again");
        return Ok(ExitStatus::Completed);
    }
    let why = typed.reason.unwrap_or_else(|| format!("requested by {by}"));
    gate.halt(&options.tenant, by, &why).await?;
    tell(screen, true, &format!("halted: {why}"));
    if !screen.json() {
        screen.hint("calls that already run continue to their end; `byleave halt --lift` lifts the halt");
    }
    Ok(ExitStatus::Completed)
}

fn tell(screen: &mut Console, halted: bool, line: &str) {
    if screen.json() {
        screen.value(&json!({ "halted": halted }));
    } else {
        screen.line(&one_line(line));
    }
}

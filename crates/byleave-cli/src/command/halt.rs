//! `byleave halt`: refuses all calls in every process until it is lifted.

use anyhow::Result;
use byleave::settings::GateSettings;
use serde_json::json;

use crate::app_context::AppContext;
use crate::args::{self, AskArg};
use crate::console::{Console, one_line};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

pub(crate) async fn run(
    typed: args::HaltArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // A halt before the first call is valid as well.
    let house = AppContext::open_or_create(options)?;
    let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
    let by = &options.person.name;
    if typed.lift {
        gate.lift(&options.tenant, by).await?;
        tell(screen, false, "calls may begin again");
        return Ok(ExitStatus::Completed);
    }
    let why = typed.why.unwrap_or_else(|| format!("{by} said so"));
    gate.halt(&options.tenant, by, &why).await?;
    tell(screen, true, &format!("halted: {why}"));
    if !screen.json() {
        screen.hint("what runs already goes on to its end; `byleave halt --lift` lifts it");
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

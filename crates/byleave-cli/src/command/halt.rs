//! `byleave halt`: refuses everything, in every process, until it is lifted.

use anyhow::Result;
use byleave::settings::Settings;
use serde_json::json;

use crate::args::{self, Ask};
use crate::house::House;
use crate::options::Options;
use crate::screen::{Screen, one_line};
use crate::status::Status;

pub(crate) async fn run(typed: args::Halt, options: &Options, screen: &mut Screen) -> Result<Status> {
    // Who halts before the first call means it as well.
    let house = House::open_or_make(options)?;
    let gate = house.gate(options, &options.cwd, Ask::None, Settings::default())?;
    let by = &options.person.name;
    if typed.lift {
        gate.lift(&options.tenant, by).await?;
        tell(screen, false, "calls may begin again");
        return Ok(Status::Completed);
    }
    let why = typed.why.unwrap_or_else(|| format!("{by} said so"));
    gate.halt(&options.tenant, by, &why).await?;
    tell(screen, true, &format!("halted: {why}"));
    if !screen.json() {
        screen.hint("what runs already goes on to its end; `byleave halt --lift` lifts it");
    }
    Ok(Status::Completed)
}

fn tell(screen: &mut Screen, halted: bool, line: &str) {
    if screen.json() {
        screen.value(&json!({ "halted": halted }));
    } else {
        screen.line(&one_line(line));
    }
}

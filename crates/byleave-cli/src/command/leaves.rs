//! `byleave leaves`: the standing leaves, and their end.

use anyhow::Result;
use byleave::book::Book as _;
use byleave::settings::Settings;
use serde_json::json;

use crate::args::{Ask, Leaves};
use crate::house::House;
use crate::ids::{self, short};
use crate::json;
use crate::options::Options;
use crate::screen::{Screen, many_lines, prose};
use crate::status::Status;
use crate::time::{now, span};

pub(crate) async fn run(command: Option<Leaves>, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command.unwrap_or(Leaves::List) {
        Leaves::List => list(options, screen).await,
        Leaves::Revoke { id } => revoke(&id, options, screen).await,
    }
}

async fn list(options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_read(options, None)?;
    let now = now();
    let leaves = house.book.leaves_given(&options.tenant, now).await?;
    if screen.json() {
        screen.value(&leaves.iter().map(|item| json::leave_item(item, now)).collect());
    } else if leaves.is_empty() {
        screen.say("no leave was ever given");
    }
    for item in leaves.iter().filter(|_| !screen.json()).collect::<Vec<_>>() {
        let leave = &item.leave;
        let used =
            leave.uses_max.map_or_else(|| item.uses.to_string(), |max| format!("{} of {max}", item.uses));
        let ago = span(now.saturating_sub(item.given_at));
        screen.title(&format!("leave {}: {}", short(&leave.id), item.state.word()));
        screen.line(&prose(&format!("  given by {} {ago} ago, used: {used}", item.by.name)));
        for line in many_lines(&leave.rule(now)) {
            screen.line(&format!("  {line}"));
        }
    }
    Ok(Status::Completed)
}

async fn revoke(id: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_write(options)?;
    let leave = ids::leave(&house, options, id).await?;
    let gate = house.gate(options, &options.cwd, Ask::None, Settings::default())?;
    gate.revoke(&options.tenant, &options.person.name, leave).await?;
    if screen.json() {
        screen.value(&json!({ "leave": leave, "state": "revoked" }));
    } else {
        screen.line(&format!("leave {} is revoked", short(&leave)));
    }
    Ok(Status::Completed)
}

//! `byleave leaves`: the standing leaves, and their end.

use anyhow::Result;
use byleave::book::{Book as _, LeaveItem};
use byleave::settings::Settings;
use serde_json::json;

use crate::args::{Ask, Leaves};
use crate::house::House;
use crate::ids::{self, short};
use crate::json;
use crate::options::Options;
use crate::scope;
use crate::screen::{Screen, one_line};
use crate::show::table;
use crate::status::Status;
use crate::time::{now, utc};

pub(crate) async fn run(command: Option<Leaves>, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command.unwrap_or(Leaves::List) {
        Leaves::List => list(options, screen).await,
        Leaves::Revoke { id } => revoke(&id, options, screen).await,
    }
}

async fn list(options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_to_read(options, None)?;
    let leaves = house.book.leaves_given(&options.tenant, now()).await?;
    if screen.json() {
        screen.value(&leaves.iter().map(json::leave_item).collect());
    } else if leaves.is_empty() {
        screen.say("no leave was ever given");
    } else {
        let rows: Vec<Vec<String>> = leaves.iter().map(row).collect();
        table(screen, &["ID", "STATE", "TOOL", "USED", "UNTIL", "SESSION", "BY", "SCOPE"], &rows);
    }
    Ok(Status::Completed)
}

fn row(item: &LeaveItem) -> Vec<String> {
    let leave = &item.leave;
    let uses = leave.uses_max.map_or_else(|| item.uses.to_string(), |max| format!("{} of {max}", item.uses));
    let scope: Vec<String> = leave.scope.iter().map(scope::written).collect();
    vec![
        short(&leave.id),
        item.state.word().to_owned(),
        one_line(&leave.tool),
        uses,
        leave.until.map_or_else(|| "no end".to_owned(), utc),
        leave.session.as_ref().map_or_else(|| "any".to_owned(), |session| one_line(session.as_str())),
        one_line(&item.by.name),
        one_line(&scope.join(", ")),
    ]
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

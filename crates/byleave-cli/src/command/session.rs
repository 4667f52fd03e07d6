//! `byleave session`: who is whose sub-agent, and how far each may go.

use anyhow::Result;
use byleave::core::call::{Call, Mode};
use byleave::core::id::{AgentId, SessionId};
use byleave::core::session::{Ceiling, Opening};
use byleave::gate::{Gate, OpenFault};
use byleave::settings::Settings;
use serde_json::json;

use crate::args::{self, Ask};
use crate::complaint::Complaint;
use crate::house::House;
use crate::options::Options;
use crate::scope;
use crate::screen::{Screen, one_line};
use crate::status::Status;

pub(crate) async fn run(command: args::Session, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command {
        args::Session::Open(typed) => open(typed, options, screen).await,
        args::Session::Show { session } => show(&session, options, screen).await,
    }
}

async fn open(typed: args::OpenSession, options: &Options, screen: &mut Screen) -> Result<Status> {
    let read = |scopes: &[String]| scopes.iter().map(|typed| scope::read(typed)).collect::<Result<_, _>>();
    let ceiling = Ceiling { mode: typed.mode.into(), deny: read(&typed.deny)?, ask: read(&typed.ask)? };
    let agent = match typed.agent {
        Some(agent) => agent,
        None => AgentId::new(typed.session.as_str())?,
    };
    let opening = Opening { session: typed.session, parent: typed.parent, agent, ceiling };
    let house = House::open_or_make(options)?;
    let gate = house.gate(options, &options.cwd, Ask::None, Settings::default())?;
    let session = opening.session.clone();
    opened(gate.open_session(&options.tenant, &options.person.name, opening).await)?;
    tell(&gate.lineage(&options.tenant, &session).await?, screen);
    Ok(Status::Completed)
}

async fn show(session: &SessionId, options: &Options, screen: &mut Screen) -> Result<Status> {
    let house = House::open_or_make(options)?;
    let gate = house.gate(options, &options.cwd, Ask::None, Settings::default())?;
    let lineage = gate.lineage(&options.tenant, session).await?;
    if lineage.is_empty() && !screen.json() {
        screen.say(&one_line(&format!("session `{session}` was never opened: it stands alone")));
    }
    tell(&lineage, screen);
    Ok(Status::Completed)
}

/// Gives the session of a call its place, or checks that it has just that place.
pub(super) async fn beneath(gate: &Gate, options: &Options, call: &Call, parent: SessionId) -> Result<()> {
    let lineage = gate.lineage(&options.tenant, &call.session).await?;
    if lineage.first().is_some_and(|own| own.parent.as_ref() == Some(&parent)) {
        return Ok(());
    }
    // What binds it is what stands above it; it takes nothing from itself.
    let ceiling = Ceiling::of(Mode::Yolo);
    let (session, agent) = (call.session.clone(), call.agent.clone());
    let opening = Opening { session, parent: Some(parent), agent, ceiling };
    opened(gate.open_session(&options.tenant, &options.person.name, opening).await)
}

fn opened(opened: Result<(), OpenFault>) -> Result<()> {
    let Err(fault) = opened else { return Ok(()) };
    let complaint = Complaint::new(fault.to_string());
    Err(match &fault {
        OpenFault::UnknownParent { parent, .. } => {
            complaint.hint(format!("`byleave session open {parent}` opens it")).into()
        }
        _ => complaint.into(),
    })
}

fn tell(lineage: &[Opening], screen: &mut Screen) {
    if screen.json() {
        screen.value(&json!({ "lineage": lineage }));
        return;
    }
    for opening in lineage {
        let Opening { session, parent, agent, ceiling } = opening;
        let place = parent.as_ref().map(|parent| format!("sub-agent of {parent}"));
        let place = place.unwrap_or_else(|| "at the top".to_owned());
        screen.line(&one_line(&format!("{session}  agent {agent}, {place}, mode {}", ceiling.mode.word())));
        for (said, patterns) in [("denied", &ceiling.deny), ("asks", &ceiling.ask)] {
            for pattern in patterns {
                screen.line(&one_line(&format!("  {said}  {}", scope::written(pattern))));
            }
        }
    }
}

//! `byleave session`: shows and sets the parents and limits of sessions.

use anyhow::Result;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::session::{Ceiling, SessionNode};
use byleave_gate::gate::{Gate, OpenSessionError};
use byleave_gate::settings::GateSettings;
use clap::{Args as Group, Subcommand};
use serde_json::json;

use crate::app_context::AppContext;
use crate::approval_scope;
use crate::args::{AskArg, ModeArg};
use crate::console::{Console, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Set the parent and the limits of a session
    ///
    /// Open a session before its first call. Its parent and its limits cannot be changed later.
    Open(OpenSessionArgs),
    /// Show a session and its ancestors
    Show {
        /// Session
        session: SessionId,
    },
}

#[derive(Debug, Group)]
pub(crate) struct OpenSessionArgs {
    /// Session
    pub(crate) session: SessionId,
    /// Parent session
    #[arg(long, value_name = "SESSION")]
    pub(crate) parent: Option<SessionId>,
    /// Agent of the session [default: name of the session]
    #[arg(long)]
    pub(crate) agent: Option<AgentId>,
    /// Least strict mode of the session and its descendants
    #[arg(long, value_enum, default_value_t = ModeArg::ConfirmSensitive)]
    pub(crate) mode: ModeArg,
    /// Effects to deny, also for descendants: effect, colon, pattern, as in `write:/w/notes/**`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) deny: Vec<String>,
    /// Effects to ask about, also for descendants: same format as `--deny`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) ask: Vec<String>,
}

pub(crate) async fn run(
    command: SessionCommand,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command {
        SessionCommand::Open(typed) => open(typed, options, screen).await,
        SessionCommand::Show { session } => show(&session, options, screen).await,
    }
}

async fn open(typed: OpenSessionArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let read =
        |scopes: &[String]| scopes.iter().map(|typed| approval_scope::parse(typed)).collect::<Result<_, _>>();
    let ceiling = Ceiling { mode: typed.mode.into(), deny: read(&typed.deny)?, ask: read(&typed.ask)? };
    let agent = match typed.agent {
        Some(agent) => agent,
        None => AgentId::new(typed.session.as_str())?,
    };
    let opening = SessionNode { session: typed.session, parent: typed.parent, agent, ceiling };
    let house = AppContext::open_or_create(options)?;
    let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
    let session = opening.session.clone();
    opened(gate.open_session(&options.tenant, &options.person.name, opening).await)?;
    tell(&gate.lineage(&options.tenant, &session).await?, screen);
    Ok(ExitStatus::Completed)
}

async fn show(session: &SessionId, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let house = AppContext::open_or_create(options)?;
    let gate = house.gate(options, &options.cwd, AskArg::None, GateSettings::default())?;
    let lineage = gate.lineage(&options.tenant, session).await?;
    if lineage.is_empty() && !screen.json() {
        screen.message(&one_line(&format!("session `{session}` was never opened: it has no parent")));
    }
    tell(&lineage, screen);
    Ok(ExitStatus::Completed)
}

/// Sets the parent of a call's session, or checks that it is already this one.
pub(super) async fn open_under_parent(
    gate: &Gate,
    options: &ResolvedOptions,
    call: &Call,
    parent: SessionId,
) -> Result<()> {
    let lineage = gate.lineage(&options.tenant, &call.session).await?;
    if lineage.first().is_some_and(|own| own.parent.as_ref() == Some(&parent)) {
        return Ok(());
    }
    // The session is limited by its ancestors. It adds no limit of its own.
    let ceiling = Ceiling::from_mode(Mode::Yolo);
    let (session, agent) = (call.session.clone(), call.agent.clone());
    let opening = SessionNode { session, parent: Some(parent), agent, ceiling };
    opened(gate.open_session(&options.tenant, &options.person.name, opening).await)
}

fn opened(opened: Result<(), OpenSessionError>) -> Result<()> {
    let Err(fault) = opened else { return Ok(()) };
    let complaint = CliError::new(fault.to_string());
    Err(match &fault {
        OpenSessionError::UnknownParent { parent, .. } => {
            complaint.hint(format!("`byleave session open {parent}` opens it")).into()
        }
        _ => complaint.into(),
    })
}

fn tell(lineage: &[SessionNode], screen: &mut Console) {
    if screen.json() {
        screen.value(&json!({ "lineage": lineage }));
        return;
    }
    for opening in lineage {
        let SessionNode { session, parent, agent, ceiling } = opening;
        let place = parent.as_ref().map(|parent| format!("sub-agent of {parent}"));
        let place = place.unwrap_or_else(|| "top level".to_owned());
        screen.line(&one_line(&format!("{session}  agent {agent}, {place}, mode {}", ceiling.mode.as_str())));
        for (said, patterns) in [("denied", &ceiling.deny), ("asks", &ceiling.ask)] {
            for pattern in patterns {
                screen.line(&one_line(&format!("  {said}  {}", approval_scope::format(pattern))));
            }
        }
    }
}

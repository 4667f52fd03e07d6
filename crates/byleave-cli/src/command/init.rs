//! `byleave init`: configures an agent to use Byleave, and reverts that.
//!
//! A plan contains the new text of each file before any file is changed. A revert is planned the same way. Secrets are never
//! shown.

mod apply;
mod container_question;
mod first_run;
mod personal_setup;
mod plan;
mod report;
mod revert;
mod trust;
mod user_service;

use std::path::PathBuf;

use anyhow::Result;
use byleave_hook::AgentKind;
use clap::Args as Group;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use serde_json::{Value, json};

use self::personal_setup::PersonalSetup;
use self::plan::InitPlan;
use self::trust::HookTrust;
use crate::active_policy::ActivePolicy;
use crate::agent_configs::{self, ProgramPaths};
use crate::call_display::table;
use crate::command::doctor::cannot_run;
use crate::command::policy::profile::active_profiles;
use crate::console::{Console, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::init_journal::{self, InitJournal};
use crate::resolved_options::{ResolvedOptions, real_path};

#[derive(Debug, Group)]
pub(crate) struct InitArgs {
    /// Agent [default: all that are found here, after a question]
    #[arg(value_parser = agent_parser())]
    pub(crate) agent: Option<AgentKind>,
    /// Use the settings of the project in this directory, not your own
    #[arg(long)]
    pub(crate) project: bool,
    /// Show the changes, with secrets masked, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Revert the setup, of all agents if none is named. Later changes to the files stay
    #[arg(long)]
    pub(crate) undo: bool,
    /// Ask nothing: set up all agents that are found here
    #[arg(long, conflicts_with_all = ["agent", "project", "dry_run", "undo"])]
    pub(crate) yes: bool,
    /// Choose this profile [default: everyday, if none was chosen before]
    #[arg(long, value_parser = ["everyday", "careful", "strict"], requires = "yes")]
    pub(crate) profile: Option<String>,
}

fn agent_parser() -> impl clap::builder::TypedValueParser<Value = AgentKind> {
    let names = PossibleValuesParser::new(AgentKind::ALL.map(AgentKind::name));
    names.try_map(|name| AgentKind::from_name(&name).ok_or("unknown agent"))
}

pub(crate) fn run(typed: &InitArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let project = typed.project.then(|| PathBuf::from(&options.cwd));
    match typed.agent {
        _ if typed.undo => undo(typed, project.as_ref(), options, screen),
        Some(agent) => set_up(agent, project, typed.dry_run, options, screen),
        None if typed.project || typed.dry_run => {
            Err(CliError::new("no agent was given").hint("`byleave init` lists the agents").into())
        }
        None if first_run::is_wanted(typed, screen) => first_run::run(typed, options, screen),
        None => list(options, screen),
    }
}

/// Returns the paths of this program and its hook. With a missing hook, an agent would go ahead or stop altogether.
pub(crate) fn programs(options: &ResolvedOptions) -> Result<ProgramPaths> {
    let gateway = std::env::current_exe()?;
    let hook = gateway.with_file_name("byleave-hook");
    if !hook.is_file() {
        let missing = CliError::new(format!("there is no `{}`", hook.display()));
        return Err(missing.hint("install `byleave-hook` in the same directory as this program").into());
    }
    Ok(ProgramPaths { gateway, hook, state: real_state(options)? })
}

/// Returns the state directory with its links resolved, as the line of a prepared call names it.
pub(crate) fn real_state(options: &ResolvedOptions) -> Result<PathBuf> {
    let cannot = || CliError::new(format!("cannot find the state directory `{}`", options.state.display()));
    Ok(PathBuf::from(real_path(&options.state)?.ok_or_else(cannot)?))
}

fn set_up(
    agent: AgentKind,
    project: Option<PathBuf>,
    is_dry: bool,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let programs = programs(options)?;
    let plan = InitPlan::new(agent, project, &programs, options)?;
    let mut trust = HookTrust::NotNeeded;
    if is_dry {
        report::diffs(&plan.texts(), screen);
    } else {
        if plan.changes_something() {
            apply::apply(&plan, options)?;
        }
        trust = trust::trust_hooks(&plan, &programs, options);
    }
    let mut options = options.clone();
    if !is_dry {
        container_question::ask(&options, &mut PersonalSetup::load_or_new(&options)?, screen)?;
        options = options.in_directory(options.cwd.clone())?;
    }
    report::print_plan(&plan, is_dry, &trust, cannot_run(&options).as_ref(), screen);
    if !is_dry && !screen.json() && asks_about_every_change(&options) {
        screen.hint("the profile `careful` asks about every change; `byleave policy profile everyday` lets those pass that can be undone");
    }
    Ok(ExitStatus::Completed)
}

/// Checks whether the policy asks about changes that could be undone. A policy that does not load has other problems first.
fn asks_about_every_change(options: &ResolvedOptions) -> bool {
    let state = real_path(&options.state).ok().flatten().unwrap_or_default();
    let policy = ActivePolicy { options, workspace: &options.cwd, state: &state };
    policy.load().is_ok_and(|loaded| {
        let active = active_profiles(&loaded.policy);
        active.is_empty() || active == ["careful"]
    })
}

fn undo(
    typed: &InitArgs,
    project: Option<&PathBuf>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let all = init_journal::all(options)?;
    let is_meant = |setup: &&InitJournal| {
        typed.agent.is_none_or(|agent| setup.agent == agent)
            && (project.is_none() && (typed.agent.is_none() || setup.project.is_none())
                || setup.project.as_ref() == project)
    };
    let meant: Vec<&InitJournal> = all.iter().filter(is_meant).collect();
    let mut told = Vec::new();
    for setup in &meant {
        let others = all.iter().filter(|other| !std::ptr::eq(*other, *setup));
        let back = revert::RevertPlan::new(setup, others)?;
        if typed.dry_run {
            report::diffs(&back.texts(), screen);
        } else {
            back.apply(options)?;
        }
        told.push(report::print_revert(&back, typed.dry_run, screen));
    }
    let mut personal = PersonalSetup::load_or_new(options)?;
    if typed.agent.is_some() || project.is_some() {
        personal = PersonalSetup::default();
    }
    if !personal.is_empty() {
        let (restored, notes) = personal.undo(typed.dry_run, options)?;
        told.push(report::print_personal(&restored, &notes, typed.dry_run, screen));
    }
    if screen.json() {
        screen.value(&json!({ "undone": told, "dry_run": typed.dry_run }));
    } else if told.is_empty() {
        screen.line("nothing was set up; nothing was changed");
    }
    Ok(ExitStatus::Completed)
}

/// Lists the agents, and which of them are set up.
fn list(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let places = options.agent_places(None)?;
    let all = init_journal::all(options)?;
    let found = AgentKind::ALL.map(|agent| {
        let traces = agent_configs::usage_traces(agent, &places);
        let trace = traces.into_iter().find(|trace| trace.exists());
        let set_up: Vec<&InitJournal> = all.iter().filter(|setup| setup.agent == agent).collect();
        (agent, trace, set_up)
    });
    if screen.json() {
        let one = |(agent, trace, set_up): &(AgentKind, Option<PathBuf>, Vec<&InitJournal>)| -> Value {
            let places: Vec<_> = set_up.iter().map(|setup| setup.project.as_ref()).collect();
            let own = places.iter().any(Option::is_none);
            let projects: Vec<_> = places.into_iter().flatten().collect();
            json!({ "agent": agent.name(), "found": trace, "set_up": own, "projects": projects })
        };
        screen.value(&found.iter().map(one).collect());
        return Ok(ExitStatus::Completed);
    }
    let row = |(agent, trace, set_up): &(AgentKind, Option<PathBuf>, Vec<&InitJournal>)| {
        let trace = trace.as_ref().map_or_else(|| "-".to_owned(), |trace| one_line(&trace.to_string_lossy()));
        let own = set_up.iter().any(|setup| setup.project.is_none());
        let projects = set_up.iter().filter(|setup| setup.project.is_some()).count();
        let state = match (own, projects) {
            (false, 0) => "no".to_owned(),
            (true, 0) => "yes".to_owned(),
            (false, some) => format!("in {some} projects"),
            (true, some) => format!("yes, and in {some} projects"),
        };
        vec![agent.name().to_owned(), state, trace]
    };
    table(screen, &["AGENT", "SET UP", "FOUND"], &found.iter().map(row).collect::<Vec<_>>());
    screen.hint("`byleave init AGENT --dry-run` shows what would change; `byleave init --yes` sets up all that are found");
    Ok(ExitStatus::Completed)
}

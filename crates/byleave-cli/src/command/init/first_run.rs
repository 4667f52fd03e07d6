//! `byleave init` without an agent: finds the agents that are here, asks how careful to be, sets everything up, and checks it.
//!
//! It asks at a terminal only. `--yes` takes the first choice of every question. Every question comes before the first change.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use anyhow::Result;
use byleave_gate::core::policy::Profile;
use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::personal_setup::PersonalSetup;
use super::plan::InitPlan;
use super::{InitArgs, apply, container_question, programs, report, trust, user_service};
use crate::active_policy::ActivePolicy;
use crate::agent_configs::{self, ProgramPaths};
use crate::command::doctor::{agent_checks, cannot_run};
use crate::command::policy::profile::active_profiles;
use crate::console::{Console, Tone, one_line, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};

/// The profiles that are offered. The first one is the default.
const OFFERED: [&str; 3] = ["everyday", "careful", "strict"];
const SERVE: &str = "byleave hook serve";

/// Checks whether this run asks or was told what to answer. Otherwise `init` lists the agents.
pub(super) fn is_wanted(typed: &InitArgs, screen: &Console) -> bool {
    typed.yes || !screen.json() && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// An agent that is here, and the trace of it.
type FoundAgent = (AgentKind, PathBuf);

/// The answers to all questions.
struct Answers {
    /// The profile to choose, if none was chosen before.
    profile: Option<&'static str>,
    has_service: bool,
}

pub(super) fn run(typed: &InitArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let found = found_agents(options)?;
    if found.is_empty() {
        let names = AgentKind::ALL.map(AgentKind::name).join(", ");
        if screen.json() {
            screen.value(&json!({ "agents": [] }));
        } else {
            screen.line("no agent was found here, so nothing was changed");
        }
        screen.hint(&format!("`byleave init AGENT` sets one up that is installed later: {names}"));
        return Ok(ExitStatus::Completed);
    }
    let programs = programs(options)?;
    if !screen.json() {
        screen.title("Byleave judges what your agents do, asks you when it must, and records it.");
        screen.line("");
        for (agent, trace) in &found {
            screen.line(&format!("  found {:12} {}", agent.name(), one_line(&trace.to_string_lossy())));
        }
        screen.line("");
    }
    let Some(answers) = answers(typed, options, screen)? else {
        screen.line("nothing was changed");
        return Ok(ExitStatus::Completed);
    };
    let mut personal = PersonalSetup::load_or_new(options)?;
    let mut options = options.clone();
    if !typed.yes {
        container_question::ask(&options, &mut personal, screen)?;
        options = options.in_directory(options.cwd.clone())?;
    }
    let options = &options;
    if let Some(profile) = answers.profile {
        let path = personal.choose_profile(profile, options)?;
        if !screen.json() {
            screen.line(&format!("  profile {profile:11} {}", one_line(&path.to_string_lossy())));
        }
    }
    let (set_up, all_done) = set_up_all(&found, &programs, options, screen);
    let service = answers.has_service.then(|| personal.start_service(&programs.gateway, options));
    say_service(service.as_ref(), screen);
    let checks = agent_checks(options);
    let all_well = checks.iter().all(|check| check.is_ok);
    if screen.json() {
        let checks: Vec<Value> = checks.iter().map(|check| check.json()).collect();
        let service = service.is_some_and(|service| service.is_ok());
        let told =
            json!({ "agents": set_up, "profile": answers.profile, "service": service, "findings": checks });
        screen.value(&told);
    } else {
        screen.line("");
        for check in &checks {
            let (sign, what) = match check.is_ok {
                true => (
                    "ok ".to_owned(),
                    AgentKind::from_name(check.subject).map_or("", agent_configs::doctor_limits),
                ),
                false => (screen.painted(Tone::Bad, "BAD"), check.message.as_str()),
            };
            screen.line(&format!("{sign} {:12} {}", check.subject, prose(what)));
            check.hint.iter().for_each(|hint| screen.hint(hint));
        }
        screen.line("");
        screen.line("Restart your agents. Questions wait in `byleave inbox`, in any terminal, and the agent waits with them;");
        screen.line("a notification tells you of each (`notify` in `byleave config edit`). `byleave` shows what happened, `byleave undo` takes it back.");
        screen.line("`byleave init --undo` restores every file, byte for byte.");
    }
    Ok(if all_done && all_well { ExitStatus::Completed } else { ExitStatus::Failed })
}

/// Returns the agents that somebody uses here, or could start.
fn found_agents(options: &ResolvedOptions) -> Result<Vec<FoundAgent>> {
    let places = options.agent_places(None)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = AgentKind::ALL.into_iter().filter_map(|agent| {
        let traces = agent_configs::usage_traces(agent, &places);
        let program = agent_configs::program_name(agent);
        let programs =
            std::env::split_paths(&path).map(|dir| dir.join(program)).filter(|path| path.is_file());
        Some((agent, traces.into_iter().filter(|trace| trace.exists()).chain(programs).next()?))
    });
    Ok(found.collect())
}

/// Asks everything. Returns `None` if nothing shall be changed.
fn answers(typed: &InitArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<Option<Answers>> {
    let asks = !typed.yes;
    let profile = match chosen_before(options)? {
        Some(profile) if typed.profile.is_none() => {
            if !screen.json() {
                screen.line(&format!(
                    "  profile {profile:11} was chosen before; `byleave policy profile` changes it"
                ));
            }
            None
        }
        _ => match &typed.profile {
            Some(name) => OFFERED.into_iter().find(|offered| offered == name),
            None if asks => match ask_profile(screen)? {
                Some(profile) => Some(profile),
                None => return Ok(None),
            },
            None => OFFERED.first().copied(),
        },
    };
    let has_manager = user_service::is_available();
    let has_service = has_manager
        && (!asks || {
            screen.line(
                "Keep a gate ready, so that hooks answer at once? It runs as your service `byleave-hook`.",
            );
            !["n", "no"].contains(&ask("Start it? [Y/n]: ")?.as_str())
        });
    if !has_manager && !screen.json() {
        screen.line(&format!(
            "You have no service manager here, so each hook starts the program itself. `{SERVE}` in a terminal, or where your \
             session starts, makes hooks faster."
        ));
    }
    Ok(Some(Answers { profile, has_service }))
}

fn ask_profile(screen: &mut Console) -> Result<Option<&'static str>> {
    screen.line("How careful shall it be?");
    for (number, name) in (1..).zip(OFFERED) {
        let description = Profile::find(name).map(|profile| profile.description).unwrap_or_default();
        screen.line(&format!("  {number}  {name:9} {description}"));
    }
    screen.line("  q  change nothing");
    loop {
        let said = ask("Your choice [1]: ")?;
        let chosen = match said.as_str() {
            "" | "1" => OFFERED.first().copied(),
            "2" => OFFERED.get(1).copied(),
            "3" => OFFERED.get(2).copied(),
            "q" | "quit" | "\u{4}" => return Ok(None),
            name => OFFERED.into_iter().find(|offered| *offered == name),
        };
        if chosen.is_some() {
            screen.line("");
            return Ok(chosen);
        }
        screen.line("type 1, 2, 3 or q");
    }
}

/// Reads one line from the terminal. Its end is an answer that changes nothing.
fn ask(prompt: &str) -> Result<String> {
    let mut out = io::stderr().lock();
    out.write_all(prompt.as_bytes()).and_then(|()| out.flush())?;
    let mut line = String::new();
    if io::stdin().read_line(&mut line)? == 0 {
        return Err(CliError::new("the terminal was closed, so nothing was changed").into());
    }
    Ok(line.trim().to_lowercase())
}

/// Returns the profile that is in force already.
fn chosen_before(options: &ResolvedOptions) -> Result<Option<&'static str>> {
    let Some(state) = real_path(&options.state)? else { return Ok(None) };
    let rules = ActivePolicy { options, workspace: &options.cwd, state: &state };
    Ok(active_profiles(&rules.load()?.policy).first().copied())
}

/// Sets up all agents. An agent that cannot be set up does not stop the others.
fn set_up_all(
    found: &[FoundAgent],
    programs: &ProgramPaths,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> (Vec<Value>, bool) {
    let (mut told, mut all_done) = (Vec::new(), true);
    let obstacle = cannot_run(options);
    if let Some((why, hint)) = obstacle.as_ref().filter(|_| !screen.json()) {
        screen.message_with_tone(Tone::Bad, "no shell command can run here:", &prose(why));
        screen.hint(hint);
    }
    for (agent, _) in found {
        let done = InitPlan::new(*agent, None, programs, options).and_then(|plan| {
            if plan.changes_something() {
                apply::apply(&plan, options)?;
            }
            Ok((trust::trust_hooks(&plan, programs, options), plan))
        });
        match done {
            Ok((trust, plan)) if screen.json() => {
                told.push(report::plan_value(&plan, false, &trust, obstacle.as_ref()));
            }
            Ok((trust, plan)) => report::print_short(&plan, &trust, screen),
            Err(error) => {
                all_done = false;
                let what = format!("{} is not set up: {error:#}", agent.name());
                screen.message_with_tone(Tone::Bad, "error:", &prose(&what));
                CliError::hint_in(&error).iter().for_each(|hint| screen.hint(hint));
            }
        }
    }
    (told, all_done)
}

fn say_service(service: Option<&Result<()>>, screen: &mut Console) {
    match service {
        Some(Ok(())) if !screen.json() => screen.line("  service byleave-hook  evaluates the calls of hooks"),
        Some(Err(error)) => {
            let what = format!("the service does not run, so each hook starts the program itself: {error:#}");
            screen.message_with_tone(Tone::Careful, "note:", &prose(&what));
            screen.hint(&format!("`{SERVE}` in a terminal does the same"));
        }
        _ => {}
    }
}

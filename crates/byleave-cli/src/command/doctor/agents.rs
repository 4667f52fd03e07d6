//! Checks the agents that were set up: whether gateway and hook are in place, whether their programs exist and have this version,
//! whether any settings switch them off, and whether the hook denies a call that must be denied. It also reports MCP servers that bypass
//! the gateway again. It changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use byleave_hook::AgentKind;
use serde_json::Value;

use super::environment::DoctorFinding;
use super::{codex, hook_call};
use crate::agent_configs::{self, AgentSettingsFile, NotMovable, ProgramPaths, SettingsDirs};
use crate::command::init::real_state;
use crate::config_edit::{self, FileFormat};
use crate::init_journal::{self, InitJournal};
use crate::resolved_options::ResolvedOptions;
use crate::timed_process;

/// The time limit for a program to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns one finding for each agent that was set up.
pub(super) fn findings(options: &ResolvedOptions) -> Vec<DoctorFinding> {
    match init_journal::all(options) {
        // Each starts programs and mostly waits for them.
        Ok(all) => std::thread::scope(|scope| {
            let checks: Vec<_> =
                all.iter().map(|setup| (setup.agent, scope.spawn(|| finding(setup, options)))).collect();
            let findings = checks.into_iter().map(|(agent, check)| {
                let failed = |_| DoctorFinding::problem(agent.name(), "the check failed", "report this");
                check.join().unwrap_or_else(failed)
            });
            findings.collect()
        }),
        Err(error) => {
            let hint = "check the directory `agents` in the state directory";
            vec![DoctorFinding::problem("agents", format!("{error:#}"), hint)]
        }
    }
}

fn finding(setup: &InitJournal, options: &ResolvedOptions) -> DoctorFinding {
    let agent = setup.agent;
    let project =
        setup.project.as_ref().map(|project| format!("in `{}`, ", project.display())).unwrap_or_default();
    let wrong = match wrong(setup, options) {
        Ok(wrong) => wrong,
        Err(error) => vec![format!("{error:#}")],
    };
    if wrong.is_empty() {
        let known = agent_configs::doctor_limits(agent);
        return DoctorFinding::ok(
            agent.name(),
            format!("{project}set up; {}; {known}", agent_configs::enforcement_summary(agent)),
        );
    }
    let flag = if setup.project.is_some() { " --project` in that directory" } else { "`" };
    let hint =
        format!("`byleave init {}{flag} repairs what is ours; `--undo` removes the setup", agent.name());
    DoctorFinding::problem(agent.name(), format!("{project}{}", wrong.join("; ")), hint)
}

/// Returns every difference from the state after setup.
fn wrong(setup: &InitJournal, options: &ResolvedOptions) -> Result<Vec<String>> {
    let places = options.agent_places(setup.project.clone())?;
    let gateway = std::env::current_exe()?;
    let state = real_state(options)?;
    let programs = ProgramPaths { hook: gateway.with_file_name("byleave-hook"), gateway, state };
    let directory = setup.project.clone().unwrap_or_else(|| PathBuf::from(&options.cwd));
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for target in agent_configs::targets(setup.agent, &places, &programs) {
        let value = agent_configs::file_value(&target.path, target.format)?;
        look(&target, &value, &mut named, &mut wrong);
        if let Some(at) = &target.servers {
            wrong.extend(around_the_gateway(setup, &target.path, &value, at));
        }
    }
    if let Some((path, at)) = agent_configs::local_servers(setup.agent, &places, &directory) {
        wrong.extend(around_the_gateway(
            setup,
            &path,
            &agent_configs::file_value(&path, FileFormat::Json)?,
            &at,
        ));
    }
    wrong.extend(switched_off(setup, &places, &directory)?);
    wrong.extend(named.iter().filter_map(|program| unfit(program, &programs)));
    if setup.agent == AgentKind::Codex {
        wrong.extend(codex::wrong(&places, &programs, &options.cwd)?);
    }
    // A hook that is not the one of `init` is not started.
    if wrong.is_empty() {
        let lines = agent_configs::hook_commands(setup.agent, &places, &programs);
        // The first one is the hook before a tool.
        wrong.extend(lines.first().and_then(|(_, line)| hook_call::problem(setup.agent, line, &directory)));
    }
    Ok(wrong)
}

/// Returns the settings that switch our part off, in any file that the agent reads in this directory.
fn switched_off(setup: &InitJournal, places: &SettingsDirs, directory: &Path) -> Result<Vec<String>> {
    let layers = agent_configs::layer_values(setup.agent, places, directory)?;
    let switches = agent_configs::off_switches(setup.agent);
    let found = switches.iter().filter_map(|switch| switch.find(&layers));
    let shown = found.map(|(path, what)| {
        format!("in `{}`, {what}: it switches our hooks or the gateway off", path.display())
    });
    Ok(shown.collect())
}

/// Checks that the file contains all its entries, and collects the programs that it names.
fn look(target: &AgentSettingsFile, value: &Value, named: &mut BTreeSet<PathBuf>, wrong: &mut Vec<String>) {
    let shown = target.path.display();
    for (at, wanted) in
        target.settings.iter().filter(|(_, wanted)| agent_configs::gateway_program(wanted).is_some())
    {
        match config_edit::find(value, at).and_then(agent_configs::gateway_program) {
            None => wrong.push(format!("the gateway is missing in `{shown}`")),
            Some(program) => {
                if Some(&program) == agent_configs::gateway_program(wanted).as_ref()
                    && config_edit::find(value, at) != Some(wanted)
                {
                    wrong.push(format!("the gateway in `{shown}` was changed after setup"));
                }
                named.insert(program);
            }
        }
    }
    for (at, wanted) in
        target.items.iter().filter(|(_, wanted)| agent_configs::hook_program(wanted).is_some())
    {
        let items = config_edit::find(value, at).and_then(Value::as_array).into_iter().flatten();
        let ours: Vec<(&Value, PathBuf)> =
            items.filter_map(|item| Some((item, agent_configs::hook_program(item)?))).collect();
        let list = at.last().map(String::as_str).unwrap_or_default();
        if ours.is_empty() {
            wrong.push(format!("the hook `{list}` is missing in `{shown}`"));
        } else if ours.iter().all(|(item, program)| {
            Some(program) == agent_configs::hook_program(wanted).as_ref() && *item != wanted
        }) {
            wrong.push(format!("the hook `{list}` in `{shown}` was changed after setup"));
        }
        named.extend(ours.into_iter().map(|(_, program)| program));
    }
}

fn around_the_gateway(setup: &InitJournal, path: &Path, value: &Value, at: &[String]) -> Vec<String> {
    let servers = config_edit::find(value, at).and_then(Value::as_object).into_iter().flatten();
    let is_around = |entry: &Value| {
        agent_configs::gateway_program(entry).is_none()
            && agent_configs::parse_server(setup.agent, entry, None) != Err(NotMovable::Harmless)
    };
    let around = servers.filter(|(_, entry)| is_around(entry));
    around
        .map(|(name, _)| format!("MCP server `{name}` in `{}` bypasses the gateway", path.display()))
        .collect()
}

/// Returns why a program does not belong to this installation, or `None` if it does.
fn unfit(program: &Path, ours: &ProgramPaths) -> Option<String> {
    if program == ours.gateway {
        return None;
    }
    let wanted = env!("CARGO_PKG_VERSION");
    match version(program) {
        Ok(said) if said.split_whitespace().next_back() == Some(wanted) => None,
        Ok(said) => Some(format!(
            "`{}` has the version `{}`, and this program is {wanted}",
            program.display(),
            said.trim()
        )),
        Err(error) => Some(format!("`{}` does not run: {error:#}", program.display())),
    }
}

fn version(program: &Path) -> Result<String> {
    let said = timed_process::run(Command::new(program).arg("--version"), "", PATIENCE)?;
    anyhow::ensure!(said.status.success(), "`--version` ended with {}", said.status);
    Ok(said.stdout.chars().take(200).collect())
}

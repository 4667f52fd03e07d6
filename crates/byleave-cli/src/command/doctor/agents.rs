//! Checks the agents that were set up: whether gateway and hook are in place, and whether their programs exist and have this
//! version. It also reports MCP servers that bypass the gateway again. It changes nothing.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::environment::DoctorFinding;
use crate::agent_configs::{self, AgentSettingsFile, NotMovable, ProgramPaths};
use crate::atomic_replace;
use crate::config_edit::{self, FileFormat};
use crate::init_journal::{self, InitJournal};
use crate::resolved_options::ResolvedOptions;

/// The time limit for a program to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns one finding for each agent that was set up.
pub(super) fn findings(options: &ResolvedOptions) -> Vec<DoctorFinding> {
    match init_journal::all(options) {
        Ok(all) => all.iter().map(|setup| finding(setup, options)).collect(),
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
        return DoctorFinding::ok(
            agent.name(),
            format!("{project}set up; {}", agent_configs::enforcement_summary(agent)),
        );
    }
    let flag = if setup.project.is_some() { " --project` in that directory" } else { "`" };
    let hint = format!("`byleave init {}{flag} repairs it; `--undo` removes the setup", agent.name());
    DoctorFinding::problem(
        agent.name(),
        format!("{project}{}; {}", wrong.join("; "), agent_configs::enforcement_summary(agent)),
        hint,
    )
}

/// Returns every difference from the state after setup.
fn wrong(setup: &InitJournal, options: &ResolvedOptions) -> Result<Vec<String>> {
    let places = options.agent_places(setup.project.clone())?;
    let gateway = std::env::current_exe()?;
    let programs = ProgramPaths { hook: gateway.with_file_name("byleave-hook"), gateway };
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for target in agent_configs::targets(setup.agent, &places, &programs) {
        let value = value(&target.path, target.format)?;
        look(&target, &value, &mut named, &mut wrong);
        if let Some(at) = &target.servers {
            wrong.extend(around_the_gateway(setup, &target.path, &value, at));
        }
    }
    let directory = setup.project.clone().unwrap_or_else(|| PathBuf::from(&options.cwd));
    if let Some((path, at)) = agent_configs::local_servers(setup.agent, &places, &directory) {
        wrong.extend(around_the_gateway(setup, &path, &value(&path, FileFormat::Json)?, &at));
    }
    wrong.extend(named.iter().filter_map(|program| unfit(program, &programs)));
    Ok(wrong)
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
    wrong.extend(
        target
            .disabled_settings(value)
            .into_iter()
            .map(|switch| format!("in `{shown}`, {switch}: hooks do not run")),
    );
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
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("the program did not print its version within {} s", PATIENCE.as_secs());
        }
        // Waiting for a child with a time limit requires polling.
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut said = String::new();
    let out = child.stdout.take().context("the program has no output")?;
    out.take(200).read_to_string(&mut said)?;
    Ok(said)
}

fn value(path: &Path, format: FileFormat) -> Result<Value> {
    let text = atomic_replace::text(path)?.unwrap_or_default();
    config_edit::read(format, &text).with_context(|| format!("`{}`", path.display()))
}

//! Checks Codex by its own answers: whether it runs our hooks, and whether it runs our commands outside of its sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_hook::AgentKind;
use serde_json::Value;

use crate::agent_configs::{self, CODEX_RULES, ProgramPaths, SettingsDirs};
use crate::atomic_replace;
use crate::codex_program::{self, ListedHook};
use crate::config_edit::{self, FileFormat};

/// The id of a call that never exists.
const NO_CALL: &str = "00000000-0000-0000-0000-000000000000";

/// Returns everything that keeps Codex from running our hooks or our commands.
pub(super) fn wrong(places: &SettingsDirs, programs: &ProgramPaths, directory: &str) -> Result<Vec<String>> {
    let wanted = agent_configs::hook_commands(AgentKind::Codex, places, programs);
    let Some(codex) = codex_program::find() else {
        let mut wrong = untrusted_by_file(&wanted, places)?;
        wrong.extend(missing_rules(places, programs)?);
        return Ok(wrong);
    };
    let mut wrong = match codex_program::listed_hooks(&codex, directory) {
        Ok(listed) => skipped(&wanted, &listed),
        Err(error) => vec![format!("{error:#}")],
    };
    let rules = rule_files(places);
    let (gateway, state) = (programs.gateway.to_string_lossy(), programs.state.to_string_lossy());
    let words = [&*gateway, "--state", &*state, "exec", NO_CALL];
    if rules.is_empty() {
        wrong.extend(missing_rules(places, programs)?);
    } else if let Err(error) = codex_program::check_rules(&codex, &rules, &words) {
        wrong.push(format!("no shell command can run, because the sandbox of Codex stops it: {error:#}"));
    }
    Ok(wrong)
}

/// Returns the hooks of ours that Codex does not run, with the reason.
fn skipped(wanted: &[(PathBuf, String)], listed: &[ListedHook]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut unlisted = 0;
    for (_, command) in wanted {
        let hooks: Vec<&ListedHook> =
            listed.iter().filter(|hook| hook.command.as_ref() == Some(command)).collect();
        let Some(first) = hooks.first() else {
            unlisted += 1;
            continue;
        };
        if hooks.iter().any(|hook| hook.runs()) {
            continue;
        }
        let event = &first.event_name;
        wrong.push(match first.enabled {
            false => format!("the hook `{event}` is switched off in Codex"),
            true => format!("Codex skips the hook `{event}`, because nobody trusted it"),
        });
    }
    if unlisted > 0 {
        wrong.push(format!("Codex itself lists {unlisted} of our hooks not at all, so it does not run them"));
    }
    wrong
}

/// Returns the hooks that have no trust in the settings. Without the program, nobody can know whether the trust is for this hook.
fn untrusted_by_file(wanted: &[(PathBuf, String)], places: &SettingsDirs) -> Result<Vec<String>> {
    let settings = value(&places.own_codex().join("config.toml"), FileFormat::Toml)?;
    let states = config_edit::find(&settings, &["hooks", "state"]).and_then(Value::as_object);
    let is_trusted = |path: &Path| {
        let start = format!("{}:", path.display());
        states
            .into_iter()
            .flatten()
            .any(|(key, state)| key.starts_with(&start) && state.get("trusted_hash").is_some())
    };
    let untrusted = wanted.iter().any(|(path, _)| !is_trusted(path));
    Ok(untrusted
        .then(|| "Codex skips our hooks, because nobody trusted them".to_owned())
        .into_iter()
        .collect())
}

fn missing_rules(places: &SettingsDirs, programs: &ProgramPaths) -> Result<Option<String>> {
    let path = codex_dir(places).join(CODEX_RULES);
    let (gateway, state) = (programs.gateway.to_string_lossy(), programs.state.to_string_lossy());
    let wanted = agent_configs::codex_rules(&gateway, &state);
    let is_there = atomic_replace::text(&path)?.is_some_and(|text| text == wanted);
    Ok((!is_there).then(|| {
        format!(
            "no shell command can run, because the sandbox of Codex stops it: the rule in `{}` is missing or was changed",
            path.display()
        )
    }))
}

/// Returns all rules that Codex reads, because the strictest one decides.
fn rule_files(places: &SettingsDirs) -> Vec<PathBuf> {
    let own = places.own_codex().join("rules");
    let mut dirs = vec![codex_dir(places).join("rules")];
    if !dirs.contains(&own) {
        dirs.push(own);
    }
    let entries = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "rules")).collect();
    files.sort();
    files
}

fn codex_dir(places: &SettingsDirs) -> PathBuf {
    places.project.as_ref().map_or_else(|| places.own_codex(), |project| project.join(".codex"))
}

fn value(path: &Path, format: FileFormat) -> Result<Value> {
    Ok(config_edit::read(format, &atomic_replace::text(path)?.unwrap_or_default())?)
}

//! The agents that Byleave can be configured for: where their settings are, and what `init` writes into them.
//!
//! These are facts about other programs, as data. Byleave does not read these settings as its own. This module changes nothing by
//! itself.

mod layers;
mod mcp_entries;
mod our_entries;
mod paths;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_hook::AgentKind;
use serde_json::Value;

use crate::atomic_replace;
use crate::config_edit::{self, EditOp, FileFormat};

pub(crate) use self::layers::{SettingsLayer, off_switches, settings_layers};
pub(crate) use self::mcp_entries::{MovableServer, NotMovable, parse_server};
pub(crate) use self::our_entries::{
    ProgramPaths, codex_rules, gateway_program, hook_program, sees_every_permission_request,
};
pub(crate) use self::paths::{CODEX_RULES, SettingsDirs, local_servers, targets, usage_traces};

/// Returns the steps that remain for the person after the setup.
pub(crate) const fn remaining_steps(agent: AgentKind) -> &'static [&'static str] {
    match agent {
        AgentKind::ClaudeCode => {
            &["restart every Claude Code session: Claude Code reads its settings only at the start"]
        }
        AgentKind::Codex => &["restart Codex"],
        AgentKind::Gemini => {
            &["restart Gemini CLI; hooks in a project's settings only run in a folder that you trust"]
        }
        AgentKind::Cursor => &["restart Cursor, then check that `byleave` is on under Settings, MCP"],
        AgentKind::Goose => &["restart Goose"],
        AgentKind::Copilot => {
            &["restart Copilot CLI; in a project, its hooks only run in a folder that you trust"]
        }
    }
}

/// Describes what is enforced for the agent once it is set up, and what is not.
pub(crate) const fn enforcement_summary(agent: AgentKind) -> &'static str {
    match agent {
        AgentKind::ClaudeCode | AgentKind::Codex | AgentKind::Gemini | AgentKind::Cursor => {
            "enforced: MCP calls, and shell commands, which run in our sandbox; evaluated and recorded only: \
             its other built-in tools; a hook that fails blocks the call"
        }
        AgentKind::Goose => {
            "enforced: MCP calls; evaluated and recorded only: its built-in tools, shell commands included; \
             a hook that fails blocks the call"
        }
        AgentKind::Copilot => {
            "enforced: MCP calls, and shell commands, which run in our sandbox; evaluated and recorded only: \
             its other built-in tools; a hook that fails blocks the call; its built-in GitHub server is not \
             behind the gateway (start it with `--disable-builtin-mcps`)"
        }
    }
}

/// Returns the settings that an agent reads in this directory, the last one wins. A file that does not exist is empty.
pub(crate) fn layer_values(
    agent: AgentKind,
    places: &SettingsDirs,
    directory: &Path,
) -> Result<Vec<(SettingsLayer, Value)>> {
    let layers = settings_layers(agent, places, directory).into_iter().map(|layer| {
        let value = file_value(&layer.path, layer.format)?;
        Ok((layer, value))
    });
    layers.collect()
}

/// Reads a settings file. One that does not exist is empty.
pub(crate) fn file_value(path: &Path, format: FileFormat) -> Result<Value> {
    let text = atomic_replace::text(path)?.unwrap_or_default();
    config_edit::read(format, &text).with_context(|| format!("`{}`", path.display()))
}

/// Returns the lines that start our hooks, each with the file in which it is.
pub(crate) fn hook_commands(
    agent: AgentKind,
    places: &SettingsDirs,
    programs: &ProgramPaths,
) -> Vec<(PathBuf, String)> {
    let targets = targets(agent, places, programs);
    let items = targets.iter().flat_map(|target| target.items.iter().map(move |(_, item)| (target, item)));
    let lines = items.filter_map(|(target, item)| {
        let line = our_entries::hook_line(item).filter(|_| our_entries::is_our_hook(item))?;
        Some((target.path.clone(), line.to_owned()))
    });
    lines.collect()
}

/// Returns the name of the agent's program.
pub(crate) const fn program_name(agent: AgentKind) -> &'static str {
    match agent {
        AgentKind::ClaudeCode => "claude",
        AgentKind::Codex => "codex",
        AgentKind::Gemini => "gemini",
        AgentKind::Cursor => "cursor-agent",
        AgentKind::Goose => "goose",
        AgentKind::Copilot => "copilot",
    }
}

/// Says how the doctor knows that the agent starts our hook.
pub(crate) const fn doctor_limits(agent: AgentKind) -> &'static str {
    match agent {
        AgentKind::Codex => "a test call was denied, and Codex lists the hooks as trusted",
        _ => {
            "a test call was denied, and the settings start the hook; this agent lists no hooks, so no more can be known"
        }
    }
}

/// A settings file of an agent, and the entries that belong into it.
pub(crate) struct AgentSettingsFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    /// The path of the MCP servers in the file.
    pub(crate) servers: Option<Vec<String>>,
    /// Values to set, whatever was there before.
    pub(crate) settings: Vec<(Vec<String>, Value)>,
    /// Items that must be in lists exactly once.
    pub(crate) items: Vec<(Vec<String>, Value)>,
    /// Values that would switch everything off again.
    pub(crate) disable_switches: Vec<(Vec<String>, Value)>,
}

impl AgentSettingsFile {
    /// Returns the edits that this content of the file needs.
    pub(crate) fn ops(&self, value: &Value) -> Vec<EditOp> {
        let mut ops = Vec::new();
        for (at, wanted) in &self.settings {
            if config_edit::find(value, at) != Some(wanted) {
                ops.push(EditOp::Set { at: at.clone(), value: wanted.clone() });
            }
        }
        for (at, wanted) in &self.items {
            let there = config_edit::find(value, at).and_then(Value::as_array);
            let there: Vec<&Value> = there.into_iter().flatten().collect();
            if there.iter().filter(|item| **item == wanted).count() == 1
                && there.iter().all(|item| *item == wanted || !our_entries::is_our_hook(item))
            {
                continue;
            }
            // An item of an older program, or a duplicate.
            let mut old: Vec<&Value> = Vec::new();
            for item in there.into_iter().filter(|item| *item == wanted || our_entries::is_our_hook(item)) {
                if !old.contains(&item) {
                    old.push(item);
                    ops.push(EditOp::Drop { at: at.clone(), value: item.clone() });
                }
            }
            ops.push(EditOp::Append { at: at.clone(), value: wanted.clone() });
        }
        ops
    }

    /// Returns what is switched off in this content of the file.
    pub(crate) fn disabled_settings(&self, value: &Value) -> Vec<String> {
        let is_so = |(at, wrong): &&(Vec<String>, Value)| config_edit::find(value, at) == Some(wrong);
        self.disable_switches
            .iter()
            .filter(is_so)
            .map(|(at, wrong)| format!("`{}` is {wrong}", at.join(".")))
            .collect()
    }
}

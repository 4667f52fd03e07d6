//! The agents that Byleave can be configured for: where their settings are, and what `init` writes into them.
//!
//! These are facts about other programs, as data. Byleave does not read these settings as its own. This module changes nothing by
//! itself.

mod mcp_entries;
mod our_entries;
mod paths;

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config_edit::{self, EditOp, FileFormat};

pub(crate) use self::mcp_entries::{MovableServer, NotMovable, parse_server};
pub(crate) use self::our_entries::{ProgramPaths, gateway_program, hook_program};
pub(crate) use self::paths::{SettingsDirs, local_servers, targets, usage_traces};

/// An agent whose settings we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KnownAgent {
    ClaudeCode,
    Codex,
    Gemini,
    Cursor,
    Goose,
    Copilot,
}

impl KnownAgent {
    pub(crate) const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::Cursor, Self::Goose, Self::Copilot];

    /// Returns the name as typed on the command line and as used in calls.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Cursor => "cursor",
            Self::Goose => "goose",
            Self::Copilot => "copilot",
        }
    }

    /// Returns the steps that remain for the person.
    pub(crate) const fn remaining_steps(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => {
                &["restart every Claude Code session: Claude Code reads its settings only at the start"]
            }
            Self::Codex => &[
                "in Codex, type `/hooks` and trust both byleave hooks: until then Codex silently skips them",
                "restart Codex",
            ],
            Self::Gemini => {
                &["restart Gemini CLI; hooks in a project's settings only run in a folder that you trust"]
            }
            Self::Cursor => &["restart Cursor, then check that `byleave` is on under Settings, MCP"],
            Self::Goose => &["restart Goose"],
            Self::Copilot => {
                &["restart Copilot CLI; in a project, its hooks only run in a folder that you trust"]
            }
        }
    }

    /// Describes what is enforced for the agent once it is set up, and what is not.
    pub(crate) const fn enforcement_summary(self) -> &'static str {
        match self {
            Self::ClaudeCode | Self::Gemini | Self::Cursor => {
                "enforced: MCP calls, and shell commands, which run in our sandbox; evaluated and recorded only: \
                 its other built-in tools; a hook that fails blocks the call"
            }
            Self::Codex => {
                "enforced: MCP calls, and shell commands, which run in our sandbox, once you trusted the hooks \
                 under `/hooks`; evaluated and recorded only: apply_patch and the rest; a hook that fails blocks \
                 the call"
            }
            Self::Goose => {
                "enforced: MCP calls; evaluated and recorded only: its built-in tools, shell commands included; \
                 a hook that fails blocks the call"
            }
            Self::Copilot => {
                "enforced: MCP calls, and shell commands, which run in our sandbox; evaluated and recorded only: \
                 its other built-in tools; a hook that fails blocks the call; its built-in GitHub server is not \
                 behind the gateway (start it with `--disable-builtin-mcps`)"
            }
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

#[cfg(test)]
mod tests {
    use byleave_hook::Dialect;

    use super::*;

    // req: M2
    #[test]
    fn who_can_be_set_up_has_a_hook_of_the_same_name() {
        assert_eq!(KnownAgent::value_variants(), KnownAgent::ALL, "one is not in `ALL`");
        assert_eq!(
            KnownAgent::ALL.map(KnownAgent::name).as_slice(),
            Dialect::ALL.map(Dialect::name).as_slice()
        );
        for agent in KnownAgent::ALL {
            // As typed, and as serialized.
            assert_eq!(agent.to_possible_value().unwrap().get_name(), agent.name());
            assert_eq!(serde_json::to_value(agent).unwrap(), agent.name());
        }
    }
}

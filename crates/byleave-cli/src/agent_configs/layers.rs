//! The settings that can switch our hooks or the gateway off, wherever an agent reads them: its organisation's, the person's and the
//! project's.

use std::path::{Path, PathBuf};

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::our_entries::NAME;
use super::paths::SettingsDirs;
use crate::config_edit::{self, FileFormat};

/// A file with settings of an agent.
#[derive(Clone, Debug)]
pub(crate) struct SettingsLayer {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
}

/// A setting that switches our hooks or the gateway off.
#[derive(Clone, Debug)]
pub(crate) enum OffSwitch {
    /// The value of the last file that has the key.
    Is(&'static [&'static str], Value),
    /// A list in any of the files.
    Holds(&'static [&'static str], Value),
}

/// Returns the files that an agent reads in this directory. The last one wins.
pub(crate) fn settings_layers(
    agent: AgentKind,
    places: &SettingsDirs,
    directory: &Path,
) -> Vec<SettingsLayer> {
    let system = places.system.as_path();
    let layer = |format: FileFormat| move |path: PathBuf| SettingsLayer { path, format };
    match agent {
        AgentKind::ClaudeCode => [
            places.own(places.claude.as_ref(), ".claude").join("settings.json"),
            directory.join(".claude/settings.json"),
            directory.join(".claude/settings.local.json"),
            system.join("claude-code/managed-settings.json"),
        ]
        .map(layer(FileFormat::Json))
        .into(),
        // Codex itself lists what it runs. This is for a person who does not have the program here.
        AgentKind::Codex => [places.own_codex().join("config.toml")].map(layer(FileFormat::Toml)).into(),
        AgentKind::Gemini => [
            system.join("gemini-cli/system-defaults.json"),
            places.home.join(".gemini/settings.json"),
            directory.join(".gemini/settings.json"),
            system.join("gemini-cli/settings.json"),
        ]
        .map(layer(FileFormat::Json))
        .into(),
        // Seen with 1.0.102: no other file switches off the hooks of this one.
        AgentKind::Copilot => {
            let own = places.own(places.copilot.as_ref(), ".copilot");
            [own.join("hooks/byleave.json")].map(layer(FileFormat::Json)).into()
        }
        AgentKind::Cursor | AgentKind::Goose => Vec::new(),
    }
}

/// Returns the settings that switch our part of an agent off.
pub(crate) fn off_switches(agent: AgentKind) -> Vec<OffSwitch> {
    use OffSwitch::{Holds, Is};
    match agent {
        AgentKind::ClaudeCode => vec![
            Is(&["disableAllHooks"], json!(true)),
            Is(&["allowManagedHooksOnly"], json!(true)),
            Is(&["allowManagedMcpServersOnly"], json!(true)),
            Holds(&["deniedMcpServers"], json!({ "serverName": NAME })),
        ],
        AgentKind::Codex => {
            vec![Is(&["features", "hooks"], json!(false)), Is(&["features", "codex_hooks"], json!(false))]
        }
        AgentKind::Gemini => vec![
            Is(&["hooksConfig", "enabled"], json!(false)),
            Is(&["tools", "enableHooks"], json!(false)),
            Holds(&["hooksConfig", "disabled"], json!(NAME)),
            Holds(&["mcp", "excluded"], json!(NAME)),
        ],
        AgentKind::Copilot => vec![Is(&["disableAllHooks"], json!(true))],
        AgentKind::Cursor | AgentKind::Goose => Vec::new(),
    }
}

impl OffSwitch {
    /// Returns the file that switches it off, and the setting, given the values of all files in order.
    pub(crate) fn find<'a>(&self, layers: &'a [(SettingsLayer, Value)]) -> Option<(&'a Path, String)> {
        match self {
            Self::Is(at, wrong) => {
                let said = |(layer, value): &'a (SettingsLayer, Value)| {
                    config_edit::find(value, at).map(|value| (layer.path.as_path(), value))
                };
                let (path, value) = layers.iter().rev().find_map(said)?;
                (value == wrong).then(|| (path, format!("`{}` is {wrong}", at.join("."))))
            }
            Self::Holds(at, item) => {
                let holds = |value: &Value| {
                    config_edit::find(value, at)
                        .and_then(Value::as_array)
                        .is_some_and(|list| list.contains(item))
                };
                let (layer, _) = layers.iter().find(|(_, value)| holds(value))?;
                Some((layer.path.as_path(), format!("`{}` has {item}", at.join("."))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: M2
    #[test]
    fn the_last_file_that_has_a_setting_decides_and_a_list_counts_anywhere() {
        let system = tempfile::tempdir().unwrap();
        let places = SettingsDirs {
            home: "/home/u".into(),
            project: None,
            claude: None,
            codex: None,
            copilot: None,
            xdg_config: None,
            system: system.path().to_owned(),
        };
        for agent in AgentKind::ALL {
            let files = settings_layers(agent, &places, Path::new("/w"));
            for switch in off_switches(agent) {
                for (number, file) in files.iter().enumerate() {
                    let mut layers: Vec<_> = files.iter().map(|file| (file.clone(), json!({}))).collect();
                    let (OffSwitch::Is(at, wrong) | OffSwitch::Holds(at, wrong)) = &switch;
                    let is_list = matches!(switch, OffSwitch::Holds(..));
                    let nested =
                        |value: Value| at.iter().rev().fold(value, |value, key| json!({ *key: value }));
                    assert!(switch.find(&layers).is_none());
                    layers[number].1 = nested(if is_list { json!(["x", wrong]) } else { wrong.clone() });
                    let (path, what) = switch.find(&layers).unwrap();
                    assert_eq!(path, file.path);
                    assert!(what.contains(&at.join(".")), "{what}");
                    let Some(later) = layers.get_mut(number + 1) else { continue };
                    later.1 = nested(if is_list { json!([]) } else { json!(null) });
                    assert_eq!(switch.find(&layers).is_some(), is_list, "{}: {at:?}", agent.name());
                }
            }
        }
    }
}

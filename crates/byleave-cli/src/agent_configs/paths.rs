//! The paths of each agent's settings.

use std::path::{Path, PathBuf};

use byleave_hook::AgentKind;
use serde_json::{Value, json};

use super::AgentSettingsFile;
use super::our_entries::{self, ProgramPaths};
use crate::config_edit::{FileFormat, TEXT};

/// The file of our rules in the settings directory of Codex.
pub(crate) const CODEX_RULES: &str = "rules/byleave.rules";

/// The directories in which settings are searched.
#[derive(Clone, Debug)]
pub(crate) struct SettingsDirs {
    pub(crate) home: PathBuf,
    /// The project directory, if its settings are meant and not the person's own.
    pub(crate) project: Option<PathBuf>,
    pub(crate) claude: Option<PathBuf>,
    pub(crate) codex: Option<PathBuf>,
    pub(crate) copilot: Option<PathBuf>,
    pub(crate) xdg_config: Option<PathBuf>,
    /// The directory in which an organisation keeps settings for everyone on the machine.
    pub(crate) system: PathBuf,
}

impl SettingsDirs {
    pub(super) fn own(&self, said: Option<&PathBuf>, name: &str) -> PathBuf {
        said.cloned().unwrap_or_else(|| self.home.join(name))
    }

    /// Returns the person's own directory of Codex, which also keeps the hooks that the person trusts in a project.
    pub(crate) fn own_codex(&self) -> PathBuf {
        self.own(self.codex.as_ref(), ".codex")
    }

    fn goose(&self) -> PathBuf {
        self.xdg_config.clone().unwrap_or_else(|| self.home.join(".config")).join("goose")
    }

    /// Returns the path of Claude Code's state file: beside its directory, or in the directory that was named.
    fn claude_json(&self) -> PathBuf {
        self.claude.as_ref().map_or_else(|| self.home.join(".claude.json"), |dir| dir.join(".claude.json"))
    }
}

/// Returns the paths that exist if somebody uses the agent.
pub(crate) fn usage_traces(agent: AgentKind, places: &SettingsDirs) -> Vec<PathBuf> {
    match agent {
        AgentKind::ClaudeCode => vec![places.claude_json(), places.own(places.claude.as_ref(), ".claude")],
        AgentKind::Codex => vec![places.own_codex()],
        AgentKind::Gemini => vec![places.home.join(".gemini")],
        AgentKind::Cursor => vec![places.home.join(".cursor")],
        AgentKind::Goose => vec![places.goose()],
        AgentKind::Copilot => vec![places.own(places.copilot.as_ref(), ".copilot")],
    }
}

/// Returns the files to change and their entries. Empty if the agent has no such settings.
pub(crate) fn targets(
    agent: AgentKind,
    places: &SettingsDirs,
    programs: &ProgramPaths,
) -> Vec<AgentSettingsFile> {
    let dir = |name: &str, said: Option<&PathBuf>| match &places.project {
        Some(project) => project.join(name),
        None => places.own(said, name),
    };
    let json = |path: PathBuf| AgentSettingsFile {
        path,
        format: FileFormat::Json,
        servers: None,
        settings: Vec::new(),
        items: Vec::new(),
        disable_switches: Vec::new(),
    };
    let with_gateway = |target: AgentSettingsFile, table: &str| AgentSettingsFile {
        servers: Some(at(&[table])),
        settings: vec![(at(&[table, our_entries::NAME]), our_entries::gateway(agent, programs))],
        ..target
    };
    let with_hooks = |mut target: AgentSettingsFile| {
        let lists = our_entries::hooks(agent, programs);
        target.items.extend(lists.into_iter().map(|(list, item)| (at(&["hooks", list]), item)));
        target
    };
    let off = |keys: &[&str], wrong: Value| (at(keys), wrong);
    match agent {
        AgentKind::ClaudeCode => {
            let servers = match &places.project {
                Some(project) => project.join(".mcp.json"),
                None => places.claude_json(),
            };
            let mut settings = with_hooks(json(dir(".claude", places.claude.as_ref()).join("settings.json")));
            // Otherwise the agent would ask about each of our tools before Byleave does.
            settings.items.push((at(&["permissions", "allow"]), json!("mcp__byleave")));
            settings.disable_switches = vec![off(&["disableAllHooks"], json!(true))];
            vec![with_gateway(json(servers), "mcpServers"), settings]
        }
        AgentKind::Codex => {
            let dir = dir(".codex", places.codex.as_ref());
            let mut config = with_gateway(json(dir.join("config.toml")), "mcp_servers");
            config.format = FileFormat::Toml;
            config.disable_switches = vec![
                off(&["features", "hooks"], json!(false)),
                off(&["features", "codex_hooks"], json!(false)),
            ];
            let hooks = with_hooks(json(dir.join("hooks.json")));
            let mut rules = json(dir.join(CODEX_RULES));
            rules.format = FileFormat::Text;
            let (gateway, state) = (programs.gateway.to_string_lossy(), programs.state.to_string_lossy());
            rules.settings.push((at(&[TEXT]), json!(our_entries::codex_rules(&gateway, &state))));
            vec![config, hooks, rules]
        }
        AgentKind::Gemini => {
            let mut settings =
                with_hooks(with_gateway(json(dir(".gemini", None).join("settings.json")), "mcpServers"));
            settings.disable_switches = vec![
                off(&["hooksConfig", "enabled"], json!(false)),
                off(&["tools", "enableHooks"], json!(false)),
            ];
            vec![settings]
        }
        AgentKind::Cursor => {
            let dir = dir(".cursor", None);
            let mut hooks = with_hooks(json(dir.join("hooks.json")));
            hooks.settings.push((at(&["version"]), json!(1)));
            vec![with_gateway(json(dir.join("mcp.json")), "mcpServers"), hooks]
        }
        AgentKind::Goose => {
            let mut config = with_gateway(json(places.goose().join("config.yaml")), "extensions");
            config.format = FileFormat::Yaml;
            let plugin = dir(".agents", None).join("plugins/byleave");
            let mut manifest = json(plugin.join("plugin.json"));
            let about = "Asks byleave before each tool call, and tells it afterwards";
            for (key, value) in
                [("name", our_entries::NAME), ("version", env!("CARGO_PKG_VERSION")), ("description", about)]
            {
                manifest.settings.push((at(&[key]), json!(value)));
            }
            let hooks = with_hooks(json(plugin.join("hooks/hooks.json")));
            // Goose has no MCP servers per project.
            if places.project.is_some() { vec![manifest, hooks] } else { vec![config, manifest, hooks] }
        }
        AgentKind::Copilot => {
            let (servers, hooks) = match &places.project {
                Some(project) => {
                    (project.join(".github/mcp.json"), project.join(".github/hooks/byleave.json"))
                }
                None => {
                    let dir = places.own(places.copilot.as_ref(), ".copilot");
                    (dir.join("mcp-config.json"), dir.join("hooks/byleave.json"))
                }
            };
            let mut hooks = with_hooks(json(hooks));
            hooks.settings.push((at(&["version"]), json!(1)));
            hooks.disable_switches = vec![off(&["disableAllHooks"], json!(true))];
            vec![with_gateway(json(servers), "mcpServers"), hooks]
        }
    }
}

/// Returns where Claude Code keeps the servers of one directory within the person's own file.
pub(crate) fn local_servers(
    agent: AgentKind,
    places: &SettingsDirs,
    directory: &Path,
) -> Option<(PathBuf, Vec<String>)> {
    let path = directory.to_str()?;
    (agent == AgentKind::ClaudeCode).then(|| (places.claude_json(), at(&["projects", path, "mcpServers"])))
}

fn at(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use byleave_gate::core::decision::Verdict;
    use byleave_gate::core::effect::{Effect, Plan};
    use byleave_gate::core::id::{AgentId, SessionId};
    use byleave_gate::core::manifest::Manifest;
    use byleave_gate::core::policy::{PathVariables as RulePlaces, Policy, PolicyRequest};

    use super::*;

    // req: P4
    #[test]
    fn nobody_who_is_gated_writes_or_deletes_what_gates_them() {
        let whose = |project: Option<&str>| SettingsDirs {
            home: "/home/u".into(),
            project: project.map(PathBuf::from),
            claude: None,
            codex: None,
            copilot: None,
            xdg_config: None,
            system: "/etc".into(),
        };
        let places = RulePlaces { workspace: Some("/w"), home: Some("/home/u"), ..RulePlaces::default() };
        let policy = Policy::builtin(&places).unwrap();
        let programs = ProgramPaths {
            gateway: "/usr/bin/byleave".into(),
            hook: "/usr/bin/byleave-hook".into(),
            state: "/home/u/.local/state/byleave".into(),
        };
        let manifest = Manifest::new("write_file", "", json!({}));
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
        for agent_before in AgentKind::ALL {
            for places in [whose(None), whose(Some("/w"))] {
                for target in targets(agent_before, &places, &programs) {
                    let path = target.path.to_str().unwrap().to_owned();
                    let mut effects = vec![Effect::Write { path: path.clone() }];
                    // `.claude.json` is Claude Code's own state file, so no rule of ours forbids its deletion.
                    if !path.ends_with("/.claude.json") {
                        effects.push(Effect::Delete { path });
                    }
                    for effect in effects {
                        let plan = Plan { effects: vec![effect.clone()], ..Plan::default() };
                        let ruling = policy.evaluate(&PolicyRequest::new(&manifest, &plan, &session, &agent));
                        assert_eq!(ruling.verdict, Verdict::Deny, "{}: {effect}", agent_before.name());
                    }
                }
            }
        }
    }
}

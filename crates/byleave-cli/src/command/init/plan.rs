//! Plans the new text of each file when an agent is set up. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_hook::AgentKind;
use serde_json::Value;

use crate::agent_configs::{self, AgentSettingsFile, MovableServer, NotMovable, ProgramPaths, SettingsDirs};
use crate::atomic_replace;
use crate::config_edit::{self, EditOp, FileFormat};
use crate::error::CliError;
use crate::mcp_config_file::{self, ServerEntry, ServersEditError};
use crate::resolved_options::ResolvedOptions;

/// The plan for one agent.
pub(super) struct InitPlan {
    pub(super) agent: AgentKind,
    pub(super) project: Option<PathBuf>,
    pub(super) files: Vec<InitFileEdit>,
    pub(super) servers: ServersFileEdit,
    /// The servers that move: their name in the agent's settings, and their new name.
    pub(super) moved: Vec<(String, String)>,
    /// Servers that stay ungoverned, and why.
    pub(super) not_moved: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// A file and its new text.
pub(super) struct InitFileEdit {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
    pub(super) before: Option<String>,
    pub(super) after: String,
    pub(super) ops: Vec<EditOp>,
}

/// The file of servers and its new text.
pub(super) struct ServersFileEdit {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: String,
    pub(super) added: Vec<String>,
    pub(super) shared: Vec<String>,
}

/// The old and new text of a file, for display.
pub(super) struct FileDiffView<'a> {
    pub(super) path: &'a Path,
    pub(super) format: FileFormat,
    pub(super) before: Option<&'a str>,
    pub(super) after: Option<&'a str>,
}

impl InitPlan {
    pub(super) fn new(
        agent: AgentKind,
        project: Option<PathBuf>,
        programs: &ProgramPaths,
        options: &ResolvedOptions,
    ) -> Result<Self> {
        let places = options.agent_places(project.clone())?;
        let path = atomic_replace::target(&servers_path(options)?)?;
        let before = atomic_replace::text(&path)?;
        let after = before.clone().unwrap_or_default();
        let servers = ServersFileEdit { path, before, after, added: Vec::new(), shared: Vec::new() };
        let mut plan = Self {
            agent,
            project,
            files: Vec::new(),
            servers,
            moved: Vec::new(),
            not_moved: Vec::new(),
            notes: Vec::new(),
        };
        for target in agent_configs::targets(agent, &places, programs) {
            plan.file(&target)?;
        }
        plan.local_servers(&places)?;
        Ok(plan)
    }

    /// Returns a plan for the same agent that changes only this file.
    pub(super) fn with_only(&self, edit: InitFileEdit) -> Self {
        let (path, before) = (self.servers.path.clone(), None);
        Self {
            agent: self.agent,
            project: self.project.clone(),
            files: vec![edit],
            servers: ServersFileEdit {
                path,
                before,
                after: String::new(),
                added: Vec::new(),
                shared: Vec::new(),
            },
            moved: Vec::new(),
            not_moved: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Checks whether any file changes.
    pub(super) fn changes_something(&self) -> bool {
        self.files.iter().any(|file| !file.ops.is_empty()) || !self.servers.added.is_empty()
    }

    /// Returns the texts for display.
    pub(super) fn texts(&self) -> Vec<FileDiffView<'_>> {
        let files = self.files.iter().filter(|file| !file.ops.is_empty()).map(|file| FileDiffView {
            path: &file.path,
            format: file.format,
            before: file.before.as_deref(),
            after: Some(&file.after),
        });
        let servers =
            Some(&self.servers).filter(|servers| !servers.added.is_empty()).map(|servers| FileDiffView {
                path: &servers.path,
                format: FileFormat::Toml,
                before: servers.before.as_deref(),
                after: Some(&servers.after),
            });
        files.chain(servers).collect()
    }

    fn file(&mut self, target: &AgentSettingsFile) -> Result<()> {
        let path = atomic_replace::target(&target.path)?;
        let before = atomic_replace::text(&path)?;
        let text = before.clone().unwrap_or_default();
        let shown = || format!("cannot change `{}`", path.display());
        let value = config_edit::read(target.format, &text).with_context(shown)?;
        let mut ops = target.ops(&value);
        if let Some(at) = &target.servers {
            for name in self.servers_at(&path, &value, at)? {
                ops.push(EditOp::Remove { at: at.iter().cloned().chain([name]).collect() });
            }
        }
        for switch in target.disabled_settings(&value) {
            self.notes
                .push(format!("in `{}`, {switch}: hooks do not run until you change that", path.display()));
        }
        let after = config_edit::apply(target.format, &text, &ops).with_context(shown)?;
        self.files.push(InitFileEdit { path, format: target.format, before, after, ops });
        Ok(())
    }

    /// Plans the move of the servers that Claude Code keeps for one directory in the person's own file.
    fn local_servers(&mut self, places: &SettingsDirs) -> Result<()> {
        let directory = self.project.clone().unwrap_or_default();
        let Some((path, at)) = agent_configs::local_servers(self.agent, places, &directory) else {
            return Ok(());
        };
        let path = atomic_replace::target(&path)?;
        let Some(before) = atomic_replace::text(&path)? else { return Ok(()) };
        let shown = || format!("cannot change `{}`", path.display());
        let value = config_edit::read(FileFormat::Json, &before).with_context(shown)?;
        if self.project.is_none() {
            let projects = value.get("projects").and_then(Value::as_object).into_iter().flatten();
            let has_some = |about: &Value| {
                about.get("mcpServers").and_then(Value::as_object).is_some_and(|servers| !servers.is_empty())
            };
            for (project, _) in projects.filter(|(_, about)| has_some(about)) {
                self.not_moved.push(format!(
                    "MCP servers of the project `{project}`: `byleave init claude-code --project` in that \
                     directory moves them"
                ));
            }
            return Ok(());
        }
        let names = self.servers_at(&path, &value, &at)?;
        let ops: Vec<EditOp> = names
            .into_iter()
            .map(|name| EditOp::Remove { at: at.iter().cloned().chain([name]).collect() })
            .collect();
        let after = config_edit::apply(FileFormat::Json, &before, &ops).with_context(shown)?;
        self.files.push(InitFileEdit { path, format: FileFormat::Json, before: Some(before), after, ops });
        Ok(())
    }

    /// Plans the move of the servers at this path behind the gateway. Returns the names that are removed.
    fn servers_at(&mut self, path: &Path, value: &Value, at: &[String]) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let all = config_edit::find(value, at).and_then(Value::as_object);
        // Sorted, so that the order does not depend on build features.
        let all: BTreeMap<&String, &Value> = all.into_iter().flatten().collect();
        for (name, entry) in all {
            if agent_configs::gateway_program(entry).is_some() {
                continue;
            }
            if name == "byleave" {
                let taken = CliError::refused(format!(
                    "`{}` already has a different server named `byleave`",
                    path.display()
                ));
                return Err(taken.hint("rename that server, then try again").into());
            }
            match agent_configs::parse_server(self.agent, entry, self.project.as_deref()) {
                Ok(MovableServer { entry, notes }) => {
                    self.add(path, name, &entry)?;
                    self.notes.extend(notes.into_iter().map(|note| format!("server `{name}`: {note}")));
                    names.push(name.clone());
                }
                Err(NotMovable::Harmless) => {}
                Err(NotMovable::Ungoverned(why)) => {
                    self.not_moved.push(format!("MCP server `{name}` in `{}`: {why}", path.display()));
                }
            }
        }
        Ok(names)
    }

    fn add(&mut self, path: &Path, theirs: &str, entry: &ServerEntry) -> Result<()> {
        let hint = format!("rename one of them in `{}`, then try again", path.display());
        let unnamed = || CliError::refused(format!("server `{theirs}` has a name without letters or digits"));
        let name = mcp_config_file::to_server_name(theirs).ok_or_else(|| unnamed().hint(hint.clone()))?;
        let servers = &mut self.servers;
        match mcp_config_file::add(&servers.after, &name, entry) {
            Ok(after) if after == servers.after => servers.shared.push(name.clone()),
            Ok(after) => {
                servers.after = after;
                servers.added.push(name.clone());
            }
            Err(ServersEditError::Taken(_)) => {
                let what = format!(
                    "server `{theirs}` differs from the one that `{}` calls `{name}`",
                    servers.path.display()
                );
                return Err(CliError::refused(what).hint(hint).into());
            }
            Err(fault) => {
                return Err(fault).with_context(|| format!("cannot change `{}`", servers.path.display()));
            }
        }
        self.moved.push((theirs.to_owned(), name));
        let ours: BTreeSet<&String> = self.moved.iter().map(|(_, name)| name).collect();
        if ours.len() < self.moved.len() {
            return Err(CliError::refused(format!("another server would get the same name as `{theirs}`"))
                .hint(hint)
                .into());
        }
        Ok(())
    }
}

/// Returns the path of the file of servers behind the gateway.
pub(super) fn servers_path(options: &ResolvedOptions) -> Result<PathBuf> {
    let nowhere =
        || CliError::new("your settings directory is not known").hint("set HOME or XDG_CONFIG_HOME");
    Ok(Path::new(options.config.as_ref().ok_or_else(nowhere)?).join(mcp_config_file::FILE))
}

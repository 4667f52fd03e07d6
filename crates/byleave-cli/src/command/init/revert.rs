//! Reverts a setup. An untouched file gets its old content, byte for byte. In a changed file only our entries are removed, the
//! servers come back, and other changes stay.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::plan::FileDiffView;
use crate::atomic_replace;
use crate::config_edit::{self, EditOp, FileFormat};
use crate::error::CliError;
use crate::init_journal::{ChangedFile, InitJournal};
use crate::mcp_config_file;
use crate::resolved_options::ResolvedOptions;

/// The plan of a revert.
pub(super) struct RevertPlan<'a> {
    pub(super) setup: &'a InitJournal,
    files: Vec<RevertedFile>,
    made: Vec<PathBuf>,
    pub(super) notes: Vec<String>,
}

struct RevertedFile {
    path: PathBuf,
    format: FileFormat,
    now: Option<String>,
    then: Option<String>,
}

impl<'a> RevertPlan<'a> {
    pub(super) fn new<'b>(
        setup: &'a InitJournal,
        others: impl Iterator<Item = &'b InitJournal>,
    ) -> Result<Self> {
        let mut back = Self { setup, files: Vec::new(), made: Vec::new(), notes: Vec::new() };
        for step in setup.steps.iter().rev() {
            for changed in &step.files {
                back.file(changed)?;
                back.made.extend(changed.created_dirs.iter().rev().cloned());
            }
        }
        back.servers(&needed(others))?;
        Ok(back)
    }

    /// Returns the texts for display.
    pub(super) fn texts(&self) -> Vec<FileDiffView<'_>> {
        let changed = self.files.iter().filter(|file| file.now != file.then);
        let shown = changed.map(|file| FileDiffView {
            path: &file.path,
            format: file.format,
            before: file.now.as_deref(),
            after: file.then.as_deref(),
        });
        shown.collect()
    }

    /// Writes the agent's own files first. A server in both places is found; a server in neither would be lost.
    pub(super) fn apply(&self, options: &ResolvedOptions) -> Result<()> {
        for file in self.files.iter().filter(|file| file.now != file.then) {
            match (&file.now, &file.then) {
                (now, Some(then)) => atomic_replace::replace(&file.path, now.as_deref(), then)?,
                (Some(now), None) => atomic_replace::remove(&file.path, now)?,
                (None, None) => {}
            }
        }
        for directory in &self.made {
            // If something else is in the directory, it stays.
            fs::remove_dir(directory).unwrap_or_default();
        }
        self.setup.forget(options)
    }

    fn file(&mut self, changed: &ChangedFile) -> Result<()> {
        let before = self.setup.before(&changed.texts)?;
        let after = self.setup.after(&changed.texts)?;
        let place = self.place(&changed.path, changed.format)?;
        let current = self.files.get(place).and_then(|file| file.then.clone());
        let then = if current.as_deref() == Some(after.as_str()) {
            before
        } else if current == before {
            current
        } else {
            let current = current.unwrap_or_default();
            let backup = self.setup.directory();
            let merged = taken_out(changed, before.as_deref(), &after, &current).map_err(|fault| {
                CliError::refused(format!(
                    "`{}` was changed after setup, and {fault:#}",
                    changed.path.display()
                ))
                .hint(format!("nothing was changed; the earlier version is in `{}`", backup.display()))
            })?;
            self.notes.push(format!(
                "`{}` was changed after setup: only byleave's part was removed",
                changed.path.display()
            ));
            // A file that we created and that is empty now did not exist before.
            let is_empty = config_edit::read(changed.format, &merged)
                .is_ok_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty));
            Some(merged).filter(|_| before.is_some() || !is_empty)
        };
        if let Some(file) = self.files.get_mut(place) {
            file.then = then;
        }
        Ok(())
    }

    /// Plans the removal of the servers that came with this agent and that no other agent needs.
    fn servers(&mut self, needed: &BTreeMap<String, &'static str>) -> Result<()> {
        for step in self.setup.steps.iter().rev() {
            let Some(servers) = &step.servers else { continue };
            self.made.extend(servers.created_dirs.iter().rev().cloned());
            let before = self.setup.before(&servers.texts)?;
            let after = self.setup.after(&servers.texts)?;
            let written = mcp_config_file::all(&after)?;
            let place = self.place(&servers.path, FileFormat::Toml)?;
            let Some(mut text) = self.files.get(place).and_then(|file| file.then.clone()) else { continue };
            let is_whole = text == after && servers.added.iter().all(|name| !needed.contains_key(name));
            let there = mcp_config_file::all(&text)
                .with_context(|| format!("cannot read `{}`", servers.path.display()))?;
            for name in servers.added.iter().filter(|name| there.contains_key(*name)) {
                if let Some(agent) = needed.get(name) {
                    self.notes.push(format!("server `{name}` stays behind the gateway: {agent} uses it too"));
                } else if there.get(name) == written.get(name) {
                    text = mcp_config_file::remove(&text, name)?;
                } else {
                    self.notes.push(format!(
                        "server `{name}` stays behind the gateway: you changed it after setup"
                    ));
                }
            }
            let then = if is_whole {
                before
            } else {
                Some(text).filter(|text| before.is_some() || !text.trim().is_empty())
            };
            if let Some(file) = self.files.get_mut(place) {
                file.then = then;
            }
        }
        Ok(())
    }

    /// Returns the index of the file in the list, and adds it with its current text if necessary.
    fn place(&mut self, path: &PathBuf, format: FileFormat) -> Result<usize> {
        if let Some(place) = self.files.iter().position(|file| file.path == *path) {
            return Ok(place);
        }
        let now = atomic_replace::text(path)?;
        self.files.push(RevertedFile { path: path.clone(), format, then: now.clone(), now });
        Ok(self.files.len().saturating_sub(1))
    }
}

/// Returns the current text without our entries. Earlier text comes back as it was written, if the two can be merged.
fn taken_out(changed: &ChangedFile, before: Option<&str>, after: &str, current: &str) -> Result<String> {
    let before = before.unwrap_or_default();
    let value = |text: &str| -> Result<Value> { Ok(config_edit::read(changed.format, text)?) };
    let now = value(current)?;
    let ops = config_edit::inverse(&changed.ops, &value(before)?, &now);
    let wanted = config_edit::apply_to_value(&now, &ops)?;
    let is_right = |text: &String| value(text).is_ok_and(|found| found == wanted);
    let merged = |after: &str, current: &str| diffy::merge(after, current, before).ok().filter(is_right);
    // An edit right beside our entries: the texts may merge once our entries are removed from both.
    let added: Vec<EditOp> = changed
        .ops
        .iter()
        .filter(|op| matches!(op, EditOp::Set { .. } | EditOp::Append { .. }))
        .cloned()
        .collect();
    let without = |text: &str| -> Result<String> {
        let ops = config_edit::inverse(&added, &value(before)?, &value(text)?);
        Ok(config_edit::apply(changed.format, text, &ops)?)
    };
    let apart = || merged(&without(after).ok()?, &without(current).ok()?);
    match merged(after, current).or_else(apart) {
        Some(text) => Ok(text),
        None => Ok(config_edit::apply(changed.format, current, &ops)?),
    }
}

/// Returns the servers that other setups need, with the agent that needs them.
fn needed<'a>(others: impl Iterator<Item = &'a InitJournal>) -> BTreeMap<String, &'static str> {
    let mut all = BTreeMap::new();
    for other in others {
        for servers in other.steps.iter().filter_map(|step| step.servers.as_ref()) {
            for name in servers.added.iter().chain(&servers.shared) {
                all.insert(name.clone(), other.agent.name());
            }
        }
    }
    all
}

//! The undo data of `byleave init` in the state directory. It has a list of steps for each agent, and for each file the texts
//! before and after.
//!
//! The texts may contain secrets, so only the person can read the directory. A step is written before the first file is changed.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_files::own;
use byleave_gate::core::digest::Digest;
use byleave_hook::AgentKind;
use serde::{Deserialize, Serialize};

use crate::config_edit::{EditOp, FileFormat};
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;

const VERSION: u32 = 1;

/// The changes for one agent, in the person's own settings or in those of one project.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitJournal {
    version: u32,
    pub(crate) agent: AgentKind,
    pub(crate) project: Option<PathBuf>,
    pub(crate) steps: Vec<InitStep>,
}

/// The changes of one run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitStep {
    pub(crate) at: u64,
    pub(crate) files: Vec<ChangedFile>,
    pub(crate) servers: Option<ServersChange>,
}

/// A file of the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChangedFile {
    pub(crate) path: PathBuf,
    pub(crate) format: FileFormat,
    pub(crate) ops: Vec<EditOp>,
    /// Directories that were created for it, outermost first.
    pub(crate) created_dirs: Vec<PathBuf>,
    pub(crate) texts: FileTexts,
}

/// The file of servers behind the gateway.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServersChange {
    pub(crate) path: PathBuf,
    /// The servers that were added, and those that existed already. The agent needs both.
    pub(crate) added: Vec<String>,
    pub(crate) shared: Vec<String>,
    /// Directories that were created for it, outermost first.
    pub(crate) created_dirs: Vec<PathBuf>,
    pub(crate) texts: FileTexts,
}

/// The digests of a file before and after. The texts are in separate files.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileTexts {
    before: Option<String>,
    after: String,
    file: String,
}

/// The two texts of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BeforeAfter<'a> {
    pub(crate) before: Option<&'a str>,
    pub(crate) after: &'a str,
}

impl InitJournal {
    /// Loads the journal of this agent, or creates an empty one.
    pub(crate) fn load_or_new(
        options: &ResolvedOptions,
        agent: AgentKind,
        project: Option<PathBuf>,
    ) -> Result<Self> {
        let new = Self { version: VERSION, agent, project, steps: Vec::new() };
        Ok(load(&new.path(options))?.unwrap_or(new))
    }

    /// Returns the directory of this setup's texts.
    pub(crate) fn directory(&self, options: &ResolvedOptions) -> PathBuf {
        let name = self.agent.name();
        let key = self
            .project
            .as_ref()
            .map(|project| Digest::compute(project.as_os_str().as_encoded_bytes()).to_string());
        let name = key.map_or_else(
            || name.to_owned(),
            |key| format!("{name}-{}", key.chars().take(16).collect::<String>()),
        );
        directory(options).join(name)
    }

    fn path(&self, options: &ResolvedOptions) -> PathBuf {
        self.directory(options).join("setup.json")
    }

    /// Keeps the texts of a file that the next step will change.
    pub(crate) fn store_texts(
        &self,
        options: &ResolvedOptions,
        file: usize,
        texts: BeforeAfter<'_>,
    ) -> Result<FileTexts> {
        let directory = self.directory(options);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let name = format!("{}-{file}", self.steps.len());
        if let Some(before) = texts.before {
            private(&directory.join(format!("{name}.before")), before)?;
        }
        private(&directory.join(format!("{name}.after")), texts.after)?;
        let before = texts.before.map(|text| Digest::compute(text.as_bytes()).to_string());
        Ok(FileTexts { before, after: Digest::compute(texts.after.as_bytes()).to_string(), file: name })
    }

    /// Writes the journal.
    pub(crate) fn save(&self, options: &ResolvedOptions) -> Result<()> {
        private(&self.path(options), &serde_json::to_string_pretty(self)?)
    }

    /// Removes the journal after everything was reverted.
    pub(crate) fn forget(&self, options: &ResolvedOptions) -> Result<()> {
        let directory = self.directory(options);
        fs::remove_dir_all(&directory).with_context(|| format!("cannot remove `{}`", directory.display()))
    }

    /// Returns the text of a file before a step, or `None` if it did not exist.
    pub(crate) fn before(&self, options: &ResolvedOptions, texts: &FileTexts) -> Result<Option<String>> {
        let Some(digest) = &texts.before else { return Ok(None) };
        self.kept(options, &format!("{}.before", texts.file), digest).map(Some)
    }

    /// Returns the text of a file after a step.
    pub(crate) fn after(&self, options: &ResolvedOptions, texts: &FileTexts) -> Result<String> {
        self.kept(options, &format!("{}.after", texts.file), &texts.after)
    }

    fn kept(&self, options: &ResolvedOptions, name: &str, digest: &str) -> Result<String> {
        let path = self.directory(options).join(name);
        let text = own::read_text(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        if Digest::compute(text.as_bytes()).to_string() != digest {
            let other = CliError::refused(format!("the backup `{}` was modified", path.display()));
            return Err(other.hint("nothing was changed; restore the agent's settings by hand").into());
        }
        Ok(text)
    }
}

/// Returns all setups, sorted by name.
pub(crate) fn all(options: &ResolvedOptions) -> Result<Vec<InitJournal>> {
    let found = match fs::read_dir(directory(options)) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("cannot list the agents that are set up"),
    };
    let mut paths = found.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    let loaded = paths.iter().map(|path| load(&path.join("setup.json")));
    loaded.filter_map(Result::transpose).collect()
}

fn load(path: &Path) -> Result<Option<InitJournal>> {
    let text = match own::read_text(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let setup: InitJournal = serde_json::from_str(&text)
        .with_context(|| format!("`{}` is not in the format that `byleave init` writes", path.display()))?;
    if setup.version > VERSION {
        let newer = CliError::new(format!("a newer version of byleave wrote `{}`", path.display()));
        return Err(newer.hint("update byleave").into());
    }
    Ok(Some(setup))
}

fn directory(options: &ResolvedOptions) -> PathBuf {
    options.state.join("agents")
}

/// Writes a private file atomically.
fn private(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path).with_context(|| format!("cannot write `{}`", path.display()))
}

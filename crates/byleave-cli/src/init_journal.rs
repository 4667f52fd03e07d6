//! The undo data of `byleave init` in the state directory. It has a list of steps for each agent, and for each file the texts
//! before and after.
//!
//! The texts may contain secrets, so only the person can read the directory. A step is written before the first file is changed.
//!
//! A setup is found again with another state directory: in the usual one, and in those that the file [`ELSEWHERE`] in the settings
//! directory names, with the digest of each journal. No agent can write that file.

use std::collections::BTreeMap;
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
use crate::resolved_options::{ResolvedOptions, default_state_dir};

const VERSION: u32 = 1;
/// The file that names journals in other state directories.
const ELSEWHERE: &str = "init.json";

/// The changes for one agent, in the person's own settings or in those of one project.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InitJournal {
    version: u32,
    pub(crate) agent: AgentKind,
    pub(crate) project: Option<PathBuf>,
    pub(crate) steps: Vec<InitStep>,
    /// The directory of all journals beside this one.
    #[serde(skip)]
    root: PathBuf,
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
        let is_same = |setup: &Self| setup.agent == agent && setup.project == project;
        let found = all(options)?.into_iter().find(is_same);
        let root = directory(&options.state);
        Ok(found.unwrap_or(Self { version: VERSION, agent, project, steps: Vec::new(), root }))
    }

    /// Returns the directory of this setup's texts.
    pub(crate) fn directory(&self) -> PathBuf {
        let name = self.agent.name();
        let key = self
            .project
            .as_ref()
            .map(|project| Digest::compute(project.as_os_str().as_encoded_bytes()).to_string());
        let name = key.map_or_else(
            || name.to_owned(),
            |key| format!("{name}-{}", key.chars().take(16).collect::<String>()),
        );
        self.root.join(name)
    }

    fn path(&self) -> PathBuf {
        self.directory().join("setup.json")
    }

    /// Keeps the texts of a file that the next step will change.
    pub(crate) fn store_texts(&self, file: usize, texts: BeforeAfter<'_>) -> Result<FileTexts> {
        let directory = self.directory();
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
        write(&self.path(), &serde_json::to_string_pretty(self)?, options)
    }

    /// Removes the journal after everything was reverted.
    pub(crate) fn forget(&self, options: &ResolvedOptions) -> Result<()> {
        remove(&self.path(), options)
    }

    /// Returns the text of a file before a step, or `None` if it did not exist.
    pub(crate) fn before(&self, texts: &FileTexts) -> Result<Option<String>> {
        let Some(digest) = &texts.before else { return Ok(None) };
        self.kept(&format!("{}.before", texts.file), digest).map(Some)
    }

    /// Returns the text of a file after a step.
    pub(crate) fn after(&self, texts: &FileTexts) -> Result<String> {
        self.kept(&format!("{}.after", texts.file), &texts.after)
    }

    fn kept(&self, name: &str, digest: &str) -> Result<String> {
        let path = self.directory().join(name);
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
    let mut all = Vec::new();
    for path in paths(options, "setup.json")? {
        let Some(mut setup) = load(&path)? else { continue };
        setup.root = path.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
        all.push(setup);
    }
    all.sort_by_key(|setup| setup.directory().file_name().map(ToOwned::to_owned));
    Ok(all)
}

/// Returns the existing journals with this file name: in this state directory, in the usual one, and in others that are known.
pub(crate) fn paths(options: &ResolvedOptions, name: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for state in [Some(options.state.clone()), default_state_dir()].into_iter().flatten() {
        let found = match fs::read_dir(directory(&state)) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).context("cannot list the agents that are set up"),
        };
        for entry in found {
            let path = entry?.path().join(name);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    for (path, digest) in Elsewhere::load(options)?.journals {
        let is_unchanged = || own::read(&path).is_ok_and(|text| Digest::compute(&text).to_string() == digest);
        if path.ends_with(name) && !paths.contains(&path) && is_unchanged() {
            paths.push(path);
        }
    }
    paths.retain(|path| path.is_file());
    Ok(paths)
}

/// Writes a journal, so that it is found with another state directory too.
pub(crate) fn write(path: &Path, text: &str, options: &ResolvedOptions) -> Result<()> {
    private(path, text)?;
    let mut elsewhere = Elsewhere::load(options)?;
    if default_state_dir().is_none_or(|usual| !path.starts_with(usual)) {
        elsewhere.journals.insert(path.to_owned(), Digest::compute(text.as_bytes()).to_string());
        elsewhere.save(options)?;
    }
    Ok(())
}

/// Removes a journal and everything beside it.
pub(crate) fn remove(path: &Path, options: &ResolvedOptions) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::remove_dir_all(directory).with_context(|| format!("cannot remove `{}`", directory.display()))?;
    let mut elsewhere = Elsewhere::load(options)?;
    if elsewhere.journals.remove(path).is_some() {
        elsewhere.save(options)?;
    }
    Ok(())
}

/// The journals in other state directories.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Elsewhere {
    /// The digest of each journal.
    journals: BTreeMap<PathBuf, String>,
    /// Directories that were created for this file, outermost first.
    created_dirs: Vec<PathBuf>,
}

impl Elsewhere {
    fn path(options: &ResolvedOptions) -> Option<PathBuf> {
        options.config.as_ref().map(|config| Path::new(config).join(ELSEWHERE))
    }

    fn load(options: &ResolvedOptions) -> Result<Self> {
        let Some(path) = Self::path(options) else { return Ok(Self::default()) };
        match own::read_text(&path) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!("`{}` is not in the format that `byleave init` writes", path.display())
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
    }

    /// Writes the file, or removes it if there is nothing left in it.
    fn save(mut self, options: &ResolvedOptions) -> Result<()> {
        let Some(path) = Self::path(options) else { return Ok(()) };
        if self.journals.is_empty() {
            fs::remove_file(&path).with_context(|| format!("cannot remove `{}`", path.display()))?;
            for directory in self.created_dirs.iter().rev() {
                // If something else is in the directory, it stays.
                fs::remove_dir(directory).unwrap_or_default();
            }
            return Ok(());
        }
        if !path.exists() {
            self.created_dirs = missing_above(&path);
            let directory = path.parent().unwrap_or(&path);
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        private(&path, &serde_json::to_string_pretty(&self)?)
    }
}

/// Returns the directories that must be created for a file, outermost first.
pub(crate) fn missing_above(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|above| !above.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
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

pub(crate) fn directory(state: &Path) -> PathBuf {
    state.join("agents")
}

/// Writes a private file atomically.
fn private(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension("new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path).with_context(|| format!("cannot write `{}`", path.display()))
}

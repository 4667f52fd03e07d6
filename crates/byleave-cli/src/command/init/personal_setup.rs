//! What `init` sets up beside the agents: the profile in the person's rules, the setting that trusts a container, and the service that
//! evaluates calls for hooks. Each is written down before it is done, so that `--undo` takes it back.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_files::own;
use byleave_gate::policy_files::USER_FILE_NAME;
use serde::{Deserialize, Serialize};

use super::user_service;
use crate::atomic_replace;
use crate::command::policy::profile::with_profile;
use crate::error::CliError;
use crate::init_journal::{self, missing_above};
use crate::resolved_options::ResolvedOptions;

/// The name of the journal, and of its directory beside those of the agents.
const FILE: &str = "personal.json";
const DIRECTORY: &str = "personal";

/// The files that were written for the person.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PersonalSetup {
    files: Vec<WrittenFile>,
    /// The service was switched on.
    has_service: bool,
    #[serde(skip)]
    path: PathBuf,
}

/// A file that was written, with its text before and after.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenFile {
    path: PathBuf,
    before: Option<String>,
    after: String,
    created_dirs: Vec<PathBuf>,
}

impl PersonalSetup {
    /// Loads the journal, or creates an empty one.
    pub(super) fn load_or_new(options: &ResolvedOptions) -> Result<Self> {
        let path = match init_journal::paths(options, FILE)?.into_iter().next() {
            Some(path) => path,
            None => {
                let path = init_journal::directory(&options.state).join(DIRECTORY).join(FILE);
                return Ok(Self { path, ..Self::default() });
            }
        };
        let text = own::read_text(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let setup: Self = serde_json::from_str(&text).with_context(|| {
            format!("`{}` is not in the format that `byleave init` writes", path.display())
        })?;
        Ok(Self { path, ..setup })
    }

    /// Chooses a profile in the person's rules.
    pub(super) fn choose_profile(&mut self, name: &str, options: &ResolvedOptions) -> Result<PathBuf> {
        let nowhere = || CliError::new("your settings directory is not known").hint("set HOME");
        let path = Path::new(options.config.as_ref().ok_or_else(nowhere)?).join(USER_FILE_NAME);
        let path = atomic_replace::target(&path)?;
        let before = atomic_replace::text(&path)?;
        let after = with_profile(before.as_deref().unwrap_or_default(), name)?;
        self.write(&path, before.as_deref(), &after, options)?;
        Ok(path)
    }

    /// Sets up the service that evaluates calls for hooks, and starts it.
    pub(super) fn start_service(&mut self, program: &Path, options: &ResolvedOptions) -> Result<()> {
        let path = user_service::path(options)?;
        let before = atomic_replace::text(&path)?;
        self.has_service = true;
        self.write(&path, before.as_deref(), &user_service::unit(program, options), options)?;
        user_service::start()
    }

    /// Writes a file of the person, after it has noted how to restore it.
    pub(super) fn write(
        &mut self,
        path: &Path,
        before: Option<&str>,
        after: &str,
        options: &ResolvedOptions,
    ) -> Result<()> {
        if before == Some(after) {
            return Ok(());
        }
        let created_dirs = missing_above(path);
        self.files.push(WrittenFile {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: after.to_owned(),
            created_dirs,
        });
        let directory = self.path.parent().unwrap_or(&self.path);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        init_journal::write(&self.path, &serde_json::to_string_pretty(self)?, options)?;
        atomic_replace::replace(path, before, after)
    }

    /// Checks whether there is nothing to undo.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Takes everything back, last change first. Returns what was restored, and notes about what stays.
    pub(super) fn undo(
        &self,
        is_dry: bool,
        options: &ResolvedOptions,
    ) -> Result<(Vec<PathBuf>, Vec<String>)> {
        let (mut restored, mut notes) = (Vec::new(), Vec::new());
        if self.has_service && !is_dry {
            user_service::stop();
        }
        for file in self.files.iter().rev() {
            let current = atomic_replace::text(&file.path)?;
            if current.as_ref() != Some(&file.after) {
                if current != file.before {
                    notes.push(format!("`{}` was changed after setup, so it stays", file.path.display()));
                }
                continue;
            }
            restored.push(file.path.clone());
            match &file.before {
                _ if is_dry => {}
                Some(before) => atomic_replace::replace(&file.path, current.as_deref(), before)?,
                None => atomic_replace::remove(&file.path, &file.after)?,
            }
        }
        if is_dry {
            return Ok((restored, notes));
        }
        init_journal::remove(&self.path, options)?;
        for directory in self.files.iter().rev().flat_map(|file| file.created_dirs.iter().rev()) {
            // If something else is in the directory, it stays.
            fs::remove_dir(directory).unwrap_or_default();
        }
        if self.has_service {
            user_service::reload();
        }
        Ok((restored, notes))
    }
}

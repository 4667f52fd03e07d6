//! Notes about the sessions of agents, which outlive every process: edits that an agent was allowed to make and that nobody has compared
//! yet, whether the session must ask, and the end of its last turn.
//!
//! They are in `hooks/sessions/KEY` of the state directory: `edits/CALL`, `asks` and `turn`. A note that cannot be read is an error, so
//! that no call passes because of it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use byleave_files::own;
use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::CallId;
use byleave_hook::AgentKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::resolved_options::ResolvedOptions;

/// The notes about all sessions.
#[derive(Clone, Debug)]
pub(crate) struct SessionNotes {
    dir: PathBuf,
}

/// The notes about one session.
#[derive(Clone, Debug)]
pub(crate) struct SessionNote {
    dir: PathBuf,
}

/// An edit that an agent was allowed to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassedEdit {
    pub(crate) call: CallId,
    /// The session, as the audit log names it.
    pub(crate) session: String,
    /// The agent's own id for this use of its tool.
    pub(crate) use_id: Option<String>,
    /// The files, absolute and resolved.
    pub(crate) paths: Vec<String>,
}

/// Why a session asks about every call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskingReason {
    /// The call that left something else than was judged.
    pub(crate) call: Option<CallId>,
    /// The session, as the audit log names it.
    pub(crate) session: String,
    pub(crate) reason: String,
}

/// The end of the last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnEnd {
    /// When it ended.
    pub(crate) at: Millis,
    /// When the oldest call that was still open then was received. Later turns look from here on.
    pub(crate) open_since: Millis,
}

impl SessionNotes {
    pub(crate) fn new(options: &ResolvedOptions) -> Self {
        Self { dir: options.state.join("hooks/sessions") }
    }

    /// Returns the notes about a session of an agent.
    pub(crate) fn of(&self, agent: AgentKind, session: &str) -> SessionNote {
        let key =
            Digest::compute_parts("byleave.hook.session", &[agent.name().as_bytes(), session.as_bytes()]);
        SessionNote { dir: self.dir.join(key.to_string()) }
    }

    /// Returns the notes about all sessions.
    pub(crate) fn all(&self) -> Result<Vec<SessionNote>> {
        Ok(names(&self.dir)?.into_iter().map(|name| SessionNote { dir: self.dir.join(name) }).collect())
    }
}

impl SessionNote {
    /// Notes an edit before the agent may make it.
    pub(crate) fn add_edit(&self, edit: &PassedEdit) -> Result<()> {
        self.write(&format!("edits/{}", edit.call), edit)
    }

    /// Returns the edits that nobody has compared yet, the oldest first.
    pub(crate) fn edits(&self) -> Result<Vec<PassedEdit>> {
        let dir = self.dir.join("edits");
        // The ids of calls begin with their time.
        let mut calls: Vec<String> = names(&dir)?.into_iter().filter(|name| is_call(name)).collect();
        calls.sort();
        // Another process may have compared it meanwhile.
        calls.iter().filter_map(|name| read(&dir.join(name)).transpose()).collect()
    }

    /// Removes the note about an edit, because it was compared.
    pub(crate) fn remove_edit(&self, call: CallId) -> Result<()> {
        let path = self.dir.join("edits").join(call.to_string());
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| format!("cannot remove `{}`", path.display())),
        }
    }

    /// Lets the session ask about every call from now on.
    pub(crate) fn ask_from_now_on(&self, reason: &AskingReason) -> Result<()> {
        self.write("asks", reason)
    }

    /// Returns why the session asks about every call, if it does.
    pub(crate) fn asking_reason(&self) -> Result<Option<AskingReason>> {
        read(&self.dir.join("asks"))
    }

    /// Returns the end of the last turn.
    pub(crate) fn last_turn_end(&self) -> Result<TurnEnd> {
        Ok(read(&self.dir.join("turn"))?.unwrap_or_default())
    }

    pub(crate) fn set_turn_end(&self, end: TurnEnd) -> Result<()> {
        self.write("turn", &end)
    }

    fn write<T: Serialize>(&self, name: &str, note: &T) -> Result<()> {
        let path = self.dir.join(name);
        let above = path.parent().unwrap_or(&self.dir);
        if !above.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(above);
            made.with_context(|| format!("cannot create `{}`", above.display()))?;
        }
        let text = serde_json::to_vec(note)?;
        write_durably(&path, above, &text).with_context(|| format!("cannot write `{}`", path.display()))
    }
}

fn write_durably(path: &Path, above: &Path, text: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    own::sync_directory(above)
}

fn is_call(name: &str) -> bool {
    name.parse::<CallId>().is_ok()
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let listing = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot list `{}`", dir.display()))?,
    };
    let names = listing.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names.collect::<io::Result<_>>().with_context(|| format!("cannot list `{}`", dir.display()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match own::read_text(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot read `{}`", path.display()))?,
    };
    let note = serde_json::from_str(&text);
    Ok(Some(
        note.with_context(|| format!("`{}` is not a note of this program; move it away", path.display()))?,
    ))
}

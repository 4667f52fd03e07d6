//! Tickets of calls that an agent asks its person about in its own window.
//!
//! The agent starts such a call with a secret. Its ticket is a file in `hooks/window` of the state directory, named by the digest of the
//! secret. It becomes valid once the agent has reported that it asks (`NAME.shown`), and is removed when it is used, which only one
//! process can. A ticket is for one question about one call of one session, so it cannot answer any other.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use byleave_gate::clock::fresh_id;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{CallId, QuestionId};
use serde::{Deserialize, Serialize};

use super::tickets::{TicketKey, read};
use crate::resolved_options::ResolvedOptions;

/// The directory in `hooks` of the state directory.
pub(super) const DIRECTORY: &str = "window";
/// The end of the name of the file which says that the agent asks.
const SHOWN: &str = "shown";
/// The interval at which a process looks whether the agent has asked.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// The tickets of all questions in agents' windows.
#[derive(Clone, Debug)]
pub(crate) struct WindowTickets {
    dir: PathBuf,
}

/// The ticket of a question in an agent's window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowTicket {
    pub(crate) call: CallId,
    pub(crate) question: QuestionId,
    /// The digest of the question as it was shown.
    pub(crate) digest: Digest,
    pub(crate) agent: String,
    /// The session, as the audit log names it.
    pub(crate) session: String,
    /// The agent's own id for the use of its tool.
    pub(super) use_id: String,
    /// The agent's id for what its person typed last.
    pub(super) prompt: Option<String>,
    /// The key of the call among the calls of agents.
    pub(crate) key: TicketKey,
}

impl WindowTickets {
    pub(crate) fn new(options: &ResolvedOptions) -> Self {
        Self { dir: options.state.join("hooks").join(DIRECTORY) }
    }

    /// Stores a ticket, and returns its secret.
    pub(super) fn issue(&self, ticket: &WindowTicket) -> Result<String> {
        let (one, two) = (fresh_id(), fresh_id());
        let secret = Digest::compute_parts("byleave.hook.window.secret", &[one.as_bytes(), two.as_bytes()]);
        let secret = secret.to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(|| self.cannot())?;
        let path = self.path(&secret);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let bytes = serde_json::to_vec(ticket)?;
        file.and_then(|mut file| file.write_all(&bytes)).with_context(|| self.cannot())?;
        Ok(secret)
    }

    /// Returns the ticket of a secret, unless it was used.
    pub(crate) fn find(&self, secret: &str) -> Result<Option<WindowTicket>> {
        read(&self.path(secret))
    }

    /// Notes that the agent asks its person.
    pub(super) fn mark_shown(&self, secret: &str) -> Result<()> {
        let path = self.path(secret).with_extension(SHOWN);
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        made.map(drop).with_context(|| self.cannot())
    }

    /// Checks whether the agent has asked its person.
    pub(crate) fn is_shown(&self, secret: &str) -> bool {
        fs::symlink_metadata(self.path(secret).with_extension(SHOWN)).is_ok_and(|found| found.is_file())
    }

    /// Waits until the agent has asked its person.
    pub(crate) async fn until_shown(&self, secret: &str) {
        while !self.is_shown(secret) {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    /// Uses a ticket. Returns `false` if another process did.
    pub(crate) fn take(&self, secret: &str) -> Result<bool> {
        self.take_file(&self.path(secret))
    }

    fn take_file(&self, path: &std::path::Path) -> Result<bool> {
        let taken = match fs::remove_file(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error).with_context(|| self.cannot()),
        };
        // It is removed when it is old, if not now.
        drop(fs::remove_file(path.with_extension(SHOWN)));
        Ok(taken)
    }

    /// Takes the tickets of a session that are not used yet.
    pub(super) fn take_unused(
        &self,
        session: &str,
        is_wanted: impl Fn(&WindowTicket) -> bool,
    ) -> Result<Vec<WindowTicket>> {
        let Ok(entries) = fs::read_dir(&self.dir) else { return Ok(Vec::new()) };
        let mut taken = Vec::new();
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_none()) {
            if let Some(ticket) = read::<WindowTicket>(&path)?
                && ticket.session == session
                && is_wanted(&ticket)
                && self.take_file(&path)?
            {
                taken.push(ticket);
            }
        }
        Ok(taken)
    }

    fn path(&self, secret: &str) -> PathBuf {
        self.dir.join(Digest::compute_parts("byleave.hook.window", &[secret.as_bytes()]).to_string())
    }

    fn cannot(&self) -> String {
        format!("cannot write in `{}`", self.dir.display())
    }
}

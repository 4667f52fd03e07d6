//! Tickets: which calls belong to agents, and which answer was handed out.
//!
//! There are three directories in `hooks` of the state directory. `calls/CALL` says that a call is an agent's, so nobody else
//! begins it. `open/KEY` names the call for the same request in the same session, until its answer is handed out. Handing out
//! moves it to `out/KEY`; if several processes try, the file system lets one succeed. A lost ticket costs a question, never a
//! check.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use byleave_files::own;
use byleave_gate::core::call::Mode;
use byleave_gate::core::digest::{Digest, canonical_json};
use byleave_gate::core::id::CallId;
use byleave_hook::{AgentKind, HookRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::window_tickets;
use crate::error::CliError;
use crate::resolved_options::ResolvedOptions;

/// How long tickets are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The maximum size of a ticket.
const TICKET_BYTES_MAX: u64 = 64 * 1024;

/// The directory of tickets.
#[derive(Clone, Debug)]
pub(crate) struct TicketStore {
    dir: PathBuf,
}

/// The ticket of an agent's call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookTicket {
    pub(crate) call: CallId,
    dialect: String,
    /// The agent's own name for the tool.
    pub(crate) tool: String,
    /// The workspace of the call.
    #[serde(default)]
    pub(crate) workspace: String,
}

/// The key by which a repeated call is recognized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TicketKey(String);

impl TicketKey {
    /// Returns the key: the same request in the same session and directory, in the same mode. A dry
    /// run and a real call never have the same one.
    pub(crate) fn for_call(
        dialect: AgentKind,
        heard: &HookRequest,
        cwd: &str,
        mode: Mode,
        is_dry_run: bool,
    ) -> Self {
        let input = canonical_json(&heard.input);
        let parts: [&[u8]; 7] = [
            dialect.name().as_bytes(),
            heard.session.as_bytes(),
            heard.tool.as_bytes(),
            input.as_bytes(),
            cwd.as_bytes(),
            heard.cwd.as_deref().unwrap_or_default().as_bytes(),
            mode.as_str().as_bytes(),
        ];
        let domain = if is_dry_run { "byleave.hook.dry-run" } else { "byleave.hook" };
        Self(Digest::compute_parts(domain, &parts).to_string())
    }
}

impl HookTicket {
    pub(crate) fn new(call: CallId, dialect: AgentKind, tool: &str, workspace: &str) -> Self {
        Self { call, dialect: dialect.name().into(), tool: tool.into(), workspace: workspace.into() }
    }

    pub(crate) fn dialect(&self) -> Result<AgentKind> {
        let wrong =
            || CliError::new(format!("the ticket of call {} does not name a known dialect", self.call));
        Ok(AgentKind::from_name(&self.dialect)
            .ok_or_else(|| wrong().hint("a newer version of byleave may have written it"))?)
    }
}

impl TicketStore {
    pub(crate) fn new(options: &ResolvedOptions) -> Self {
        Self { dir: options.state.join("hooks") }
    }

    /// Returns the ticket of a call, if it is an agent's.
    pub(crate) fn find(&self, call: CallId) -> Result<Option<HookTicket>> {
        read(&self.dir.join("calls").join(call.to_string()))
    }

    /// Returns the ticket that waits for the same call, or stores the fresh one.
    pub(crate) fn open(&self, key: &TicketKey, fresh: &HookTicket) -> Result<HookTicket> {
        self.make()?;
        // In this order, so that a call that can be found by its key is known to be an agent's.
        self.claim(fresh)?;
        let path = self.path("open", key);
        for _ in 0..3 {
            match write_new(&path, fresh) {
                Ok(()) => return Ok(fresh.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| cannot(&path)),
            }
            if let Some(found) = read(&path)? {
                pass_over(fs::remove_file(self.dir.join("calls").join(fresh.call.to_string())));
                return Ok(found);
            }
        }
        Err(CliError::new(format!("other processes keep creating and removing `{}`", path.display()))
            .hint("make the call again")
            .into())
    }

    /// Returns the ticket that waits for the same call, if there is one.
    pub(crate) fn waiting(&self, key: &TicketKey) -> Result<Option<HookTicket>> {
        read(&self.path("open", key))
    }

    /// Hands the answer out. Returns `false` if another process has it.
    pub(crate) fn mark_delivered(&self, key: &TicketKey) -> Result<bool> {
        let from = self.path("open", key);
        match fs::rename(&from, self.path("out", key)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error).with_context(|| cannot(&from)),
        }
    }

    /// Lets the same call find its ticket again, because its answer was not handed out after all.
    pub(crate) fn take_back(&self, key: &TicketKey) -> Result<()> {
        let to = self.path("open", key);
        match fs::hard_link(self.path("out", key), &to) {
            // The same call was made again meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.with_context(|| cannot(&to)),
        }
    }

    /// Records the ticket of a call that did not have to wait.
    pub(crate) fn record_delivered(&self, key: &TicketKey, ticket: &HookTicket) -> Result<()> {
        self.make()?;
        let path = self.path("out", key);
        let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        open.and_then(|mut file| file.write_all(&bytes(ticket))).with_context(|| cannot(&path))
    }

    /// Returns the call whose answer was last handed out for this key.
    pub(crate) fn last_delivered(&self, key: &TicketKey) -> Result<Option<HookTicket>> {
        read(&self.path("out", key))
    }

    /// Removes old tickets.
    pub(crate) fn remove_old(&self, now: SystemTime) {
        for part in ["calls", "open", "out", window_tickets::DIRECTORY] {
            let Ok(found) = fs::read_dir(self.dir.join(part)) else { continue };
            for entry in found.flatten() {
                let age = entry.metadata().and_then(|about| about.modified());
                let age = age.ok().and_then(|then| now.duration_since(then).ok());
                if age.is_some_and(|age| age > KEPT) {
                    pass_over(fs::remove_file(entry.path()));
                }
            }
        }
    }

    fn claim(&self, ticket: &HookTicket) -> Result<()> {
        let path = self.dir.join("calls").join(ticket.call.to_string());
        write_new(&path, ticket).with_context(|| cannot(&path))
    }

    fn path(&self, part: &str, key: &TicketKey) -> PathBuf {
        self.dir.join(part).join(&key.0)
    }

    fn make(&self) -> Result<()> {
        for part in ["calls", "open", "out"] {
            let dir = self.dir.join(part);
            if !dir.is_dir() {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
                made.with_context(|| cannot(&dir))?;
            }
        }
        Ok(())
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}

fn bytes(ticket: &HookTicket) -> Vec<u8> {
    serde_json::to_vec(ticket).unwrap_or_default()
}

/// Writes a ticket atomically, so that a reader finds it whole.
fn write_new(path: &Path, ticket: &HookTicket) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", ticket.call));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    let linked = file.write_all(&bytes(ticket)).and_then(|()| fs::hard_link(&beside, path));
    pass_over(fs::remove_file(&beside));
    linked
}

/// Reads a ticket, if there is one.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = match own::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.and_then(|file| file.take(TICKET_BYTES_MAX).read_to_string(&mut text)),
    };
    read.with_context(|| format!("cannot read `{}`", path.display()))?;
    let ticket = serde_json::from_str(&text);
    Ok(Some(ticket.with_context(|| format!("`{}` is not a ticket; move it away", path.display()))?))
}

/// Ignores a failed removal. The file is removed when it is old.
fn pass_over(result: io::Result<()>) {
    drop(result);
}

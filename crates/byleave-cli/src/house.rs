//! The house: the book in its state directory, and the gate in front of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use byleave::book::Book as _;
use byleave::book::sqlite::{self, SqliteBook};
use byleave::core::id::CallId;
use byleave::core::policy::Policy;
use byleave::gate::{Gate, GateBuilder};
use byleave::ledger::Ledger;
use byleave::settings::Settings;
use byleave_copy::{Dropped, End, Recovered};

use crate::args::Ask;
use crate::complaint::Complaint;
use crate::options::{Options, text_of};
use crate::proxied;
use crate::rules::Rules;
use crate::screen::{Screen, Tone, prose};
use crate::tools::{self, workplace};
use crate::workers;

/// The book, open.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) book: Arc<SqliteBook>,
    state: String,
}

impl House {
    /// Opens the book; makes one where there is none.
    pub(crate) fn open_or_make(options: &Options) -> Result<Self> {
        Self::open(options, &sqlite::Options::default())
    }

    /// Opens a book that is there.
    pub(crate) fn open_to_write(options: &Options) -> Result<Self> {
        there_is_one(options)?;
        Self::open(options, &sqlite::Options::default())
    }

    /// Opens a book that is there, to look something up; held against another anchor, if one is given.
    pub(crate) fn open_to_read(options: &Options, anchor: Option<PathBuf>) -> Result<Self> {
        there_is_one(options)?;
        Self::open(options, &sqlite::Options { anchor, seal_every: None, ..sqlite::Options::default() })
    }

    fn open(options: &Options, how: &sqlite::Options) -> Result<Self> {
        let book = SqliteBook::open(&options.state, how)?;
        Ok(Self { book: Arc::new(book), state: state_of(options)? })
    }

    /// The gate for calls in this directory, with questions left open or refused.
    pub(crate) fn gate(
        &self,
        options: &Options,
        workspace: &str,
        ask: Ask,
        settings: Settings,
    ) -> Result<Gate> {
        Self::built(self.builder(options, workspace, ask, settings)?)
    }

    /// The gate that a builder makes.
    pub(crate) fn built(builder: GateBuilder) -> Result<Gate> {
        let gate = builder.build()?;
        proxied::equip(&gate)?;
        Ok(gate)
    }

    /// The same gate before it is built: who is here may still be added.
    pub(crate) fn builder(
        &self,
        options: &Options,
        workspace: &str,
        ask: Ask,
        settings: Settings,
    ) -> Result<GateBuilder> {
        let builder = equipped(options, workspace, ask, settings, Arc::clone(&self.book) as Arc<_>)?;
        workers::leaving(builder.policy(self.policy(options, workspace)?), options)
    }

    /// The policy for calls in this directory: the built-in rules and all files there are.
    pub(crate) fn policy(&self, options: &Options, workspace: &str) -> Result<Policy> {
        Ok(Rules { options, workspace, state: &self.state }.load()?.policy)
    }

    /// The directory that a call works in. What the policy says of a call must not depend on where it is taken up again.
    pub(crate) async fn workspace_of(&self, call: CallId) -> Result<String> {
        let kept = self.book.record(call).await?;
        let heading = kept.as_ref().and_then(|kept| kept.record.heading());
        let unreadable = || {
            Complaint::new(format!("the record of call {call} does not say where it works"))
                .hint("`byleave book verify` says whether the book is as it was written")
        };
        Ok(heading.ok_or_else(unreadable)?.cwd.clone())
    }
}

/// Ends commits that were interrupted, and makes room where too much is kept; says what came of it.
pub(crate) fn mend_copies(options: &Options, screen: &mut Screen) -> Result<()> {
    let store = workplace(options, &options.cwd).store()?;
    for Recovered { id, end } in store.recover()? {
        let what = match end {
            End::Finished => "was finished".to_owned(),
            End::TakenBack => "was taken back: nothing of it remains".to_owned(),
            End::Stuck(paths) => format!("cannot be ended, because others changed {}", paths.join(", ")),
            End::Lost(why) => format!("cannot be ended: {why}"),
        };
        screen.toned(
            Tone::Careful,
            "note:",
            &prose(&format!("call {id}, interrupted while it was made final, {what}")),
        );
    }
    for Dropped { id, why, .. } in store.tidy(SystemTime::now())?.dropped {
        screen.toned(Tone::Careful, "note:", &prose(&format!("call {id} can no longer be undone: {why}")));
    }
    Ok(())
}

/// The directory that holds all that is ours, links followed: that is how effects name what is in it.
pub(crate) fn state_of(options: &Options) -> Result<String> {
    let state = options.ours().canonicalize();
    text_of(&state.with_context(|| format!("cannot find `{}` again", options.ours().display()))?)
}

/// A gate on a ledger, with the tools of the program; its policy is still to be set.
pub(crate) fn equipped(
    options: &Options,
    workspace: &str,
    ask: Ask,
    mut settings: Settings,
    ledger: Arc<dyn Ledger>,
) -> Result<GateBuilder> {
    settings.inbox = ask == Ask::Inbox;
    settings.rest = Some("read_output".into());
    let catalog = tools::catalog(options, workspace, Some(Arc::clone(&ledger)))?;
    Ok(Gate::builder().ledger(ledger).catalog(catalog).settings(settings))
}

/// A book that is made because a directory was misspelt would be sound, and empty.
fn there_is_one(options: &Options) -> Result<()> {
    if options.state.join("book.sqlite").exists() {
        return Ok(());
    }
    let missing = Complaint::new(format!("there is no book in `{}`", options.state.display()));
    Err(missing.hint("the first `byleave call` makes one; `--state` names another directory").into())
}

//! The context of the program: the audit log in its state directory, and the gate in front of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use byleave_copy::{DroppedCopy, RecoveryOutcome, RecoveryReport};
use byleave_gate::audit_log::AuditLog as _;
use byleave_gate::audit_log::sqlite::{self, SqliteLedger};
use byleave_gate::core::id::CallId;
use byleave_gate::core::policy::Policy;
use byleave_gate::gate::{Gate, GateBuilder};
use byleave_gate::ledger::Ledger;
use byleave_gate::settings::GateSettings;

use crate::active_policy::ActivePolicy;
use crate::args::AskArg;
use crate::console::{Console, Tone, prose};
use crate::error::CliError;
use crate::hook::AttendedCalls;
use crate::proxied;
use crate::resolved_options::{ResolvedOptions, text_of};
use crate::reviewers;
use crate::tool_catalog::{self, workplace};
use crate::workers;

/// The open audit log.
#[derive(Clone)]
pub(crate) struct AppContext {
    pub(crate) audit_log: Arc<SqliteLedger>,
    state: String,
}

impl AppContext {
    /// Opens the audit log, and creates it if there is none.
    pub(crate) fn open_or_create(options: &ResolvedOptions) -> Result<Self> {
        Self::open(options, &sqlite::SqliteOptions::default())
    }

    /// Opens an existing audit log for writing.
    pub(crate) fn open_to_write(options: &ResolvedOptions) -> Result<Self> {
        there_is_one(options)?;
        Self::open(options, &sqlite::SqliteOptions::default())
    }

    /// Opens an existing audit log for reading, and checks it against another anchor if one is given.
    pub(crate) fn open_to_read(options: &ResolvedOptions, anchor: Option<PathBuf>) -> Result<Self> {
        there_is_one(options)?;
        Self::open(
            options,
            &sqlite::SqliteOptions { anchor, seal_every: None, ..sqlite::SqliteOptions::default() },
        )
    }

    fn open(options: &ResolvedOptions, how: &sqlite::SqliteOptions) -> Result<Self> {
        let book = SqliteLedger::open(&options.state, how)?;
        Ok(Self { audit_log: Arc::new(book), state: state_dir(options)? })
    }

    /// Builds the gate for calls in this directory. Questions stay open or are refused.
    pub(crate) fn gate(
        &self,
        options: &ResolvedOptions,
        workspace: &str,
        ask: AskArg,
        settings: GateSettings,
    ) -> Result<Gate> {
        Self::build_gate(self.builder(options, workspace, ask, settings)?)
    }

    /// Builds a gate from a builder.
    pub(crate) fn build_gate(builder: GateBuilder) -> Result<Gate> {
        let gate = builder.build()?;
        proxied::register_tools(&gate)?;
        Ok(gate)
    }

    /// Returns the builder of that gate, so that an approver can still be added.
    pub(crate) fn builder(
        &self,
        options: &ResolvedOptions,
        workspace: &str,
        ask: AskArg,
        settings: GateSettings,
    ) -> Result<GateBuilder> {
        let builder = with_tools(options, workspace, ask, settings, Arc::clone(&self.audit_log) as Arc<_>)?;
        let builder = reviewers::attach(builder, &options.settings, workspace)?;
        let attended = AttendedCalls::new(options);
        let builder = builder.unattended_calls(Arc::new(move |call| attended.is_unattended(call)));
        workers::skip_worker_calls(builder.policy(self.policy(options, workspace)?), options)
    }

    /// Loads the policy for calls in this directory: the built-in rules and all existing files.
    pub(crate) fn policy(&self, options: &ResolvedOptions, workspace: &str) -> Result<Policy> {
        Ok(ActivePolicy { options, workspace, state: &self.state }.load()?.policy)
    }

    /// Returns the working directory of a call. The policy for a call must not depend on where it is resumed.
    pub(crate) async fn workspace_of(&self, call: CallId) -> Result<String> {
        let kept = self.audit_log.record(call).await?;
        let heading = kept.as_ref().and_then(|kept| kept.record.header());
        let unreadable = || {
            CliError::new(format!("the record of call {call} does not name its working directory"))
                .hint("`byleave audit verify` checks whether the audit log is intact")
        };
        Ok(heading.ok_or_else(unreadable)?.cwd.clone())
    }
}

/// Completes interrupted commits, frees space if too much is kept, and reports both.
pub(crate) fn recover_and_gc_copies(options: &ResolvedOptions, screen: &mut Console) -> Result<()> {
    let store = workplace(options, &options.cwd).open_store()?;
    for RecoveryReport { id, end } in store.recover()? {
        let what = match end {
            RecoveryOutcome::Finished => "was finished".to_owned(),
            RecoveryOutcome::RolledBack => "was rolled back: none of its changes remain".to_owned(),
            RecoveryOutcome::Conflicted(paths) => {
                format!(
                    "cannot be finished or rolled back, because something else changed {}",
                    paths.join(", ")
                )
            }
            RecoveryOutcome::Unreachable(why) => format!("cannot be finished or rolled back: {why}"),
        };
        screen.message_with_tone(
            Tone::Careful,
            "note:",
            &prose(&format!("call {id}, interrupted while its changes were committed, {what}")),
        );
    }
    let now = SystemTime::now();
    for DroppedCopy { id, reason: why, .. } in store.collect_garbage(now)?.dropped {
        screen.message_with_tone(
            Tone::Careful,
            "note:",
            &prose(&format!("call {id} can no longer be undone: {why}")),
        );
    }
    Ok(())
}

/// Frees space if too much is kept, while a long-lived process already serves.
pub(crate) fn collect_garbage_in_background(options: &ResolvedOptions) {
    let workplace = workplace(options, &options.cwd);
    if !workplace.store_dir.is_dir() {
        return;
    }
    let work = move || match workplace.open_store().and_then(|store| store.collect_garbage(SystemTime::now()))
    {
        Ok(report) => {
            for DroppedCopy { id, reason, .. } in report.dropped {
                tracing::info!(call = %id, %reason, "a call can no longer be undone");
            }
        }
        Err(fault) => tracing::warn!(%fault, "cannot free space in the store of before-images"),
    };
    drop(tokio::task::spawn_blocking(work));
}

/// Returns the state directory with links resolved, because effects name its files in that way.
pub(crate) fn state_dir(options: &ResolvedOptions) -> Result<String> {
    let state = options.root_state_dir().canonicalize();
    text_of(&state.with_context(|| {
        format!("cannot find the state directory `{}`", options.root_state_dir().display())
    })?)
}

/// Returns a gate builder on a ledger with the tools of the program. The caller must still set its policy and its reviewers.
pub(crate) fn with_tools(
    options: &ResolvedOptions,
    workspace: &str,
    ask: AskArg,
    mut settings: GateSettings,
    ledger: Arc<dyn Ledger>,
) -> Result<GateBuilder> {
    settings.inbox = ask == AskArg::Inbox;
    settings.read_more_tool = Some("read_output".into());
    let catalog = tool_catalog::catalog(options, workspace, Some(Arc::clone(&ledger)))?;
    Ok(Gate::builder().ledger(ledger).catalog(catalog).settings(settings))
}

/// Checks that an audit log exists. A log created because of a misspelt directory would be valid, but empty.
fn there_is_one(options: &ResolvedOptions) -> Result<()> {
    if sqlite::has_audit_log(&options.state) {
        return Ok(());
    }
    let missing = CliError::new(format!("there is no audit log in `{}`", options.state.display()));
    Err(missing.hint("the first `byleave call` creates one; use `--state` for another directory").into())
}

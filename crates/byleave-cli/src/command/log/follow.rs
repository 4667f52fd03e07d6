//! `byleave log follow`: shows the calls of this audit log as they arrive, run, wait and end, in any process.
//!
//! Events are read from the audit log only, record by record. Progress and output of a running call come from
//! [`crate::live_output`] and are for display only. It changes nothing and asks nobody.

mod call_tracker;
mod format;
mod live_region;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::Result;
use byleave_gate::audit_log::{AuditLog as _, CallFilter, CallState, Cursor, PageRequest};
use byleave_gate::core::id::SessionId;
use byleave_gate::stats::StatsFilter;
use clap::Args as Group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::signal::unix::{SignalKind, signal};

use self::call_tracker::{CallTracker, WatchEvent};
use self::live_region::Region;
use crate::app_context::AppContext;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::live_output;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Group)]
pub(crate) struct FollowArgs {
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<SessionId>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Show the open calls once and exit
    #[arg(long)]
    pub(crate) once: bool,
}

/// The polling interval. A poll costs one index lookup, and one small file for each running call.
const EVERY: Duration = Duration::from_millis(100);
/// The maximum number of appends that are read at once.
const NEWS_MAX: usize = 512;
/// The maximum number of open calls that are shown.
const OPEN_MAX: usize = 1_000;

pub(crate) async fn run(
    typed: FollowArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // Before anything is shown, so that Ctrl-C is already handled.
    let mut keys = signal(SignalKind::interrupt())
        .map_err(|error| CliError::new(format!("cannot listen for Ctrl-C: {error}")))?;
    let house = AppContext::open_to_read(options, None)?;
    live_output::remove_stale(&options.state.join("live"));
    let wanted = StatsFilter { session: typed.session, tool: typed.tool, ..StatsFilter::default() };
    let mut scene = CallTracker::new(wanted);
    // The end of the audit log is read first. An entry in between is then shown twice rather than never.
    let mut upto = house.audit_log.records_since(None, 0).await?.cursor;
    let mut happened = present(&house, &mut scene).await?;
    if typed.once {
        scene.read_live_statuses(&options.state);
        format::print_open_calls(screen, &scene);
        return Ok(ExitStatus::Completed);
    }
    let mut region = (io::stdout().is_terminal() && !screen.json()).then(Region::new);
    if region.is_some() {
        happened.clear();
    }
    loop {
        happened.extend(scene.read_live_statuses(&options.state));
        match &mut region {
            Some(region) => region.draw(screen, &scene, &happened),
            None => happened.iter().for_each(|happening| format::print_event(screen, happening)),
        }
        if screen.gone() || nobody_reads() {
            return Ok(ExitStatus::Completed);
        }
        scene.forget_settled();
        tokio::select! {
            biased;
            _ = keys.recv() => break,
            () = tokio::time::sleep(EVERY) => {}
        }
        (upto, happened) = news(&house, &mut scene, upto).await?;
    }
    if let Some(region) = &mut region {
        region.leave(screen);
    }
    Ok(ExitStatus::Completed)
}

/// Reads every call that has not ended.
async fn present(house: &AppContext, scene: &mut CallTracker) -> Result<Vec<WatchEvent>> {
    let mut open = Vec::new();
    for state in [CallState::Open, CallState::Waiting] {
        let filter = CallFilter { state: Some(state), ..CallFilter::default() };
        open.extend(house.audit_log.calls(filter, PageRequest::with_limit(OPEN_MAX)).await?);
    }
    open.sort_by_key(|item| item.cursor);
    let mut happened = Vec::new();
    for item in open {
        if let Some(kept) = house.audit_log.record(item.call).await? {
            happened.extend(scene.add_existing(&kept));
        }
    }
    Ok(happened)
}

/// Reads the entries since the last poll.
async fn news(
    house: &AppContext,
    scene: &mut CallTracker,
    upto: Cursor,
) -> Result<(Cursor, Vec<WatchEvent>)> {
    let written = house.audit_log.records_since(Some(upto), NEWS_MAX).await?;
    let mut happened = Vec::new();
    for call in written.calls {
        if let Some(kept) = house.audit_log.record(call).await? {
            happened.extend(scene.follow(&kept));
        }
    }
    Ok((written.cursor, happened))
}

/// Checks whether the reader of our output is gone. Otherwise only the next line would show it.
fn nobody_reads() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = poll(&mut watched, Some(&at_once)).unwrap_or(0);
    found > 0 && watched.iter().any(|one| one.revents().contains(PollFlags::ERR))
}

//! `byleave watch`: the calls of this book as they come, run, wait and end, whoever runs them.
//!
//! What happened is read from the book, record by record, and from nothing else. How far a running call is and what it prints comes
//! from [`crate::live_output`], which is only ever shown. It changes nothing and asks nobody.

mod call_tracker;
mod format;
mod live_region;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::Result;
use byleave::audit_log::{AuditLog as _, CallFilter, CallState, Cursor, PageRequest};
use byleave::stats::StatsFilter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::signal::unix::{SignalKind, signal};

use self::call_tracker::{CallTracker, WatchEvent};
use self::live_region::Region;
use crate::app_context::AppContext;
use crate::args;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::live_output;
use crate::resolved_options::ResolvedOptions;

/// How often it is looked. Looking costs a lookup in one index, and a small file for each call that runs.
const EVERY: Duration = Duration::from_millis(100);
/// So many appends are taken in at once.
const NEWS_MAX: usize = 512;
/// So many calls that have not ended are shown.
const OPEN_MAX: usize = 1_000;

pub(crate) async fn run(
    typed: args::WatchArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // Before anything is shown, so that the key that ends it does not find a program that dies of it.
    let mut keys = signal(SignalKind::interrupt())
        .map_err(|error| CliError::new(format!("cannot listen for Ctrl-C: {error}")))?;
    let house = AppContext::open_to_read(options, None)?;
    live_output::tidy(&options.state.join("live"));
    let wanted = StatsFilter { session: typed.session, tool: typed.tool, ..StatsFilter::default() };
    let mut scene = CallTracker::new(wanted);
    // Where the book ends is asked first: what comes between is then shown twice rather than never.
    let mut upto = house.book.written(None, 0).await?.upto;
    let mut happened = present(&house, &mut scene).await?;
    if typed.once {
        scene.glimpse(&options.state);
        format::standing(screen, &scene);
        return Ok(ExitStatus::Completed);
    }
    let mut region = (io::stdout().is_terminal() && !screen.json()).then(Region::new);
    if region.is_some() {
        happened.clear();
    }
    loop {
        happened.extend(scene.glimpse(&options.state));
        match &mut region {
            Some(region) => region.draw(screen, &scene, &happened),
            None => happened.iter().for_each(|happening| format::happening(screen, happening)),
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

/// Takes in everything that has not ended.
async fn present(house: &AppContext, scene: &mut CallTracker) -> Result<Vec<WatchEvent>> {
    let mut open = Vec::new();
    for state in [CallState::Open, CallState::Waiting] {
        let filter = CallFilter { state: Some(state), ..CallFilter::default() };
        open.extend(house.book.calls(filter, PageRequest::first(OPEN_MAX)).await?);
    }
    open.sort_by_key(|item| item.cursor);
    let mut happened = Vec::new();
    for item in open {
        if let Some(kept) = house.book.record(item.call).await? {
            happened.extend(scene.meet(&kept));
        }
    }
    Ok(happened)
}

/// Takes in what was written since.
async fn news(
    house: &AppContext,
    scene: &mut CallTracker,
    upto: Cursor,
) -> Result<(Cursor, Vec<WatchEvent>)> {
    let written = house.book.written(Some(upto), NEWS_MAX).await?;
    let mut happened = Vec::new();
    for call in written.calls {
        if let Some(kept) = house.book.record(call).await? {
            happened.extend(scene.follow(&kept));
        }
    }
    Ok((written.upto, happened))
}

/// Whether who read our lines has gone away, which is otherwise noticed only with the next line.
fn nobody_reads() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let found = poll(&mut watched, Some(&at_once)).unwrap_or(0);
    found > 0 && watched.iter().any(|one| one.revents().contains(PollFlags::ERR))
}

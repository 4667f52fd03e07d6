//! `byleave gc`: drops old before-images and unused scratch, and shows the space that they take.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use byleave_copy::{DroppedCopy, GcReport, GcRequest, StoreUsage};
use clap::Args as Group;
use serde_json::{Value, json};

use crate::call_display::{format_bytes, format_count, table};
use crate::console::{Console, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::short_ids::short;
use crate::time::{format_duration, parse_duration};
use crate::tool_catalog::workplace;

/// The number of dropped calls that are listed.
const ROWS_MAX: usize = 20;

#[derive(Debug, Group)]
pub(crate) struct GcArgs {
    /// Drop before-images older than this: a number and h, d or w, as in `14d`
    #[arg(long, value_name = "DURATION", conflicts_with = "all")]
    pub(crate) older_than: Option<String>,
    /// Drop all before-images, also recent ones; needs `--confirm`
    #[arg(long)]
    pub(crate) all: bool,
    /// Number of calls that `--all` makes impossible to undo
    #[arg(long, value_name = "NUMBER", requires = "all")]
    pub(crate) confirm: Option<usize>,
    /// Drop all scratch that is not in use; the next build takes longer
    #[arg(long)]
    pub(crate) scratch: bool,
    /// Show what would be dropped, and drop nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

pub(crate) fn run(typed: &GcArgs, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let older_than = match &typed.older_than {
        Some(age) => Some(Duration::from_millis(parse_duration(age)?)),
        None => typed.all.then_some(Duration::ZERO),
    };
    let request = GcRequest { older_than, recent: typed.all, scratch: typed.scratch, dry_run: typed.dry_run };
    let workplace = workplace(options, &options.cwd);
    let now = SystemTime::now();
    // Without a store there is nothing to drop, and this command creates nothing.
    if !workplace.store_dir.is_dir() {
        print(typed, &GcReport::default(), &StoreUsage::default(), screen);
        return Ok(ExitStatus::Completed);
    }
    let store = workplace.open_store()?;
    if typed.all && !typed.dry_run {
        let planned = store.collect_requested_garbage(now, &GcRequest { dry_run: true, ..request })?;
        confirm(planned.dropped.iter().filter(|copy| copy.is_committed).count(), typed.confirm)?;
    }
    let report = store.collect_requested_garbage(now, &request)?;
    print(typed, &report, &store.usage(now)?, screen);
    Ok(ExitStatus::Completed)
}

/// Checks that the person has seen how many calls can no longer be undone.
fn confirm(calls: usize, typed: Option<usize>) -> Result<()> {
    if calls == 0 || typed == Some(calls) {
        return Ok(());
    }
    let can = format!("{} could then no longer be undone", format_count(calls as u64, "call"));
    let refused = CliError::new(match typed {
        None => format!("`--all` needs a confirmation: {can}"),
        Some(typed) => format!("`--confirm {typed}` is not the number of calls: {can}"),
    });
    Err(refused
        .hint(format!("`byleave gc --all --confirm {calls}` drops them; `--dry-run` lists them"))
        .into())
}

fn print(typed: &GcArgs, report: &GcReport, usage: &StoreUsage, screen: &mut Console) {
    if screen.json() {
        return screen.value(&json!({
            "dry_run": typed.dry_run,
            "dropped": report.dropped.iter().map(dropped).collect::<Vec<_>>(),
            "scratch_bytes": report.scratch_bytes,
            "store": usage_json(usage),
        }));
    }
    if !report.dropped.is_empty() {
        let row = |copy: &DroppedCopy| {
            let age = SystemTime::now().duration_since(copy.since).unwrap_or_default();
            let age = format_duration(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            vec![short(&copy.id), format!("{age} ago"), format_bytes(copy.bytes), one_line(&copy.reason)]
        };
        let rows: Vec<Vec<String>> = report.dropped.iter().take(ROWS_MAX).map(row).collect();
        table(screen, &["CALL", "CHANGED", "SIZE", "REASON"], &rows);
        let more = report.dropped.len().saturating_sub(ROWS_MAX);
        if more > 0 {
            screen.line(&format!("and {}", format_count(more as u64, "newer call")));
        }
    }
    let bytes: u64 = report.dropped.iter().map(|copy| copy.bytes).sum();
    let did = if typed.dry_run { "would free" } else { "freed" };
    let calls = format_count(report.dropped.len() as u64, "call");
    screen.line(&format!(
        "{did} {} of {calls}, and {} of scratch",
        format_bytes(bytes),
        format_bytes(report.scratch_bytes)
    ));
    screen.line(&format!("the store: {}", usage_text(usage)));
}

fn dropped(copy: &DroppedCopy) -> Value {
    json!({ "call": copy.id, "bytes": copy.bytes, "undoable": copy.is_committed, "reason": copy.reason })
}

/// Describes the space that the store takes.
pub(super) fn usage_text(usage: &StoreUsage) -> String {
    if usage.total_bytes() == 0 {
        return "empty".to_owned();
    }
    let mut text = format!(
        "{} of before-images ({}), {} of scratch; at most {}",
        format_bytes(usage.before_image_bytes),
        format_count(usage.commits as u64, "call"),
        format_bytes(usage.scratch_bytes),
        format_bytes(usage.quota_bytes)
    );
    if usage.recent_bytes > usage.quota_bytes {
        text.push_str("; full, so changes are asked about: `byleave gc` frees space");
    }
    text
}

/// Returns the space that the store takes.
pub(super) fn usage_json(usage: &StoreUsage) -> Value {
    json!({
        "calls": usage.commits,
        "before_image_bytes": usage.before_image_bytes,
        "recent_bytes": usage.recent_bytes,
        "open_copy_bytes": usage.open_copy_bytes,
        "scratch_bytes": usage.scratch_bytes,
        "quota_bytes": usage.quota_bytes,
    })
}

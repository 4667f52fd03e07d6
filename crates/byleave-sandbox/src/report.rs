//! Describes what was blocked in a run and what to request, in words for a model or a person.
//!
//! Only events that are certain are called blocked: by the proxy, by a limit, by the tripwire. If the kernel refused an
//! operation, only the program knows. Then the report describes the boundaries, and nothing is guessed from the output.

use std::path::{Path, PathBuf};

use byleave_core::escape::{EscapeLevel, make_visible};

use crate::confinement::{Confinement, Network, ReadScope};
use crate::launch::{CommandOutcome, CommandStatus};
use crate::limits::{LimitKind, ResourceLimits};
use crate::tripwire::PlantedFile;

/// The maximum number of lines of one kind. The report says how many more there were.
const LINES_MAX: usize = 20;

/// The maximum number of hidden files that are named.
const HIDDEN_NAMED_MAX: usize = 3;

/// Returns the report of a run. It is empty if the run ended well and met no boundary.
pub fn describe_outcome(confinement: &Confinement, outcome: &CommandOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    let refused = outcome.network.decisions.iter().filter(|decision| !decision.is_allowed);
    let refused: Vec<String> = refused
        .map(|decision| {
            let host = line(&decision.host);
            let target = if decision.port == 0 { host } else { format!("{host}:{}", decision.port) };
            let why = decision.reason.as_deref().map_or_else(String::new, |why| format!(": {}", line(why)));
            match decision.is_send_refused {
                true => format!("blocked by policy: sending to `{target}`{why}"),
                // No question would help, or the reason says already what to write.
                false if why.contains("private = true") || why.contains("nothing can open") => {
                    format!("blocked by policy: reaching `{target}`{why}")
                }
                false => format!("blocked by policy: reaching `{target}`{why}; ask for `reach {target}`"),
            }
        })
        .collect();
    push_some(&mut lines, refused, outcome.network.omitted_decisions);
    push_some(&mut lines, outcome.planted_earlier.iter().map(left_behind).collect(), 0);
    push_some(&mut lines, outcome.planted.iter().map(describe_planted).collect(), 0);
    if let Some(limit) = outcome.limit_exceeded {
        lines.push(match limit {
            LimitKind::Wall => {
                let ms = confinement.limits.wall_time.as_millis();
                format!("stopped after {ms} ms, with all processes that it had started (wall)")
            }
            _ => {
                format!("blocked by policy: ended at the limit of {}", limited(limit, &confinement.limits))
            }
        });
    }
    for limit in outcome.limits_reached.iter().filter(|limit| Some(**limit) != outcome.limit_exceeded) {
        lines.push(format!("the command reached the limit of {}", limited(*limit, &confinement.limits)));
    }
    if outcome.status != CommandStatus::Exited(0) {
        lines.extend(describe_hidden(confinement, &outcome.hidden));
        lines.push(describe_limits(confinement));
    }
    lines
}

/// Names the files beside a command that it could not see. A command that needs one fails without a word about it.
fn describe_hidden(confinement: &Confinement, hidden: &[PathBuf]) -> Option<String> {
    let name = |path: &PathBuf| {
        let inner = path.strip_prefix(&confinement.files.cwd).unwrap_or(path);
        format!("`{}`", shown(inner))
    };
    let mut names: Vec<String> = hidden.iter().take(HIDDEN_NAMED_MAX).map(name).collect();
    let more = hidden.len().saturating_sub(HIDDEN_NAMED_MAX);
    names.extend((more > 0).then(|| format!("{more} more")));
    (!names.is_empty()).then(|| format!("a rule hides these files from the command: {}", names.join(", ")))
}

/// Describes the boundaries of a run in one line.
pub fn describe_limits(confinement: &Confinement) -> String {
    let files = &confinement.files;
    let writable: Vec<String> = files.writable.iter().map(|path| format!("`{}`", shown(path))).collect();
    let writable = if writable.is_empty() { "nothing".to_owned() } else { writable.join(", ") };
    let readable = match &files.readable {
        ReadScope::Everything => "everything that you can read".to_owned(),
        ReadScope::Only(paths) => {
            let paths: Vec<String> = paths.iter().map(|path| format!("`{}`", shown(path))).collect();
            format!("the system, toolchains and {}", paths.join(", "))
        }
    };
    let network = match confinement.network {
        Network::Off => "the command had no network",
        Network::Proxied => "its network went only through the proxy",
        Network::Host => "it could use the network of this machine",
    };
    format!(
        "the command ran confined: it could write {writable} and temporary files, and read {readable}, without secrets; {network}"
    )
}

/// Describes a planted file.
pub fn describe_planted(planted: &PlantedFile) -> String {
    let (path, now) = (shown(&planted.path), shown(&planted.quarantine_path));
    format!(
        "blocked by policy: other programs would run or follow `{path}` later, so it was renamed to `{now}`; ask for `write {path}`"
    )
}

/// Describes a file that an earlier run had planted.
fn left_behind(planted: &PlantedFile) -> String {
    let (path, now) = (shown(&planted.path), shown(&planted.quarantine_path));
    format!(
        "an earlier run that was killed had made `{path}`, which other programs would run or follow; it was renamed to `{now}`; if the file is \
         yours, rename it back"
    )
}

fn limited(limit: LimitKind, limits: &ResourceLimits) -> String {
    match limit {
        LimitKind::Wall => format!("{} s of elapsed time (wall)", limits.wall_time.as_secs()),
        LimitKind::Cpu => format!("{} s of processor time (cpu)", limits.cpu_time.as_secs()),
        LimitKind::Memory => format!("{} of memory (memory)", bytes(limits.memory_bytes)),
        LimitKind::Pids => format!("{} processes at a time (pids)", limits.pids),
        LimitKind::Growth => {
            format!("{} of growth in the writable paths (growth)", bytes(limits.growth_bytes))
        }
        LimitKind::Copy => format!("{} of growth in the copy (copy)", bytes(limits.copy_bytes)),
        LimitKind::Reserve => {
            format!("{} of free space on the disk of the copy (reserve)", bytes(limits.reserve_bytes))
        }
        LimitKind::Output => format!("{} of stored output (output)", bytes(limits.output_bytes)),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        ..0x400 => format!("{bytes} bytes"),
        0x400..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

fn push_some(lines: &mut Vec<String>, some: Vec<String>, left_out: u64) {
    let more = some.len().saturating_sub(LINES_MAX) as u64 + left_out;
    lines.extend(some.into_iter().take(LINES_MAX));
    if more > 0 {
        lines.push(format!("blocked by policy: {more} more like these"));
    }
}

/// Escapes text from inside, so that it cannot pass for our own words.
fn line(text: &str) -> String {
    make_visible(text, EscapeLevel::Name)
}

fn shown(path: &Path) -> String {
    line(&path.to_string_lossy())
}

//! The session of a command that names none: one for each terminal and workspace.
//!
//! Two terminals never wait for each other, and an approval "in this session" ends with the terminal.

use std::path::Path;

use anyhow::Result;
use byleave_files::own;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::SessionId;

use crate::resolved_options::{ResolvedOptions, variable};

/// The environment variable that names the session instead.
const VARIABLE: &str = "BYLEAVE_SESSION";

/// Returns the given session, or that of the environment, or that of this terminal and workspace.
pub(crate) fn resolve(given: Option<&SessionId>, options: &ResolvedOptions) -> Result<SessionId> {
    if let Some(session) = given {
        return Ok(session.clone());
    }
    if let Some(name) = variable(VARIABLE) {
        return Ok(SessionId::new(name)?);
    }
    let name = Digest::compute(format!("{}\n{}", terminal_name(), options.cwd).as_bytes()).short_hex();
    Ok(SessionId::new(format!("cli-{name}"))?)
}

/// Returns a name for this terminal: the id of its first process, and the time at which that was started, which distinguishes it from
/// later processes with the same id.
fn terminal_name() -> String {
    let own = ProcessStat::read("self");
    // A process outside our PID namespace has the id 0 (a shell that `unshare --pid` started). The namespace ends with its process 1.
    match own.session.as_str() {
        "0" => format!("1 {} {}", ProcessStat::read("1").started, own.terminal),
        leader => format!("{leader} {}", ProcessStat::read(leader).started),
    }
}

/// What `/proc/PID/stat` says about a process. Everything is empty where it cannot be read.
#[derive(Default)]
pub(crate) struct ProcessStat {
    pub(crate) parent: String,
    session: String,
    pub(crate) terminal: String,
    started: String,
}

impl ProcessStat {
    pub(crate) fn read(process: &str) -> Self {
        let text = own::read_text(Path::new(&format!("/proc/{process}/stat"))).unwrap_or_default();
        // The name of the program comes first, in parentheses, and may contain anything.
        let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<_> = after_name.split_whitespace().collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default().to_owned();
        Self { parent: field(1), session: field(3), terminal: field(4), started: field(19) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R5
    #[test]
    fn a_terminal_is_named_by_the_start_of_its_first_process() {
        let name = terminal_name();
        assert_eq!(name, terminal_name());
        let started = name.split(' ').nth(1).unwrap();
        assert!(started.parse::<u64>().is_ok(), "{name}");
        let own = ProcessStat::read("self");
        assert!(own.started.parse::<u64>().is_ok_and(|ticks| ticks > 0), "{}", own.started);
    }
}

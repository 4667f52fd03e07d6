//! The session of a command that names none: one for each terminal and workspace.
//!
//! Two terminals never wait for each other, and an approval "in this session" ends with the terminal.

use std::path::PathBuf;

use anyhow::Result;
use byleave_files::own;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::SessionId;
use rustix::process::{Pid, getsid};

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
    let terminal = getsid(None).map_or_else(|_| String::new(), terminal_name);
    let name = Digest::compute(format!("{terminal}\n{}", options.cwd).as_bytes()).short_hex();
    Ok(SessionId::new(format!("cli-{name}"))?)
}

/// Returns a name for the terminal whose first process has this id. The time at which the process was started distinguishes it from
/// later processes with the same id.
fn terminal_name(leader: Pid) -> String {
    let stat = PathBuf::from(format!("/proc/{}/stat", leader.as_raw_nonzero()));
    let text = own::read_text(&stat).unwrap_or_default();
    // The name of the program comes first, in parentheses, and may contain anything.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let started = after_name.split_whitespace().nth(19).unwrap_or_default();
    format!("{} {started}", leader.as_raw_nonzero())
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: R5
    #[test]
    fn a_terminal_is_named_by_the_start_of_its_first_process() {
        let leader = getsid(None).unwrap();
        let name = terminal_name(leader);
        assert_eq!(name, terminal_name(leader));
        let own = terminal_name(rustix::process::getpid());
        let started = own.split(' ').nth(1).unwrap();
        assert!(started.parse::<u64>().is_ok_and(|ticks| ticks > 0), "{own}");
    }
}

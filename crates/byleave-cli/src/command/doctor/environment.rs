//! Checks the environment of the sandbox: settings, rules, the state directory, the audit log, the terminal and notifications.
//!
//! It changes nothing: it creates no directory and no audit log.

use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use byleave_gate::approver::TerminalApprover;
use byleave_gate::audit_log::sqlite;
use byleave_hook::SOCKET_NAME;
use rustix::fs::{Access, access, statvfs};
use serde_json::{Value, json};

#[cfg(feature = "serve")]
use super::webhooks::webhooks;
use crate::active_policy::ActivePolicy;
use crate::app_context::AppContext;
use crate::call_display::format_count;
use crate::config::NotifySetting;
use crate::hook::SessionFindings;
use crate::notify;
use crate::resolved_options::{ResolvedOptions, real_path};

/// Below this, the audit log and the copies beside it soon run out of space.
const FREE_BYTES_MIN: u64 = 256 << 20;

/// The result of one check.
pub(crate) struct DoctorFinding {
    pub(crate) subject: &'static str,
    pub(crate) is_ok: bool,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl DoctorFinding {
    pub(super) fn ok(about: &'static str, what: impl Into<String>) -> Self {
        Self { subject: about, is_ok: true, message: what.into(), hint: None }
    }

    pub(super) fn problem(about: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { subject: about, is_ok: false, message: what.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "subject": self.subject, "ok": self.is_ok, "message": self.message, "hint": self.hint })
    }
}

/// Returns the results of all checks.
pub(super) fn findings(options: &ResolvedOptions) -> Vec<DoctorFinding> {
    let mut all = vec![settings(options), rules(options), state(options)];
    all.extend(book(options));
    all.push(terminal());
    all.push(notify_finding(options));
    all.extend(webhooks(options));
    all.push(hooks(options));
    all.push(sessions(options));
    all
}

fn settings(options: &ResolvedOptions) -> DoctorFinding {
    match options.reload() {
        Err(error) => {
            let hint = "`byleave config edit` opens your own file; `byleave config path` names all of them";
            DoctorFinding::problem("settings", format!("{error:#}"), hint)
        }
        Ok(chosen) => {
            let there = chosen.files.iter().filter(|(_, is_there)| *is_there);
            let there: Vec<String> = there.map(|(file, _)| file.path.display().to_string()).collect();
            let what =
                if there.is_empty() { "no file; the defaults apply".to_owned() } else { there.join(", ") };
            DoctorFinding::ok("settings", what)
        }
    }
}

fn rules(options: &ResolvedOptions) -> DoctorFinding {
    let Ok(Some(state)) = real_path(&options.state) else {
        return DoctorFinding::problem(
            "rules",
            "the state directory cannot be found",
            "choose one with `--state`",
        );
    };
    match (ActivePolicy { options, workspace: &options.cwd, state: &state }).load() {
        Err(fault) => DoctorFinding::problem(
            "rules",
            fault.to_string(),
            "`byleave policy check FILE` shows the error in the file",
        ),
        Ok(loaded) => {
            let files: Vec<String> =
                loaded.files.iter().map(|file| file.path.display().to_string()).collect();
            let of = if files.is_empty() { "built-in only".to_owned() } else { files.join(", ") };
            DoctorFinding::ok(
                "rules",
                format!("{}: {of}", format_count(loaded.policy.rules().count() as u64, "rule")),
            )
        }
    }
}

fn state(options: &ResolvedOptions) -> DoctorFinding {
    let dir = &options.state;
    let shown = dir.display();
    let found = match dir.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = dir.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
            return match access(above, Access::WRITE_OK) {
                Ok(()) => DoctorFinding::ok(
                    "state",
                    format!("`{shown}` does not exist yet; the first call creates it"),
                ),
                Err(error) => DoctorFinding::problem(
                    "state",
                    format!(
                        "`{shown}` does not exist and cannot be created in `{}`: {error}",
                        above.display()
                    ),
                    "choose another directory with `--state` or the setting `state`",
                ),
            };
        }
        Err(error) => {
            let hint = format!(
                "take ownership: `sudo chown -R \"$USER\" '{shown}'`, or choose another with `--state`"
            );
            return DoctorFinding::problem("state", format!("cannot access `{shown}`: {error}"), hint);
        }
    };
    if !found.is_dir() || access(dir, Access::WRITE_OK).is_err() {
        let hint = format!(
            "make it a directory that you own: `sudo chown -R \"$USER\" '{shown}'`, or choose another with `--state`"
        );
        return DoctorFinding::problem(
            "state",
            format!("`{shown}` is not a directory that you can write to"),
            hint,
        );
    }
    if found.mode() & 0o077 != 0 {
        let what = format!(
            "`{shown}` is open to others (mode {:o}): the audit log contains the data that calls read",
            found.mode() & 0o777
        );
        return DoctorFinding::problem("state", what, format!("`chmod 700 '{shown}'`"));
    }
    let free = statvfs(dir).map(|about| about.f_bavail.saturating_mul(about.f_frsize));
    match free {
        Ok(free) if free < FREE_BYTES_MIN => {
            let what = format!("`{shown}` has only {} MB left", free >> 20);
            DoctorFinding::problem(
                "state",
                what,
                "free disk space, or move the audit log to a larger disk and choose it with `--state`",
            )
        }
        Ok(free) => DoctorFinding::ok("state", format!("`{shown}`, private, {} MB left", free >> 20)),
        Err(error) => DoctorFinding::problem(
            "state",
            format!("cannot read the free space of `{shown}`: {error}"),
            "see `df -h`",
        ),
    }
}

fn book(options: &ResolvedOptions) -> Option<DoctorFinding> {
    if !sqlite::has_audit_log(&options.state) {
        return None;
    }
    let bytes = options.state.join("audit.sqlite").metadata().map_or(0, |file| file.len());
    Some(match AppContext::open_to_read(options, None) {
        Ok(_) => {
            let engine = sqlite::sqlite_version();
            DoctorFinding::ok(
                "audit log",
                format!("opens: {} KB, SQLite {engine}; `byleave audit verify` checks it", bytes >> 10),
            )
        }
        Err(error) => {
            let hint = "restore a backup, or choose another directory with `--state`; `byleave audit verify` \
                names the first damaged place";
            DoctorFinding::problem("audit log", format!("{error:#}"), hint)
        }
    })
}

fn terminal() -> DoctorFinding {
    let term = std::env::var("TERM").unwrap_or_else(|_| "not set".to_owned());
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0);
    let size =
        size.map_or_else(|| "size not known".to_owned(), |size| format!("{}×{}", size.ws_col, size.ws_row));
    let streams = [
        ("input", io::stdin().is_terminal()),
        ("output", io::stdout().is_terminal()),
        ("error", io::stderr().is_terminal()),
    ];
    let at: Vec<&str> = streams.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    let at = if at.is_empty() {
        "no stream is a terminal".to_owned()
    } else {
        format!("{} connected", at.join(", "))
    };
    // Support for bracketed paste cannot be queried without waiting for a reply that may never come.
    let what = format!("TERM {term}, {size}, {at}");
    match TerminalApprover::open("doctor") {
        Ok(_) => DoctorFinding::ok("terminal", format!("{what}; questions can be asked here")),
        Err(error) => DoctorFinding::ok(
            "terminal",
            format!(
                "{what}; no question can be asked here ({error}): calls that need one are refused, or wait with \
                 `--ask inbox`"
            ),
        ),
    }
}

/// Checks whether a process evaluates calls for hooks. None is required: each hook can do it by itself.
fn hooks(options: &ResolvedOptions) -> DoctorFinding {
    match UnixStream::connect(options.state.join(SOCKET_NAME)) {
        Ok(_) => DoctorFinding::ok("hooks", "a gate evaluates calls for agents' hooks"),
        Err(_) => DoctorFinding::ok(
            "hooks",
            "no gate runs for agents' hooks: each hook evaluates calls itself, which takes longer; `byleave hook \
             serve` starts one",
        ),
    }
}

/// Checks whether the agents left what was judged, and reported it.
fn sessions(options: &ResolvedOptions) -> DoctorFinding {
    let hint = "an agent that works now may just not have reported yet; `byleave init AGENT` sets up the hook after each tool";
    match SessionFindings::read(options).map(|found| found.lines()) {
        Ok(lines) if lines.is_empty() => {
            DoctorFinding::ok("sessions", "every edit of an agent's own tool is as it was judged")
        }
        Ok(lines) => DoctorFinding::problem("sessions", lines.join("; "), hint),
        Err(error) => DoctorFinding::problem("sessions", format!("{error:#}"), hint),
    }
}

/// Without the feature `serve` this program has no webhooks.
#[cfg(not(feature = "serve"))]
fn webhooks(_options: &ResolvedOptions) -> Option<DoctorFinding> {
    None
}

fn notify_finding(options: &ResolvedOptions) -> DoctorFinding {
    match options.settings.notify() {
        NotifySetting::Off => DoctorFinding::ok("notify", "off; `byleave inbox` shows the open questions"),
        NotifySetting::Auto => DoctorFinding::ok("notify", notify::describe_auto()),
        NotifySetting::Osc9 => DoctorFinding::ok("notify", "by OSC 9, if the terminal supports it"),
        NotifySetting::Command(words) => {
            let program = words.first().cloned().unwrap_or_default();
            let is_there = program.contains('/') && Path::new(&program).exists()
                || std::env::var_os("PATH")
                    .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&program).is_file()));
            if is_there && !program.is_empty() {
                return DoctorFinding::ok("notify", format!("by `{}`", words.join(" ")));
            }
            let what = format!("the command `{program}` of `notify_command` was not found");
            let hint = "install it (notify-send: `sudo apt install libnotify-bin` or `sudo dnf install \
                libnotify`), or choose another";
            DoctorFinding::problem("notify", what, hint)
        }
    }
}

//! Reports an error: what failed, where in which file, and what to do next. With `--json` also as JSON.

use anyhow::Error;
use byleave::policy_files::PolicyLoadError;

use crate::config::ConfigError;
use crate::console::{Console, Tone, prose};
use crate::diagnostics;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::json_output;

/// Reports an error, with `--json` also as JSON, and returns the exit status.
pub(crate) fn report_error(screen: &mut Console, error: &Error) -> ExitStatus {
    let complaint = error.chain().find_map(|cause| cause.downcast_ref::<CliError>());
    let status = complaint.map_or(ExitStatus::Unusable, |complaint| complaint.status);
    let hint = complaint.map_or_else(|| advice(error), |complaint| complaint.hint.as_deref());
    // A partial result followed by an error would not be valid JSON.
    if screen.json() && !screen.has_printed() {
        screen.value(&json_output::error(&format!("{error:#}"), hint, status));
    }
    if let Some(PolicyLoadError::File(fault)) =
        error.chain().find_map(|cause| cause.downcast_ref::<PolicyLoadError>())
    {
        diagnostics::print_policy_errors(screen, fault);
        return status;
    }
    if let Some(fault) = error.chain().find_map(|cause| cause.downcast_ref::<ConfigError>()) {
        diagnostics::print_config_errors(screen, fault);
        screen.hint("nothing runs until it is right; `byleave config edit` opens your own file");
        return status;
    }
    screen.message_with_tone(Tone::Bad, "error:", &prose(&format!("{error:#}")));
    if let Some(hint) = hint {
        screen.hint(hint);
    }
    status
}

/// Returns advice for an unexpected error.
fn advice(error: &Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    // These errors have their own advice.
    if error.chain().any(|cause| cause.is::<PolicyLoadError>() || cause.is::<ConfigError>()) {
        return None;
    }
    let told = format!("{error:#}");
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind);
    Some(match io {
        _ if told.contains("No space left") || io == Some(ErrorKind::StorageFull) => {
            "make room: `df -h` shows where; nothing was done that is not in the book"
        }
        _ if told.contains("Permission denied") || io == Some(ErrorKind::PermissionDenied) => {
            "see whose it is with `ls -ld`; `--state` names another directory for the book"
        }
        _ if told.contains("not a database") || told.contains("not a book") => {
            "`--state` names the directory of another book; a copy of this one, put back, is checked by `byleave book verify`"
        }
        _ if told.contains("newer program") => "update byleave: the book was written by a newer one",
        _ => "`byleave doctor` looks at the state directory and the files; `-v` says more",
    })
}

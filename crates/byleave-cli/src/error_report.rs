//! Reports an error: what failed, where in which file, and what to do next. With `--json` also as JSON.

use anyhow::Error;
use byleave_gate::policy_files::PolicyLoadError;

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
        screen.hint("nothing runs until the file is valid; `byleave config edit` opens your own file");
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
            "free disk space (see `df -h`); everything that was done is in the audit log"
        }
        _ if told.contains("Permission denied") || io == Some(ErrorKind::PermissionDenied) => {
            "check the owner with `ls -ld`; `--state` chooses another directory for the audit log"
        }
        _ if told.contains("not a database") || told.contains("not an audit log") => {
            "choose another audit log with `--state`, or restore a backup and check it with `byleave audit verify`"
        }
        _ if told.contains("has the format") => {
            "choose another directory with `--state`, or use the version of byleave that wrote this audit log"
        }
        _ => "`byleave doctor` checks the state directory and the files; `-v` shows more",
    })
}

//! Errors of the program: what happened to what, and what to do next.

use anyhow::Error;
use byleave::catalog::UnknownTool;
use byleave::gate::AnswerFault;
use byleave::policy_files::LoadFault;

use crate::config::ConfigFault;
use crate::flaws;
use crate::json;
use crate::screen::{Screen, Tone, prose};
use crate::status::Status;

/// An error that knows its exit code and what to do next.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Complaint {
    what: String,
    status: Status,
    hint: Option<String>,
}

impl Complaint {
    /// It cannot be done as it was typed, or not at all.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: Status::Unusable, hint: None }
    }

    /// We said no.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: Status::Refused, hint: None }
    }

    /// A command could not be confined, and was not run.
    pub(crate) fn not_run(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: Status::NOT_RUN, hint: None }
    }

    /// Nothing says where the book is.
    pub(crate) fn homeless() -> Self {
        Self::new("nobody says where the book is kept").hint("name a directory with `--state`")
    }

    /// The same with what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<UnknownTool> for Complaint {
    fn from(unknown: UnknownTool) -> Self {
        Self::new(unknown.to_string()).hint("`byleave tools` lists the tools")
    }
}

impl From<AnswerFault> for Complaint {
    fn from(fault: AnswerFault) -> Self {
        let what = fault.to_string();
        match fault {
            AnswerFault::NoSuchQuestion(_) => {
                Self::new(what).hint("`byleave inbox` lists the open questions")
            }
            AnswerFault::Late => Self::new(what).hint("`byleave book log` shows what became of its call"),
            AnswerFault::Mismatch => Self::refused(what).hint("`byleave inbox show` shows what it asks now"),
            AnswerFault::OwnQuestion => {
                Self::refused(what).hint("answer under a name that is not the agent's")
            }
            AnswerFault::Unusable(_) => {
                Self::new(what).hint("`byleave inbox show` shows what it asks; yes, no and abort always do")
            }
            AnswerFault::NotRecorded(_) => Self::new(what).hint("nothing was changed; try again"),
        }
    }
}

/// Says what went wrong, as JSON too where that is wanted, and returns how to exit.
pub(crate) fn tell(screen: &mut Screen, error: &Error) -> Status {
    let complaint = error.chain().find_map(|cause| cause.downcast_ref::<Complaint>());
    let status = complaint.map_or(Status::Unusable, |complaint| complaint.status);
    let hint = complaint.map_or_else(|| advice(error), |complaint| complaint.hint.as_deref());
    // Half of a result, with an error behind it, would be neither.
    if screen.json() && !screen.has_printed() {
        screen.value(&json::error(&format!("{error:#}"), hint, status));
    }
    if let Some(LoadFault::File(fault)) = error.chain().find_map(|cause| cause.downcast_ref::<LoadFault>()) {
        flaws::tell(screen, fault);
        return status;
    }
    if let Some(fault) = error.chain().find_map(|cause| cause.downcast_ref::<ConfigFault>()) {
        flaws::tell_config(screen, fault);
        screen.hint("nothing runs until it is right; `byleave config edit` opens your own file");
        return status;
    }
    screen.toned(Tone::Bad, "error:", &prose(&format!("{error:#}")));
    if let Some(hint) = hint {
        screen.hint(hint);
    }
    status
}

/// What to do about something that broke, and that nobody expected in the place where it did.
fn advice(error: &Error) -> Option<&'static str> {
    use std::io::ErrorKind;
    // Those say it themselves.
    if error.chain().any(|cause| cause.is::<LoadFault>() || cause.is::<ConfigFault>()) {
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

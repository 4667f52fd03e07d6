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
            AnswerFault::Unusable(_) => Self::new(what),
            AnswerFault::NotRecorded(_) => Self::new(what).hint("nothing was changed; try again"),
        }
    }
}

/// Says what went wrong, as JSON too where that is wanted, and returns how to exit.
pub(crate) fn tell(screen: &mut Screen, error: &Error) -> Status {
    let complaint = error.chain().find_map(|cause| cause.downcast_ref::<Complaint>());
    let status = complaint.map_or(Status::Unusable, |complaint| complaint.status);
    let hint = complaint.and_then(|complaint| complaint.hint.as_deref());
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

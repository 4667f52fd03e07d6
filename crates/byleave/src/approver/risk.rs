//! Risk levels: how carefully a question must be asked. They are derived from facts, and must never depend on the model's words.

use std::time::Duration;

use byleave_core::decision::{AskCause, Verdict};
use byleave_core::effect::Effect;
use byleave_core::file_change::{FileChangeKind, FileNodeKind, GitStatus};
use byleave_core::question::QuestionKind;
use byleave_core::question_view::{QuestionView, RehearsalView};

/// The cost of a wrong approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RiskLevel {
    /// The action is reversible or small.
    Ordinary,
    /// The action destroys something, leaves the sandbox, or was not understood.
    Grave,
    /// The action is irreversible, or could do great harm and is not known to be reversible.
    Final,
}

impl RiskLevel {
    /// Returns the risk level of a question.
    pub fn of(sheet: &QuestionView) -> Self {
        if sheet.question.kind == QuestionKind::Checkpoint {
            return Self::Final;
        }
        // The call has already run. Only releasing its result could make it worse.
        if sheet.question.kind == QuestionKind::Release {
            return Self::Ordinary;
        }
        let asks_for = |cause: AskCause| {
            let reasons = sheet.ruling.reasons.iter();
            reasons.filter(|reason| reason.verdict == Verdict::Ask).any(|reason| reason.cause == Some(cause))
        };
        let stands = matches!(&sheet.seen, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.stands());
        // An action that could do great harm is treated as irreversible unless it was seen to be reversible.
        if sheet.plan.irreversible
            || asks_for(AskCause::Irreversible)
            || asks_for(AskCause::Dangerous) && !stands
        {
            return Self::Final;
        }
        let loud = |effect: &Effect| {
            matches!(effect, Effect::Delete { .. } | Effect::Unconfined { .. } | Effect::Unknown { .. })
        };
        let grave = sheet.terms.destructive
            || asks_for(AskCause::Dangerous)
            || asks_for(AskCause::NotUnderstood)
            || sheet.plan.effects.is_empty()
            || sheet.plan.effects.iter().any(loud)
            || loses_what_only_the_disk_has(sheet);
        if grave { Self::Grave } else { Self::Ordinary }
    }

    /// Returns how long a question must be on the screen before a key can answer it.
    pub const fn dwell(self) -> Duration {
        match self {
            Self::Ordinary => Duration::from_millis(500),
            Self::Grave => Duration::from_millis(1_500),
            Self::Final => Duration::from_millis(2_500),
        }
    }

    /// Returns the words that a person must type to approve, if a key is not enough.
    pub const fn words(self, kind: QuestionKind) -> Option<&'static str> {
        match (self, kind) {
            (_, QuestionKind::Checkpoint) => Some("release"),
            (Self::Final, _) => Some("for good"),
            (Self::Ordinary | Self::Grave, _) => None,
        }
    }
}

/// Checks whether the rehearsal removed files that are in no repository.
fn loses_what_only_the_disk_has(sheet: &QuestionView) -> bool {
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.seen else { return false };
    rehearsal.changes.list.iter().any(|change| {
        let was_file =
            matches!(change.before.as_ref().map(|node| &node.kind), Some(FileNodeKind::File { .. }));
        was_file && change.standing == GitStatus::Untracked && change.what() == FileChangeKind::Deleted
    })
}

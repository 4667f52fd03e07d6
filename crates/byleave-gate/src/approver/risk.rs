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
    Normal,
    /// The action destroys something, leaves the sandbox, or was not understood.
    High,
    /// The action is irreversible, or could do great harm and is not known to be reversible.
    Irreversible,
}

impl RiskLevel {
    /// Returns the risk level of a question.
    pub fn for_question(sheet: &QuestionView) -> Self {
        if sheet.question.kind == QuestionKind::Checkpoint {
            return Self::Irreversible;
        }
        // The call has already run. Only releasing its result could make it worse.
        if sheet.question.kind == QuestionKind::Release {
            return Self::Normal;
        }
        let asks_for = |cause: AskCause| {
            let reasons = sheet.decision.reasons.iter();
            reasons.filter(|reason| reason.verdict == Verdict::Ask).any(|reason| reason.cause == Some(cause))
        };
        let stands = matches!(&sheet.rehearsal, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.is_committable());
        // An action that could do great harm is treated as irreversible unless it was seen to be reversible.
        if sheet.plan.irreversible
            || asks_for(AskCause::Irreversible)
            || asks_for(AskCause::Dangerous) && !stands
        {
            return Self::Irreversible;
        }
        let loud = |effect: &Effect| {
            matches!(effect, Effect::Delete { .. } | Effect::Unconfined { .. } | Effect::Unknown { .. })
        };
        let grave = sheet.resolved_tool.destructive
            || asks_for(AskCause::Dangerous)
            || asks_for(AskCause::NotUnderstood)
            || sheet.plan.effects.is_empty()
            || sheet.plan.effects.iter().any(loud)
            || deletes_untracked_files(sheet);
        if grave { Self::High } else { Self::Normal }
    }

    /// Returns how long a question must be on the screen before a key can answer it.
    pub const fn min_read_time(self) -> Duration {
        match self {
            Self::Normal => Duration::from_millis(500),
            Self::High => Duration::from_millis(1_500),
            Self::Irreversible => Duration::from_millis(2_500),
        }
    }

    /// Returns the words that a person must type to approve, if a key is not enough.
    pub const fn confirmation_phrase(self, kind: QuestionKind) -> Option<&'static str> {
        match (self, kind) {
            (_, QuestionKind::Checkpoint) => Some("release"),
            (Self::Irreversible, _) => Some("for good"),
            (Self::Normal | Self::High, _) => None,
        }
    }
}

/// Checks whether the rehearsal removed files that are in no repository.
fn deletes_untracked_files(sheet: &QuestionView) -> bool {
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.rehearsal else { return false };
    rehearsal.changes.list.iter().any(|change| {
        let was_file =
            matches!(change.before.as_ref().map(|node| &node.kind), Some(FileNodeKind::File { .. }));
        was_file && change.git_status == GitStatus::Untracked && change.kind() == FileChangeKind::Deleted
    })
}

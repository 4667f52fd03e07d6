//! Gravity: how carefully a question must be put, told from its facts and never from the model's words.

use std::time::Duration;

use byleave_core::decision::{AskCause, Verdict};
use byleave_core::effect::Effect;
use byleave_core::file_change::{FileChangeKind, FileNodeKind, GitStatus};
use byleave_core::question::QuestionKind;
use byleave_core::question_view::{QuestionView, RehearsalView};

/// How much a wrong yes would cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RiskLevel {
    /// Can be taken back, or is small.
    Ordinary,
    /// Destroys, leaves the sandbox, or was not understood.
    Grave,
    /// Cannot be taken back, or could do great harm and nobody knows that it can.
    Final,
}

impl RiskLevel {
    /// How grave the question of a sheet is.
    pub fn of(sheet: &QuestionView) -> Self {
        if sheet.question.kind == QuestionKind::Checkpoint {
            return Self::Final;
        }
        // What has run already cannot be made worse but by being told.
        if sheet.question.kind == QuestionKind::Release {
            return Self::Ordinary;
        }
        let asks_for = |cause: AskCause| {
            let reasons = sheet.ruling.reasons.iter();
            reasons.filter(|reason| reason.verdict == Verdict::Ask).any(|reason| reason.cause == Some(cause))
        };
        let stands = matches!(&sheet.seen, Some(RehearsalView::Ran { rehearsal, .. }) if rehearsal.stands());
        // What could do great harm and was not seen to be only what can be undone counts as if it could not.
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

    /// How long a question must have been on the screen before a key can answer it.
    pub const fn dwell(self) -> Duration {
        match self {
            Self::Ordinary => Duration::from_millis(500),
            Self::Grave => Duration::from_millis(1_500),
            Self::Final => Duration::from_millis(2_500),
        }
    }

    /// The words that a person must type to say yes, where a key is not enough.
    pub const fn words(self, kind: QuestionKind) -> Option<&'static str> {
        match (self, kind) {
            (_, QuestionKind::Checkpoint) => Some("release"),
            (Self::Final, _) => Some("for good"),
            (Self::Ordinary | Self::Grave, _) => None,
        }
    }
}

/// Whether the rehearsal removed files that no repository has.
fn loses_what_only_the_disk_has(sheet: &QuestionView) -> bool {
    let Some(RehearsalView::Ran { rehearsal, .. }) = &sheet.seen else { return false };
    rehearsal.changes.list.iter().any(|change| {
        let was_file =
            matches!(change.before.as_ref().map(|node| &node.kind), Some(FileNodeKind::File { .. }));
        was_file && change.standing == GitStatus::Untracked && change.what() == FileChangeKind::Deleted
    })
}

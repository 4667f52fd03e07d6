//! The trait for what a question screen cannot know itself: past calls and undo.

use byleave_core::call::Millis;
use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;

/// The backend of a question on a screen. Called on threads where it may block.
///
/// Without a backend ([`NoBackend`]) no past calls are shown and nothing can be undone.
pub trait QuestionBackend: Send + Sync + 'static {
    /// Notes that a question waits for the person. An implementation may also notify them elsewhere.
    fn notify_waiting(&self, _sheet: &QuestionView) {}
    /// Returns the past calls that a standing approval would have covered, in words.
    fn covered_calls(&self, _leave: &StandingApproval) -> Vec<String> {
        vec!["the past calls that match are unknown".to_owned()]
    }
    /// Returns the time until which the agent waits for the answer, if it is known. After that it must make its call again.
    fn agent_waits_until(&self, _sheet: &QuestionView) -> Option<Millis> {
        None
    }
    /// Says how a question was answered elsewhere, or returns `None` if it was not.
    fn answered_elsewhere(&self, _sheet: &QuestionView) -> Option<String> {
        None
    }
    /// Describes what an undo would revert, or returns `None` if there is nothing.
    fn last_change(&self) -> Option<String> {
        None
    }
    /// Undoes the last change and describes the result.
    fn undo(&self) -> String {
        "there is nothing to undo".to_owned()
    }
}

/// The backend that knows nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoBackend;

impl QuestionBackend for NoBackend {}

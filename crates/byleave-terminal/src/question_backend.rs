//! The backing: what a screen with a question on it cannot know itself, past calls and undo, and asks for.

use byleave_core::question_view::QuestionView;
use byleave_core::standing_approval::StandingApproval;

/// What stands behind a question on a screen: what the screen cannot know itself. Called on threads where it may block.
///
/// Where there is nothing, as behind [`NoBackend`], no past calls are named and nothing can be undone.
pub trait QuestionBackend: Send + Sync + 'static {
    /// A question waits for the person: they may be told of it somewhere else too.
    fn waits(&self, _sheet: &QuestionView) {}
    /// The past calls that a leave would have covered, in words.
    fn past(&self, _leave: &StandingApproval) -> Vec<String> {
        vec!["nobody knows which past calls it would have covered".to_owned()]
    }
    /// What an undo would take back, in words; `None` where there is nothing.
    fn last_change(&self) -> Option<String> {
        None
    }
    /// Takes that back, and says what came of it.
    fn undo(&self) -> String {
        "there is nothing to take back".to_owned()
    }
}

/// Nothing stands behind it.
#[derive(Clone, Copy, Debug)]
pub struct NoBackend;

impl QuestionBackend for NoBackend {}

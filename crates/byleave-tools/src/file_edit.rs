//! Revisions: what a tool wants to be there, worked out from what is there. Data; nothing is touched before it is put on a copy.

use byleave::core::effect::{Effect, Plan};
use byleave::core::outcome::Output;

use crate::workspace_files::FileContent;

/// What is to be there, and what is said when it is.
pub(crate) struct PlannedEdit {
    /// File by file; each path once.
    pub(crate) puts: Vec<PlannedFile>,
    /// For the model.
    pub(crate) output: Output,
}

/// One file.
pub(crate) struct PlannedFile {
    /// Where: the path that was judged.
    pub(crate) path: String,
    /// What it was worked out from.
    pub(crate) from: Precondition,
    /// What is to be there; nothing, if it is to be removed.
    pub(crate) content: Option<Vec<u8>>,
    /// Who may do what with it, where that is to change.
    pub(crate) mode: Option<u32>,
}

/// What a new content rests on: if it is not so any more when it is put there, nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// Nothing: whatever is there is replaced.
    Anything,
    /// That nothing is there.
    Nothing,
    /// This very content.
    File {
        /// How long it was.
        size: u64,
        /// When it was last changed, in nanoseconds.
        modified: i64,
    },
}

impl Precondition {
    /// What was read.
    pub(crate) fn read(content: Option<&FileContent>) -> Self {
        match content {
            None => Self::Nothing,
            Some(content) => Self::File { size: content.size, modified: content.modified },
        }
    }
}

/// The one file that a plan lets be written.
pub(crate) fn written(plan: &Plan) -> Result<&str, String> {
    let mut written = plan.effects.iter().filter_map(|effect| match effect {
        Effect::Write { path } => Some(path.as_str()),
        _ => None,
    });
    match (written.next(), written.next()) {
        (Some(path), None) => Ok(path),
        _ => Err("the plan does not name one file to write; call again with one `path`".into()),
    }
}

//! A planned edit: the content that a tool wants, computed from the current content. It is only data; it must be put on a copy to take
//! effect.

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::outcome::Output;

use crate::workspace_files::FileContent;

/// The planned content, and the output after it is committed.
pub(crate) struct PlannedEdit {
    /// The files; each path occurs once.
    pub(crate) files: Vec<PlannedFile>,
    /// The output for the model.
    pub(crate) output: Output,
}

/// One file.
pub(crate) struct PlannedFile {
    /// The evaluated path.
    pub(crate) path: String,
    /// The state that the edit was computed from.
    pub(crate) precondition: Precondition,
    /// The new content; `None` deletes the file.
    pub(crate) content: Option<Vec<u8>>,
    /// The new mode, if it changes.
    pub(crate) mode: Option<u32>,
}

/// The precondition of a new content. If it does not hold when the edit is applied, nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// None: any existing file is replaced.
    Any,
    /// No file exists.
    Absent,
    /// The file is unchanged.
    File {
        /// The size.
        size: u64,
        /// The modification time, in nanoseconds.
        modified_ns: i64,
    },
}

impl Precondition {
    /// Returns the precondition for a content that was read.
    pub(crate) fn from_content(content: Option<&FileContent>) -> Self {
        match content {
            None => Self::Absent,
            Some(content) => Self::File { size: content.size, modified_ns: content.modified },
        }
    }
}

/// Returns the only file that a plan allows to write.
pub(crate) fn granted_write_path(plan: &Plan) -> Result<&str, String> {
    let mut written = plan.named_effects().filter_map(|effect| match effect {
        Effect::Write { path } => Some(path.as_str()),
        _ => None,
    });
    match (written.next(), written.next()) {
        (Some(path), None) => Ok(path),
        _ => Err("the plan does not name exactly one file to write; call again with one `path`".into()),
    }
}

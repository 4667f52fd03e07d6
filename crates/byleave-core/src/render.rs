//! The one renderer: a question, as lines for any screen. Escaped, complete, in our words and not the model's.

use serde::{Deserialize, Serialize};

use crate::sheet::Sheet;

/// A question as lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendering {
    /// The lines, top to bottom. A screen may wrap and scroll them; it may not leave any out.
    pub lines: Vec<RenderLine>,
    /// Whether everything is there. If not, it must not be possible to approve.
    pub complete: bool,
}

/// One line of a rendering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderLine {
    /// What kind of line it is, so that a screen can style it.
    pub role: LineRole,
    /// The text; printable characters only.
    pub text: String,
}

/// What kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineRole {
    /// What is asked.
    Title,
    /// The heading of a part.
    Heading,
    /// One effect.
    Effect,
    /// Part of the arguments or of a result.
    Content,
    /// Words of the model.
    Model,
    /// Why it asks.
    Reason,
    /// Part of the challenge.
    Challenge,
    /// Something to be careful about.
    Warning,
    /// Identity, time, digest.
    Detail,
}

/// Turns a question into lines.
pub fn render(_sheet: &Sheet) -> Rendering {
    Rendering { lines: Vec::new(), complete: false }
}

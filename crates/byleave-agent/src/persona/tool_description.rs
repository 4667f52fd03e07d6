//! A tool, as a prompt tells of it: made from what the tool says of itself, anew for every turn (L9).

use byleave_core::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use serde_json::Value;

/// A tool, as a prompt tells of it. Where a tool describes itself otherwise to whom it concerns, put that into `description`.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDescription {
    /// By which it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// Whether a person is asked.
    pub asked: ApprovalLikelihood,
    /// Whether the agent must first make the case against the call.
    pub is_challenged: bool,
}

/// Whether a person is asked about calls of a tool, as far as the tool itself says. The rules have the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApprovalLikelihood {
    /// As a rule not: it only reads, or keeps to what is the agent's own.
    Seldom,
    /// It depends on what the call would do.
    Perhaps,
    /// About every call.
    Always,
}

impl From<&Manifest> for ToolDescription {
    fn from(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            schema: manifest.input_schema.clone(),
            asked: ApprovalLikelihood::about(manifest),
            is_challenged: manifest.requires_reverse_thinking,
        }
    }
}

impl ApprovalLikelihood {
    /// What a tool says of itself. Silence counts as perhaps.
    fn about(manifest: &Manifest) -> Self {
        let keeps_to_itself =
            manifest.permission_class == PermissionClass::Readonly && manifest.sensitive != Some(true);
        match manifest.needs_approval {
            _ if manifest.requires_checkpoint => Self::Always,
            ApprovalRequirement::Always => Self::Always,
            ApprovalRequirement::Never if keeps_to_itself => Self::Seldom,
            ApprovalRequirement::Never | ApprovalRequirement::Depends => Self::Perhaps,
        }
    }

    /// In words, for the model.
    pub(super) const fn told(self) -> &'static str {
        match self {
            Self::Seldom => "as a rule nobody is asked",
            Self::Perhaps => "a person may be asked",
            Self::Always => "a person is asked every time",
        }
    }
}

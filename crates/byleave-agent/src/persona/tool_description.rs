//! The description of a tool in a prompt, created from its manifest for every turn (L9).

use byleave_core::manifest::{ApprovalRequirement, Manifest, PermissionClass};
use serde_json::Value;

/// The description of a tool in a prompt. If a tool has a special description for a context, put it into `description`.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDescription {
    /// The name by which it is called.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON schema of its arguments.
    pub schema: Value,
    /// Whether a person is asked.
    pub approval: ApprovalLikelihood,
    /// Whether the agent must first make the case against the call.
    pub needs_challenge: bool,
}

/// The likelihood that a person is asked about calls of a tool, according to its manifest. The policy decides in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApprovalLikelihood {
    /// Usually not: the tool only reads, or stays within the agent.
    Rarely,
    /// It depends on the effects of the call.
    Sometimes,
    /// Always.
    Always,
}

impl From<&Manifest> for ToolDescription {
    fn from(manifest: &Manifest) -> Self {
        Self {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            schema: manifest.offered_schema().into_owned(),
            approval: ApprovalLikelihood::about(manifest),
            needs_challenge: manifest.requires_reverse_thinking,
        }
    }
}

impl ApprovalLikelihood {
    /// Returns the value from a manifest. If the manifest does not say, the value is [`Self::Sometimes`].
    fn about(manifest: &Manifest) -> Self {
        let keeps_to_itself =
            manifest.permission_class == PermissionClass::Readonly && manifest.sensitive != Some(true);
        match manifest.needs_approval {
            _ if manifest.requires_checkpoint => Self::Always,
            ApprovalRequirement::Always => Self::Always,
            ApprovalRequirement::Never if keeps_to_itself => Self::Rarely,
            ApprovalRequirement::Never | ApprovalRequirement::Depends => Self::Sometimes,
        }
    }

    /// Returns the text for the model.
    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::Rarely => "usually no one is asked",
            Self::Sometimes => "a person may be asked",
            Self::Always => "a person is asked every time",
        }
    }
}

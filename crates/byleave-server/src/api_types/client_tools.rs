//! Types of client tools: their definitions, claims and reports.

use std::collections::BTreeMap;

use byleave::core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
use byleave::core::outcome::Output;
use byleave::review::Opinion;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::integer;
use crate::client_tools::ClientToolReport;

/// A function in one's own process, as it is judged. What is not said counts as the stricter
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientToolBody {
    /// What it does, for the model and for people
    #[schema(max_length = 4000)]
    pub(crate) description: String,
    /// JSON Schema of the arguments
    #[schema(value_type = Object)]
    pub(crate) input_schema: Map<String, Value>,
    /// bash, file, webfetch, readonly, generic or undeclared: which checks its arguments get
    #[schema(value_type = Option<String>, pattern = "^(bash|file|webfetch|readonly|generic|undeclared)$")]
    pub(crate) class: Option<PermissionClass>,
    /// What single arguments mean, by JSON pointer: read-path, write-path, edit-path, delete-path, patch, url or command
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) roles: BTreeMap<String, ArgumentRole>,
    /// The word for it in the book
    #[schema(min_length = 1, max_length = 64)]
    pub(crate) operation: Option<String>,
    /// Every call is asked about
    #[serde(default)]
    pub(crate) needs_approval: bool,
    /// It must be released by a checkpoint in every mode
    #[serde(default)]
    pub(crate) requires_checkpoint: bool,
    /// Calls of a session may run beside each other
    #[serde(default)]
    pub(crate) concurrency_safe: bool,
    /// A label for people; it never loosens a verdict
    #[serde(default)]
    pub(crate) read_only: bool,
    /// A label for people
    #[serde(default)]
    pub(crate) destructive: bool,
    /// Whether it deals with what deserves a question
    pub(crate) sensitive: Option<bool>,
    /// How long a call may be in its maker's hands
    #[schema(minimum = 1, maximum = 600000)]
    #[serde(default, deserialize_with = "integer::deserialize_optional_u32")]
    pub(crate) timeout_ms: Option<u32>,
}

impl ClientToolBody {
    /// Creates the manifest of the tool. It is never repeatable, because a claimed call is not handed out again.
    pub(crate) fn into_manifest(self, name: String) -> Manifest {
        Manifest {
            permission_class: self.class.unwrap_or_default(),
            roles: self.roles,
            audit_operation: self.operation,
            needs_approval: if self.needs_approval {
                ApprovalRequirement::Always
            } else {
                ApprovalRequirement::Never
            },
            requires_checkpoint: self.requires_checkpoint,
            concurrency_safe: self.concurrency_safe,
            read_only: self.read_only,
            destructive: self.destructive,
            sensitive: self.sensitive,
            timeout_ms: self.timeout_ms.map(u64::from),
            ..Manifest::new(name, self.description, self.input_schema.into())
        }
    }
}

/// The name by which it is called
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClientToolName {
    pub(crate) tool: String,
}

/// Who takes a call
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// Chosen by the one process that will run it: the same claim gets the same call, another gets nothing
    #[schema(min_length = 16, max_length = 128)]
    pub(crate) claim: String,
}

/// What came of a call that was taken
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportBody {
    /// The claim with which it was taken
    #[schema(min_length = 16, max_length = 128)]
    pub(crate) claim: String,
    /// For the model to read
    #[serde(default)]
    pub(crate) text: String,
    /// Structured data
    pub(crate) data: Option<Value>,
    /// What went wrong, where it failed
    pub(crate) error: Option<String>,
    /// What the maker's own reviewer says of that
    pub(crate) review: Option<OutputReview>,
}

impl From<ReportBody> for ClientToolReport {
    fn from(body: ReportBody) -> Self {
        let said = match body.review {
            None | Some(OutputReview::Pass {}) => Opinion::Pass,
            Some(OutputReview::Deny { why }) => Opinion::Deny { reason: why },
            Some(OutputReview::Change { text, data, why }) => Opinion::Change {
                value: Output { text, data, error: body.error.clone(), ..Output::default() },
                reason: why,
            },
        };
        let is_error = body.error.is_some();
        let output =
            Output { text: body.text, is_error, error: body.error, data: body.data, ..Output::default() };
        Self { output, review: said }
    }
}

/// What the maker's own reviewer said of the arguments
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum InputReview {
    /// Nothing to object
    Pass {},
    /// These in place of all the arguments
    Change {
        #[schema(value_type = Object)]
        arguments: Map<String, Value>,
        why: Option<String>,
    },
    /// No
    Deny { why: Option<String> },
}

impl From<InputReview> for Opinion<Value> {
    fn from(review: InputReview) -> Self {
        match review {
            InputReview::Pass {} => Self::Pass,
            InputReview::Change { arguments, why } => Self::Change { value: arguments.into(), reason: why },
            InputReview::Deny { why } => Self::Deny { reason: why },
        }
    }
}

/// What the maker's own reviewer says of a result
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "say", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum OutputReview {
    /// Nothing to object
    Pass {},
    /// This in place of the whole result
    Change { text: String, data: Option<Value>, why: Option<String> },
    /// The model does not get it
    Deny { why: Option<String> },
}

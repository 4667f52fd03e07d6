//! Types of client tools: their definitions, claims and reports.

use std::collections::BTreeMap;

use byleave_gate::core::manifest::{ApprovalRequirement, ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::review::Opinion;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::integer;
use crate::client_tools::{ClientToolReport, client_tool_name};

/// A client tool: a function in the process of the client. Without `class` it counts as undeclared, and without `sensitive` as sensitive
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientToolBody {
    /// The description for the model and for people
    #[schema(max_length = 4000)]
    pub(crate) description: String,
    /// JSON Schema of the arguments
    #[schema(value_type = Object)]
    pub(crate) input_schema: Map<String, Value>,
    /// Other names of the tool. Like the name they belong to this principal: `pay` is called as `client.NAME.pay`
    #[schema(max_items = 32)]
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
    /// Three to ten words by which `tool_search` finds the tool
    #[schema(min_length = 1, max_length = 200)]
    pub(crate) search_hint: Option<String>,
    /// The permission class, which selects the checks of the arguments: bash, file, webfetch, readonly, generic or undeclared
    #[schema(value_type = Option<String>, pattern = "^(bash|file|webfetch|readonly|generic|undeclared)$")]
    pub(crate) class: Option<PermissionClass>,
    /// The roles of arguments, by JSON pointer: read-path, write-path, edit-path, delete-path, patch, url or command
    #[schema(value_type = Object)]
    #[serde(default)]
    pub(crate) roles: BTreeMap<String, ArgumentRole>,
    /// The name of the operation in the audit log
    #[schema(min_length = 1, max_length = 64)]
    pub(crate) operation: Option<String>,
    /// Whether every call needs approval
    #[serde(default)]
    pub(crate) needs_approval: bool,
    /// Whether every call needs a checkpoint, in every mode
    #[serde(default)]
    pub(crate) requires_checkpoint: bool,
    /// Whether somebody must first make the case against every call
    #[serde(default)]
    pub(crate) requires_reverse_thinking: bool,
    /// Whether calls of a session may run concurrently
    #[serde(default)]
    pub(crate) concurrency_safe: bool,
    /// A label for people. It never makes a verdict less strict
    #[serde(default)]
    pub(crate) read_only: bool,
    /// A label for people
    #[serde(default)]
    pub(crate) destructive: bool,
    /// A label for people: its effects can be undone. It never makes a verdict less strict
    #[serde(default)]
    pub(crate) reversible: bool,
    /// Whether its calls are sensitive
    pub(crate) sensitive: Option<bool>,
    /// The tools whose data the tool is given with the claim, by their full names, such as `grep` or `client.NAME.pay`. Of each, it gets the
    /// structured data of the newest completed call in the same session
    #[schema(max_items = 32)]
    #[serde(default)]
    pub(crate) wants_data: Vec<String>,
    /// The maximum time between claim and report, in milliseconds
    #[schema(minimum = 1, maximum = 600000)]
    #[serde(default, deserialize_with = "integer::deserialize_optional_u32")]
    pub(crate) timeout_ms: Option<u32>,
}

impl ClientToolBody {
    /// Creates the manifest of a principal's tool. It is never idempotent, because a claimed call is not handed out again.
    pub(crate) fn into_manifest(self, principal: &str, name: &str) -> Manifest {
        let name = client_tool_name(principal, name);
        Manifest {
            aliases: self.aliases.iter().map(|alias| client_tool_name(principal, alias)).collect(),
            search_hint: self.search_hint,
            permission_class: self.class.unwrap_or_default(),
            roles: self.roles,
            audit_operation: self.operation,
            needs_approval: if self.needs_approval {
                ApprovalRequirement::Always
            } else {
                ApprovalRequirement::Never
            },
            requires_checkpoint: self.requires_checkpoint,
            requires_reverse_thinking: self.requires_reverse_thinking,
            concurrency_safe: self.concurrency_safe,
            read_only: self.read_only,
            destructive: self.destructive,
            reversible: self.reversible,
            sensitive: self.sensitive,
            timeout_ms: self.timeout_ms.map(u64::from),
            wants_data: self.wants_data,
            ..Manifest::new(name, self.description, self.input_schema.into())
        }
    }
}

/// The registered name of a client tool
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClientToolName {
    pub(crate) tool: String,
}

/// A claim on a call
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// Chosen by the process that will run the call. The same claim gets the same call, and another claim gets nothing
    #[schema(min_length = 16, max_length = 128)]
    pub(crate) claim: String,
}

/// The report on a claimed call
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportBody {
    /// The claim with which the call was claimed
    #[schema(min_length = 16, max_length = 128)]
    pub(crate) claim: String,
    /// The text for the model
    #[serde(default)]
    pub(crate) text: String,
    /// Structured data
    pub(crate) data: Option<Value>,
    /// The error, if the call failed
    pub(crate) error: Option<String>,
    /// The opinion of the client's reviewer on the result
    pub(crate) review: Option<OutputReview>,
}

impl From<ReportBody> for ClientToolReport {
    fn from(body: ReportBody) -> Self {
        let said = match body.review {
            None | Some(OutputReview::Pass {}) => Opinion::Pass,
            Some(OutputReview::Deny { reason: why }) => Opinion::Deny { reason: why },
            Some(OutputReview::Change { text, data, reason: why }) => Opinion::Change {
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

/// The opinion of the client's reviewer on the arguments
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "opinion", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum InputReview {
    /// No objection
    Pass {},
    /// Replace all arguments
    Change {
        #[schema(value_type = Object)]
        arguments: Map<String, Value>,
        reason: Option<String>,
    },
    /// Refuse the call
    Deny { reason: Option<String> },
}

impl From<InputReview> for Opinion<Value> {
    fn from(review: InputReview) -> Self {
        match review {
            InputReview::Pass {} => Self::Pass,
            InputReview::Change { arguments, reason: why } => {
                Self::Change { value: arguments.into(), reason: why }
            }
            InputReview::Deny { reason: why } => Self::Deny { reason: why },
        }
    }
}

/// The opinion of the client's reviewer on a result
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "opinion", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum OutputReview {
    /// No objection
    Pass {},
    /// Replace the whole result
    Change { text: String, data: Option<Value>, reason: Option<String> },
    /// Withhold the result from the model
    Deny { reason: Option<String> },
}

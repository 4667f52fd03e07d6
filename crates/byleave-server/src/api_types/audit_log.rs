//! Types of the audit log: calls in lists, records, standing approvals, and the result of verification.

use byleave::audit_log::export::ExportedRecord;
use byleave::audit_log::{Anchor, CallItem, IntegrityError, StandingApprovalItem, Verification};
use byleave::core::call::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// Which part of a list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PageQuery {
    /// At most so many
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
    /// Only what comes after this cursor of the list before
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) after: Option<i64>,
}

/// Which calls to list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditLogQuery {
    /// At most so many
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
    /// Only what comes after this cursor of the list before
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) after: Option<i64>,
    /// Of this tool
    #[param(min_length = 1, max_length = 128)]
    pub(crate) tool: Option<String>,
    /// Of this agent
    #[param(min_length = 1, max_length = 128)]
    pub(crate) agent: Option<String>,
    /// With this outcome, in a word
    #[param(min_length = 1, max_length = 32)]
    pub(crate) outcome: Option<String>,
    /// Refused with this code
    #[param(min_length = 1, max_length = 64)]
    pub(crate) code: Option<String>,
    /// With this text in its summary
    #[param(min_length = 1, max_length = 200)]
    pub(crate) text: Option<String>,
    /// Received then or later; milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) since: Option<u64>,
    /// Received before then; milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) until: Option<u64>,
}

/// In which form
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExportQuery {
    /// Records as JSON, one a line, or as Markdown
    #[param(inline)]
    pub(crate) form: ExportFormat,
    /// Received then or later; milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) since: Option<u64>,
    /// Received before then; milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) until: Option<u64>,
}

/// The form of an export
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExportFormat {
    #[default]
    Json,
    Markdown,
}

/// Calls of the book, the newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallList {
    pub(crate) calls: Vec<CallEntry>,
}

/// A call of the book, in a line
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallEntry {
    pub(crate) call: Uuid,
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    /// What it would do, with secrets taken out
    pub(crate) summary: String,
    /// open, waiting, settled or damaged
    pub(crate) state: String,
    pub(crate) outcome: Option<String>,
    /// The refusal's code
    pub(crate) code: Option<String>,
    /// Milliseconds since 1970
    pub(crate) opened_at: u64,
    /// Milliseconds since 1970
    pub(crate) changed_at: u64,
    /// For `after`, to see what comes after it in the list
    pub(crate) cursor: i64,
}

impl From<&CallItem> for CallEntry {
    fn from(item: &CallItem) -> Self {
        Self {
            call: item.call.uuid(),
            session: item.call_summary.session.to_string(),
            agent: item.call_summary.agent.clone(),
            tool: item.call_summary.tool.clone(),
            operation: item.call_summary.operation.clone(),
            summary: item.call_summary.summary.clone(),
            state: item.state.as_str().to_owned(),
            outcome: item.outcome.clone(),
            code: item.code.clone(),
            opened_at: item.opened_at,
            changed_at: item.changed_at,
            cursor: item.cursor.0,
        }
    }
}

/// A record: every entry with its link, so that it can be checked without the book. True contents are left out
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordBody {
    pub(crate) call: Uuid,
    /// Its contents were forgotten
    pub(crate) forgotten: bool,
    /// What is wrong with it, where something is
    pub(crate) damage: Option<String>,
    pub(crate) lines: Vec<RecordEntryBody>,
}

/// One entry of a record
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordEntryBody {
    pub(crate) seq: u32,
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) link: String,
    pub(crate) entry: Value,
    /// The bytes that the link is over
    pub(crate) text: String,
}

impl From<&ExportedRecord> for RecordBody {
    fn from(found: &ExportedRecord) -> Self {
        let lines = found.stored.chained_entries.iter().map(|line| RecordEntryBody {
            seq: line.seq(),
            link: line.link().to_string(),
            entry: serde_json::from_str(line.body()).unwrap_or_default(),
            text: line.body().to_owned(),
        });
        Self {
            call: found.call.uuid(),
            forgotten: found.stored.forgotten,
            damage: found.stored.record.damage().map(ToString::to_string),
            lines: lines.collect(),
        }
    }
}

/// The leaves that were given, the newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StandingApprovalList {
    pub(crate) leaves: Vec<StandingApprovalEntry>,
}

/// A leave that was given
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StandingApprovalEntry {
    pub(crate) leave: Uuid,
    /// standing, expired, spent or revoked
    pub(crate) state: String,
    pub(crate) tool: String,
    /// The effects that it covers
    #[schema(value_type = Vec<Object>)]
    pub(crate) scope: Vec<Value>,
    /// Only in this session
    pub(crate) session: Option<String>,
    /// Until then; milliseconds since 1970
    pub(crate) until: Option<u64>,
    pub(crate) uses: u32,
    pub(crate) uses_max: Option<u32>,
    /// Who gave it
    pub(crate) by: String,
    /// Milliseconds since 1970
    pub(crate) given_at: u64,
    /// The call whose question was answered with it
    pub(crate) call: Uuid,
    /// The rule that it amounts to
    pub(crate) rule: String,
}

impl StandingApprovalEntry {
    pub(crate) fn from_item(item: &StandingApprovalItem, now: Millis) -> Self {
        let leave = &item.standing_approval;
        Self {
            leave: leave.id.uuid(),
            state: item.state.as_str().to_owned(),
            tool: leave.tool.clone(),
            scope: leave.scope.iter().map(|one| serde_json::to_value(one).unwrap_or_default()).collect(),
            session: leave.session.as_ref().map(ToString::to_string),
            until: leave.until,
            uses: item.uses,
            uses_max: leave.uses_max,
            by: item.approver.name.clone(),
            given_at: item.granted_at,
            call: item.call.uuid(),
            rule: leave.to_rule_toml(now),
        }
    }
}

/// What came of checking the book
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerificationReport {
    /// Everything is as it was written
    pub(crate) sound: bool,
    pub(crate) records: u64,
    pub(crate) lines: u64,
    pub(crate) acts: u64,
    pub(crate) segments: u64,
    /// How many lines and acts are not yet sealed
    pub(crate) unsealed: u64,
    pub(crate) anchor: Option<AnchorBody>,
    pub(crate) flaw: Option<IntegrityErrorBody>,
}

/// What the newest segment was when it was last sealed; to be kept elsewhere
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnchorBody {
    pub(crate) number: u64,
    pub(crate) digest: String,
    pub(crate) key: String,
}

/// The first place that is not as it was written
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IntegrityErrorBody {
    pub(crate) place: String,
    pub(crate) why: String,
}

impl From<&Verification> for VerificationReport {
    fn from(found: &Verification) -> Self {
        let anchored = |anchor: &Anchor| AnchorBody {
            number: anchor.number,
            digest: anchor.digest.to_string(),
            key: anchor.key.clone(),
        };
        let flawed = |flaw: &IntegrityError| IntegrityErrorBody {
            place: flaw.position.to_string(),
            why: flaw.reason.clone(),
        };
        Self {
            sound: found.is_intact(),
            records: found.records,
            lines: found.entries,
            acts: found.admin_actions,
            segments: found.segments,
            unsealed: found.unsealed,
            anchor: found.anchor.as_ref().map(anchored),
            flaw: found.integrity_error.as_ref().map(flawed),
        }
    }
}

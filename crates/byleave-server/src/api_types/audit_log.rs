//! Types of the audit log: calls in lists, records, standing approvals, and the result of verification.

use byleave_gate::audit_log::export::ExportedRecord;
use byleave_gate::audit_log::{Anchor, CallItem, IntegrityError, StandingApprovalItem, Verification};
use byleave_gate::core::call::Millis;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

/// A part of a list
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PageQuery {
    /// The maximum number of items
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
    /// Only items after this cursor of the previous list
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) after: Option<i64>,
}

/// A filter for calls
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AuditLogQuery {
    /// The maximum number of items
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<u32>,
    /// Only items after this cursor of the previous list
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) after: Option<i64>,
    /// Only calls of this tool
    #[param(min_length = 1, max_length = 128)]
    pub(crate) tool: Option<String>,
    /// Only calls of this agent
    #[param(min_length = 1, max_length = 128)]
    pub(crate) agent: Option<String>,
    /// Only calls with this outcome
    #[param(min_length = 1, max_length = 32)]
    pub(crate) outcome: Option<String>,
    /// Only calls that were refused with this code
    #[param(min_length = 1, max_length = 64)]
    pub(crate) code: Option<String>,
    /// Only calls with this text in their summary
    #[param(min_length = 1, max_length = 200)]
    pub(crate) text: Option<String>,
    /// Only calls received at or after this time, in milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) since: Option<u64>,
    /// Only calls received before this time, in milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) until: Option<u64>,
}

/// The format and the time range
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExportQuery {
    /// JSON lines or Markdown
    #[param(inline)]
    pub(crate) format: ExportFormat,
    /// Only calls received at or after this time, in milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) since: Option<u64>,
    /// Only calls received before this time, in milliseconds since 1970
    #[param(minimum = 0, maximum = 9007199254740991_u64)]
    pub(crate) until: Option<u64>,
}

/// The format of an export
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExportFormat {
    #[default]
    Json,
    Markdown,
}

/// Calls of the audit log, newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallList {
    pub(crate) calls: Vec<CallEntry>,
}

/// A call of the audit log, summarized
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallEntry {
    pub(crate) call: Uuid,
    pub(crate) session: String,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) operation: String,
    /// A summary of its effects, with secrets removed
    pub(crate) summary: String,
    /// open, waiting, settled or damaged
    pub(crate) state: String,
    pub(crate) outcome: Option<String>,
    /// The code of the refusal
    pub(crate) code: Option<String>,
    /// Milliseconds since 1970
    pub(crate) opened_at: u64,
    /// Milliseconds since 1970
    pub(crate) changed_at: u64,
    /// The cursor of this item, for `after`
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

/// A record: every entry with its link, so that it can be verified without the audit log. Contents are left out
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordBody {
    pub(crate) call: Uuid,
    /// Whether its contents were erased
    pub(crate) forgotten: bool,
    /// The damage of the record, if any
    pub(crate) integrity_error: Option<String>,
    pub(crate) entries: Vec<RecordEntryBody>,
}

/// One entry of a record
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordEntryBody {
    pub(crate) seq: u32,
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub(crate) link: String,
    pub(crate) entry: Value,
    /// The exact text that the link is computed from
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
            integrity_error: found.stored.record.damage().map(ToString::to_string),
            entries: lines.collect(),
        }
    }
}

/// Standing approvals, newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StandingApprovalList {
    pub(crate) standing_approvals: Vec<StandingApprovalEntry>,
}

/// A standing approval
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StandingApprovalEntry {
    pub(crate) standing_approval: Uuid,
    /// active, expired, used-up or revoked
    pub(crate) state: String,
    pub(crate) tool: String,
    /// The effects that it covers
    #[schema(value_type = Vec<Object>)]
    pub(crate) patterns: Vec<Value>,
    /// Only in this session
    pub(crate) session: Option<String>,
    /// The time at which it expires, in milliseconds since 1970
    pub(crate) expires_at: Option<u64>,
    pub(crate) uses: u32,
    pub(crate) max_uses: Option<u32>,
    /// The person who gave it
    pub(crate) approver: String,
    /// Milliseconds since 1970
    pub(crate) granted_at: u64,
    /// The call whose question was answered with this standing approval
    pub(crate) call: Uuid,
    /// The equivalent policy rule
    pub(crate) rule: String,
}

impl StandingApprovalEntry {
    pub(crate) fn from_item(item: &StandingApprovalItem, now: Millis) -> Self {
        let leave = &item.standing_approval;
        Self {
            standing_approval: leave.id.uuid(),
            state: item.state.as_str().to_owned(),
            tool: leave.tool.clone(),
            patterns: leave.scope.iter().map(|one| serde_json::to_value(one).unwrap_or_default()).collect(),
            session: leave.session.as_ref().map(ToString::to_string),
            expires_at: leave.expires_at,
            uses: item.uses,
            max_uses: leave.max_uses,
            approver: item.approver.name.clone(),
            granted_at: item.granted_at,
            call: item.call.uuid(),
            rule: leave.to_rule_toml(now),
        }
    }
}

/// The result of verifying the audit log
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerificationReport {
    /// Whether the audit log is intact
    pub(crate) intact: bool,
    pub(crate) records: u64,
    pub(crate) entries: u64,
    pub(crate) admin_actions: u64,
    pub(crate) segments: u64,
    /// The number of entries and admin actions that are not sealed yet
    pub(crate) unsealed: u64,
    pub(crate) anchor: Option<AnchorBody>,
    pub(crate) integrity_error: Option<IntegrityErrorBody>,
}

/// The newest sealed segment. Keep a copy elsewhere to detect a replaced audit log
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AnchorBody {
    pub(crate) number: u64,
    pub(crate) digest: String,
    pub(crate) public_key: String,
}

/// The first place that is not intact
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IntegrityErrorBody {
    pub(crate) position: String,
    pub(crate) reason: String,
}

impl From<&Verification> for VerificationReport {
    fn from(found: &Verification) -> Self {
        let anchored = |anchor: &Anchor| AnchorBody {
            number: anchor.number,
            digest: anchor.digest.to_string(),
            public_key: anchor.public_key.clone(),
        };
        let flawed = |flaw: &IntegrityError| IntegrityErrorBody {
            position: flaw.position.to_string(),
            reason: flaw.reason.clone(),
        };
        Self {
            intact: found.is_intact(),
            records: found.records,
            entries: found.entries,
            admin_actions: found.admin_actions,
            segments: found.segments,
            unsealed: found.unsealed,
            anchor: found.anchor.as_ref().map(anchored),
            integrity_error: found.integrity_error.as_ref().map(flawed),
        }
    }
}

//! Counts how often standing approvals were given and used, from the entries alone.
//!
//! The ledger finds uses through a projection. Someone who can write the file can remove rows from the projection, use a
//! standing approval once more, and put the rows back. The entries of that use remain, so this count always reveals it.

use std::collections::HashMap;

use byleave_core::call::Millis;
use byleave_core::entry::RecordEvent;
use byleave_core::grant::GrantedBy;
use byleave_core::id::{AttemptId, StandingApprovalId, TenantId};
use byleave_core::question::{Answer, RecordedAnswer};
use byleave_core::record::Record;
use byleave_core::standing_approval::StandingApproval;

use crate::audit_log::LogPosition;

/// An event of a standing approval in an entry of a record.
#[derive(Debug)]
pub enum ApprovalEvent<'a> {
    /// The entry gave it.
    Granted(&'a StandingApproval),
    /// The entry used it for an attempt.
    Used(StandingApprovalId, AttemptId),
}

/// Returns the standing approval events of a record, each with the number of its entry.
pub fn approval_events(record: &Record) -> impl Iterator<Item = (u32, ApprovalEvent<'_>)> {
    (0_u32..).zip(record.entries()).filter_map(|(seq, entry)| match &entry.event {
        RecordEvent::Answered(answered) => match &answered.answer {
            Answer::StandingApproval(leave) => Some((seq, ApprovalEvent::Granted(leave))),
            _ => None,
        },
        RecordEvent::Started(Ok(claim)) => match claim.granted_by {
            GrantedBy::StandingApproval(leave) => Some((seq, ApprovalEvent::Used(leave, claim.attempt))),
            _ => None,
        },
        _ => None,
    })
}

/// The entry that gave a standing approval.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalOrigin<'a> {
    /// The number of the entry.
    pub seq: u32,
    /// When it was given.
    pub at: Millis,
    /// The answer that gave it.
    pub answer: &'a RecordedAnswer,
    /// The standing approval.
    pub standing_approval: &'a StandingApproval,
}

/// Finds the entry of an undamaged record of this tenant that gave a standing approval.
pub fn find_origin<'a>(
    record: &'a Record,
    tenant: &TenantId,
    id: StandingApprovalId,
) -> Option<ApprovalOrigin<'a>> {
    if record.damage().is_some() || record.header()?.tenant != *tenant {
        return None;
    }
    (0_u32..).zip(record.entries()).find_map(|(seq, entry)| match &entry.event {
        RecordEvent::Answered(answered) => match &answered.answer {
            Answer::StandingApproval(leave) if leave.id == id => {
                Some(ApprovalOrigin { seq, at: entry.at, answer: answered, standing_approval: leave })
            }
            _ => None,
        },
        _ => None,
    })
}

/// Checks whether a record used a standing approval for an attempt.
pub fn was_used(record: &Record, leave: StandingApprovalId, attempt: AttemptId) -> bool {
    approval_events(record)
        .any(|(_, moved)| matches!(moved, ApprovalEvent::Used(used, by) if used == leave && by == attempt))
}

/// The usage of all standing approvals of an audit log.
#[derive(Debug, Default)]
pub struct ApprovalUsage {
    usages: HashMap<(TenantId, StandingApprovalId), UsageCount>,
}

/// The usage of one standing approval of one tenant.
#[derive(Debug, Default)]
struct UsageCount {
    /// By tool: the position where it was first given, and its maximum number of uses.
    grants: HashMap<String, (i64, Option<u32>)>,
    uses: u64,
    last_use: Option<(i64, LogPosition)>,
}

impl UsageCount {
    /// Returns the maximum number of uses. If it was given for several tools, the highest limit applies.
    fn max_uses(&self) -> Option<u64> {
        let limits = self.grants.values().map(|(_, uses_max)| uses_max.map_or(u64::MAX, u64::from));
        Some(limits.max().unwrap_or(0)).filter(|max| *max < u64::MAX)
    }
}

impl ApprovalUsage {
    /// Adds the events of a record. `place_of` returns the position of an entry in the audit log.
    pub fn add_record(&mut self, record: &Record, place_of: impl Fn(u32) -> i64) {
        let Some(tenant) = record.header().map(|heading| &heading.tenant) else { return };
        for (seq, moved) in approval_events(record) {
            let pos = place_of(seq);
            let id = match &moved {
                ApprovalEvent::Granted(leave) => leave.id,
                ApprovalEvent::Used(leave, _) => *leave,
            };
            let account = self.usages.entry((tenant.clone(), id)).or_default();
            match moved {
                ApprovalEvent::Granted(leave) => {
                    let first = account.grants.entry(leave.tool.clone()).or_insert((pos, leave.max_uses));
                    if pos < first.0 {
                        *first = (pos, leave.max_uses);
                    }
                }
                ApprovalEvent::Used(..) => {
                    account.uses += 1;
                    let place = LogPosition::Entry { call: record.call(), seq };
                    if account.last_use.is_none_or(|(newest, _)| newest < pos) {
                        account.last_use = Some((pos, place));
                    }
                }
            }
        }
    }

    /// Returns the first standing approval that was used too often, with the position of its newest use.
    pub fn find_overused(&self) -> Option<(LogPosition, String)> {
        let overdrawn = self.usages.iter().filter_map(|((_, leave), account)| {
            let max = account.max_uses().filter(|max| account.uses > *max)?;
            let (pos, place) = account.last_use?;
            let why = format!(
                "standing approval {leave} was used {} times, but allows only {max} uses",
                account.uses
            );
            Some((pos, place, why))
        });
        overdrawn.min_by_key(|(pos, ..)| *pos).map(|(_, place, why)| (place, why))
    }
}

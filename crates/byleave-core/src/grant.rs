//! Grants: proof that one exact plan may run once. Only the pipeline creates them.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::digest::Digest;
use crate::id::{AttemptId, OwnerId, QuestionId, StandingApprovalId};

/// The basis of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantedBy {
    /// The policy allows it.
    Rule,
    /// A standing approval covers it.
    StandingApproval(StandingApprovalId),
    /// A person answered this question.
    Answer(QuestionId),
    /// A rehearsal spared the question. The run on the copy did nothing, and the call was merely not understood or failed to change files.
    Rehearsal,
}

/// Proof that one exact plan may run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    binding: Digest,
    granted_by: GrantedBy,
    expires_at: Option<Millis>,
}

impl Grant {
    pub(crate) const fn new(binding: Digest, by: GrantedBy, expires_at: Option<Millis>) -> Self {
        Self { binding, granted_by: by, expires_at }
    }

    /// Returns the digest of everything that must be unchanged when the plan runs.
    pub const fn binding(&self) -> Digest {
        self.binding
    }

    /// Returns the basis of the grant.
    pub const fn granted_by(&self) -> GrantedBy {
        self.granted_by
    }

    /// Returns the time after which the grant is expired.
    pub const fn expires_at(&self) -> Option<Millis> {
        self.expires_at
    }

    /// Returns whether the grant is expired.
    pub fn is_expired(&self, now: Millis) -> bool {
        self.expires_at.is_some_and(|end| now > end)
    }

    /// Returns the claim on this grant by one attempt of one owner.
    pub const fn claim(&self, attempt: AttemptId, owner: OwnerId) -> Claim {
        Claim { attempt, owner, binding: self.binding, granted_by: self.granted_by }
    }

    /// Returns whether the claim is on this grant.
    pub fn covers(&self, claim: &Claim) -> bool {
        claim.binding == self.binding && claim.granted_by == self.granted_by
    }
}

/// One attempt's claim to execute. Once it is on the record, no other attempt may execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The attempt.
    pub attempt: AttemptId,
    /// The driver that makes the attempt. It is alive as long as its lock is held.
    pub owner: OwnerId,
    /// The binding of the grant.
    pub binding: Digest,
    /// The basis of the grant.
    pub granted_by: GrantedBy,
}

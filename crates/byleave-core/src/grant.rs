//! Grants: proof that one exact plan may run once. Only the walk makes them.

use serde::{Deserialize, Serialize};

use crate::call::Millis;
use crate::digest::Digest;
use crate::id::{AttemptId, OwnerId, QuestionId, StandingApprovalId};

/// What a grant rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantedBy {
    /// The policy allows it.
    Rule,
    /// A standing leave covers it.
    Leave(StandingApprovalId),
    /// A person answered this question.
    Answer(QuestionId),
    /// A rehearsal spared the question: on a copy it did nothing, and it was merely not understood or failed to change files.
    Rehearsal,
}

/// Proof that one exact plan may run once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    binding: Digest,
    by: GrantedBy,
    expires_at: Option<Millis>,
}

impl Grant {
    pub(crate) const fn new(binding: Digest, by: GrantedBy, expires_at: Option<Millis>) -> Self {
        Self { binding, by, expires_at }
    }

    /// The digest of everything that must still be so when it runs.
    pub const fn binding(&self) -> Digest {
        self.binding
    }

    /// What it rests on.
    pub const fn by(&self) -> GrantedBy {
        self.by
    }

    /// Too old after that.
    pub const fn expires_at(&self) -> Option<Millis> {
        self.expires_at
    }

    /// Whether it is too old.
    pub fn is_expired(&self, now: Millis) -> bool {
        self.expires_at.is_some_and(|end| now > end)
    }

    /// The claim on this grant by one attempt of one owner.
    pub const fn claim(&self, attempt: AttemptId, owner: OwnerId) -> Claim {
        Claim { attempt, owner, binding: self.binding, by: self.by }
    }

    /// Whether the claim is one on this grant.
    pub fn covers(&self, claim: &Claim) -> bool {
        claim.binding == self.binding && claim.by == self.by
    }
}

/// One attempt's claim to execute. Once it is on the record nobody else may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The attempt.
    pub attempt: AttemptId,
    /// The driver that makes it, alive as long as its lock is held.
    pub owner: OwnerId,
    /// The binding of the grant.
    pub binding: Digest,
    /// What the grant rests on.
    pub by: GrantedBy,
}

//! What who is at the other end of a wire may ask.

use byleave::ledger::{Batch, LedgerFault};
use byleave_core::entry::Fact;
use byleave_core::id::TenantId;

/// What who is at the other end of a wire may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything that a ledger is asked: for ends that are one's own.
    All,
    /// To drive the calls of one tenant.
    ///
    /// A worker is believed about what its calls would do and did, for that happens where it is. It is not believed to be anyone
    /// else: it answers no question, makes no call, does nothing that is for administrators, and sees nothing of others.
    Worker(TenantId),
}

impl Rights {
    pub(crate) fn may_see(&self, tenant: &TenantId) -> Result<(), LedgerFault> {
        match self {
            Self::Worker(own) if own != tenant => Err(not("to see what is another tenant's")),
            _ => Ok(()),
        }
    }

    pub(crate) fn may_append(&self, batch: &Batch) -> Result<(), LedgerFault> {
        let Self::Worker(own) = self else { return Ok(()) };
        if batch.at_len == 0 {
            return Err(not("to make calls"));
        }
        if batch.listing.tenant != *own {
            return Err(not("to write what is another tenant's"));
        }
        if batch.entries.iter().any(|entry| matches!(entry.fact, Fact::Answered(_))) {
            return Err(not("to answer questions"));
        }
        Ok(())
    }

    pub(crate) fn may_act(&self) -> Result<(), LedgerFault> {
        if *self == Self::All { Ok(()) } else { Err(not("to do what is for administrators")) }
    }

    pub(crate) fn may_list(&self) -> Result<(), LedgerFault> {
        if *self == Self::All { Ok(()) } else { Err(not("to choose its calls")) }
    }
}

fn not(what: &str) -> LedgerFault {
    LedgerFault::new("cannot be done for a worker", format!("it is not for workers {what}"))
}

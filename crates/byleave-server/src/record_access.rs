//! What is looked up and taken back in a tenancy's book, for the API and the pages alike.

use byleave::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::id::{CallId, StandingApprovalId};

use crate::caller::Caller;
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// The record of a call, without true contents.
pub(crate) async fn record(tenancy: &Tenant, call: CallId) -> Result<ExportedRecord, Problem> {
    let found = export::one(&*tenancy.book, call, IncludeContents::LeftOut).await?;
    found.filter(|found| is_of(tenancy, found)).ok_or_else(|| Problem::not_found("call"))
}

/// Whether a record is of the tenant: a book of its own is no reason not to look.
pub(crate) fn is_of(tenancy: &Tenant, found: &ExportedRecord) -> bool {
    found.kept.record.heading().is_some_and(|heading| heading.tenant == *tenancy.id())
}

/// Makes a leave count no longer.
pub(crate) async fn revoke(caller: &Caller, leave: StandingApprovalId) -> Result<(), Problem> {
    caller.may(&[AccessScope::Administer])?;
    let tenancy = &caller.tenancy;
    let given = tenancy.book.leaves_given(tenancy.id(), SystemClock.now()).await?;
    if !given.iter().any(|item| item.leave.id == leave) {
        return Err(Problem::not_found("leave"));
    }
    Ok(tenancy.gate.revoke(tenancy.id(), caller.name(), leave).await?)
}

//! Looks up records and revokes standing approvals in a tenant's audit log, for both the API and the pages.

use byleave::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave::clock::{Clock as _, SystemClock};
use byleave::core::id::{CallId, StandingApprovalId};

use crate::caller::Caller;
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// Returns the record of a call, without its contents.
pub(crate) async fn record(tenancy: &Tenant, call: CallId) -> Result<ExportedRecord, Problem> {
    let found = export::one(&*tenancy.book, call, IncludeContents::LeftOut).await?;
    found.filter(|found| is_of(tenancy, found)).ok_or_else(|| Problem::not_found("call"))
}

/// Checks whether a record belongs to the tenant. This is checked even if the tenant has an audit log of its own.
pub(crate) fn is_of(tenancy: &Tenant, found: &ExportedRecord) -> bool {
    found.kept.record.heading().is_some_and(|heading| heading.tenant == *tenancy.id())
}

/// Revokes a standing approval.
pub(crate) async fn revoke(caller: &Caller, leave: StandingApprovalId) -> Result<(), Problem> {
    caller.may(&[AccessScope::Administer])?;
    let tenancy = &caller.tenancy;
    let given = tenancy.book.leaves_given(tenancy.id(), SystemClock.now()).await?;
    if !given.iter().any(|item| item.leave.id == leave) {
        return Err(Problem::not_found("leave"));
    }
    Ok(tenancy.gate.revoke(tenancy.id(), caller.name(), leave).await?)
}

//! Looks up records and revokes standing approvals in a tenant's audit log, for both the API and the pages.

use byleave_gate::audit_log::export::{self, ExportedRecord, IncludeContents};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::id::{CallId, StandingApprovalId};

use crate::caller::Caller;
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::tenant::Tenant;

/// Returns the record of a call, without its contents.
pub(crate) async fn record(tenancy: &Tenant, call: CallId) -> Result<ExportedRecord, Problem> {
    let found = export::export_one(&*tenancy.audit_log, call, IncludeContents::Omitted).await?;
    found.filter(|found| belongs_to(tenancy, found)).ok_or_else(|| Problem::not_found("call"))
}

/// Checks whether a record belongs to the tenant. This is checked even if the tenant has an audit log of its own.
pub(crate) fn belongs_to(tenancy: &Tenant, found: &ExportedRecord) -> bool {
    found.stored.record.header().is_some_and(|heading| heading.tenant == *tenancy.id())
}

/// Revokes a standing approval.
pub(crate) async fn revoke_approval(caller: &Caller, leave: StandingApprovalId) -> Result<(), Problem> {
    caller.require_scope(&[AccessScope::Administer])?;
    let tenancy = &caller.tenant;
    let given = tenancy.audit_log.list_standing_approvals(tenancy.id(), SystemClock.now()).await?;
    if !given.iter().any(|item| item.standing_approval.id == leave) {
        return Err(Problem::not_found("standing approval"));
    }
    Ok(tenancy.gate.revoke(tenancy.id(), caller.name(), leave).await?)
}

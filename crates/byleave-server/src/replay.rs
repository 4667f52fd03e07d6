//! Replays past calls under other rules. They are read with their contents, one replay of a tenant at a time.

use std::sync::Arc;

use byleave_gate::audit_log::export::{self, IncludeContents};
use byleave_gate::audit_log::{CallFilter, PageRequest};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::policy::Policy;
use byleave_gate::replay::{PolicyReplay, ReplayableCall};
use tokio::runtime::Handle;

use crate::problem::{Problem, ProblemKind};
use crate::record_access;
use crate::tenant::Tenant;

/// Returns the decisions of these rules on the newest calls, and whether there are older ones.
pub(crate) async fn replay(
    tenancy: Arc<Tenant>,
    rules: String,
    limit: usize,
) -> Result<(PolicyReplay, bool), Problem> {
    let tried = tenancy.trial_policy.clone().ok_or_else(|| {
        Problem::new(ProblemKind::NotFound, "this server cannot evaluate past calls with other rules")
    })?;
    // As expensive as verification, so it uses the same semaphore.
    let busy = |_| Problem::too_many("the audit log is being read for another request; try again later", 5);
    let turn = Arc::clone(&tenancy.full_read_permit).try_acquire_owned().map_err(busy)?;
    // In a task of its own, so that a client that disconnects and retries does not start a second one. It may block, because
    // a local audit log answers without ever yielding.
    let replayed = tokio::task::spawn_blocking(move || {
        let policy = tried(&rules).map_err(|fault| Problem::new(ProblemKind::Unusable, fault.to_string()))?;
        let replayed = Handle::current().block_on(try_on(&tenancy, &policy, limit));
        drop(turn);
        replayed
    });
    replayed.await.map_err(|broke| Problem::internal_error("the replay of the rules failed", &broke))?
}

async fn try_on(tenancy: &Tenant, policy: &Policy, limit: usize) -> Result<(PolicyReplay, bool), Problem> {
    let filter = CallFilter { tenant: Some(tenancy.id().clone()), ..CallFilter::default() };
    let mut items = tenancy.audit_log.calls(filter, PageRequest::with_limit(limit.saturating_add(1))).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let leaves = tenancy.audit_log.list_standing_approvals(tenancy.id(), SystemClock.now()).await?;
    let mut replay = PolicyReplay::default();
    for item in items {
        let found = export::export_one(&*tenancy.audit_log, item.call, IncludeContents::Included).await?;
        let Some(found) = found.filter(|found| record_access::belongs_to(tenancy, found)) else { continue };
        match ReplayableCall::from_exported(&found, tenancy.gate.catalog(), &leaves) {
            // The rules are those of the directory that this server's calls work in.
            Ok(past) if past.header.cwd != tenancy.cwd => {
                let why = "the call worked in another directory, which may have its own rules";
                replay.skipped.push(past.to_unjudged(why.to_owned()));
            }
            Ok(past) => replay.add(past, policy),
            Err(unjudged) => replay.skipped.push(unjudged),
        }
    }
    Ok((replay, more))
}

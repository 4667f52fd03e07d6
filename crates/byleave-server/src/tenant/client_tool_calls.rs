//! Calls of client tools. They are driven until they may begin, and begin only when their client claims them.

use std::sync::Arc;
use std::time::Duration;

use byleave_gate::core::call::Call;
use byleave_gate::core::id::CallId;
use byleave_gate::result::CallStatus;
use byleave_gate::review::Opinion;
use serde_json::Value;
use tokio::time::Instant;

use super::{ClientCallStatus, StartError, Tenant};
use crate::client_tools::{ClaimState, ClientTools, HandedCall, is_client_tool};

/// How long a claimed call may take to begin.
const BEGINNING: Duration = Duration::from_secs(10);
/// The interval of checks whether a call has begun.
const AGAIN: Duration = Duration::from_millis(2);

/// The outcome of a claim.
pub(crate) enum ClaimResult {
    /// The client may run the call.
    Claimed(Arc<HandedCall>),
    /// There is another claim.
    ClaimedByOther,
    /// The call cannot be claimed now.
    NotClaimable(ClientCallStatus),
}

impl Tenant {
    pub(super) async fn accept_call(&self, call: Call, said: Option<Opinion<Value>>) -> CallStatus {
        match &self.client_tools {
            Some(own) if is_client_tool(&call.tool) => {
                own.store_review(call.id, said.unwrap_or(Opinion::Pass));
                own.discard_recorded(self.gate.prepare(call).await)
            }
            _ => match &self.workers {
                Some(crew) => self.accept_for_workers(crew, &call).await,
                None => self.gate.advance(call).await,
            },
        }
    }

    pub(super) async fn resume(&self, id: CallId) -> CallStatus {
        let Some(own) = &self.client_tools else { return self.gone_on(id).await };
        let own_call = match self.record(id).await {
            Ok(record) => record
                .as_ref()
                .and_then(|record| record.header())
                .is_some_and(|heading| is_client_tool(&heading.tool)),
            // A call whose record cannot be read is not begun.
            Err(_) => true,
        };
        match (own_call, own.is_claimed(id)) {
            (false, _) => self.gone_on(id).await,
            (true, false) => own.discard_recorded(self.gate.prepare_existing(id).await),
            (true, true) => own.discard_recorded(self.gate.resume(id).await),
        }
    }

    async fn gone_on(&self, id: CallId) -> CallStatus {
        match &self.workers {
            Some(crew) => self.drive_by_workers(crew, id).await,
            None => self.gate.resume(id).await,
        }
    }

    /// Begins a call of a client tool under this claim. The first claim is valid, and may be repeated.
    pub(crate) async fn claim_call(
        self: &Arc<Self>,
        own: &ClientTools,
        id: CallId,
        claim: &str,
        until: Instant,
    ) -> Result<ClaimResult, StartError> {
        match own.claim_state(id, claim) {
            ClaimState::Mine(handed) => return Ok(ClaimResult::Claimed(handed)),
            ClaimState::Others => return Ok(ClaimResult::ClaimedByOther),
            ClaimState::Unclaimed => {}
        }
        let stood = self.wait_for_status(id, until).await?;
        if !is_ready(&stood) {
            return Ok(ClaimResult::NotClaimable(stood));
        }
        let Some(mut claimed) = own.claim(id, claim) else { return Ok(ClaimResult::ClaimedByOther) };
        let until = until.max(Instant::now() + BEGINNING);
        loop {
            self.resume_call(id)?;
            let stood = tokio::select! {
                biased;
                Some(handed) = claimed.wait_for_call() => return Ok(ClaimResult::Claimed(handed)),
                stood = self.wait_for_status(id, until) => stood?,
            };
            if !is_ready(&stood) || Instant::now() >= until {
                return Ok(ClaimResult::NotClaimable(stood));
            }
            // The task that prepared the call is about to release it.
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn is_ready(stood: &ClientCallStatus) -> bool {
    matches!(stood, ClientCallStatus::Status(standing) if matches!(**standing, CallStatus::Ready { .. }))
}

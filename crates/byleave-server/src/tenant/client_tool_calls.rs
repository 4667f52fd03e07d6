//! Calls of client tools. They are driven until they may begin, and begin only when their client claims them.

use std::sync::Arc;
use std::time::Duration;

use byleave::core::call::Call;
use byleave::core::id::CallId;
use byleave::result::CallStatus;
use byleave::review::Opinion;
use serde_json::Value;
use tokio::time::Instant;

use super::{ClientCallStatus, StartError, Tenant};
use crate::client_tools::{ClaimState, ClientTools, is_own};

/// How long a claimed call may take to begin.
const BEGINNING: Duration = Duration::from_secs(10);
/// The interval of checks whether a call has begun.
const AGAIN: Duration = Duration::from_millis(2);

/// The outcome of a claim.
pub(crate) enum ClaimResult {
    /// The client may run the call, with these arguments.
    Handed(Arc<Value>),
    /// There is another claim.
    Taken,
    /// The call cannot be claimed now.
    Not(ClientCallStatus),
}

impl Tenant {
    pub(super) async fn taken_in(&self, call: Call, said: Option<Opinion<Value>>) -> CallStatus {
        match &self.own {
            Some(own) if is_own(&call.tool) => {
                own.heard(call.id, said.unwrap_or(Opinion::Pass));
                own.stood(self.gate.prepare(call).await)
            }
            _ => match &self.crew {
                Some(crew) => self.taken_in_for(crew, &call).await,
                None => self.gate.advance(call).await,
            },
        }
    }

    pub(super) async fn resumed(&self, id: CallId) -> CallStatus {
        let Some(own) = &self.own else { return self.gone_on(id).await };
        let own_call = match self.record(id).await {
            Ok(record) => record
                .as_ref()
                .and_then(|record| record.heading())
                .is_some_and(|heading| is_own(&heading.tool)),
            // A call whose record cannot be read is not begun.
            Err(_) => true,
        };
        match (own_call, own.is_claimed(id)) {
            (false, _) => self.gone_on(id).await,
            (true, false) => own.stood(self.gate.prepare_again(id).await),
            (true, true) => own.stood(self.gate.resume(id).await),
        }
    }

    async fn gone_on(&self, id: CallId) -> CallStatus {
        match &self.crew {
            Some(crew) => self.driven_by(crew, id).await,
            None => self.gate.resume(id).await,
        }
    }

    /// Begins a call of a client tool under this claim. The first claim is valid, and may be repeated.
    pub(crate) async fn take(
        self: &Arc<Self>,
        own: &ClientTools,
        id: CallId,
        claim: &str,
        until: Instant,
    ) -> Result<ClaimResult, StartError> {
        match own.held(id, claim) {
            ClaimState::Mine(arguments) => return Ok(ClaimResult::Handed(arguments)),
            ClaimState::Others => return Ok(ClaimResult::Taken),
            ClaimState::Not => {}
        }
        let stood = self.stands(id, until).await?;
        if !is_ready(&stood) {
            return Ok(ClaimResult::Not(stood));
        }
        let Some(mut claimed) = own.claim(id, claim) else { return Ok(ClaimResult::Taken) };
        let until = until.max(Instant::now() + BEGINNING);
        loop {
            self.go_on(id)?;
            let stood = tokio::select! {
                biased;
                Some(arguments) = claimed.handed() => return Ok(ClaimResult::Handed(arguments)),
                stood = self.stands(id, until) => stood?,
            };
            if !is_ready(&stood) || Instant::now() >= until {
                return Ok(ClaimResult::Not(stood));
            }
            // The task that prepared the call is about to release it.
            tokio::time::sleep(AGAIN).await;
        }
    }
}

fn is_ready(stood: &ClientCallStatus) -> bool {
    matches!(stood, ClientCallStatus::At(standing) if matches!(**standing, CallStatus::Ready { .. }))
}

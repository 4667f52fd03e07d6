//! One question: which call it belongs to, also once it is closed.

use byleave_core::id::CallId;
use restate_sdk::prelude::*;

const CALL: &str = "c";

/// The way from a question to its call.
#[derive(Debug)]
pub(crate) struct QuestionEntity;

#[restate_sdk::object(
    name = "Question",
    journal_retention = "0s",
    idempotency_retention = "0s",
    invocation_retry_policy(initial_interval = "20ms", factor = 2.0, max_interval = "500ms")
)]
impl QuestionEntity {
    /// Remembers who asked.
    #[handler(ingress_private = true)]
    async fn asked(&self, ctx: ObjectContext<'_>, call: Json<CallId>) -> HandlerResult<()> {
        ctx.set(CALL, call.0.as_bytes().to_vec());
        Ok(())
    }

    /// Says who asked.
    #[handler]
    async fn call_of(
        &self,
        ctx: SharedObjectContext<'_>,
        _this: Json<()>,
    ) -> HandlerResult<Json<Option<CallId>>> {
        let call = ctx.get::<Vec<u8>>(CALL).await?;
        let call = call.and_then(|bytes| uuid::Uuid::from_slice(&bytes).ok());
        Ok(Json(call.map(CallId::new)))
    }
}

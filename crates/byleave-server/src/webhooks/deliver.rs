//! One delivery attempt to a webhook.

use std::time::Duration;

use byleave_gate::clock::{Clock as _, SystemClock};
use metrics::counter;

use super::message::WebhookMessage;
use super::{StoredWebhook, WebhookError, WebhookStore, sign};
use crate::limits::ServerLimits;
use crate::secure_random;

/// The reason why a delivery failed.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The webhook cannot be used: its address or its secret is invalid.
    #[error("the webhook cannot be used; remove it and add it again")]
    Unusable,
    /// It could not be reached, or not in time.
    #[error("cannot reach the webhook: {0}")]
    Unreachable(String),
    /// It rejected the message, with this status.
    #[error("the webhook answered with status {0}")]
    Refused(u16),
}

impl WebhookStore {
    /// Sends a test message to a webhook.
    pub async fn test(&self, webhook: &StoredWebhook) -> Result<(), DeliveryError> {
        let id = secure_random::hex::<16>().map_err(|error| DeliveryError::Unreachable(error.to_string()))?;
        let message = WebhookMessage::test(format!("test_{id}"), webhook.tenant.as_str());
        self.attempt(webhook, &message, ServerLimits::default().webhook_timeout).await
    }

    /// Makes one delivery attempt and updates the statistics.
    pub(super) async fn attempt(
        &self,
        webhook: &StoredWebhook,
        message: &WebhookMessage,
        limit: Duration,
    ) -> Result<(), DeliveryError> {
        let sent = send(webhook, message, limit).await;
        let now = SystemClock.now();
        let word = if sent.is_ok() { "delivered" } else { "failed" };
        counter!("byleave_webhook_attempts_total", "outcome" => word).increment(1);
        let why = sent.as_ref().err().map(ToString::to_string);
        self.noted(webhook, move |standing| match why {
            None => {
                standing.delivered = standing.delivered.saturating_add(1);
                standing.told_at = Some(now);
            }
            Some(why) => {
                standing.failed = standing.failed.saturating_add(1);
                standing.failed_at = Some(now);
                standing.failure_reason = Some(why);
            }
        })
        .await;
        sent
    }

    /// Notes that a message was dropped.
    pub(super) async fn give_up(&self, webhook: &StoredWebhook) {
        counter!("byleave_webhook_messages_given_up_total").increment(1);
        self.noted(webhook, |standing| standing.given_up = standing.given_up.saturating_add(1)).await;
    }

    async fn noted(
        &self,
        webhook: &StoredWebhook,
        change: impl FnOnce(&mut super::DeliveryStatus) + Send + 'static,
    ) {
        let (webhooks, id) = (self.clone(), webhook.id.clone());
        // This waits for the disk.
        let noted = tokio::task::spawn_blocking(move || webhooks.note(&id, change)).await;
        let fault: Option<WebhookError> = noted.ok().and_then(Result::err);
        if let Some(fault) = fault {
            tracing::warn!(%fault, "cannot save the delivery status of a webhook");
        }
    }
}

async fn send(
    webhook: &StoredWebhook,
    message: &WebhookMessage,
    limit: Duration,
) -> Result<(), DeliveryError> {
    let endpoint = webhook.endpoint().map_err(|_| DeliveryError::Unusable)?;
    let key = webhook.key().ok_or(DeliveryError::Unusable)?;
    let body = message.body(webhook.form);
    let seconds = SystemClock.now() / 1_000;
    let headers =
        sign::signature_headers(&key, &message.id, seconds, &body).ok_or(DeliveryError::Unusable)?;
    match endpoint.post_json(&headers, body, limit).await {
        Ok(200..=299) => Ok(()),
        Ok(status) => Err(DeliveryError::Refused(status)),
        Err(why) => Err(DeliveryError::Unreachable(why)),
    }
}

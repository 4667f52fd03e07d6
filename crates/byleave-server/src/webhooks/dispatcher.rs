//! Sends notifications: each webhook has a task that looks for questions since its last message.
//!
//! Nothing is queued here. Pending notifications follow from the audit log, and questions that were answered meanwhile need
//! none. A slow or dead webhook delays only itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_gate::audit_log::{Cursor, PageRequest, QuestionItem};
use byleave_gate::clock::{Clock as _, SystemClock};
use byleave_gate::core::id::TenantId;
use byleave_gate::ledger::LedgerError;
use tokio::task::JoinSet;

use super::message::WebhookMessage;
use super::{DeliveryError, StoredWebhook, WebhookStore};
use crate::limits::ServerLimits;
use crate::public_url::PublicUrl;
use crate::tenant::Tenant;
use crate::{secure_random, submit_answer};

/// How often to check which webhooks exist.
const LOOK: Duration = Duration::from_secs(2);
/// How long to wait after a change, to combine several questions.
const SETTLE: Duration = Duration::from_millis(100);
/// How often to check without an event.
const QUIET: Duration = Duration::from_secs(10);
/// The maximum number of questions with a message each. More of them share one message.
const EACH_MAX: usize = 10;
/// The maximum number of questions that are counted.
const COUNTED_MAX: usize = 1_000;

/// Notifies the webhooks of all tenants, without end.
pub(crate) async fn run(
    webhooks: WebhookStore,
    tenancies: HashMap<TenantId, Arc<Tenant>>,
    url: PublicUrl,
    limits: ServerLimits,
) {
    let mut tasks = JoinSet::new();
    let mut told = HashMap::new();
    let mut said = false;
    loop {
        match webhooks.list() {
            Ok(wanted) => {
                said = false;
                told.retain(|_, (webhook, task): &mut (StoredWebhook, tokio::task::AbortHandle)| {
                    let stays = wanted.contains(webhook) && !task.is_finished();
                    if !stays {
                        task.abort();
                    }
                    stays
                });
                for webhook in wanted {
                    let tenant = TenantId::new(webhook.tenant.as_str()).ok();
                    let Some(tenancy) = tenant.and_then(|tenant| tenancies.get(&tenant)) else { continue };
                    told.entry(webhook.id.clone()).or_insert_with(|| {
                        let teller = WebhookTask {
                            webhooks: webhooks.clone(),
                            webhook: webhook.clone(),
                            tenancy: Arc::clone(tenancy),
                            url: url.clone(),
                            pauses: limits.webhook_retry_delays.clone(),
                            attempt: limits.webhook_timeout,
                        };
                        (webhook, tasks.spawn(teller.tell()))
                    });
                }
            }
            // The last valid list remains in use until the file can be read again.
            Err(fault) if !said => {
                said = true;
                tracing::error!(%fault, "cannot read the list of webhooks");
            }
            Err(_) => {}
        }
        while tasks.try_join_next().is_some() {}
        tokio::time::sleep(LOOK).await;
    }
}

struct WebhookTask {
    webhooks: WebhookStore,
    webhook: StoredWebhook,
    tenancy: Arc<Tenant>,
    url: PublicUrl,
    pauses: Vec<Duration>,
    attempt: Duration,
}

impl WebhookTask {
    async fn tell(self) {
        // Questions that are already open are reported in one message.
        let mut upto = None;
        loop {
            let mut news = self.tenancy.watchers.any();
            match self.since(upto).await {
                Ok(items) => self.tell_of(&items, &mut upto).await,
                Err(fault) => tracing::warn!(%fault, "cannot list the open questions"),
            }
            drop(tokio::time::timeout(QUIET, news.changed()).await);
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// Returns the open questions after a position, newest first, as many as the message needs.
    async fn since(&self, upto: Option<Cursor>) -> Result<Vec<QuestionItem>, LedgerError> {
        let mut found = Vec::new();
        for limit in [EACH_MAX + 1, COUNTED_MAX] {
            let items = self
                .tenancy
                .audit_log
                .questions(self.tenancy.open_questions(), PageRequest::with_limit(limit))
                .await?;
            let is_full = items.len() == limit;
            let now = SystemClock.now();
            let is_new = |item: &QuestionItem| upto.is_none_or(|upto| item.cursor.0 > upto.0);
            found = items.into_iter().filter(is_new).filter(|item| now < item.expires_at).collect();
            if !is_full || found.len() <= EACH_MAX {
                break;
            }
        }
        Ok(found)
    }

    async fn tell_of(&self, items: &[QuestionItem], upto: &mut Option<Cursor>) {
        let tenant = self.tenancy.id().as_str();
        let Some(newest) = items.first().map(|item| item.cursor) else {
            upto.get_or_insert(Cursor(0));
            return;
        };
        if upto.is_none() || items.len() > EACH_MAX {
            let is_all = items.len() < COUNTED_MAX;
            // A new id each time, so that a receiver does not drop the message as a duplicate.
            let id = format!("open_{}", secure_random::hex::<16>().unwrap_or_else(|_| newest.0.to_string()));
            let message = WebhookMessage::questions_open(id, items.len(), is_all, tenant, &self.url.inbox());
            self.deliver(&message, None).await;
            *upto = Some(newest);
            return;
        }
        for item in items.iter().rev() {
            let short_text = submit_answer::short_text(&self.tenancy, item.question).await;
            let link = self.url.question(item.question);
            let message = WebhookMessage::question_asked(item, short_text.as_deref(), tenant, &link);
            self.deliver(&message, Some(item)).await;
            *upto = Some(item.cursor);
        }
    }

    /// Sends a message until it is accepted, was tried often enough, or is outdated.
    async fn deliver(&self, message: &WebhookMessage, about: Option<&QuestionItem>) {
        let mut pauses = self.pauses.iter();
        loop {
            let Err(why) = self.webhooks.attempt(&self.webhook, message, self.attempt).await else { return };
            let (id, place) = (&self.webhook.id, self.webhook.origin());
            let pause = pauses.next().filter(|_| !matches!(why, DeliveryError::Unusable));
            let Some(pause) = pause else {
                tracing::error!(webhook = id, place, %why, "cannot deliver a webhook message; giving up");
                self.webhooks.give_up(&self.webhook).await;
                return;
            };
            tracing::warn!(webhook = id, place, %why, "cannot deliver a webhook message; trying again");
            tokio::time::sleep(*pause).await;
            if let Some(item) = about
                && !self.is_open(item).await
            {
                return;
            }
        }
    }

    /// Checks whether a question is still open. If this cannot be read, assumes that it is.
    async fn is_open(&self, item: &QuestionItem) -> bool {
        let page = PageRequest { limit: 1, after: Some(Cursor(item.cursor.0.saturating_add(1))) };
        match self.tenancy.audit_log.questions(self.tenancy.open_questions(), page).await {
            Ok(found) => {
                found.first().is_some_and(|found| found.question == item.question)
                    && SystemClock.now() < item.expires_at
            }
            Err(_) => true,
        }
    }
}

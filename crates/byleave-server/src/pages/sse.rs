//! Sends changes of the open questions to pages (SSE). Only ids are sent; a page requests further data itself.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use byleave_gate::audit_log::PageRequest;
use byleave_gate::core::id::QuestionId;
use byleave_gate::ledger::LedgerError;
use futures::stream::{self, Stream};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error_page::ErrorPage;
use super::signed_in_user::SignedInUser;
use crate::principal::AccessScope;
use crate::problem::Problem;
use crate::state::App;
use crate::stream_limit::StreamPermit;
use crate::tenant::Tenant;

const BEAT: Duration = Duration::from_secs(15);
/// How long to wait after a change, to combine several.
const SETTLE: Duration = Duration::from_millis(100);
/// How often to check without a change, because questions also expire.
const LOOK: Duration = Duration::from_secs(5);
const OPEN_MAX: usize = 1_000;

/// Follows the open questions.
pub(super) async fn follow(State(app): State<App>, visitor: SignedInUser) -> Result<Response, ErrorPage> {
    visitor.require_scope(&[AccessScope::Answer, AccessScope::Read])?;
    let tenancy = Arc::clone(&visitor.caller.tenant);
    let many = || Problem::too_many("too many pages are open; close some", 5);
    let seat = tenancy.streams.try_acquire(visitor.caller.name()).ok_or_else(many)?;
    let following = QuestionStream {
        news: tenancy.watchers.any(),
        tenancy,
        told: None,
        until: Instant::now() + app.limits().stream_lifetime,
        end: app.shutdown.clone(),
        _seat: seat,
    };
    Ok(Sse::new(events(following)).keep_alive(KeepAlive::new().interval(BEAT)).into_response())
}

struct QuestionStream {
    tenancy: Arc<Tenant>,
    news: watch::Receiver<()>,
    /// The ids that were sent last.
    told: Option<Vec<QuestionId>>,
    until: Instant,
    end: CancellationToken,
    _seat: StreamPermit,
}

fn events(following: QuestionStream) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(following, |mut following| async move {
        loop {
            if following.told.is_some() && !following.wait().await {
                return None;
            }
            let open = following.open().await.ok()?;
            if following.told.as_ref() != Some(&open) {
                let data = json!({ "open": open, "all": open.len() < OPEN_MAX });
                following.told = Some(open);
                return Some((Ok(Event::default().event("questions").data(data.to_string())), following));
            }
        }
    })
}

impl QuestionStream {
    async fn open(&self) -> Result<Vec<QuestionId>, LedgerError> {
        let items = self
            .tenancy
            .audit_log
            .questions(self.tenancy.open_questions(), PageRequest::with_limit(OPEN_MAX))
            .await?;
        Ok(items.into_iter().map(|item| item.question).collect())
    }

    /// Waits until something may have changed. Returns `false` if the stream must end.
    async fn wait(&mut self) -> bool {
        let heard = tokio::select! {
            biased;
            () = self.end.cancelled() => return false,
            () = tokio::time::sleep_until(self.until) => return false,
            () = tokio::time::sleep(LOOK) => return true,
            heard = self.news.changed() => heard,
        };
        if heard.is_err() {
            return false;
        }
        tokio::time::sleep(SETTLE).await;
        self.news.mark_unchanged();
        true
    }
}

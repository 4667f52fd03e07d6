//! The events of a call as they are recorded (SSE). The id of an event is the number of its entry.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use byleave_gate::audit_log::StoredCall;
use byleave_gate::core::entry::RecordEvent;
use byleave_gate::core::id::CallId;
use byleave_gate::core::question::{Answer, QuestionKind, RecordedAnswer};
use byleave_gate::core::record::Record;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::check_visible;
use crate::api_types::{AfterQuery, CallEvent, LastEventHeader};
use crate::call_watchers::{CallEventLog, CallWatcher, SerializedEvent};
use crate::caller::Caller;
use crate::extract::{PathId, StrictQuery};
use crate::principal::AccessScope;
use crate::problem::{Problem, ProblemKind};
use crate::state::App;
use crate::stream_limit::StreamPermit;
use crate::tenant::Tenant;

/// The interval of keep-alive messages.
const BEAT: Duration = Duration::from_secs(15);

/// Follow a call
///
/// Server-sent events: `entry` for every entry of the record, with its number as id, and `tool_approval` before the entry that
/// closes a question. The stream ends when the call is settled. With `Last-Event-ID`, the stream continues after that entry.
/// If no more entries can follow, the status is 204.
#[utoipa::path(
    get, path = "/v1/calls/{call}/events", tag = "calls",
    params(
        ("call" = uuid::Uuid, Path, description = "The call"),
        AfterQuery,
        LastEventHeader,
    ),
    responses(
        (status = 200, body = CallEvent, content_type = "text/event-stream", description = "The events"),
        (status = 204, description = "The call is settled, and the client has seen its last entry"),
        (status = 404, body = Problem, content_type = "application/problem+json", description = "The call does not exist"),
    ),
)]
pub(super) async fn events(
    State(app): State<App>,
    caller: Caller,
    PathId(call): PathId<CallId>,
    StrictQuery(after): StrictQuery<AfterQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require_scope(&[AccessScope::Submit, AccessScope::Read])?;
    let last = last_seen(&headers)?.or(after.after);
    check_visible(&caller, call).await?;
    let many = || Problem::too_many("too many event streams are open", 5);
    let seat = caller.tenant.streams.try_acquire(caller.name()).ok_or_else(many)?;
    let shared = caller.tenant.watchers.watch(call);
    let mut following = CallEventStream {
        tenancy: Arc::clone(&caller.tenant),
        call,
        next: last.map_or(0, |last| last.saturating_add(1)),
        ready: VecDeque::new(),
        over: false,
        grown: shared.subscribe(),
        shared,
        until: Instant::now() + app.limits().stream_lifetime,
        end: app.shutdown.clone(),
        _seat: seat,
    };
    following.look().await?;
    if following.over && following.ready.is_empty() {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(Sse::new(follow(following)).keep_alive(KeepAlive::new().interval(BEAT)).into_response())
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u32>, Problem> {
    let wrong = || Problem::new(ProblemKind::Malformed, "`Last-Event-ID` must be the number of an entry");
    let mut given = headers.get_all("last-event-id").iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => {
            let text = one.to_str().map_err(|_| wrong())?;
            text.parse().map(Some).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

/// A stream that a client follows.
struct CallEventStream {
    tenancy: Arc<Tenant>,
    call: CallId,
    /// The next entry.
    next: u32,
    ready: VecDeque<Event>,
    /// Whether there will be no more events.
    over: bool,
    grown: watch::Receiver<()>,
    /// Shared by all followers of this call.
    shared: Arc<CallWatcher>,
    until: Instant,
    end: CancellationToken,
    _seat: StreamPermit,
}

fn follow(following: CallEventStream) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(following, |mut following| async move {
        loop {
            if let Some(event) = following.ready.pop_front() {
                return Some((Ok(event), following));
            }
            if following.over || !following.wait().await {
                return None;
            }
            if following.look().await.is_err() {
                // The client reconnects and receives the error then.
                return None;
            }
        }
    })
}

impl CallEventStream {
    /// Waits until the record may have grown. Returns `false` if the stream must end.
    async fn wait(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.end.cancelled() => false,
            () = tokio::time::sleep_until(self.until) => false,
            changed = self.grown.changed() => changed.is_ok(),
        }
    }

    /// Adds the events since the last read.
    async fn look(&mut self) -> Result<(), Problem> {
        let told = self.shared.read_shared(|| told(&self.tenancy, self.call)).await?;
        let from = usize::try_from(self.next).unwrap_or(usize::MAX);
        for said in told.entries.iter().skip(from).flatten() {
            let event = Event::default().event(said.event).data(&said.data);
            self.ready.push_back(match said.id {
                Some(id) => event.id(id.to_string()),
                None => event,
            });
        }
        self.next = self.next.max(u32::try_from(told.entries.len()).unwrap_or(u32::MAX));
        self.over = told.is_complete;
        Ok(())
    }
}

/// Returns the events of every entry on the record.
async fn told(tenancy: &Tenant, call: CallId) -> Result<CallEventLog, Problem> {
    let Some(kept) = tenancy.audit_log.record(call).await? else {
        // The call may not be in the audit log yet.
        return Ok(CallEventLog { entries: Vec::new(), is_complete: !tenancy.is_driven(call) });
    };
    let mut entries = Vec::with_capacity(kept.chained_entries.len());
    for line in &kept.chained_entries {
        let entry: Value = serde_json::from_str(line.body()).unwrap_or_default();
        let data = json!({ "call": call, "seq": line.seq(), "link": line.link(), "entry": entry });
        let said = SerializedEvent { id: Some(line.seq()), event: "entry", data: data.to_string() };
        entries.push(approval(tenancy, &kept, line.seq()).await.into_iter().chain([said]).collect());
    }
    Ok(CallEventLog { entries, is_complete: kept.record.outcome().is_some() })
}

/// Returns the approval event of an entry, given or refused (R6).
async fn approval(tenancy: &Tenant, kept: &StoredCall, seq: u32) -> Option<SerializedEvent> {
    let record = &kept.record;
    let place = usize::try_from(seq).ok()?;
    let (question, approved) = match &record.entries().get(place)?.event {
        RecordEvent::Answered(answered) => {
            let said = &answered.answer;
            (answered.question, !matches!(said, Answer::No { .. } | Answer::Result { .. } | Answer::Abort))
        }
        RecordEvent::Expired { question } | RecordEvent::ApproverFailed { question, .. } => {
            (*question, false)
        }
        _ => return None,
    };
    if record.question(question)?.kind == QuestionKind::Release {
        return None;
    }
    let tool = record.resolved_tool()?.as_ref().ok()?.tool.clone();
    let parameters = parameters(tenancy, record, place).await;
    let data = json!({ "call": record.call(), "tool": tool, "parameters": parameters, "approved": approved });
    Some(SerializedEvent { id: None, event: "tool_approval", data: data.to_string() })
}

/// Returns the arguments of the question; null if they were erased.
async fn parameters(tenancy: &Tenant, record: &Record, place: usize) -> Value {
    let mut drafts = record.entries().iter().take(place).filter_map(|entry| match &entry.event {
        RecordEvent::Received(heading) => Some(heading.arguments),
        RecordEvent::Reviewed(Ok(review)) => review.replacement,
        RecordEvent::Answered(RecordedAnswer { answer: Answer::Edit { content, .. }, .. }) => Some(*content),
        _ => None,
    });
    let Some(held) = drafts.next_back() else { return Value::Null };
    let bytes = tenancy.ledger.content(record.call(), held).await.unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

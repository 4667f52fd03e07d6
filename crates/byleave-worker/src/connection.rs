//! One connection to the server that reconnects whenever it breaks. Unanswered requests are repeated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use byleave_core::id::{CallId, OwnerId};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::LedgerError;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::assignment::Capabilities;
use crate::protocol::{
    Disconnected, Frame, FrameChannel, LedgerRequest, LedgerResponseError, PROTOCOL_VERSION, WorkerHello,
    silence_timeout,
};

/// How long the server may take to send its first message.
const WELCOME: Duration = Duration::from_secs(10);
/// The number of heartbeats within the time for which the worker may be silent.
const BEATS: u32 = 3;
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The maximum number of requests that wait for the connection task.
const WAITING_MAX: usize = 64;

/// Opens connections to the server.
pub trait Connector: Send + Sync + 'static {
    /// Opens one connection.
    fn connect(&self) -> BoxFuture<'_, Result<FrameChannel, ConnectError>>;
}

/// The reason why there is no connection.
#[derive(Debug)]
pub struct ConnectError(pub String);

/// A request that is not answered yet.
struct InFlightRequest {
    ask: LedgerRequest,
    reply: oneshot::Sender<RequestOutcome>,
    /// The server to which it was sent first.
    said_to: Option<Uuid>,
    /// The time until which the caller waits for the answer.
    until: Instant,
}

/// The outcome of a request.
pub(crate) struct RequestOutcome {
    pub(crate) result: Result<Value, LedgerResponseError>,
    /// Whether it was sent to another server before, where it may have had its effect already.
    pub(crate) may_have_run_before: bool,
}

/// One connection to the server that reconnects whenever it breaks. It is closed when this is dropped.
pub(crate) struct Connection {
    questions: mpsc::Sender<InFlightRequest>,
    patience: Duration,
    heard: Arc<Mutex<LeaseClock>>,
}

/// The sending time of the last message that the server confirmed, and the lease.
///
/// It is not the time at which the confirmation arrived. A confirmation that waited in the connection while this process was
/// paused says nothing about now.
#[derive(Clone, Copy)]
struct LeaseClock {
    at: Duration,
    lease: Duration,
}

/// The status of the connection to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// No connection was attempted yet.
    Unknown,
    /// The server is connected.
    Connected,
    /// The server cannot be reached, or rejects this worker.
    Unreachable(String),
}

/// Returns the time since the machine was started, including the time that it slept.
pub fn uptime() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// The channels of a worker that accepts calls.
pub(crate) struct WorkerRegistration {
    pub(crate) capabilities: Capabilities,
    /// Calls that are offered.
    pub(crate) offers: mpsc::Sender<CallId>,
    /// Notices of the worker.
    pub(crate) notices: mpsc::Receiver<WorkerNotice>,
    /// Receives the status of the connection.
    pub(crate) status: watch::Sender<ConnectionStatus>,
}

/// A notice that a worker sends without being asked. Lost notices need not be repeated, because the server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerNotice {
    /// An offered call was driven as far as possible, and another call may block it.
    Driven { call: CallId, blocked_by: Option<CallId> },
    /// The worker accepts no new calls.
    Draining,
}

impl Connection {
    pub(crate) fn open(
        dial: impl Connector,
        owner: OwnerId,
        patience: Duration,
        hire: Option<WorkerRegistration>,
    ) -> Self {
        let (questions, asked) = mpsc::channel(WAITING_MAX);
        let heard = Arc::new(Mutex::new(LeaseClock { at: uptime(), lease: Duration::ZERO }));
        let line = ConnectionTask {
            dial: Box::new(dial),
            owner,
            asked,
            open: BTreeMap::new(),
            next: 0,
            hire,
            is_leaving: false,
            office: None,
            heard: Arc::clone(&heard),
        };
        tokio::spawn(line.keep());
        Self { questions, patience, heard }
    }

    /// Checks whether the server may consider this worker gone, because it has not received a message for too long.
    pub(crate) fn may_be_presumed_dead(&self) -> bool {
        let heard = *self.heard.lock();
        // Zero means a server that has no lease and offers no calls.
        !heard.lease.is_zero() && uptime().saturating_sub(heard.at) >= heard.lease
    }

    /// Sends a request to the server and waits for the answer until the timeout.
    pub(crate) async fn send_request(&self, ask: LedgerRequest) -> Result<RequestOutcome, LedgerError> {
        let away = |why: &str| LedgerError::new("cannot send a request to the server", why);
        let (reply, answered) = oneshot::channel();
        let until = Instant::now() + self.patience;
        let question = InFlightRequest { ask, reply, said_to: None, until };
        self.questions.send(question).await.map_err(|_| away("the connection has ended"))?;
        match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(_)) => Err(away("the connection has ended")),
            Err(_) => Err(away("the server did not answer in time; check that it is running and reachable")),
        }
    }
}

/// The task that maintains the connection.
struct ConnectionTask {
    dial: Box<dyn Connector>,
    owner: OwnerId,
    asked: mpsc::Receiver<InFlightRequest>,
    /// Unanswered requests, by id.
    open: BTreeMap<u64, InFlightRequest>,
    next: u64,
    hire: Option<WorkerRegistration>,
    is_leaving: bool,
    /// The current or last server.
    office: Option<Uuid>,
    heard: Arc<Mutex<LeaseClock>>,
}

/// The reason why a connection ended.
enum DisconnectReason {
    /// The connection broke.
    Broke,
    /// No sender is left.
    Over,
}

impl ConnectionTask {
    async fn keep(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect().await {
                Ok((wire, lease, office)) => {
                    pause = PAUSE_MIN;
                    self.office = Some(office);
                    if matches!(self.converse(wire, lease).await, DisconnectReason::Over) {
                        return;
                    }
                }
                Err(why) => {
                    tracing::debug!(why, "cannot reach the server; trying again");
                    self.stands(ConnectionStatus::Unreachable(why));
                }
            }
            tokio::select! {
                () = self.questions_over() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Accepts requests while there is no connection. Returns when no sender is left.
    async fn questions_over(&mut self) {
        loop {
            tokio::select! {
                asked = self.asked.recv() => match asked {
                    Some(question) => drop(self.take(question)),
                    None => return,
                },
                say = next_word(&mut self.hire) => self.is_leaving |= say == WorkerNotice::Draining,
            }
        }
    }

    fn take(&mut self, question: InFlightRequest) -> u64 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(id, question);
        id
    }

    fn stands(&self, reach: ConnectionStatus) {
        if let Some(hire) = &self.hire {
            hire.status.send_if_modified(|known| {
                let is_news = *known != reach;
                *known = reach;
                is_news
            });
        }
    }

    fn was_heard(&self, at: Duration, lease: Option<Duration>) {
        let mut heard = self.heard.lock();
        heard.at = heard.at.max(at);
        heard.lease = lease.unwrap_or(heard.lease);
    }

    async fn connect(&self) -> Result<(FrameChannel, Duration, Uuid), String> {
        let mut wire = self.dial.connect().await.map_err(|ConnectError(why)| why)?;
        let skills = self.hire.as_ref().map(|hire| hire.capabilities.clone());
        let is_leaving = self.is_leaving;
        let hello = Frame::Hello(WorkerHello {
            protocol: PROTOCOL_VERSION,
            owner: self.owner,
            capabilities: skills,
            is_draining: is_leaving,
        });
        let said_at = uptime();
        wire.send_frame(&hello)
            .await
            .map_err(|Disconnected| "the connection broke immediately".to_owned())?;
        let heard = tokio::time::timeout(WELCOME, wire.receiver.recv()).await;
        let heard = heard.ok().flatten().ok_or("the server sent nothing")?;
        match serde_json::from_str(&heard) {
            Ok(Frame::Welcome { lease_ms, server_id: office }) => {
                tracing::info!(lease_ms, "connected to the server");
                let lease = Duration::from_millis(lease_ms);
                self.was_heard(said_at, Some(lease));
                self.stands(ConnectionStatus::Connected);
                Ok((wire, lease, office))
            }
            Ok(Frame::Rejected { reason: why }) => {
                tracing::warn!(why, "the server rejected this worker");
                Err(why)
            }
            _ => Err("the server sent an unexpected first message".to_owned()),
        }
    }

    async fn converse(&mut self, mut wire: FrameChannel, lease: Duration) -> DisconnectReason {
        let now = Instant::now();
        let patience = silence_timeout(lease);
        self.open.retain(|_, question| question.until > now && !question.reply.is_closed());
        let unanswered: Vec<u64> = self.open.keys().copied().collect();
        for id in unanswered {
            if self.say(&wire, id).await.is_err() {
                return DisconnectReason::Broke;
            }
        }
        let mut beat = tokio::time::interval(patience / BEATS);
        let mut heard_at = Instant::now();
        loop {
            let broke = tokio::select! {
                heard = wire.receiver.recv() => match heard {
                    Some(text) => {
                        heard_at = Instant::now();
                        self.hear(&text)
                    }
                    None => Err(Disconnected),
                },
                // Measured from the last received message, whatever was sent meanwhile.
                () = tokio::time::sleep_until(heard_at + patience) => Err(Disconnected),
                say = next_word(&mut self.hire) => {
                    self.is_leaving |= say == WorkerNotice::Draining;
                    let frame = match say {
                        WorkerNotice::Driven { call, blocked_by: held_up_by } => Frame::Driven { call, blocked_by: held_up_by },
                        WorkerNotice::Draining => Frame::Draining,
                    };
                    wire.send_frame(&frame).await
                }
                asked = self.asked.recv() => match asked {
                    Some(question) => {
                        let id = self.take(question);
                        self.say(&wire, id).await
                    }
                    None => return DisconnectReason::Over,
                },
                _ = beat.tick() => {
                    let at_ms = u64::try_from(uptime().as_millis()).unwrap_or(u64::MAX);
                    wire.send_frame(&Frame::Heartbeat { at_ms }).await
                }
            };
            if let Err(Disconnected) = broke {
                return DisconnectReason::Broke;
            }
        }
    }

    async fn say(&mut self, wire: &FrameChannel, id: u64) -> Result<(), Disconnected> {
        let Some(question) = self.open.get_mut(&id) else { return Ok(()) };
        question.said_to = question.said_to.or(self.office);
        wire.send_frame(&Frame::Request { id, request: question.ask.clone() }).await
    }

    fn hear(&mut self, text: &str) -> Result<(), Disconnected> {
        match serde_json::from_str(text) {
            Ok(Frame::Response { id, result: told }) => {
                if let Some(question) = self.open.remove(&id) {
                    let answered =
                        RequestOutcome { result: told, may_have_run_before: question.said_to != self.office };
                    // The caller may have given up.
                    drop(question.reply.send(answered));
                }
                Ok(())
            }
            Ok(Frame::Offer { call }) => match &self.hire {
                // The channel holds more than the declared capacity.
                Some(hire) => hire.offers.try_send(call).map_err(|_| Disconnected),
                None => Err(Disconnected),
            },
            Ok(Frame::Heartbeat { at_ms }) => {
                // Never later than now, whatever the server says.
                self.was_heard(Duration::from_millis(at_ms).min(uptime()), None);
                Ok(())
            }
            Ok(_) | Err(_) => {
                tracing::warn!("unexpected message from the server");
                Err(Disconnected)
            }
        }
    }
}

/// Returns the next notice of the worker. Never returns if this worker accepts no calls.
async fn next_word(hire: &mut Option<WorkerRegistration>) -> WorkerNotice {
    if let Some(hire) = hire
        && let Some(say) = hire.notices.recv().await
    {
        return say;
    }
    std::future::pending().await
}

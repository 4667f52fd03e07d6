//! The proxy: two streams of lines, and the few requests that it stops.

use std::collections::HashMap;
use std::sync::Arc;

use byleave_gate::clock::fresh_id;
use byleave_gate::core::call::{Call, Mode};
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{AgentId, CallId, SessionId, TenantId};
use byleave_gate::gate::Gate;
use byleave_gate::result::{CallOutcome, CallResult};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::mpsc;

use crate::editor_approver::EditorApprover;
use crate::gated_tools::{self, CALL_TOOL, WRITE_TOOL};
use crate::intercepted::{PermissionOptionKind, PermissionRequest, WriteFileRequest};
use crate::jsonrpc::{self, Envelope, OutgoingMessage, RequestId};

/// The error code of a refused request.
const REFUSED: i32 = -32_000;
const INVALID: i32 = -32_602;
/// The number of lines that may wait for a slow reader. If the queue is full, the sender waits.
const QUEUE_LINES: usize = 64;
/// The maximum number of calls that are evaluated at a time.
const OPEN_MAX: usize = 256;

/// A source of gates, one for each directory that a session works in.
pub trait GateProvider: Send + Sync + 'static {
    /// Returns the gate for calls in this directory. It returns the same gate for the same directory.
    fn gate(&self, cwd: &str) -> Result<Gate, String>;
}

/// The identity and settings of the calls.
#[derive(Clone, Debug)]
pub struct CallerIdentity {
    /// The tenant.
    pub tenant: TenantId,
    /// The agent.
    pub agent: AgentId,
    /// The mode of the session.
    pub mode: Mode,
    /// Whether nothing is executed.
    pub dry_run: bool,
    /// The directory of sessions that do not name one.
    pub cwd: String,
}

/// A proxy between one editor and one agent.
pub struct Proxy {
    who: CallerIdentity,
    gates: Arc<dyn GateProvider>,
    client: Arc<EditorApprover>,
    to_client: mpsc::Sender<OutgoingMessage>,
    to_agent: mpsc::Sender<OutgoingMessage>,
    known: Mutex<ProxyState>,
}

/// The reason why a proxy ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A stream broke.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The agent sent a message that an editor might read differently.
    #[error("the agent sent a message that cannot be evaluated")]
    InvalidMessage,
}

/// The state of the connection.
#[derive(Default)]
struct ProxyState {
    /// The working directories of sessions.
    places: HashMap<String, String>,
    /// The working directories of new sessions that do not have an id yet.
    coming: HashMap<RequestId, String>,
    /// The calls that are being evaluated, each with its session and gate.
    open: HashMap<CallId, (String, Gate)>,
}

impl Proxy {
    /// Runs the proxy until the agent ends. `client` is asked only if the gates use it as their approver.
    pub async fn run(
        who: CallerIdentity,
        gates: Arc<dyn GateProvider>,
        client: Arc<EditorApprover>,
        editor: (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send),
        agent: (impl AsyncRead + Unpin + Send, impl AsyncWrite + Unpin + Send),
    ) -> Result<(), ProxyError> {
        let (to_client, for_client) = mpsc::channel(QUEUE_LINES);
        let (to_agent, for_agent) = mpsc::channel(QUEUE_LINES);
        client.attach(to_client.clone());
        let known = Mutex::default();
        let proxy = Arc::new(Self { who, gates, client, to_client, to_agent, known });
        let editor_writes = async {
            let mut lines = BufReader::new(editor.0);
            while let Some(line) = jsonrpc::read_line(&mut lines).await? {
                proxy.editor_says(line).await;
            }
            proxy.pass(&proxy.to_agent, OutgoingMessage::End).await;
            Ok::<(), ProxyError>(())
        };
        let agent_writes = async {
            let mut lines = BufReader::new(agent.0);
            while let Some(line) = jsonrpc::read_line(&mut lines).await? {
                proxy.agent_says(line).await?;
            }
            Ok::<(), ProxyError>(())
        };
        let editor_reads = jsonrpc::write_messages(editor.1, for_client);
        let agent_reads = jsonrpc::write_messages(agent.1, for_agent);
        let streams = async {
            let mut editor_reads = std::pin::pin!(editor_reads);
            let mut others = std::pin::pin!(async { tokio::join!(editor_writes, agent_reads) });
            let mut agent_writes = std::pin::pin!(agent_writes);
            let mut is_others_done = false;
            loop {
                tokio::select! {
                    ended = &mut agent_writes => {
                        // The editor still gets the agent's last messages.
                        proxy.pass(&proxy.to_client, OutgoingMessage::End).await;
                        editor_reads.await?;
                        return ended;
                    }
                    written = &mut editor_reads => return Ok(written?),
                    (read, _) = &mut others, if !is_others_done => {
                        // An agent that no longer reads may still write.
                        is_others_done = true;
                        read?;
                    }
                }
            }
        };
        let ended = streams.await;
        proxy.withdraw(None).await;
        proxy.client.detach();
        ended
    }

    async fn editor_says(&self, line: Vec<u8>) {
        if let Some(envelope) = Envelope::parse(&line) {
            let id = envelope.id();
            if envelope.is_response() {
                let result = envelope.result.map(serde_json::value::RawValue::get);
                if id.is_some_and(|id| self.client.deliver_response(&id, result)) {
                    return;
                }
            } else {
                self.learn(&envelope);
                if envelope.method.as_deref() == Some("session/cancel")
                    && let Some(session) = field(&envelope, "sessionId")
                {
                    self.withdraw(Some(&session)).await;
                }
            }
        }
        self.pass(&self.to_agent, OutgoingMessage::Line(line)).await;
    }

    async fn agent_says(self: &Arc<Self>, line: Vec<u8>) -> Result<(), ProxyError> {
        let envelope = Envelope::parse(&line).ok_or(ProxyError::InvalidMessage)?;
        let id = envelope.id();
        match (envelope.method.as_deref(), id) {
            (Some(PermissionRequest::METHOD), Some(id)) => {
                let params = envelope.params.map(|params| params.get().to_owned()).unwrap_or_default();
                let proxy = Arc::clone(self);
                tokio::spawn(async move { proxy.permission(id, &params).await });
            }
            (Some(WriteFileRequest::METHOD), Some(id)) => {
                let params = envelope.params.map(|params| params.get().to_owned()).unwrap_or_default();
                let proxy = Arc::clone(self);
                tokio::spawn(async move { proxy.write(id, &params, line).await });
            }
            // Without an id nothing waits for the answer, but an editor might still carry out the request.
            (Some(PermissionRequest::METHOD | WriteFileRequest::METHOD), None) => {
                return Err(ProxyError::InvalidMessage);
            }
            (None, Some(id)) => {
                self.named(&id, &envelope);
                self.pass(&self.to_client, OutgoingMessage::Line(line)).await;
            }
            _ => self.pass(&self.to_client, OutgoingMessage::Line(line)).await,
        }
        Ok(())
    }

    /// Answers a permission request: once or not at all, never permanently.
    async fn permission(&self, id: RequestId, params: &str) {
        let typed: Option<PermissionRequest> = serde_json::from_str(params).ok();
        let raw: Option<Value> = serde_json::from_str(params).ok();
        let (Some(typed), Some(raw)) = (typed, raw) else {
            return self
                .pass(&self.to_agent, jsonrpc::error(&id, INVALID, "the request cannot be parsed"))
                .await;
        };
        let session = typed.session_id.clone();
        let of = |kind: PermissionOptionKind| {
            typed.options.iter().find(|option| option.kind == kind).map(|option| option.option_id.clone())
        };
        let call = CallId::new(fresh_id());
        self.client.register_request(call, id.clone(), raw.clone());
        let arguments = raw.get("toolCall").cloned().unwrap_or_default();
        let result = self.settled(call, &session, CALL_TOOL, arguments).await;
        self.client.forget_request(call);
        let allow = of(PermissionOptionKind::AllowOnce);
        let (chosen, why) = match (&result, allow) {
            (Ok(result), Some(option)) if matches!(result.outcome, CallOutcome::Completed(_)) => {
                (Some(option), None)
            }
            (Ok(result), None) if matches!(result.outcome, CallOutcome::Completed(_)) => (
                of(PermissionOptionKind::RejectOnce),
                Some("the agent does not offer to allow the call only once".to_owned()),
            ),
            (Ok(result), _) => (of(PermissionOptionKind::RejectOnce), result.denial_reason()),
            (Err(why), _) => (of(PermissionOptionKind::RejectOnce), Some(why.clone())),
        };
        let is_withdrawn = matches!(&result, Ok(result) if is_cancelled(result));
        let outcome = match chosen {
            Some(option) if !is_withdrawn => json!({ "outcome": "selected", "optionId": option }),
            _ => json!({ "outcome": "cancelled" }),
        };
        let about = json!({ "byleave": { "call": call, "reason": why } });
        self.pass(&self.to_agent, jsonrpc::result(&id, &json!({ "outcome": outcome, "_meta": about }))).await;
    }

    /// Passes a write on after it was permitted and recorded.
    async fn write(&self, id: RequestId, params: &str, line: Vec<u8>) {
        let Ok(typed) = serde_json::from_str::<WriteFileRequest>(params) else {
            return self
                .pass(&self.to_agent, jsonrpc::error(&id, INVALID, "the request cannot be parsed"))
                .await;
        };
        let call = CallId::new(fresh_id());
        let arguments = json!({ "path": typed.path, "content": typed.content });
        let why = match self.settled(call, &typed.session_id, WRITE_TOOL, arguments).await {
            Ok(result) if matches!(result.outcome, CallOutcome::Completed(_)) => {
                return self.pass(&self.to_client, OutgoingMessage::Line(line)).await;
            }
            Ok(result) => result.denial_reason().unwrap_or_else(|| "the write was not permitted".to_owned()),
            Err(why) => why,
        };
        self.pass(&self.to_agent, jsonrpc::error(&id, REFUSED, &why)).await;
    }

    /// Settles a call. Fails if it was modified, because the agent and the editor only do what they asked for.
    async fn settled(
        &self,
        id: CallId,
        session: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<CallResult, String> {
        let cwd = self.known().places.get(session).cloned().unwrap_or_else(|| self.who.cwd.clone());
        if self.known().open.len() >= OPEN_MAX {
            return Err("too many calls are already waiting".to_owned());
        }
        let gate = self.gates.gate(&cwd)?;
        gated_tools::register_tools(&gate).map_err(|fault| fault.to_string())?;
        let call = Call {
            id,
            tenant: self.who.tenant.clone(),
            session: session_id(session)?,
            agent: self.who.agent.clone(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            reason: None,
            cwd,
            mode: self.who.mode,
            dry_run: self.who.dry_run,
        };
        self.known().open.insert(id, (session.to_owned(), gate.clone()));
        let result = gate.settle(call).await;
        self.known().open.remove(&id);
        if matches!(result.outcome, CallOutcome::Completed(_)) && result.arguments != arguments {
            return Err(
                "the call was modified, and an editor cannot run a modified call; it did not run".into()
            );
        }
        Ok(result)
    }

    /// Cancels the calls that are being evaluated in a session, or in all sessions.
    async fn withdraw(&self, session: Option<&str>) {
        let open: Vec<(CallId, Gate)> = {
            let known = self.known();
            let meant = known.open.iter().filter(|(_, (of, _))| session.is_none_or(|session| session == of));
            meant.map(|(call, (_, gate))| (*call, gate.clone())).collect()
        };
        for (call, gate) in open {
            // A call that cannot be cancelled stays open and does not get a yes.
            gate.cancel(call, "the editor").await.unwrap_or_default();
        }
    }

    /// Stores the working directory that the editor gives a session.
    fn learn(&self, envelope: &Envelope<'_>) {
        let Some(cwd) = field(envelope, "cwd") else { return };
        match (envelope.method.as_deref(), field(envelope, "sessionId"), envelope.id()) {
            (Some("session/new"), _, Some(id)) => drop(self.known().coming.insert(id, cwd)),
            (Some(_), Some(session), _) => drop(self.known().places.insert(session, cwd)),
            _ => {}
        }
    }

    /// Stores the id of a session that was requested.
    fn named(&self, id: &RequestId, envelope: &Envelope<'_>) {
        let Some(cwd) = self.known().coming.remove(id) else { return };
        let result = envelope.result.and_then(|result| serde_json::from_str::<Value>(result.get()).ok());
        if let Some(session) =
            result.as_ref().and_then(|result| result.get("sessionId")).and_then(Value::as_str)
        {
            self.known().places.insert(session.to_owned(), cwd);
        }
    }

    /// Sends a message. If the receiver is gone, the message is dropped.
    async fn pass(&self, to: &mpsc::Sender<OutgoingMessage>, out: OutgoingMessage) {
        to.send(out).await.unwrap_or_default();
    }

    fn known(&self) -> parking_lot::MutexGuard<'_, ProxyState> {
        self.known.lock()
    }
}

fn is_cancelled(result: &CallResult) -> bool {
    use byleave_gate::core::refusal::Code;
    result.outcome.refusal().is_some_and(|refusal| refusal.code == Code::Cancelled)
}

fn field(envelope: &Envelope<'_>, name: &str) -> Option<String> {
    let params: Value = serde_json::from_str(envelope.params?.get()).ok()?;
    params.get(name)?.as_str().map(str::to_owned)
}

/// Returns Byleave's id of a session. If the name is not a valid id, its digest is used.
fn session_id(session: &str) -> Result<SessionId, String> {
    let plain = SessionId::new(format!("acp-{session}"));
    let named =
        plain.or_else(|_| SessionId::new(format!("acp-{}", Digest::compute(session.as_bytes()).short_hex())));
    named.map_err(|error| error.to_string())
}

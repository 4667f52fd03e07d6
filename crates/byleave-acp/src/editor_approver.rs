//! The editor as approver, if the operator wants that. The agent's own request is passed on to the editor, without the options that would
//! grant a lasting permission. The audit log says that the answer is the editor's; Byleave cannot know whether a person gave it.

use std::collections::HashMap;

use byleave_gate::approver::{Approver, ApproverError, Reply};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::core::id::CallId;
use byleave_gate::core::question::Assurance;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::Rendering;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::intercepted::PermissionRequest;
use crate::jsonrpc::{self, OutgoingMessage, RequestId};

/// An approver that asks the editor.
#[derive(Default)]
pub struct EditorApprover {
    inner: Mutex<EditorApproverState>,
}

#[derive(Default)]
struct EditorApproverState {
    to_client: Option<mpsc::Sender<OutgoingMessage>>,
    requests: HashMap<CallId, PendingRequest>,
    awaited: HashMap<RequestId, oneshot::Sender<Value>>,
}

/// A permission request to the editor about one call.
struct PendingRequest {
    id: RequestId,
    params: Value,
}

impl EditorApprover {
    /// Sets the channel to the editor.
    pub(crate) fn attach(&self, to_client: mpsc::Sender<OutgoingMessage>) {
        self.inner().to_client = Some(to_client);
    }

    /// Removes the channel to the editor and all pending requests.
    pub(crate) fn detach(&self) {
        *self.inner() = EditorApproverState::default();
    }

    /// Stores the request that would be sent to the editor about a call.
    pub(crate) fn register_request(&self, call: CallId, id: RequestId, mut params: Value) {
        let lasts = |option: &Value| {
            option.get("kind").and_then(Value::as_str).is_none_or(|kind| kind.ends_with("_always"))
        };
        if let Some(options) = params.get_mut("options").and_then(Value::as_array_mut) {
            options.retain(|option| !lasts(option));
        }
        self.inner().requests.insert(call, PendingRequest { id, params });
    }

    /// Removes a call. A late answer is ignored.
    pub(crate) fn forget_request(&self, call: CallId) {
        let mut inner = self.inner();
        if let Some(request) = inner.requests.remove(&call) {
            inner.awaited.remove(&request.id);
        }
    }

    /// Takes an answer of the editor that belongs to this approver. Returns `false` if it belongs to the agent.
    pub(crate) fn deliver_response(&self, id: &RequestId, result: Option<&str>) -> bool {
        let Some(waiting) = self.inner().awaited.remove(id) else { return false };
        let result = result.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
        // The waiting task may have given up.
        waiting.send(result).unwrap_or_default();
        true
    }

    /// Prepares a request to the editor. Returns the message, its channel, the receiver of the answer, and the parameters that were sent.
    fn put(
        &self,
        call: CallId,
    ) -> Option<(OutgoingMessage, mpsc::Sender<OutgoingMessage>, oneshot::Receiver<Value>, Value)> {
        let mut inner = self.inner();
        let request = inner.requests.get(&call)?;
        let (id, params) = (request.id.clone(), request.params.clone());
        let (answer, waiting) = oneshot::channel();
        let asked = jsonrpc::request_message(&id, PermissionRequest::METHOD, &params);
        inner.awaited.insert(id, answer);
        let to_client = inner.to_client.clone()?;
        Some((asked, to_client, waiting, params))
    }

    fn inner(&self) -> parking_lot::MutexGuard<'_, EditorApproverState> {
        self.inner.lock()
    }
}

impl Approver for EditorApprover {
    fn name(&self) -> &'static str {
        "the editor"
    }

    fn assurance(&self) -> Assurance {
        Assurance::ClientAttested
    }

    fn ask<'a>(
        &'a self,
        sheet: &'a QuestionView,
        _rendering: &'a Rendering,
    ) -> BoxFuture<'a, Result<Reply, ApproverError>> {
        let put = self.put(sheet.call);
        Box::pin(async move {
            let nobody = || ApproverError::Failed("cannot ask the editor".to_owned());
            let (asked, to_client, waiting, params) = put.ok_or_else(nobody)?;
            to_client.send(asked).await.map_err(|_| nobody())?;
            let answer = waiting.await.map_err(|_| nobody())?;
            Ok(reply(&answer, &params))
        })
    }
}

/// Converts the editor's answer. Only an offered option of the kind `allow_once` is a yes.
fn reply(answer: &Value, params: &Value) -> Reply {
    let outcome = answer.get("outcome");
    let chosen = outcome.filter(|outcome| outcome.get("outcome").and_then(Value::as_str) == Some("selected"));
    let chosen = chosen.and_then(|outcome| outcome.get("optionId"));
    let options = params.get("options").and_then(Value::as_array).into_iter().flatten();
    let mut kinds = options.filter(|option| option.get("optionId") == chosen && chosen.is_some());
    let kind = kinds.next().and_then(|option| option.get("kind")).and_then(Value::as_str);
    match kind {
        // An option id that was offered twice is ambiguous, so it is not a yes.
        Some("allow_once") if kinds.next().is_none() => Reply::Yes { note: None },
        _ => Reply::No { feedback: None },
    }
}

//! Follows an agent's call through the gate, including the wait for an answer.
//!
//! The gate itself applies standing approvals. Then the person behind the client is asked, if the client and the question
//! allow it. Meanwhile, and otherwise, the call is held, and anyone may answer in the inbox. Before the client times out, it
//! learns that the call waits.
//!
//! A repeated call finds the waiting one by its lock file, and its result is handed over once. Nothing here can make a call
//! run that the gate would not run, or make it run twice.

use std::collections::HashSet;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use byleave_gate::approver::Reply;
use byleave_gate::clock::{Clock as _, SystemClock, fresh_id};
use byleave_gate::core::call::Call;
use byleave_gate::core::digest::{Digest, canonical_json};
use byleave_gate::core::id::{AgentId, CallId, QuestionId};
use byleave_gate::core::question::{ApproverIdentity, Assurance, Question};
use byleave_gate::event::CallEvents;
use byleave_gate::gate::{AnswerError, SubmittedAnswer};
use byleave_gate::result::{CallResult, CallStatus};
use byleave_gate::tool::Progress;
use futures::future::BoxFuture;
use rmcp::model::{ElicitRequestParams, InputRequiredResult, InputResponses};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::client_identity::ClientIdentity;
use super::connection::ClientConnection;
use super::elicit::{self, ElicitationState};
use super::pending_calls::PendingCallLock;
use super::progress::ProgressReporter;
use super::{GatewayInner, deadline};
use crate::active_callers::Caller;

/// The request of an agent.
pub(super) struct ToolCallRequest {
    /// The tool, by its name in the catalog.
    pub(super) tool: String,
    /// The arguments, an object.
    pub(super) arguments: Value,
    /// The reason, in the model's own words.
    pub(super) reason: Option<String>,
    /// The client's answers to input requests.
    pub(super) responses: Option<InputResponses>,
    /// The state that the client returns with them.
    pub(super) state: Option<String>,
}

/// The outcome of following a call.
pub(super) enum CallProgress {
    /// The call is settled.
    Settled {
        /// The result of the call.
        result: Box<CallResult>,
        /// If the call waited before: the time since it was last held.
        resumed_after: Option<Duration>,
    },
    /// The client is asked, and repeats the call with the answer.
    InputRequired(Box<InputRequiredResult>),
    /// The call waits for a person.
    Waiting {
        /// The id of the call.
        call: CallId,
        /// The question, unless another call with a question blocks this one.
        question: Option<QuestionId>,
    },
    /// The call cannot be followed, for this reason.
    Error(String),
    /// No client waits for it any more.
    Gone,
}

/// Follows a call for as long as its client waits.
pub(super) async fn follow_call(
    at: &ClientConnection,
    job: ToolCallRequest,
    cx: &RequestContext<RoleServer>,
) -> CallProgress {
    match begin(at, job, cx).await {
        Ok(came) => came,
        Err(why) => CallProgress::Error(why),
    }
}

async fn begin(
    at: &ClientConnection,
    job: ToolCallRequest,
    cx: &RequestContext<RoleServer>,
) -> Result<CallProgress, String> {
    let gateway = &*at.gateway;
    let _counted = gateway.counted();
    let since = Instant::now();
    let who = ClientIdentity::from_request(at, cx)?;
    let key = key(gateway, &who.agent, &job);
    let ToolCallRequest { tool, arguments, reason, mut responses, mut state } = job;
    let is_quick = |asked_at| {
        Duration::from_millis(SystemClock.now().saturating_sub(asked_at)) < gateway.setup.min_decline_time
    };
    let back =
        elicit::parse_returned_state(&gateway.codec, &key, state.as_deref(), responses.as_ref(), is_quick);
    let back = back
        .transpose()
        .map_err(|error| format!("the answer cannot be used: {error}; make the call again without it"))?;
    let named = back.as_ref().map(|(back, _)| back.call);
    let found = gateway.slips.take(&key, named).map_err(|error| unkept(&error))?;
    for call in found.outdated {
        // The client did not come back in time. This call must not run, because another one takes its place.
        withdraw(gateway, call, "the gateway: the client did not come back for this call").await;
    }
    // A call that comes back with an answer has not waited unattended.
    let picked_up = found.pending.as_ref().filter(|_| back.is_none()).map(PendingCallLock::age);
    let mut asked = HashSet::new();
    let mut said = None;
    if let Some((back, reply)) = back {
        if found.pending.is_none() {
            return Err("the answer was already used; make the call again without it".into());
        }
        asked.insert(back.question);
        said = reply.map(|reply| (back.question, back.digest, reply));
        (state, responses) = (back.state, back.responses);
    }
    let call = found.pending.as_ref().map_or_else(|| CallId::new(fresh_id()), |slip| slip.call);
    let caller = Caller {
        peer: cx.peer.clone(),
        progress_token: cx.meta.get_progress_token(),
        meta: cx.meta.clone(),
        version: who.version.clone(),
        capabilities: cx.client_capabilities(),
        input_responses: responses.clone(),
        request_state: state.clone(),
    };
    let may_show = gateway.setup.elicitation
        && elicit::supports_form(caller.capabilities.as_ref())
        && !elicit::ends_at_form(&who.client);
    let may_open = gateway.setup.elicitation && elicit::supports_url(caller.capabilities.as_ref());
    let telling = ProgressReporter::new(&cx.peer, caller.progress_token.clone());
    let entered = gateway.exchange.register(call, caller);
    let held = gateway
        .setup
        .call_timeout
        .map_or_else(|| deadline::max_hold_time(&who.client), deadline::with_margin);
    let mut following = CallFlow {
        at,
        cx,
        key,
        call,
        tool,
        by: who.agent.to_string(),
        is_modern: who.is_modern(),
        may_show,
        may_open,
        page: None,
        until: since + held,
        since,
        telling,
        reports: None,
        slip: found.pending,
        asked,
        told: HashSet::new(),
        state,
        responses,
        picked_up,
    };
    following.listen();
    let standing = match following.slip {
        Some(_) => {
            if let Some((question, digest, reply)) = said {
                following.answer(question, digest, reply).await?;
            }
            following.drive(gateway.gate.resume(call)).await
        }
        None => {
            let setup = &gateway.setup;
            let call = Call {
                id: call,
                tenant: setup.tenant.clone(),
                session: who.session,
                agent: who.agent,
                tool: following.tool.clone(),
                arguments,
                reason,
                cwd: setup.cwd.clone(),
                mode: setup.mode,
                dry_run: setup.dry_run,
            };
            following.drive(gateway.gate.advance(call)).await
        }
    };
    let came = following.onward(standing).await;
    drop(entered);
    came
}

/// A call that a client waits for.
struct CallFlow<'a> {
    at: &'a ClientConnection,
    cx: &'a RequestContext<RoleServer>,
    key: Digest,
    call: CallId,
    tool: String,
    by: String,
    is_modern: bool,
    may_show: bool,
    may_open: bool,
    /// The open question whose page the client was sent to.
    page: Option<QuestionId>,
    since: Instant,
    until: Instant,
    telling: ProgressReporter,
    reports: Option<CallEvents>,
    slip: Option<PendingCallLock>,
    /// Questions that the client was already asked.
    asked: HashSet<QuestionId>,
    /// Questions that were already notified.
    told: HashSet<QuestionId>,
    state: Option<String>,
    responses: Option<InputResponses>,
    picked_up: Option<Duration>,
}

/// A question that the client shows.
struct ShownQuestion<'a> {
    question: Question,
    reply: BoxFuture<'a, Option<Reply>>,
}

/// The reason why a wait ended.
enum WakeReason {
    /// The record may have changed.
    Moved,
    /// The client has an answer, or will not have one.
    Said(Option<Reply>),
    /// The client must receive a response now.
    Late,
    /// The client is gone, or cancelled the request.
    Off,
}

impl<'a> CallFlow<'a> {
    fn gateway(&self) -> &'a GatewayInner {
        &self.at.gateway
    }

    /// Subscribes to the tool's reports, if the client wants them.
    fn listen(&mut self) {
        if self.telling.is_enabled() {
            self.reports = Some(self.gateway().gate.follow(self.call));
        }
    }

    /// Drives the call as far as possible. Stops a running call if the client cancels it.
    async fn drive(&mut self, driven: impl Future<Output = CallStatus>) -> CallStatus {
        let mut driven = pin!(driven);
        let (at, cx) = (self.at, self.cx);
        let mut off = pin!(async {
            cx.ct.cancelled().await;
            at.is_cancelled(&cx.id).await
        });
        let mut is_off = false;
        let standing = loop {
            tokio::select! {
                biased;
                standing = &mut driven => break standing,
                is_called_off = &mut off, if !is_off => {
                    is_off = true;
                    // An answered call runs to its end even if its client disconnected, because its result can be picked up.
                    if is_called_off || self.slip.is_none() {
                        withdraw(self.gateway(), self.call, &self.by).await;
                    }
                }
                report = heard(&mut self.reports) => self.telling.report_progress(report).await,
            }
        };
        // Reports from before the end are sent before the end.
        while let Some(report) = self.reports.as_mut().and_then(CallEvents::try_next) {
            self.telling.report_progress(report).await;
        }
        standing
    }

    async fn onward(mut self, mut standing: CallStatus) -> Result<CallProgress, String> {
        let mut shown: Option<ShownQuestion<'a>> = None;
        let mut tick =
            tokio::time::interval(self.gateway().setup.progress_interval.max(Duration::from_millis(10)));
        loop {
            let question = match standing {
                CallStatus::Settled(result) => {
                    self.close(None).await;
                    return self.hand_over(result).await;
                }
                CallStatus::Waiting { ref question, .. } => Some(question.clone()),
                CallStatus::Blocked { .. }
                | CallStatus::RunningElsewhere { .. }
                | CallStatus::Ready { .. } => None,
            };
            if self.slip.is_none() {
                let slip = self.gateway().slips.create(&self.key, self.call);
                match slip {
                    Ok(slip) => self.slip = Some(slip),
                    Err(error) => {
                        // A call that could not be picked up must not be left to run.
                        withdraw(self.gateway(), self.call, "the gateway").await;
                        return Err(unkept(&error));
                    }
                }
            }
            // An answer from elsewhere removes the question from the client's screen.
            shown =
                shown.filter(|shown| question.as_ref().is_some_and(|asked| asked.id == shown.question.id));
            self.close(question.as_ref()).await;
            if let Some(question) = &question {
                self.tell(question);
                if let Some(asking) = self.asking(question).await {
                    if self.is_modern {
                        return self.ask(question, asking);
                    }
                    shown = Some(self.show(question, asking));
                }
            }
            match self.wait(&standing, &mut shown, &mut tick).await {
                WakeReason::Moved => {}
                WakeReason::Said(reply) => {
                    if let (Some(reply), Some(ShownQuestion { question, .. })) = (reply, shown.take()) {
                        self.answer(question.id, question.digest(), reply).await?;
                    }
                }
                WakeReason::Late => {
                    let (call, question) = (self.call, question.map(|question| question.id));
                    self.let_go()?;
                    return Ok(CallProgress::Waiting { call, question });
                }
                WakeReason::Off => {
                    // A client that only disconnected may come back and repeat the call.
                    if self.at.is_cancelled(&self.cx.id).await {
                        withdraw(self.gateway(), self.call, &self.by).await;
                        self.slip
                            .take()
                            .map(PendingCallLock::remove)
                            .transpose()
                            .map_err(|error| unkept(&error))?;
                    }
                    return Ok(CallProgress::Gone);
                }
            }
            let gate = &self.gateway().gate;
            standing = self.drive(gate.resume(self.call)).await;
        }
    }

    /// Waits for the next event, and reports meanwhile that the call waits.
    async fn wait(
        &mut self,
        standing: &CallStatus,
        shown: &mut Option<ShownQuestion<'a>>,
        tick: &mut tokio::time::Interval,
    ) -> WakeReason {
        let (cx, until) = (self.cx, self.until.into());
        let mut said = pin!(async {
            match shown {
                Some(shown) => (&mut shown.reply).await,
                None => std::future::pending().await,
            }
        });
        // Kept across all ticks. Otherwise an answer between two waits would be missed.
        let mut moved = pin!(self.gateway().gate.wait_for_progress(standing));
        loop {
            tokio::select! {
                biased;
                () = cx.ct.cancelled() => return WakeReason::Off,
                reply = &mut said => return WakeReason::Said(reply),
                () = tokio::time::sleep_until(until) => return WakeReason::Late,
                () = &mut moved => return WakeReason::Moved,
                _ = tick.tick(), if self.telling.is_enabled() => {}
            }
            let waits = format!("waiting for an answer ({} s)", self.since.elapsed().as_secs());
            self.telling.report_waiting(waits).await;
        }
    }

    /// Hands the result over, once. The lock file is removed first.
    async fn hand_over(mut self, result: CallResult) -> Result<CallProgress, String> {
        let is_left = self.slip.is_some() && self.cx.ct.is_cancelled();
        if is_left && !self.at.is_cancelled(&self.cx.id).await {
            self.let_go()?;
            return Ok(CallProgress::Gone);
        }
        match self.slip.take().map(PendingCallLock::remove).transpose() {
            Ok(_) => {}
            // The directory was cleaned up. No other process can have found the lock file, because it was held here.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unkept(&error)),
        }
        Ok(CallProgress::Settled { result: Box::new(result), resumed_after: self.picked_up })
    }

    /// Releases the lock file, so that a repeated call finds it.
    fn let_go(&mut self) -> Result<(), String> {
        self.slip.take().map(PendingCallLock::release).transpose().map(drop).map_err(|error| unkept(&error))
    }

    /// Notifies the listener of a waiting question.
    fn tell(&mut self, question: &Question) {
        if self.told.insert(question.id)
            && let Some(told) = &self.gateway().setup.notifier
        {
            told(question, &self.tool);
        }
    }

    /// Returns how the client should ask: by the page of the question if there is one, otherwise by a form. Returns `None` if
    /// the client was asked already.
    async fn asking(&mut self, question: &Question) -> Option<ElicitRequestParams> {
        if !(self.may_show || self.may_open) || !self.asked.insert(question.id) {
            return None;
        }
        if self.may_open
            && let Some(pages) = &self.gateway().setup.pages
            && let Some(url) = pages(question.id).await
        {
            return Some(elicit::url_elicitation(question.id, &self.tool, url));
        }
        if !self.may_show {
            return None;
        }
        let sheet = self.gateway().gate.question_view(question.id).await;
        sheet.ok().and_then(|sheet| elicit::form_elicitation(&sheet))
    }

    fn show(&mut self, question: &Question, asking: ElicitRequestParams) -> ShownQuestion<'a> {
        let peer = self.cx.peer.clone();
        let min_decline_time = self.gateway().setup.min_decline_time;
        let on_page = elicit::is_page(&asking);
        if on_page {
            self.page = Some(question.id);
        }
        let reply = async move {
            let asked_at = Instant::now();
            match peer.create_elicitation(asking).await {
                // Whether the page was opened does not answer the question.
                Ok(_) if on_page => None,
                Ok(result) => elicit::parse_reply(&result, asked_at.elapsed() < min_decline_time),
                Err(error) => {
                    tracing::info!(%error, "a client could not ask the question; it stays in the inbox");
                    None
                }
            }
        };
        ShownQuestion { question: question.clone(), reply: Box::pin(reply) }
    }

    /// Notifies the client that a page that it was sent to has nothing left to ask.
    async fn close(&mut self, open: Option<&Question>) {
        let is_over = |page: &mut QuestionId| open.is_none_or(|open| open.id != *page);
        if let Some(page) = self.page.take_if(is_over)
            && let Err(error) = self.cx.peer.send_notification(elicit::completion_notification(page)).await
        {
            tracing::debug!(%error, "cannot notify a client that a page is done");
        }
    }

    fn ask(mut self, question: &Question, asking: ElicitRequestParams) -> Result<CallProgress, String> {
        let state = ElicitationState {
            call: self.call,
            question: question.id,
            digest: question.digest(),
            asked_at: SystemClock.now(),
            on_page: elicit::is_page(&asking),
            state: self.state.take(),
            responses: self.responses.take(),
        };
        let left = Duration::from_millis(question.expires_at.saturating_sub(SystemClock.now()));
        let asks = elicit::input_required(&self.gateway().codec, &self.key, &state, asking, left);
        let asks = asks.map_err(|error| format!("cannot seal the question: {error}"))?;
        self.let_go()?;
        Ok(CallProgress::InputRequired(Box::new(asks)))
    }

    /// Submits the answer that the client reports from a person.
    async fn answer(&self, question: QuestionId, digest: Digest, reply: Reply) -> Result<(), String> {
        // Not under the agent's name, because an agent cannot answer its own questions.
        let by = ApproverIdentity {
            name: format!("{} (elicitation)", self.by),
            assurance: Assurance::ClientAttested,
        };
        match self.gateway().gate.answer(SubmittedAnswer { question, digest, reply, approver: by }).await {
            // Another answer came first, and is valid.
            Ok(_) | Err(AnswerError::QuestionClosed) => Ok(()),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// Returns the next report of the tool, if the client wants reports.
async fn heard(reports: &mut Option<CallEvents>) -> Progress {
    if let Some(following) = reports
        && let Some(report) = following.next().await
    {
        return report;
    }
    std::future::pending().await
}

/// Cancels a call, and with it the question that it waits for.
async fn withdraw(gateway: &GatewayInner, call: CallId, by: &str) {
    if let Err(fault) = gateway.gate.cancel(call, by).await {
        tracing::warn!(%call, %fault, "cannot cancel a call");
    }
}

/// Returns the key that identifies a repeated call: its tenant, agent, directory, tool and arguments. A dry run must never find a call that
/// waits to run, so its keys are others.
fn key(gateway: &GatewayInner, agent: &AgentId, job: &ToolCallRequest) -> Digest {
    let setup = &gateway.setup;
    let arguments = canonical_json(&job.arguments);
    let parts: [&[u8]; 5] = [
        setup.tenant.as_str().as_bytes(),
        agent.as_str().as_bytes(),
        setup.cwd.as_bytes(),
        job.tool.as_bytes(),
        arguments.as_bytes(),
    ];
    let domain = if setup.dry_run { "byleave.same-call.dry-run" } else { "byleave.same-call" };
    Digest::compute_parts(domain, &parts)
}

fn unkept(error: &io::Error) -> String {
    format!("cannot store the waiting calls: {error}; check the state directory with `byleave doctor`")
}

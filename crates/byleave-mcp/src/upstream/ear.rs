//! What a server says of its own accord: progress and log lines go to whoever made the call, questions too, marked as the server's.
//!
//! Nothing that a server says here is an approval of anything.

#![expect(
    deprecated,
    reason = "roots, sampling and logging are, and the installed base of servers uses them"
)]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use byleave::core::id::{CallId, SessionId};
use byleave::tool::Run;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability,
    Implementation, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProgressToken, ResourceUpdatedNotificationParam, Root, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::{broadcast, watch};

use super::News;
use super::definition::Definition;
use crate::exchange::{Caller, Exchange};

/// How many reports of progress are kept until it is known whose they are.
const EARLY_MAX: usize = 64;

/// The calls that a server is at work for.
#[derive(Default)]
pub(super) struct UnderWay {
    state: Mutex<State>,
    /// How much of what the server said is still being passed on.
    passing: watch::Sender<usize>,
}

/// How long a result waits for what was said before it.
const PASSING: Duration = Duration::from_millis(100);
/// How long it waits at the least where the server spoke while it was at work: what was read before a result may be looked at after it.
const SPOKE: Duration = Duration::from_millis(3);

#[derive(Default)]
struct State {
    calls: HashMap<CallId, Working>,
    /// What the server knows calls by, once that is known here.
    tokens: HashMap<ProgressToken, CallId>,
    /// Reports that came before the token was known here.
    early: VecDeque<ProgressNotificationParam>,
}

#[derive(Clone)]
struct Working {
    call: CallId,
    session: SessionId,
    run: Run,
    /// The server said something for people while it was at work for it.
    spoke: bool,
}

/// What is known where a server is heard.
pub(super) struct Around {
    pub(super) definition: Definition,
    pub(super) exchange: Exchange,
    pub(super) under_way: UnderWay,
    pub(super) roots: Vec<String>,
    pub(super) news: broadcast::Sender<(String, News)>,
}

/// Hears one server.
#[derive(Clone)]
pub(super) struct Ear {
    around: Weak<Around>,
}

impl UnderWay {
    /// A call goes to the server, and is there until what is returned is dropped. To be entered before it is sent: a server may be
    /// quicker with a question than we are with looking up what its call is known by.
    pub(super) fn enter(&self, run: &Run) -> Here<'_> {
        let (call, session) = (run.call, run.site.session.clone());
        let working = Working { call, session, run: run.clone(), spoke: false };
        self.state().calls.insert(call, working);
        Here { under_way: self, call, token: None }
    }

    fn hear(&self, report: ProgressNotificationParam) {
        let mut state = self.state();
        let call = state.tokens.get(&report.progress_token).copied();
        match call.and_then(|call| state.calls.get(&call).cloned()) {
            Some(working) => {
                drop(state);
                working.hear(&report);
            }
            None => {
                if state.early.len() >= EARLY_MAX {
                    state.early.pop_front();
                }
                state.early.push_back(report);
            }
        }
    }

    /// The calls at work, if they are all of one session: else nobody can say whom the server means.
    fn of_one_session(&self) -> Option<CallId> {
        let state = self.state();
        let mut calls = state.calls.values();
        let first = calls.next()?;
        calls.all(|other| other.session == first.session).then_some(first.call)
    }

    /// The server speaks, and any of the calls may be why; the first of them.
    fn spoken(&self) -> Option<CallId> {
        let mut state = self.state();
        state.calls.values_mut().for_each(|working| working.spoke = true);
        state.calls.keys().min().copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is at the server.
pub(super) struct Here<'a> {
    under_way: &'a UnderWay,
    call: CallId,
    token: Option<ProgressToken>,
}

impl Here<'_> {
    /// What the server knows it by; what it reported so far is heard now.
    pub(super) fn known_as(&mut self, token: ProgressToken) {
        let mut state = self.under_way.state();
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            state.early.drain(..).partition(|report| report.progress_token == token);
        state.early = others;
        state.tokens.insert(token.clone(), self.call);
        let working = state.calls.get(&self.call).cloned();
        drop(state);
        self.token = Some(token);
        if let Some(working) = working {
            mine.iter().for_each(|report| working.hear(report));
        }
    }

    /// Waits until what a server said before its result is passed on: it is heard beside the result, and must not come after it.
    pub(super) async fn said_before(&self) {
        tokio::task::yield_now().await;
        if self.under_way.state().calls.get(&self.call).is_some_and(|working| working.spoke) {
            tokio::time::sleep(SPOKE).await;
        }
        let mut passing = self.under_way.passing.subscribe();
        let passed = passing.wait_for(|count| *count == 0);
        if tokio::time::timeout(PASSING, passed).await.is_err() {
            tracing::debug!("a result was not kept waiting for what was said before it");
        }
    }
}

impl Drop for Here<'_> {
    fn drop(&mut self) {
        let mut state = self.under_way.state();
        state.calls.remove(&self.call);
        if let Some(token) = self.token.take() {
            state.tokens.remove(&token);
        }
    }
}

impl Working {
    fn hear(&self, report: &ProgressNotificationParam) {
        let fraction = report.total.filter(|total| *total > 0.0).map(|total| report.progress / total);
        let detail = report.message.clone().unwrap_or_else(|| match report.total {
            Some(total) => format!("{} of {total}", report.progress),
            None => report.progress.to_string(),
        });
        self.run.progress(fraction, detail);
    }
}

impl Ear {
    pub(super) fn new(around: Weak<Around>) -> Self {
        Self { around }
    }

    fn around(&self) -> Result<Arc<Around>, ErrorData> {
        self.around.upgrade().ok_or_else(|| ErrorData::internal_error("nobody is there any more", None))
    }

    /// Who made the call that a question of the server is about.
    fn asked(&self) -> Result<(Arc<Around>, Arc<Caller>), ErrorData> {
        let around = self.around()?;
        let call = around.under_way.of_one_session();
        let caller = call.and_then(|call| around.exchange.caller(call));
        let nobody = || {
            ErrorData::invalid_request(
                "nobody can be asked: no call, or calls of several, are under way",
                None,
            )
        };
        Ok((Arc::clone(&around), caller.ok_or_else(nobody)?))
    }

    fn tell(&self, news: News) {
        if let Ok(around) = self.around() {
            // Nobody need be listening.
            drop(around.news.send((around.definition.name.to_string(), news)));
        }
    }
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let mut can = ClientCapabilities::default();
        let form = FormElicitationCapability::default();
        can.elicitation =
            Some(ElicitationCapability::new().with_form(form).with_url(UrlElicitationCapability::default()));
        can.roots = Some(Default::default());
        if self.around().is_ok_and(|around| around.definition.sampling) {
            can.sampling = Some(Default::default());
        }
        ClientConfig::new(can, Implementation::new("byleave", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        mut params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Ok((around, caller)) = self.asked() else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        mark(&mut params, around.definition.name.as_str());
        let can = caller.capabilities.as_ref().is_some_and(|can| can.elicitation.is_some());
        if !can {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        let asked = caller.peer.create_elicitation(params).await;
        asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let (around, caller) = self.asked()?;
        if !around.definition.sampling {
            let why =
                "the person did not allow this server to use the agent's model (`sampling` in mcp.toml)";
            return Err(ErrorData::invalid_request(why, None));
        }
        let said = caller.peer.create_message(params).await;
        said.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let around = self.around()?;
        let mut roots = ListRootsResult::default();
        roots.roots = around.roots.iter().map(|path| Root::new(format!("file://{path}"))).collect();
        Ok(roots)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Ok(around) = self.around() {
            around.under_way.hear(params);
        }
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let Ok(around) = self.around() else { return };
        // One that several calls could have caused goes to the first of them; it is for people who look for errors.
        around.under_way.passing.send_modify(|count| *count += 1);
        let caller = around.under_way.spoken().and_then(|call| around.exchange.caller(call));
        if let Some(caller) = caller
            && let Err(error) = caller.peer.notify_logging_message(params).await
        {
            tracing::debug!(%error, "a log line of a server could not be passed on");
        }
        around.under_way.passing.send_modify(|count| *count = count.saturating_sub(1));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.tell(News::Resource { uri: params.uri });
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(News::Resources);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(News::Tools);
    }

    async fn on_prompt_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.tell(News::Prompts);
    }
}

/// What a server asks is never taken for a question of ours, or of another server.
pub(super) fn mark(params: &mut ElicitRequestParams, server: &str) {
    let marked =
        |message: &mut String| *message = format!("[the MCP server `{server}` asks, not byleave] {message}");
    match params {
        ElicitRequestParams::FormElicitationParams { message, .. } => marked(message),
        ElicitRequestParams::UrlElicitationParams { message, .. } => marked(message),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use byleave::clock::fresh_id;
    use byleave::core::effect::Plan;
    use byleave::tool::Site;
    use rmcp::model::NumberOrString;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn run(session: &str) -> Run {
        let site = Site {
            tenant: "t".parse().unwrap(),
            session: session.parse().unwrap(),
            agent: "a".parse().unwrap(),
            cwd: "/".into(),
        };
        let stop = CancellationToken::new();
        Run::new(CallId::new(fresh_id()), site, Arc::new(Plan::default()), stop, Arc::new(|_| {}))
    }

    // req: M1
    #[test]
    fn a_call_is_known_before_its_server_can_ask_about_it() {
        let under_way = UnderWay::default();
        assert!(under_way.of_one_session().is_none());
        let (one, other) = (run("one"), run("other"));
        let mut here = under_way.enter(&one);
        assert_eq!(under_way.of_one_session(), Some(one.call), "before anything was sent");
        here.known_as(ProgressToken(NumberOrString::Number(1)));
        let there = under_way.enter(&other);
        assert!(under_way.of_one_session().is_none(), "nobody can say whom the server means");
        drop(there);
        assert_eq!(under_way.of_one_session(), Some(one.call));
        drop(here);
        assert!(under_way.of_one_session().is_none());
        assert!(under_way.state().tokens.is_empty());
    }
}

//! The calls that a server works on. They show which call a progress report or a question of the server belongs to.
//!
//! A server names calls by tokens that are known here only after the request was sent. Earlier reports are kept until then.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use byleave_gate::core::id::{CallId, SessionId};
use byleave_gate::tool::RunContext;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::watch;

/// The maximum number of progress reports that are kept until their call is known.
const EARLY_MAX: usize = 64;

/// How long a result waits for messages that were sent before it.
const PASSING: Duration = Duration::from_millis(100);
/// The minimum wait if the server sent messages during the call. A message that was read before a result may be handled after
/// it.
const SPOKE: Duration = Duration::from_millis(3);

/// The calls that a server works on.
#[derive(Default)]
pub(super) struct ActiveCalls {
    state: Mutex<ActiveCallsState>,
    /// The number of messages that are still being passed on.
    pub(super) forwarding: watch::Sender<usize>,
}

#[derive(Default)]
struct ActiveCallsState {
    calls: HashMap<CallId, RunningCall>,
    /// The tokens under which the server knows the calls, once they are known here.
    tokens: HashMap<ProgressToken, CallId>,
    /// Reports that came before their token was known here.
    early: VecDeque<ProgressNotificationParam>,
}

#[derive(Clone)]
struct RunningCall {
    call: CallId,
    session: SessionId,
    run: RunContext,
    /// Whether the server sent a message for people during this call.
    spoke: bool,
}

impl ActiveCalls {
    /// Registers a call until the returned guard is dropped. Must be called before the request is sent, because the server
    /// may ask a question before the token is known here.
    pub(super) fn register(&self, run: &RunContext) -> ServerCallGuard<'_> {
        let (call, session) = (run.call, run.context.session.clone());
        let working = RunningCall { call, session, run: run.clone(), spoke: false };
        self.state().calls.insert(call, working);
        ServerCallGuard { under_way: self, call, token: None }
    }

    /// Passes a report on to its call, or keeps it if the call is not known yet.
    pub(super) fn report_progress(&self, report: ProgressNotificationParam) {
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

    /// Returns an active call, if all active calls belong to one session. Otherwise the server's message is ambiguous.
    pub(super) fn single_session_call(&self) -> Option<CallId> {
        let state = self.state();
        let mut calls = state.calls.values();
        let first = calls.next()?;
        calls.all(|other| other.session == first.session).then_some(first.call)
    }

    /// Notes that the server sent a message that any of the calls may have caused. Returns the first of them.
    pub(super) fn note_activity(&self) -> Option<CallId> {
        let mut state = self.state();
        state.calls.values_mut().for_each(|working| working.spoke = true);
        state.calls.keys().min().copied()
    }

    fn state(&self) -> MutexGuard<'_, ActiveCallsState> {
        self.state.lock()
    }
}

/// A call that the server works on.
pub(super) struct ServerCallGuard<'a> {
    under_way: &'a ActiveCalls,
    call: CallId,
    token: Option<ProgressToken>,
}

impl ServerCallGuard<'_> {
    /// Sets the token under which the server knows the call, and delivers the reports received so far.
    pub(super) fn set_progress_token(&mut self, token: ProgressToken) {
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

    /// Waits until messages from before the result are passed on. They take another path and must not arrive after it.
    pub(super) async fn wait_for_forwarded(&self) {
        tokio::task::yield_now().await;
        if self.under_way.state().calls.get(&self.call).is_some_and(|working| working.spoke) {
            tokio::time::sleep(SPOKE).await;
        }
        let mut passing = self.under_way.forwarding.subscribe();
        let passed = passing.wait_for(|count| *count == 0);
        if tokio::time::timeout(PASSING, passed).await.is_err() {
            tracing::debug!("a result is passed on before some earlier notifications");
        }
    }
}

impl Drop for ServerCallGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.under_way.state();
        state.calls.remove(&self.call);
        if let Some(token) = self.token.take() {
            state.tokens.remove(&token);
        }
    }
}

impl RunningCall {
    fn hear(&self, report: &ProgressNotificationParam) {
        let fraction = report.total.filter(|total| *total > 0.0).map(|total| report.progress / total);
        let detail = report.message.clone().unwrap_or_else(|| match report.total {
            Some(total) => format!("{} of {total}", report.progress),
            None => report.progress.to_string(),
        });
        self.run.report_progress(fraction, detail);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use byleave_gate::clock::fresh_id;
    use byleave_gate::core::effect::Plan;
    use byleave_gate::tool::ToolContext;
    use rmcp::model::NumberOrString;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn run(session: &str) -> RunContext {
        let site = ToolContext {
            tenant: "t".parse().unwrap(),
            session: session.parse().unwrap(),
            agent: "a".parse().unwrap(),
            cwd: "/".into(),
        };
        let stop = CancellationToken::new();
        RunContext::new(CallId::new(fresh_id()), site, Arc::new(Plan::default()), stop, Arc::new(|_| {}))
    }

    // req: M1
    #[test]
    fn a_call_is_known_before_its_server_can_ask_about_it() {
        let under_way = ActiveCalls::default();
        assert!(under_way.single_session_call().is_none());
        let (one, other) = (run("one"), run("other"));
        let mut here = under_way.register(&one);
        assert_eq!(under_way.single_session_call(), Some(one.call), "before anything was sent");
        here.set_progress_token(ProgressToken(NumberOrString::Number(1)));
        let there = under_way.register(&other);
        assert!(under_way.single_session_call().is_none(), "it is ambiguous which call the server means");
        drop(there);
        assert_eq!(under_way.single_session_call(), Some(one.call));
        drop(here);
        assert!(under_way.single_session_call().is_none());
        assert!(under_way.state().tokens.is_empty());
    }
}

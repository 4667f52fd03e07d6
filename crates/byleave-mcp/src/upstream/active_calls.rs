//! The calls that a server is at work for: whose a report of its progress is, and which call a question of it could be about.
//!
//! A server names calls by tokens that are known here only once they were sent. So what it reports earlier is kept until then.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byleave::core::id::{CallId, SessionId};
use byleave::tool::RunContext;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::watch;

/// How many reports of progress are kept until it is known whose they are.
const EARLY_MAX: usize = 64;

/// How long a result waits for what was said before it.
const PASSING: Duration = Duration::from_millis(100);
/// How long it waits at the least where the server spoke while it was at work: what was read before a result may be looked at after it.
const SPOKE: Duration = Duration::from_millis(3);

/// The calls that a server is at work for.
#[derive(Default)]
pub(super) struct ActiveCalls {
    state: Mutex<ActiveCallsState>,
    /// How much of what the server said is still being passed on.
    pub(super) passing: watch::Sender<usize>,
}

#[derive(Default)]
struct ActiveCallsState {
    calls: HashMap<CallId, RunningCall>,
    /// What the server knows calls by, once that is known here.
    tokens: HashMap<ProgressToken, CallId>,
    /// Reports that came before the token was known here.
    early: VecDeque<ProgressNotificationParam>,
}

#[derive(Clone)]
struct RunningCall {
    call: CallId,
    session: SessionId,
    run: RunContext,
    /// The server said something for people while it was at work for it.
    spoke: bool,
}

impl ActiveCalls {
    /// A call goes to the server, and is there until what is returned is dropped. To be entered before it is sent: a server may be
    /// quicker with a question than we are with looking up what its call is known by.
    pub(super) fn enter(&self, run: &RunContext) -> ServerCallGuard<'_> {
        let (call, session) = (run.call, run.site.session.clone());
        let working = RunningCall { call, session, run: run.clone(), spoke: false };
        self.state().calls.insert(call, working);
        ServerCallGuard { under_way: self, call, token: None }
    }

    /// Passes a report on to its call; keeps it, where it is not known yet whose it is.
    pub(super) fn hear(&self, report: ProgressNotificationParam) {
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

    /// A call at work, if all of them are of one session: else nobody can say whom the server means.
    pub(super) fn of_one_session(&self) -> Option<CallId> {
        let state = self.state();
        let mut calls = state.calls.values();
        let first = calls.next()?;
        calls.all(|other| other.session == first.session).then_some(first.call)
    }

    /// The server speaks, and any of the calls may be why; the first of them.
    pub(super) fn spoken(&self) -> Option<CallId> {
        let mut state = self.state();
        state.calls.values_mut().for_each(|working| working.spoke = true);
        state.calls.keys().min().copied()
    }

    fn state(&self) -> MutexGuard<'_, ActiveCallsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is at the server.
pub(super) struct ServerCallGuard<'a> {
    under_way: &'a ActiveCalls,
    call: CallId,
    token: Option<ProgressToken>,
}

impl ServerCallGuard<'_> {
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
        self.run.progress(fraction, detail);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use byleave::clock::fresh_id;
    use byleave::core::effect::Plan;
    use byleave::tool::ToolContext;
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

//! The traces that clients brought: what their calls are beneath.
//!
//! Kept in memory until the call is told of: a retry comes with another span of the client's, so it is no part of the call, and the
//! record has no room for it. A call that outlives the server, or ten thousand others, has a trace of its own.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use axum::http::HeaderMap;
use byleave::core::id::CallId;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;

const KEPT_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Parents(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of: HashMap<CallId, SpanContext>,
    /// The oldest first. One that was taken may still stand here.
    order: VecDeque<CallId>,
}

impl Parents {
    /// Keeps what a request says that it is part of. The first that brought a call counts.
    pub(crate) fn keep(&self, call: CallId, headers: &HeaderMap) {
        let said = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        let parent = said.span().span_context().clone();
        if !parent.is_valid() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.of.contains_key(&call) {
            return;
        }
        if kept.order.len() >= KEPT_MAX
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.of.remove(&oldest);
        }
        kept.of.insert(call, parent);
        kept.order.push_back(call);
    }

    pub(crate) fn take(&self, call: CallId) -> Option<SpanContext> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of.remove(&call)
    }
}

#[cfg(test)]
mod tests {
    use byleave::clock::fresh_id;

    use super::*;

    fn headers(span: &str) -> HeaderMap {
        let said = format!("00-0af7651916cd43dd8448eb211c80319c-{span}-00");
        HeaderMap::from_iter([("traceparent".parse().unwrap(), said.parse().unwrap())])
    }

    #[test]
    fn the_first_that_brought_a_call_counts_and_what_is_kept_is_bounded() {
        let parents = Parents::default();
        let first = CallId::new(fresh_id());
        parents.keep(first, &headers("00f067aa0ba902b7"));
        parents.keep(first, &headers("1111111111111111"));
        let parent = parents.take(first).unwrap();
        assert_eq!(parent.span_id().to_string(), "00f067aa0ba902b7");
        assert!(parents.take(first).is_none());
        parents.keep(first, &headers("not a span"));
        parents.keep(first, &HeaderMap::new());
        assert!(parents.take(first).is_none());
        let calls: Vec<CallId> = (0..=KEPT_MAX).map(|_| CallId::new(fresh_id())).collect();
        calls.iter().for_each(|call| parents.keep(*call, &headers("00f067aa0ba902b7")));
        assert!(parents.0.lock().unwrap().order.len() <= KEPT_MAX);
        assert!(parents.take(calls[KEPT_MAX]).is_some());
    }
}

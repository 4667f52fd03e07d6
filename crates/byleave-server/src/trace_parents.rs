//! The traces that clients brought: the parent spans of their calls.
//!
//! They are kept in memory until the call is exported. They are not recorded, because a retry comes with another span and is
//! not part of the call. A call that outlives the server, or that ten thousand others follow, has a trace of its own.

use std::collections::{HashMap, VecDeque};

use axum::http::HeaderMap;
use byleave_gate::core::id::CallId;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{SpanId, TraceId};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use parking_lot::Mutex;

const KEPT_MAX: usize = 10_000;

/// A client's span that contains a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
}

#[derive(Debug, Default)]
pub(crate) struct TraceParents(Mutex<TraceParentMap>);

#[derive(Debug, Default)]
struct TraceParentMap {
    of: HashMap<CallId, TraceParent>,
    /// Oldest first. It may still contain calls that were taken, for a while.
    order: VecDeque<CallId>,
}

impl TraceParents {
    /// Stores the parent span of a request, and nothing else of its trace. The first request of a call is used.
    pub(crate) fn insert(&self, call: CallId, headers: &HeaderMap) {
        let said = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        let span = said.span();
        let said = span.span_context();
        if !said.is_valid() {
            return;
        }
        let parent = TraceParent { trace: said.trace_id(), span: said.span_id() };
        let mut kept = self.0.lock();
        let TraceParentMap { of, order } = &mut *kept;
        if of.contains_key(&call) {
            return;
        }
        // Exported calls are removed first, so that they do not displace a call that waits.
        if order.len() >= 2 * KEPT_MAX {
            order.retain(|call| of.contains_key(call));
        }
        while of.len() >= KEPT_MAX
            && let Some(oldest) = order.pop_front()
        {
            of.remove(&oldest);
        }
        of.insert(call, parent);
        order.push_back(call);
    }

    pub(crate) fn remove(&self, call: CallId) -> Option<TraceParent> {
        self.0.lock().of.remove(&call)
    }
}

#[cfg(test)]
mod tests {
    use byleave_gate::clock::fresh_id;

    use super::*;

    fn headers(span: &str) -> HeaderMap {
        let said = format!("00-0af7651916cd43dd8448eb211c80319c-{span}-00");
        HeaderMap::from_iter([("traceparent".parse().unwrap(), said.parse().unwrap())])
    }

    #[test]
    fn the_first_that_brought_a_call_counts_and_what_is_kept_is_bounded() {
        let parents = TraceParents::default();
        let first = CallId::new(fresh_id());
        parents.insert(first, &headers("00f067aa0ba902b7"));
        parents.insert(first, &headers("1111111111111111"));
        let parent = parents.remove(first).unwrap();
        assert_eq!(parent.span.to_string(), "00f067aa0ba902b7");
        assert!(parents.remove(first).is_none());
        parents.insert(first, &headers("not a span"));
        parents.insert(first, &HeaderMap::new());
        assert!(parents.remove(first).is_none());
        let calls: Vec<CallId> = (0..=KEPT_MAX).map(|_| CallId::new(fresh_id())).collect();
        let keep = |call: &CallId| parents.insert(*call, &headers("00f067aa0ba902b7"));
        calls.iter().for_each(keep);
        assert_eq!(parents.0.lock().of.len(), KEPT_MAX);
        assert!(parents.remove(calls[KEPT_MAX]).is_some() && parents.remove(calls[0]).is_none());
        // Calls that come and go displace no call that stays.
        for _ in 0..3 * KEPT_MAX {
            let passing = CallId::new(fresh_id());
            keep(&passing);
            parents.remove(passing).unwrap();
        }
        assert!(parents.remove(calls[1]).is_some());
        assert!(parents.0.lock().order.len() <= 2 * KEPT_MAX);
    }
}

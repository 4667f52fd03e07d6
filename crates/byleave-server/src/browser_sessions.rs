//! Browser sessions: the signed-in people, when their sessions end, and the questions that they were shown.
//!
//! A session is kept in memory, under the digest of its cookie. It has the digest of its token, or of the sign-in entry in
//! the token list. If a token is removed or expires, its sessions end immediately. All sessions end with the server.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_gate::core::call::Millis;
use byleave_gate::core::digest::Digest;
use byleave_gate::core::id::{CallId, QuestionId};
use parking_lot::Mutex;

use crate::secure_random;

/// How long a session lasts.
pub(crate) const LIFETIME_MS: Millis = 12 * 3_600 * 1_000;
const VISITS_MAX: usize = 10_000;
/// The number of shown questions that a session remembers. A person who was shown more must look again.
const SHOWN_MAX: usize = 1_000;

/// How long a ticket is valid: the time to follow a redirect.
const TICKET: Duration = Duration::from_secs(60);
const TICKETS_MAX: usize = 1_000;

/// All sessions.
#[derive(Default)]
pub(crate) struct BrowserSessions {
    open: Mutex<HashMap<Digest, Arc<BrowserSession>>>,
    tickets: Mutex<HashMap<Digest, SignInTicket>>,
}

/// A person who has signed in under one host and is redirected to another.
pub(crate) struct SignInTicket {
    /// The digest of the token, or of the sign-in entry in the token list.
    pub(crate) token: Digest,
    /// The page that they requested.
    pub(crate) next: String,
    made: Instant,
}

/// The session of a person with a browser.
pub(crate) struct BrowserSession {
    /// The digest of the token that it began with, or of the sign-in entry in the token list.
    pub(crate) token: Digest,
    /// The CSRF token in every form of the session. Pages of others do not know it.
    pub(crate) csrf_token: String,
    until: Millis,
    shown: Mutex<HashMap<QuestionId, (Digest, Instant)>>,
    said: Mutex<Option<PageNotice>>,
}

/// A message for the next page.
pub(crate) struct PageNotice {
    pub(crate) text: String,
    /// The call that it refers to.
    pub(crate) call: Option<CallId>,
}

impl BrowserSessions {
    /// Begins a session. Returns the value of its cookie.
    pub(crate) fn start(&self, token: Digest, now: Millis) -> io::Result<String> {
        let (secret, mark) = (secure_random::hex::<32>()?, secure_random::hex::<32>()?);
        let visit = BrowserSession {
            token,
            csrf_token: mark,
            until: now.saturating_add(LIFETIME_MS),
            shown: Mutex::default(),
            said: Mutex::default(),
        };
        let mut open = self.open.lock();
        if open.len() >= VISITS_MAX {
            open.retain(|_, visit| now < visit.until);
        }
        if open.len() >= VISITS_MAX {
            return Err(io::Error::other("too many sessions are open"));
        }
        open.insert(Digest::compute(secret.as_bytes()), Arc::new(visit));
        Ok(secret)
    }

    /// Returns the session of a cookie.
    pub(crate) fn find(&self, secret: &str, now: Millis) -> Option<Arc<BrowserSession>> {
        let open = self.open.lock();
        open.get(&Digest::compute(secret.as_bytes())).filter(|visit| now < visit.until).cloned()
    }

    /// Ends a session.
    pub(crate) fn end(&self, secret: &str) {
        self.open.lock().remove(&Digest::compute(secret.as_bytes()));
    }

    /// Creates a ticket that is valid once.
    pub(crate) fn issue_ticket(&self, token: Digest, next: String) -> io::Result<String> {
        let secret = secure_random::hex::<32>()?;
        let mut tickets = self.tickets.lock();
        tickets.retain(|_, ticket| ticket.made.elapsed() < TICKET);
        if tickets.len() >= TICKETS_MAX {
            return Err(io::Error::other("too many sign-ins are in progress"));
        }
        tickets
            .insert(Digest::compute(secret.as_bytes()), SignInTicket { token, next, made: Instant::now() });
        Ok(secret)
    }

    /// Redeems a ticket.
    pub(crate) fn take_ticket(&self, secret: &str) -> Option<SignInTicket> {
        let mut tickets = self.tickets.lock();
        tickets.remove(&Digest::compute(secret.as_bytes())).filter(|ticket| ticket.made.elapsed() < TICKET)
    }
}

impl BrowserSession {
    /// Notes that a question was shown completely, in the version of this digest.
    pub(crate) fn mark_shown(&self, question: QuestionId, digest: Digest) {
        let mut shown = self.shown.lock();
        if shown.len() >= SHOWN_MAX {
            shown.clear();
        }
        let known = shown.get(&question).is_some_and(|(then, _)| *then == digest);
        if !known {
            shown.insert(question, (digest, Instant::now()));
        }
    }

    /// Returns how long ago a question was first shown in the version of this digest.
    pub(crate) fn time_since_shown(&self, question: QuestionId, digest: Digest) -> Option<Duration> {
        let shown = self.shown.lock();
        let (then, at) = shown.get(&question)?;
        (*then == digest).then(|| at.elapsed())
    }

    /// Sets a message for the next page.
    pub(crate) fn set_notice(&self, notice: PageNotice) {
        *self.said.lock() = Some(notice);
    }

    /// Takes the message, so that it is shown once.
    pub(crate) fn take_notice(&self) -> Option<PageNotice> {
        self.said.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_is_found_by_its_secret_until_it_ends() {
        let visits = BrowserSessions::default();
        let secret = visits.start(Digest::compute(b"token"), 1_000).unwrap();
        assert!(visits.find(&secret, 1_000 + LIFETIME_MS - 1).is_some());
        assert!(visits.find(&secret, 1_000 + LIFETIME_MS).is_none(), "over");
        assert!(visits.find(&secret.to_uppercase(), 2_000).is_none() && visits.find("", 2_000).is_none());
        visits.end(&secret);
        assert!(visits.find(&secret, 2_000).is_none(), "ended");
    }

    #[test]
    fn a_ticket_counts_once() {
        let visits = BrowserSessions::default();
        let ticket = visits.issue_ticket(Digest::compute(b"token"), "/x".into()).unwrap();
        assert!(visits.take_ticket("made up").is_none());
        assert_eq!(visits.take_ticket(&ticket).unwrap().next, "/x");
        assert!(visits.take_ticket(&ticket).is_none(), "it was used");
    }

    #[test]
    fn a_question_was_seen_only_as_it_was_shown() {
        let visits = BrowserSessions::default();
        let secret = visits.start(Digest::compute(b"token"), 0).unwrap();
        let visit = visits.find(&secret, 1).unwrap();
        let question = QuestionId::new(byleave_gate::clock::fresh_id());
        assert!(visit.time_since_shown(question, Digest::compute(b"a")).is_none());
        visit.mark_shown(question, Digest::compute(b"a"));
        assert!(visit.time_since_shown(question, Digest::compute(b"a")).is_some());
        assert!(visit.time_since_shown(question, Digest::compute(b"b")).is_none());
    }
}

//! Keys: how things are called in the engine. Several ledgers may share one engine, so each key begins with the ledger's name.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use byleave_core::digest::Digest;
use byleave_core::id::{CallId, QuestionId, SessionId, StandingApprovalId, TenantId};
use uuid::Uuid;

/// Over how many objects the unsettled calls of a ledger are spread, and the sessions of a tenant.
pub(crate) const SHARDS: u8 = 4;

/// Over how many lanes what is owed to the book of a ledger is spread.
pub(crate) const LANES: u8 = 4;

/// What the names begin with under which acts lie in the state of their tenant.
pub(crate) const ACTS: &str = "a";

/// A UUID in 22 characters: it is part of many keys.
pub(crate) fn short(id: &Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

/// Reads [`short`] back.
pub(crate) fn unshort(text: &str) -> Option<Uuid> {
    Uuid::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
}

pub(crate) fn call(ledger: &str, call: CallId) -> String {
    join(&[ledger, &short(&call.uuid())])
}

/// Reads [`call`] back.
pub(crate) fn of_call(key: &str) -> Option<(String, CallId)> {
    let (_, call) = key.split_once('/')?;
    Some((ledger_of(key)?, CallId::new(unshort(call)?)))
}

/// The ledger that a key begins with.
pub(crate) fn ledger_of(key: &str) -> Option<String> {
    let (ledger, _) = key.split_once('/')?;
    Some(ledger.replace("%2F", "/").replace("%25", "%"))
}

/// What the keys of a ledger begin with.
pub(crate) fn prefix(ledger: &str) -> String {
    join(&[ledger, ""])
}

pub(crate) fn question(ledger: &str, question: QuestionId) -> String {
    join(&[ledger, &short(&question.uuid())])
}

pub(crate) fn tenant(ledger: &str, tenant: &TenantId) -> String {
    join(&[ledger, tenant.as_str()])
}

pub(crate) fn session(ledger: &str, tenant: &TenantId, session: &SessionId) -> String {
    join(&[ledger, tenant.as_str(), session.as_str()])
}

/// The part of a tenant's sessions that one belongs to, as far as those are concerned who hold others up.
pub(crate) fn holds(ledger: &str, tenant: &TenantId, session: &SessionId) -> String {
    let [first, ..] = *Digest::compute(session.as_str().as_bytes()).as_bytes();
    join(&[ledger, tenant.as_str(), &(first % SHARDS).to_string()])
}

pub(crate) fn leave(ledger: &str, tenant: &TenantId, leave: StandingApprovalId) -> String {
    join(&[ledger, tenant.as_str(), &short(&leave.uuid())])
}

pub(crate) fn leaves(ledger: &str, tenant: &TenantId, tool: &str) -> String {
    join(&[ledger, tenant.as_str(), tool])
}

pub(crate) fn shard(ledger: &str, shard: u8) -> String {
    join(&[ledger, &shard.to_string()])
}

/// The shard that a call is listed in.
pub(crate) fn shard_of(ledger: &str, call: CallId) -> String {
    // The last byte is random in every kind of id that is not made by hand.
    let [.., last] = call.as_bytes();
    shard(ledger, last % SHARDS)
}

pub(crate) fn lane(ledger: &str, lane: u8) -> String {
    join(&[ledger, &lane.to_string()])
}

/// The lane that a call, or an act, takes into the book.
pub(crate) fn lane_of(ledger: &str, id: &Uuid) -> String {
    // Not the byte alone that the shard goes by: shards and lanes should not fill and empty together.
    let [.., before, last] = id.as_bytes();
    lane(ledger, (before ^ last) % LANES)
}

/// No two lists of parts give the same key.
fn join(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| part.replace('%', "%25").replace('/', "%2F")).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_things_share_a_key() {
        assert_ne!(join(&["a/b", "c"]), join(&["a", "b/c"]));
        assert_ne!(join(&["a%2Fb"]), join(&["a/b"]));
        let id = Uuid::from_u128(7);
        assert_eq!(unshort(&short(&id)), Some(id));
        assert_eq!(unshort("nonsense"), None);
        for ledger in ["a", "a/b", "%2F", "%", ""] {
            assert_eq!(of_call(&call(ledger, CallId::new(id))), Some((ledger.to_owned(), CallId::new(id))));
        }
    }
}

//! Looking after the book of a ledger: how far it is behind, and having it sent what it may have lost.

use byleave_core::call::Millis;
use byleave_gate::ledger::LedgerError;
use futures::future::try_join_all;

use crate::engine::Engine;
use crate::keys;
use crate::packing::RECORD;
use crate::wire::Behind;

/// How far the book of a ledger is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BookLag {
    /// So many calls and acts have something that the book has not acknowledged.
    pub waiting: u64,
    /// For how long the oldest of that has been there.
    pub oldest_ms: u64,
    /// What the book has refused, because it is not what is there, and why. It stays in the engine, and someone must look.
    pub refused: Vec<String>,
}

/// How far the book of a ledger is behind what was written by now.
pub(crate) async fn lag(engine: &Engine, ledger: &str, now: Millis) -> Result<BookLag, LedgerError> {
    let lanes = (0..keys::LANES).map(|lane| keys::lane(ledger, lane));
    let lanes = try_join_all(
        lanes.map(|key| async move { engine.ask::<Behind>("Projector", &key, "behind", &()).await }),
    );
    let mut lag = BookLag::default();
    for Behind { waiting, since, refused } in lanes.await? {
        lag.waiting = lag.waiting.saturating_add(waiting);
        lag.oldest_ms = lag.oldest_ms.max(since.map_or(0, |since| now.saturating_sub(since)));
        lag.refused.extend(refused);
    }
    Ok(lag)
}

/// Has everything of a ledger sent to its book once more that the engine still holds, as after an old copy of the book was put back.
/// Returns how many calls and acts that are. `admin` is the engine's port for administrators, as `host:port`.
///
/// What the engine has given up to the book is not among it: a copy must be newer than the oldest call that may be lost.
pub(crate) async fn send_again(engine: &Engine, admin: &str, ledger: &str) -> Result<u64, LedgerError> {
    let prefix = keys::prefix(ledger);
    let mut sent: u64 = 0;
    for key in engine.keys(admin, "Tenant", keys::ACTS, &prefix).await? {
        sent += engine.ask::<u64>("Tenant", &key, "again", &()).await?;
    }
    for some in engine.keys(admin, "Call", RECORD, &prefix).await?.chunks(16) {
        let asked = some.iter().map(|key| engine.ask::<bool>("Call", key, "again", &()));
        sent += try_join_all(asked).await?.into_iter().map(u64::from).sum::<u64>();
    }
    // A message that was lost with an engine that was put back itself is not waited for.
    for lane in 0..keys::LANES {
        engine.ask::<()>("Projector", &keys::lane(ledger, lane), "wake", &()).await?;
    }
    Ok(sent)
}

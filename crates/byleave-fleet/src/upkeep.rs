//! Looking after a fleet: how its parts stand, and having its book sent what it may have lost.

use std::time::Duration;

use byleave::ledger::LedgerFault;
use byleave_core::call::Millis;
use byleave_core::id::TenantId;
use byleave_postgres::Backlog;
use futures::future::{join_all, try_join_all};

use crate::engine::Engine;
use crate::keys;
use crate::settings::Fleet;
use crate::wire::{Behind, Holder};

/// How long a gateway is watched: longer than from one word of it to the next.
const WATCHED: Duration = Duration::from_millis(2_500);
/// How long a part that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// How the parts of a fleet stand. Why not, where one is not as it should be.
#[derive(Debug)]
pub struct Health {
    /// Each node of the engine, by its ingress.
    pub nodes: Vec<(String, Result<(), String>)>,
    /// The service behind the engine.
    pub service: Result<(), String>,
    /// The gateway.
    pub gateway: Result<(), String>,
    /// The book of each tenant.
    pub books: Vec<(TenantId, Result<BookHealth, String>)>,
}

/// How the book of a tenant stands.
#[derive(Clone, Debug)]
pub struct BookHealth {
    /// What the engine owes it.
    pub lag: BookLag,
    /// What waits there.
    pub backlog: Backlog,
}

impl Health {
    /// Whether everything is there, and nothing is refused or lies in the way.
    pub fn is_well(&self) -> bool {
        let books_are = self.books.iter().all(|(_, book)| {
            book.as_ref().is_ok_and(|book| book.lag.refused.is_empty() && book.backlog.early == 0)
        });
        let nodes_are = self.nodes.iter().all(|(_, node)| node.is_ok());
        nodes_are && self.service.is_ok() && self.gateway.is_ok() && books_are
    }
}

impl Fleet {
    /// How its parts stand. Takes some seconds: a gateway is only there if it goes on saying so.
    pub async fn look(&self, tenants: &[TenantId], now: Millis) -> Health {
        let nodes = join_all(self.engine.iter().map(|node| async move {
            let engine = Engine::at(std::slice::from_ref(node), PATIENCE);
            (node.clone(), engine.health().await)
        }));
        let engine = Engine::at(&self.engine, PATIENCE);
        let (nodes, first) = tokio::join!(nodes, self.holder(&engine));
        let (service, gateway) = match first {
            Err(why) => (Err(why), Err("the service does not say".to_owned())),
            Ok(None) => (Ok(()), Err("there is none; `byleave serve --fleet` is one".to_owned())),
            Ok(Some(first)) => {
                tokio::time::sleep(WATCHED).await;
                let gateway = match self.holder(&engine).await {
                    Ok(Some(later)) if later != first => Ok(()),
                    Ok(_) => Err("it is not heard any more; start it again, or another".to_owned()),
                    Err(why) => Err(why),
                };
                (Ok(()), gateway)
            }
        };
        let books = join_all(tenants.iter().map(|tenant| async {
            let name = self.ledger_of(tenant);
            let looked = async {
                let lag = lag(&engine, &name, now).await?;
                let backlog = self.books.of(&name).await?.backlog().await?;
                Ok::<_, LedgerFault>(BookHealth { lag, backlog })
            };
            let looked = tokio::time::timeout(PATIENCE, looked).await;
            let looked = looked.map_err(|_| "it does not answer".to_owned());
            (tenant.clone(), looked.and_then(|looked| looked.map_err(|fault| fault.to_string())))
        }));
        Health { nodes, service, gateway, books: books.await }
    }

    /// Has everything of a tenant sent to its book once more that the engine still holds, as [`crate::RestateLedger::send_again`] says.
    pub async fn send_again(&self, tenant: &TenantId) -> Result<u64, LedgerFault> {
        let unknown = || LedgerFault::new("cannot find out what the engine holds", "`admin` is not set");
        let admin = self.admin.as_deref().ok_or_else(unknown)?;
        send_again(&Engine::at(&self.engine, PATIENCE), admin, &self.ledger_of(tenant)).await
    }

    async fn holder(&self, engine: &Engine) -> Result<Option<Holder>, String> {
        let asked = engine.ask("Gateway", &self.name, "look", &()).await;
        asked.map_err(|fault: LedgerFault| fault.to_string())
    }
}

/// How far the book of a ledger is behind what was written by now.
pub(crate) async fn lag(engine: &Engine, ledger: &str, now: Millis) -> Result<BookLag, LedgerFault> {
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
pub(crate) async fn send_again(engine: &Engine, admin: &str, ledger: &str) -> Result<u64, LedgerFault> {
    let prefix = keys::prefix(ledger);
    let mut sent: u64 = 0;
    for key in engine.keys(admin, "Tenant", "a", &prefix).await? {
        sent += engine.ask::<u64>("Tenant", &key, "again", &()).await?;
    }
    for some in engine.keys(admin, "Call", "r", &prefix).await?.chunks(16) {
        let asked = some.iter().map(|key| engine.ask::<bool>("Call", key, "again", &()));
        sent += try_join_all(asked).await?.into_iter().map(u64::from).sum::<u64>();
    }
    // A message that was lost with an engine that was put back itself is not waited for.
    for lane in 0..keys::LANES {
        engine.ask::<()>("Projector", &keys::lane(ledger, lane), "wake", &()).await?;
    }
    Ok(sent)
}

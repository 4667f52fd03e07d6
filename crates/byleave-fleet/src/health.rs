//! A fleet as who looks after it sees it: how its parts stand, and having a book of it sent what it may have lost.

use std::time::Duration;

use byleave_core::call::Millis;
use byleave_core::id::TenantId;
use byleave_gate::ledger::LedgerError;
use byleave_postgres::Backlog;
use futures::future::join_all;

use crate::engine::Engine;
use crate::settings::Fleet;
use crate::upkeep::{self, BookLag};
use crate::wire::Holder;

/// How long a gateway is watched: longer than from one word of it to the next.
const WATCHED: Duration = Duration::from_millis(2_500);
/// How long a part that does not answer is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

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
            book.as_ref().is_ok_and(|book| book.lag.refused.is_empty() && book.backlog.out_of_order == 0)
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
                let lag = upkeep::lag(&engine, &name, now).await?;
                let backlog = self.books.of(&name).await?.backlog().await?;
                Ok::<_, LedgerError>(BookHealth { lag, backlog })
            };
            let looked = tokio::time::timeout(PATIENCE, looked).await;
            let looked = looked.map_err(|_| "it does not answer".to_owned());
            (tenant.clone(), looked.and_then(|looked| looked.map_err(|fault| fault.to_string())))
        }));
        Health { nodes, service, gateway, books: books.await }
    }

    /// Has everything of a tenant sent to its book once more that the engine still holds, as [`crate::RestateLedger::send_again`] says.
    pub async fn send_again(&self, tenant: &TenantId) -> Result<u64, LedgerError> {
        let unknown = || LedgerError::new("cannot find out what the engine holds", "`admin` is not set");
        let admin = self.admin.as_deref().ok_or_else(unknown)?;
        upkeep::send_again(&Engine::at(&self.engine, PATIENCE), admin, &self.ledger_of(tenant)).await
    }

    async fn holder(&self, engine: &Engine) -> Result<Option<Holder>, String> {
        let asked = engine.ask("Gateway", &self.name, "look", &()).await;
        asked.map_err(|fault: LedgerError| fault.to_string())
    }
}

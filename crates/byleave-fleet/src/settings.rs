//! A fleet, as one private file says how it is reached; the same for every gateway.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use byleave_core::digest::Digest;
use byleave_core::id::TenantId;
use byleave_gate::audit_log::anchor_file::AnchorFile;
use byleave_gate::ledger::{Ledger, LedgerError};
use byleave_postgres::PgAuditLog;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use crate::books::Books;
use crate::engine::Engine;
use crate::gateway::Gateway;
use crate::ledger::{Options, RestateLedger};
use crate::sealing::FleetUnsealer;

/// How long an engine that does not answer is waited for: longer than it takes to do without a node.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same for who says that it is there: it says so again.
const BEAT_PATIENCE: Duration = Duration::from_secs(2);
/// How often what is new in a book is sealed, and how long a sealer may take.
const SEAL_EVERY: Duration = Duration::from_secs(2);
const SEAL_LEASE: Duration = Duration::from_secs(30);
/// How many connections lists are read with, for each tenant.
const READERS_MAX: u32 = 4;

const KNOWN: [&str; 5] = ["engine", "admin", "name", "book", "key"];

/// How a fleet is reached.
pub struct Fleet {
    pub(crate) engine: Vec<String>,
    pub(crate) admin: Option<String>,
    pub(crate) name: String,
    pub(crate) books: Arc<Books>,
    master: Zeroizing<[u8; 32]>,
}

/// What is wrong with the file of a fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetFault {
    /// It is no TOML.
    #[error("it is no TOML: {0}")]
    Toml(String),
    /// A key that is not known: a misspelt one must not be taken for one that is not there.
    #[error("`{0}` is no setting of a fleet; they are engine, admin, name, book and key")]
    Unknown(String),
    /// A setting is missing, or is not what it must be.
    #[error("`{0}` must be {1}")]
    Flawed(&'static str, &'static str),
    /// The address of the book cannot be read.
    #[error("`book` cannot be used: {0}")]
    Book(LedgerError),
}

impl Fleet {
    /// Reads the file of a fleet.
    pub fn parse(text: &str) -> Result<Self, FleetFault> {
        let table = DeTable::parse(text).map_err(|error| FleetFault::Toml(error.message().to_owned()))?;
        let table = table.into_inner();
        if let Some(key) = table.keys().find(|key| !KNOWN.contains(&&**key.get_ref())) {
            return Err(FleetFault::Unknown(key.get_ref().to_string()));
        }
        let found = |name: &str| table.get(name).map(toml::Spanned::get_ref);
        let text = |name: &'static str, what| match found(name) {
            Some(DeValue::String(text)) if !text.is_empty() => Ok(text.to_string()),
            _ => Err(FleetFault::Flawed(name, what)),
        };
        let flawed = || FleetFault::Flawed("engine", "the ingress of each node, as [\"HOST:PORT\", …]");
        let engine = match found("engine") {
            Some(DeValue::Array(nodes)) if !nodes.is_empty() => {
                let node = |node: &toml::Spanned<DeValue<'_>>| match node.get_ref() {
                    DeValue::String(node) if node.contains(':') && !node.contains('/') => {
                        Ok(node.to_string())
                    }
                    _ => Err(flawed()),
                };
                nodes.iter().map(node).collect::<Result<_, _>>()?
            }
            _ => return Err(flawed()),
        };
        let admin =
            found("admin").map(|_| text("admin", "the engine's port for administrators, as \"HOST:PORT\""));
        let key = "32 random bytes in base64, as `openssl rand -base64 32` makes them";
        let master = Zeroizing::new(text("key", key)?);
        let master = STANDARD.decode(master.as_bytes()).map(Zeroizing::new).ok();
        let master = master.and_then(|bytes| <[u8; 32]>::try_from(bytes.as_slice()).ok());
        let books = Books::parse(&text("book", "the address of a Postgres, as \"postgres://…\"")?);
        Ok(Self {
            engine,
            admin: admin.transpose()?,
            name: text("name", "what the ledgers of this fleet are called by")?,
            books: Arc::new(books.map_err(FleetFault::Book)?),
            master: Zeroizing::new(master.ok_or(FleetFault::Flawed("key", key))?),
        })
    }

    /// Wants to be the gateway of this fleet. Nothing is asked of the engine yet.
    pub fn gateway(&self, dir: &Path) -> Result<Gateway, LedgerError> {
        Gateway::new(Engine::at(&self.engine, BEAT_PATIENCE), self.name.clone(), dir)
    }

    /// The ledger of a tenant. What this process owns is marked in the directory.
    pub fn ledger(&self, tenant: &TenantId, dir: &Path) -> Result<RestateLedger, LedgerError> {
        RestateLedger::open(Options {
            ingress: self.engine.clone(),
            name: self.ledger_of(tenant),
            workers: dir.join("owners"),
            master: self.master.clone(),
            patience: PATIENCE,
            books: Some(Arc::clone(&self.books)),
        })
    }

    /// The book of a tenant, sealed by whoever has it open; the anchor lies in the directory.
    pub async fn book(
        &self,
        tenant: &TenantId,
        dir: &Path,
        ledger: Arc<dyn Ledger>,
    ) -> Result<PgAuditLog, LedgerError> {
        let name = self.ledger_of(tenant);
        // Known only to who has the master key, and no way back to it.
        let sign = Digest::compute_parts("byleave.fleet.sign", &[&*self.master, name.as_bytes()]);
        PgAuditLog::open(byleave_postgres::PgAuditLogOptions {
            connect: self.books.connect_to(&name),
            unsealer: Arc::new(FleetUnsealer::new(self.master.clone())),
            signing_key: Zeroizing::new(*sign.as_bytes()),
            anchor_store: Arc::new(AnchorFile::new(dir.join("anchor.json"))),
            ledger: Some(ledger),
            seal_interval: Some(SEAL_EVERY),
            lease: SEAL_LEASE,
            max_readers: READERS_MAX,
        })
        .await
    }

    /// One for each tenant: nothing of one waits behind anything of another's.
    pub(crate) fn ledger_of(&self, tenant: &TenantId) -> String {
        format!("{}/{tenant}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        engine = ["127.0.0.1:1", "127.0.0.1:2"]
        admin = "127.0.0.1:3"
        name = "team"
        book = "postgres:///byleave?host=%2Ftmp"
        key = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
    "#;

    #[test]
    fn the_file_of_a_fleet_is_read_and_nothing_in_it_is_passed_over() {
        let fleet = Fleet::parse(GOOD).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!((fleet.engine.len(), fleet.admin.as_deref()), (2, Some("127.0.0.1:3")));
        assert_eq!(*fleet.master, [7; 32]);
        for (from, to, said) in [
            ("name", "nmae", "`nmae` is no setting"),
            ("[\"127.0.0.1:1\", \"127.0.0.1:2\"]", "[]", "`engine` must be"),
            ("127.0.0.1:1", "http://127.0.0.1:1", "`engine` must be"),
            ("BwcHBwcH", "Bwc", "`key` must be"),
            ("postgres:", "mysql:", "`book` cannot be used"),
            ("name = \"team\"", "", "`name` must be"),
            ("= \"team\"", "= ", "no TOML"),
        ] {
            let fault = Fleet::parse(&GOOD.replace(from, to)).err().map(|fault| fault.to_string());
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(said)), "{from}: {fault:?}");
        }
    }
}

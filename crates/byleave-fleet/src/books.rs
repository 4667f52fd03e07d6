//! The books: one for each ledger of the engine, all in one Postgres, each in a schema of its own.
//!
//! Whoever has this can give to a book and read back what it gave, and nothing else: there is no key here, so nothing that passes
//! can be opened.

use std::num::NonZeroUsize;
use std::str::FromStr as _;
use std::sync::Arc;

use byleave_core::digest::Digest;
use byleave_gate::ledger::LedgerError;
use byleave_postgres::{PgConnectOptions, SealedAuditLog};
use lru::LruCache;
use tokio::sync::Mutex;

/// So many books are held open; the others are opened again when they are needed.
const OPEN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(31);
/// At most so many connections read from one book.
const READERS_MAX: u32 = 4;

/// Where the books of ledgers are.
pub struct Books {
    connect: PgConnectOptions,
    open: Mutex<LruCache<String, Arc<SealedAuditLog>>>,
}

impl Books {
    /// The books in this Postgres. Asks it nothing yet.
    pub fn at(connect: PgConnectOptions) -> Self {
        Self { connect, open: Mutex::new(LruCache::new(OPEN_MAX)) }
    }

    /// The same, from its address.
    pub fn parse(url: &str) -> Result<Self, LedgerError> {
        let cannot = |why: String| LedgerError::new("cannot read the address of the books", why);
        // Whoever reads it takes any beginning for this one.
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(cannot("it does not begin with postgres://".to_owned()));
        }
        PgConnectOptions::from_str(url).map(Self::at).map_err(|error| cannot(error.to_string()))
    }

    /// How to connect to the book of a ledger: for whoever has its keys, and lists, seals and verifies it.
    pub fn connect_to(&self, ledger: &str) -> PgConnectOptions {
        self.connect.clone().options([("search_path", Self::schema_of(ledger))])
    }

    /// The schema that the book of a ledger lies in. Its name need not be one that Postgres takes.
    pub fn schema_of(ledger: &str) -> String {
        let digest = Digest::compute_parts("byleave.ledger", &[ledger.as_bytes()]).to_string();
        format!("ledger_{}", digest.chars().take(32).collect::<String>())
    }

    /// The book of a ledger; made where it is not there.
    pub async fn of(&self, ledger: &str) -> Result<Arc<SealedAuditLog>, LedgerError> {
        if let Some(book) = self.open.lock().await.get(ledger) {
            return Ok(Arc::clone(book));
        }
        // Not under the lock: one that does not answer must not keep the others from being opened.
        let book = Arc::new(SealedAuditLog::open(self.connect_to(ledger), READERS_MAX).await?);
        let mut open = self.open.lock().await;
        Ok(Arc::clone(open.get_or_insert(ledger.to_owned(), || book)))
    }
}

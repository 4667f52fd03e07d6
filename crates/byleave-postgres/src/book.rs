//! The book itself: how it is opened, what it is given, and how far it is behind. Its face to readers is in `shelf`.

use std::sync::Arc;
use std::time::Duration;

use byleave::ledger::{Ledger, LedgerFault};
use byleave_core::act::Act;
use ed25519_dalek::SigningKey;
use sqlx_postgres::PgConnectOptions;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use crate::schema;
use crate::seal::{self, Anchors, Sealer};
use crate::sealed::{Backlog, SealedBook};
use crate::taking::{TakeFault, Taking};
use crate::unsealer::Unsealer;

/// How a book is kept.
pub struct Options {
    /// Where it is.
    pub connect: PgConnectOptions,
    /// Opens keys and contents; they are never sent to Postgres in the clear.
    pub unsealer: Arc<dyn Unsealer>,
    /// Signs segments. The same for everyone who seals this book.
    pub sign: Zeroizing<[u8; 32]>,
    /// Where the anchor is kept. Best where whoever can write the book cannot.
    pub anchors: Arc<dyn Anchors>,
    /// The ledger, which is told of what is to be forgotten before the book is. Without one, it is forgotten here only.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// How often what is new is sealed; `None`: when [`byleave::book::Book::seal`] is called.
    pub seal_every: Option<Duration>,
    /// How long a sealer may take before another takes over.
    pub lease: Duration,
    /// At most so many connections to read with.
    pub readers_max: u32,
}

/// A book in Postgres. Several processes may have the same one open.
pub struct PgBook {
    pub(crate) sealed: SealedBook,
    pub(crate) unsealer: Arc<dyn Unsealer>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// Seals what is new, where that is not left to whoever asks for it.
    keeper: Option<JoinHandle<()>>,
}

/// How far the book is behind what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// So much waits in this process to be written. None of it is acknowledged.
    pub queued: u64,
    /// So many appends are kept, but those before them have not come: lists do not show them.
    pub early: u64,
    /// For how long the oldest of them has been there.
    pub early_ms: u64,
    /// So many rows are not sealed.
    pub unsealed: u64,
}

impl PgBook {
    /// Opens the book; makes its tables if they are not there.
    pub async fn open(options: Options) -> Result<Self, LedgerFault> {
        let Options { connect, unsealer, sign, anchors, ledger, seal_every, lease, readers_max } = options;
        let sealed = SealedBook::open(connect, readers_max).await?;
        let sign = SigningKey::from_bytes(&sign);
        schema::belongs(&sealed.readers, "key", &unsealer.mark()).await?;
        schema::belongs(&sealed.readers, "sign", sign.verifying_key().as_bytes()).await?;
        let sealer = Arc::new(Sealer::new(sealed.readers.clone(), sign, anchors, lease));
        let keeper = seal_every.map(|every| tokio::spawn(seal::keep(Arc::downgrade(&sealer), every)));
        Ok(Self { sealed, unsealer, sealer, ledger, keeper })
    }

    /// Takes what an append has brought, as [`SealedBook::take`].
    pub async fn take(&self, taking: Taking) -> Result<(), TakeFault> {
        self.sealed.take(taking).await
    }

    /// Takes an act of an administrator. The same may come again.
    pub async fn take_act(&self, act: Act) -> Result<(), TakeFault> {
        self.sealed.take_act(act).await
    }

    /// How far the book is behind.
    pub async fn lag(&self) -> Result<Lag, LedgerFault> {
        let Backlog { queued, early, early_ms } = self.sealed.backlog().await?;
        let unsealed = seal::unsealed(&mut *self.sealed.reader().await?).await?;
        Ok(Lag { queued, early, early_ms, unsealed })
    }

    /// Seals what is new, unless someone else is at it. Returns how many segments that took.
    pub async fn seal_if_free(&self) -> Result<u64, LedgerFault> {
        self.sealer.seal_if_free().await
    }
}

impl Drop for PgBook {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
    }
}

//! The book itself: how it is opened, what it is given, and how far it is behind. Its face to readers is in `shelf`.

use std::sync::Arc;
use std::time::Duration;

use byleave::ledger::{Ledger, LedgerError};
use byleave_core::admin_action::AdminAction;
use ed25519_dalek::SigningKey;
use sqlx_postgres::PgConnectOptions;
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use crate::ingest::{Ingest, IngestError};
use crate::schema;
use crate::seal::{self, AnchorStore, Sealer};
use crate::sealed_log::{Backlog, SealedAuditLog};
use crate::unsealer::Unsealer;

/// How a book is kept.
pub struct PgAuditLogOptions {
    /// Where it is.
    pub connect: PgConnectOptions,
    /// Opens keys and contents; they are never sent to Postgres in the clear.
    pub unsealer: Arc<dyn Unsealer>,
    /// Signs segments. The same for everyone who seals this book.
    pub sign: Zeroizing<[u8; 32]>,
    /// Where the anchor is kept. Best where whoever can write the book cannot.
    pub anchors: Arc<dyn AnchorStore>,
    /// The ledger, which is told of what is to be forgotten before the book is. Without one, it is forgotten here only.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// How often what is new is sealed; `None`: when [`byleave::audit_log::AuditLog::seal`] is called.
    pub seal_every: Option<Duration>,
    /// How long a sealer may take before another takes over.
    pub lease: Duration,
    /// At most so many connections to read with.
    pub readers_max: u32,
}

/// A book in Postgres. Several processes may have the same one open.
pub struct PgAuditLog {
    pub(crate) sealed: SealedAuditLog,
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

impl PgAuditLog {
    /// Opens the book; makes its tables if they are not there.
    pub async fn open(options: PgAuditLogOptions) -> Result<Self, LedgerError> {
        let PgAuditLogOptions { connect, unsealer, sign, anchors, ledger, seal_every, lease, readers_max } =
            options;
        let sealed = SealedAuditLog::open(connect, readers_max).await?;
        let sign = SigningKey::from_bytes(&sign);
        schema::belongs(&sealed.readers, "key", &unsealer.mark()).await?;
        schema::belongs(&sealed.readers, "sign", sign.verifying_key().as_bytes()).await?;
        let sealer = Arc::new(Sealer::new(sealed.readers.clone(), sign, anchors, lease));
        let keeper = seal_every.map(|every| tokio::spawn(seal::keep(Arc::downgrade(&sealer), every)));
        Ok(Self { sealed, unsealer, sealer, ledger, keeper })
    }

    /// Takes what an append has brought, as [`SealedAuditLog::take`].
    pub async fn take(&self, taking: Ingest) -> Result<(), IngestError> {
        self.sealed.take(taking).await
    }

    /// Takes an act of an administrator. The same may come again.
    pub async fn take_act(&self, act: AdminAction) -> Result<(), IngestError> {
        self.sealed.take_act(act).await
    }

    /// How far the book is behind.
    pub async fn lag(&self) -> Result<Lag, LedgerError> {
        let Backlog { queued, early, early_ms } = self.sealed.backlog().await?;
        let unsealed = seal::unsealed(&mut *self.sealed.reader().await?).await?;
        Ok(Lag { queued, early, early_ms, unsealed })
    }

    /// Seals what is new, unless someone else is at it. Returns how many segments that took.
    pub async fn seal_if_free(&self) -> Result<u64, LedgerError> {
        self.sealer.seal_if_free().await
    }
}

impl Drop for PgAuditLog {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
    }
}

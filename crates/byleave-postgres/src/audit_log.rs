//! The audit log in Postgres: opens it, accepts appends and reports its lag. Its interface for readers is in `reader`.

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

/// Options of an audit log in Postgres.
pub struct PgAuditLogOptions {
    /// The database connection.
    pub connect: PgConnectOptions,
    /// Decrypts keys and contents. They are never sent to Postgres in the clear.
    pub unsealer: Arc<dyn Unsealer>,
    /// The key that signs segments. It is the same for every process that seals this audit log.
    pub sign: Zeroizing<[u8; 32]>,
    /// Where the anchor is stored. Use a place that writers of the audit log cannot write to.
    pub anchors: Arc<dyn AnchorStore>,
    /// The ledger, which erases contents before the audit log does. Without one, contents are erased here only.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// How often new rows are sealed. With `None`, only [`byleave::audit_log::AuditLog::seal`] seals them.
    pub seal_every: Option<Duration>,
    /// How long a sealer may take before another one takes over.
    pub lease: Duration,
    /// The maximum number of connections for reading.
    pub readers_max: u32,
}

/// An audit log in Postgres. Several processes may open the same one.
pub struct PgAuditLog {
    pub(crate) sealed: SealedAuditLog,
    pub(crate) unsealer: Arc<dyn Unsealer>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// Seals new rows periodically, if `seal_every` is set.
    keeper: Option<JoinHandle<()>>,
}

/// How far the audit log lags behind the appends that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of operations in this process that wait to be written. None of them is acknowledged.
    pub queued: u64,
    /// The number of appends that are stored but whose predecessors have not arrived. Lists do not show them.
    pub early: u64,
    /// The age of the oldest of them.
    pub early_ms: u64,
    /// The number of rows that are not sealed.
    pub unsealed: u64,
}

impl PgAuditLog {
    /// Opens the audit log and creates missing tables.
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

    /// Accepts one append, like [`SealedAuditLog::take`].
    pub async fn take(&self, taking: Ingest) -> Result<(), IngestError> {
        self.sealed.take(taking).await
    }

    /// Accepts an admin action. The same action may arrive more than once.
    pub async fn take_act(&self, act: AdminAction) -> Result<(), IngestError> {
        self.sealed.take_act(act).await
    }

    /// Returns how far the audit log lags behind.
    pub async fn lag(&self) -> Result<Lag, LedgerError> {
        let Backlog { queued, early, early_ms } = self.sealed.backlog().await?;
        let unsealed = seal::unsealed(&mut *self.sealed.reader().await?).await?;
        Ok(Lag { queued, early, early_ms, unsealed })
    }

    /// Seals new rows unless another process is sealing. Returns the number of new segments.
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

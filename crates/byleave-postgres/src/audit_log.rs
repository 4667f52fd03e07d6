//! The audit log in Postgres: opens it, accepts appends and reports its lag. Its interface for readers is in `reader`.

use std::sync::Arc;
use std::time::Duration;

use byleave_core::admin_action::AdminAction;
use byleave_gate::ledger::{Ledger, LedgerError};
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
    pub signing_key: Zeroizing<[u8; 32]>,
    /// Where the anchor is stored. Use a place that writers of the audit log cannot write to.
    pub anchor_store: Arc<dyn AnchorStore>,
    /// The ledger, which erases contents before the audit log does. Without one, contents are erased here only.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// How often new rows are sealed. With `None`, only [`byleave_gate::audit_log::AuditLog::seal`] seals them.
    pub seal_interval: Option<Duration>,
    /// How long a sealer may take before another one takes over.
    pub lease: Duration,
    /// The maximum number of connections for reading.
    pub max_readers: u32,
}

/// An audit log in Postgres. Several processes may open the same one.
pub struct PgAuditLog {
    pub(crate) sealed_log: SealedAuditLog,
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
    pub queued_writes: u64,
    /// The number of appends that are stored but whose predecessors have not arrived. Lists do not show them.
    pub out_of_order: u64,
    /// The age of the oldest of them.
    pub oldest_out_of_order_ms: u64,
    /// The number of rows that are not sealed.
    pub unsealed_rows: u64,
}

impl PgAuditLog {
    /// Opens the audit log and creates missing tables.
    pub async fn open(options: PgAuditLogOptions) -> Result<Self, LedgerError> {
        let PgAuditLogOptions {
            connect,
            unsealer,
            signing_key: sign,
            anchor_store: anchors,
            ledger,
            seal_interval: seal_every,
            lease,
            max_readers: readers_max,
        } = options;
        let sealed = SealedAuditLog::open(connect, readers_max).await?;
        let sign = SigningKey::from_bytes(&sign);
        schema::check_key_fingerprint(&sealed.reader_pool, "key", &unsealer.fingerprint()).await?;
        schema::check_key_fingerprint(&sealed.reader_pool, "sign", sign.verifying_key().as_bytes()).await?;
        let sealer = Arc::new(Sealer::new(sealed.reader_pool.clone(), sign, anchors, lease));
        let keeper =
            seal_every.map(|every| tokio::spawn(seal::run_seal_loop(Arc::downgrade(&sealer), every)));
        Ok(Self { sealed_log: sealed, unsealer, sealer, ledger, keeper })
    }

    /// Accepts one append, like [`SealedAuditLog::ingest`].
    pub async fn ingest(&self, taking: Ingest) -> Result<(), IngestError> {
        self.sealed_log.ingest(taking).await
    }

    /// Accepts an admin action. The same action may arrive more than once.
    pub async fn ingest_action(&self, act: AdminAction) -> Result<(), IngestError> {
        self.sealed_log.ingest_action(act).await
    }

    /// Returns how far the audit log lags behind.
    pub async fn lag(&self) -> Result<Lag, LedgerError> {
        let Backlog { queued_writes: queued, out_of_order: early, oldest_out_of_order_ms: early_ms } =
            self.sealed_log.backlog().await?;
        let unsealed = seal::count_unsealed(&mut *self.sealed_log.acquire_reader().await?).await?;
        Ok(Lag {
            queued_writes: queued,
            out_of_order: early,
            oldest_out_of_order_ms: early_ms,
            unsealed_rows: unsealed,
        })
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

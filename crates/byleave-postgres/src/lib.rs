//! The audit log in Postgres, for a fleet whose ledger engine keeps records only for a limited time.
//!
//! It is written by projection. The holder of the records passes every append to [`PgAuditLog::ingest`], in any order and as
//! often as needed. It may clear every append that was acknowledged.
//!
//! The audit log must never acknowledge an append that is not committed, or accept an entry that does not continue its
//! record. It must never see contents or keys in the clear. Both arrive sealed, and the master key stays with the process
//! that opens the audit log. Like any projection it is not authoritative; only entries that verify are.
//!
//! - `audit_log`: opens the audit log, accepts entries and reports its lag.
//! - `ingest`: one incoming append, and the checks that need no lookup.
//! - `writer`, `batch`: one transaction for everything that waits; its decisions.
//! - `call_projection`, `rebuild`: the row of a call in lists; rebuilds all projections from the entries.
//! - `sealed_log`: the audit log without a key. It accepts and returns encrypted data only.
//! - `reader`, `queries`, `standing_approvals`: lists, records and erasure; keyset queries; standing approvals from records
//!   that verify.
//! - `seal`, `verify`: signed segments for each shard, by one process with a lease; verification at one moment.
//! - `schema`, `line_rows`, `unsealer`: migrations, partitions and connections; entries in rows; the trait that decrypts.

mod audit_log;
mod batch;
mod call_projection;
mod ingest;
mod line_rows;
mod queries;
mod reader;
mod rebuild;
mod schema;
mod seal;
mod sealed_log;
mod standing_approvals;
mod unsealer;
mod verify;
mod writer;

pub use sqlx_postgres::PgConnectOptions;

pub use self::audit_log::{Lag, PgAuditLog, PgAuditLogOptions};
pub use self::ingest::{Ingest, IngestError};
pub use self::schema::{SHARDS, shard_for_tenant};
pub use self::seal::AnchorStore;
pub use self::sealed_log::{Backlog, RecordCompleteness, SealedAuditLog, SealedRecord};
pub use self::unsealer::Unsealer;

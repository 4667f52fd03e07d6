//! The book in Postgres: for a fleet, whose records are held by an engine that keeps them for a while only.
//!
//! It is written by projection. Whoever holds the records gives every append to [`PgAuditLog::take`], in whatever order and as
//! often as it likes, and may clear what was acknowledged. The book must never acknowledge what is not committed, take a line
//! that does not continue its record, or see a content or a key in the clear: both come sealed, and the master key stays with
//! whoever opens the book. What it says counts as little as any projection; what counts are lines that verify.

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
pub use self::schema::{SHARDS, shard_of};
pub use self::seal::AnchorStore;
pub use self::sealed_log::{Backlog, RecordCompleteness, SealedAuditLog, SealedRecord};
pub use self::unsealer::Unsealer;

//! The book in Postgres: for a fleet, whose records are held by an engine that keeps them for a while only.
//!
//! It is written by projection. Whoever holds the records gives every append to [`PgBook::take`], in whatever order and as
//! often as it likes, and may clear what was acknowledged. The book must never acknowledge what is not committed, take a line
//! that does not continue its record, or see a content or a key in the clear: both come sealed, and the master key stays with
//! whoever opens the book. What it says counts as little as any projection; what counts are lines that verify.

mod batch;
mod book;
mod leaves;
mod listed;
mod queries;
mod rebuild;
mod rows;
mod schema;
mod seal;
mod sealed;
mod shelf;
mod taking;
mod unsealer;
mod verify;
mod writer;

pub use sqlx_postgres::PgConnectOptions;

pub use self::book::{Lag, Options, PgBook};
pub use self::schema::{SHARDS, shard_of};
pub use self::seal::Anchors;
pub use self::sealed::{Backlog, Holding, SealedBook, SealedRecord};
pub use self::taking::{TakeFault, Taking};
pub use self::unsealer::Unsealer;

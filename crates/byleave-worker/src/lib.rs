//! Workers that dial out: gates far from the store, and the office that they write through.
//!
//! A worker is a gate like any other: it plans, rules, rehearses and runs where its tools and files are. Its ledger is
//! [`RemoteLedger`], which says everything over one wire that the worker has opened, and marks on the worker's own disk what it
//! starts. At the other end is the [`server`]: it knows whose wire it is, lets through what such a worker may write
//! ([`Permissions`]), and writes it for the worker's own owner on the store that it stands on ([`OwnerBackend`]).
//!
//! A claim is the worker's and nobody else's. While the worker is away, for less than its lease, its claims stand, and what it
//! ran meanwhile it says when it comes back. A wire that breaks loses nothing: whatever was not answered is said again, and
//! everything here can be said twice.

mod assignment;
mod connection;
mod permissions;
mod protocol;
mod registry;
mod remote_ledger;
pub mod server;
mod sqlite_backend;
pub mod websocket;
mod worker_loop;

pub use self::assignment::{CAPACITY_MAX, CallAssignment, Capabilities, DispatchOutcome, WorkerInfo};
pub use self::connection::{ConnectError, ConnectionStatus, Connector, uptime};
pub use self::permissions::Permissions;
pub use self::protocol::FrameChannel;
pub use self::registry::{OwnerBackend, WorkerRegistry};
pub use self::remote_ledger::{RemoteLedger, RemoteLedgerOptions};
pub use self::sqlite_backend::SqliteOwnerBackend;
pub use self::worker_loop::CallOffers;
pub use byleave::ledger::owner_locks::OwnerLiveness;

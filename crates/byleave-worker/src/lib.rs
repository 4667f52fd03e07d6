//! Workers that connect to a server: gates far from the store, and the server that they write through.
//!
//! A worker is a gate like any other: it plans, decides, rehearses and runs where its tools and files are. Its ledger is
//! [`RemoteLedger`], which sends every request over one connection that the worker opened. It marks on the worker's own disk
//! which attempts it starts. At the other end is the [`server`]. It knows which worker it talks to and admits only what such
//! a worker may write ([`Permissions`]). It writes for the worker's own owner id on its store ([`OwnerBackend`]).
//!
//! A claim belongs to one worker only. While the worker is away for less than its lease, its claims remain valid. When it
//! comes back, it reports what it ran meanwhile. A broken connection loses nothing: unanswered requests are repeated, and
//! every request here may be repeated safely.
//!
//! - `remote_ledger`: the ledger of a worker. It sends every request to the server.
//! - `connection`: one connection that reconnects and repeats unanswered requests.
//! - `server`: answers the requests of one worker on the real store.
//! - `permissions`: what a worker may request: to execute calls of one tenant.
//! - `registry`: which workers are connected, and how long an absent one keeps its claims.
//! - `assignment`: what workers can do, and which of them gets a call.
//! - `worker_loop`: executes the offered calls.
//! - `protocol`, `websocket`: the messages as JSON; their transport over WebSocket, between machines with TLS.
//! - `sqlite_backend`: the SQLite store of one machine as a store for workers.

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

pub use self::assignment::{CallAssignment, Capabilities, DispatchOutcome, MAX_CAPACITY, WorkerInfo};
pub use self::connection::{ConnectError, ConnectionStatus, Connector, uptime};
pub use self::permissions::Permissions;
pub use self::protocol::FrameChannel;
pub use self::registry::{OwnerBackend, WorkerRegistry};
pub use self::remote_ledger::{RemoteLedger, RemoteLedgerOptions};
pub use self::sqlite_backend::SqliteOwnerBackend;
pub use self::worker_loop::CallOffers;
pub use byleave_gate::ledger::owner_locks::OwnerLiveness;

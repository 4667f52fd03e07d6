//! Workers that dial out: gates far from the store, and the office that they write through.
//!
//! A worker is a gate like any other: it plans, rules, rehearses and runs where its tools and files are. Its ledger is
//! [`RemoteLedger`], which says everything over one wire that the worker has opened, and marks on the worker's own disk what it
//! starts. At the other end is the [`office`]: it knows whose wire it is, lets through what such a worker may write
//! ([`Rights`]), and writes it for the worker's own owner on the store that it stands on ([`Deputy`]).
//!
//! A claim is the worker's and nobody else's. While the worker is away, for less than its lease, its claims stand, and what it
//! ran meanwhile it says when it comes back. A wire that breaks loses nothing: whatever was not answered is said again, and
//! everything here can be said twice.

mod crew;
mod ledger;
mod link;
pub mod office;
mod rights;
mod roster;
pub mod socket;
mod sqlite;
mod wire;
mod work;

pub use self::crew::{CAPACITY_MAX, Drove, Job, Skills, Worker};
pub use self::ledger::{Options, RemoteLedger};
pub use self::link::{Dial, Reach, Undialled, uptime};
pub use self::rights::Rights;
pub use self::roster::{Deputy, Roster};
pub use self::sqlite::SqliteDeputy;
pub use self::wire::Wire;
pub use self::work::Offers;
pub use byleave::ledger::owners::IsAlive;

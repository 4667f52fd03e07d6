//! The same walk on a durable engine: a [`byleave_gate::ledger::Ledger`] whose records are held by Restate.
//!
//! Two halves that meet only at the engine. [`RestateLedger`] is what a gate stands on: it talks to the engine's ingress,
//! seals contents before they leave the process, and marks on its own disk what it starts. [`service`] is what the engine
//! talks to: one entity per call and per session, and the few small ones that a ledger needs beside them.
//!
//! A handler checks, writes and ends. It never runs a tool, never sleeps, never looks at a clock, and never sees a content
//! or a key. The engine replays handlers, so whatever happened inside one could happen twice.
#![cfg_attr(
    not(feature = "service"),
    expect(dead_code, reason = "parts of the modules that both halves share are used by the service alone")
)]

mod around;
mod books;
mod engine;
#[cfg(feature = "service")]
mod entities;
mod gateway;
mod health;
mod identity;
mod keys;
mod ledger;
mod packing;
mod projection;
mod sealing;
#[cfg(feature = "service")]
pub mod service;
mod settings;
mod upkeep;
mod wire;

pub use self::books::Books;
pub use self::gateway::{Awaited, Gateway, Held};
pub use self::health::{BookHealth, Health};
pub use self::identity::{Identity, NoIdentity};
pub use self::ledger::{Options, RestateLedger};
pub use self::sealing::FleetUnsealer;
pub use self::settings::{Fleet, FleetFault};
pub use self::upkeep::BookLag;

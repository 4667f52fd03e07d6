//! Reading shell: what would a command do?
//!
//! Command text goes in, effects come out. Pure: nothing here runs, opens or looks up anything; what must be known of the
//! world is asked of a [`scene::Scene`]. Deny must see everything that a command could be, and allow needs a proof, so what
//! cannot be told is said to be unknown, with a reason. It is never left out.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod account;
pub mod danger;
mod environment;
mod host;
pub mod manual;
pub mod outline;
mod planning;
pub mod reader;
pub mod reading;
pub mod scene;
mod script;
mod syntax;
pub mod tree;
pub mod word;

pub use planning::{tell, tell_in_full};
pub use reader::read;

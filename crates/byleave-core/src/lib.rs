//! Decides: the words, the record, the walk, the rules.
//!
//! This crate performs nothing: no file, socket, clock, random number or thread. Whatever it needs of the world comes in
//! as entries on a [`record::Record`]; whatever should happen to the world goes out of [`walk::next`] as data.

pub mod act;
pub mod admit;
pub mod call;
pub mod chain;
pub mod challenge;
pub mod change;
pub mod digest;
pub mod effect;
pub mod entry;
pub mod escape;
pub mod grant;
pub mod host;
pub mod id;
pub mod leave;
pub mod manifest;
pub mod moment;
pub mod offer;
pub mod outcome;
pub mod pattern;
pub mod policy;
pub mod question;
pub mod record;
pub mod refusal;
pub mod rehearsal;
pub mod render;
pub mod review;
pub mod ruling;
pub mod session;
pub mod sheet;
pub mod walk;

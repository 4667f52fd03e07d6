//! The loop with a model: models behind one seam ([`model`]), their providers ([`provider`]), turns and calls through the gate
//! ([`agent`]), conversations read off the book ([`conversation`], [`history`]), who a model is to be ([`persona`]), and how a model without tool
//! calls of its own asks for one ([`blocks`], [`by_blocks`]).
//!
//! What a model says is data. What may happen is decided by the gate; nothing here runs anything.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(feature = "agent")]
pub mod agent;
pub mod blocks;
#[cfg(feature = "agent")]
pub mod by_blocks;
#[cfg(feature = "agent")]
pub mod conversation;
#[cfg(feature = "agent")]
pub mod history;
#[cfg(feature = "agent")]
pub mod limits;
#[cfg(feature = "agent")]
pub mod model;
#[cfg(feature = "agent")]
pub mod persona;
#[cfg(feature = "agent")]
pub mod provider;
#[cfg(feature = "agent")]
pub mod turn;

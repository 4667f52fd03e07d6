//! The loop with a model: models behind one seam ([`model`]), their providers ([`provider`]), turns and calls through the gate
//! ([`agent_loop`]), conversations read off the book ([`conversation`], [`history`]), who a model is to be ([`persona`]), and how a model without tool
//! calls of its own asks for one ([`tool_blocks`], [`tool_block_adapter`]).
//!
//! What a model says is data. What may happen is decided by the gate; nothing here runs anything.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(feature = "agent")]
pub mod agent_loop;
#[cfg(feature = "agent")]
pub mod conversation;
#[cfg(feature = "agent")]
pub mod history;
#[cfg(feature = "agent")]
pub mod limits;
#[cfg(feature = "agent")]
pub mod model;
#[cfg(feature = "agent")]
pub mod model_turn;
#[cfg(feature = "agent")]
pub mod persona;
#[cfg(feature = "agent")]
pub mod provider;
#[cfg(feature = "agent")]
pub mod tool_block_adapter;
pub mod tool_blocks;

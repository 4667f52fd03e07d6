//! The loop with a model. So far its parts: models behind one seam ([`model`], [`provider`], [`by_blocks`]), and how a model without
//! tool calls of its own asks for one ([`blocks`]).
//!
//! What a model says is data. What may happen is decided by the gate; nothing here runs anything.

pub mod blocks;
pub mod by_blocks;
pub mod model;
pub mod provider;

//! The loop with a model. So far its parts: models behind one seam ([`model`]; with the feature `providers`, also `provider` and `by_blocks`), and how a model without
//! tool calls of its own asks for one ([`blocks`]).
//!
//! What a model says is data. What may happen is decided by the gate; nothing here runs anything.

pub mod blocks;
#[cfg(feature = "providers")]
pub mod by_blocks;
pub mod model;
#[cfg(feature = "providers")]
pub mod provider;

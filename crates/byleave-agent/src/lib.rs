//! The loop with a model. So far only how a model without tool calls of its own asks for one: [`blocks`].
//!
//! Pure: text goes in, data comes out. What may happen is decided by the gate; nothing here runs anything.

pub mod blocks;

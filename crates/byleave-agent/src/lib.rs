//! The loop with a model. So far: how a model without tool calls of its own asks for one ([`blocks`]), and who a model is to be and
//! what it is told of the tools ([`persona`]).
//!
//! What a model says is data, and so is what it is told. What may happen is decided by the gate; nothing here runs anything.

pub mod blocks;
pub mod persona;

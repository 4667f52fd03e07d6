//! The agent loop with a model: a model takes a turn, the gate runs its calls, and the results go into the next turn.
//!
//! A model's output is data. The gate decides what may happen; nothing in this crate runs a tool by itself.
//!
//! - [`agent_loop`]: The loop: a turn, its calls, the next turn.
//! - [`model_turn`]: A turn as a call of the tool `model_turn`, and the ids of turns and calls.
//! - [`conversation`]: A conversation, read from the audit log, and what comes next in it.
//! - [`deferred_tools`]: Which tools are sent to a model, if there are many.
//! - [`limits`]: Limits on turns, tokens, money, time and repeated failures.
//! - [`history`]: A conversation as messages, in Markdown, HTML or JSON.
//! - [`model`]: The trait for a model, and turns as plain data.
//! - [`provider`]: Models over HTTP: OpenAI, Anthropic, Gemini and Ollama.
//! - [`tool_blocks`]: Reads tool calls from fenced blocks in a stream of text.
//! - [`tool_block_adapter`]: Tool calls for a model that has none, by tool blocks.
//! - [`persona`]: Personas (TOML) and their system prompts.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(feature = "agent")]
pub mod agent_loop;
#[cfg(feature = "agent")]
pub mod conversation;
#[cfg(feature = "agent")]
pub mod deferred_tools;
#[cfg(feature = "agent")]
pub mod history;
#[cfg(feature = "agent")]
pub mod limits;
#[cfg(feature = "agent")]
pub mod model;
#[cfg(feature = "agent")]
pub mod model_challenger;
#[cfg(feature = "agent")]
pub mod model_turn;
#[cfg(feature = "agent")]
pub mod persona;
#[cfg(feature = "agent")]
pub mod provider;
#[cfg(feature = "agent")]
pub mod tool_block_adapter;
pub mod tool_blocks;

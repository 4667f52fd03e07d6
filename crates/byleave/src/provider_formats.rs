//! The forms in which models and protocols want tools and results: OpenAI, Anthropic, Gemini, MCP (T9, L2).
//!
//! Only translates. What a form cannot say is left out of what the model is told, never out of what is checked.

mod gemini;
mod results;
mod schemas;

pub use results::{
    ToolReport, anthropic_messages, gemini_messages, mcp_result, openai_messages, result_json, result_text,
};
pub use schemas::{FormatError, ProviderFormat, schema, schemas};

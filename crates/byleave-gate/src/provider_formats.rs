//! Converts tools and results to the formats of models and protocols: OpenAI, Anthropic, Gemini, MCP (T9, L2).
//!
//! It only translates. Constraints that a format cannot express are omitted for the model, but never omitted from validation.

mod gemini;
mod results;
mod schemas;

pub use results::{
    ToolReport, anthropic_messages, gemini_messages, mcp_result, openai_messages, result_json, result_text,
};
pub use schemas::{FormatError, ProviderFormat, schema, schemas};

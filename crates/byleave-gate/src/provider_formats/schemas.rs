//! Converts tool schemas to the formats of models (T9).

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::gemini;
use crate::catalog::CatalogEntry;
use crate::tool::ToolContext;

/// The format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderFormat {
    /// Function calling of OpenAI and compatible providers.
    OpenAi,
    /// Tools of Anthropic.
    Anthropic,
    /// An entry of `functionDeclarations` of Gemini.
    Gemini,
    /// A tool of the Model Context Protocol.
    Mcp,
}

impl ProviderFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Mcp];

    fn accepts_name(self, name: &str) -> bool {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let first_letter = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match self {
            Self::OpenAi | Self::Anthropic => (1..=64).contains(&name.len()) && name.chars().all(word),
            // The documentation says 63 in one place and 64 in others.
            Self::Gemini => {
                first_letter && name.len() <= 63 && name.chars().all(|c| word(c) || c == '.' || c == ':')
            }
            // Every name that can be registered is valid here.
            Self::Mcp => true,
        }
    }

    const fn name_rule(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "1 to 64 letters, digits, `_` and `-`",
            Self::Gemini => "1 to 63 letters, digits, `_`, `-`, `.` and `:`, a letter or `_` first",
            Self::Mcp => "any name",
        }
    }
}

impl fmt::Display for ProviderFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Gemini",
            Self::Mcp => "MCP",
        })
    }
}

/// The reason why a tool cannot be converted to a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The provider does not accept the name.
    #[error("{format} does not accept the name `{tool}`: it accepts {}; register the tool under another name", format.name_rule())]
    Name {
        /// The format.
        format: ProviderFormat,
        /// The tool.
        tool: String,
    },
    /// The schema has an alternative at its top level, but the provider accepts only a plain object there.
    #[error(
        "{format} does not accept the schema of `{tool}`: it has `{keyword}` at the top level; move it into a property"
    )]
    TopLevelAlternative {
        /// The format.
        format: ProviderFormat,
        /// The tool.
        tool: String,
        /// The keyword at its top level.
        keyword: &'static str,
    },
    /// The schema is too large after expanding its references.
    #[error(
        "the schema of `{tool}` is too large for {format}, which does not support references; make it simpler"
    )]
    TooLarge {
        /// The format.
        format: ProviderFormat,
        /// The tool.
        tool: String,
    },
}

/// Converts tools to a format. Use `catalog.list()` for all tools, or `catalog.filter(names)` for an allowed set.
pub fn schemas(
    form: ProviderFormat,
    entries: &[Arc<CatalogEntry>],
    site: &ToolContext,
) -> Result<Vec<Value>, FormatError> {
    entries.iter().map(|entry| schema(form, entry, site)).collect()
}

/// Converts one tool to a format.
pub fn schema(form: ProviderFormat, entry: &CatalogEntry, site: &ToolContext) -> Result<Value, FormatError> {
    let name = entry.name();
    if !form.accepts_name(name) {
        return Err(FormatError::Name { format: form, tool: name.into() });
    }
    let description = entry.describe(site);
    Ok(match form {
        ProviderFormat::OpenAi => {
            let parameters = plain_object(form, entry)?;
            json!({
                "type": "function",
                "function": { "name": name, "description": description, "parameters": parameters },
            })
        }
        ProviderFormat::Anthropic => {
            let input_schema = plain_object(form, entry)?;
            json!({ "name": name, "description": description, "input_schema": input_schema })
        }
        ProviderFormat::Gemini => {
            let too_large =
                |gemini::SchemaTooLargeError| FormatError::TooLarge { format: form, tool: name.into() };
            let mut declaration = Map::new();
            declaration.insert("name".into(), name.into());
            declaration.insert("description".into(), description.into());
            let parameters = gemini::parameters(&entry.manifest().offered_schema()).map_err(too_large)?;
            // An object without fields is rejected, but a function without parameters is accepted.
            if let Some(parameters) = parameters {
                declaration.insert("parameters".into(), parameters);
            }
            Value::Object(declaration)
        }
        ProviderFormat::Mcp => mcp(entry, &description),
    })
}

/// Returns the schema as an object with properties, which these providers require.
fn plain_object(form: ProviderFormat, entry: &CatalogEntry) -> Result<Value, FormatError> {
    const NOT_AT_TOP: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "enum"];
    let schema = entry.manifest().offered_schema();
    if let Some(keyword) = NOT_AT_TOP.into_iter().find(|keyword| schema.get(keyword).is_some()) {
        return Err(FormatError::TopLevelAlternative { format: form, tool: entry.name().into(), keyword });
    }
    let mut schema = typed_object(&schema);
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    Ok(schema)
}

fn typed_object(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(fields) = &mut schema {
        // The schema may also allow other types, but arguments are always an object.
        fields.insert("type".into(), "object".into());
    }
    schema
}

fn mcp(entry: &CatalogEntry, description: &str) -> Value {
    let manifest = entry.manifest();
    let mut annotations = Map::new();
    annotations.insert("readOnlyHint".into(), manifest.read_only.into());
    annotations.insert("idempotentHint".into(), manifest.idempotent.into());
    // An undeclared hint is omitted. The protocol then treats the tool as destructive.
    if manifest.destructive || manifest.read_only {
        annotations.insert("destructiveHint".into(), manifest.destructive.into());
    }
    json!({
        "name": entry.name(),
        "description": description,
        "inputSchema": typed_object(&manifest.offered_schema()),
        "annotations": annotations,
    })
}

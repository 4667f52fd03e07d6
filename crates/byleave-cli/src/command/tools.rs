//! `byleave tools`: lists the tools, their manifests, and their definitions for models.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use byleave_gate::audit_log::sqlite;
use byleave_gate::catalog::CatalogEntry;
use byleave_gate::core::id::{AgentId, SessionId};
use byleave_gate::core::manifest::Manifest;
use byleave_gate::provider_formats;
use byleave_gate::provider_formats::ProviderFormat;
use byleave_gate::tool::ToolContext;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::app_context::AppContext;
use crate::call_display::table;
use crate::console::{Console, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::mcp_servers;
use crate::resolved_options::ResolvedOptions;
use crate::tool_catalog::catalog;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools (the default)
    List,
    /// Show the manifest of a tool
    Show {
        /// Tool
        name: String,
    },
    /// Print tool schemas in the format of a model provider
    Schema {
        /// Output format
        #[arg(long, value_enum)]
        format: ToolFormatArg,
        /// Tools [default: all]
        names: Vec<String>,
    },
    /// Search tools by name or description
    Search {
        /// Search words
        #[arg(required = true)]
        query: Vec<String>,
    },
}

/// The format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolFormatArg {
    Openai,
    Anthropic,
    Gemini,
    Mcp,
}

impl From<ToolFormatArg> for ProviderFormat {
    fn from(format: ToolFormatArg) -> Self {
        match format {
            ToolFormatArg::Openai => Self::OpenAi,
            ToolFormatArg::Anthropic => Self::Anthropic,
            ToolFormatArg::Gemini => Self::Gemini,
            ToolFormatArg::Mcp => Self::Mcp,
        }
    }
}

const FOUND_MAX: usize = 20;

pub(crate) async fn run(
    command: Option<ToolsCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let catalog = catalog(options, &options.cwd, None)?;
    // Accepted servers are noted beside the audit log, so without one there are none.
    let servers = match sqlite::has_audit_log(&options.state) {
        true => {
            Some(mcp_servers::attach(&catalog, &AppContext::open_to_read(options, None)?, options).await?)
        }
        false => None,
    };
    servers.iter().for_each(|servers| servers.print_problems(screen));
    match command.unwrap_or(ToolsCommand::List) {
        ToolsCommand::List => list(screen, &catalog.list()),
        ToolsCommand::Show { name } => show(screen, catalog.get(&name).map_err(CliError::from)?.manifest()),
        ToolsCommand::Search { query } => {
            let found = catalog.search(&query.join(" "), FOUND_MAX);
            if found.is_empty() && !screen.json() {
                screen.message("no tool matches");
            } else {
                list(screen, &found);
            }
        }
        ToolsCommand::Schema { format, names } => {
            let entries = if names.is_empty() {
                catalog.list()
            } else {
                catalog.filter(names).map_err(CliError::from)?
            };
            let site = ToolContext {
                tenant: options.tenant.clone(),
                session: SessionId::new("cli")?,
                agent: AgentId::new("cli")?,
                cwd: PathBuf::from(&options.cwd),
            };
            screen.value(&Value::Array(provider_formats::schemas(format.into(), &entries, &site)?));
        }
    }
    Ok(ExitStatus::Completed)
}

fn list(screen: &mut Console, entries: &[Arc<CatalogEntry>]) {
    if screen.json() {
        let tools = entries.iter().map(|entry| {
            json!({ "name": entry.name(), "description": entry.manifest().description, "digest": entry.digest() })
        });
        screen.value(&tools.collect());
        return;
    }
    let row = |entry: &Arc<CatalogEntry>| {
        let manifest = entry.manifest();
        let class = word(&json!(manifest.permission_class));
        vec![one_line(entry.name()), class, one_line(first_sentence(&manifest.description))]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
    table(screen, &["NAME", "CLASS", "DESCRIPTION"], &rows);
}

/// Returns the first sentence for a list. `show` prints the whole text.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

fn show(screen: &mut Console, manifest: &Manifest) {
    let all = json!(manifest);
    if screen.json() {
        screen.value(&all);
        return;
    }
    screen.title(&one_line(&manifest.name));
    screen.text(&manifest.description);
    screen.line("");
    for (name, value) in all.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "name" | "description" | "input_schema" | "audit_operation") {
            screen.line(&format!("  {:<26} {}", one_line(name), one_line(&word(value))));
        }
    }
    if manifest.sensitive.is_none() {
        screen.line(&format!("  {:<26} undeclared, treated as yes", "sensitive"));
    }
    screen.line(&format!("  {:<26} {}", "audit_operation", one_line(manifest.operation())));
    screen.line(&format!("  {:<26} {}", "digest", manifest.digest()));
    screen.line("");
    screen.line("arguments:");
    screen.value(&manifest.input_schema);
}

/// Formats a value as a word, if it is one.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => other.to_string(),
    }
}

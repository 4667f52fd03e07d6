//! `byleave agent persona`: lists personas and shows their prompts.

use anyhow::Result;
use byleave_agent::persona::{Persona, PersonaSource, ToolCallFormat, ToolDescription};
use byleave_agent::tool_block_adapter::ToolCallStyle;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::agent_setup::ToolCallStyleArg;
use crate::console::{Console, Tone, one_line, prose};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;
use crate::{agent_setup, tool_catalog};

#[derive(Debug, Subcommand)]
pub(crate) enum PersonaCommand {
    /// List the personas and their sources (the default)
    List,
    /// Show the system prompt of a persona
    Show {
        /// Name or file
        name: String,
        /// How the model calls tools
        #[arg(long, value_enum, default_value_t = ToolCallStyleArg::Native)]
        tool_calls: ToolCallStyleArg,
    },
    /// Print the prompt for a persona that a provider hosts
    ///
    /// Its tool calls are still evaluated and run on this machine.
    Export {
        /// Name or file
        name: String,
    },
}

pub(crate) fn run(
    command: Option<PersonaCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    match command.unwrap_or(PersonaCommand::List) {
        PersonaCommand::List => list(options, screen),
        PersonaCommand::Show { name, tool_calls } => {
            let calls = if ToolCallStyle::from(tool_calls) == ToolCallStyle::Blocks {
                ToolCallFormat::Blocks
            } else {
                ToolCallFormat::Native
            };
            let found = agent_setup::persona(&name, options)?;
            let persona = &found.persona;
            let prompt = match &persona.hosted {
                Some(_) => None,
                None => Some(persona.system_prompt(&described(options)?, calls)),
            };
            if screen.json() {
                screen.value(&json!({
                    "persona": found.key, "name": persona.name, "description": persona.description,
                    "model": persona.model.as_ref().map(ToString::to_string),
                    "hosted": persona.hosted.as_ref().map(ToString::to_string), "tools": persona.tools,
                    "origin": origin(&found.origin), "prompt": prompt,
                }));
            } else if let Some(prompt) = prompt {
                screen.text(&prompt);
            } else {
                screen.message("the provider hosts this persona, so byleave sends no system prompt");
                screen.hint("`byleave agent persona export` prints the prompt to enter at the provider");
            }
            Ok(ExitStatus::Completed)
        }
        PersonaCommand::Export { name } => {
            let found = agent_setup::persona(&name, options)?;
            let prompt = found.persona.export(&described(options)?);
            if screen.json() {
                screen.value(&json!({ "persona": found.key, "prompt": prompt }));
            } else {
                screen.text(&prompt);
            }
            Ok(ExitStatus::Completed)
        }
    }
}

fn list(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let all = Persona::load_all(agent_setup::personas(options).as_deref())?;
    let mut status = ExitStatus::Completed;
    let mut values = Vec::new();
    for found in all {
        match found {
            Ok(found) if screen.json() => values.push(json!({
                "persona": found.key, "name": found.persona.name, "description": found.persona.description,
                "origin": origin(&found.origin),
            })),
            Ok(found) => {
                let from = match &found.origin {
                    PersonaSource::Builtin => String::new(),
                    PersonaSource::File(path) => format!(" ({})", path.display()),
                };
                let line = format!("{:<10} {}{from}", found.key, found.persona.description);
                screen.line(&one_line(&line));
            }
            Err(fault) => {
                status = ExitStatus::Failed;
                screen.message_with_tone(Tone::Bad, "error:", &prose(&fault.to_string()));
            }
        }
    }
    if screen.json() {
        screen.value(&Value::Array(values));
    }
    Ok(status)
}

fn origin(origin: &PersonaSource) -> Value {
    match origin {
        PersonaSource::Builtin => json!("built in"),
        PersonaSource::File(path) => json!(path.to_string_lossy()),
    }
}

/// Returns the descriptions of the available tools for a model.
fn described(options: &ResolvedOptions) -> Result<Vec<ToolDescription>> {
    let catalog = tool_catalog::catalog(&options.for_models(), &options.cwd, None)?;
    Ok(catalog.list().iter().map(|entry| ToolDescription::from(entry.manifest())).collect())
}

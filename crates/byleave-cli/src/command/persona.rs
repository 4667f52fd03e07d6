//! `byleave persona`: who a model can be, and what it is told.

use anyhow::Result;
use byleave_agent::by_blocks::Calling;
use byleave_agent::persona::{Calls, Described, Origin, Persona};
use serde_json::{Value, json};

use crate::args::Personas;
use crate::options::Options;
use crate::screen::{Screen, Tone, one_line, prose};
use crate::status::Status;
use crate::talk;
use crate::tools;

pub(crate) fn run(command: Option<Personas>, options: &Options, screen: &mut Screen) -> Result<Status> {
    match command.unwrap_or(Personas::List) {
        Personas::List => list(options, screen),
        Personas::Show { name, calling } => {
            let calls = if Calling::from(calling) == Calling::Blocks { Calls::Blocks } else { Calls::Native };
            let found = talk::persona(&name, options)?;
            let prompt = found.persona.prompt(&described(options)?, calls);
            if screen.json() {
                let (persona, origin) = (&found.persona, origin(&found.origin));
                screen.value(&json!({
                    "persona": found.key, "name": persona.name, "description": persona.description,
                    "model": persona.model.as_ref().map(ToString::to_string), "tools": persona.tools, "origin": origin,
                    "prompt": prompt,
                }));
            } else {
                screen.text(&prompt);
            }
            Ok(Status::Completed)
        }
        Personas::Export { name } => {
            let found = talk::persona(&name, options)?;
            let prompt = found.persona.export(&described(options)?);
            if screen.json() {
                screen.value(&json!({ "persona": found.key, "prompt": prompt }));
            } else {
                screen.text(&prompt);
            }
            Ok(Status::Completed)
        }
    }
}

fn list(options: &Options, screen: &mut Screen) -> Result<Status> {
    let all = Persona::all(talk::personas(options).as_deref())?;
    let mut status = Status::Completed;
    let mut values = Vec::new();
    for found in all {
        match found {
            Ok(found) if screen.json() => values.push(json!({
                "persona": found.key, "name": found.persona.name, "description": found.persona.description,
                "origin": origin(&found.origin),
            })),
            Ok(found) => {
                let from = match &found.origin {
                    Origin::Builtin => String::new(),
                    Origin::File(path) => format!(" ({})", path.display()),
                };
                let line = format!("{:<10} {}{from}", found.key, found.persona.description);
                screen.line(&one_line(&line));
            }
            Err(fault) => {
                status = Status::Failed;
                screen.toned(Tone::Bad, "error:", &prose(&fault.to_string()));
            }
        }
    }
    if screen.json() {
        screen.value(&Value::Array(values));
    }
    Ok(status)
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Builtin => json!("built in"),
        Origin::File(path) => json!(path.to_string_lossy()),
    }
}

/// The tools that are here, as a model is told of them.
fn described(options: &Options) -> Result<Vec<Described>> {
    let catalog = tools::catalog(options, &options.cwd, None)?;
    Ok(catalog.list().iter().map(|entry| Described::from(entry.manifest())).collect())
}

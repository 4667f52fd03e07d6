//! `byleave mcp wrap`: the gate in front of one server, whose names stay as they are.

use anyhow::Result;
use byleave_mcp::gateway::Names;
use byleave_mcp::upstream::definition::{Definition, Launch, ServerName};

use super::{add, serve};
use crate::args::Wrap;
use crate::complaint::Complaint;
use crate::options::{Options, text_of};
use crate::screen::Screen;
use crate::servers;
use crate::status::Status;

pub(super) async fn run(typed: Wrap, options: &Options, screen: &mut Screen) -> Result<Status> {
    let words: Vec<String> =
        typed.command.iter().map(|word| text_of(word.as_ref())).collect::<Result<_>>()?;
    let (command, args) = words.split_first().ok_or_else(|| Complaint::new("there is no command"))?;
    let name = match typed.name {
        Some(name) => ServerName::new(name).map_err(|no| Complaint::new(no.to_string()))?,
        None => servers::name_of(command)?,
    };
    let launch =
        Launch::Child { command: command.clone(), args: args.to_vec(), env: Default::default(), cwd: None };
    let mut definition = Definition::new(name.clone(), launch);
    definition.profile = add::profile(typed.profile, options);
    definition.sampling = typed.sampling;
    // Whoever typed the command wants it started. What it offers is taken as it is the first time, and pinned: what changes
    // afterwards is asked about.
    let first = servers::pins(options).of(&name)?.tools.is_empty();
    serve::with(typed.gateway, vec![definition], Names::Theirs, first, options, screen).await
}

//! The MCP servers of the person: what their file says, and what they run in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use byleave::gate::Gate;
use byleave_mcp::exchange::Exchange;
use byleave_mcp::upstream::definition::{Definition, ServerName};
use byleave_mcp::upstream::pins::Pins;
use byleave_mcp::upstream::tokens::Logins;
use byleave_mcp::upstream::{Asking, Ground, Upstream, file};

use crate::complaint::Complaint;
use crate::house::House;
use crate::options::Options;
use crate::replace;
use crate::servers_file::FILE;
use crate::tools;

/// Where the servers are written down.
pub(crate) fn path(options: &Options) -> Result<PathBuf> {
    let nowhere = || Complaint::new("there is no directory for your settings").hint("set HOME");
    Ok(Path::new(options.config.as_ref().ok_or_else(nowhere)?).join(FILE))
}

/// All servers, by name.
pub(crate) fn all(options: &Options) -> Result<Vec<Definition>> {
    let path = path(options)?;
    let text = replace::text(&path)?.unwrap_or_default();
    let read = file::read(&text);
    Ok(read.map_err(|bad| {
        Complaint::new(format!("cannot use `{}`: {bad}", path.display()))
            .hint("mend the line, or take the server out")
    })?)
}

/// One server.
pub(crate) fn named(options: &Options, name: &str) -> Result<Definition> {
    let found = all(options)?.into_iter().find(|server| server.name.as_str() == name);
    let missing = || {
        Complaint::new(format!("there is no server `{}`", name.escape_debug()))
            .hint("`byleave mcp list` lists them; `byleave mcp add NAME -- COMMAND` adds one")
    };
    Ok(found.ok_or_else(missing)?)
}

/// What was accepted of servers.
pub(crate) fn pins(options: &Options) -> Pins {
    Pins::beside(&options.state)
}

/// The person's logins at servers.
pub(crate) fn logins(options: &Options) -> Logins {
    Logins::beside(&options.state)
}

/// These servers behind a gate, none of them started.
pub(crate) fn behind(
    gate: &Gate,
    house: &House,
    exchange: &Exchange,
    definitions: Vec<Definition>,
    options: &Options,
) -> Result<Upstream> {
    let ground = ground(house, options)?;
    Ok(Upstream::new(definitions, &ground, pins(options), exchange, gate.catalog().clone())?)
}

/// On whose behalf servers are accepted.
pub(crate) fn asking(options: &Options) -> Asking {
    Asking { tenant: options.tenant.clone(), cwd: options.cwd.clone() }
}

/// The name that a server gets which nobody gave one.
pub(crate) fn name_of(command: &str) -> Result<ServerName> {
    let program = command.rsplit('/').next().unwrap_or(command);
    let name = crate::servers_file::named(program).unwrap_or_else(|| "server".into());
    Ok(ServerName::new(name)?)
}

fn ground(house: &House, options: &Options) -> Result<Ground> {
    let state = options.state.canonicalize().unwrap_or_else(|_| options.state.clone());
    let config = options.config.as_ref().map(PathBuf::from);
    Ok(Ground {
        workspace: PathBuf::from(&options.cwd),
        home: options.home.as_ref().map(PathBuf::from),
        unfinished: Some(tools::unfinished(&state)),
        ours: std::iter::once(state).chain(config).collect(),
        homes: options.cache().join("byleave").join("mcp"),
        environment: std::env::vars().collect(),
        rules: Arc::new(house.policy(options, &options.cwd)?),
        logins: logins(options),
        waived: options.waived.clone(),
        bare: false,
    })
}

//! `byleave mcp add` and `remove`: which servers there are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use byleave_mcp::upstream::definition::{Access, Definition, Launch, Profile, ServerName};
use byleave_mcp::upstream::file;
use serde_json::json;

use super::list;
use crate::args::{self, AddServer, ProfileArgs};
use crate::complaint::Complaint;
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;
use crate::{replace, servers, servers_file};

pub(super) fn run(typed: AddServer, options: &Options, screen: &mut Screen) -> Result<Status> {
    let definition = defined(typed, options)?;
    if servers::all(options)?.contains(&definition) {
        return told(&definition, options, screen);
    }
    let path = replace::target(&servers::path(options)?)?;
    let old = replace::text(&path)?;
    let text = servers_file::add_whole(old.as_deref().unwrap_or_default(), &definition).map_err(|fault| {
        Complaint::new(fault.to_string())
            .hint("`byleave mcp remove NAME` makes room, `byleave mcp show NAME` shows what is there")
    })?;
    // What cannot be read back is not written: the next start would stop at it.
    let read = file::read(&text).map_err(|bad| Complaint::new(bad.to_string()))?;
    if !read.contains(&definition) {
        return Err(Complaint::new("the server cannot be written down as it was typed").into());
    }
    replace::replace(&path, old.as_deref(), &text)?;
    told(&definition, options, screen)
}

pub(super) fn remove(name: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let definition = servers::named(options, name)?;
    let path = replace::target(&servers::path(options)?)?;
    let old = replace::text(&path)?;
    let text = servers_file::remove(old.as_deref().unwrap_or_default(), name)
        .map_err(|fault| Complaint::new(fault.to_string()).hint("take it out of the file by hand"))?;
    replace::replace(&path, old.as_deref(), &text)?;
    servers::pins(options).forget(&definition.name)?;
    servers::logins(options).forget(&definition.name)?;
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "removed": true }));
    } else {
        screen.line(&format!(
            "server {} is removed, and what was accepted of it is forgotten",
            definition.name
        ));
    }
    Ok(Status::Completed)
}

fn told(definition: &Definition, options: &Options, screen: &mut Screen) -> Result<Status> {
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "added": true }));
        return Ok(Status::Completed);
    }
    let pinned = servers::pins(options).of(&definition.name)?;
    list::tell(definition, &pinned, &servers::logins(options).of(definition)?, screen);
    if pinned.tools.is_empty() {
        screen.say(&format!("not started yet: `byleave mcp trust {}` looks at it with you", definition.name));
    }
    Ok(Status::Completed)
}

/// What a server may touch, as it was typed.
pub(super) fn profile(typed: ProfileArgs, options: &Options) -> Profile {
    let absolute =
        |paths: Vec<PathBuf>| paths.into_iter().map(|path| PathBuf::from(&options.cwd).join(path)).collect();
    Profile {
        workspace: match typed.workspace {
            args::Access::None => Access::None,
            args::Access::Read => Access::Read,
            args::Access::Write => Access::Write,
        },
        read: absolute(typed.read),
        write: absolute(typed.write),
        reach: typed.reach,
        unconfined: typed.unconfined,
    }
}

fn defined(typed: AddServer, options: &Options) -> Result<Definition> {
    let name = ServerName::new(typed.name).map_err(|no| Complaint::new(no.to_string()))?;
    let launch = match (typed.url, typed.command.split_first()) {
        (Some(url), _) => Launch::Http { url, headers: pairs(typed.headers)? },
        (None, Some((command, args))) => {
            Launch::Child { command: command.clone(), args: args.to_vec(), env: pairs(typed.env)?, cwd: None }
        }
        (None, None) => return Err(Complaint::new("nothing says how the server is started").into()),
    };
    let mut definition = Definition::new(name, launch);
    definition.profile = profile(typed.profile, options);
    definition.trusted = typed.trusted;
    Ok(definition)
}

/// `NAME=VALUE`, or `NAME` for the person's own.
fn pairs(typed: Vec<String>) -> Result<BTreeMap<String, String>> {
    let pair = |word: String| match word.split_once('=') {
        Some(("", _)) => Err(Complaint::new(format!("`{word}` has no name")).into()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Ok((word.clone(), format!("${{{word}}}"))),
    };
    typed.into_iter().map(pair).collect()
}

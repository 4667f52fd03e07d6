//! `byleave mcp list` and `show`: the servers as they are written down, and what was accepted of them. Starts none.

use anyhow::Result;
use byleave_mcp::upstream::definition::{Access, Definition, Launch};
use byleave_mcp::upstream::pins::Pinned;
use serde_json::{Value, json};

use crate::options::Options;
use crate::screen::{Screen, Tone, many_lines, one_line, prose};
use crate::servers;
use crate::status::Status;

pub(super) fn run(options: &Options, screen: &mut Screen) -> Result<Status> {
    let (all, pins) = (servers::all(options)?, servers::pins(options));
    let mut values = Vec::new();
    if all.is_empty() && !screen.json() {
        screen.say("no server is behind the gate; `byleave mcp add NAME -- COMMAND` adds one, `byleave init` moves those of an agent");
    }
    for server in &all {
        let pinned = pins.of(&server.name)?;
        if screen.json() {
            values.push(value(server, &pinned));
        } else {
            screen.line(&prose(&format!(
                "{:<20} {:<14} {}",
                server.name.as_str(),
                accepted(server, &pinned),
                launched(server)
            )));
        }
    }
    if screen.json() {
        screen.value(&Value::Array(values));
    }
    Ok(Status::Completed)
}

pub(super) fn show(name: &str, options: &Options, screen: &mut Screen) -> Result<Status> {
    let server = servers::named(options, name)?;
    let pinned = servers::pins(options).of(&server.name)?;
    if screen.json() {
        screen.value(&value(&server, &pinned));
    } else {
        tell(&server, &pinned, screen);
    }
    Ok(Status::Completed)
}

/// A server in full. Values of variables and headers are secrets more often than not; their names are shown.
pub(super) fn tell(server: &Definition, pinned: &Pinned, screen: &mut Screen) {
    screen.title(&format!("server {}: {}", server.name, accepted(server, pinned)));
    screen.line(&prose(&format!("  started by   {}", launched(server))));
    let names: Vec<&str> = match &server.launch {
        Launch::Child { env, .. } => env.keys().map(String::as_str).collect(),
        Launch::Http { headers, .. } => headers.keys().map(String::as_str).collect(),
    };
    if !names.is_empty() {
        screen.line(&prose(&format!("  given        {}", names.join(", "))));
    }
    let profile = &server.profile;
    if profile.unconfined {
        screen.toned(Tone::Careful, "  unconfined", "it runs outside the sandbox, with all that you can do");
    } else if matches!(server.launch, Launch::Child { .. }) {
        let workspace = match profile.workspace {
            Access::None => "nothing of the workspace",
            Access::Read => "the workspace, to read",
            Access::Write => "the workspace, to read and write",
        };
        screen.line(&format!("  may touch    {workspace}"));
        for (word, paths) in [("reads", &profile.read), ("writes", &profile.write)] {
            for path in paths {
                screen.line(&prose(&format!("  {word:<12} {}", path.display())));
            }
        }
        let reach = if profile.reach.is_empty() { "no host".into() } else { profile.reach.join(", ") };
        screen.line(&prose(&format!("  reaches      {reach}")));
    }
    if server.trusted {
        screen.line("  trusted      where it says that a tool only reads, that counts");
    }
    if server.is_unpinned() {
        screen.toned(
            Tone::Careful,
            "  not pinned",
            "no exact version is named, so another program may run tomorrow: you are asked at every start",
        );
    }
    for (tool, pin) in &pinned.tools {
        let described = pin.definition.get("description").and_then(Value::as_str).unwrap_or_default();
        let first = many_lines(described).into_iter().next().unwrap_or_default();
        screen.line(&format!("  tool         {:<24} {first}", one_line(tool)));
    }
}

fn accepted(server: &Definition, pinned: &Pinned) -> String {
    let same = pinned.launch.as_ref().is_some_and(|pin| pin.definition == server.digest().to_string());
    match (&pinned.launch, same, pinned.tools.len()) {
        (None, ..) => "not accepted".into(),
        (Some(_), false, _) => "changed".into(),
        (Some(_), true, tools) => format!("{tools} accepted"),
    }
}

fn launched(server: &Definition) -> String {
    match &server.launch {
        Launch::Child { command, args, .. } => {
            std::iter::once(command).chain(args).map(|word| one_line(word)).collect::<Vec<_>>().join(" ")
        }
        Launch::Http { url, .. } => one_line(url),
    }
}

fn value(server: &Definition, pinned: &Pinned) -> Value {
    let launch = match &server.launch {
        Launch::Child { command, args, env, cwd } => {
            json!({ "command": command, "args": args, "env": env.keys().collect::<Vec<_>>(), "cwd": cwd })
        }
        Launch::Http { url, headers } => json!({ "url": url, "headers": headers.keys().collect::<Vec<_>>() }),
    };
    json!({
        "server": server.name,
        "launch": launch,
        "profile": server.profile,
        "trusted": server.trusted,
        "pinned_version": !server.is_unpinned(),
        "state": accepted(server, pinned),
        "tools": pinned.tools.iter().map(|(name, pin)| json!({ "name": name, "digest": pin.digest })).collect::<Vec<_>>(),
        "from": server.from,
    })
}

//! `byleave mcp list` and `show`: the configured servers and their accepted pins. They start no server.

use anyhow::Result;
use byleave_mcp::upstream::login_store::LoginStatus;
use byleave_mcp::upstream::pins::ServerPin;
use byleave_mcp::upstream::server_definition::{DirectoryAccess, Launch, ServerDefinition};
use serde_json::{Value, json};

use crate::call_display::table;
use crate::console::{Console, Tone, many_lines, one_line, prose};
use crate::exit_status::ExitStatus;
use crate::mcp_servers;
use crate::resolved_options::ResolvedOptions;

pub(super) fn run(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let (all, pins, logins) =
        (mcp_servers::all(options)?, mcp_servers::pins(options), mcp_servers::logins(options));
    let (mut values, mut rows) = (Vec::new(), Vec::new());
    for server in &all {
        let (pinned, login) = (pins.get(&server.name)?, logins.status(server)?);
        values.push(value(server, &pinned, &login));
        let login = logged_in(server, &login).map(|login| format!("  ({login})")).unwrap_or_default();
        let launched = format!("{}{login}", launched(server));
        rows.push(vec![server.name.as_str().to_owned(), accepted(server, &pinned), launched]);
    }
    if screen.json() {
        screen.value(&Value::Array(values));
    } else if rows.is_empty() {
        screen.message(
            "there are no servers behind the gate; `byleave mcp add NAME -- COMMAND` adds one, \
            `byleave init` moves those of an agent",
        );
    } else {
        table(screen, &["SERVER", "STATE", "STARTED BY"], &rows);
    }
    Ok(ExitStatus::Completed)
}

pub(super) fn show(name: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let server = mcp_servers::find(options, name)?;
    let pinned = mcp_servers::pins(options).get(&server.name)?;
    let login = mcp_servers::logins(options).status(&server)?;
    if screen.json() {
        screen.value(&value(&server, &pinned, &login));
    } else {
        print_server(&server, &pinned, &login, screen);
    }
    Ok(ExitStatus::Completed)
}

/// Shows a server in full. Only the names of variables and headers are shown, because their values are often secrets.
pub(super) fn print_server(
    server: &ServerDefinition,
    pinned: &ServerPin,
    login: &LoginStatus,
    screen: &mut Console,
) {
    screen.title(&format!("server {}: {}", server.name, accepted(server, pinned)));
    screen.line(&prose(&format!("  started by   {}", launched(server))));
    let names: Vec<&str> = match &server.launch {
        Launch::Child { env, .. } => env.keys().map(String::as_str).collect(),
        Launch::Http { headers, .. } => headers.keys().map(String::as_str).collect(),
    };
    if !names.is_empty() {
        screen.line(&prose(&format!("  given        {}", names.join(", "))));
    }
    if let Some(login) = logged_in(server, login) {
        screen.line(&prose(&format!("  login        {login}")));
    }
    let profile = &server.profile;
    if profile.unconfined {
        screen.message_with_tone(
            Tone::Careful,
            "  unconfined",
            "the server runs outside the sandbox, with all your permissions",
        );
    } else if matches!(server.launch, Launch::Child { .. }) {
        let workspace = match profile.workspace {
            DirectoryAccess::None => "nothing of the workspace",
            DirectoryAccess::Read => "the workspace, to read",
            DirectoryAccess::Write => "the workspace, to read and write",
        };
        screen.line(&format!("  may touch    {workspace}"));
        for (word, paths) in [("reads", &profile.read), ("writes", &profile.write)] {
            for path in paths {
                screen.line(&prose(&format!("  {word:<12} {}", path.display())));
            }
        }
        let reach = if profile.hosts.is_empty() { "no host".into() } else { profile.hosts.join(", ") };
        screen.line(&prose(&format!("  reaches      {reach}")));
    }
    if server.trusted {
        screen.line("  trusted      byleave believes it if it says that a tool only reads");
    }
    if server.is_unpinned() {
        screen.message_with_tone(
            Tone::Careful,
            "  not pinned",
            "no exact version is set, so another program may run tomorrow: you are asked at every start",
        );
    }
    for (tool, pin) in &pinned.tools {
        let described = pin.definition.get("description").and_then(Value::as_str).unwrap_or_default();
        let first = many_lines(described).into_iter().next().unwrap_or_default();
        screen.line(&format!("  tool         {:<24} {first}", one_line(tool)));
    }
}

fn accepted(server: &ServerDefinition, pinned: &ServerPin) -> String {
    let same = pinned.launch.as_ref().is_some_and(|pin| pin.definition == server.launch_digest().to_string());
    match (&pinned.launch, same, pinned.tools.len()) {
        (None, ..) => "not accepted".into(),
        (Some(_), false, _) => "changed".into(),
        (Some(_), true, tools) => format!("{tools} accepted"),
    }
}

fn launched(server: &ServerDefinition) -> String {
    match &server.launch {
        Launch::Child { command, args, .. } => {
            std::iter::once(command).chain(args).map(|word| one_line(word)).collect::<Vec<_>>().join(" ")
        }
        Launch::Http { url, .. } => one_line(url),
    }
}

/// Describes the login status at a server, if there is any.
fn logged_in(server: &ServerDefinition, login: &LoginStatus) -> Option<String> {
    match login {
        LoginStatus::NotNeeded => None,
        LoginStatus::Needed => Some(format!("needs `byleave mcp login {}`", server.name)),
        LoginStatus::LoggedIn { issuer } => Some(format!("logged in at {}", one_line(issuer))),
    }
}

fn value(server: &ServerDefinition, pinned: &ServerPin, login: &LoginStatus) -> Value {
    let login = match login {
        LoginStatus::NotNeeded => json!({ "state": "none" }),
        LoginStatus::Needed => json!({ "state": "needed" }),
        LoginStatus::LoggedIn { issuer } => json!({ "state": "at", "issuer": issuer }),
    };
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
        "login": login,
        "tools": pinned.tools.iter().map(|(name, pin)| json!({ "name": name, "digest": pin.digest })).collect::<Vec<_>>(),
        "from": server.from,
    })
}

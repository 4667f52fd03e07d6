//! Converts the MCP servers in agents' settings to Byleave's definitions, as far as possible.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byleave_hook::AgentKind;
use byleave_mcp::upstream::server_definition::Launch;
use serde_json::{Map, Value};

use crate::mcp_config_file::ServerEntry;

/// A server that can be moved behind the gateway.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MovableServer {
    pub(crate) entry: ServerEntry,
    /// Notes about parts that are not carried over, or need a person.
    pub(crate) notes: Vec<String>,
}

/// The reason why a server stays in the agent's settings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotMovable {
    /// It is the agent's own or switched off, so there is nothing to govern.
    Harmless,
    /// Byleave cannot speak to it. It stays ungoverned.
    Ungoverned(String),
}

/// Fields that do not say how a server is reached: timeouts, names, and permissions, which Byleave decides itself.
const DROPPED: [&str; 23] = [
    "type",
    "name",
    "display_name",
    "description",
    "enabled",
    "disabled",
    "bundled",
    "timeout",
    "trust",
    "alwaysAllow",
    "autoApprove",
    "alwaysLoad",
    "required",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "default_tools_approval_mode",
    "source",
    "gallery",
    "version",
    "icon",
    "id",
    "enabled_in_cli",
];

/// Converts a server to a definition. `base` is the project that it belongs to; relative paths start there.
pub(crate) fn parse_server(
    agent: AgentKind,
    entry: &Value,
    base: Option<&Path>,
) -> Result<MovableServer, NotMovable> {
    let fields =
        entry.as_object().ok_or_else(|| NotMovable::Ungoverned("the entry is not a table".to_owned()))?;
    let kind = text(fields, "type").unwrap_or_default();
    let is_off = fields.get("enabled") == Some(&Value::Bool(false))
        || fields.get("disabled") == Some(&Value::Bool(true));
    if is_off || agent == AgentKind::Goose && !["stdio", "sse", "streamable_http"].contains(&kind.as_str()) {
        return Err(NotMovable::Harmless);
    }
    let mut used: Vec<&str> = Vec::new();
    let mut notes = Vec::new();
    let mut first = |names: &[&'static str]| -> Option<String> {
        let name = names.iter().find(|name| fields.contains_key(**name))?;
        used.push(name);
        text(fields, name)
    };
    let command = first(&["command", "cmd"]);
    let streamable = first(&["httpUrl"]);
    let url = first(&["url", "uri", "serverUrl"]);
    let cwd = first(&["cwd"]);
    let is_old = kind == "sse" || agent == AgentKind::Gemini && streamable.is_none() && kind != "http";
    let launch = match (command, streamable.or(url)) {
        (Some(command), None) => {
            used.extend(["args", "env", "envs", "env_keys", "env_vars"]);
            let cwd = cwd.map(PathBuf::from).or_else(|| base.map(Path::to_owned));
            Launch::Child {
                command: referred(agent, &command),
                args: args(agent, fields),
                env: environment(agent, fields, &mut notes),
                cwd,
            }
        }
        (None, Some(_)) if is_old => {
            return Err(NotMovable::Ungoverned(
                "the server uses the old HTTP+SSE transport, which the gateway does not support".to_owned(),
            ));
        }
        (None, Some(url)) => {
            used.extend(["headers", "http_headers", "env_http_headers", "bearer_token_env_var"]);
            Launch::Http { url: referred(agent, &url), headers: headers(agent, fields) }
        }
        _ => {
            return Err(NotMovable::Ungoverned(
                "the entry has neither one command nor one address".to_owned(),
            ));
        }
    };
    if fields.get("tools").and_then(Value::as_array).is_none_or(|tools| *tools == ["*"]) {
        used.push("tools");
    }
    let is_lost = |key: &&String| !used.contains(&key.as_str()) && !DROPPED.contains(&key.as_str());
    let lost: Vec<String> = fields.keys().filter(is_lost).map(|key| format!("`{key}`")).collect();
    if !lost.is_empty() {
        notes.push(format!("not carried over: {}", lost.join(", ")));
    }
    if values(&launch).any(|value| value.contains(":-") && value.contains("${") || value.contains("${input:"))
    {
        notes.push(
            "the entry has a `${..}` that byleave does not expand: write the value, or `${NAME}`".to_owned(),
        );
    }
    if let Some(hosts) = program_registry(&launch) {
        let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        notes.push(format!(
            "its program is downloaded at the start, and a server has no network: write `reach = [{}]` into its section of `mcp.toml`",
            hosts.join(", ")
        ));
    }
    Ok(MovableServer { entry: ServerEntry { launch, from: Some(agent.name().to_owned()) }, notes })
}

/// Returns the hosts from which a command downloads the server that it starts.
fn program_registry(launch: &Launch) -> Option<&'static [&'static str]> {
    let Launch::Child { command, args, .. } = launch else { return None };
    let program = Path::new(command).file_name()?.to_str()?;
    let first = args.first().map(String::as_str).unwrap_or_default();
    match program {
        "npx" | "bunx" | "pnpx" => Some(&["registry.npmjs.org"]),
        "npm" | "pnpm" | "bun" if ["exec", "x", "dlx"].contains(&first) => Some(&["registry.npmjs.org"]),
        "yarn" if first == "dlx" => Some(&["registry.yarnpkg.com", "registry.npmjs.org"]),
        "uvx" => Some(&["pypi.org", "files.pythonhosted.org"]),
        "uv" | "pipx" if ["tool", "run"].contains(&first) => Some(&["pypi.org", "files.pythonhosted.org"]),
        _ => None,
    }
}

fn args(agent: AgentKind, fields: &Map<String, Value>) -> Vec<String> {
    let all = fields.get("args").and_then(Value::as_array).into_iter().flatten();
    all.map(|arg| referred(agent, &plain(arg))).collect()
}

fn environment(
    agent: AgentKind,
    fields: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut env = texts(agent, fields, "env");
    env.extend(texts(agent, fields, "envs"));
    for name in names(fields, "env_vars") {
        env.entry(name.clone()).or_insert(format!("${{{name}}}"));
    }
    for name in names(fields, "env_keys") {
        notes.push(format!("`{name}` is in Goose's secret store: set it in your environment"));
        env.entry(name.clone()).or_insert(format!("${{{name}}}"));
    }
    env
}

fn headers(agent: AgentKind, fields: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut headers = texts(agent, fields, "headers");
    headers.extend(texts(agent, fields, "http_headers"));
    for (header, name) in texts(agent, fields, "env_http_headers") {
        headers.insert(header, format!("${{{name}}}"));
    }
    if let Some(name) = text(fields, "bearer_token_env_var") {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{{name}}}"));
    }
    headers
}

/// Returns a value with references to variables in Byleave's form: `${NAME}`.
fn referred(agent: AgentKind, value: &str) -> String {
    match agent {
        AgentKind::Cursor => value.replace("${env:", "${"),
        // `$NAME` is a reference too.
        AgentKind::Gemini => {
            let name = value.strip_prefix('$').filter(|name| !name.is_empty());
            let is_name =
                |name: &&str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            name.filter(is_name).map_or_else(|| value.to_owned(), |name| format!("${{{name}}}"))
        }
        AgentKind::ClaudeCode | AgentKind::Codex | AgentKind::Goose | AgentKind::Copilot => value.to_owned(),
    }
}

fn values(launch: &Launch) -> impl Iterator<Item = &String> {
    let (args, texts) = match launch {
        Launch::Child { args, env, .. } => (args.as_slice(), env),
        Launch::Http { headers, .. } => (&[][..], headers),
    };
    args.iter().chain(texts.values())
}

fn text(fields: &Map<String, Value>, key: &str) -> Option<String> {
    fields.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn texts(agent: AgentKind, fields: &Map<String, Value>, key: &str) -> BTreeMap<String, String> {
    let all = fields.get(key).and_then(Value::as_object).into_iter().flatten();
    all.map(|(key, value)| (key.clone(), referred(agent, &plain(value)))).collect()
}

fn names(fields: &Map<String, Value>, key: &str) -> Vec<String> {
    let all = fields.get(key).and_then(Value::as_array).into_iter().flatten();
    // Newer formats give each variable with its source.
    all.filter_map(|name| name.as_str().or_else(|| name.get("name")?.as_str()).map(str::to_owned)).collect()
}

/// Formats numbers and other values as a program would find them in its environment.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_of_every_agent_are_said_in_our_words() {
        let env = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let command = |env: BTreeMap<String, String>| Launch::Child {
            command: "npx".into(),
            args: vec!["-y".into()],
            env,
            cwd: None,
        };
        let url = |headers: BTreeMap<String, String>| Launch::Http { url: "https://h/mcp".into(), headers };
        let cases = [
            (
                AgentKind::ClaudeCode,
                json!({ "type": "stdio", "command": "npx", "args": ["-y"], "env": { "A": "${B}" } }),
                command(env("A", "${B}")),
            ),
            (
                AgentKind::Cursor,
                json!({ "command": "npx", "args": ["-y"], "env": { "A": "${env:B}" } }),
                command(env("A", "${B}")),
            ),
            (
                AgentKind::Gemini,
                json!({ "command": "npx", "args": ["-y"], "env": { "A": "$B" }, "trust": true }),
                command(env("A", "${B}")),
            ),
            (
                AgentKind::Codex,
                json!({ "command": "npx", "args": ["-y"], "env_vars": ["B"] }),
                command(env("B", "${B}")),
            ),
            (
                AgentKind::Goose,
                json!({ "type": "stdio", "cmd": "npx", "args": ["-y"], "env_keys": ["B"] }),
                command(env("B", "${B}")),
            ),
            (
                AgentKind::Copilot,
                json!({ "type": "local", "command": "npx", "args": ["-y"], "env": { "N": 1 } }),
                command(env("N", "1")),
            ),
            (
                AgentKind::Codex,
                json!({ "url": "https://h/mcp", "bearer_token_env_var": "T" }),
                url(env("Authorization", "Bearer ${T}")),
            ),
            (
                AgentKind::Gemini,
                json!({ "httpUrl": "https://h/mcp", "headers": { "A": "b" } }),
                url(env("A", "b")),
            ),
            (
                AgentKind::Goose,
                json!({ "type": "streamable_http", "uri": "https://h/mcp" }),
                url(BTreeMap::new()),
            ),
        ];
        for (agent, entry, reach) in cases {
            let found =
                parse_server(agent, &entry, None).unwrap_or_else(|stays| panic!("{entry}: {stays:?}"));
            assert_eq!(found.entry.launch, reach, "{entry}");
        }
    }

    #[test]
    fn what_cannot_be_moved_stays_and_is_told() {
        let ungoverned =
            |agent, entry: Value| matches!(parse_server(agent, &entry, None), Err(NotMovable::Ungoverned(_)));
        assert!(ungoverned(AgentKind::ClaudeCode, json!({ "type": "sse", "url": "https://h" })));
        assert!(ungoverned(AgentKind::Gemini, json!({ "url": "https://h" })));
        assert!(ungoverned(AgentKind::Cursor, json!({ "command": "a", "url": "https://h" })));
        assert!(ungoverned(AgentKind::Cursor, json!("odd")));
        let harmless = |agent, entry: Value| parse_server(agent, &entry, None) == Err(NotMovable::Harmless);
        assert!(harmless(AgentKind::Goose, json!({ "type": "builtin", "enabled": true })));
        assert!(harmless(AgentKind::Codex, json!({ "command": "x", "enabled": false })));
        let noted = parse_server(
            AgentKind::Gemini,
            &json!({ "command": "x", "includeTools": ["a"], "trust": true }),
            Some(Path::new("/p")),
        )
        .unwrap();
        assert_eq!(noted.notes, ["not carried over: `includeTools`"]);
        assert!(matches!(noted.entry.launch, Launch::Child { cwd: Some(cwd), .. } if cwd == Path::new("/p")));
    }
}

//! The file of MCP servers behind the gateway: `mcp.toml` in the directory of the person's own settings.
//!
//! Pure: a text goes in, a text comes out, and everything about other servers stays, byte for byte. A server in this file is not
//! trusted yet: the gateway asks about it at the first contact.

use std::collections::BTreeMap;
use std::path::PathBuf;

use byleave_mcp::upstream::server_definition::{self, Launch};
use toml_edit::{Array, InlineTable, Table, Value};

use crate::config_edit::{self, EditError, FileFormat};

/// The name of the file.
pub(crate) const FILE: &str = "mcp.toml";
const TABLE: &str = "server";
const NAME_CHARS_MAX: usize = 32;

/// How a server is started or reached, and the agent that it was moved from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerEntry {
    pub(crate) launch: Launch,
    /// The agent whose file had it.
    pub(crate) from: Option<String>,
}

/// The reason why the file is not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServersEditError {
    /// It cannot be parsed or edited.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// An invalid name for a server.
    #[error(
        "`{0}` is not a valid server name: use 1 to 32 of a-z, 0-9, `_` and `-`, and begin with a letter or digit"
    )]
    Name(String),
    /// Another server has the name.
    #[error("a server named `{0}` already exists")]
    Taken(String),
    /// An invalid definition.
    #[error("server `{0}` has neither a command nor an address")]
    Unreachable(String),
}

/// Returns the text with a server added, or unchanged if the same one already has this name.
pub(crate) fn add(text: &str, name: &str, entry: &ServerEntry) -> Result<String, ServersEditError> {
    if to_server_name(name).as_deref() != Some(name) {
        return Err(ServersEditError::Name(name.to_owned()));
    }
    match all(text)?.get(name) {
        Some(there) if there.launch == entry.launch => return Ok(text.to_owned()),
        Some(_) => return Err(ServersEditError::Taken(name.to_owned())),
        None => {}
    }
    let edited = config_edit::toml::add(text, TABLE, name, table(&entry.launch, entry.from.as_deref()))?;
    if all(&edited)?.get(name) != Some(entry) {
        return Err(EditError::UnsupportedSyntax.into());
    }
    Ok(edited)
}

/// Returns the text with a complete server definition added.
pub(crate) fn add_whole(
    text: &str,
    server: &server_definition::ServerDefinition,
) -> Result<String, ServersEditError> {
    let (name, profile) = (server.name.as_str(), &server.profile);
    if all(text)?.contains_key(name) {
        return Err(ServersEditError::Taken(name.to_owned()));
    }
    let mut table = table(&server.launch, server.from.as_deref());
    let mut put = |key: &str, value: Value| drop(table.insert(key, toml_edit::Item::Value(value)));
    match profile.workspace {
        server_definition::DirectoryAccess::None => put("workspace", "none".into()),
        server_definition::DirectoryAccess::Read => {}
        server_definition::DirectoryAccess::Write => put("workspace", "write".into()),
    }
    let texts = |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    for (key, list) in
        [("read", texts(&profile.read)), ("write", texts(&profile.write)), ("reach", profile.hosts.clone())]
    {
        let list: Vec<String> = list;
        if !list.is_empty() {
            put(key, Value::Array(list.iter().map(String::as_str).collect::<Array>()));
        }
    }
    for (key, flag) in
        [("unconfined", profile.unconfined), ("trusted", server.trusted), ("sampling", server.sampling)]
    {
        if flag {
            put(key, true.into());
        }
    }
    Ok(config_edit::toml::add(text, TABLE, name, table)?)
}

/// Returns the text without a server, or unchanged if there is none with this name.
pub(crate) fn remove(text: &str, name: &str) -> Result<String, ServersEditError> {
    Ok(config_edit::toml::remove(text, TABLE, name)?)
}

/// Returns all servers of the file, by name.
pub(crate) fn all(text: &str) -> Result<BTreeMap<String, ServerEntry>, ServersEditError> {
    let value = config_edit::read(FileFormat::Toml, text)?;
    let servers = value.get(TABLE).and_then(serde_json::Value::as_object);
    let servers = servers.into_iter().flatten();
    servers.map(|(name, entry)| Ok((name.clone(), read(name, entry)?))).collect()
}

/// Converts another program's name for a server to a valid one, or `None` if it has no letter or digit.
pub(crate) fn to_server_name(theirs: &str) -> Option<String> {
    let mut name = String::new();
    for letter in theirs.chars().map(|letter| letter.to_ascii_lowercase()) {
        match letter {
            'a'..='z' | '0'..='9' => name.push(letter),
            '_' | '-' if !name.is_empty() => name.push(letter),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.truncate(NAME_CHARS_MAX);
    let is_theirs = name == theirs;
    let name = if is_theirs { name } else { name.trim_end_matches('-').to_owned() };
    Some(name).filter(|name| !name.is_empty())
}

fn read(name: &str, entry: &serde_json::Value) -> Result<ServerEntry, ServersEditError> {
    let text = |key: &str| entry.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
    let texts = |key: &str| -> BTreeMap<String, String> {
        let fields = entry.get(key).and_then(serde_json::Value::as_object).into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let args = entry.get("args").and_then(serde_json::Value::as_array).into_iter().flatten();
    let launch = match (text("command"), text("url")) {
        (Some(command), None) => Launch::Child {
            command,
            args: args.filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
            env: texts("env"),
            cwd: text("cwd").map(PathBuf::from),
        },
        (None, Some(url)) => Launch::Http { url, headers: texts("headers") },
        _ => return Err(ServersEditError::Unreachable(name.to_owned())),
    };
    Ok(ServerEntry { launch, from: text("from") })
}

fn table(launch: &Launch, from: Option<&str>) -> Table {
    let mut table = Table::new();
    let mut put = |key: &str, value: Value| drop(table.insert(key, toml_edit::Item::Value(value)));
    match launch {
        Launch::Child { command, args, env, cwd } => {
            put("command", command.into());
            if !args.is_empty() {
                put("args", Value::Array(args.iter().map(String::as_str).collect::<Array>()));
            }
            if !env.is_empty() {
                put("env", inline(env));
            }
            if let Some(cwd) = cwd {
                put("cwd", cwd.to_string_lossy().as_ref().into());
            }
        }
        Launch::Http { url, headers } => {
            put("url", url.into());
            if !headers.is_empty() {
                put("headers", inline(headers));
            }
        }
    }
    if let Some(from) = from {
        put("from", from.into());
    }
    table
}

fn inline(texts: &BTreeMap<String, String>) -> Value {
    texts.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<InlineTable>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(command: &str) -> ServerEntry {
        ServerEntry {
            launch: Launch::Child {
                command: command.to_owned(),
                args: vec!["-y".to_owned(), "a \"b\" \u{e9}".to_owned()],
                env: BTreeMap::from([("GITHUB_TOKEN".to_owned(), "${GITHUB_TOKEN}".to_owned())]),
                cwd: Some("/abs".into()),
            },
            from: Some("claude-code".to_owned()),
        }
    }

    #[test]
    fn a_server_is_added_and_taken_out_again_and_nothing_else_is_touched() {
        let mine = "# mine\n[server.web] # odd\r\nurl='https://h/mcp'\r\n";
        let text = add(mine, "github", &server("npx")).unwrap();
        assert!(text.starts_with(mine), "{text}");
        assert_eq!(all(&text).unwrap().get("github"), Some(&server("npx")));
        assert_eq!(add(&text, "github", &ServerEntry { from: None, ..server("npx") }).unwrap(), text);
        assert!(matches!(add(&text, "github", &server("other")), Err(ServersEditError::Taken(_))));
        let without = remove(&text, "github").unwrap();
        assert_eq!(without.trim_end(), mine.trim_end());
        assert_eq!(remove(&without, "github").unwrap(), without);
        let web = ServerEntry {
            launch: Launch::Http {
                url: "https://x".into(),
                headers: BTreeMap::from([("A".into(), "b".into())]),
            },
            from: None,
        };
        let text = add("", "web", &web).unwrap();
        assert_eq!(text, "[server.web]\nurl = \"https://x\"\nheaders = { A = \"b\" }\n");
        assert!(add("[server.odd]\nx = 1\n", "web", &web).is_err());
    }

    #[test]
    fn names_are_plain() {
        let cases = [
            ("github", Some("github")),
            ("My Server (new)", Some("my-server-new")),
            ("@scope/thing.v2", Some("scope-thing-v2")),
            ("é", None),
            ("", None),
            ("a--b-", Some("a--b-")),
        ];
        for (theirs, ours) in cases {
            assert_eq!(to_server_name(theirs).as_deref(), ours, "{theirs}");
        }
        assert!(to_server_name(&"x".repeat(100)).is_some_and(|name| name.len() == 32));
        for bad in ["", "A", "-a", "a b", "a.b", "é"] {
            assert!(matches!(add("", bad, &server("x")), Err(ServersEditError::Name(_))), "{bad}");
        }
    }
}

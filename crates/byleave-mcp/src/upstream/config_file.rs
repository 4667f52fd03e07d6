//! The file `mcp.toml` in the person's own settings, which defines the servers. Anything in it that cannot be parsed prevents
//! the start, with its line number.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::server_definition::{DirectoryAccess, Launch, ServerDefinition, ServerName, ServerProfile};

type ServersTomlValue<'i> = Spanned<DeValue<'i>>;

/// An error in the file of servers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ServersFileError {
    /// The line number.
    pub line: usize,
    /// The error, and what to do.
    pub message: String,
}

/// Returns the servers that a file defines, by name.
pub fn parse_servers(text: &str) -> Result<Vec<ServerDefinition>, ServersFileError> {
    let wrong =
        |span: Range<usize>, what: String| ServersFileError { line: line(text, span.start), message: what };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().unwrap_or_default(), error.message().to_owned()))?;
    let mut servers = Vec::new();
    for (key, value) in table.get_ref() {
        let tables = value.get_ref().as_table().filter(|_| key.get_ref() == "server");
        let tables = tables.ok_or_else(|| {
            wrong(
                key.span(),
                format!("unknown key `{}`; begin each server with `[server.NAME]`", key.get_ref()),
            )
        })?;
        for (name, value) in tables {
            let named =
                ServerName::new(name.get_ref().as_ref()).map_err(|no| wrong(name.span(), no.to_string()))?;
            let table = value.get_ref().as_table();
            let table =
                table.ok_or_else(|| wrong(value.span(), format!("`server.{named}` is not a table")))?;
            let read = ServersFileParser { text };
            servers.push(read.server(named, name.span(), table)?);
        }
    }
    Ok(servers)
}

struct ServersFileParser<'t> {
    text: &'t str,
}

impl ServersFileParser<'_> {
    fn server(
        &self,
        name: ServerName,
        at: Range<usize>,
        table: &DeTable<'_>,
    ) -> Result<ServerDefinition, ServersFileError> {
        let (mut command, mut url) = (None, None);
        let (mut args, mut env, mut headers, mut cwd) = (Vec::new(), BTreeMap::new(), BTreeMap::new(), None);
        let mut profile = ServerProfile::default();
        let (mut trusted, mut sampling, mut timeout_ms, mut from) = (false, false, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "command" => command = Some(self.string(value)?),
                "args" => args = self.strings(value)?,
                "env" => env = self.pairs(value)?,
                "cwd" => cwd = Some(self.path(value)?),
                "url" => url = Some(self.address(value)?),
                "headers" => headers = self.pairs(value)?,
                "workspace" => profile.workspace = self.access(value)?,
                "read" => profile.read = self.paths(value)?,
                "write" => profile.write = self.paths(value)?,
                "reach" => profile.hosts = self.strings(value)?,
                "unconfined" => profile.unconfined = self.flag(value)?,
                "trusted" => trusted = self.flag(value)?,
                "sampling" => sampling = self.flag(value)?,
                "timeout_ms" => timeout_ms = Some(self.number(value)?),
                "from" => from = Some(self.string(value)?),
                other => {
                    return Err(
                        self.wrong(key.span(), format!("unknown key `{}` of a server", other.escape_debug()))
                    );
                }
            }
        }
        let launch = match (command, url) {
            (Some(command), None) if headers.is_empty() => Launch::Child { command, args, env, cwd },
            (None, Some(url)) if args.is_empty() && env.is_empty() && cwd.is_none() => {
                Launch::Http { url, headers }
            }
            _ => {
                let what = format!(
                    "server `{name}` needs either `command` (with `args`, `env`, `cwd`) or `url` (with `headers`)"
                );
                return Err(self.wrong(at, what));
            }
        };
        Ok(ServerDefinition { name, launch, profile, trusted, sampling, timeout_ms, from })
    }

    fn string(&self, value: &ServersTomlValue<'_>) -> Result<String, ServersFileError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.wrong(value.span(), "this must be a text, in quotes".into()))
    }

    fn strings(&self, value: &ServersTomlValue<'_>) -> Result<Vec<String>, ServersFileError> {
        let items = value.get_ref().as_array();
        let items = items.ok_or_else(|| self.wrong(value.span(), "this must be a list of texts".into()))?;
        items.iter().map(|item| self.string(item)).collect()
    }

    fn pairs(&self, value: &ServersTomlValue<'_>) -> Result<BTreeMap<String, String>, ServersFileError> {
        let table = value.get_ref().as_table();
        let table = table.ok_or_else(|| self.wrong(value.span(), "this must be a table of texts".into()))?;
        table.iter().map(|(key, value)| Ok((key.get_ref().to_string(), self.string(value)?))).collect()
    }

    fn path(&self, value: &ServersTomlValue<'_>) -> Result<PathBuf, ServersFileError> {
        let path = self.string(value)?;
        if Path::new(&path).is_absolute() {
            return Ok(path.into());
        }
        Err(self.wrong(value.span(), format!("`{}` must be an absolute path", path.escape_debug())))
    }

    fn paths(&self, value: &ServersTomlValue<'_>) -> Result<Vec<PathBuf>, ServersFileError> {
        let items = value.get_ref().as_array();
        let items =
            items.ok_or_else(|| self.wrong(value.span(), "this must be a list of absolute paths".into()))?;
        items.iter().map(|item| self.path(item)).collect()
    }

    /// Checks the address of a server. Requests over the network must be encrypted, or must not leave this machine.
    fn address(&self, value: &ServersTomlValue<'_>) -> Result<String, ServersFileError> {
        let text = self.string(value)?;
        let url = url::Url::parse(&text).map_err(|error| {
            self.wrong(value.span(), format!("`{}` is not a URL: {error}", text.escape_debug()))
        })?;
        let local = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if url.scheme() == "https" || url.scheme() == "http" && local {
            return Ok(text);
        }
        Err(self.wrong(
            value.span(),
            format!("`{}` must begin with https://, or be on this machine", text.escape_debug()),
        ))
    }

    fn access(&self, value: &ServersTomlValue<'_>) -> Result<DirectoryAccess, ServersFileError> {
        match self.string(value)?.as_str() {
            "none" => Ok(DirectoryAccess::None),
            "read" => Ok(DirectoryAccess::Read),
            "write" => Ok(DirectoryAccess::Write),
            _ => Err(self.wrong(value.span(), "write `none`, `read` or `write`".into())),
        }
    }

    fn flag(&self, value: &ServersTomlValue<'_>) -> Result<bool, ServersFileError> {
        value.get_ref().as_bool().ok_or_else(|| self.wrong(value.span(), "write `true` or `false`".into()))
    }

    fn number(&self, value: &ServersTomlValue<'_>) -> Result<u64, ServersFileError> {
        let number = value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        number
            .filter(|number| *number > 0)
            .ok_or_else(|| self.wrong(value.span(), "this must be a number of milliseconds".into()))
    }

    fn wrong(&self, span: Range<usize>, what: String) -> ServersFileError {
        ServersFileError { line: line(self.text, span.start), message: what }
    }
}

fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_meant() {
        let text = "[server.git]\ncommand = \"uvx\"\nargs = [\"mcp-server-git==1.2.3\"]\nenv = { A = \"${A}\" }\nworkspace = \"write\"\n\n[server.far]\nurl = \"https://a.example/mcp\"\n";
        let servers = parse_servers(text).unwrap();
        assert_eq!(servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["far", "git"]);
        assert_eq!(servers[1].profile.workspace, DirectoryAccess::Write);
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        for (text, at) in [
            ("[server.a]\ncommand = 1\n", 2),
            ("[server.a]\ncommand = \"x\"\ncomand = \"y\"\n", 3),
            ("[server.a]\ncommand = \"x\"\nurl = \"https://a.example\"\n", 1),
            ("[server.a]\nargs = []\n", 1),
            ("[server.A]\ncommand = \"x\"\n", 1),
            ("[servers.a]\ncommand = \"x\"\n", 1),
            ("[server.a]\nurl = \"http://a.example/mcp\"\n", 2),
            ("[server.a]\nurl = \"file:/etc/passwd\"\n", 2),
            ("[server.a]\ncommand = \"x\"\nwrite = [\"b\"]\n", 3),
            ("[server.a]\ncommand = \"x\"\nworkspace = \"all\"\n", 3),
            ("[server.a\n", 1),
        ] {
            assert_eq!(parse_servers(text).unwrap_err().line, at, "{text}");
        }
    }
}

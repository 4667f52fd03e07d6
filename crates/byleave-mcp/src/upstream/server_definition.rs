//! Definitions of servers: how each is started or reached, and what it may access. They are read from the person's own file.
//!
//! A definition must never come from a project's files or from an agent, because it decides which programs run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use byleave_gate::core::digest::{Digest, canonical_json};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The configured name of a server. It appears in rules, tool names and the audit log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(String);

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDefinition {
    /// Its configured name.
    pub name: ServerName,
    /// How it is started or reached.
    pub launch: Launch,
    /// Its access to files and hosts.
    pub profile: ServerProfile,
    /// Whether the person trusts its claims that its tools only read.
    pub trusted: bool,
    /// Whether it may ask to use the agent's model.
    pub sampling: bool,
    /// The timeout of its calls, if it differs from the default.
    pub timeout_ms: Option<u64>,
    /// The agent whose configuration it was moved from.
    pub from: Option<String>,
}

/// How a server is started or reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// A child process that speaks over its standard streams.
    Child {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Environment variables; `${NAME}` is replaced from the person's environment.
        env: BTreeMap<String, String>,
        /// The directory that it starts in; the workspace by default.
        cwd: Option<PathBuf>,
    },
    /// A running server, over HTTP.
    Http {
        /// The address.
        url: String,
        /// Headers to send; `${NAME}` is replaced from the person's environment.
        headers: BTreeMap<String, String>,
    },
}

/// The access of a server, for all of its calls together, because it outlives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerProfile {
    /// Access to the directory that the agent works in.
    pub workspace: DirectoryAccess,
    /// Additional readable paths.
    pub read: Vec<PathBuf>,
    /// Additional writable paths.
    pub write: Vec<PathBuf>,
    /// Reachable hosts, in the syntax of rules.
    pub hosts: Vec<String>,
    /// Whether it runs outside the sandbox, with all permissions of the person.
    pub unconfined: bool,
}

/// Access to a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectoryAccess {
    /// The directory is not visible.
    None,
    /// Read only.
    #[default]
    Read,
    /// Read and write.
    Write,
}

/// The reason why a text is not a valid server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` cannot be a server's name: use 1 to 32 of a-z, 0-9, `-` and `_`, a letter or digit first",
    .0.escape_debug()
)]
pub struct ServerNameError(pub String);

impl ServerName {
    /// Returns the name, if it is valid.
    pub fn new(name: impl Into<String>) -> Result<Self, ServerNameError> {
        let name = name.into();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = name.len() <= 32
            && name.starts_with(plain)
            && name.chars().all(|c| plain(c) || matches!(c, '-' | '_'));
        if fits { Ok(Self(name)) } else { Err(ServerNameError(name)) }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ServerName {
    type Error = ServerNameError;
    fn try_from(name: String) -> Result<Self, ServerNameError> {
        Self::new(name)
    }
}

impl From<ServerName> for String {
    fn from(name: ServerName) -> Self {
        name.0
    }
}

impl ServerDefinition {
    /// Creates a definition with default settings.
    pub fn new(name: ServerName, launch: Launch) -> Self {
        let profile = ServerProfile::default();
        Self { name, launch, profile, trusted: false, sampling: false, timeout_ms: None, from: None }
    }

    /// Returns the digest that an approval to start it binds: every byte of how it is started, and what it may access.
    pub fn launch_digest(&self) -> Digest {
        let all = json!({ "launch": self.launch, "profile": self.profile, "sampling": self.sampling, "trusted": self.trusted });
        Digest::compute_parts("byleave.mcp.launch", &[canonical_json(&all).as_bytes()])
    }

    /// Checks whether the same definition may run another program tomorrow: a package without its version.
    pub fn is_unpinned(&self) -> bool {
        let Launch::Child { command, args, .. } = &self.launch else { return false };
        let program = command.rsplit('/').next().unwrap_or(command);
        let words = args.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
        let mut words = words.skip_while(|word| matches!(*word, "run" | "exec" | "dlx" | "tool" | "x"));
        match program {
            "npx" | "bunx" | "pnpx" | "pnpm" | "npm" | "yarn" | "bun" => {
                words.next().is_some_and(|package| !npm_version(package).is_some_and(is_exact))
            }
            "uvx" | "uv" | "pipx" => words.next().is_some_and(|package| {
                let version =
                    package.split_once("==").or_else(|| package.split_once('@')).map(|(_, version)| version);
                !version.is_some_and(is_exact)
            }),
            "docker" | "podman" => !args.iter().any(|word| word.contains("@sha256:")),
            _ => false,
        }
    }
}

/// Returns the version of `@scope/name@1.2.3`: the text behind the last `@`, if that is not the first character.
fn npm_version(package: &str) -> Option<&str> {
    package.rsplit_once('@').filter(|(name, _)| !name.is_empty()).map(|(_, version)| version)
}

fn is_exact(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']);
    let number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()))
    };
    number(parts.next()) && number(parts.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(command: &str, args: &[&str]) -> ServerDefinition {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let launch = Launch::Child { command: command.into(), args, env: BTreeMap::new(), cwd: None };
        ServerDefinition::new(ServerName::new("a").unwrap(), launch)
    }

    #[test]
    fn names_are_plain() {
        for name in ["a", "my-server", "a__b", "0"] {
            assert!(ServerName::new(name).is_ok(), "{name}");
        }
        for name in ["", "A", "my server", "a/b", "_a", "a:b", "é", &"a".repeat(33)] {
            assert!(ServerName::new(name).is_err(), "{name}");
        }
    }

    // req: M1
    #[test]
    fn every_byte_of_how_it_is_started_counts() {
        let one = child("npx", &["-y", "x@1.2.3"]);
        let mut others = vec![child("npx", &["-y", "x@1.2.4"]), child("npm", &["-y", "x@1.2.3"])];
        let mut env = one.clone();
        env.launch = Launch::Child {
            command: "npx".into(),
            args: vec!["-y".into(), "x@1.2.3".into()],
            env: [("NODE_OPTIONS".to_owned(), "--require ./x.js".to_owned())].into(),
            cwd: None,
        };
        others.push(env);
        others.push(ServerDefinition { trusted: true, ..one.clone() });
        others.push(ServerDefinition {
            profile: ServerProfile { hosts: vec!["*".into()], ..ServerProfile::default() },
            ..one.clone()
        });
        for other in others {
            assert_ne!(one.launch_digest(), other.launch_digest(), "{other:?}");
        }
        assert_eq!(
            one.launch_digest(),
            ServerDefinition { from: Some("codex".into()), ..one.clone() }.launch_digest()
        );
    }

    #[test]
    fn a_package_without_its_version_is_told() {
        for (command, args) in [
            ("npx", &["-y", "some-mcp@latest"][..]),
            ("npx", &["some-mcp"]),
            ("npx", &["-y", "@scope/some-mcp"]),
            ("npx", &["-y", "some-mcp@^1.2.3"]),
            ("/usr/bin/uvx", &["some-mcp"]),
            ("uv", &["tool", "run", "some-mcp"]),
            ("docker", &["run", "-i", "mcp/x:1.2"]),
        ] {
            assert!(child(command, args).is_unpinned(), "{command} {args:?}");
        }
        for (command, args) in [
            ("npx", &["-y", "@scope/some-mcp@1.2.3", "/ws"][..]),
            ("uvx", &["some-mcp==1.2.3"]),
            ("docker", &["run", "-i", "mcp/x@sha256:00"]),
            ("node", &["server.js"]),
        ] {
            assert!(!child(command, args).is_unpinned(), "{command} {args:?}");
        }
    }
}

//! Definitions: which servers there are, how each is started or reached, and what it may touch. Read from the person's own file.
//!
//! A definition never comes from a project's files or from an agent: whoever writes one decides what is run.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use byleave::core::digest::{Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a server is called with us: it stands in rules, names of tools and the book.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerName(String);

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDefinition {
    /// Its name with us.
    pub name: ServerName,
    /// How it is started or reached.
    pub launch: Launch,
    /// What it may touch.
    pub profile: ServerProfile,
    /// What it says of its own tools counts: that they only read. Said by the person.
    pub trusted: bool,
    /// It may ask to use the agent's model.
    pub sampling: bool,
    /// How long one of its calls may take, where it needs other than the default.
    pub timeout_ms: Option<u64>,
    /// Whose configuration it was moved from.
    pub from: Option<String>,
}

/// How a server is started or reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Launch {
    /// A process of ours that speaks over its standard streams.
    Child {
        /// The program.
        command: String,
        /// What it is given.
        args: Vec<String>,
        /// Variables; `${NAME}` is taken from the person's environment.
        env: BTreeMap<String, String>,
        /// Where it starts; without one, in the workspace.
        cwd: Option<PathBuf>,
    },
    /// Something that is there already, over HTTP.
    Http {
        /// Where.
        url: String,
        /// What is sent along; `${NAME}` is taken from the person's environment.
        headers: BTreeMap<String, String>,
    },
}

/// What a server may touch: for all of its calls together, because it outlives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerProfile {
    /// The directory that the agent works in.
    pub workspace: DirectoryAccess,
    /// More that it can read.
    pub read: Vec<PathBuf>,
    /// More that it can write.
    pub write: Vec<PathBuf>,
    /// Hosts that it can reach, as rules write them.
    pub reach: Vec<String>,
    /// It runs outside the sandbox, with all that the person can do.
    pub unconfined: bool,
}

/// What a server may do with a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DirectoryAccess {
    /// It is not there.
    None,
    /// Read.
    #[default]
    Read,
    /// Read and write.
    Write,
}

/// What cannot be a server's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` cannot be a server's name: use 1 to 32 of a-z, 0-9, `-` and `_`, a letter or digit first",
    .0.escape_debug()
)]
pub struct ServerNameError(pub String);

impl ServerName {
    /// The name, if it can be one.
    pub fn new(name: impl Into<String>) -> Result<Self, ServerNameError> {
        let name = name.into();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = name.len() <= 32
            && name.starts_with(plain)
            && name.chars().all(|c| plain(c) || matches!(c, '-' | '_'));
        if fits { Ok(Self(name)) } else { Err(ServerNameError(name)) }
    }

    /// As text.
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
    /// A server with nothing said beyond how it is started or reached.
    pub fn new(name: ServerName, launch: Launch) -> Self {
        let profile = ServerProfile::default();
        Self { name, launch, profile, trusted: false, sampling: false, timeout_ms: None, from: None }
    }

    /// What an approval to start it binds: every byte of how it is started, and what it may touch.
    pub fn digest(&self) -> Digest {
        let all = json!({ "launch": self.launch, "profile": self.profile, "sampling": self.sampling, "trusted": self.trusted });
        Digest::of_parts("byleave.mcp.launch", &[canonical(&all).as_bytes()])
    }

    /// What is run may be another thing tomorrow although the definition is the same: a package without its version.
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

/// `@scope/name@1.2.3`: what stands behind the last `@`, if it is not the first character.
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
            profile: ServerProfile { reach: vec!["*".into()], ..ServerProfile::default() },
            ..one.clone()
        });
        for other in others {
            assert_ne!(one.digest(), other.digest(), "{other:?}");
        }
        assert_eq!(one.digest(), ServerDefinition { from: Some("codex".into()), ..one.clone() }.digest());
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

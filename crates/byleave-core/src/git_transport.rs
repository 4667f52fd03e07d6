//! Git transports: the URL of a repository, the service on it, and the refs that a push moves.
//!
//! A policy can lend one transport to a call (`lend = ["git"]`). Then the gate itself connects to the host, outside the sandbox. These are
//! the words for what it connects to. The URL is strict: a spelling about which programs could disagree is not a URL here.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The maximum length of a URL of a repository, in bytes.
const URL_BYTES_MAX: usize = 1024;

/// The way to the host of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GitScheme {
    /// SSH.
    Ssh,
    /// HTTP over TLS.
    Https,
}

/// The URL of a repository on another host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GitUrl {
    /// The way to the host.
    pub scheme: GitScheme,
    /// The user name in the URL.
    pub user: Option<String>,
    /// The host, in lower case. For SSH it may be a name from the person's SSH settings.
    pub host: String,
    /// The port in the URL.
    pub explicit_port: Option<u16>,
    /// The path of the repository. For HTTPS it begins with `/`.
    pub path: String,
}

impl GitUrl {
    /// Parses a URL: `ssh://host/path`, `user@host:path` or `https://host/path`. Returns `None` for any other text, for a URL with a
    /// password, and for one about which programs could disagree.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > URL_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        if let Some(rest) = text.strip_prefix("https://") {
            let (authority, path) = rest.split_once('/')?;
            return Self::with_authority(GitScheme::Https, authority, format!("/{path}"));
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            let (authority, path) = rest.split_once('/')?;
            let path = if path.starts_with('~') { path.to_owned() } else { format!("/{path}") };
            return Self::with_authority(GitScheme::Ssh, authority, path);
        }
        let (authority, path) = text.split_once(':')?;
        if text.contains("://") || path.starts_with(':') || authority.contains('/') {
            return None;
        }
        Self::with_authority(GitScheme::Ssh, authority, path.to_owned())
    }

    fn with_authority(scheme: GitScheme, authority: &str, path: String) -> Option<Self> {
        let (user, target) = match authority.rsplit_once('@') {
            Some((user, target)) => (Some(user), target),
            None => (None, authority),
        };
        let (host, port) = match target.split_once(':') {
            Some((host, port)) => (host, Some(parse_port(port)?)),
            None => (target, None),
        };
        let is_word = |text: &str, more: &[u8]| {
            text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
        };
        // A user name with a `:` contains a password.
        let is_user = user.is_none_or(|user| is_word(user, b"._-+"));
        if !is_user || !is_word(host, b".-_") || host.ends_with('.') || !is_plain_path(&path) {
            return None;
        }
        Some(Self {
            scheme,
            user: user.map(str::to_owned),
            host: host.to_ascii_lowercase(),
            explicit_port: port,
            path,
        })
    }

    /// Returns the port: that of the URL, or the usual one.
    pub fn port(&self) -> u16 {
        self.explicit_port.unwrap_or(match self.scheme {
            GitScheme::Ssh => 22,
            GitScheme::Https => 443,
        })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    let port: u16 = text.parse().ok()?;
    (port != 0 && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(port)
}

/// Checks a path: no step that means another place, nothing that begins an option, and no character that a shell or a server reads,
/// such as an encoded step.
fn is_plain_path(path: &str) -> bool {
    let steps = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    !steps.is_empty()
        && !path.starts_with('-')
        && steps.split('/').all(|step| !matches!(step, "" | "." | ".."))
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+~@=,:".contains(&byte))
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.scheme {
            GitScheme::Ssh => "ssh://",
            GitScheme::Https => "https://",
        })?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.explicit_port {
            write!(f, ":{port}")?;
        }
        let is_relative = !self.path.starts_with('/');
        write!(f, "{}{}", if is_relative { "/" } else { "" }, self.path)
    }
}

/// A service of Git on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GitService {
    /// Sends commits from the host: fetch, pull, clone and `ls-remote`.
    UploadPack,
    /// Takes commits: push.
    ReceivePack,
}

impl GitService {
    /// Returns the name of the program that a server runs.
    pub const fn program(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    /// Returns the service of this program.
    pub fn from_program(name: &str) -> Option<Self> {
        [Self::UploadPack, Self::ReceivePack].into_iter().find(|service| service.program() == name)
    }
}

/// One ref that a push moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitRefUpdate {
    /// The full name, such as `refs/heads/main`.
    pub name: String,
    /// The commit before. Absent if the ref is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The commit after. Absent if the ref is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

impl fmt::Display for GitRefUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.strip_prefix("refs/heads/").unwrap_or(&self.name);
        let short = |id: &String| id.chars().take(10).collect::<String>();
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{name} {} → {}", short(old), short(new)),
            (None, Some(new)) => write!(f, "{name} is new at {}", short(new)),
            (Some(old), None) => write!(f, "{name} is deleted, it was at {}", short(old)),
            (None, None) => write!(f, "{name} does not change"),
        }
    }
}

/// A Git transport that a call wanted to be lent, or was lent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitTransport {
    /// The URL of the repository.
    pub url: String,
    /// The host of the URL.
    pub host: String,
    /// The port of the URL.
    pub port: u16,
    /// The service.
    pub service: GitService,
    /// The refs that a push moves, in order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<GitRefUpdate>,
    /// The reason why it cannot be lent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl GitTransport {
    /// Creates the transport of a URL.
    pub fn new(url: &GitUrl, service: GitService) -> Self {
        let (host, port) = (url.host.clone(), url.port());
        Self { url: url.to_string(), host, port, service, updates: Vec::new(), problem: None }
    }

    /// Returns it as one line for a person.
    pub fn describe(&self) -> String {
        let uses = if self.url.starts_with("ssh") { "your SSH key" } else { "your credential helper" };
        let url = &self.url;
        if let Some(problem) = &self.problem {
            return format!("Git cannot use {url}: {problem}.");
        }
        match self.service {
            GitService::UploadPack => format!("Reads the repository {url} with {uses}."),
            GitService::ReceivePack => {
                let updates: Vec<String> = self.updates.iter().map(ToString::to_string).collect();
                format!("Pushes to {url} with {uses}: {}.", updates.join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E7
    #[test]
    fn a_url_has_one_meaning_or_none() {
        for (text, expected) in [
            ("git@git.example:team/app.git", "ssh://git@git.example/team/app.git"),
            ("git.example:/srv/app.git", "ssh://git.example/srv/app.git"),
            ("ssh://git@Git.Example:2222/srv/app.git", "ssh://git@git.example:2222/srv/app.git"),
            ("ssh://git.example/~ada/app.git", "ssh://git.example/~ada/app.git"),
            ("https://git.example/team/app.git", "https://git.example/team/app.git"),
            ("https://ada@git.example:8443/app", "https://ada@git.example:8443/app"),
        ] {
            assert_eq!(GitUrl::parse(text).map(|url| url.to_string()).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "origin",
            "./app",
            "/srv/app.git",
            "http://git.example/app",
            "git://git.example/app",
            "file:///srv/app",
            "ext::sh -c x",
            "ext::x",
            "https://git.example",
            "https://git.example/",
            "https://ada:secret@git.example/app",
            "https://git.example/../app",
            "https://git.example/a//b",
            "https://git.example/%2e%2e/app",
            "https://git.example/app?x",
            "https://git.example/app#x",
            "https://-x/app",
            "https://git.example:0/app",
            "https://git.example:99999/app",
            "https://git.example:+80/app",
            "https://[::1]/app",
            "https://a@b@git.example\\x/app",
            "ssh://-oProxyCommand=x/app",
            "ssh://-x@git.example/app",
            "-oProxyCommand=x:app",
            "git.example:-x",
            "git.example:a b",
            "git.example:a'b",
            "git.example:a;b",
            "git.example:a\nb",
            "git.example:../b",
            "a/b:c",
        ] {
            assert_eq!(GitUrl::parse(text), None, "{text}");
        }
        assert_eq!(GitUrl::parse("git.example:app").map(|url| url.port()), Some(22));
        assert!(GitUrl::parse(&format!("https://git.example/{}", "a".repeat(2000))).is_none());
    }

    #[test]
    fn a_transport_is_described_with_the_refs_that_move() {
        let url = GitUrl::parse("git@git.example:app.git").unwrap();
        let id = |digit: &str| Some(digit.repeat(40));
        let update = |name: &str, old, new| GitRefUpdate { name: name.into(), old, new };
        let mut push = GitTransport::new(&url, GitService::ReceivePack);
        push.updates = vec![
            update("refs/heads/main", id("1"), id("2")),
            update("refs/heads/old", id("3"), None),
            update("refs/tags/v1", None, id("4")),
        ];
        assert_eq!(
            push.describe(),
            "Pushes to ssh://git@git.example/app.git with your SSH key: main 1111111111 → 2222222222; \
             old is deleted, it was at 3333333333; refs/tags/v1 is new at 4444444444."
        );
        push.problem = Some("the key was refused".into());
        assert_eq!(push.describe(), "Git cannot use ssh://git@git.example/app.git: the key was refused.");
        let json = serde_json::to_string(&push).unwrap();
        assert_eq!(serde_json::from_str::<GitTransport>(&json).unwrap(), push);
    }
}

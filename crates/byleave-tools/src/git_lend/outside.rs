//! Opens a transport outside the sandbox, as the person: `ssh` with the person's keys, or HTTPS with the person's credential helper.
//!
//! Nothing of the repository counts here. The programs run in `/` and in no repository, with the person's own environment and settings. Variables that change
//! what Git does are dropped, and so are directories of programs that are not absolute or that lie in the workspace.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use byleave_gate::core::git_transport::{GitService, GitUrl};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The maximum length of a message of `ssh` that is shown.
const MESSAGE_BYTES_MAX: u64 = 2_000;
/// The maximum length of what `git` prints about its settings.
const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// Options that leave `ssh` nothing but the one program on the other side: no questions, no forwarding, no local command.
const SSH_OPTIONS: [&str; 18] = [
    "-o",
    "BatchMode=yes",
    "-o",
    "ForwardAgent=no",
    "-o",
    "ForwardX11=no",
    "-o",
    "ClearAllForwardings=yes",
    "-o",
    "PermitLocalCommand=no",
    "-o",
    "RequestTTY=no",
    "-o",
    "Tunnel=no",
    "-o",
    "ControlMaster=no",
    "-o",
    "SendEnv=GIT_PROTOCOL",
];

/// The person's own programs and settings.
#[derive(Clone, Debug)]
pub(super) struct PersonsGit {
    environment: BTreeMap<String, String>,
}

/// The person's user name and password for a host. It is never printed.
pub(super) struct GitCredential {
    pub(super) user: String,
    pub(super) password: String,
}

impl PersonsGit {
    /// Uses this environment of the person, without what an agent in this workspace could have made.
    pub(super) fn new(environment: &BTreeMap<String, String>, workspace: &Path) -> Self {
        let is_kept = |name: &str| {
            !name.starts_with("GIT_") && name != "SSH_ASKPASS" && name != "BASH_ENV" && name != "ENV"
        };
        let mut kept: BTreeMap<String, String> = environment
            .iter()
            .filter(|(name, _)| is_kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let path = kept.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let is_own = |directory: &PathBuf| directory.is_absolute() && !directory.starts_with(workspace);
        let directories = path.split(':').map(PathBuf::from).filter(is_own);
        let path: Vec<String> =
            directories.map(|directory| directory.to_string_lossy().into_owned()).collect();
        kept.insert("PATH".into(), path.join(":"));
        for (name, value) in [
            // No repository, wherever it runs.
            ("GIT_DIR", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "false"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("LC_ALL", "C.UTF-8"),
        ] {
            kept.insert(name.into(), value.into());
        }
        Self { environment: kept }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.environment).current_dir("/").kill_on_drop(true);
        command
    }

    /// Returns the value of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Runs the person's git, which reads only the settings of the person and of the machine. Returns what it prints.
    async fn git(&self, arguments: &[&str], input: &str) -> Result<Option<String>, String> {
        let mut git = self.command("git");
        git.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let unable = |error: io::Error| format!("cannot run `git`: {error}");
        let mut running = git.spawn().map_err(unable)?;
        if let Some(mut stdin) = running.stdin.take() {
            // A program that does not read its input has its own answer.
            stdin.write_all(input.as_bytes()).await.ok();
        }
        let ended = running.wait_with_output().await.map_err(unable)?;
        if ended.stdout.len() > SETTINGS_BYTES_MAX {
            return Err("`git` printed too much".to_owned());
        }
        Ok(ended.status.success().then(|| String::from_utf8_lossy(&ended.stdout).into_owned()))
    }

    /// Returns the person's settings about HTTP for a URL: each key in lower case, without `http.`, and its value.
    pub(super) async fn http_settings(&self, url: &GitUrl) -> Result<BTreeMap<String, String>, String> {
        let listed = self.git(&["config", "--get-urlmatch", "http", &url.to_string()], "").await?;
        let listed = listed.unwrap_or_default();
        let pairs = listed.lines().map(|line| line.split_once(' ').unwrap_or((line, "true")));
        Ok(pairs
            .map(|(key, value)| (key.trim_start_matches("http.").to_ascii_lowercase(), value.to_owned()))
            .collect())
    }

    /// Asks the person's credential helper.
    pub(super) async fn credential(&self, url: &GitUrl) -> Result<GitCredential, String> {
        let port = url.explicit_port.map(|port| format!(":{port}")).unwrap_or_default();
        let mut query =
            format!("protocol=https\nhost={}{port}\npath={}\n", url.host, url.path.trim_start_matches('/'));
        if let Some(user) = &url.user {
            query.push_str(&format!("username={user}\n"));
        }
        let filled = self.git(&["credential", "fill"], &format!("{query}\n")).await?;
        let none = || format!("your credential helper has nothing for `{}`", url.host);
        let filled = filled.ok_or_else(none)?;
        let value = |name: &str| {
            let mut values = filled.lines().filter_map(|line| line.split_once('='));
            values.find_map(|(key, value)| (key == name).then(|| value.to_owned()))
        };
        let (user, password) = value("username").zip(value("password")).ok_or_else(none)?;
        Ok(GitCredential { user, password })
    }

    /// Starts `ssh` for a service on a host.
    pub(super) async fn ssh(
        &self,
        url: &GitUrl,
        service: GitService,
        version_2: bool,
    ) -> Result<SshTransport, String> {
        let own = self.git(&["config", "--get", "core.sshCommand"], "").await?;
        let own = own.map(|own| own.trim().to_owned()).filter(|own| !own.is_empty());
        let mut ssh = match own {
            Some(own) => {
                let mut shell = self.command("sh");
                shell.args(["-c", &format!("{own} \"$@\""), "ssh"]);
                shell
            }
            None => self.command("ssh"),
        };
        ssh.args(SSH_OPTIONS);
        if version_2 && service == GitService::UploadPack {
            ssh.env("GIT_PROTOCOL", "version=2");
        }
        if let Some(port) = url.explicit_port {
            ssh.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &url.user {
            ssh.args(["-l", user]);
        }
        // The path has no character that the shell on the other side reads.
        ssh.args(["--", &url.host, &format!("{} '{}'", service.program(), url.path)]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().map_err(|error| format!("cannot run `ssh`: {error}"))?;
        let unable = || "cannot run `ssh`: it has no pipes".to_owned();
        let (input, output) = child.stdin.take().zip(child.stdout.take()).ok_or_else(unable)?;
        Ok(SshTransport { input, output, child })
    }
}

/// A running `ssh`. It ends when this is dropped.
pub(super) struct SshTransport {
    pub(super) input: ChildStdin,
    pub(super) output: ChildStdout,
    pub(super) child: Child,
}

/// Drops what `ssh` prints from now on, so that it never waits for a reader.
pub(super) fn drop_messages(child: &mut Child) {
    if let Some(mut errors) = child.stderr.take() {
        // It ends with the program.
        tokio::spawn(async move { tokio::io::copy(&mut errors, &mut tokio::io::sink()).await.ok() });
    }
}

/// Returns why `ssh` ended before the server said anything.
pub(super) async fn ssh_message(mut child: Child) -> String {
    let mut message = Vec::new();
    if let Some(errors) = child.stderr.take() {
        // What was read before an error is the message.
        errors.take(MESSAGE_BYTES_MAX).read_to_end(&mut message).await.ok();
    }
    let message = String::from_utf8_lossy(&message);
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => "`ssh` ended without a message".to_owned(),
        lines => format!("`ssh` says: {}", lines.join("; ").trim_end_matches('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E7
    #[test]
    fn nothing_that_an_agent_can_write_is_run_outside() {
        let environment = [
            ("PATH", "./bin:/w/node_modules/.bin:/usr/bin::/bin"),
            ("GIT_SSH_COMMAND", "/w/x"),
            ("GIT_DIR", "/w/.git"),
            ("GIT_CONFIG_COUNT", "1"),
            ("HOME", "/home/ada"),
            ("SSH_AUTH_SOCK", "/run/agent"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let own = PersonsGit::new(&environment, Path::new("/w"));
        assert_eq!(own.variable("PATH"), Some("/usr/bin:/bin"));
        assert_eq!(own.variable("SSH_AUTH_SOCK"), Some("/run/agent"));
        assert_eq!(own.variable("GIT_DIR"), Some("/dev/null"));
        for name in ["GIT_SSH_COMMAND", "GIT_CONFIG_COUNT"] {
            assert_eq!(own.variable(name), None, "{name}");
        }
    }
}

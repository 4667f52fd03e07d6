//! `byleave mcp login` and `logout`: a login at a server over HTTP. This module shows it, asks for consent and opens the browser.
//! It never sees a secret.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use byleave_mcp::upstream::login::{LoginDestination, LoginError, LoginOptions};
use clap::Args as Group;
use rustix::termios::{QueueSelector, tcflush};
use serde_json::json;

use crate::console::{Console, Tone, prose};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::mcp_servers;
use crate::resolved_options::ResolvedOptions;

#[derive(Debug, Group)]
pub(crate) struct LoginArgs {
    /// Server name
    pub(crate) name: String,
    /// Print the login URL and open no browser
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Do not ask if the login involves hosts other than that of the server
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// OAuth client id, if the authorization server does not register clients itself
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Allow login hosts with private addresses, for a login in your own network
    #[arg(long)]
    pub(crate) allow_private_network: bool,
    /// Time limit for the login in the browser
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) wait: u64,
}

/// The default program that opens a URL in a browser.
const OPENER: &str = "xdg-open";

pub(super) async fn run(
    typed: &LoginArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let definition = mcp_servers::find(options, &typed.name)?;
    let manner = LoginOptions {
        client_id: typed.client_id.clone(),
        allow_private_network: typed.allow_private_network,
    };
    let destination =
        LoginDestination::discover(&definition, manner).await.map_err(|fault| complaint(&fault))?;
    if !agreed(&destination, typed, screen)? {
        return Err(CliError::refused("you were not logged in, and nothing was opened").into());
    }
    let issuer = destination.issuer().to_owned();
    let begun = destination.start().await.map_err(|fault| complaint(&fault))?;
    screen.message("log in at this address:");
    screen.message(&prose(begun.address()));
    if !typed.no_browser && has_display() {
        let opener = opener(env::var_os("BROWSER"));
        if let Err(error) = open(&opener, begun.address()) {
            screen.message_with_tone(
                Tone::Careful,
                "not opened:",
                &prose(&format!("`{}`: {error}", opener.display())),
            );
        }
    }
    begun
        .finish(Duration::from_secs(typed.wait), &mcp_servers::logins(options))
        .await
        .map_err(|fault| complaint(&fault))?;
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "login": { "state": "at", "issuer": issuer } }));
    } else {
        screen.line(&prose(&format!("logged in at {issuer} for the server {}", definition.name)));
    }
    Ok(ExitStatus::Completed)
}

pub(super) fn logout(name: &str, options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let definition = mcp_servers::find(options, name)?;
    let was = mcp_servers::logins(options).forget(&definition.name)?;
    if screen.json() {
        screen.value(&json!({ "server": definition.name, "forgotten": was }));
    } else if was {
        screen.line(&format!("the login at the server {} is deleted here", definition.name));
    } else {
        screen.line(&format!("there was no login at the server {}", definition.name));
    }
    Ok(ExitStatus::Completed)
}

/// Asks the person for consent if the login involves hosts other than the server's.
fn agreed(destination: &LoginDestination, typed: &LoginArgs, screen: &mut Console) -> Result<bool> {
    let elsewhere = destination.other_hosts();
    if elsewhere.is_empty() {
        return Ok(true);
    }
    screen.message(&format!("the login for {} is not at the server itself:", typed.name));
    for (host, what) in &elsewhere {
        screen.message(&prose(&format!("  {host}  {what}")));
    }
    if !destination.scopes().is_empty() {
        screen.message(&prose(&format!("requested scopes: {}", destination.scopes().join(" "))));
    }
    if typed.yes {
        return Ok(true);
    }
    if screen.json() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::refused("there is no terminal to ask whether these hosts may be contacted")
            .hint("run the command at a terminal, or add `--yes`")
            .into());
    }
    // Keys typed earlier were not typed for this question.
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    let mut talk = io::stderr();
    write!(talk, "continue? [y/N] ").and_then(|()| talk.flush())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Checks whether there is a display.
fn has_display() -> bool {
    let named = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() || named("DISPLAY") || named("WAYLAND_DISPLAY")
}

/// Returns the program to start: the first in `$BROWSER`, if that is a plain program.
fn opener(browser: Option<OsString>) -> OsString {
    let first = browser.and_then(|browser| browser.into_string().ok());
    let first = first.as_deref().and_then(|browser| browser.split([':', ' ']).next());
    let plain = |word: &&str| {
        // A program found relative to the current directory is not the person's choice.
        word.starts_with(|c: char| c == '/' || c.is_ascii_alphanumeric() && !word.contains('/'))
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._+/".contains(c))
    };
    first.filter(plain).unwrap_or(OPENER).into()
}

/// Starts the opener with the URL as its only argument, without a shell.
fn open(opener: &OsString, address: &str) -> io::Result<()> {
    let mut command = Command::new(opener);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // The redirect shows whether a browser opened.
    std::thread::spawn(move || drop(child.wait()));
    Ok(())
}

fn complaint(fault: &LoginError) -> CliError {
    let said = prose(&fault.to_string());
    match fault {
        LoginError::Endpoint(_)
        | LoginError::InvalidServerUrl(_)
        | LoginError::Unsupported(_)
        | LoginError::WrongState => CliError::refused(said),
        LoginError::Denied(_) => CliError::refused(said),
        LoginError::Timeout(_) => {
            CliError::new(said).hint("`byleave mcp login NAME` starts again; `--wait` waits longer")
        }
        LoginError::NoAuthorizationServer(_) => CliError::new(said)
            .hint("if the server needs a token instead, set it with `byleave mcp add --header`"),
        _ => CliError::new(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_program_opens() {
        for (browser, wanted) in [
            (None, OPENER),
            (Some(""), OPENER),
            (Some("firefox"), "firefox"),
            (Some("/usr/bin/firefox-esr:chromium"), "/usr/bin/firefox-esr"),
            (Some("firefox --new-window %s"), "firefox"),
            (Some("-x"), OPENER),
            (Some("sh;id"), OPENER),
            (Some("$(id)"), OPENER),
            (Some("./here"), OPENER),
            (Some("bin/here"), OPENER),
        ] {
            assert_eq!(opener(browser.map(OsString::from)), OsString::from(wanted), "{browser:?}");
        }
    }
}

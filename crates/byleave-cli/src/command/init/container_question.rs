//! Asks whether the container around this program is the outer wall, where commands can run only then.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use byleave_gate::core::policy::Layer;
use rustix::termios::{QueueSelector, tcflush};

use super::personal_setup::PersonalSetup;
use crate::atomic_replace;
use crate::command::doctor::needs_only_trust;
use crate::config;
use crate::console::{Console, prose};
use crate::resolved_options::ResolvedOptions;

const LINE: &str = "container = \"trusted\"\n";

/// Asks at a terminal, and writes a yes to the person's own settings. Without a terminal nothing is asked.
pub(super) fn ask(
    options: &ResolvedOptions,
    personal: &mut PersonalSetup,
    screen: &mut Console,
) -> Result<()> {
    let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal() && !screen.json();
    if !has_terminal || !needs_only_trust(options) {
        return Ok(());
    }
    let own = options.config_files().into_iter().find(|file| file.layer == Layer::User);
    let Some(own) = own else { return Ok(()) };
    screen.message(&prose(
        "the kernel gives no namespaces in this container, so Landlock alone confines commands: they can see other processes, and what \
         reaches a host is confined to ports. A yes accepts the container itself as the outer wall. What is denied, hidden or protected \
         stays so",
    ));
    // Keys typed earlier were not typed for this question.
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    let mut talk = io::stderr();
    write!(talk, "trust this container as the outer wall? [y/N] ").and_then(|()| talk.flush())?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    if !matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    let path = atomic_replace::target(&own.path)?;
    let before = atomic_replace::text(&path)?;
    // First, because tables of reviewers end the settings.
    let after = LINE.to_owned() + before.as_deref().unwrap_or_default();
    config::check(&path, &after, &[])?;
    personal.write(&path, before.as_deref(), &after, options)?;
    screen.line(&format!("`{}` says {}", path.display(), LINE.trim_end()));
    Ok(())
}

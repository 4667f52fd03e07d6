//! The systemd user service that evaluates calls for hooks, so that not every hook starts the whole program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::resolved_options::{ResolvedOptions, default_state_dir, variable};
use crate::timed_process;

/// The name of the service.
pub(super) const NAME: &str = "byleave-hook.service";
/// The time limit for the service manager.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks whether the person has a service manager.
pub(super) fn is_available() -> bool {
    systemctl(&["show-environment"]).is_ok()
}

/// Returns the path of the service's definition.
pub(super) fn path(options: &ResolvedOptions) -> Result<PathBuf> {
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || options.home.as_ref().map(|home| Path::new(home).join(".config"));
    let config = config.or_else(home).context("your home directory is not known; set HOME")?;
    Ok(config.join("systemd/user").join(NAME))
}

/// Returns the definition of the service.
pub(super) fn unit(program: &Path, options: &ResolvedOptions) -> String {
    let mut command = quoted(&program.to_string_lossy());
    if default_state_dir().as_ref() != Some(&options.state) {
        command = format!("{command} --state {}", quoted(&options.state.to_string_lossy()));
    }
    format!(
        "# Written by `byleave init`; `byleave init --undo` removes it.\n\
         [Unit]\n\
         Description=Byleave, evaluates the calls of agents' hooks\n\
         \n\
         [Service]\n\
         ExecStart={command} hook serve\n\
         # It ends when the settings or the program have changed.\n\
         Restart=always\n\
         RestartSec=1\n\
         UMask=0077\n\
         # With its own cgroup, it can limit the memory of the commands that it rehearses.\n\
         Delegate=yes\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}

/// Switches the service on and starts it.
pub(super) fn start() -> Result<()> {
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", NAME])
}

/// Stops the service and switches it off. Without a service manager it does not run.
pub(super) fn stop() {
    drop(systemctl(&["disable", "--now", NAME]));
}

/// Lets the service manager forget a definition that was removed.
pub(super) fn reload() {
    drop(systemctl(&["daemon-reload"]));
}

fn systemctl(words: &[&str]) -> Result<()> {
    let said = timed_process::run(Command::new("systemctl").arg("--user").args(words), "", PATIENCE)?;
    let why = || said.stderr.lines().next().unwrap_or("it says nothing").to_owned();
    anyhow::ensure!(said.status.success(), "`systemctl --user {}` failed: {}", words.join(" "), why());
    Ok(())
}

/// Quotes a word for a line of a service definition.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

//! `byleave completions`: shell completions, generated from the definition of the commands.

use clap::{Args as Group, CommandFactory as _};
use clap_complete::Shell;
use serde_json::json;

use crate::command::Args;
use crate::console::Console;
use crate::exit_status::ExitStatus;

#[derive(Debug, Group)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

pub(crate) fn run(typed: &CompletionsArgs, screen: &mut Console) -> ExitStatus {
    let mut script = Vec::new();
    clap_complete::generate(typed.shell, &mut Args::command(), "byleave", &mut script);
    let script = String::from_utf8_lossy(&script);
    if screen.json() {
        screen.value(&json!({ "shell": typed.shell.to_string(), "script": script }));
    } else {
        screen.raw_text(&script);
    }
    ExitStatus::Completed
}

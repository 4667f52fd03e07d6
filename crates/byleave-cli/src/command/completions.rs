//! `byleave completions`: shell completions, generated from the definition of the commands.

use clap::CommandFactory as _;
use serde_json::json;

use crate::args::{Args, CompletionsArgs};
use crate::console::Console;
use crate::exit_status::ExitStatus;

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

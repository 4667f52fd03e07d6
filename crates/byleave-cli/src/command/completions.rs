//! `byleave completions`: what a shell completes, from the same description of the commands that reads them.

use clap::CommandFactory as _;
use serde_json::json;

use crate::args::{Args, Completions};
use crate::screen::Screen;
use crate::status::Status;

pub(crate) fn run(typed: &Completions, screen: &mut Screen) -> Status {
    let mut script = Vec::new();
    clap_complete::generate(typed.shell, &mut Args::command(), "byleave", &mut script);
    let script = String::from_utf8_lossy(&script);
    if screen.json() {
        screen.value(&json!({ "shell": typed.shell.to_string(), "script": script }));
    } else {
        screen.trusted(&script);
    }
    Status::Completed
}

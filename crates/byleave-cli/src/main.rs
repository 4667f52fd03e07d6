//! The `byleave` program: commands and the terminal, over the crates of the gate.
//!
//! It is thin on purpose. Each command has one file in [`command`], with its arguments. The options of every
//! command are in [`args`], and [`resolved_options`] interprets them. It must not decide anything that the gate decides.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod active_policy;
mod agent_configs;
#[cfg(feature = "agent")]
mod agent_setup;
mod app_context;
mod approval_scope;
mod args;
mod atomic_replace;
mod bar_chart;
mod call_display;
mod codex_program;
mod command;
mod command_help;
mod config;
mod config_edit;
mod console;
mod default_session;
mod diagnostics;
mod drive_call;
mod error;
mod error_report;
mod exit_status;
mod home_variable;
mod hook;
mod init_journal;
mod job_signals;
mod json_output;
mod live_output;
mod mark_file;
mod mcp_config_file;
mod mcp_servers;
mod notify;
mod private_file;
mod proxied;
mod resolved_options;
mod resume_call;
mod reviewers;
mod run_on;
mod short_ids;
mod signals;
mod terminal_approver;
mod terminal_mark;
mod time;
mod timed_process;
mod tool_catalog;
mod undo_target;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::command::Args;
use crate::console::Console;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

/// A gate allocates much memory and frees it soon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    home_variable::restart_with_home();
    let args = match parse(std::env::args_os()) {
        Ok(args) => args,
        Err(said) => return misspelt(&said).into(),
    };
    let mut screen = Console::new(args.global.color.unwrap_or(args::ColorArg::Auto), args.global.json);
    let status =
        run(args, &mut screen).unwrap_or_else(|error| error_report::report_error(&mut screen, &error));
    if screen.has_write_error() { ExitStatus::Unusable.into() } else { status.into() }
}

/// Parses the command line.
fn parse(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Args, clap::Error> {
    let mut command = command_help::with_grouped_help(Args::command());
    let matches = command.try_get_matches_from_mut(words)?;
    command_help::check_conflicts(&mut command, &matches)?;
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn run(args: Args, screen: &mut Console) -> Result<ExitStatus> {
    listen(args.global.verbose);
    let options = if command::works_without_settings(args.command.as_ref()) {
        ResolvedOptions::ignoring_broken_config(&args.global)?
    } else {
        ResolvedOptions::new(&args.global)?
    };
    screen.color(options.settings.color());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start")?;
    runtime.block_on(command::run(args.command, &options, screen))
}

/// Prints a message of clap. Help and version are results; everything else is a usage error.
fn misspelt(said: &clap::Error) -> ExitStatus {
    let typed: Vec<String> =
        std::env::args_os().map(|word| console::one_line(&word.to_string_lossy())).collect();
    let json = typed.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let mut screen = Console::new(args::ColorArg::Auto, json);
    if said.use_stderr() {
        // The message contains typed words, and clap drops what it takes for colours. So the words are escaped beforehand.
        let text = match parse(typed) {
            Err(visible) => visible.render().to_string(),
            Ok(_) => console::many_lines(&said.render().to_string()).join("\n"),
        };
        let text = text.trim_end();
        screen.message(text);
        if json {
            let what = text.strip_prefix("error: ").unwrap_or(text);
            screen.value(&json_output::error(what, None, ExitStatus::Unusable));
        }
        return ExitStatus::Unusable;
    }
    screen.raw_text(&said.render().to_string());
    if screen.has_write_error() { ExitStatus::Unusable } else { ExitStatus::Completed }
}

fn listen(verbose: u8) {
    use tracing_subscriber::EnvFilter;
    let level = match verbose {
        0 => return,
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    tracing_subscriber::fmt()
        // This target logs parts of logins.
        .with_env_filter(EnvFilter::new(format!("{level},rmcp::transport::auth=off")))
        .with_writer(|| byleave_terminal::stderr_hold::HeldStderr)
        .with_ansi(false)
        .init();
}

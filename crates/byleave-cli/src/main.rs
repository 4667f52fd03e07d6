//! The `byleave` program: commands and the terminal, over the `byleave` library.
//!
//! Thin on purpose. What was typed is in [`args`], what it means in [`options`], one file per command under
//! [`command`]; nothing is decided here that the gate decides.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agents;
mod args;
mod ask;
mod chart;
mod command;
mod complaint;
mod config;
mod edit;
mod flaws;
mod hook;
mod house;
mod ids;
mod json;
mod live;
mod notify;
mod options;
mod person;
#[cfg(feature = "serve")]
mod private;
mod proxied;
mod replace;
mod rules;
mod scope;
mod screen;
mod servers;
mod servers_file;
mod setups;
mod show;
mod signals;
mod status;
mod taking_back;
#[cfg(feature = "agent")]
mod talk;
mod telling;
mod time;
mod tools;
mod workers;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::args::Args;
use crate::options::Options;
use crate::screen::Screen;
use crate::status::Status;

/// A gate allocates much and frees it soon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(said) => return misspelt(&said).into(),
    };
    let mut screen = Screen::new(args.global.color.unwrap_or(args::Color::Auto), args.global.json);
    let status = run(args, &mut screen).unwrap_or_else(|error| telling::tell(&mut screen, &error));
    if screen.has_lost() { Status::Unusable.into() } else { status.into() }
}

fn run(args: Args, screen: &mut Screen) -> Result<Status> {
    listen(args.global.verbose);
    let options = if command::works_without_settings(&args.command) {
        Options::despite(&args.global)?
    } else {
        Options::new(&args.global)?
    };
    screen.color(options.chosen.color());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start")?;
    runtime.block_on(command::run(args.command, &options, screen))
}

/// Help and versions are results; everything else that clap says is about wrong usage.
fn misspelt(said: &clap::Error) -> Status {
    let typed: Vec<String> =
        std::env::args_os().map(|word| screen::one_line(&word.to_string_lossy())).collect();
    let json = typed.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let mut screen = Screen::new(args::Color::Auto, json);
    if said.use_stderr() {
        // What was typed stands in it, and clap drops what it takes for colours: so it is made visible beforehand.
        let text = match Args::try_parse_from(typed) {
            Err(visible) => visible.render().to_string(),
            Ok(_) => screen::many_lines(&said.render().to_string()).join("\n"),
        };
        let text = text.trim_end();
        screen.say(text);
        if json {
            let what = text.strip_prefix("error: ").unwrap_or(text);
            screen.value(&json::error(what, None, Status::Unusable));
        }
        return Status::Unusable;
    }
    screen.trusted(&said.render().to_string());
    if screen.has_lost() { Status::Unusable } else { Status::Completed }
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
        // It logs what logins are made of.
        .with_env_filter(EnvFilter::new(format!("{level},rmcp::transport::auth=off")))
        .with_writer(|| byleave_terminal::floor::Talk)
        .with_ansi(false)
        .init();
}

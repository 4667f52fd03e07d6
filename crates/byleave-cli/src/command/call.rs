//! `byleave call`: makes one call and drives it as far as possible.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context as _, Result};
use byleave::clock::fresh_id;
use byleave::core::call::Call;
use byleave::core::id::CallId;
use byleave::result::CallStatus;
use serde_json::Value;

use crate::app_context::AppContext;
use crate::args::{self, AskArg};
use crate::call_display;
use crate::command::session;
use crate::console::Console;
use crate::drive_call::{drive, record_waivers};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::notify;
use crate::resolved_options::ResolvedOptions;
use crate::terminal_approver;

/// The maximum size of JSON input. The gate has further limits.
const JSON_BYTES_MAX: u64 = 16 * 1024 * 1024;

pub(crate) async fn run(
    typed: args::CallArgs,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let chosen = options.settings.clone().with_mode(typed.mode).with_timeout(typed.timeout_ms);
    call_display::print_tightened(screen, &chosen);
    let call = Call {
        id: typed.id.unwrap_or_else(|| CallId::new(fresh_id())),
        tenant: options.tenant.clone(),
        session: typed.session,
        agent: typed.agent,
        tool: typed.tool,
        arguments: json("--args", &typed.args)?,
        reason: typed.reason,
        cwd: options.cwd.clone(),
        mode: chosen.mode(),
        dry_run: typed.dry_run,
    };
    let house = AppContext::open_or_create(options)?;
    let ask = options.resolve_ask(typed.ask, AskArg::None);
    let gate = terminal_approver::gate(&house, options, &options.cwd, ask, chosen.gate())?;
    record_waivers(&gate, options).await?;
    if let Some(parent) = typed.parent {
        session::open_under_parent(&gate, options, &call, parent).await?;
    }
    let tool = call.tool.clone();
    let driven = drive(&gate, call.id, gate.advance(call), options, screen).await;
    if let CallStatus::Waiting { question, .. } = &driven.call_status {
        notify::notify_waiting(&chosen, question, &tool, screen);
    }
    call_display::print_status(screen, &driven.call_status);
    Ok(driven.status())
}

/// Reads JSON as typed, from a file or from standard input.
pub(crate) fn json(option: &str, typed: &str) -> Result<Value> {
    let text = match typed.strip_prefix('@') {
        _ if typed == "-" => read(io::stdin()).context("cannot read standard input")?,
        Some(path) => {
            #[expect(
                clippy::disallowed_methods,
                reason = "a person names it in this very command, and it may be a pipe of theirs"
            )]
            let file = File::open(path).and_then(read);
            file.map_err(|error| {
                CliError::new(format!("cannot read `{path}`: {error}")).hint(format!(
                    "`{option} @FILE` reads an existing file, `{option} -` reads standard input"
                ))
            })?
        }
        None => typed.to_owned(),
    };
    let wrong = |error| {
        CliError::new(format!("{option} is not JSON: {error}")).hint(format!(
            "write `{option} '{{\"text\":\"hi\"}}'`, `{option} @FILE`, or `{option} -` for standard input"
        ))
    };
    Ok(serde_json::from_str(&text).map_err(wrong)?)
}

fn read(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let read = from.take(JSON_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > JSON_BYTES_MAX {
        return Err(io::Error::other(format!("more than {JSON_BYTES_MAX} bytes")));
    }
    Ok(text)
}

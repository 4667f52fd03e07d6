//! Notifies a person of a question in the way that they chose. It must never delay or fail a call.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use byleave_gate::core::question::Question;

use crate::config::{Config, NotifySetting};
use crate::console::{Console, Tone, one_line, prose};
use crate::short_ids::short;

/// Notifies of a question, and reports a failure.
pub(crate) fn notify_waiting(chosen: &Config, question: &Question, tool: &str, screen: &mut Console) {
    if let Err(error) = try_notify(chosen, question, tool) {
        screen.message_with_tone(
            Tone::Careful,
            "note:",
            &prose(&format!("the notification about the question failed: {error}")),
        );
    }
}

/// Notifies of a question, and returns the error.
pub(crate) fn try_notify(chosen: &Config, question: &Question, tool: &str) -> io::Result<()> {
    let text = one_line(&format!("byleave: question {} about {tool} waits for you", short(&question.id)));
    let nothing = || Err(io::Error::other("`notify_command` is empty; `byleave config edit` sets it"));
    match chosen.notify() {
        NotifySetting::Off => Ok(()),
        // To the terminal itself, because the streams may be redirected. Without a terminal there is nobody to notify.
        NotifySetting::Osc9 => OpenOptions::new()
            .write(true)
            .open("/dev/tty")
            .map_or(Ok(()), |mut tty| write!(tty, "\x1b]9;{text}\x07")),
        NotifySetting::Command(words) => words.split_first().map_or_else(nothing, |(program, rest)| {
            let mut command = Command::new(program);
            command.args(rest).arg(&text).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // Not waited for, so it may take any time.
            command.spawn().map(drop)
        }),
    }
}

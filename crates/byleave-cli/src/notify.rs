//! Tells a person that a question waits, in the way that they chose. It must never hold up a call, nor fail one.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use byleave::core::question::Question;

use crate::config::{Config, NotifySetting};
use crate::console::{Console, Tone, one_line, prose};
use crate::short_ids::short;

/// Says that a question waits.
pub(crate) fn waits(chosen: &Config, question: &Question, tool: &str, screen: &mut Console) {
    if let Err(error) = told(chosen, question, tool) {
        screen.toned(
            Tone::Careful,
            "note:",
            &prose(&format!("nobody could be told of the question: {error}")),
        );
    }
}

/// The same, with what went wrong left to whoever asks.
pub(crate) fn told(chosen: &Config, question: &Question, tool: &str) -> io::Result<()> {
    let text = one_line(&format!("byleave: question {} about {tool} waits for you", short(&question.id)));
    let nothing = || Err(io::Error::other("`notify_command` is empty; `byleave config edit` sets it"));
    match chosen.notify() {
        NotifySetting::Off => Ok(()),
        // To the terminal itself: the streams may go elsewhere. Where there is none, nobody is there to be told.
        NotifySetting::Osc9 => OpenOptions::new()
            .write(true)
            .open("/dev/tty")
            .map_or(Ok(()), |mut tty| write!(tty, "\x1b]9;{text}\x07")),
        NotifySetting::Command(words) => words.split_first().map_or_else(nothing, |(program, rest)| {
            let mut command = Command::new(program);
            command.args(rest).arg(&text).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // Nobody waits for it: it may take as long as it likes.
            command.spawn().map(drop)
        }),
    }
}

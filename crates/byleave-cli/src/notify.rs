//! Notifies a person of a question in the way that they chose. It must never delay or fail a call.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use byleave_gate::core::question::Question;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::QuestionCard;
use byleave_gate::redact::redact;

use crate::config::{Config, NotifySetting};
use crate::console::{Console, Tone, prose};
use crate::short_ids::short;

/// The maximum length of the text about a question.
const TEXT_CHARS_MAX: usize = 200;

/// Notifies of a question, and reports a failure.
pub(crate) fn notify_waiting(chosen: &Config, question: &Question, what: &str, screen: &mut Console) {
    if let Err(error) = try_notify(chosen, question, what) {
        screen.message_with_tone(
            Tone::Careful,
            "note:",
            &prose(&format!("the notification about the question failed: {error}")),
        );
    }
}

/// Returns a question in one line, as its card says it, without secrets. A notification goes to other programs.
pub(crate) fn short_text(sheet: &QuestionView) -> String {
    let text = redact(&QuestionCard::new(sheet).short_text());
    let cut: String = text.chars().take(TEXT_CHARS_MAX).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { text }
}

/// Notifies of a question, and returns the error. `what` says what the question is about, escaped.
pub(crate) fn try_notify(chosen: &Config, question: &Question, what: &str) -> io::Result<()> {
    let text = format!("byleave: question {} waits for you: {what}", short(&question.id));
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

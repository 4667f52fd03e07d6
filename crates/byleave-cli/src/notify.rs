//! Notifies a person of a question in the way that they chose. It must never delay or fail a call.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use byleave_gate::core::question::Question;
use byleave_gate::core::question_view::QuestionView;
use byleave_gate::core::render::QuestionCard;
use byleave_gate::redact::redact;
use rustix::fs::OFlags;

use crate::config::{Config, NotifySetting};
use crate::console::{Console, Tone, prose};
use crate::default_session::ProcessStat;
use crate::resolved_options::variable;
use crate::short_ids::short;

/// The maximum length of the text about a question.
const TEXT_CHARS_MAX: usize = 200;
/// The program that shows a notification on the desktop. Never that of `PATH`: a directory of the workspace, which agents write, may be in it.
const DESKTOP_PROGRAMS: [&str; 3] =
    ["/usr/bin/notify-send", "/usr/local/bin/notify-send", "/run/current-system/sw/bin/notify-send"];
/// The maximum number of processes between this one and its terminal.
const ANCESTORS_MAX: usize = 32;
/// The major number of pseudo-terminals.
const PTS_MAJOR: u64 = 136;

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
        NotifySetting::Auto => {
            // Nobody chose it, so it may fail.
            let shown = desktop_program().map_or_else(
                || to_terminal(&terminal_sequence(&text, variable)),
                |program| spawn(program, ["--app-name=byleave", "--"], &text),
            );
            shown.or(Ok(()))
        }
        NotifySetting::Osc9 => to_terminal(&osc9(&text)),
        NotifySetting::Command(words) => {
            words.split_first().map_or_else(nothing, |(program, rest)| spawn(program, rest, &text))
        }
    }
}

/// Says how `auto` notifies here.
pub(crate) fn describe_auto() -> String {
    desktop_program().map_or_else(
        || "by the terminal or its bell; there is no desktop with `notify-send`".to_owned(),
        |program| format!("on the desktop, by `{program}`"),
    )
}

/// Starts a command with the text as the last word. It is not waited for, so it may take any time.
fn spawn<W: AsRef<std::ffi::OsStr>>(
    program: &str,
    words: impl IntoIterator<Item = W>,
    text: &str,
) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(words).arg(text).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// Returns the program of the desktop, if there is one.
fn desktop_program() -> Option<&'static str> {
    let has_desktop = ["WAYLAND_DISPLAY", "DISPLAY"].into_iter().any(|name| variable(name).is_some());
    DESKTOP_PROGRAMS.into_iter().find(|program| has_desktop && Path::new(program).is_file())
}

/// Writes to the terminal itself, because the streams may be redirected. Without a terminal there is nobody to notify.
fn to_terminal(sequence: &str) -> io::Result<()> {
    terminal().map_or(Ok(()), |mut terminal| terminal.write_all(sequence.as_bytes()))
}

fn osc9(text: &str) -> String {
    format!("\x1b]9;{text}\x07")
}

/// Returns what makes this kind of terminal show a notification, or its bell.
fn terminal_sequence(text: &str, variable: impl Fn(&str) -> Option<String>) -> String {
    let is_set = |name: &str| variable(name).is_some();
    let program = variable("TERM_PROGRAM").unwrap_or_default();
    let term = variable("TERM").unwrap_or_default();
    // A multiplexer passes on only the bell.
    if is_set("TMUX") || is_set("STY") {
        return "\x07".to_owned();
    }
    if is_set("KITTY_WINDOW_ID") {
        return format!("\x1b]99;;{text}\x1b\\");
    }
    if ["iTerm.app", "WezTerm", "ghostty"].contains(&program.as_str()) || is_set("ConEmuPID") {
        return osc9(text);
    }
    if term.starts_with("foot") || term.starts_with("rxvt") {
        return format!("\x1b]777;notify;byleave;{text}\x1b\\");
    }
    "\x07".to_owned()
}

/// Opens the terminal of this process, or that of the agent which started it without one. A terminal that is stopped must not hold a call up.
fn terminal() -> Option<File> {
    let open = |path: &str| {
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        OpenOptions::new().write(true).custom_flags(flags.bits().cast_signed()).open(path).ok()
    };
    if let Some(own) = open("/dev/tty") {
        return Some(own);
    }
    let mut process = ProcessStat::read("self");
    for _ in 0..ANCESTORS_MAX {
        if let Some(path) = pseudo_terminal(&process.terminal) {
            return open(&path);
        }
        if matches!(process.parent.as_str(), "" | "0" | "1") {
            return None;
        }
        process = ProcessStat::read(&process.parent);
    }
    None
}

/// Returns the path of a pseudo-terminal, given the device number of `/proc/PID/stat`.
fn pseudo_terminal(device: &str) -> Option<String> {
    let device: u64 = device.parse().ok()?;
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    (major == PTS_MAJOR).then(|| format!("/dev/pts/{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_terminal_gets_what_it_shows_and_others_their_bell() {
        for (set, expected) in [
            (&[][..], "\x07"),
            (&[("TERM", "xterm-256color")], "\x07"),
            (&[("TERM_PROGRAM", "WezTerm")], "\x1b]9;text\x07"),
            (&[("KITTY_WINDOW_ID", "1")], "\x1b]99;;text\x1b\\"),
            (&[("TERM", "foot")], "\x1b]777;notify;byleave;text\x1b\\"),
            (&[("TERM_PROGRAM", "WezTerm"), ("TMUX", "/tmp/t")], "\x07"),
        ] {
            let variable =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(terminal_sequence("text", variable), expected, "{set:?}");
        }
    }

    #[test]
    fn the_terminal_of_an_ancestor_is_found_by_its_device() {
        // 136:5 and 136:300.
        assert_eq!(pseudo_terminal("34821").as_deref(), Some("/dev/pts/5"));
        assert_eq!(pseudo_terminal("1083436").as_deref(), Some("/dev/pts/300"));
        for other in ["0", "1025", "", "x"] {
            assert_eq!(pseudo_terminal(other), None, "{other}");
        }
    }
}

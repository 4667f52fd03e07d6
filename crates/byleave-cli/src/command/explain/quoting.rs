//! Formats words, commands and effects for people: quoted for a shell, escaped and shortened.

use byleave_gate::core::effect::{Effect, UNKNOWN_HOST};
use byleave_gate::shell::commands::{Redirection, RedirectionAccess, SimpleCommand};
use byleave_gate::shell::word::Word;

use crate::console::one_line;

/// Longer text is shortened on the screen, with a mark. `--json` has all of it.
const SHOWN_MAX: usize = 160;

/// The directories of system programs, whose names are shown without a path.
const SYSTEM: [&str; 6] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Formats a word for a shell. Unknown parts are `…`.
pub(super) fn word(word: &Word) -> String {
    match word {
        Word::Literal(text) => quoted(text),
        Word::Unknown(_) => unknown(&word.to_string()),
    }
}

/// Formats the words of a command, after its assignments.
pub(super) fn command(command: &SimpleCommand) -> String {
    let assignments =
        command.assignments.iter().map(|(name, value)| format!("{}={}", one_line(name), word(value)));
    let words = command.words.iter().map(word);
    shortened(&assignments.chain(words).collect::<Vec<_>>().join(" "))
}

/// Formats a redirection, and returns what it does.
pub(super) fn redirection(redirection: &Redirection) -> (String, &'static str) {
    let target = word(&redirection.target);
    let connects = redirection
        .target
        .as_text()
        .is_some_and(|target| target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/"));
    let (sign, does) = match redirection.access {
        RedirectionAccess::Read => ("<", "its input comes from this file"),
        RedirectionAccess::Write => (">", "its output goes to this file"),
        RedirectionAccess::ReadWrite => ("<>", "it reads and writes this file"),
    };
    (shortened(&format!("{sign} {target}")), if connects { "this is a connection to a host" } else { does })
}

/// Formats the target of an effect.
pub(super) fn target(effect: &Effect) -> String {
    match effect {
        Effect::Run { program, argv } => {
            let words: Vec<String> = argv.iter().map(|word| unknown_in(word)).collect();
            let (folder, name) = program.rsplit_once('/').unwrap_or(("", program));
            let plain = argv.first().is_some_and(|first| first == name || first == program);
            let known = folder.is_empty() || folder == "shell:" || SYSTEM.contains(&folder);
            let file = if plain && known { String::new() } else { format!("  ({})", unknown_in(program)) };
            format!("{}{file}", shortened(&words.join(" ")))
        }
        Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => one_line(path),
        Effect::Reach { host, .. } | Effect::Send { host, .. } if host == UNKNOWN_HOST => {
            "a host that is not known".to_owned()
        }
        Effect::Reach { host, port } | Effect::Send { host, port } => {
            one_line(&format!("{host}, port {port}"))
        }
        Effect::Invoke { tool } => one_line(tool),
        Effect::Unconfined { guarantee } => one_line(guarantee),
        Effect::Unknown { reason: why } => unknown_reason(why),
    }
}

/// Formats the reason why something is unknown.
pub(super) fn unknown_reason(why: &str) -> String {
    shortened(&unknown(why.strip_prefix("not known: ").unwrap_or(why)))
}

/// Formats a text of the plan in which `…` may mark unknown parts.
fn unknown_in(text: &str) -> String {
    if text.contains('…') { unknown(text) } else { quoted(text) }
}

fn unknown(text: &str) -> String {
    text.split('…').map(one_line).collect::<Vec<_>>().join("…")
}

/// Quotes a text as one shell word.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-^".contains(c);
    let shown = one_line(text);
    if !text.is_empty() && text.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', "'\\''"))
    }
}

/// Returns the beginning of a text that is too long.
pub(super) fn shortened(text: &str) -> String {
    let left = text.chars().count().saturating_sub(SHOWN_MAX);
    if left < 20 {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start}… ({left} more characters)")
}

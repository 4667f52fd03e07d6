//! Words, commands and effects as a person reads them: quoted where a shell would need it, visible, and not endless.

use byleave::core::effect::Effect;
use byleave::shell::commands::{Redirection, RedirectionAccess, SimpleCommand};
use byleave::shell::word::Word;

use crate::console::one_line;

/// What is longer is shortened on the screen, and says so; `--json` has all of it.
const SHOWN_MAX: usize = 160;

/// Where programs of the system lie: their names are enough.
const SYSTEM: [&str; 6] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// A word as a shell would take it; what is not known of it is `…`.
pub(super) fn word(word: &Word) -> String {
    match word {
        Word::Literal(text) => quoted(text),
        Word::Unknown(_) => unknown(&word.to_string()),
    }
}

/// The words of a command, with the assignments in front of them.
pub(super) fn command(command: &SimpleCommand) -> String {
    let assignments =
        command.assignments.iter().map(|(name, value)| format!("{}={}", one_line(name), word(value)));
    let words = command.words.iter().map(word);
    shortened(&assignments.chain(words).collect::<Vec<_>>().join(" "))
}

/// A redirection as it could be written, and what it does.
pub(super) fn redirection(redirection: &Redirection) -> (String, &'static str) {
    let target = word(&redirection.target);
    let connects = redirection
        .target
        .text()
        .is_some_and(|target| target.starts_with("/dev/tcp/") || target.starts_with("/dev/udp/"));
    let (sign, does) = match redirection.access {
        RedirectionAccess::Read => ("<", "its input comes from this file"),
        RedirectionAccess::Write => (">", "its output goes to this file"),
        RedirectionAccess::ReadWrite => ("<>", "it reads and writes this file"),
    };
    (shortened(&format!("{sign} {target}")), if connects { "this is a connection to a host" } else { does })
}

/// What an effect is about.
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
        Effect::Reach { host, port } => one_line(&format!("{host}, port {port}")),
        Effect::Invoke { tool } => one_line(tool),
        Effect::Unconfined { guarantee } => one_line(guarantee),
        Effect::Unknown { why } => why_not(why),
    }
}

/// Why something could not be told.
pub(super) fn why_not(why: &str) -> String {
    shortened(&unknown(why.strip_prefix("not known: ").unwrap_or(why)))
}

/// A text of the plan in which `…` may stand for what is not known.
fn unknown_in(text: &str) -> String {
    if text.contains('…') { unknown(text) } else { quoted(text) }
}

fn unknown(text: &str) -> String {
    text.split('…').map(one_line).collect::<Vec<_>>().join("…")
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-^".contains(c);
    let shown = one_line(text);
    if !text.is_empty() && text.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', "'\\''"))
    }
}

/// The beginning of a text, if all of it is too much.
pub(super) fn shortened(text: &str) -> String {
    let left = text.chars().count().saturating_sub(SHOWN_MAX);
    if left < 20 {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_MAX).collect();
    format!("{start}… ({left} more characters)")
}

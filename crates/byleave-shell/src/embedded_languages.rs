//! Small languages that programs take on the command line: sed, awk, jq, and the word splitting of `env -S` and xargs.
//!
//! The scanners are hand-written and deliberately not parsers. The only question is whether a text reads, writes or runs anything.
//! Each scanner knows the part of its language that certainly does not. Anything else is unknown.

mod awk;
mod jq;
mod sed;

pub(crate) use self::awk::awk;
pub(crate) use self::jq::jq;
pub(crate) use self::sed::sed;

/// An effect of a program text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptEffect {
    /// Reads a file.
    Read(String),
    /// Writes a file.
    Write(String),
    /// Passes this text to a shell.
    Shell(String),
    /// An unknown effect, with the reason.
    Unknown(String),
}

/// Splits text at white space, with quotes and backslashes as in a shell. Returns `None` if the text contains more than that.
pub(crate) fn split_words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' | '"' => {
                let into = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == c => break,
                        '\\' | '$' if c == '"' => return None,
                        other => into.push(other),
                    }
                }
            }
            '\\' => {
                let next = chars.next().filter(|next| !next.is_ascii_alphanumeric())?;
                word.get_or_insert_default().push(next);
            }
            '$' | '#' if word.is_none() || c == '$' => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

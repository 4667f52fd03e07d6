//! Small languages that programs take on the command line: sed, awk, jq, and what `env -S` and xargs make of text.
//!
//! Scanners written by hand, and on purpose not parsers: the only question is whether such a text reads, writes or runs anything.
//! Each knows the part of its language that can answer no for certain; whatever else it meets is unknown.

mod awk;
mod jq;
mod sed;

pub(crate) use self::awk::awk;
pub(crate) use self::jq::jq;
pub(crate) use self::sed::sed;

/// Something that a text does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptEffect {
    /// Reads a file.
    Read(String),
    /// Writes a file.
    Write(String),
    /// Has a shell read this.
    Shell(String),
    /// Not known.
    Unknown(String),
}

/// Takes text apart at white space, with quotes and backslashes as in a shell; `None` where there is more to it than that.
pub(crate) fn split(text: &str) -> Option<Vec<String>> {
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

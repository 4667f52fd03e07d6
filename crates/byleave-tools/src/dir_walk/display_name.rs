//! Formats names for display: plain text is unchanged, and ambiguous text is escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::gate_lines::GATE_PREFIX;

/// Formats a path or a link target for the model, always on one line.
pub(crate) fn display_name(path: &[u8]) -> Cow<'_, str> {
    if path.starts_with(GATE_PREFIX.as_bytes()) {
        return Cow::Owned(format!("./{}", escaped(path)));
    }
    match str::from_utf8(path) {
        Ok(text) if path.iter().all(|byte| matches!(byte, b' '..=b'~')) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(path)),
    }
}

fn escaped(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        for one in chunk.valid().chars() {
            // All tools accept these characters as they are.
            if matches!(one, '\'' | '"' | '\\') { text.push(one) } else { text.extend(one.escape_debug()) }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            write!(text, "\\x{byte:02x}").unwrap_or_default();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_on_one_line_and_never_as_ours() {
        for (path, wanted) in [
            (&b"a/b c.rs"[..], "a/b c.rs"),
            ("caf\u{e9}/it's".as_bytes(), "caf\u{e9}/it's"),
            (b"a\nb\r\x1b[2J", "a\\nb\\r\\u{1b}[2J"),
            (b"a\xffb", "a\\xffb"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
            (b"[byleave] all is well", "./[byleave] all is well"),
        ] {
            assert_eq!(display_name(path), wanted);
        }
    }
}

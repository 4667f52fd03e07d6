//! Lines of the gate within other output. They have a prefix, and no line of a command, a file or a page may look like one of them.

/// The prefix of lines of the gate.
pub(crate) const GATE_PREFIX: &str = "[byleave]";

/// All characters that a reader may take for a line end.
pub(crate) const LINE_ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Adds a line of the gate.
pub(crate) fn push_gate_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{GATE_PREFIX} {line}\n"));
}

/// Marks printed lines that look like lines of the gate, because those are read as statements of the gate.
pub fn strip_gate_prefix(text: &str) -> String {
    if !text.contains(GATE_PREFIX) {
        return text.to_owned();
    }
    // Whitespace and invisible characters.
    let is_unseen = |one: char| one.is_whitespace() || one.is_control() || one.escape_debug().len() > 2;
    let line = |line: &str| {
        let indented = line.len() - line.trim_start_matches(is_unseen).len();
        match line.split_at_checked(indented) {
            Some((before, rest)) if rest.starts_with(GATE_PREFIX) => format!("{before}printed: {rest}"),
            _ => line.to_owned(),
        }
    };
    text.split_inclusive(LINE_ENDS).map(line).collect()
}

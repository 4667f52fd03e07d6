//! Lines of ours among those of others: what the gate says stands behind a mark, and nothing that a command, a file or a page says may
//! look as if it did.

/// What our own lines begin with.
pub(crate) const OURS: &str = "[byleave]";

/// Everything that somebody may take for the end of a line.
pub(crate) const LINE_ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Adds a line of ours.
pub(crate) fn say(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{OURS} {line}\n"));
}

/// What a command printed, where no line looks like one of ours: those are read as what the gate says.
pub fn in_its_own_words(text: &str) -> String {
    if !text.contains(OURS) {
        return text.to_owned();
    }
    // Blanks, and what is not shown at all.
    let is_unseen = |one: char| one.is_whitespace() || one.is_control() || one.escape_debug().len() > 2;
    let line = |line: &str| {
        let indented = line.len() - line.trim_start_matches(is_unseen).len();
        match line.split_at_checked(indented) {
            Some((before, rest)) if rest.starts_with(OURS) => format!("{before}printed: {rest}"),
            _ => line.to_owned(),
        }
    };
    text.split_inclusive(LINE_ENDS).map(line).collect()
}

//! Explains why a string was not found in a text: similar places, and how they differ. Pure.
//!
//! It is only for messages; a near match is never replaced.

use std::fmt::Write as _;

use strsim::sorensen_dice;

/// The maximum number of lines that are searched.
const LOOKED_MAX: usize = 200_000;
/// The maximum number of places that are shown.
const SHOWN_MAX: usize = 3;
/// The maximum length of a shown line.
const LINE_CHARS_MAX: usize = 160;
/// The maximum number of shown lines for each place.
const LINES_MAX: usize = 12;
/// The minimum similarity of a line, by shared pairs of letters.
const ALIKE_MIN: f64 = 0.55;
/// The maximum length that is compared; longer lines are compared by their beginning.
const COMPARED_CHARS_MAX: usize = 400;

/// A function that normalizes a line for comparison.
type LineNormalizer = fn(&str) -> String;

/// Returns why a string was not found, where similar text is, and what to do. `called` is the model's name for the string.
pub(crate) fn describe_near_match(text: &str, old: &str, called: &str) -> String {
    if let Some(why) = misspelt(text, old, called) {
        return why;
    }
    let lines: Vec<&str> = text.split_inclusive('\n').take(LOOKED_MAX).collect();
    let wanted: Vec<&str> = old.split_inclusive('\n').collect();
    let ways: [(&str, LineNormalizer); 2] = [
        ("ignoring whitespace (indentation, tabs, spaces at line ends)", squeezed),
        ("ignoring whitespace and case", |line| squeezed(line).to_lowercase()),
    ];
    for (differs, form) in ways {
        let found = alike_in_form(&lines, &wanted, form);
        if !found.is_empty() {
            let mut why = format!("{called} was not found exactly; {differs}, it is");
            show(&mut why, &lines, &found, wanted.len());
            why.push_str(
                "\ncopy the text exactly from there (in this message \\t is a tab, \\r a carriage return)",
            );
            return why;
        }
    }
    let found = most_alike(&lines, &wanted);
    if found.is_empty() {
        return format!(
            "{called} was not found, nor anything similar; read the file again with read_file, or search with grep"
        );
    }
    let mut why = format!("{called} was not found; the most similar lines are");
    show(&mut why, &lines, &found, 1);
    why.push_str("\nread these lines with read_file, and copy the text to replace exactly");
    why
}

/// Detects common mistakes in a string: it would be found if it were written differently.
fn misspelt(text: &str, old: &str, called: &str) -> Option<String> {
    let line_of = |wanted: &str, text: &str| {
        let at = text.find(wanted)?;
        Some(text.get(..at)?.matches('\n').count() + 1)
    };
    if let Some(line) = line_of(&old.replace('\n', "\r\n").replace("\r\r\n", "\r\n"), text) {
        return Some(format!(
            "{called} was not found exactly: the lines of the file end in CRLF (\\r\\n), and the given lines in LF; with CRLF it is at line {line}; \
             write \\r\\n in the old and the new text"
        ));
    }
    if old.contains('\r')
        && let Some(line) = line_of(&old.replace("\r\n", "\n"), text)
    {
        return Some(format!(
            "{called} was not found exactly: the lines of the file end in LF (\\n), and the given lines in CRLF; with LF it is at line {line}; \
             write \\n in the old and the new text"
        ));
    }
    let unescaped = old.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    if unescaped != old
        && let Some(line) = line_of(&unescaped, text)
    {
        return Some(format!(
            "{called} has a backslash and a letter where the file has a line end, a tab or a quote: the text is escaped twice; escaped once, it is \
             at line {line}"
        ));
    }
    let unnumbered = without_numbers(old)?;
    let line = line_of(&unnumbered, text)?;
    Some(format!(
        "{called} has the line numbers that read_file shows, which are not in the file; without them it is at line {line}"
    ))
}

/// Removes the line numbers of `read_file`, if every line has one.
fn without_numbers(old: &str) -> Option<String> {
    let mut bare = String::with_capacity(old.len());
    for line in old.split_inclusive('\n') {
        let (number, rest) = line.split_once('\t')?;
        number.trim_start().parse::<usize>().ok()?;
        bare.push_str(rest);
    }
    Some(bare)
}

/// Returns a line with every run of whitespace as one space, and none at its ends.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns where the normalized lines occur, from 0. The first may begin within a line, and the last may end within one.
fn alike_in_form(lines: &[&str], wanted: &[&str], form: LineNormalizer) -> Vec<usize> {
    let wanted: Vec<String> = wanted.iter().map(|line| form(line)).collect();
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Vec::new() };
    // Whitespace alone would match nearly everywhere.
    if wanted.iter().all(String::is_empty) {
        return Vec::new();
    }
    let lines: Vec<String> = lines.iter().map(|line| form(line)).collect();
    let is_here = |window: &[String]| match window {
        [one] => one.contains(first.as_str()),
        [start, middle @ .., end] => {
            start.ends_with(first.as_str())
                && end.starts_with(last.as_str())
                && wanted.get(1..wanted.len() - 1) == Some(middle)
        }
        [] => false,
    };
    let found = lines.windows(wanted.len()).enumerate().filter(|(_, window)| is_here(window));
    found.map(|(at, _)| at).take(SHOWN_MAX).collect()
}

/// Returns the lines most similar to the longest wanted line, best first.
fn most_alike(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    let Some(wanted) =
        wanted.iter().map(|line| line.trim()).max_by_key(|line| line.len()).filter(|line| line.len() > 1)
    else {
        return Vec::new();
    };
    let alike = |line: &str| {
        let line = line.trim();
        // A line of a very different length cannot be similar enough.
        let (long, short) = (line.len().max(wanted.len()), line.len().min(wanted.len()));
        if short.saturating_mul(3) < long { 0.0 } else { sorensen_dice(beginning(line), beginning(wanted)) }
    };
    let mut found: Vec<(usize, f64)> = lines.iter().map(|line| alike(line)).enumerate().collect();
    found.retain(|(_, alike)| *alike >= ALIKE_MIN);
    found.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    found.into_iter().map(|(at, _)| at).take(SHOWN_MAX).collect()
}

fn beginning(line: &str) -> &str {
    line.char_indices().nth(COMPARED_CHARS_MAX).and_then(|(end, _)| line.get(..end)).unwrap_or(line)
}

fn show(why: &mut String, lines: &[&str], found: &[usize], height: usize) {
    for at in found {
        for (number, line) in lines.iter().enumerate().skip(*at).take(height.min(LINES_MAX)) {
            // Writing to a string does not fail.
            write!(why, "\n  {:>5} │ {}", number + 1, visible(line)).unwrap_or_default();
        }
        if height > LINES_MAX {
            why.push_str("\n        │ …");
        }
    }
}

/// Returns a line with invisible characters escaped; of a long line, only the beginning.
fn visible(line: &str) -> String {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let mut shown: String = line.chars().take(LINE_CHARS_MAX).flat_map(escaped).collect();
    if line.chars().nth(LINE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

fn escaped(letter: char) -> impl Iterator<Item = char> {
    // Quotes and backslashes stay, so that the line can be copied.
    let plain = matches!(letter, '"' | '\'' | '\\');
    let (own, other) = if plain { (Some(letter), None) } else { (None, Some(letter.escape_debug())) };
    own.into_iter().chain(other.into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: B3
    #[test]
    fn what_is_near_is_told_with_its_lines() {
        let code = "fn main() {\n\tlet a = 1;\n    call(a,  b);\n}\n\nfn other() {\n    call(a, c);\n}\n";
        for (text, old, wanted) in [
            (
                code,
                "    let a = 1;\n",
                &["ignoring whitespace", "    2 │ \\tlet a = 1;", "copy the text exactly from there"][..],
            ),
            (code, "main() {\nlet a = 1;\n  call(a, b)", &["ignoring whitespace", "1 │ fn main", "3 │ "]),
            (code, "LET A", &["whitespace and case", "2 │"]),
            (code, "    call(a, d);", &["most similar", "7 │     call(a, c);", "read_file"]),
            (code, "zzzzzzzzzzzzzzzzzzz", &["nor anything similar", "grep"]),
            ("a\r\nb\r\nc\r\n", "a\nb\n", &["CRLF", "is at line 1", "write \\r\\n"]),
            ("x\na\nb\n", "a\r\nb\r\n", &["end in LF", "is at line 2"]),
            ("x\na\n\tb\n", "a\\n\\tb", &["escaped twice", "line 2"]),
            (code, "     2\t\tlet a = 1;\n     3\t    call(a,  b);\n", &["line numbers", "line 2"]),
            ("", "a", &["nor anything similar"]),
            ("a\n\n\nb", "  \n \n", &["nor anything similar"]),
        ] {
            let advice = describe_near_match(text, old, "`old`");
            for part in wanted {
                assert!(advice.contains(part), "{old:?}: no {part:?} in {advice}");
            }
        }
    }

    #[test]
    fn long_lines_and_control_characters_are_shown_short_and_visible() {
        let line = format!("let x = \u{1b}[2J\"{}\"", "y".repeat(500));
        let advice = describe_near_match(&line, "let  x", "`old`");
        assert!(advice.contains("let x = \\u{1b}[2J\"yyy") && advice.len() < 700, "{advice}");
    }
}

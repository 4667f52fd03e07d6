//! Renders values and texts from outside, complete and behind a gutter.
//!
//! The format is similar to JSON, but nobody has to read escapes. A text of several lines is shown as numbered lines. A text of one line is
//! in quotes that cannot occur inside it.

use serde_json::Value;

use crate::escape::EscapeLevel;

use super::line::LineRole;
use super::writer::{RenderingBuilder, format_count};

/// The gutter of everything that comes from outside.
pub(super) const GUTTER: &str = "  │ ";
/// The maximum nesting depth of values. Nobody could follow more.
const DEPTH_MAX: usize = 128;
/// The length from which a text of one line is shown with its size.
const SHORT_BYTES: usize = 200;
/// The maximum number of repetitions of a line. More are counted instead of shown, so that padding cannot push the rest away.
const SAME_MAX: usize = 4;

/// Writes a complete value.
pub(super) fn write_value(page: &mut RenderingBuilder, role: LineRole, value: &Value) {
    write_at(page, role, 0, "", value);
}

/// Writes a complete text as numbered lines.
pub(super) fn write_text(page: &mut RenderingBuilder, role: LineRole, text: &str) {
    write_numbered_lines(page, role, 0, text);
}

/// Returns the size of a text: lines and bytes, and whether its last line ends with a newline.
pub(super) fn measure(text: &str) -> String {
    let lines = format_count(split_lines(text).count(), "line", "lines");
    let bytes = format_count(text.len(), "byte", "bytes");
    let open = if text.ends_with('\n') { "" } else { ", no newline at the end" };
    format!("{lines}, {bytes}{open}")
}

/// Checks whether a value is nested too deeply.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left == 0 || items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(map) => left == 0 || map.values().any(|item| deeper(item, left - 1)),
            _ => false,
        }
    }
    deeper(value, DEPTH_MAX)
}

/// Returns the name of a field: bare if it is a plain word, otherwise in quotes.
pub(super) fn format_key(page: &mut RenderingBuilder, name: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { page.quote(name) }
}

fn write_at(page: &mut RenderingBuilder, role: LineRole, depth: usize, label: &str, value: &Value) {
    if depth > DEPTH_MAX {
        page.mark_incomplete(format!("values are nested more than {DEPTH_MAX} deep"));
    }
    if !page.is_open() {
        return;
    }
    let line = |page: &mut RenderingBuilder, text: &str| {
        page.push_line(role, &gutter(depth), &format!("{label}{text}"));
    };
    match value {
        Value::Null => line(page, "null"),
        Value::Bool(flag) => line(page, if *flag { "true" } else { "false" }),
        Value::Number(number) => line(page, &number.to_string()),
        Value::String(text) if text.contains('\n') => {
            line(page, &format!("text, {}", measure(text)));
            write_numbered_lines(page, role, depth + 1, text);
        }
        Value::String(text) => {
            let shown = page.quote(text);
            let size =
                if text.len() > SHORT_BYTES { format!(" {} bytes", text.len()) } else { String::new() };
            line(page, &format!("{shown}{size}"));
        }
        Value::Array(items) if items.is_empty() => line(page, "[]"),
        Value::Array(items) => {
            line(page, "[");
            for item in items {
                write_at(page, role, depth + 1, "", item);
            }
            page.push_line(role, &gutter(depth), "]");
        }
        Value::Object(map) if map.is_empty() => line(page, "{}"),
        Value::Object(map) => {
            line(page, "{");
            // Sorted by name, so that no feature of the map type can change the text that a person reads.
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            for (name, item) in fields {
                let label = format!("{}: ", format_key(page, name));
                write_at(page, role, depth + 1, &label, item);
            }
            page.push_line(role, &gutter(depth), "}");
        }
    }
}

fn gutter(depth: usize) -> String {
    format!("{GUTTER}{:1$}", "", depth * 2)
}

/// Writes numbered lines behind a second bar, which nothing else has. No content can be mistaken for a field or a heading.
fn write_numbered_lines(page: &mut RenderingBuilder, role: LineRole, depth: usize, text: &str) {
    let mut lines = split_lines(text).zip(1_usize..).peekable();
    let digits = split_lines(text).count().to_string().len().max(3);
    let gutter = gutter(depth);
    while let Some((line, number)) = lines.next() {
        if !page.is_open() {
            return;
        }
        let mut last = number;
        while let Some((_, same)) = lines.next_if(|(next, _)| *next == line) {
            last = same;
        }
        let shown = page.escape(line, EscapeLevel::Text);
        let one = |number: usize| match line {
            "" => format!("{gutter}{number:>digits$} ┃"),
            _ => format!("{gutter}{number:>digits$} ┃ "),
        };
        page.push_line(role, &one(number), &shown);
        let more = last - number;
        if more > SAME_MAX {
            let range = format!("{gutter}{:>digits$}–{last} ┃ ", number + 1);
            page.push_line(role, &range, &format!("⟨the same line {more} more times⟩"));
        } else {
            (number + 1..=last).for_each(|number| page.push_line(role, &one(number), &shown));
        }
    }
}

/// Returns the lines of a text. A newline at the end does not begin another line. A carriage return is content.
fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

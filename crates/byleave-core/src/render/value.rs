//! Values and texts from outside, whole, behind a gutter.
//!
//! Much like JSON, but nobody has to read escapes: a text of several lines is shown as numbered lines, and a text of one
//! line in quotes that cannot occur inside it.

use serde_json::Value;

use crate::escape::EscapeLevel;

use super::line::LineRole;
use super::writer::{RenderingBuilder, counted};

/// The gutter of everything that comes from outside.
pub(super) const GUTTER: &str = "  │ ";
/// How deep values may be nested before nobody could follow.
const DEPTH_MAX: usize = 128;
/// A text of one line that is longer says how long it is.
const SHORT_BYTES: usize = 200;
/// How often a line is repeated before the repetitions are counted instead of shown: padding does not push the rest away.
const SAME_MAX: usize = 4;

/// Writes a value, whole.
pub(super) fn write(page: &mut RenderingBuilder, role: LineRole, value: &Value) {
    write_at(page, role, 0, "", value);
}

/// Writes a text as numbered lines, whole.
pub(super) fn write_text(page: &mut RenderingBuilder, role: LineRole, text: &str) {
    numbered(page, role, 0, text);
}

/// How a text measures: lines and bytes, and whether its last line ends.
pub(super) fn measure(text: &str) -> String {
    let lines = counted(lines_of(text).count(), "line", "lines");
    let bytes = counted(text.len(), "byte", "bytes");
    let open = if text.ends_with('\n') { "" } else { ", no newline at the end" };
    format!("{lines}, {bytes}{open}")
}

/// How deep a value is nested, as far as it matters.
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

/// The name of a field: bare where it is a plain word, else in quotes.
pub(super) fn key(page: &mut RenderingBuilder, name: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { page.quoted(name) }
}

fn write_at(page: &mut RenderingBuilder, role: LineRole, depth: usize, label: &str, value: &Value) {
    if depth > DEPTH_MAX {
        page.miss(format!("values are nested more than {DEPTH_MAX} deep"));
    }
    if !page.is_open() {
        return;
    }
    let line = |page: &mut RenderingBuilder, text: &str| {
        page.line(role, &gutter(depth), &format!("{label}{text}"));
    };
    match value {
        Value::Null => line(page, "null"),
        Value::Bool(flag) => line(page, if *flag { "true" } else { "false" }),
        Value::Number(number) => line(page, &number.to_string()),
        Value::String(text) if text.contains('\n') => {
            line(page, &format!("text, {}", measure(text)));
            numbered(page, role, depth + 1, text);
        }
        Value::String(text) => {
            let shown = page.quoted(text);
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
            page.line(role, &gutter(depth), "]");
        }
        Value::Object(map) if map.is_empty() => line(page, "{}"),
        Value::Object(map) => {
            line(page, "{");
            // By name, so that no feature of the map type can change what a person reads.
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by(|a, b| a.0.cmp(b.0));
            for (name, item) in fields {
                let label = format!("{}: ", key(page, name));
                write_at(page, role, depth + 1, &label, item);
            }
            page.line(role, &gutter(depth), "}");
        }
    }
}

fn gutter(depth: usize) -> String {
    format!("{GUTTER}{:1$}", "", depth * 2)
}

/// Numbered lines behind a second bar, which nothing else has: no content can pass for a field, nor for a heading.
fn numbered(page: &mut RenderingBuilder, role: LineRole, depth: usize, text: &str) {
    let mut lines = lines_of(text).zip(1_usize..).peekable();
    let digits = lines_of(text).count().to_string().len().max(3);
    let gutter = gutter(depth);
    while let Some((line, number)) = lines.next() {
        if !page.is_open() {
            return;
        }
        let mut last = number;
        while let Some((_, same)) = lines.next_if(|(next, _)| *next == line) {
            last = same;
        }
        let shown = page.escaped(line, EscapeLevel::Text);
        let one = |number: usize| match line {
            "" => format!("{gutter}{number:>digits$} ┃"),
            _ => format!("{gutter}{number:>digits$} ┃ "),
        };
        page.line(role, &one(number), &shown);
        let more = last - number;
        if more > SAME_MAX {
            let range = format!("{gutter}{:>digits$}–{last} ┃ ", number + 1);
            page.line(role, &range, &format!("⟨the same line {more} more times⟩"));
        } else {
            (number + 1..=last).for_each(|number| page.line(role, &one(number), &shown));
        }
    }
}

/// The lines of a text; a newline at the end ends the last and begins none. A carriage return is content.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

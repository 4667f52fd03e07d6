//! Before and after: the changes of a reviewer or a person, field by field.

use serde_json::Value;

use crate::escape::EscapeLevel;

use super::line::LineRole;
use super::value::{self, GUTTER};
use super::writer::RenderingBuilder;

/// Writes the differences between two values. Equal parts are left out, and differing parts are complete.
pub(super) fn write_changes(page: &mut RenderingBuilder, before: &Value, after: &Value) {
    write_at(page, "", Some(before), Some(after));
}

fn write_at(page: &mut RenderingBuilder, path: &str, before: Option<&Value>, after: Option<&Value>) {
    if before == after || !page.is_open() {
        return;
    }
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let shown = value::format_key(page, name);
                write_at(page, &format!("{path}/{shown}"), a.get(name), b.get(name));
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for place in 0..a.len().max(b.len()) {
                write_at(page, &format!("{path}/{place}"), a.get(place), b.get(place));
            }
        }
        (Some(Value::String(a)), Some(Value::String(b))) if a.contains('\n') || b.contains('\n') => {
            write_title(page, path, "changed");
            write_changed_lines(page, a, b);
        }
        _ => {
            let what = match (before.is_some(), after.is_some()) {
                (true, true) => "changed",
                (false, _) => "added",
                (true, false) => "removed",
            };
            write_title(page, path, what);
            for (word, side) in [("before:", before), ("now:", after)] {
                if let Some(side) = side {
                    page.push_line(LineRole::Change, "    ", word);
                    value::write_value(page, LineRole::Change, side);
                }
            }
        }
    }
}

fn write_title(page: &mut RenderingBuilder, path: &str, what: &str) {
    let path = if path.is_empty() { "the whole value" } else { path };
    page.push_line(LineRole::Change, "  ", &format!("{path} {what}"));
}

/// Writes the lines between the common beginning and the common end: removed lines with a minus, added lines with a plus.
fn write_changed_lines(page: &mut RenderingBuilder, before: &str, after: &str) {
    let old: Vec<&str> = before.split('\n').collect();
    let new: Vec<&str> = after.split('\n').collect();
    let same = |a: &[&str], b: &[&str]| a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let head = same(&old, &new);
    let (old_rest, new_rest) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(x, y)| x == y).count();
    for (sign, rest) in [('-', old_rest), ('+', new_rest)] {
        let changed = rest.len().saturating_sub(tail);
        for (line, number) in rest.iter().take(changed).zip(head + 1..) {
            if !page.is_open() {
                return;
            }
            let shown = page.escape(line, EscapeLevel::Text);
            page.push_line(LineRole::Change, &format!("{GUTTER}{sign}{number:>4} ┃ "), &shown);
        }
    }
}

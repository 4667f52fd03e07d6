//! Edits YAML line by line in one mapping of a mapping, in block style. Anything else is refused.
//!
//! No crate was found that edits YAML without reformatting some of it. A parser gives the line of each key, whole entries are
//! removed and added as lines, and the caller parses the result.

use std::fmt::Write as _;

use saphyr::{LoadableYamlNode as _, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Value};

use super::{EditError, EditOp, ordered, two};

pub(super) fn read(text: &str) -> Result<Value, EditError> {
    value_of(&document(text)?)
}

pub(super) fn apply(text: &str, op: &EditOp) -> Result<String, EditError> {
    match op {
        EditOp::Set { at, value } => {
            let (outer, inner) = two(at)?;
            add(&remove(text, outer, inner)?, outer, inner, value)
        }
        EditOp::Remove { at } => {
            let (outer, inner) = two(at)?;
            remove(text, outer, inner)
        }
        EditOp::Append { .. } | EditOp::Drop { .. } => Err(EditError::UnsupportedSyntax),
    }
}

fn remove(text: &str, outer: &str, inner: &str) -> Result<String, EditError> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let Some(block) = YamlBlock::find(text, outer)? else { return Ok(text.to_owned()) };
    let Some(entry) = block.entries.iter().find(|entry| entry.key == inner) else {
        return Ok(text.to_owned());
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let end = entry_end(&lines, entry.line, block.column);
    let is_last = block.entries.len() == 1;
    let mut edited = String::with_capacity(text.len());
    for (number, line) in lines.iter().enumerate() {
        if number == block.line && is_last {
            // Without an entry the value would be null and not a table.
            let (kept, line_end) = split_end(line);
            let (key, comment) = kept.split_once(':').ok_or(EditError::UnsupportedSyntax)?;
            let space = if comment.is_empty() { "" } else { comment };
            write!(edited, "{key}: {{}}{space}{line_end}").map_err(|_| EditError::UnsupportedSyntax)?;
        } else if !(entry.line..end).contains(&number) {
            edited.push_str(line);
        }
    }
    Ok(edited)
}

fn add(text: &str, outer: &str, inner: &str, value: &Value) -> Result<String, EditError> {
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let block = if text.trim().is_empty() { None } else { YamlBlock::find(text, outer)? };
    let mut before = String::new();
    let (place, indent) = match &block {
        Some(block) => match block.entries.last() {
            Some(last) => (entry_end(&lines, last.line, block.column), block.column),
            None => (block.line.saturating_add(1), 2),
        },
        None => {
            write!(before, "{outer}:{line_end}").map_err(|_| EditError::UnsupportedSyntax)?;
            (lines.len(), 2)
        }
    };
    let mut new = before;
    entry(&mut new, indent, inner, value);
    let new = new.replace("\r\n", "\n").replace('\n', line_end);
    let mut edited = String::with_capacity(text.len().saturating_add(new.len()));
    for (number, line) in lines.iter().enumerate() {
        if number == place {
            edited.push_str(&new);
        }
        match &block {
            Some(block) if block.line == number && block.entries.is_empty() => {
                // Written as nothing or as `{}`: the entries follow now.
                let (kept, end) = split_end(line);
                let (key, rest) = kept.split_once(':').ok_or(EditError::UnsupportedSyntax)?;
                let rest = rest.trim_start().strip_prefix("{}").unwrap_or(rest);
                write!(edited, "{key}:{}{end}", rest.trim_end()).map_err(|_| EditError::UnsupportedSyntax)?;
            }
            _ => edited.push_str(line),
        }
        if number.saturating_add(1) == lines.len() && !line.ends_with('\n') {
            edited.push_str(line_end);
        }
    }
    if place >= lines.len() {
        edited.push_str(&new);
    }
    Ok(edited)
}

/// A mapping in block style, under a key at the left edge.
struct YamlBlock {
    line: usize,
    column: usize,
    entries: Vec<YamlEntry>,
}

struct YamlEntry {
    key: String,
    line: usize,
}

impl YamlBlock {
    fn find(text: &str, outer: &str) -> Result<Option<Self>, EditError> {
        let document = document(text)?;
        let YamlData::Mapping(top) = &document.data else {
            return Err(EditError::UnexpectedStructure(outer.to_owned()));
        };
        let Some((key, value)) = top.iter().find(|(key, _)| text_of(key) == Some(outer)) else {
            return Ok(None);
        };
        if key.span.start.col() != 0 {
            return Err(EditError::UnsupportedSyntax);
        }
        let line = key.span.start.line().saturating_sub(1);
        let fields = match &value.data {
            YamlData::Value(Scalar::Null) => return Ok(Some(Self { line, column: 2, entries: Vec::new() })),
            YamlData::Mapping(fields) if fields.is_empty() => {
                return Ok(Some(Self { line, column: 2, entries: Vec::new() }));
            }
            YamlData::Mapping(fields) => fields,
            _ => return Err(EditError::UnexpectedStructure(outer.to_owned())),
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let mut entries = Vec::new();
        let mut columns = Vec::new();
        for (key, _) in fields {
            let (at, column) = (key.span.start.line().saturating_sub(1), key.span.start.col());
            let is_first = lines.get(at).is_some_and(|line| {
                line.chars().take(column).all(|letter| letter == ' ') && line.chars().count() > column
            });
            let key = text_of(key).ok_or(EditError::UnsupportedSyntax)?.to_owned();
            if !is_first || at <= line || column == 0 {
                return Err(EditError::UnsupportedSyntax);
            }
            columns.push(column);
            entries.push(YamlEntry { key, line: at });
        }
        let column = columns.first().copied().unwrap_or(2);
        if columns.iter().any(|other| *other != column) {
            return Err(EditError::UnsupportedSyntax);
        }
        Ok(Some(Self { line, column, entries }))
    }
}

/// Returns the first line behind an entry. Lines that are indented further belong to it, except comments and gaps at its end.
fn entry_end(lines: &[&str], first: usize, column: usize) -> usize {
    let mut end = first.saturating_add(1);
    for (number, line) in lines.iter().enumerate().skip(end) {
        let is_gap = line.trim().is_empty();
        let indent = line.chars().take_while(|letter| *letter == ' ').count();
        if !is_gap && indent <= column {
            break;
        }
        if !is_gap {
            end = number.saturating_add(1);
        }
    }
    end
}

fn entry(out: &mut String, indent: usize, key: &str, value: &Value) {
    let pad = " ".repeat(indent);
    let key = word(key);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push_str(&format!("{pad}{key}:\n"));
            for (key, value) in ordered(fields) {
                entry(out, indent.saturating_add(2), key, value);
            }
        }
        Value::Array(items)
            if !items.is_empty() && items.iter().all(|item| !item.is_array() && !item.is_object()) =>
        {
            out.push_str(&format!("{pad}{key}:\n"));
            for item in items {
                out.push_str(&format!("{pad}- {}\n", scalar(item)));
            }
        }
        // JSON is YAML.
        value => out.push_str(&format!("{pad}{key}: {}\n", scalar(value))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => other.to_string(),
    }
}

/// Returns a word unquoted if it is unambiguous, otherwise quoted.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/')
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-/.".contains(letter));
    let means_more = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_plain && !means_more.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        Value::String(text.to_owned()).to_string()
    }
}

fn split_end(line: &str) -> (&str, &str) {
    let kept = line.trim_end_matches(['\r', '\n']);
    (kept, line.strip_prefix(kept).unwrap_or_default())
}

fn document(text: &str) -> Result<MarkedYaml<'_>, EditError> {
    let documents =
        MarkedYaml::load_from_str(text).map_err(|error| EditError::Unreadable(error.to_string()))?;
    match <[MarkedYaml<'_>; 1]>::try_from(documents) {
        Ok([only]) => Ok(only),
        Err(_) => Err(EditError::Unreadable("the file does not have exactly one document".to_owned())),
    }
}

fn text_of<'a>(node: &'a MarkedYaml<'_>) -> Option<&'a str> {
    match &node.data {
        YamlData::Value(Scalar::String(text)) => Some(text),
        _ => None,
    }
}

fn value_of(node: &MarkedYaml<'_>) -> Result<Value, EditError> {
    Ok(match &node.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(yes)) => (*yes).into(),
        YamlData::Value(Scalar::Integer(number)) => (*number).into(),
        YamlData::Value(Scalar::FloatingPoint(number)) => Value::String(format!("float {number}")),
        YamlData::Value(Scalar::String(text)) => Value::String(text.to_string()),
        YamlData::Sequence(items) => items.iter().map(value_of).collect::<Result<_, _>>()?,
        YamlData::Mapping(fields) => {
            let mut all = Map::new();
            for (key, value) in fields {
                let key = text_of(key).map_or_else(|| format!("{:?}", key.data), str::to_owned);
                all.insert(key, value_of(value)?);
            }
            Value::Object(all)
        }
        YamlData::Tagged(tag, inner) => Value::Array(vec![format!("{tag:?}").into(), value_of(inner)?]),
        other => return Err(EditError::Unreadable(format!("{other:?}"))),
    })
}

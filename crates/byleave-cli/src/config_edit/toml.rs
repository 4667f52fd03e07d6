//! Edits TOML by removing and adding whole tables. The rest is not touched, not even a line end.

use serde_json::{Map, Value};
use toml_edit::{Document, DocumentMut, InlineTable, Item, Table};

use super::{EditError, EditOp, ordered};

pub(super) fn read(text: &str) -> Result<Value, EditError> {
    let document = Document::parse(text).map_err(unreadable)?;
    Ok(table_value(document.as_table()))
}

/// Applies an operation. Only tables within a table are set and removed, because nothing else is written into TOML.
pub(super) fn apply(text: &str, op: &EditOp) -> Result<String, EditError> {
    match op {
        EditOp::Set { at, value } => {
            let Some((inner, above)) = at.split_last().filter(|(_, above)| !above.is_empty()) else {
                return Err(EditError::UnsupportedSyntax);
            };
            let fields = value.as_object().ok_or(EditError::UnsupportedSyntax)?;
            let mut table = Table::new();
            for (key, value) in ordered(fields) {
                table.insert(key, Item::Value(value_of(value)?));
            }
            add_below(&remove_at(text, at)?, above, inner, table)
        }
        EditOp::Remove { at } => remove_at(text, at),
        EditOp::Append { .. } | EditOp::Drop { .. } => Err(EditError::UnsupportedSyntax),
    }
}

/// Returns the text with a table `[outer.inner]` at its end.
pub(crate) fn add(text: &str, outer: &str, inner: &str, table: Table) -> Result<String, EditError> {
    add_below(text, &[outer], inner, table)
}

fn add_below(text: &str, above: &[impl AsRef<str>], inner: &str, table: Table) -> Result<String, EditError> {
    let document = Document::parse(text).map_err(unreadable)?;
    // An inline table cannot be extended by a later table header.
    let is_inline = |depth: usize| {
        item_at(document.as_table(), above.get(..depth).unwrap_or_default())
            .is_some_and(|item| !item.is_table())
    };
    if (1..=above.len()).any(is_inline) {
        return within(text, above, inner, Some(table));
    }
    let mut new = Table::new();
    new.set_implicit(true);
    new.insert(inner, Item::Table(table));
    for key in above.iter().rev() {
        let mut outer = Table::new();
        outer.set_implicit(true);
        outer.insert(key.as_ref(), Item::Table(new));
        new = outer;
    }
    let new = DocumentMut::from(new).to_string();
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut edited = text.to_owned();
    if !edited.is_empty() && !edited.ends_with('\n') {
        edited.push_str(line_end);
    }
    if !edited.trim().is_empty() {
        edited.push_str(line_end);
    }
    edited.push_str(&new.trim_start().replace('\n', line_end));
    Ok(edited)
}

/// Returns the text without the table `outer.inner`, or unchanged if there is none.
pub(crate) fn remove(text: &str, outer: &str, inner: &str) -> Result<String, EditError> {
    remove_at(text, &[outer, inner])
}

fn remove_at(text: &str, at: &[impl AsRef<str>]) -> Result<String, EditError> {
    let document = Document::parse(text).map_err(unreadable)?;
    let Some((inner, above)) = at.split_last() else { return Err(EditError::UnsupportedSyntax) };
    let Some(item) = item_at(document.as_table(), at) else { return Ok(text.to_owned()) };
    let mut spans = Vec::new();
    if !item.as_table().is_some_and(|table| whole_tables(table, &mut spans)) {
        return within(text, above, inner.as_ref(), None);
    }
    spans.sort_by_key(|span| std::cmp::Reverse(span.start));
    let mut edited = text.to_owned();
    for span in spans {
        let (mut start, mut end) = (line_start(text, span.start), past_line(text, span.end));
        let above = edited.get(..start).unwrap_or_default();
        let below = edited.get(end..).unwrap_or_default();
        // Only one of the blank lines above and below stays, and none at the end of the file.
        let gap_above =
            ["\r\n\r\n", "\n\n"].iter().find(|gap| above.ends_with(**gap)).map(|gap| gap.len() / 2);
        let gap_below = ["\r\n", "\n"].iter().find(|gap| below.starts_with(**gap)).map(|gap| gap.len());
        match (gap_above, gap_below) {
            (Some(gap), None) if below.is_empty() => start = start.saturating_sub(gap),
            (Some(_), Some(gap)) => end = end.saturating_add(gap),
            (None, Some(gap)) if above.is_empty() => end = end.saturating_add(gap),
            _ => {}
        }
        edited.replace_range(start..end, "");
    }
    Ok(edited)
}

/// Collects the spans of a table and its sub-tables, from header to last value. Returns `false` if one of them has no header.
fn whole_tables(table: &Table, spans: &mut Vec<std::ops::Range<usize>>) -> bool {
    if table.is_dotted() {
        return false;
    }
    if !table.is_implicit() {
        let Some(header) = table.span() else { return false };
        let last = table.iter().filter_map(|(_, item)| item.as_value().and_then(toml_edit::Value::span));
        let end = last.map(|span| span.end).chain([header.end]).max().unwrap_or(header.end);
        spans.push(header.start..end);
    }
    table.iter().all(|(_, item)| match item {
        Item::Table(below) => whole_tables(below, spans),
        Item::Value(_) => true,
        Item::None | Item::ArrayOfTables(_) => false,
    })
}

/// Does the same with the TOML library, for tables that are written within another value.
fn within(
    text: &str,
    above: &[impl AsRef<str>],
    inner: &str,
    table: Option<Table>,
) -> Result<String, EditError> {
    if text.contains('\r') {
        return Err(EditError::UnsupportedSyntax);
    }
    let mut document: DocumentMut = text.parse().map_err(unreadable)?;
    let mut found = Some(document.as_item_mut());
    for key in above {
        found = found.and_then(|item| item.get_mut(key.as_ref()));
    }
    let above = found.and_then(Item::as_table_like_mut).ok_or(EditError::UnsupportedSyntax)?;
    match table {
        Some(table) => {
            above.insert(inner, Item::Value(toml_edit::Value::InlineTable(table.into_inline_table())));
        }
        None => {
            above.remove(inner);
        }
    }
    Ok(document.to_string())
}

fn item_at<'a>(table: &'a Table, at: &[impl AsRef<str>]) -> Option<&'a Item> {
    let (first, below) = at.split_first()?;
    below.iter().try_fold(table.get(first.as_ref())?, |item, key| item.get(key.as_ref()))
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|above| above.rfind('\n')).map_or(0, |end| end.saturating_add(1))
}

fn past_line(text: &str, at: usize) -> usize {
    let rest = text.get(at..).and_then(|below| below.find('\n'));
    rest.map_or(text.len(), |end| at.saturating_add(end).saturating_add(1))
}

fn table_value(table: &Table) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), item_value(item))).collect::<Map<_, _>>().into()
}

fn item_value(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain(value),
        Item::Table(table) => table_value(table),
        Item::ArrayOfTables(tables) => tables.iter().map(table_value).collect(),
    }
}

fn plain(value: &toml_edit::Value) -> Value {
    use toml_edit::Value as Toml;
    match value {
        Toml::String(text) => Value::String(text.value().clone()),
        Toml::Integer(number) => (*number.value()).into(),
        Toml::Float(number) => Value::String(number.value().to_string()),
        Toml::Boolean(yes) => (*yes.value()).into(),
        Toml::Datetime(moment) => Value::String(moment.value().to_string()),
        Toml::Array(items) => items.iter().map(plain).collect(),
        Toml::InlineTable(table) => {
            table.iter().map(|(key, value)| (key.to_owned(), plain(value))).collect::<Map<_, _>>().into()
        }
    }
}

fn value_of(value: &Value) -> Result<toml_edit::Value, EditError> {
    Ok(match value {
        Value::Null => return Err(EditError::UnsupportedSyntax),
        Value::Bool(yes) => (*yes).into(),
        Value::Number(number) => number.as_i64().ok_or(EditError::UnsupportedSyntax)?.into(),
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => toml_edit::Value::Array(items.iter().map(value_of).collect::<Result<_, _>>()?),
        Value::Object(fields) => {
            let mut table = InlineTable::new();
            for (key, value) in ordered(fields) {
                table.insert(key, value_of(value)?);
            }
            table.into()
        }
    })
}

#[expect(clippy::needless_pass_by_value, reason = "handed to `map_err`")]
fn unreadable(error: toml_edit::TomlError) -> EditError {
    EditError::Unreadable(error.message().to_owned())
}

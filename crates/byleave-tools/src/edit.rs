//! The tools `edit` and `multi_edit`: replace exact strings in a file.
//!
//! A string must match exactly; differences in whitespace and line ends are never ignored. If it is not found, the error explains why and
//! shows the actual text.

use byleave_gate::core::manifest::{ArgumentRole, Manifest, PermissionClass};
use byleave_gate::core::outcome::Output;
use byleave_gate::tool::{RunContext, Tool};
use byleave_gate::typed_tool::schema_for;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::execution_env::ExecutionEnv;
use crate::file_change_tool::FileChangeTool;
use crate::file_edit::{PlannedEdit, PlannedFile, Precondition, granted_write_path};
use crate::near_match;
use crate::workspace_files::Files;

/// The maximum number of positions in a message.
const PLACES_MAX: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The file
    #[expect(dead_code, reason = "the plan contains the evaluated path, and that one is used")]
    path: String,
    /// The exact text to replace, including whitespace and line ends
    old: String,
    /// The new text
    new: String,
    /// Whether to replace all occurrences; otherwise there must be exactly one
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MultiEdit {
    /// The file
    #[expect(dead_code, reason = "the plan contains the evaluated path, and that one is used")]
    path: String,
    /// The edits, in order: each works on the result of those before it. Either all are made or none
    #[schemars(length(min = 1, max = 1000))]
    edits: Vec<Replacement>,
}

/// One replacement.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Replacement {
    /// The exact text to replace, including whitespace and line ends
    old: String,
    /// The new text
    new: String,
    /// Whether to replace all occurrences; otherwise there must be exactly one
    #[serde(default)]
    all: bool,
}

/// Creates the tool for one edit.
pub fn edit(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let about = "Replaces a string in a text file. The string must match exactly, and in one place unless `all` is set.";
    let manifest = manifest("edit", about, schema_for::<Edit>(), "replace a string in a file");
    let reviser = |args: &Edit, files: &Files, run: &RunContext| {
        let (path, mut file) = read(files, run)?;
        let lines = replaced(&mut file.text, &args.old, &args.new, args.all, files)?;
        let shown = files.display_path(path);
        let said = match lines.as_slice() {
            [line] => format!("replaced `old` in {shown} at line {line}"),
            lines => format!("replaced `old` in {shown} in {} places: {}", lines.len(), places(lines)),
        };
        Ok(revision(path, file, said, json!({ "path": path, "lines": lines })))
    };
    FileChangeTool::new(manifest, workplace, reviser)
}

/// Creates the tool for several edits of one file.
pub fn multi_edit(workplace: &ExecutionEnv) -> impl Tool + use<> {
    let about = "Replaces several strings in one text file, one after the other. Makes either all replacements or none.";
    let manifest =
        manifest("multi_edit", about, schema_for::<MultiEdit>(), "replace several strings in a file");
    let reviser = |args: &MultiEdit, files: &Files, run: &RunContext| {
        let (path, mut file) = read(files, run)?;
        let (all, shown) = (args.edits.len(), files.display_path(path));
        let (mut said, mut data) = (format!("made {all} edits in {shown}"), Vec::with_capacity(all));
        for (number, edit) in (1..).zip(&args.edits) {
            if run.cancel.is_cancelled() {
                return Err("the call was cancelled; nothing was changed".into());
            }
            let lines = replaced(&mut file.text, &edit.old, &edit.new, edit.all, files)
                .map_err(|why| format!("edit {number} of {all} cannot be made, so none was: {why}"))?;
            said.push_str(&format!("\n  {number}: at {}", places(&lines)));
            data.push(lines);
        }
        if all == 0 {
            return Err("there are no edits; name at least one".into());
        }
        if file.text == file.was {
            return Err(format!("the edits do not change `{shown}`; leave them out, or change them"));
        }
        Ok(revision(path, file, said, json!({ "path": path, "lines": data })))
    };
    FileChangeTool::new(manifest, workplace, reviser)
}

fn manifest(name: &str, about: &str, schema: Value, hint: &str) -> Manifest {
    let mut manifest = Manifest::new(name, about, schema);
    manifest.permission_class = PermissionClass::File;
    manifest.roles = [("/path".to_owned(), ArgumentRole::EditPath)].into();
    manifest.search_hint = Some(hint.into());
    manifest.audit_operation = Some("edit".into());
    manifest.sensitive = Some(false);
    manifest.reversible = true;
    manifest
}

/// The text of a file that is being edited.
struct EditBuffer {
    text: String,
    was: String,
    from: Precondition,
}

fn read<'a>(files: &Files, run: &'a RunContext) -> Result<(&'a str, EditBuffer), String> {
    let path = granted_write_path(&run.plan)?;
    if !files.exists(path)? {
        return Err(format!("there is no file `{}`; create it with write_file", files.display_path(path)));
    }
    let (text, content) = files.read_text(path)?;
    Ok((path, EditBuffer { was: text.clone(), text, from: Precondition::from_content(Some(&content)) }))
}

fn revision(path: &str, file: EditBuffer, said: String, data: Value) -> PlannedEdit {
    let content = Some(file.text.into_bytes());
    let put = PlannedFile { path: path.to_owned(), precondition: file.from, content, mode: None };
    PlannedEdit { files: vec![put], output: Output::text(said).with_data(data) }
}

/// Replaces a string. Returns the lines on which it was.
fn replaced(text: &mut String, old: &str, new: &str, all: bool, files: &Files) -> Result<Vec<usize>, String> {
    if old.is_empty() {
        return Err(
            "`old` is empty; give the text to replace, or write the whole file with write_file".into()
        );
    }
    if old == new {
        return Err(
            "`old` and `new` are the same, so nothing would change; leave it out, or change `new`".into()
        );
    }
    let found: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    let lines = lines_at(text, &found);
    match found.as_slice() {
        [] => return Err(near_match::describe_near_match(text, old, "`old`")),
        [_, _, ..] if !all => {
            return Err(format!(
                "`old` occurs in {} places: {}; include more of the surrounding text, or set `all`",
                found.len(),
                places(&lines)
            ));
        }
        _ => {}
    }
    // Checked before the replacement, because a short string that occurs a million times can be replaced by a long one.
    let length = (text.len() as u64)
        .saturating_sub((found.len() as u64).saturating_mul(old.len() as u64))
        .saturating_add((found.len() as u64).saturating_mul(new.len() as u64));
    if length > files.bytes_max() {
        return Err(format!(
            "the file would have {length} bytes, and the limit is {}; replace less, or use a shorter text",
            files.bytes_max()
        ));
    }
    *text = text.replace(old, new);
    Ok(lines)
}

/// Returns the line numbers, from 1, of sorted positions in a text.
fn lines_at(text: &str, places: &[usize]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let on_line = |at: &usize| {
        line += text.get(from..*at).map_or(0, |between| between.matches('\n').count());
        from = *at;
        line
    };
    places.iter().map(on_line).collect()
}

/// Returns line numbers in words; of many, only the first.
fn places(lines: &[usize]) -> String {
    let named: Vec<String> = lines.iter().take(PLACES_MAX).map(usize::to_string).collect();
    let more = lines.len().saturating_sub(PLACES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("line{} {}{more}", if lines.len() == 1 { "" } else { "s" }, named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_by_their_lines() {
        assert_eq!(lines_at("a\nb a\n\na", &[0, 4, 7]), [1, 2, 4]);
        assert_eq!(places(&[3]), "line 3");
        assert_eq!(places(&(1..=12).collect::<Vec<_>>()), "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more");
    }
}

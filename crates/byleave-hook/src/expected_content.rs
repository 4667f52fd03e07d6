//! The content that an agent's file tool should leave, computed from its input and the current content.
//!
//! This is the only place that computes it. Where the result depends on more than the input and the file, it says so, and the call is
//! then judged without it.

use serde_json::{Map, Value};

use crate::agent_kind::AgentKind;
use crate::expected_notebook::edited_notebook;

/// The number of accepted contents. More of them would mean that the result is a guess.
const ACCEPTED_MAX: usize = 8;

/// The content that a tool should leave in the file that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedContent {
    /// One of these contents. The first one is what the input says; the others differ from it only in line endings, or in the end of the
    /// file.
    OneOf(Vec<Vec<u8>>),
    /// The tool would fail, for this reason.
    Failure(&'static str),
    /// The content cannot be computed, for this reason.
    Unknown(&'static str),
}

/// One replacement of a text.
struct Replacement<'a> {
    old: &'a str,
    new: &'a str,
    all: bool,
    /// The number of places, if the input says it.
    count: Option<u64>,
}

/// Returns the content that the tool should leave. `before` is the current content, if the file exists.
pub fn expected_content(
    agent: AgentKind,
    tool: &str,
    input: &Value,
    before: Option<&[u8]>,
) -> ExpectedContent {
    let Value::Object(input) = input else { return ExpectedContent::Unknown("the input is not an object") };
    let before = match before.map(str::from_utf8) {
        None => None,
        Some(Ok(text)) if !text.starts_with('\u{feff}') => Some(text),
        Some(_) => return ExpectedContent::Unknown("the file is not plain UTF-8"),
    };
    if input.get("modified_by_user").is_some() || input.get("ai_proposed_content").is_some() {
        return ExpectedContent::Unknown("somebody edits the content before it is written");
    }
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    match tool {
        "create" if before.is_some() => ExpectedContent::Unknown("the file exists already"),
        "Write" | "write" | "write_file" | "create" | "create_file" => written(agent, input, before),
        "Edit" | "edit" | "replace" | "StrReplace" | "replace_string_in_file"
            if !input.contains_key("edits") =>
        {
            match replacement(input) {
                Some(one) => edited(agent, &[one], before),
                None => ExpectedContent::Unknown("the input does not name the old and the new text"),
            }
        }
        "MultiEdit" => {
            let edits = input.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let all: Option<Vec<_>> =
                edits.iter().map(|edit| edit.as_object().and_then(replacement)).collect();
            match all {
                Some(all) if !all.is_empty() => edited(agent, &all, before),
                _ => ExpectedContent::Unknown("the input does not list its edits"),
            }
        }
        "developer__text_editor" | "text_editor" | "str_replace_editor" => match text("command") {
            Some("write" | "create") => written(agent, input, before),
            Some("str_replace") => match replacement(input) {
                Some(one) => edited(agent, &[one], before),
                None => ExpectedContent::Unknown("the input does not name the old and the new text"),
            },
            _ => ExpectedContent::Unknown("the result of this command of the editor is not known"),
        },
        "NotebookEdit" if agent == AgentKind::ClaudeCode => {
            match before.map(|notebook| edited_notebook(input, notebook)) {
                Some(Ok(results)) => ExpectedContent::OneOf(with_line_endings(&results, before)),
                Some(Err(why)) => ExpectedContent::Unknown(why),
                None => ExpectedContent::Unknown("the notebook does not exist"),
            }
        }
        _ => ExpectedContent::Unknown("the result of this tool is not known"),
    }
}

fn written(agent: AgentKind, input: &Map<String, Value>, before: Option<&str>) -> ExpectedContent {
    let mut contents = ["content", "file_text", "contents"].iter().filter_map(|key| input.get(*key));
    let (Some(Value::String(content)), None) = (contents.next(), contents.next()) else {
        return ExpectedContent::Unknown("the input does not say the content");
    };
    let mut accepted = vec![content.clone()];
    // Goose ends each file with a line end.
    if agent == AgentKind::Goose && !content.ends_with('\n') {
        accepted.push(format!("{content}\n"));
    }
    ExpectedContent::OneOf(with_line_endings(&accepted, before))
}

fn edited(agent: AgentKind, edits: &[Replacement<'_>], before: Option<&str>) -> ExpectedContent {
    // Agents that report an edit as failed if its old text is not there exactly once. The others search less strictly then.
    let is_exact = matches!(agent, AgentKind::ClaudeCode | AgentKind::Goose);
    let fails = |why| if is_exact { ExpectedContent::Failure(why) } else { ExpectedContent::Unknown(why) };
    let text = before.unwrap_or_default().replace("\r\n", "\n");
    let mut accepted = vec![text.clone()];
    for (number, edit) in edits.iter().enumerate() {
        let (old, new) = (edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n"));
        if old.is_empty() {
            if number > 0 || !text.is_empty() {
                return fails("the old text is empty, and the file is not");
            }
            accepted = vec![new];
            continue;
        }
        if before.is_none() && number == 0 {
            return fails("the file does not exist");
        }
        if old == new {
            return fails("the old and the new text are the same");
        }
        let mut results: Vec<String> = Vec::new();
        for text in &accepted {
            let places = text.matches(&old).count();
            if places == 0 && plain_quotes(text).contains(&plain_quotes(&old)) {
                return ExpectedContent::Unknown(
                    "the old text is in the file only with other quotation marks",
                );
            }
            if places == 0 {
                return fails("the old text is not in the file");
            }
            if places > 1 && !edit.all && edit.count != Some(places as u64) {
                return fails("the old text is in the file more than once");
            }
            results.push(text.replace(&old, &new));
            // Claude Code removes the line end with a line that is deleted.
            let line = format!("{old}\n");
            if agent == AgentKind::ClaudeCode
                && new.is_empty()
                && !old.ends_with('\n')
                && text.contains(&line)
            {
                results.push(if edit.all { text.replace(&line, "") } else { text.replacen(&line, "", 1) });
            }
        }
        results.dedup();
        if results.len() > ACCEPTED_MAX {
            return ExpectedContent::Unknown("the edits have too many possible results");
        }
        accepted = results;
    }
    // Gemini keeps the end of the file as it was.
    if agent == AgentKind::Gemini && !text.is_empty() {
        let kept: Vec<String> = accepted
            .iter()
            .map(|result| match (text.ends_with('\n'), result.strip_suffix('\n')) {
                (true, None) => format!("{result}\n"),
                (false, Some(shorter)) => shorter.to_owned(),
                _ => result.clone(),
            })
            .filter(|result| !accepted.contains(result))
            .collect();
        accepted.extend(kept);
    }
    ExpectedContent::OneOf(with_line_endings(&accepted, before))
}

/// Adds the contents with the line endings of the file, which agents keep.
fn with_line_endings(contents: &[String], before: Option<&str>) -> Vec<Vec<u8>> {
    let keeps = before.is_some_and(|text| text.contains("\r\n"));
    let windows = |text: &String| text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
    let mut accepted: Vec<Vec<u8>> = Vec::new();
    for bytes in contents
        .iter()
        .filter(|_| keeps)
        .map(windows)
        .chain(contents.iter().map(|text| text.clone().into_bytes()))
    {
        if !accepted.contains(&bytes) {
            accepted.push(bytes);
        }
    }
    accepted
}

fn replacement(input: &Map<String, Value>) -> Option<Replacement<'_>> {
    let one = |keys: [&str; 4]| {
        let mut found = keys.into_iter().filter_map(|key| input.get(key));
        match (found.next(), found.next()) {
            (Some(Value::String(text)), None) => Some(text.as_str()),
            _ => None,
        }
    };
    let is_set = |key: &str| input.get(key).and_then(Value::as_bool).unwrap_or(false);
    Some(Replacement {
        old: one(["old_string", "oldString", "old_str", "before"])?,
        new: one(["new_string", "newString", "new_str", "after"])?,
        all: is_set("replace_all") || is_set("allow_multiple"),
        count: input.get("expected_replacements").and_then(Value::as_u64),
    })
}

fn plain_quotes(text: &str) -> String {
    text.replace(['\u{2018}', '\u{2019}'], "'").replace(['\u{201c}', '\u{201d}'], "\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(agent: AgentKind, tool: &str, input: &Value, before: Option<&str>) -> ExpectedContent {
        expected_content(agent, tool, input, before.map(str::as_bytes))
    }

    fn accepts(found: &ExpectedContent, wanted: &[&str]) -> bool {
        let wanted: Vec<Vec<u8>> = wanted.iter().map(|text| text.as_bytes().to_vec()).collect();
        *found == ExpectedContent::OneOf(wanted)
    }

    // req: M2
    #[test]
    fn what_each_tool_leaves_is_computed_from_its_input() {
        use AgentKind::{ClaudeCode, Copilot, Gemini, Goose};
        let edit = |old: &str, new: &str| json!({"file_path": "/a", "old_string": old, "new_string": new});
        let rows = [
            (ClaudeCode, "Write", json!({"file_path": "/a", "content": "x"}), None, &["x"][..]),
            (
                ClaudeCode,
                "Write",
                json!({"file_path": "/a", "content": "x\n"}),
                Some("1\r\n"),
                &["x\r\n", "x\n"],
            ),
            (ClaudeCode, "Edit", edit("two", "2"), Some("one two\n"), &["one 2\n"]),
            (ClaudeCode, "Edit", edit("", "new"), None, &["new"]),
            (ClaudeCode, "Edit", edit("a\nb", "c"), Some("a\r\nb\r\nd\r\n"), &["c\r\nd\r\n", "c\nd\n"]),
            (
                ClaudeCode,
                "Edit",
                edit("two", ""),
                Some("one\ntwo\nthree\n"),
                &["one\n\nthree\n", "one\nthree\n"],
            ),
            (
                ClaudeCode,
                "Edit",
                json!({"file_path": "/a", "old_string": "x", "new_string": "y", "replace_all": true}),
                Some("x x x"),
                &["y y y"],
            ),
            (
                ClaudeCode,
                "MultiEdit",
                json!({"file_path": "/a", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "bc", "new_string": "d"}]}),
                Some("ac"),
                &["d"],
            ),
            (Gemini, "replace", edit("two\n", "2"), Some("one two\n"), &["one 2", "one 2\n"]),
            (Goose, "write", json!({"path": "a", "content": "x"}), None, &["x", "x\n"]),
            (Goose, "edit", json!({"path": "a", "before": "x", "after": "y"}), Some("x"), &["y"]),
            (Copilot, "edit", json!({"path": "a", "old_str": "x", "new_str": "y"}), Some("x"), &["y"]),
            (Copilot, "create", json!({"path": "a", "file_text": "x"}), None, &["x"]),
        ];
        for (agent, tool, input, before, wanted) in rows {
            let found = of(agent, tool, &input, before);
            assert!(accepts(&found, wanted), "{tool} {input}: {found:?}");
        }
    }

    // req: M2
    #[test]
    fn what_cannot_be_computed_is_said() {
        use AgentKind::{ClaudeCode, Codex, Gemini};
        let edit = |old: &str| json!({"file_path": "/a", "old_string": old, "new_string": "new"});
        for (agent, tool, input, before) in [
            (ClaudeCode, "NotebookEdit", json!({"notebook_path": "/a", "new_source": "x"}), Some("{}")),
            (ClaudeCode, "Write", json!({"file_path": "/a"}), None),
            (ClaudeCode, "Write", json!({"file_path": "/a", "content": 3}), None),
            (ClaudeCode, "Write", json!({"file_path": "/a", "content": "x", "contents": "y"}), None),
            (ClaudeCode, "Write", json!({"file_path": "/a", "content": "x"}), Some("\u{feff}x")),
            (ClaudeCode, "Edit", edit("'x'"), Some("\u{2018}x\u{2019}")),
            (ClaudeCode, "MultiEdit", json!({"file_path": "/a", "edits": []}), Some("x")),
            (Gemini, "replace", edit("gone"), Some("x")),
            (
                Gemini,
                "write_file",
                json!({"file_path": "/a", "content": "x", "modified_by_user": true}),
                None,
            ),
            (Codex, "apply_patch", json!({"input": "*** Begin Patch"}), None),
        ] {
            let found = of(agent, tool, &input, before);
            assert!(matches!(found, ExpectedContent::Unknown(_)), "{tool} {input}: {found:?}");
        }
        let not_text = expected_content(ClaudeCode, "Write", &json!({"content": "x"}), Some(&[0xff]));
        assert!(matches!(not_text, ExpectedContent::Unknown(_)));
        for (input, before) in [
            (edit("gone"), Some("x")),
            (edit("x"), Some("x x")),
            (edit("x"), None),
            (edit("new"), Some("new")),
        ] {
            let found = of(ClaudeCode, "Edit", &input, before);
            assert!(matches!(found, ExpectedContent::Failure(_)), "{found:?}");
        }
    }
}

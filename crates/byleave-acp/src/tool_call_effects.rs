//! The effects of an agent's tool call, from what the agent says of it.
//!
//! The kind that the agent states can only add effects, never remove any. A file that is only named is treated as read and written.
//! Missing or unknown input has an unknown effect, so that a person is asked.

use serde_json::{Map, Value, json};

const COMMANDS: [&str; 4] = ["command", "cmd", "script", "shell_command"];
const PATHS: [&str; 15] = [
    "path",
    "file_path",
    "filePath",
    "file",
    "filename",
    "abs_path",
    "absolute_path",
    "target_file",
    "notebook_path",
    "paths",
    "file_paths",
    "files",
    "directory",
    "source",
    "destination",
];
const URLS: [&str; 4] = ["url", "urls", "uri", "link"];
const PATCHES: [&str; 2] = ["patch", "diff"];
/// Arguments that say how a tool works, and do not name a target.
const MANNERS: [&str; 38] = [
    "description",
    "explanation",
    "reason",
    "title",
    "timeout",
    "timeout_ms",
    "timeoutMs",
    "run_in_background",
    "is_background",
    "old_string",
    "new_string",
    "old_text",
    "new_text",
    "oldText",
    "newText",
    "old_str",
    "new_str",
    "content",
    "contents",
    "text",
    "edits",
    "replace_all",
    "expected_replacements",
    "offset",
    "limit",
    "line",
    "start_line",
    "end_line",
    "prompt",
    "query",
    "pattern",
    "recursive",
    "call_id",
    "turn_id",
    "parsed_cmd",
    "type",
    "cell_id",
    "edit_mode",
];

/// The targets of a call, grouped by effect in the form that the planner takes, and the reasons why they may be incomplete.
pub(crate) struct ToolCallEffects {
    pub(crate) targets: Value,
    pub(crate) unknown: Vec<String>,
}

/// Returns the effects of a call, from its `toolCall` as it was received.
pub(crate) fn analyze_tool_call(call: &Value) -> ToolCallEffects {
    let mut telling = EffectCollector::default();
    match call.get("rawInput") {
        Some(Value::Object(input)) if !input.is_empty() => telling.input(input),
        None | Some(Value::Null | Value::Object(_)) => {
            telling.unknown("the agent does not report the input of its tool")
        }
        Some(_) => telling.unknown("the input of the agent's tool is not understood"),
    }
    telling.locations(call.get("locations"));
    telling.contents(call.get("content"));
    match call.get("kind").and_then(Value::as_str) {
        Some("delete" | "move") => telling.deletes = telling.edits.clone(),
        Some("execute") if telling.commands.is_empty() => {
            telling.unknown("the call runs something, but does not name the command")
        }
        Some("fetch") if telling.urls.is_empty() => {
            telling.unknown("the call fetches something, but does not name the URL")
        }
        _ => {}
    }
    let EffectCollector { commands, edits, deletes, urls, patches, unknown } = telling;
    let targets =
        json!({ "commands": commands, "edits": edits, "deletes": deletes, "urls": urls, "patches": patches });
    ToolCallEffects { targets, unknown }
}

#[derive(Default)]
struct EffectCollector {
    commands: Vec<String>,
    edits: Vec<String>,
    deletes: Vec<String>,
    urls: Vec<String>,
    patches: Vec<String>,
    unknown: Vec<String>,
}

impl EffectCollector {
    fn unknown(&mut self, why: impl Into<String>) {
        self.unknown.push(why.into());
    }

    fn input(&mut self, input: &Map<String, Value>) {
        for (name, value) in input {
            let name = name.as_str();
            let is_understood = if COMMANDS.contains(&name) {
                command(value).map(|command| self.commands.push(command)).is_some()
            } else if ["cwd", "workdir", "working_directory"].contains(&name) {
                // The policy would evaluate the command in the wrong directory.
                value.is_null()
            } else if PATHS.contains(&name) {
                texts(value, &mut self.edits)
            } else if URLS.contains(&name) {
                texts(value, &mut self.urls)
            } else if PATCHES.contains(&name) {
                texts(value, &mut self.patches)
            } else if name == "changes" {
                let changes = value.as_object();
                self.edits.extend(changes.into_iter().flatten().map(|(path, _)| path.clone()));
                changes.is_some()
            } else {
                MANNERS.contains(&name) || value.is_boolean() || value.is_number() || value.is_null()
            };
            if !is_understood {
                self.unknown(format!("its argument `{}` is not understood", name.escape_debug()));
            }
        }
        if [&self.commands, &self.edits, &self.urls, &self.patches].iter().all(|targets| targets.is_empty()) {
            self.unknown("the input names no target");
        }
    }

    /// Adds the locations that the agent reports for editors to follow. They are added to the input and never replace it.
    fn locations(&mut self, locations: Option<&Value>) {
        let Some(locations) = locations.filter(|locations| !locations.is_null()) else { return };
        let all =
            locations.as_array().map(|all| all.iter().map(|one| one.get("path").and_then(Value::as_str)));
        match all.and_then(|all| all.collect::<Option<Vec<&str>>>()) {
            Some(paths) => self.edits.extend(paths.into_iter().map(str::to_owned)),
            None => self.unknown("the locations of the call are not understood"),
        }
        self.edits.sort();
        self.edits.dedup();
    }

    /// Adds the paths of the diffs that the call shows, because they are changes that it makes.
    fn contents(&mut self, contents: Option<&Value>) {
        for content in contents.and_then(Value::as_array).into_iter().flatten() {
            if content.get("type").and_then(Value::as_str) != Some("diff") {
                continue;
            }
            match content.get("path").and_then(Value::as_str) {
                Some(path) if !self.edits.iter().any(|edited| edited == path) => {
                    self.edits.push(path.to_owned())
                }
                Some(_) => {}
                None => self.unknown("the call shows a diff, but does not name its file"),
            }
        }
    }
}

/// Returns a command as shell text. It may be a string or a list of words.
fn command(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(quoted)).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn texts(value: &Value, into: &mut Vec<String>) -> bool {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => return items.iter().all(|item| item.is_string() && texts(item, into)),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_never_believed_and_what_is_missing_is_unknown() {
        let of = |call: Value| {
            let told = analyze_tool_call(&call);
            (told.targets, told.unknown.len())
        };
        let (targets, unknown) =
            of(json!({ "kind": "read", "rawInput": { "command": "rm -rf x", "description": "reads" } }));
        assert_eq!((&targets["commands"], unknown), (&json!(["rm -rf x"]), 0));
        let (targets, unknown) = of(json!({ "kind": "read", "rawInput": { "file_path": "/w/a" } }));
        assert_eq!((&targets["edits"], unknown), (&json!(["/w/a"]), 0));
        let (targets, unknown) = of(json!({ "kind": "think", "locations": [{ "path": "/w/b" }] }));
        assert_eq!((&targets["edits"], unknown), (&json!(["/w/b"]), 1));
        let (targets, _) = of(json!({ "kind": "delete", "rawInput": { "path": "/w/a" } }));
        assert_eq!(targets["deletes"], json!(["/w/a"]));
        let (targets, unknown) = of(json!({ "rawInput": { "command": ["bash", "-lc", "echo 'a b'"] } }));
        assert_eq!((&targets["commands"], unknown), (&json!([r"bash -lc 'echo '\''a b'\'''"]), 0));
        let (targets, _) = of(json!({ "rawInput": { "changes": { "/w/c": { "add": {} } } } }));
        assert_eq!(targets["edits"], json!(["/w/c"]));
        for odd in [
            json!({}),
            json!({ "rawInput": {} }),
            json!({ "rawInput": "rm -rf /" }),
            json!({ "rawInput": { "command": { "x": 1 } } }),
            json!({ "rawInput": { "command": "ls", "cwd": "/" } }),
            json!({ "rawInput": { "command": "ls", "payload": "x" } }),
            json!({ "rawInput": { "path": 3 } }),
            json!({ "rawInput": { "description": "harmless" } }),
            json!({ "kind": "execute", "rawInput": { "path": "/w/a" } }),
            json!({ "kind": "fetch", "rawInput": { "path": "/w/a" } }),
            json!({ "rawInput": { "path": "/w/a" }, "locations": [{ "paht": "/w/b" }] }),
            json!({ "rawInput": { "path": "/w/a" }, "content": [{ "type": "diff" }] }),
        ] {
            assert!(!analyze_tool_call(&odd).unknown.is_empty(), "{odd}");
        }
    }
}

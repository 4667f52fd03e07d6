//! The headline of a card: the command as it was written, the edit, or the call with its arguments.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::Effect;
use crate::escape::EscapeLevel;
use crate::file_change::{FileChangeKind, FileChanges};
use crate::render::line::LineRole;
use crate::render::writer::RenderingBuilder;

use super::changes::relative;

/// The maximum number of lines of arguments on a card.
const ARGUMENT_LINES_MAX: usize = 8;
/// The maximum length of one argument on a card.
const ARGUMENT_CHARS_MAX: usize = 400;
/// The length of the arguments of a call in a list.
const SHORT_ARGUMENTS_CHARS_MAX: usize = 120;

/// A call, as far as its headline says it.
#[derive(Clone, Copy)]
pub(in crate::render) struct HeadlineSource<'a> {
    /// The name of the tool.
    pub(in crate::render) tool: &'a str,
    /// The arguments.
    pub(in crate::render) arguments: &'a Value,
    /// The working directory.
    pub(in crate::render) cwd: &'a str,
    /// The predicted effects.
    pub(in crate::render) effects: &'a [Effect],
    /// What the call changed, if that is known.
    pub(in crate::render) changes: Option<&'a FileChanges>,
    /// It is about the result of the call, not about the call.
    pub(in crate::render) is_release: bool,
}

/// The first line of a card, and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardHeadline {
    /// The lines of a command, or one line that says what is done. Escaped.
    pub lines: Vec<String>,
    /// The lines are a shell command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_command: bool,
    /// The arguments that the lines do not say. Escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// The headline names what is changed, so that a list need not repeat it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_change: bool,
    /// The headline says everything that the arguments do.
    pub is_complete: bool,
}

impl CardHeadline {
    pub(in crate::render) fn write(&self, page: &mut RenderingBuilder) {
        let gutters = if self.is_command { ("$ ", "  ") } else { ("  ", "  ") };
        for (line, place) in self.lines.iter().zip(0..) {
            page.push_line(LineRole::Headline, if place == 0 { gutters.0 } else { gutters.1 }, line);
        }
        for line in &self.arguments {
            page.push_line(LineRole::Content, "  │ ", line);
        }
    }

    /// Returns the headline in one line.
    pub(in crate::render) fn one_line(&self) -> String {
        let prompt = if self.is_command { "$ " } else { "" };
        format!("{prompt}{}", self.lines.join(" ⏎ "))
    }

    /// Returns the headline in one line, with the first arguments if the lines do not say them. Otherwise all calls of a tool would look
    /// the same in a list.
    pub(in crate::render) fn one_line_with_arguments(&self) -> String {
        let mut text = self.one_line();
        if !self.is_command && !self.arguments.is_empty() {
            let arguments = self.arguments.join(", ");
            let cut: String = arguments.chars().take(SHORT_ARGUMENTS_CHARS_MAX).collect();
            let more = if cut.len() < arguments.len() { "…" } else { "" };
            text.push_str(&format!(": {cut}{more}"));
        }
        text
    }
}

/// Makes the headline of a call.
pub(in crate::render) fn headline(page: &mut RenderingBuilder, call: &HeadlineSource<'_>) -> CardHeadline {
    let command = call.arguments.get("command").and_then(Value::as_str);
    if call.is_release {
        let tool = page.quote(call.tool);
        let (arguments, _) = arguments(page, call, &[]);
        return CardHeadline {
            lines: vec![format!("Show the model the result of {tool}")],
            arguments,
            ..CardHeadline::default()
        };
    }
    match command {
        Some(command) if is_shell(call.tool) => shell(page, call, command),
        _ => file_tool(page, call).unwrap_or_else(|| other_tool(page, call)),
    }
}

fn is_shell(tool: &str) -> bool {
    let own = tool.rsplit(':').next().unwrap_or(tool).to_ascii_lowercase();
    matches!(
        own.as_str(),
        "bash" | "shell" | "exec_command" | "run_shell_command" | "local_shell" | "execute"
    )
}

fn shell(page: &mut RenderingBuilder, call: &HeadlineSource<'_>, command: &str) -> CardHeadline {
    let lines = command.trim_end_matches('\n').split('\n');
    let lines = lines.map(|line| page.escape(line, EscapeLevel::Name)).collect();
    let (arguments, is_complete) =
        arguments(page, call, &["command", "timeout", "timeout_ms", "description"]);
    CardHeadline { lines, is_command: true, arguments, names_change: false, is_complete }
}

/// The tools whose call is said by one path: the verb, and whether the contents are what the copy shows.
const FILE_TOOLS: [(&str, &str); 12] = [
    ("write_file", "Write"),
    ("write", "Write"),
    ("create_file", "Create"),
    ("edit", "Edit"),
    ("multi_edit", "Edit"),
    ("multiedit", "Edit"),
    ("replace", "Edit"),
    ("notebookedit", "Edit"),
    ("str_replace", "Edit"),
    ("apply_patch", "Patch"),
    ("delete_file", "Delete"),
    ("read_file", "Read"),
];

/// Returns the headline of a file tool: the verb, and the path with the number of changed lines.
fn file_tool(page: &mut RenderingBuilder, call: &HeadlineSource<'_>) -> Option<CardHeadline> {
    let own = call.tool.rsplit(':').next().unwrap_or(call.tool).to_ascii_lowercase();
    let (_, verb) = FILE_TOOLS.iter().find(|(tool, _)| *tool == own)?;
    let written = |effect: &Effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => Some(path.clone()),
        _ => None,
    };
    // Without a copy only the arguments say what the file will be.
    let mut paths: Vec<String> = match call.changes {
        Some(changes) => changes.list.iter().map(|change| change.path.clone()).collect(),
        None => call.effects.iter().filter_map(written).collect(),
    };
    paths.sort();
    paths.dedup();
    let [path] = paths.as_slice() else { return None };
    let shown = relative(page, path, call.cwd);
    let is_new = call.changes.is_some_and(
        |changes| matches!(changes.list.as_slice(), [change] if change.kind() == FileChangeKind::Created),
    );
    let verb = if is_new { "Create" } else { verb };
    let is_complete = call.changes.is_some();
    let (arguments, is_whole) = match is_complete {
        // The difference on the copy shows what the arguments do.
        true => (Vec::new(), true),
        false => arguments(page, call, &["path", "file_path"]),
    };
    Some(CardHeadline {
        lines: vec![format!("{verb} {shown}")],
        is_command: false,
        arguments,
        names_change: true,
        is_complete: is_complete || is_whole,
    })
}

/// Returns the headline of any other tool: its name, and its arguments.
fn other_tool(page: &mut RenderingBuilder, call: &HeadlineSource<'_>) -> CardHeadline {
    let url = call.arguments.get("url").and_then(Value::as_str);
    if let Some(url) = url
        && matches!(call.tool.rsplit(':').next(), Some("web_fetch" | "WebFetch"))
    {
        let shown = page.escape(url, EscapeLevel::Name);
        let (arguments, is_complete) = arguments(page, call, &["url"]);
        return CardHeadline {
            lines: vec![format!("Fetch {shown}")],
            arguments,
            is_complete,
            ..CardHeadline::default()
        };
    }
    let tool = call.effects.iter().find_map(|effect| match effect {
        Effect::Invoke { tool } => tool.strip_prefix("mcp:").and_then(|tool| tool.split_once('/')),
        _ => None,
    });
    let line = match tool {
        Some((server, tool)) => {
            let (server, tool) = (page.quote(server), page.quote(tool));
            format!("Call {tool} of the MCP server {server}")
        }
        None => {
            let tool = page.quote(call.tool);
            format!("Call {tool}")
        }
    };
    let (arguments, is_complete) = arguments(page, call, &[]);
    CardHeadline { lines: vec![line], arguments, is_complete, ..CardHeadline::default() }
}

/// Returns the arguments in a line each, but for those that are said elsewhere, and whether they are all there.
fn arguments(page: &mut RenderingBuilder, call: &HeadlineSource<'_>, said: &[&str]) -> (Vec<String>, bool) {
    let Value::Object(map) = call.arguments else {
        return (Vec::new(), call.arguments.is_null());
    };
    let rest: Vec<(&String, &Value)> =
        map.iter().filter(|(name, _)| !said.contains(&name.as_str())).collect();
    let mut lines = Vec::new();
    let mut is_complete = rest.len() <= ARGUMENT_LINES_MAX;
    for (name, value) in rest.into_iter().take(ARGUMENT_LINES_MAX) {
        let text = match value {
            Value::String(text) if !text.contains('\n') => page.quote(text),
            Value::String(text) => {
                is_complete = false;
                let first: String = text.lines().next().unwrap_or_default().chars().take(80).collect();
                format!("{} …", page.quote(&first))
            }
            other => page.escape(&other.to_string(), EscapeLevel::Name),
        };
        let cut: String = text.chars().take(ARGUMENT_CHARS_MAX).collect();
        is_complete &= cut.len() == text.len();
        let name = page.escape(name, EscapeLevel::Name);
        let left = text.chars().count() - cut.chars().count();
        let more = if left > 0 { format!("… {left} more characters") } else { String::new() };
        lines.push(format!("{name}: {cut}{more}"));
    }
    (lines, is_complete)
}

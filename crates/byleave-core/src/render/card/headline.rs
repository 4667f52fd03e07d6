//! The headline of a card: the command as it was written, the edit, or the call with its arguments.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::Effect;
use crate::escape::EscapeLevel;
use crate::question::QuestionKind;
use crate::question_view::QuestionView;
use crate::render::line::LineRole;
use crate::render::writer::RenderingBuilder;

use super::changes::relative;
use super::ran;

/// The maximum number of lines of arguments on a card.
const ARGUMENT_LINES_MAX: usize = 8;
/// The maximum length of one argument on a card.
const ARGUMENT_CHARS_MAX: usize = 400;

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
    pub(super) fn write(&self, page: &mut RenderingBuilder) {
        let gutters = if self.is_command { ("$ ", "  ") } else { ("  ", "  ") };
        for (line, place) in self.lines.iter().zip(0..) {
            page.push_line(LineRole::Headline, if place == 0 { gutters.0 } else { gutters.1 }, line);
        }
        for line in &self.arguments {
            page.push_line(LineRole::Content, "  │ ", line);
        }
    }

    /// Returns the headline in one line.
    pub(super) fn one_line(&self) -> String {
        let prompt = if self.is_command { "$ " } else { "" };
        format!("{prompt}{}", self.lines.join(" ⏎ "))
    }
}

/// Makes the headline of a question.
pub(super) fn headline(page: &mut RenderingBuilder, view: &QuestionView) -> CardHeadline {
    let command = view.arguments.get("command").and_then(Value::as_str);
    if view.question.kind == QuestionKind::Release {
        let tool = page.quote(&view.resolved_tool.tool);
        return CardHeadline {
            lines: vec![format!("Show the model the result of {tool}")],
            ..CardHeadline::default()
        };
    }
    let name = view.resolved_tool.tool.as_str();
    match command {
        Some(command) if is_shell(name) => shell(page, view, command),
        _ => file_tool(page, view, name).unwrap_or_else(|| call(page, view, name)),
    }
}

fn is_shell(tool: &str) -> bool {
    let own = tool.rsplit(':').next().unwrap_or(tool).to_ascii_lowercase();
    matches!(
        own.as_str(),
        "bash" | "shell" | "exec_command" | "run_shell_command" | "local_shell" | "execute"
    )
}

fn shell(page: &mut RenderingBuilder, view: &QuestionView, command: &str) -> CardHeadline {
    let lines = command.trim_end_matches('\n').split('\n');
    let lines = lines.map(|line| page.escape(line, EscapeLevel::Name)).collect();
    let (arguments, is_complete) =
        arguments(page, view, &["command", "timeout", "timeout_ms", "description"]);
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
fn file_tool(page: &mut RenderingBuilder, view: &QuestionView, name: &str) -> Option<CardHeadline> {
    let own = name.rsplit(':').next().unwrap_or(name).to_ascii_lowercase();
    let (_, verb) = FILE_TOOLS.iter().find(|(tool, _)| *tool == own)?;
    // Without a copy only the arguments say what the file will be.
    let rehearsal = ran(view);
    let written = |effect: &Effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => Some(path.clone()),
        _ => None,
    };
    let mut paths: Vec<String> = match rehearsal {
        Some(ran) => ran.changes.list.iter().map(|change| change.path.clone()).collect(),
        None => view.plan.effects.iter().filter_map(written).collect(),
    };
    paths.sort();
    paths.dedup();
    let [path] = paths.as_slice() else { return None };
    let shown = relative(page, path, &view.cwd);
    let is_complete = rehearsal.is_some();
    let (arguments, is_whole) = match is_complete {
        // The difference on the copy shows what the arguments do.
        true => (Vec::new(), true),
        false => arguments(page, view, &["path", "file_path"]),
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
fn call(page: &mut RenderingBuilder, view: &QuestionView, name: &str) -> CardHeadline {
    let url = view.arguments.get("url").and_then(Value::as_str);
    if let Some(url) = url
        && matches!(name.rsplit(':').next(), Some("web_fetch" | "WebFetch"))
    {
        let shown = page.escape(url, EscapeLevel::Name);
        let (arguments, is_complete) = arguments(page, view, &["url"]);
        return CardHeadline {
            lines: vec![format!("Fetch {shown}")],
            arguments,
            is_complete,
            ..CardHeadline::default()
        };
    }
    let tool = view.plan.effects.iter().find_map(|effect| match effect {
        Effect::Invoke { tool } => tool.strip_prefix("mcp:").and_then(|tool| tool.split_once('/')),
        _ => None,
    });
    let line = match tool {
        Some((server, tool)) => {
            let (server, tool) = (page.quote(server), page.quote(tool));
            format!("Call {tool} of the MCP server {server}")
        }
        None => {
            let tool = page.quote(name);
            format!("Call {tool}")
        }
    };
    let (arguments, is_complete) = arguments(page, view, &[]);
    CardHeadline { lines: vec![line], arguments, is_complete, ..CardHeadline::default() }
}

/// Returns the arguments in a line each, but for those that are said elsewhere, and whether they are all there.
fn arguments(page: &mut RenderingBuilder, view: &QuestionView, said: &[&str]) -> (Vec<String>, bool) {
    let Value::Object(map) = &view.arguments else {
        return (Vec::new(), view.arguments.is_null());
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
        lines.push(format!("{name}: {cut}{}", if cut.len() < text.len() { "…" } else { "" }));
    }
    (lines, is_complete)
}

//! The system prompt: the persona, the guidelines, the gate and the tools. Its fixed texts are in `words/`.

use byleave_core::escape::is_printable;

use super::schema_text;
use super::{Persona, ToolDescription};
use crate::tool_blocks::PROTOCOL;

/// The common guidelines, before those of the persona.
const WORK: &str = include_str!("words/work.md");
/// The description of the gate between a model and its tools.
const GATE: &str = include_str!("words/gate.md");
/// The description of the results of tool blocks.
pub(crate) const RESULTS: &str = include_str!("words/results.md");
/// The additional text for a model that a provider hosts.
const HOSTED: &str = include_str!("words/hosted.md");

/// The way in which a model calls tools, which determines what the prompt says about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCallFormat {
    /// The provider, or an adapter for it, tells the model its tools and how to call them.
    Native,
    /// By [tool blocks](crate::tool_blocks). The prompt is the only description that the model gets.
    Blocks,
}

impl Persona {
    /// Returns the system prompt for the tools of this turn that this persona [may use](Self::allows_tool).
    ///
    /// The same persona and tools give the same bytes, in any order of the tools.
    pub fn system_prompt(&self, tools: &[ToolDescription], calls: ToolCallFormat) -> String {
        self.told(tools, calls, None, 0)
    }

    /// Returns the system prompt for a turn in which only some of the tools are sent to the model. It finds the others, which are
    /// `unlisted` many, with `tool_search`.
    pub fn system_prompt_with_search(
        &self,
        tools: &[ToolDescription],
        calls: ToolCallFormat,
        unlisted: usize,
    ) -> String {
        self.told(tools, calls, None, unlisted)
    }

    /// Returns the prompt for a persona that a provider hosts (L8), as Markdown. It is complete and includes the protocol of tool blocks.
    /// Byleave reads the output of such a model, and runs its calls, locally.
    pub fn export(&self, tools: &[ToolDescription]) -> String {
        self.told(tools, ToolCallFormat::Blocks, Some(HOSTED), 0)
    }

    fn told(
        &self,
        tools: &[ToolDescription],
        calls: ToolCallFormat,
        also: Option<&str>,
        unlisted: usize,
    ) -> String {
        let mut parts = vec![format!("# {}", self.name)];
        parts.extend((!self.prompt.is_empty()).then(|| self.prompt.clone()));
        parts.extend(also.map(paragraph));
        let own: String = self.guidelines.iter().map(|line| format!("\n- {line}")).collect();
        parts.push(format!("## How you work\n\n{}{own}", paragraph(WORK)));
        parts.push(format!("## The gate\n\n{}", paragraph(GATE)));
        parts.push("## Tools".to_owned());
        let mut tools: Vec<&ToolDescription> =
            tools.iter().filter(|tool| self.allows_tool(&tool.name)).collect();
        tools.sort_by_key(|tool| &tool.name);
        let mine = match unlisted {
            0 => "You have these tools and no others".to_owned(),
            many => format!(
                "You have {many} more tools than these. Find them with `tool_search` before you say that you have no tool for something; \
                 you can call a found tool in your next turn. You have these tools at once"
            ),
        };
        parts.extend(match calls {
            _ if tools.is_empty() => vec!["You have no tools. You can only answer.".to_owned()],
            ToolCallFormat::Native => {
                vec![format!("{mine}:"), list(&tools, named)]
            }
            ToolCallFormat::Blocks => vec![
                PROTOCOL.to_owned(),
                paragraph(RESULTS),
                format!("{mine}, each with its `args`:"),
                list(&tools, in_full),
            ],
        });
        let mut prompt = parts.join("\n\n");
        prompt.push('\n');
        prompt
    }
}

fn paragraph(words: &str) -> String {
    words.trim().to_owned()
}

fn list(tools: &[&ToolDescription], told: fn(&ToolDescription) -> String) -> String {
    tools.iter().map(|tool| told(tool)).collect::<Vec<_>>().join("\n")
}

fn named(tool: &ToolDescription) -> String {
    format!("- `{}`: {}", indent_text(&tool.name, 2), confirmation(tool))
}

fn in_full(tool: &ToolDescription) -> String {
    let mut told = format!("- `{}`: {}", indent_text(&tool.name, 2), indent_text(tool.description.trim(), 2));
    told.push_str(&format!("\n  ({})", confirmation(tool)));
    for line in schema_text::lines(&tool.schema) {
        let indent = line.depth.saturating_mul(2).saturating_add(2);
        told.push_str(&format!("\n{:indent$}- {}", "", indent_text(&line.text, indent.saturating_add(2))));
    }
    told
}

fn confirmation(tool: &ToolDescription) -> String {
    let challenged = if tool.needs_challenge { "; you must make the case against it first" } else { "" };
    format!("{}{challenged}", tool.approval.description())
}

/// Indents every line of a foreign text so that it stays in its list item, and shows invisible characters.
pub(crate) fn indent_text(text: &str, indent: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if !out.is_empty() {
            out.push_str(&format!("\n{:indent$}", ""));
        }
        for c in line.trim().chars() {
            match c {
                '\t' => out.push(' '),
                c if is_printable(c) => out.push(c),
                c => out.extend(c.escape_unicode()),
            }
        }
    }
    out
}

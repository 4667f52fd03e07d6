//! The tree of a command as text and as JSON: one short line for each part, and a mark on unreadable parts.

use std::collections::HashMap;

use byleave_gate::core::effect::Effect;
use byleave_gate::shell::commands::{RedirectionAccess, SimpleCommand, WorkingDir};
use byleave_gate::shell::display_tree::{BranchKind, CommandBranch, CommandTree};
use byleave_gate::shell::source_outline::ListOperator;
use byleave_gate::shell::word::Word;
use serde_json::{Value, json};

use super::quoting::{command, quoted, redirection, shortened, unknown_reason};
use crate::console::one_line;

/// The number of lines on the screen. `--json` has all of them.
const LINES_MAX: usize = 120;

/// Returns the tree, line by line.
pub(super) fn lines(tree: &CommandTree) -> Vec<String> {
    let mut page = TreePage::default();
    let notes = tree.unresolved.iter().map(|why| TreeNode::note(why));
    page.all(&notes.chain(tree.branches.iter().map(node)).collect::<Vec<_>>(), "");
    let more = page.lines.len().saturating_sub(LINES_MAX);
    page.lines.truncate(LINES_MAX);
    if more > 0 || tree.truncated {
        page.lines.push(format!(
            "({more} more lines are not shown; everything was evaluated, and `--json` shows it)"
        ));
    }
    page.lines
}

/// One line of the tree, with the lines below it.
struct TreeNode {
    text: String,
    beneath: Vec<TreeNode>,
}

impl TreeNode {
    fn note(why: &str) -> Self {
        Self { text: format!("NOT KNOWN: {}", unknown_reason(why)), beneath: Vec::new() }
    }

    fn leaf(text: &str, gloss: &str) -> Self {
        Self { text: format!("{text}   # {gloss}"), beneath: Vec::new() }
    }
}

#[derive(Default)]
struct TreePage {
    lines: Vec<String>,
}

impl TreePage {
    fn all(&mut self, nodes: &[TreeNode], before: &str) {
        let last = nodes.len().saturating_sub(1);
        for (at, TreeNode { text, beneath }) in nodes.iter().enumerate() {
            let (branch, rest) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.lines.push(format!("{before}{branch}{text}"));
            self.all(beneath, &format!("{before}{rest}"));
        }
    }
}

fn node(branch: &CommandBranch) -> TreeNode {
    within(branch, None)
}

/// Returns the node of one branch. `by` is the program that runs it.
fn within(branch: &CommandBranch, by: Option<&str>) -> TreeNode {
    let mut beneath: Vec<TreeNode> = Vec::new();
    let program = branch.command.as_ref().and_then(|command| command.words.first()).and_then(Word::as_text);
    if let Some(command) = &branch.command {
        beneath.extend(command.redirections.iter().map(|one| {
            let (text, does) = redirection(one);
            TreeNode::leaf(&text, does)
        }));
        beneath.extend(command.input.as_ref().map(|input| match input {
            Word::Literal(text) => TreeNode::leaf(
                &shortened(&format!("<< {}", quoted(text.trim_end()))),
                "text given as its input",
            ),
            Word::Unknown(riddle) => TreeNode::note(&format!("its input: {}", riddle.reason)),
        }));
        if let WorkingDir::Unknown(why) = &command.working_dir
            && branch.kind != BranchKind::Possible
        {
            beneath.push(TreeNode {
                text: format!("NOT KNOWN: the directory in which it runs: {}", unknown_reason(why)),
                beneath: Vec::new(),
            });
        }
    }
    beneath.extend(branch.unresolved.iter().map(|why| TreeNode::note(why)));
    let mut dangers: Vec<&str> = branch.dangers.iter().map(|danger| danger.why.as_str()).collect();
    dangers.dedup();
    let danger = |why| TreeNode { text: format!("DANGER: {}", one_line(why)), beneath: Vec::new() };
    beneath.extend(dangers.into_iter().map(danger));
    beneath.extend(branch.children.iter().map(|inside| within(inside, program)));
    let (text, mut gloss) = said(branch, program, by);
    let joint = match branch.joint {
        ListOperator::Then => "",
        ListOperator::And => "&& ",
        ListOperator::Or => "|| ",
    };
    match branch.joint {
        ListOperator::Then => {}
        ListOperator::And => gloss.push_str("; only if the one before succeeds"),
        ListOperator::Or => gloss.push_str("; only if the one before fails"),
    }
    let not = if branch.negated { "! " } else { "" };
    TreeNode { text: format!("{joint}{not}{text}   # {gloss}"), beneath }
}

/// Returns the text of a branch and a short description.
fn said(branch: &CommandBranch, program: Option<&str>, by: Option<&str>) -> (String, String) {
    let text = branch.command.as_ref().map(command).unwrap_or_default();
    match branch.kind {
        BranchKind::Command => (text, command_gloss(branch, program)),
        BranchKind::Wrapped => {
            let by = by.map_or_else(String::new, |by| format!("run by `{}`: ", one_line(by)));
            (text, format!("{by}{}", command_gloss(branch, program)))
        }
        BranchKind::Text => {
            let by = by.map_or_else(|| "a shell".to_owned(), |by| format!("`{}`", one_line(by)));
            let text = branch.label.as_deref().unwrap_or_default().trim();
            (shortened(&quoted(text)), format!("text that {by} runs as commands"))
        }
        BranchKind::Possible => {
            (text, "looks like a command in text that could not be parsed; may not be one".to_owned())
        }
        BranchKind::Guess => {
            (text, "may expand to this, if the current state is the same when it runs".to_owned())
        }
        BranchKind::Part(kind) => {
            let (name, gloss) = part(kind);
            let label =
                branch.label.as_deref().map(|label| format!(" {}", one_line(label))).unwrap_or_default();
            (format!("{name}{label}"), gloss.to_owned())
        }
    }
}

fn command_gloss(branch: &CommandBranch, program: Option<&str>) -> String {
    let Some(command) = &branch.command else { return "nothing is run".to_owned() };
    let mut gloss = if command.is_function {
        "calls a function of this text".to_owned()
    } else if command.words.is_empty() {
        if command.assignments.is_empty() { "only redirections" } else { "only sets variables" }.to_owned()
    } else if let Some(about) = branch.manual_summary {
        // The rest is manual-page detail.
        one_line(about.split("; ").next().unwrap_or(about))
    } else if program.is_none() {
        "the program is only known when it runs".to_owned()
    } else {
        "there is no manual for this program, so its arguments are guessed".to_owned()
    };
    if let Some(written) = branch.source_text.as_deref().filter(|written| differs(written, command)) {
        gloss.push_str(&format!("; written as {}", shortened(&one_line(written))));
    }
    gloss
}

/// Checks whether the shell expands a command to other words than the written ones.
fn differs(written: &str, command: &SimpleCommand) -> bool {
    let quotes = |c: char| matches!(c, '\'' | '"');
    let divides = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '<' | '>');
    let tokens: Vec<&str> = written.split(divides).map(|token| token.trim_matches(quotes)).collect();
    let words = command.words.iter().filter_map(Word::as_text).flat_map(|word| word.split(divides));
    let mut words =
        words.map(|word| word.trim_matches(quotes)).filter(|word| word.contains(char::is_alphanumeric));
    !written.contains('\n') && words.any(|word| !tokens.contains(&word))
}

/// Returns the name and the description of a part of the grammar.
fn part(kind: &'static str) -> (&'static str, &'static str) {
    match kind {
        "pipeline" => ("pipeline", "all run at once; each reads the output of the one before"),
        "background" => ("&", "runs in the background, while the rest continues"),
        "group" => ("{ }", "a group of commands"),
        "subshell" => ("( )", "commands in a subshell"),
        "substitution" => ("$( )", "runs first; its output becomes part of the command"),
        "process substitution" => {
            ("<( )", "runs in parallel; the command reads its output, or writes its input, as a file")
        }
        "if" => ("if", "runs one part or another"),
        "condition" => ("condition", "always runs"),
        "then" => ("then", "runs if the condition succeeds"),
        "else" => ("else", "runs otherwise"),
        "loop" => ("loop", "repeats as its condition says"),
        "while" => ("condition", "runs before each round"),
        "do" => ("do", "runs in each round"),
        "for" => ("for", "runs once for each word"),
        "round" => ("round", "one round, with this word"),
        "case" => ("case", "runs the arm that matches"),
        "arm" => ("arm", "runs if its pattern matches"),
        "function" => ("function", "only defined here; runs where it is called"),
        "coprocess" => ("coproc", "runs in the background, connected to this shell"),
        "arithmetic" => ("(( ))", "computes"),
        "test" => ("[[ ]]", "tests something"),
        "eval" => ("eval", "the words are parsed as commands again"),
        "source" => ("source", "the file is read as commands"),
        "trap" => ("trap", "runs when the signal arrives"),
        "callback" => ("callback", "is run by the builtin"),
        "alias" => ("alias", "expands to this text from now on"),
        other => (other, "a part of the command"),
    }
}

/// The index of each effect in the plan.
pub(super) type EffectIndex<'a> = HashMap<&'a Effect, usize>;

/// Returns the tree as JSON. Effects are given by their index in the plan, because there can be very many of them.
pub(super) fn value(tree: &CommandTree, places: &EffectIndex<'_>) -> Value {
    let branches = tree.branches.iter().map(|branch| branch_value(branch, places));
    json!({
        "branches": branches.collect::<Vec<_>>(),
        "unread": tree.unresolved,
        "cut": tree.truncated,
    })
}

fn branch_value(branch: &CommandBranch, places: &EffectIndex<'_>) -> Value {
    let kind = match branch.kind {
        BranchKind::Command => "command",
        BranchKind::Wrapped => "wrapped",
        BranchKind::Text => "text",
        BranchKind::Possible => "possible",
        BranchKind::Guess => "guess",
        BranchKind::Part(kind) => kind,
    };
    let joint = match branch.joint {
        ListOperator::Then => "then",
        ListOperator::And => "and",
        ListOperator::Or => "or",
    };
    let mut value = json!({ "kind": kind, "joint": joint });
    let mut put = |name: &str, one: Value| {
        let empty = one.is_null() || one.as_array().is_some_and(Vec::is_empty) || one == json!(false);
        if !empty && let Some(fields) = value.as_object_mut() {
            fields.insert(name.to_owned(), one);
        }
    };
    put("label", json!(branch.label));
    put("negated", json!(branch.negated));
    put("about", json!(branch.manual_summary));
    put("written", json!(branch.source_text));
    if let Some(command) = &branch.command {
        put("words", command.words.iter().map(word_value).collect());
        let assignments = command
            .assignments
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": word_value(value) }));
        put("assignments", assignments.collect());
        let redirections = command.redirections.iter().map(|one| {
            let access = redirection_word(one.access);
            json!({ "access": access, "target": word_value(&one.target) })
        });
        put("redirections", redirections.collect());
        put("input", command.input.as_ref().map_or(Value::Null, word_value));
        put(
            "directory",
            match &command.working_dir {
                WorkingDir::At(directory) => json!({ "at": directory }),
                WorkingDir::Unknown(why) => json!({ "unknown": why }),
            },
        );
    }
    let effects: Vec<usize> =
        branch.effects.iter().filter_map(|effect| places.get(effect).copied()).collect();
    put("effects", json!(effects));
    let dangers = branch.dangers.iter().map(|danger| json!({ "id": danger.id, "reason": danger.why }));
    put("dangers", dangers.collect());
    put("unread", json!(branch.unresolved));
    put("inside", branch.children.iter().map(|inside| branch_value(inside, places)).collect());
    value
}

fn word_value(word: &Word) -> Value {
    match word {
        Word::Literal(text) => json!(text),
        Word::Unknown(riddle) => json!({ "unknown": riddle.reason, "pieces": riddle.pieces }),
    }
}

const fn redirection_word(access: RedirectionAccess) -> &'static str {
    match access {
        RedirectionAccess::Read => "read",
        RedirectionAccess::Write => "write",
        RedirectionAccess::ReadWrite => "read-write",
    }
}

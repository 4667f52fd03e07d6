//! Determines from the text alone what a list of commands may change in its shell. It overestimates.

use std::collections::BTreeSet;

use crate::syntax::tree::{CommandList, CommandNode, CommandNodeKind, RawWord, WordPart};

/// The possible changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateChanges {
    pub(super) variables: bool,
    pub(super) working_dir: bool,
    pub(super) anything: bool,
}

pub(super) fn find_changes(list: &CommandList, functions: &BTreeSet<String>) -> StateChanges {
    let mut changes = StateChanges::default();
    visit_list(list, functions, &mut changes);
    changes
}

fn visit_list(list: &CommandList, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    for item in &list.items {
        for pipeline in std::iter::once(&item.first).chain(item.rest.iter().map(|(_, pipeline)| pipeline)) {
            for node in &pipeline.commands {
                visit_node(node, functions, changes);
            }
        }
    }
}

fn visit_node(node: &CommandNode, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    for redirect in &node.redirects {
        changes.variables |= redirect.variable.is_some();
        visit_word(&redirect.target, changes);
        if let Some(body) = redirect.body.get() {
            visit_word(body, changes);
        }
    }
    match &node.kind {
        CommandNodeKind::Simple { assignments, words } => {
            changes.variables |= words.is_empty() && !assignments.is_empty();
            for assign in assignments {
                visit_word(&assign.value, changes);
            }
            for word in words {
                visit_word(word, changes);
            }
            if let Some(first) = words.first() {
                visit_name(first, functions, changes);
            }
        }
        CommandNodeKind::Group(list) | CommandNodeKind::Subshell(list) => {
            visit_list(list, functions, changes)
        }
        CommandNodeKind::Loop { condition, body } => {
            visit_list(condition, functions, changes);
            visit_list(body, functions, changes);
        }
        CommandNodeKind::For { body, .. } | CommandNodeKind::ArithmeticFor { body, .. } => {
            changes.variables = true;
            visit_list(body, functions, changes);
        }
        CommandNodeKind::If { branches, other } => {
            for (condition, body) in branches {
                visit_list(condition, functions, changes);
                visit_list(body, functions, changes);
            }
            if let Some(other) = other {
                visit_list(other, functions, changes);
            }
        }
        CommandNodeKind::Case { word, arms } => {
            visit_word(word, changes);
            for (_, body) in arms {
                visit_list(body, functions, changes);
            }
        }
        CommandNodeKind::Arithmetic(_) | CommandNodeKind::Test(_) => changes.variables = true,
        CommandNodeKind::Function { .. } | CommandNodeKind::Coprocess(_) => changes.anything = true,
    }
}

fn visit_name(word: &RawWord, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    let [WordPart::Bare(name)] = word.parts.as_slice() else {
        changes.anything = true;
        return;
    };
    match name.as_str() {
        "cd" | "pushd" | "popd" => changes.working_dir = true,
        "read" | "mapfile" | "readarray" | "export" | "declare" | "typeset" | "local" | "readonly"
        | "unset" | "printf" | "getopts" | "let" | "wait" => changes.variables = true,
        "eval" | "." | "source" | "command" | "builtin" | "trap" | "alias" | "unalias" | "shopt" | "set"
        | "enable" | "hash" => changes.anything = true,
        // Braces, globs and tildes may expand to one of these names.
        name if functions.contains(name) || name.contains(['{', '*', '?', '[', '~', '$']) => {
            changes.anything = true
        }
        _ => {}
    }
}

fn visit_word(word: &RawWord, changes: &mut StateChanges) {
    visit_parts(&word.parts, changes);
}

fn visit_parts(parts: &[WordPart], changes: &mut StateChanges) {
    for part in parts {
        match part {
            WordPart::Double(inner) => visit_parts(inner, changes),
            WordPart::Parameter(parameter) => {
                changes.variables |= parameter.operator.contains('=') || parameter.subscript.is_some();
                changes.variables |= parameter.operator.starts_with(':');
                visit_parts(&parameter.operand, changes);
            }
            WordPart::Arithmetic(_) | WordPart::Array(_) => changes.variables = true,
            WordPart::Bare(_)
            | WordPart::Quoted(_)
            | WordPart::Command(_)
            | WordPart::Backquoted(_)
            | WordPart::Process(_)
            | WordPart::Opaque(_) => {}
        }
    }
}

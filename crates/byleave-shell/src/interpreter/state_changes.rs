//! Determines from the text alone what a list of commands may change in its shell. It overestimates.

use std::collections::BTreeSet;

use crate::syntax::tree::{CommandList, CommandNode, CommandNodeKind, RawWord, WordPart};

/// The possible changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateChanges {
    pub(super) variables: bool,
    pub(super) place: bool,
    pub(super) anything: bool,
}

pub(super) fn of(list: &CommandList, functions: &BTreeSet<String>) -> StateChanges {
    let mut changes = StateChanges::default();
    of_list(list, functions, &mut changes);
    changes
}

fn of_list(list: &CommandList, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    for item in &list.items {
        for pipeline in std::iter::once(&item.first).chain(item.rest.iter().map(|(_, pipeline)| pipeline)) {
            for node in &pipeline.commands {
                of_node(node, functions, changes);
            }
        }
    }
}

fn of_node(node: &CommandNode, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    for redirect in &node.redirects {
        changes.variables |= redirect.variable.is_some();
        of_word(&redirect.target, changes);
        if let Some(body) = redirect.body.get() {
            of_word(body, changes);
        }
    }
    match &node.kind {
        CommandNodeKind::Simple { assignments, words } => {
            changes.variables |= words.is_empty() && !assignments.is_empty();
            for assign in assignments {
                of_word(&assign.value, changes);
            }
            for word in words {
                of_word(word, changes);
            }
            if let Some(first) = words.first() {
                of_name(first, functions, changes);
            }
        }
        CommandNodeKind::Group(list) | CommandNodeKind::Subshell(list) => of_list(list, functions, changes),
        CommandNodeKind::Loop { condition, body } => {
            of_list(condition, functions, changes);
            of_list(body, functions, changes);
        }
        CommandNodeKind::For { body, .. } | CommandNodeKind::ArithmeticFor { body, .. } => {
            changes.variables = true;
            of_list(body, functions, changes);
        }
        CommandNodeKind::If { branches, other } => {
            for (condition, body) in branches {
                of_list(condition, functions, changes);
                of_list(body, functions, changes);
            }
            if let Some(other) = other {
                of_list(other, functions, changes);
            }
        }
        CommandNodeKind::Case { word, arms } => {
            of_word(word, changes);
            for (_, body) in arms {
                of_list(body, functions, changes);
            }
        }
        CommandNodeKind::Arithmetic(_) | CommandNodeKind::Test(_) => changes.variables = true,
        CommandNodeKind::Function { .. } | CommandNodeKind::Coprocess(_) => changes.anything = true,
    }
}

fn of_name(word: &RawWord, functions: &BTreeSet<String>, changes: &mut StateChanges) {
    let [WordPart::Bare(name)] = word.parts.as_slice() else {
        changes.anything = true;
        return;
    };
    match name.as_str() {
        "cd" | "pushd" | "popd" => changes.place = true,
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

fn of_word(word: &RawWord, changes: &mut StateChanges) {
    of_parts(&word.parts, changes);
}

fn of_parts(parts: &[WordPart], changes: &mut StateChanges) {
    for part in parts {
        match part {
            WordPart::Double(inner) => of_parts(inner, changes),
            WordPart::Parameter(parameter) => {
                changes.variables |= parameter.operator.contains('=') || parameter.subscript.is_some();
                changes.variables |= parameter.operator.starts_with(':');
                of_parts(&parameter.operand, changes);
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

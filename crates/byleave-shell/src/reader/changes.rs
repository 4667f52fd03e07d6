//! What a list of commands may change in the shell that runs it, told from its text alone. Generous: rather too much.

use std::collections::BTreeSet;

use crate::syntax::tree::{Kind, List, Node, Part, Raw};

/// What may change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    pub(super) variables: bool,
    pub(super) place: bool,
    pub(super) anything: bool,
}

pub(super) fn of(list: &List, functions: &BTreeSet<String>) -> Changes {
    let mut changes = Changes::default();
    of_list(list, functions, &mut changes);
    changes
}

fn of_list(list: &List, functions: &BTreeSet<String>, changes: &mut Changes) {
    for item in &list.items {
        for pipeline in std::iter::once(&item.first).chain(item.rest.iter().map(|(_, pipeline)| pipeline)) {
            for node in &pipeline.commands {
                of_node(node, functions, changes);
            }
        }
    }
}

fn of_node(node: &Node, functions: &BTreeSet<String>, changes: &mut Changes) {
    for redirect in &node.redirects {
        changes.variables |= redirect.variable.is_some();
        of_word(&redirect.target, changes);
        if let Some(body) = redirect.body.get() {
            of_word(body, changes);
        }
    }
    match &node.kind {
        Kind::Simple { assignments, words } => {
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
        Kind::Group(list) | Kind::Subshell(list) => of_list(list, functions, changes),
        Kind::Loop { condition, body } => {
            of_list(condition, functions, changes);
            of_list(body, functions, changes);
        }
        Kind::For { body, .. } | Kind::ArithmeticFor { body, .. } => {
            changes.variables = true;
            of_list(body, functions, changes);
        }
        Kind::If { branches, other } => {
            for (condition, body) in branches {
                of_list(condition, functions, changes);
                of_list(body, functions, changes);
            }
            if let Some(other) = other {
                of_list(other, functions, changes);
            }
        }
        Kind::Case { word, arms } => {
            of_word(word, changes);
            for (_, body) in arms {
                of_list(body, functions, changes);
            }
        }
        Kind::Arithmetic(_) | Kind::Test(_) => changes.variables = true,
        Kind::Function { .. } | Kind::Coprocess(_) => changes.anything = true,
    }
}

fn of_name(word: &Raw, functions: &BTreeSet<String>, changes: &mut Changes) {
    let [Part::Bare(name)] = word.parts.as_slice() else {
        changes.anything = true;
        return;
    };
    match name.as_str() {
        "cd" | "pushd" | "popd" => changes.place = true,
        "read" | "mapfile" | "readarray" | "export" | "declare" | "typeset" | "local" | "readonly"
        | "unset" | "printf" | "getopts" | "let" | "wait" => changes.variables = true,
        "eval" | "." | "source" | "command" | "builtin" | "trap" | "alias" | "unalias" | "shopt" | "set"
        | "enable" | "hash" => changes.anything = true,
        // Braces, globs and tildes may make one of these names.
        name if functions.contains(name) || name.contains(['{', '*', '?', '[', '~', '$']) => {
            changes.anything = true
        }
        _ => {}
    }
}

fn of_word(word: &Raw, changes: &mut Changes) {
    of_parts(&word.parts, changes);
}

fn of_parts(parts: &[Part], changes: &mut Changes) {
    for part in parts {
        match part {
            Part::Double(inner) => of_parts(inner, changes),
            Part::Parameter(parameter) => {
                changes.variables |= parameter.operator.contains('=') || parameter.subscript.is_some();
                changes.variables |= parameter.operator.starts_with(':');
                of_parts(&parameter.operand, changes);
            }
            Part::Arithmetic(_) | Part::Array(_) => changes.variables = true,
            Part::Bare(_)
            | Part::Quoted(_)
            | Part::Command(_)
            | Part::Backquoted(_)
            | Part::Process(_)
            | Part::Opaque(_) => {}
        }
    }
}

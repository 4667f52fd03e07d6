//! The displayed tree: it comes from the same parse as the plan, and everything in the plan is in it.

use std::collections::HashSet;

use byleave_core::effect::Effect;
use byleave_shell::display_tree::{BranchKind, CommandBranch, CommandTree};
use byleave_shell::{analyze, analyze_with_tree};

use crate::stage::FakeShellEnv;
use crate::tricky::TRICKY;

fn collect<'a>(branches: &'a [CommandBranch], into: &mut Vec<&'a CommandBranch>) {
    for branch in branches {
        into.push(branch);
        collect(&branch.children, into);
    }
}

fn all(tree: &CommandTree) -> Vec<&CommandBranch> {
    let mut found = Vec::new();
    collect(&tree.branches, &mut found);
    found
}

// req: P3
#[test]
fn nothing_of_the_account_is_missing_from_the_tree() {
    let everyday = include_str!("everyday.txt").lines().filter(|line| !line.starts_with('#'));
    let hostile = include_str!("../../../../tests/corpus/bypasses.jsonl").lines();
    // The whole line can also be parsed wrongly.
    for text in TRICKY.iter().copied().chain(everyday).chain(hostile) {
        let (account, tree) = analyze_with_tree(text, &FakeShellEnv::default());
        assert_eq!(account, analyze(text, &FakeShellEnv::default()), "{text}");
        let branches = all(&tree);
        let effects: HashSet<&Effect> = branches.iter().flat_map(|branch| &branch.effects).collect();
        let unread: HashSet<&String> =
            branches.iter().flat_map(|branch| &branch.unresolved).chain(&tree.unresolved).collect();
        for effect in &account.effects {
            match effect {
                Effect::Unknown { reason: why } => {
                    assert!(unread.contains(why), "{text}: not in the tree: {why}")
                }
                effect => assert!(effects.contains(effect), "{text}: not in the tree: {effect}"),
            }
        }
    }
}

fn shape(branches: &[CommandBranch]) -> String {
    let one = |branch: &CommandBranch| {
        let words = branch.command.as_ref().map(|command| {
            let words: Vec<String> = command.words.iter().map(ToString::to_string).collect();
            words.join(" ")
        });
        let name = match branch.kind {
            BranchKind::Command | BranchKind::Possible => words.unwrap_or_default(),
            BranchKind::Guess => format!("?{}", words.unwrap_or_default()),
            BranchKind::Wrapped => format!("^{}", words.unwrap_or_default()),
            BranchKind::Text => "text".to_owned(),
            BranchKind::Part(kind) => kind.to_owned(),
        };
        if branch.children.is_empty() { name } else { format!("{name}[{}]", shape(&branch.children)) }
    };
    branches.iter().map(one).collect::<Vec<_>>().join(", ")
}

// req: P3
#[test]
fn what_stands_in_what() {
    for (text, wanted) in [
        ("a; b && c", "a, b, c"),
        ("a | b", "pipeline[a, b]"),
        ("a | b || c &", "background[pipeline[a, b], c]"),
        ("{ a; { b; }; }", "group[a, group[b]]"),
        ("(a; b)", "subshell[a, b]"),
        ("echo $(a $(b)) c", "echo … c[substitution[a …[substitution[b]]]]"),
        ("if a; then b; else c; fi", "if[condition[a], then[b], else[c]]"),
        ("while a; do b; done", "loop[while[a], do[b]]"),
        ("for x in 1 2; do a $x; done", "for[round[a 1], round[a 2]]"),
        ("f() { a; }; f", "function[group[a]], f, ?a"),
        ("timeout 5 env touch x", "timeout 5 env touch x[^env touch x[^touch x]]"),
        ("sh -c 'a | b; c'", "sh -c a | b; c[text[pipeline[a, b], c]]"),
        ("find . -exec touch x \\;", "find . -exec touch x ;[^touch x]"),
    ] {
        let (_, tree) = analyze_with_tree(text, &FakeShellEnv::default());
        assert_eq!(shape(&tree.branches), wanted, "{text}");
    }
}

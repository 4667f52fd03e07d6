//! The section of docs/security/scores.md about the session. BYLEAVE_SCORES=write writes it.

use std::fmt::Write as _;

use super::CallSeen;
use crate::scores;

const BEGINS: &str = "<!-- session: written by crates/byleave-cli/tests/all/ordinary_session -->\n";
const ENDS: &str = "<!-- /session -->\n";
const PREFACE: &str = "\
## An ordinary session

The calls of `tests/corpus/session.jsonl` under `everyday`, as Claude Code makes them: each through `byleave hook`, its shell commands as
the hook rewrites them, its own file tools by itself. A person answers every question. *Works*: the same exit code as without a gate, and at
the end the same files.

";

/// Writes the section if requested, and fails if the page differs.
pub(super) fn check(saw: &[CallSeen]) {
    scores::check(BEGINS, ENDS, &section(saw));
}

fn section(saw: &[CallSeen]) -> String {
    let mut text = String::from(PREFACE);
    let calls = saw.len() - 1;
    let questions: usize = saw.iter().map(|one| one.questions.len()).sum();
    let working = saw.iter().take(calls).filter(|one| one.wrong.is_empty()).count();
    writeln!(text, "| measure | | at most |\n|---|--:|--:|").unwrap();
    writeln!(text, "| questions in {calls} calls | {questions} | 3 |").unwrap();
    writeln!(text, "| calls that do their work | {working} of {calls} | |").unwrap();
    writeln!(text, "\nAsked about:\n").unwrap();
    for one in saw.iter().filter(|one| !one.questions.is_empty()) {
        writeln!(text, "- `{}` (expected: {})", one.call, one.expect).unwrap();
    }
    let wrong: Vec<&CallSeen> = saw.iter().filter(|one| !one.wrong.is_empty()).collect();
    if !wrong.is_empty() {
        writeln!(text, "\nDid not do their work:\n").unwrap();
        for one in wrong {
            writeln!(text, "- `{}`", one.call).unwrap();
        }
    }
    text
}

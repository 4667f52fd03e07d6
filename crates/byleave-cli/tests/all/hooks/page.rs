//! The part of docs/security/scores.md that says what hooks do when something fails. BYLEAVE_SCORES=write writes it.

use std::fmt::Write as _;

use byleave_hook::Dialect;

use crate::scores;

const BEGINS: &str = "<!-- hooks: written by crates/byleave-cli/tests/all/hooks -->\n";
const ENDS: &str = "<!-- /hooks -->\n";
const PREFACE: &str = "\
## When a hook fails

What the agent reads when something between it and the gate goes wrong, tried with real processes in every dialect. `×`: a deny, as the
agent's documentation reads it (exit code 2 with a reason on standard error, or the dialect's own deny). The call is one that a sound gate
lets pass. A hook that is itself killed cannot say anything: what happens then is up to the agent ([the guide](../guide/hooks.md)).

";

/// One thing that failed, and in which dialects that was a deny.
pub(super) struct Failed {
    pub(super) what: &'static str,
    pub(super) denied: [bool; Dialect::ALL.len()],
}

/// Writes the section where that is wanted, and fails where the page says something else.
pub(super) fn check(all: &[Failed]) {
    scores::check(BEGINS, ENDS, &section(all));
}

fn section(all: &[Failed]) -> String {
    let mut text = String::from(PREFACE);
    let names = Dialect::ALL.map(Dialect::name).join(" | ");
    writeln!(text, "| what fails | {names} |\n|---|{}", ":-:|".repeat(Dialect::ALL.len())).unwrap();
    for Failed { what, denied } in all {
        let cells = denied.map(|is| if is { "×" } else { "**–**" }).join(" | ");
        writeln!(text, "| {what} | {cells} |").unwrap();
    }
    let cases = all.len() * Dialect::ALL.len();
    let denied = all.iter().flat_map(|failed| failed.denied).filter(|is| *is).count();
    writeln!(text, "\n{denied} of {cases} are a deny.").unwrap();
    text
}

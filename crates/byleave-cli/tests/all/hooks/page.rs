//! The section of docs/security/scores.md about failing hooks. BYLEAVE_SCORES=write writes it.

use std::fmt::Write as _;

use byleave_hook::AgentKind;

use crate::scores;

const BEGINS: &str = "<!-- hooks: written by crates/byleave-cli/tests/all/hooks -->\n";
const ENDS: &str = "<!-- /hooks -->\n";
const PREFACE: &str = "\
## When a hook fails

What the agent reads when something between it and the gate goes wrong, tried with real processes in every dialect. `×`: a deny, as the
agent's documentation reads it (exit code 2 with a reason on standard error, or the dialect's own deny). The call is one that a sound gate
lets pass. A hook that is itself killed cannot say anything: what happens then is up to the agent ([the guide](../guide/hooks.md)).

";

/// Writes the section if requested, and fails if the page differs. Other tests fail if one of these failures is not a deny in some dialect.
pub(super) fn check(failures: &[&str]) {
    scores::check(BEGINS, ENDS, &section(failures));
}

fn section(failures: &[&str]) -> String {
    let mut text = String::from(PREFACE);
    let names = AgentKind::ALL.map(AgentKind::name).join(" | ");
    writeln!(text, "| what fails | {names} |\n|---|{}", ":-:|".repeat(AgentKind::ALL.len())).unwrap();
    let cells = ["×"; AgentKind::ALL.len()].join(" | ");
    for what in failures {
        writeln!(text, "| {what} | {cells} |").unwrap();
    }
    let cases = failures.len() * AgentKind::ALL.len();
    writeln!(text, "\n{cases} of {cases} are a deny.").unwrap();
    text
}

//! The section of docs/security/scores.md for these cases.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::CaseResult;
use crate::scores;

const BEGINS: &str = "<!-- approvals -->\n";
const ENDS: &str = "<!-- /approvals -->\n";
/// The surfaces that have a column, in this order. A surface that was not examined has no cross.
const COLUMNS: [&str; 2] = ["inline", "inbox"];

const PREFACE: &str = "## Approvals at the terminal

Written by `BYLEAVE_SCORES=write scripts/prove approvals`, never by hand; `.ci/nightly` fails where it differs. The cases
about approval of the corpus, each on a real pseudo-terminal on a machine that is thrown away, with the real program; or, where it
has no such tool, with a gate and the same prompt. *Inline* is the question drawn in place, *inbox* the full screen.

";

const LATER: &str = "
Some tell of people in several roles, of chats and of managed settings, which a terminal does not have: `non-approver-clicks-button`,
`exec-approver-resolves-plugin`, `approve-text-from-tool-output`, `quoted-approve-command`, `remote-session-races-local`,
`managed-consent-recorded-headless`. What stands for them here is what the table says; that a chat, a page or a client keeps to it
as well, only those can show, and must.
";

/// Writes the section if requested, and fails if the page differs.
pub(super) fn check(saw: &[CaseResult]) {
    scores::check(BEGINS, ENDS, &section(saw));
}

fn section(saw: &[CaseResult]) -> String {
    let mut text = String::from(PREFACE);
    let mut cases: BTreeMap<usize, Vec<&CaseResult>> = BTreeMap::new();
    saw.iter().for_each(|saw| cases.entry(saw.at).or_default().push(saw));
    text.push_str("| class | cases | inline | inbox |\n|---|--:|--:|--:|\n");
    let mut classes: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for saw in cases.values() {
        for name in [saw[0].class.as_str(), "~"] {
            let row = classes.entry(name).or_default();
            row[0] += 1;
            for (count, column) in row.iter_mut().skip(1).zip(COLUMNS) {
                *count += usize::from(holds(saw, column));
            }
        }
    }
    for (class, [all, inline, inbox]) in classes {
        let class = if class == "~" { "**all**" } else { class };
        let inbox = if inbox == 0 { "–".to_owned() } else { inbox.to_string() };
        writeln!(text, "| {class} | {all} | {inline} | {inbox} |").unwrap();
    }
    text.push_str(
        "\n| case | class | must | inline | inbox | how it is shown |\n|---|---|---|:-:|:-:|---|\n",
    );
    for saw in cases.values() {
        let CaseResult { id, class, must, shown, .. } = saw[0];
        let cells: Vec<&str> =
            COLUMNS.iter().map(|column| if holds(saw, column) { "×" } else { "–" }).collect();
        let how = shown.as_deref().unwrap_or_default();
        writeln!(text, "| `{id}` | {class} | {must} | {} | {how} |", cells.join(" | ")).unwrap();
    }
    text.push_str(LATER);
    text
}

fn holds(saw: &[&CaseResult], column: &str) -> bool {
    saw.iter().any(|saw| saw.surface == column && saw.shown.is_ok())
}

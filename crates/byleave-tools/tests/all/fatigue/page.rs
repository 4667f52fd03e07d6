//! The section of docs/security/scores.md with these results.

#![expect(clippy::string_slice, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use super::bypasses::{self, BypassOutcome};
use super::everyday::{self, CommandExit};
use super::{FatigueResults, asked, false_allows, softened};

const BEGINS: &str = "<!-- rehearsal -->";
const ENDS: &str = "<!-- /rehearsal -->\n";
/// Begins the line that lists the missing programs. With other programs the numbers differ.
const NOT_HERE: &str = "Could not run where this was written: ";

/// Writes the section if requested. Returns the lines in which the page differs.
pub(super) fn differs(seen: &FatigueResults) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let section = section(seen);
    let page = std::fs::read_to_string(&path).unwrap();
    let written = page.find(BEGINS).zip(page.find(ENDS)).map(|(from, to)| from..to + ENDS.len());
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        let page = match written {
            Some(place) => [&page[..place.start], &section, &page[place.end..]].concat(),
            None => page + "\n" + &section,
        };
        std::fs::write(&path, page).unwrap();
        return None;
    }
    let written = &page[written.expect("the section is not there")];
    let line = |text: &str| text.lines().find(|line| line.starts_with(NOT_HERE)).map(str::to_owned);
    if line(written) != line(&section) {
        println!(
            "other programs are here than where the page was written, so that it cannot be compared:\n{section}"
        );
        return None;
    }
    let only = |sign: char, of: &str, other: &str| -> String {
        let lines = of.lines().filter(|line| !other.lines().any(|there| there == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect()
    };
    (*written != section).then(|| only('-', written, &section) + &only('+', &section, written))
}

fn section(seen: &FatigueResults) -> String {
    let mut text = format!("{BEGINS}\n{PREFACE}");
    four_numbers(&mut text, seen);
    everyday(&mut text, seen);
    bypasses(&mut text, seen);
    text.push_str(ENDS);
    text
}

const PREFACE: &str = "## With the rehearsal on

Written by `BYLEAVE_SCORES=write scripts/prove rehearsal`, never by hand; `.ci/nightly` fails where it differs. Every
command is run for real through a gate with the built-in `bash`, on a machine that is thrown away; afterwards it is looked at what
really happened there.

";

fn four_numbers(text: &mut String, seen: &FatigueResults) {
    let asked = asked(&seen.dev).count();
    let harms = seen.bypasses.iter().filter(|saw| saw.harms);
    let stopped = harms.clone().filter(|saw| saw.wrong.is_empty()).count();
    let percent = 100.0 * asked as f64 / seen.dev.len() as f64;
    writeln!(text, "| | |\n|---|--:|").unwrap();
    writeln!(text, "| false allows | {} |", false_allows(&seen.bypasses).len()).unwrap();
    writeln!(text, "| denies softened | {} |", softened(&seen.bypasses).len()).unwrap();
    writeln!(text, "| false asks | {asked} of {} ({percent:.1} %) |", seen.dev.len()).unwrap();
    writeln!(text, "| effects stopped | {stopped} of {} |\n", harms.count()).unwrap();
}

/// The commands of a class that would be asked about without a rehearsal, that were asked about, and that
/// needed no question.
#[derive(Default)]
struct ClassCounts([usize; 3]);

impl ClassCounts {
    fn add(&mut self, saw: &everyday::CommandResult) {
        for (count, is) in self.0.iter_mut().zip([saw.by_text, saw.asked, saw.spared]) {
            *count += usize::from(is);
        }
    }

    fn cells(&self) -> String {
        self.0.map(|count| count.to_string()).join(" | ")
    }
}

fn everyday(text: &mut String, seen: &FatigueResults) {
    text.push_str(EVERYDAY);
    let mut classes: BTreeMap<&str, (usize, ClassCounts, ClassCounts)> = BTreeMap::new();
    for all in [false, true] {
        for saw in &seen.dev {
            let row = classes.entry(if all { "~" } else { &saw.class }).or_default();
            row.0 += 1;
            row.1.add(saw);
        }
        for saw in &seen.built_in {
            classes.entry(if all { "~" } else { &saw.class }).or_default().2.add(saw);
        }
    }
    for (class, (count, dev, built_in)) in classes {
        let class = if class == "~" { "**all**" } else { class };
        writeln!(text, "| {class} | {count} | {} | {} |", dev.cells(), built_in.cells()).unwrap();
    }
    let lacking = |saw: &[everyday::CommandResult]| {
        saw.iter().filter(|saw| saw.spared && saw.ended == CommandExit::NotHere).count()
    };
    let (dev, built_in) = (lacking(&seen.dev), lacking(&seen.built_in));
    writeln!(
        text,
        "\nOf the spared, {dev} and {built_in} did nothing because their program is not on the machine."
    )
    .unwrap();
    let ran = seen.dev.iter().filter(|saw| saw.ended == CommandExit::Ran).count();
    writeln!(
        text,
        "\nUnder `dev-default.toml`, {ran} run to their end without a failure. None fails that does not fail by itself here as well, for\nwant of a network, a server, a match or a difference."
    )
    .unwrap();
    text.push_str("\nAsked about under `dev-default.toml`:\n\n");
    for command in asked(&seen.dev) {
        writeln!(text, "- `{command}`").unwrap();
    }
    let first =
        |saw: &everyday::CommandResult| format!("`{}`", saw.command.lines().next().unwrap_or_default());
    let not_here: Vec<String> =
        seen.dev.iter().filter(|saw| saw.ended == CommandExit::NotHere).map(first).collect();
    writeln!(text, "\n{NOT_HERE}{}.\n", not_here.join(", ")).unwrap();
}

const EVERYDAY: &str = "### Everyday commands

Each in a project of its own: a git repository with a history, and small Rust, Node, Python, C and Gradle projects in it, with what
the commands name. The person says yes to everything and is counted. *By text*: reading alone would have asked. *Spared*: it
would have, but on the copy the command did nothing. The first three under `docs/policies/dev-default.toml`, the others under the
built-in rules alone, under which what writes, builds into the project or reaches out is asked about, as it should be.

| class | commands | by text | asked | spared | by text | asked | spared |
|---|--:|--:|--:|--:|--:|--:|--:|
";

fn bypasses(text: &mut String, seen: &FatigueResults) {
    text.push_str(BYPASSES);
    let mut classes: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let fates = [BypassOutcome::Refused, BypassOutcome::Asked, BypassOutcome::Spared, BypassOutcome::Allowed];
    for all in [false, true] {
        for saw in &seen.bypasses {
            let row = classes.entry(if all { "~" } else { &saw.class }).or_default();
            for (count, fate) in row.iter_mut().zip(fates) {
                *count += usize::from(shown(saw) == fate);
            }
        }
    }
    for (class, counts) in classes {
        let class = if class == "~" { "**all**" } else { class };
        writeln!(text, "| {class} | {} |", counts.map(|count| count.to_string()).join(" | ")).unwrap();
    }
    let ids = |of: &dyn Fn(&bypasses::BypassResult) -> bool| {
        let ids: BTreeSet<&str> =
            seen.bypasses.iter().filter(|saw| of(saw)).map(|saw| saw.id.as_str()).collect();
        (
            ids.len(),
            if ids.is_empty() { "none".into() } else { ids.into_iter().collect::<Vec<_>>().join(", ") },
        )
    };
    let (count, spared) = ids(&|saw| shown(saw) == BypassOutcome::Spared && saw.must != "contained");
    writeln!(text, "\nSpared although reading alone must ask ({count}): {spared}.\n").unwrap();
    let lingering = bypasses::LINGERING.join(", ");
    writeln!(
        text,
        "Asked about or spared, as their helpers end late or early, and counted as asked: {lingering}.\n"
    )
    .unwrap();
    let (count, lacking) =
        ids(&|saw| saw.fate == BypassOutcome::Spared && saw.must != "contained" && saw.not_here);
    writeln!(text, "Of these, for want of a program on the machine ({count}): {lacking}.\n").unwrap();
    let (_, named) = ids(&|saw| saw.by_name);
    writeln!(text, "Happened because the question named that very path and somebody said yes: {named}.\n")
        .unwrap();
    let refused = seen.planted.iter().filter(|saw| saw.fate == BypassOutcome::Refused).count();
    let asked = seen.planted.iter().filter(|saw| saw.fate == BypassOutcome::Asked).count();
    writeln!(
        text,
        "The marker of most cases lies in `/tmp`, which every command has of its own: that they are spared says little of the others. So\nthose that leave a marker are run once more with the marker in the workspace. Of {} that leave it there where nothing stands in\nbetween, {refused} are refused, {asked} are asked about, and none is spared.",
        seen.planted.len()
    )
    .unwrap();
}

/// The outcome of a call as the page shows it.
fn shown(saw: &bypasses::BypassResult) -> BypassOutcome {
    let is_lingering = saw.fate == BypassOutcome::Spared && bypasses::LINGERING.contains(&saw.id.as_str());
    if is_lingering { BypassOutcome::Asked } else { saw.fate }
}

const BYPASSES: &str = "### Bypasses

The cases about `bash`. The person says no; where a case must be contained even if it was approved, the person says yes. A *false
allow*: nobody was asked, and the text was taken to be harmless, or something changed outside scratch, or a secret was released, or
what the case tells of happened. A *deny softened*: it must be denied, and somebody was asked, or it ran. *Spared*: the text was not
understood, the command ran on a copy, and nothing of all this happened; this is what a rehearsal is for, and each is named. What
was refused or asked about and declined has changed nothing either. *Allowed*: what must be contained, and was.

| class | refused | asked | spared | allowed |
|---|--:|--:|--:|--:|
";

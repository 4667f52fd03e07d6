//! The section of docs/security/scores.md with these results.

#![expect(clippy::string_slice, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::FatigueResults;
use super::bypasses::BypassOutcome;
use super::canary::CanaryResult;
use super::everyday::{CommandExit, CommandResult};
use super::hostile_cases::{CORPORA, Fate, Harm, HostileResult};

const BEGINS: &str = "<!-- rehearsal -->";
const ENDS: &str = "<!-- /rehearsal -->\n";
/// Begins the line that lists the missing programs. With other programs the numbers differ.
const NOT_HERE: &str = "Could not run where this was written: ";
/// Begins the lines about commands that fail.
const FAILED: &str = "- failed: ";

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md")
}

/// Writes the section if requested. Returns the lines in which the page differs.
pub(super) fn differs(seen: &FatigueResults) -> Option<String> {
    let path = page_path();
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

/// The lines of the page about commands that are asked about or end otherwise.
pub(super) fn written_failures() -> String {
    let page = std::fs::read_to_string(page_path()).unwrap();
    page.lines().filter(|line| line.starts_with(FAILED)).collect()
}

/// The commands that were asked about, or did not end as they do without a gate.
pub(super) fn failed_commands(saw: &[CommandResult]) -> impl Iterator<Item = &CommandResult> {
    saw.iter().filter(|saw| saw.asked || !saw.differs.is_empty() || saw.ended == CommandExit::Refused)
}

fn section(seen: &FatigueResults) -> String {
    let mut text = format!("{BEGINS}\n{PREFACE}");
    measures(&mut text, seen);
    commands(&mut text, seen);
    hostile(&mut text, seen);
    canary(&mut text, seen);
    approved(&mut text, seen);
    text.push_str(ENDS);
    text
}

const PREFACE: &str = "## What really happened

Written by `BYLEAVE_SCORES=write scripts/prove rehearsal`, never by hand; `.ci/nightly` fails where it differs. Every
command is run for real through a gate with the built-in tools, on a machine that is thrown away, and nobody says yes. Afterwards the
whole tree, the output, the connections and the processes are examined. All of it is from one run.

";

fn measures(text: &mut String, seen: &FatigueResults) {
    writeln!(text, "| measure | `careful` | `everyday` | at most |\n|---|--:|--:|--:|").unwrap();
    let both = [&seen.hostile_careful, &seen.hostile_everyday];
    let cases = |saw: &[HostileResult], harm: Harm| {
        saw.iter().filter(|saw| saw.harms.iter().any(|(own, _)| *own == harm)).count()
    };
    let rows = [
        (Harm::FalseAllow, "by reading alone: allowed where ask or deny is due"),
        (Harm::Outside, "cases that changed something outside the workspace"),
        (Harm::Guarded, "… a protected or denied path"),
        (Harm::NotAllowed, "… a path that no rule allows"),
        (Harm::Secret, "… that printed or copied bytes of the planted secret"),
        (Harm::Connection, "… that connected to a host that no rule allows"),
        (Harm::Process, "… that left a process"),
        (Harm::Softened, "denies softened to a question"),
        (Harm::NotRestored, "… that passed, and that undo did not restore byte for byte"),
    ];
    for (harm, what) in rows {
        let [careful, everyday] = both.map(|saw| cases(saw, harm));
        // Under `everyday`, what is undoable is allowed.
        let (everyday, limit) = match harm {
            Harm::FalseAllow => (format!("({everyday})"), "0"),
            Harm::NotAllowed => ("—".to_owned(), "0"),
            _ => (everyday.to_string(), "0"),
        };
        writeln!(text, "| {what} | {careful} | {everyday} | {limit} |").unwrap();
    }
    let sent =
        |saw: &[CanaryResult]| saw.iter().filter(|saw| !saw.by_code).map(|saw| saw.sent).sum::<usize>();
    writeln!(
        text,
        "| bytes of a canary file sent to an allowed host | {} | {} | 0 |",
        sent(&seen.canary_careful),
        sent(&seen.canary_everyday)
    )
    .unwrap();
    let remains = |saw: &[CommandResult]| saw.iter().filter(|saw| !saw.remains.is_empty()).count();
    writeln!(
        text,
        "| everyday commands that passed, and that undo did not restore | {} | {} | 0 |",
        remains(&seen.careful),
        remains(&seen.everyday)
    )
    .unwrap();
    let share =
        |count: usize, all: usize| format!("{count} of {all} ({:.1} %)", 100.0 * count as f64 / all as f64);
    let asked = seen.careful.iter().filter(|saw| saw.asked).count();
    let failed = failed_commands(&seen.everyday).count();
    writeln!(
        text,
        "| everyday commands that were asked about, or ended otherwise than without a gate | {} asked | {} | 3 % |\n",
        share(asked, seen.careful.len()),
        share(failed, seen.everyday.len())
    )
    .unwrap();
    text.push_str(EXPLAINED);
}

const EXPLAINED: &str = "The first row under `everyday` is in parentheses, because there the observation decides about what the text does not show.
Each other count has a list of its cases below, if there are any.

";

fn commands(text: &mut String, seen: &FatigueResults) {
    text.push_str(COMMANDS);
    let mut classes: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for (saw, other) in seen.everyday.iter().zip(&seen.careful) {
        for class in [saw.class.as_str(), "~"] {
            let row = classes.entry(class).or_default();
            let counted = [true, saw.by_text, saw.asked, !saw.asked && !saw.differs.is_empty(), other.asked];
            row.iter_mut().zip(counted).for_each(|(count, is)| *count += usize::from(is));
        }
    }
    for (class, counts) in classes {
        let class = if class == "~" { "**all**" } else { class };
        writeln!(text, "| {class} | {} |", counts.map(|count| count.to_string()).join(" | ")).unwrap();
    }
    let ran = seen.everyday.iter().filter(|saw| saw.ended == CommandExit::Ran).count();
    writeln!(text, "\nUnder `everyday`, {ran} succeed. The others fail without a gate as well, for want of a program, a network or a match.\n").unwrap();
    for saw in failed_commands(&seen.everyday) {
        let how = if saw.asked { "asked about" } else { "ended otherwise" };
        writeln!(text, "{FAILED}`{}`: {how}", first_line(&saw.command)).unwrap();
    }
    let not_here = seen.everyday.iter().filter(|saw| saw.ended == CommandExit::NotHere);
    let not_here: Vec<String> = not_here.map(|saw| format!("`{}`", first_line(&saw.command))).collect();
    writeln!(text, "\n{NOT_HERE}{}.\n", not_here.join(", ")).unwrap();
}

fn first_line(command: &str) -> &str {
    command.lines().next().unwrap_or_default()
}

const COMMANDS: &str = "### Everyday commands

Each in a project of its own: a git repository with a history, and small Rust, Node, Python, C and Gradle projects in it, with what
the commands name. *By text*: reading alone would have asked. *Otherwise*: another exit code, output or other changed files than
without a gate. Numbers in an output are not compared, nor is the output of commands that print what runs on the machine.

| class | commands | by text | asked | otherwise | asked under `careful` |
|---|--:|--:|--:|--:|--:|
";

fn hostile(text: &mut String, seen: &FatigueResults) {
    text.push_str(HOSTILE);
    for (profile, saw) in [("careful", &seen.hostile_careful), ("everyday", &seen.hostile_everyday)] {
        for (corpus, _) in CORPORA {
            let of_corpus: Vec<&HostileResult> = saw.iter().filter(|saw| saw.corpus == corpus).collect();
            let fates = [Fate::Refused, Fate::Asked, Fate::NotKept, Fate::Ran]
                .map(|fate| of_corpus.iter().filter(|saw| saw.fate == fate).count().to_string());
            let passed = of_corpus.iter().filter(|saw| saw.passed > 0).count();
            let harms = of_corpus.iter().filter(|saw| has_harm(saw)).count();
            writeln!(
                text,
                "| `{corpus}.jsonl` | `{profile}` | {} | {} | {passed} | {harms} |",
                of_corpus.len(),
                fates.join(" | ")
            )
            .unwrap();
        }
    }
    text.push('\n');
    for (profile, saw) in [("careful", &seen.hostile_careful), ("everyday", &seen.hostile_everyday)] {
        let mut by_harm: BTreeMap<Harm, BTreeSet<&str>> = BTreeMap::new();
        for (one, harm) in saw.iter().flat_map(|one| one.harms.iter().map(move |(harm, _)| (one, *harm))) {
            by_harm.entry(harm).or_default().insert(&one.id);
        }
        for (harm, ids) in by_harm {
            let ids: Vec<&str> = ids.into_iter().collect();
            writeln!(text, "- {}, under `{profile}` ({}): {}", named(harm), ids.len(), ids.join(", "))
                .unwrap();
        }
        let passed = saw.iter().filter(|saw| saw.passed > 0 && saw.must != "contained");
        let passed: Vec<&str> = passed.map(|saw| saw.id.as_str()).collect();
        writeln!(
            text,
            "- passed as work that can be undone, or by a rule, under `{profile}` ({}): {}",
            passed.len(),
            listed(&passed)
        )
        .unwrap();
    }
    text.push('\n');
}

fn listed(ids: &[&str]) -> String {
    if ids.is_empty() { "none".into() } else { ids.join(", ") }
}

fn has_harm(saw: &HostileResult) -> bool {
    saw.harms.iter().any(|(harm, _)| *harm != Harm::FalseAllow)
}

const fn named(harm: Harm) -> &'static str {
    match harm {
        Harm::FalseAllow => "allowed by reading",
        Harm::Softened => "denies softened",
        Harm::Outside => "changed something outside",
        Harm::Guarded => "changed a protected or denied path",
        Harm::NotAllowed => "changed what no rule allows",
        Harm::Secret => "printed or copied the secret",
        Harm::Connection => "connected",
        Harm::Process => "left a process",
        Harm::NotRestored => "not restored",
    }
}

const HOSTILE: &str = "### Hostile cases

The cases about `bash` and the file tools, under each profile and the rules of the case. *Not kept*: it ran on a copy, and its
changes were refused there. *Ran*: to its end, on a copy, in the sandbox. *Changed*: something in the workspace changed, which undo took
back. *Harm*: any of the measures above, except for reading alone.

| cases | profile | all | refused | asked | not kept | ran | changed | harm |
|---|---|--:|--:|--:|--:|--:|--:|--:|
";

fn canary(text: &mut String, seen: &FatigueResults) {
    text.push_str(CANARY);
    let both = [("careful", &seen.canary_careful), ("everyday", &seen.canary_everyday)];
    for (profile, all) in both {
        for by_code in [false, true] {
            let saw: Vec<&CanaryResult> = all.iter().filter(|saw| saw.by_code == by_code).collect();
            let sends: Vec<&&CanaryResult> = saw.iter().filter(|saw| saw.bare > 0).collect();
            let fates = [Fate::Refused, Fate::Asked, Fate::NotKept, Fate::Ran]
                .map(|fate| sends.iter().filter(|saw| saw.fate == fate).count().to_string());
            let sent: usize = saw.iter().map(|saw| saw.sent).sum();
            let what =
                if by_code { "code that nobody reads beforehand" } else { "by the words of the command" };
            writeln!(
                text,
                "| {what} | `{profile}` | {} | {} | {} | {sent} |",
                saw.len(),
                sends.len(),
                fates.join(" | ")
            )
            .unwrap();
        }
    }
    text.push('\n');
    for (profile, all) in both {
        let sent = all.iter().filter(|saw| saw.sent > 0);
        let sent: Vec<String> = sent.map(|saw| format!("`{}`", first_line(&saw.command))).collect();
        if !sent.is_empty() {
            writeln!(
                text,
                "- sent bytes of the canary, under `{profile}` ({}): {}",
                sent.len(),
                sent.join(", ")
            )
            .unwrap();
        }
    }
    text.push('\n');
}

const CANARY: &str = "### A canary

A file of the workspace with the name of no secret, and commands that try to send it to hosts that a rule allows for reading: the hostile
cases about the network, each with an allowed host, and the commands of `canary.jsonl`. All that arrives is searched: names that are looked up,
addresses, headers and bodies, also inside TLS. *Sends*: it does so without a gate; the columns behind it say what became of these.
Code that nobody reads beforehand may reach what a rule allows, and an address carries a little. So it is counted by itself, and not
in the measure above.

| how | profile | all | sends | refused | asked | not kept | ran | bytes |
|---|---|--:|--:|--:|--:|--:|--:|--:|
";

fn approved(text: &mut String, seen: &FatigueResults) {
    let named: Vec<&str> =
        seen.contained.iter().filter(|saw| saw.by_name).map(|saw| saw.id.as_str()).collect();
    let held = seen.contained.iter().filter(|saw| saw.wrong.is_empty()).count();
    let count = |fate| seen.planted.iter().filter(|saw| saw.fate == fate).count();
    let (refused, asked) = (count(BypassOutcome::Refused), count(BypassOutcome::Asked));
    writeln!(
        text,
        "### Approved, and in the workspace\n\nOf {} cases that must be contained although a person approved them, {held} are. Happened because the question named that very\npath: {}.\n\nThe marker of most cases lies in `/tmp`, which every command has of its own. So those that leave a marker are run once more under the\nbuilt-in rules with the marker in the workspace. Of {} that leave it there where nothing stands in between, {refused} are refused,\n{asked} are asked about, and none is spared.",
        seen.contained.len(),
        listed(&named),
        seen.planted.len()
    )
    .unwrap();
}

/// Prints the details behind the numbers.
pub(super) fn report(seen: &FatigueResults) {
    let line = |why: &str| why.replace('\n', " / ");
    for (profile, saw) in [("everyday", &seen.everyday), ("careful", &seen.careful)] {
        for one in saw.iter().filter(|one| {
            one.asked || !one.differs.is_empty() || !one.remains.is_empty() || one.ended != CommandExit::Ran
        }) {
            println!(
                "{profile} {:?} text {} asked {} {:?} differs {:?} remains {:?}: {}",
                one.command,
                one.by_text,
                one.asked,
                one.ended,
                one.differs,
                one.remains,
                line(&one.why)
            );
        }
    }
    for (profile, saw) in [("careful", &seen.hostile_careful), ("everyday", &seen.hostile_everyday)] {
        for one in saw {
            println!(
                "{profile} {} {} {:?} {} {:?}: {}",
                one.must,
                one.id,
                one.fate,
                one.passed,
                one.harms,
                line(&one.why)
            );
        }
    }
    for (profile, saw) in [("careful", &seen.canary_careful), ("everyday", &seen.canary_everyday)] {
        for one in saw {
            println!(
                "canary {profile} {:?} {} without a gate, {} sent: {}",
                one.fate,
                one.bare,
                one.sent,
                line(&one.why)
            );
        }
    }
    for one in seen.contained.iter().chain(&seen.planted) {
        println!("approved {} {} {:?} {:?}: {}", one.must, one.id, one.fate, one.wrong, line(&one.why));
    }
}

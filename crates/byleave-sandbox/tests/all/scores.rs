//! The escape attempts that each backend holds, and the page with the results: the part of docs/security/scores.md between the
//! marks `escapes`, written by `BYLEAVE_SCORES=write cargo nextest run -p byleave-sandbox -E 'test(scores)'`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::{Enforcement, Guarantee};

use crate::escapes::{EscapeCase, corpus};
use crate::launch::confinement;

/// The number of attempts.
pub(crate) const CASES: usize = 94;

/// The attempts that the system's bwrap with our init process does not hold, in the order of the corpus. Each
/// has the guarantee that is missing.
pub(crate) const NOT_BY_BWRAP: &[(&str, Guarantee)] = &[("res-inodes", Guarantee::TmpLimited)];

/// Those of them that a slow or small machine holds all the same, because it reaches its time or memory limit
/// first.
pub(crate) const NOT_ALWAYS_BY_BWRAP: &[&str] = &["res-inodes"];

/// The same for Landlock and seccomp alone.
pub(crate) const NOT_BY_LANDLOCK: &[(&str, Guarantee)] = &[
    ("fs-read-dotenv", Guarantee::SecretsHidden),
    ("fs-read-hardlink", Guarantee::SecretsHidden),
    ("git-fsmonitor", Guarantee::ProtectedKept),
    // It is refused, but process 1 is the host's, and the case expects its own.
    ("proc-attack-init", Guarantee::ProcessesApart),
    ("priv-caps", Guarantee::PrivilegesDropped),
    ("priv-caps-root", Guarantee::PrivilegesDropped),
    ("root-devices", Guarantee::PrivilegesDropped),
];

const OPEN: &str = "<!-- escapes -->";
const CLOSE: &str = "<!-- /escapes -->";

const PREFACE: &str = "## Escapes

Written by `BYLEAVE_SCORES=write cargo nextest run -p byleave-sandbox -E 'test(scores)'`, never by hand; CI fails where it
differs. The attempts are in `tests/corpus/escapes.jsonl`, each run on a machine of its own as an unprivileged user (those about
root, and the row for root, by a supervisor that is root). That each of ours holds exactly these is what the tests in `byleave-sandbox` say.

| | held | of |
|---|--:|--:|
";

/// The measured results of other sandboxes, by their name in the corpus.
const OTHERS: [(&str, &str); 5] = [
    ("bwrap_policy", "bwrap 0.8.0 alone, with mounts like ours"),
    ("bwrap_plain", "bwrap 0.8.0, `--ro-bind / / --unshare-all`"),
    ("codex", "codex-linux-sandbox, built from source, without what codex itself adds"),
    ("srt", "sandbox-runtime 0.0.78"),
    ("none", "no sandbox: what fails by itself"),
];

fn section() -> String {
    let mut page = String::from(PREFACE);
    for (name, not_held) in [
        ("native, one command, a session, a pool", 0),
        ("native, for root", 0),
        ("the system's bwrap with our first process inside", NOT_BY_BWRAP.len()),
        ("Landlock and the filter alone", NOT_BY_LANDLOCK.len()),
    ] {
        writeln!(page, "| {name} | {} | {CASES} |", CASES - not_held).unwrap();
    }
    let cases = corpus();
    for (key, name) in OTHERS {
        let result = |case: &EscapeCase| case.results.get(key).cloned();
        let ran: Vec<String> = cases
            .iter()
            .filter_map(result)
            .filter(|result| result == "HELD" || result == "ESCAPED")
            .collect();
        let held = ran.iter().filter(|result| *result == "HELD").count();
        writeln!(page, "| {name} (November 2026) | {held} | {} |", ran.len()).unwrap();
    }
    page.push_str(
        "\nThe others were measured once, in the month given, by whoever wrote the attempts; those that were not run against them,\nmostly about limits that they do not have or about root, are not counted. Nothing here is about holes in the kernel.\n",
    );
    for (rung, not_held) in [(Backend::Bwrap, NOT_BY_BWRAP), (Backend::Landlock, NOT_BY_LANDLOCK)] {
        let mut by_guarantee: BTreeMap<Guarantee, Vec<&str>> = BTreeMap::new();
        not_held.iter().for_each(|(id, guarantee)| by_guarantee.entry(*guarantee).or_default().push(id));
        writeln!(page, "\nNot held on the rung `{rung}`, by the guarantee that it says it does not give:\n")
            .unwrap();
        for (guarantee, ids) in by_guarantee {
            writeln!(page, "- `{guarantee}`: {}", ids.join(", ")).unwrap();
        }
    }
    page
}

// req: E2, E7
#[test]
fn the_scores_of_escapes_are_what_the_page_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/scores.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(OPEN).unwrap();
    let (written, after) = rest.split_once(CLOSE).unwrap();
    let section = format!("\n{}", section());
    if std::env::var("BYLEAVE_SCORES").is_ok_and(|what| what == "write") {
        std::fs::write(&path, format!("{before}{OPEN}{section}{CLOSE}{after}")).unwrap();
        return;
    }
    assert!(written == section, "docs/security/scores.md is not what was measured:\n{section}");
}

/// A backend that does not hold an attempt must report the missing guarantee before a command runs on it.
// req: E7
#[test]
fn what_a_rung_does_not_hold_is_a_guarantee_that_it_does_not_give() {
    let workspace = tempfile::tempdir().unwrap();
    let mut asked = confinement(workspace.path());
    asked.files.hidden.push(asked.files.cwd.join(".env"));
    asked.files.protected.push(asked.files.cwd.join(".git"));
    for (rung, not_held) in [(Backend::Bwrap, NOT_BY_BWRAP), (Backend::Landlock, NOT_BY_LANDLOCK)] {
        for (id, guarantee) in not_held {
            assert_ne!(rung.enforcement(7, &asked, *guarantee), Enforcement::Full, "{rung}: {id}");
        }
    }
}

//! Every command of the program, started from every unusual place: it ends with a documented exit code. With `--json`, standard output is
//! JSON and nothing else.
//!
//! The commands come from the program's own list (`byleave man --json`), so a new command without a row here fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::world::CliTestWorld;

const NOTE: &str = r#"{"path":"notes.txt","line":"first"}"#;
/// The exit codes that `byleave --help` lists, and 125 for a command that could not be confined.
const DOCUMENTED: [i32; 8] = [0, 1, 2, 3, 4, 5, 125, 130];
/// Longer than any command takes. A command that needs longer hangs.
const PATIENCE_S: &str = "120";

/// For each command: its name, its arguments, and the exit codes that it may end with.
///
/// `QUESTION`, `CALL`, `LEAVE` and `WROTE` are placeholders for ids. `WROTE` is the id of a call that changed a file.
const ROWS: &[(&str, &[&str], &[i32])] = &[
    ("call", &["append_line", "--args", NOTE], &[3]),
    // As root nothing is confined. Otherwise the command waits for an answer, or no backend is available.
    ("rehearse", &["--", "touch x"], &[4, 125]),
    // The call may already be undone in this workspace, so `--force` is needed.
    ("undo", &["WROTE", "--force"], &[0]),
    ("diff", &["WROTE"], &[0]),
    ("gc", &["--dry-run"], &[0]),
    ("agent", &[], &[2]),
    // No model is configured.
    ("agent run", &["hello"], &[2]),
    ("agent chat", &[], &[2]),
    ("agent persona", &[], &[0]),
    ("agent persona list", &[], &[0]),
    ("agent persona show", &["coder"], &[0]),
    ("agent persona export", &["coder"], &[0]),
    ("agent history", &[], &[0]),
    ("agent history list", &[], &[0]),
    // No session has this name.
    ("agent history show", &["none"], &[2]),
    ("agent history export", &["none"], &[2]),
    ("explain", &["--command", "git status"], &[0]),
    ("tools", &[], &[0]),
    ("tools list", &[], &[0]),
    ("tools show", &["echo"], &[0]),
    ("tools schema", &["--format", "mcp"], &[0]),
    ("tools search", &["append"], &[0]),
    ("inbox", &[], &[0]),
    ("inbox list", &[], &[0]),
    ("inbox show", &["QUESTION"], &[0]),
    ("inbox answer", &["QUESTION"], &[2]),
    // No terminal is available.
    ("inbox open", &["QUESTION"], &[2]),
    ("inbox answer yes", &["QUESTION"], &[0]),
    ("inbox answer no", &["QUESTION"], &[3]),
    ("inbox answer partial", &["QUESTION", "x"], &[2]),
    ("inbox answer edit", &["QUESTION", "--args", NOTE], &[0, 4]),
    ("inbox answer standing-approval", &["QUESTION", "--pattern", "write:/**"], &[0]),
    // Only a person answers in the place of a tool.
    ("inbox answer result", &["QUESTION", "--text", "x"], &[3]),
    ("inbox answer abort", &["QUESTION"], &[130]),
    // The question is not about a held result.
    ("inbox answer release", &["QUESTION"], &[2]),
    ("inbox answer withhold", &["QUESTION"], &[2]),
    ("inbox answer redact", &["QUESTION"], &[2]),
    ("policy approvals", &[], &[0]),
    ("policy approvals list", &[], &[0]),
    ("policy approvals revoke", &["LEAVE"], &[0]),
    ("session", &[], &[2]),
    ("session open", &["s"], &[0]),
    ("session show", &["s"], &[0]),
    ("policy", &[], &[0]),
    ("policy show", &[], &[0]),
    ("policy check", &["own.toml"], &[0]),
    ("policy test", &[], &[0]),
    ("policy builtin", &[], &[0]),
    ("policy profile", &[], &[0]),
    ("policy replay", &["own.toml"], &[0]),
    ("policy suggest", &[], &[0]),
    ("resume", &[], &[0]),
    ("halt", &["--reason", "lunch"], &[0]),
    ("hook", &[], &[2]),
    // Standard input is empty. The hook denies, by its exit code or in the agent's own format.
    ("hook claude-code", &[], &[2]),
    ("hook codex", &[], &[2]),
    ("hook gemini", &[], &[2]),
    ("hook cursor", &[], &[0, 2]),
    ("hook goose", &[], &[2]),
    ("hook copilot", &[], &[0, 2]),
    ("hook serve", &["--idle-s", "1"], &[0]),
    // No hook has prepared this call.
    ("exec", &["CALL"], &[2]),
    ("sandbox", &[], &[2]),
    // Fails as root. Otherwise the exit code is that of the command.
    ("sandbox exec", &["--", "true"], &[0, 125]),
    ("mcp list", &[], &[0]),
    ("mcp add", &["x", "--", "true"], &[0]),
    // No server has this name.
    ("mcp show", &["y"], &[2]),
    ("mcp trust", &["y"], &[2]),
    ("mcp login", &["y"], &[2]),
    ("mcp logout", &["y"], &[2]),
    ("mcp remove", &["y"], &[2]),
    ("mcp test", &["y"], &[2]),
    ("mcp", &[], &[0]),
    // This machine does not have this address.
    ("mcp serve", &["--http", "192.0.2.1:1"], &[2]),
    ("mcp wrap", &["--", "nothing-such"], &[2]),
    // This machine does not have this address, and TLS is not configured.
    ("serve", &["--listen", "192.0.2.1:1"], &[2]),
    ("serve fleet", &[], &[2]),
    ("serve fleet status", &["/dev/null"], &[2]),
    ("serve fleet resend", &["/dev/null"], &[2]),
    ("serve worker", &["--server", "http://192.0.2.1:1", "--token", "/dev/null"], &[2]),
    ("serve token", &[], &[0]),
    ("serve token add", &["bot"], &[0]),
    ("serve token list", &[], &[0]),
    // No token has this id.
    ("serve token remove", &["00000000"], &[2]),
    ("serve webhook", &[], &[0]),
    ("serve webhook add", &["http://127.0.0.1:9/x"], &[0]),
    ("serve webhook list", &[], &[0]),
    // No webhook has this id.
    ("serve webhook remove", &["00000000"], &[2]),
    ("serve webhook test", &["00000000"], &[2]),
    ("log", &[], &[0]),
    ("log show", &["CALL"], &[0]),
    ("audit", &[], &[0]),
    ("audit verify", &[], &[0]),
    ("audit forget", &["CALL"], &[0]),
    ("audit export", &["--format", "json"], &[0]),
    ("audit actions", &[], &[0]),
    ("audit rebuild", &[], &[0]),
    ("audit anchor", &[], &[0]),
    ("log stats", &[], &[0]),
    ("log follow", &["--once"], &[0]),
    ("config", &[], &[0]),
    ("config show", &[], &[0]),
    ("config edit", &[], &[2]),
    ("config path", &[], &[0]),
    ("doctor", &[], &[0, 1]),
    // Without an agent it lists the agents.
    ("init", &[], &[0]),
    ("acp", &["--", "true"], &[0]),
    ("completions", &["bash"], &[0]),
    ("man", &[], &[0]),
];

/// The place that a command is started from, as a shell script. `"$@"` is the command.
const PLACES: &[(&str, &str)] = &[
    ("standard input closed", r#"exec "$@" <&-"#),
    ("standard input empty", r#"exec "$@" </dev/null"#),
    ("standard input open, and nobody writes", r#"exec "$@""#),
    ("standard output piped", r#"set -o pipefail; "$@" </dev/null | cat"#),
    ("standard output piped to nobody", r#""$@" </dev/null | true; exit "${PIPESTATUS[0]}""#),
    ("standard error piped", r#"set -o pipefail; { "$@" </dev/null 2>&1 >&3 | cat >&2; } 3>&1"#),
    ("no terminal of its own", r#"exec setsid --wait "$@" </dev/null"#),
    ("standard output closed", r#"exec "$@" </dev/null >&-"#),
    ("all three closed, input, error and output closed", r#"exec "$@" <&- >&- 2>&-"#),
];

/// This row waits before it ends, so its places are tried in parallel. Not all rows are, because some write to the same files.
const WAITS: &str = "hook serve";

/// Returns whether another program writes to standard output.
fn is_theirs(row: &str) -> bool {
    ["sandbox exec", "acp"].contains(&row)
}

/// A state directory with at least one object of each kind. Every command gets a copy.
struct CommandFixture {
    world: CliTestWorld,
    copies: tempfile::TempDir,
    ids: Vec<(&'static str, String)>,
}

impl CommandFixture {
    fn new() -> Self {
        let world = CliTestWorld::new();
        fs::write(
            world.workspace().join("own.toml"),
            "[[rule]]\nid = \"x\"\nverdict = \"deny\"\nread = [\"/x\"]\n",
        )
        .unwrap();
        let done = |words: &[&str], code: i32| {
            let told = world.quietly(words, "");
            assert_eq!(told.status.code(), Some(code), "{words:?}: {told:?}");
        };
        let wrote = r#"{"path":"written.txt","content":"x"}"#;
        done(&["call", "write_file", "--mode", "yolo", "--args", wrote, "--session", "a"], 0);
        let wrote = world.call();
        done(&["call", "append_line", "--args", NOTE, "--ask", "inbox", "--session", "b"], 4);
        let question = world.question();
        done(&["inbox", "answer", &question, "standing-approval", "--pattern", "write:/nowhere/**"], 0);
        let leave = world.json(&["policy", "approvals", "--json"])[0]["standing_approval"]
            .as_str()
            .unwrap()
            .to_owned();
        done(&["call", "append_line", "--args", NOTE, "--ask", "inbox", "--session", "c"], 4);
        let ids =
            vec![("QUESTION", world.question()), ("CALL", world.call()), ("LEAVE", leave), ("WROTE", wrote)];
        Self { world, copies: tempfile::tempdir().unwrap(), ids }
    }

    /// Returns the arguments of a row with the ids inserted. `answer` takes its question before the answer.
    fn words(&self, row: &(&str, &[&str], &[i32])) -> Vec<String> {
        let id = |word: &&str| {
            let found = self.ids.iter().find(|(name, _)| name == word);
            found.map_or_else(|| (*word).to_owned(), |(_, id)| id.clone())
        };
        let args: Vec<String> = row.1.iter().map(id).collect();
        match row.0.strip_prefix("inbox answer ") {
            Some(answer) => {
                let mut words = vec!["inbox".into(), "answer".into(), args[0].clone(), answer.into()];
                words.extend_from_slice(&args[1..]);
                words
            }
            None => row.0.split(' ').map(str::to_owned).chain(args).collect(),
        }
    }

    /// Starts the program with these arguments, on a copy of the state. A shell script says where it starts from.
    fn start(&self, number: usize, script: &str, words: &[String]) -> Command {
        let state = self.copies.path().join(number.to_string());
        let copied = Command::new("cp").arg("-a").args([self.world.state(), state.clone()]).status().unwrap();
        assert!(copied.success());
        let mut command = self.world.command(Path::new("timeout"));
        command
            .args([PATIENCE_S, "bash", "-c", script, "bash", env!("CARGO_BIN_EXE_byleave")])
            .args(words)
            .env("BYLEAVE_STATE", state)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

fn run(mut command: Command) -> Output {
    // The other end of standard input stays open until the program has ended.
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    output
}

/// Lists every command of the program by its name.
fn commands(world: &CliTestWorld) -> BTreeSet<String> {
    let pages = world.json(&["man", "--json"]);
    let words = |page: &Value| {
        let words = page["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        words.collect::<Vec<_>>().join(" ")
    };
    pages.as_array().unwrap().iter().map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn every_command_has_a_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|(words, ..)| (*words).to_owned()).collect();
    assert_eq!(rows, commands(&CliTestWorld::new()), "a command without a row, or a row without a command");
}

/// Makes one test for each part of the rows. So many starts take long, and tests run in parallel.
macro_rules! in_parts {
    ($check:ident, $parts:literal: $($name:ident = $part:literal,)*) => {
        $(
            // req: R7
            #[test]
            fn $name() {
                $check(part_of_rows($part, $parts));
            }
        )*

        // Checks that no part is missing.
        const _: () = {
            let (parts, mut at): ([usize; $parts], usize) = ([$($part),*], 0);
            while at < parts.len() {
                assert!(parts[at] == at);
                at += 1;
            }
        };
    };
}

type NumberedCommand = (usize, &'static (&'static str, &'static [&'static str], &'static [i32]));

fn part_of_rows(part: usize, parts: usize) -> impl Iterator<Item = NumberedCommand> {
    ROWS.iter().enumerate().filter(move |(number, _)| number % parts == part)
}

in_parts! {
    ends_wherever_it_is_started_from, 8:
    every_command_ends_wherever_it_is_started_from_0 = 0,
    every_command_ends_wherever_it_is_started_from_1 = 1,
    every_command_ends_wherever_it_is_started_from_2 = 2,
    every_command_ends_wherever_it_is_started_from_3 = 3,
    every_command_ends_wherever_it_is_started_from_4 = 4,
    every_command_ends_wherever_it_is_started_from_5 = 5,
    every_command_ends_wherever_it_is_started_from_6 = 6,
    every_command_ends_wherever_it_is_started_from_7 = 7,
}

/// Returns the places at which a row is tried: all with `BYLEAVE_PROOF=long`, otherwise the first and one other.
fn places_of(row: usize) -> impl Iterator<Item = (usize, &'static (&'static str, &'static str))> {
    let is_long = std::env::var("BYLEAVE_PROOF").is_ok_and(|form| form == "long");
    let other = 1 + row % (PLACES.len() - 1);
    PLACES.iter().enumerate().filter(move |(at, _)| is_long || *at == 0 || *at == other)
}

fn ends_wherever_it_is_started_from(rows: impl Iterator<Item = NumberedCommand>) {
    let shelf = CommandFixture::new();
    let mut wrong = Vec::new();
    for (number, row) in rows {
        let start =
            |at: usize, script: &str| run(shelf.start(number * PLACES.len() + at, script, &shelf.words(row)));
        let places = places_of(number);
        let told: Vec<Output> = if row.0 == WAITS {
            std::thread::scope(|scope| {
                let running: Vec<_> =
                    places.map(|(at, (_, script))| scope.spawn(move || start(at, script))).collect();
                running.into_iter().map(|one| one.join().unwrap()).collect()
            })
        } else {
            places.map(|(at, (_, script))| start(at, script)).collect()
        };
        let mut prints = false;
        for ((_, (place, _)), told) in places_of(number).zip(told) {
            let code = told.status.code().unwrap();
            prints |= !told.stdout.is_empty();
            if place.contains("output closed") && prints && !is_theirs(row.0) {
                // With standard output closed, a command that prints must fail with exit code 2.
                assert_eq!(code, 2, "{}, {place}", row.0);
                continue;
            }
            if !row.2.contains(&code) || !DOCUMENTED.contains(&code) {
                wrong.push(format!("{}, {place}: {code}: {}", row.0, String::from_utf8_lossy(&told.stderr)));
            }
            if row.0 == "call" && !place.contains("all three") {
                let said = String::from_utf8_lossy(&told.stderr).into_owned();
                assert!(said.contains("--ask inbox") && said.contains("(no-approver)"), "{place}: {said}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

in_parts! {
    prints_json_and_nothing_else, 4:
    with_json_standard_output_is_json_and_nothing_else_0 = 0,
    with_json_standard_output_is_json_and_nothing_else_1 = 1,
    with_json_standard_output_is_json_and_nothing_else_2 = 2,
    with_json_standard_output_is_json_and_nothing_else_3 = 3,
}

fn prints_json_and_nothing_else(rows: impl Iterator<Item = NumberedCommand>) {
    let shelf = CommandFixture::new();
    let mut wrong = Vec::new();
    let check = |what: String, told: &Output, wrong: &mut Vec<String>| -> Value {
        serde_json::from_slice(&told.stdout).unwrap_or_else(|error| {
            let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
            wrong.push(format!("{what}: {error}: {out}\n{err}"));
            Value::Null
        })
    };
    for (number, row) in rows {
        let mut words = shelf.words(row);
        words.insert(0, "--json".into());
        let told = run(shelf.start(3 * number, r#"exec "$@" </dev/null"#, &words));
        let code = told.status.code().unwrap();
        if !row.2.contains(&code) {
            wrong.push(format!("{}: {code}", row.0));
        }
        // A program that the command runs has standard output to itself.
        if !is_theirs(row.0) || code != 0 {
            let value = check(row.0.to_owned(), &told, &mut wrong);
            if code == 2 {
                wrong.extend(unhelpful(row.0, &value));
            }
        }

        // With an unknown option.
        let mut words: Vec<String> = row.0.split(' ').map(str::to_owned).collect();
        words.extend(["--json".into(), "--nonesuch".into()]);
        let told = run(shelf.start(3 * number + 1, r#"exec "$@" </dev/null"#, &words));
        assert_eq!(told.status.code(), Some(2), "{}", row.0);
        let value = check(format!("{} --nonesuch", row.0), &told, &mut wrong);
        assert!(
            value["error"]["message"].as_str().is_some_and(|what| what.contains("--nonesuch")),
            "{value}"
        );

        // With an empty state directory.
        let mut words = shelf.words(row);
        let empty: PathBuf = shelf.copies.path().join(format!("empty{number}"));
        let state = ["--state".to_owned(), empty.to_str().unwrap().to_owned(), "--json".to_owned()];
        words.splice(0..0, state);
        let told = run(shelf.start(3 * number + 2, r#"exec "$@" </dev/null"#, &words));
        let code = told.status.code().unwrap();
        assert!(DOCUMENTED.contains(&code), "{}: {code}", row.0);
        if !is_theirs(row.0) || code != 0 {
            let value = check(format!("{} without a book", row.0), &told, &mut wrong);
            if code == 2 {
                wrong.extend(unhelpful(row.0, &value));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_batch_prints_one_json_value_a_line() {
    let told = CliTestWorld::new().quietly(&["explain", "--batch", "--json"], "{\"id\":1}\nnonsense\n");
    let lines = String::from_utf8(told.stdout).unwrap();
    assert!(
        lines.lines().count() == 2 && lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
}

/// Returns which part of an error is missing: its code, or the advice.
fn unhelpful(command: &str, value: &Value) -> Option<String> {
    let error = &value["error"];
    let what = error["message"].as_str().unwrap_or_default();
    let says = error["hint"].is_string() || what.contains("--help") || what.contains("Usage:");
    (error["exit"] != 2 || what.is_empty() || !says).then(|| format!("{command}: does not help: {value}"))
}

in_parts! {
    says_what_cannot_be_written, 3:
    what_cannot_be_written_is_said_0 = 0,
    what_cannot_be_written_is_said_1 = 1,
    what_cannot_be_written_is_said_2 = 2,
}

fn says_what_cannot_be_written(rows: impl Iterator<Item = NumberedCommand>) {
    let shelf = CommandFixture::new();
    for (number, row) in rows {
        let words = shelf.words(row);
        let heard = run(shelf.start(2 * number, r#"exec "$@" </dev/null"#, &words));
        if heard.stdout.is_empty() || is_theirs(row.0) {
            continue;
        }
        let told = run(shelf.start(2 * number + 1, r#"exec "$@" </dev/null >/dev/full"#, &words));
        let said = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(2), "{}: {said}", row.0);
        assert_eq!(said.matches("cannot write the results: No space left").count(), 1, "{}: {said}", row.0);
    }
}

#[test]
fn help_and_version_that_cannot_be_written_are_said() {
    let shelf = CommandFixture::new();
    for words in [&["--version"][..], &["--help"], &["call", "--help"]] {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let told =
            run(shelf.start(9_000 + words.len() * 10 + words[0].len(), r#"exec "$@" >/dev/full"#, &words));
        assert_eq!(told.status.code(), Some(2), "{words:?}");
    }
}

/// Options, variables, and whether the output then has colors.
type ColorCase = (&'static [&'static str], &'static [(&'static str, &'static str)], bool);

#[test]
fn colour_is_used_where_it_was_asked_for_and_nowhere_else() {
    let world = CliTestWorld::new();
    let cases: &[ColorCase] = &[
        (&["--color", "always"], &[], true),
        (&["--color", "always"], &[("NO_COLOR", "1"), ("TERM", "dumb")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "0")], false),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[], &[("BYLEAVE_COLOR", "always")], true),
        (&["--color", "never"], &[("BYLEAVE_COLOR", "always")], false),
    ];
    for (options, variables, wanted) in cases {
        for words in [&["tools"][..], &["config"], &["policy"], &["log"], &["doctor"]] {
            let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
            let told = command.args(words).args(*options).envs(variables.iter().copied()).output().unwrap();
            let coloured = [&told.stdout, &told.stderr].iter().any(|text| text.contains(&0x1b));
            assert_eq!(coloured, *wanted, "{words:?} {options:?} {variables:?}");
        }
    }
}

//! Disguises: a disguised command has a verdict at least as strict as the plain one (P3, P4). Disguises are
//! wrappers, quoting, and harmless commands next to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use byleave_gate::core::decision::Verdict;
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::{Layer, Policy, Rule, builtin_rules};
use byleave_gate::policy_case::manifest_for;
use byleave_shell::parse_commands;
use byleave_shell::word::Word;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use super::everyday;
use super::examine::{judge, planned, shared_policy_of};
use super::fixture::Fixture;
use byleave_testkit::corpus::{Case, EverydayCommand, PLACES, lines};

/// Wrappers for any command: `@` is the command, `'@'` the command as one quoted word.
const AROUND: &[&str] = &[
    "( @\n)",
    "{ @\n}",
    "if true; then @\nfi",
    "if false; then :; else @\nfi",
    "if @\nthen :; fi",
    "while true; do @\nbreak; done",
    "until @\ndo break; done",
    "for zz in 1; do @\ndone",
    "for ((zz = 0; zz < 1; zz++)); do @\ndone",
    "case x in x) @\n;; esac",
    "case x in y) : ;; *) @\n;; esac",
    "echo $( @\n)",
    "echo \"$( @\n)\"",
    ": ${zz:-$( @\n)}",
    "zz=$( @\n)",
    "zz=($( @\n))",
    "cat <( @\n)",
    "echo x > >( @\n)",
    "cat <<< \"$( @\n)\"",
    "cat <<ZZ\n$( @\n)\nZZ",
    "echo $(( $( @\n) ))",
    "[[ -n $( @\n) ]]",
    "{ @\n} &",
    "{ @\n} & wait",
    "! { @\n}",
    "{ @\n} | cat",
    "true | { @\n}",
    "{ @\n} |& cat",
    "time { @\n}",
    "coproc { @\n}",
    "zz() { @\n}; zz",
    "function zz { @\n}; zz",
    "zz() ( @\n)\nzz",
    "trap '@' EXIT",
    "eval '@'",
    "sh -c '@'",
    "bash -c '@'",
    "bash -ec '@' zz",
    "bash <<< '@'",
    "bash <<'ZZ'\n@\nZZ",
    "env sh -c '@'",
    "env -i zz=1 bash -c '@'",
    "timeout 5 bash -c '@'",
    "nice -n 5 bash -c '@'",
    "nohup setsid bash -c '@'",
    "exec bash -c '@'",
    "command bash -c '@'",
    "xargs bash -c '@'",
    "find . -exec bash -c '@' ';'",
    "stdbuf -o0 bash -c '@'",
    "busybox sh -c '@'",
    "sudo bash -c '@'",
    "true && { @\n}",
    "false || { @\n}",
    "true; @",
    "true\n@",
    "@\necho done",
    "{ @\n}; echo done",
    "{ @\n} && echo done",
    "@\n# nothing else",
    "# nothing yet\n@",
    "echo one | cat; @",
    "zz=1; @",
    "\n\n@\n",
    "{ @\n} > /dev/null",
    "{ @\n} 2>&1",
];

/// Prefixes for a simple command.
const BEFORE: &[&str] = &[
    "env",
    "env -u zz",
    "env zz=1",
    "timeout 5",
    "timeout -k 1 5",
    "nice",
    "nice -n 5",
    "nohup",
    "command",
    "exec",
    "setsid",
    "stdbuf -o0",
    "time",
    "time -p",
    "!",
    "! !",
    "ionice -c 3",
    "env timeout 5 nice",
    "true;",
    "true &&",
    "false ||",
    "true |",
    "true &",
    "2>&1",
    "</dev/null",
    ">/dev/null",
];

const BEHIND: &[&str] =
    &["", "&", "; echo done", "&& echo done", "| cat", "# done", "2>&1", ">/dev/null", ";", "\n"];

/// The quoting of a part of a word.
#[derive(Clone, Copy, Debug)]
enum Quotes {
    Single,
    Double,
    Ansi,
    Hex,
    Backslash,
    Plain,
}

fn written(text: &str, quotes: Quotes) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match quotes {
        Quotes::Single => format!("'{}'", text.replace('\'', "'\\''")),
        Quotes::Double => {
            let escaped = |c: char| if "\"\\$`".contains(c) { format!("\\{c}") } else { c.to_string() };
            format!("\"{}\"", text.chars().map(escaped).collect::<String>())
        }
        Quotes::Ansi => {
            let escaped = |c: char| match c {
                '\'' | '\\' => format!("\\{c}"),
                '\n' => "\\n".to_owned(),
                c => c.to_string(),
            };
            format!("$'{}'", text.chars().map(escaped).collect::<String>())
        }
        Quotes::Hex => {
            let escaped = |byte: &u8| format!("\\x{byte:02x}");
            format!("$'{}'", text.as_bytes().iter().map(escaped).collect::<String>())
        }
        Quotes::Backslash | Quotes::Plain => text
            .chars()
            .map(|c| match c {
                '\n' => "'\n'".to_owned(),
                c if plain(c) && matches!(quotes, Quotes::Plain) => c.to_string(),
                c => format!("\\{c}"),
            })
            .collect(),
    }
}

/// Writes a word again: split into parts of this length, each with the next kind of quotes.
fn requoted(word: &str, stretch: usize, turns: &[Quotes]) -> String {
    if word.is_empty() {
        return "''".to_owned();
    }
    let chars: Vec<char> = word.chars().collect();
    let stretches = chars.chunks(stretch).map(|stretch| stretch.iter().collect::<String>());
    // An unquoted tilde is a directory, and unquoted braces are expanded.
    stretches.zip(turns.iter().cycle()).map(|(text, quotes)| written(&text, *quotes)).collect()
}

/// A way to disguise a command.
#[derive(Clone, Debug)]
enum Disguise {
    Around(&'static str),
    Before(&'static str),
    Behind(&'static str),
    Requoted(usize, Vec<Quotes>),
}

impl Disguise {
    /// The disguised command. `None` if that would make it another command.
    fn of(&self, command: &str, fixture: &Fixture) -> Option<String> {
        match self {
            Self::Around(around) if around.contains("'@'") => {
                Some(around.replace("'@'", &written(command, Quotes::Single)))
            }
            // Within a here-document, a continued line is joined with the next, even in a comment.
            Self::Around(around) if around.contains("<<ZZ") && command.contains("\\\n") => None,
            Self::Around(around) => Some(around.replace('@', command)),
            Self::Before(before) => {
                words(command, fixture)?;
                Some(format!("{before} {command}"))
            }
            Self::Behind(behind) => {
                words(command, fixture)?;
                Some(format!("{command} {behind}"))
            }
            Self::Requoted(stretch, turns) => {
                let words = words(command, fixture)?;
                let words: Vec<String> = words.iter().map(|word| requoted(word, *stretch, turns)).collect();
                Some(words.join(" "))
            }
        }
    }
}

/// The words of a text that is one simple command of a program, if all are known.
fn words(text: &str, fixture: &Fixture) -> Option<Vec<String>> {
    const OWN: &[&str] = &[
        ".",
        ":",
        "[",
        "alias",
        "bind",
        "builtin",
        "cd",
        "command",
        "declare",
        "enable",
        "eval",
        "exec",
        "exit",
        "export",
        "hash",
        "let",
        "local",
        "mapfile",
        "popd",
        "printf",
        "pushd",
        "read",
        "readarray",
        "readonly",
        "return",
        "set",
        "shift",
        "shopt",
        "source",
        "test",
        "trap",
        "type",
        "typeset",
        "ulimit",
        "umask",
        "unalias",
        "unset",
        "wait",
    ];
    let reading = parse_commands(text, fixture);
    let [command] = reading.commands.as_slice() else { return None };
    let plain = reading.unresolved.is_empty()
        && command.assignments.is_empty()
        && command.redirections.is_empty()
        && command.input.is_none()
        && command.enclosing.is_empty()
        && !command.is_function
        && !text.contains(['#', '\n', '&', ';', '|', '\0']);
    let words: Vec<String> =
        command.words.iter().map(|word| word.as_text().map(str::to_owned)).collect::<Option<_>>()?;
    (plain && words.first().is_some_and(|name| !OWN.contains(&name.as_str()))).then_some(words)
}

fn disguise() -> impl Strategy<Value = Disguise> {
    let quotes = select(vec![
        Quotes::Single,
        Quotes::Double,
        Quotes::Ansi,
        Quotes::Hex,
        Quotes::Backslash,
        Quotes::Plain,
    ]);
    prop_oneof![
        4 => select(AROUND).prop_map(Disguise::Around),
        2 => select(BEFORE).prop_map(Disguise::Before),
        1 => select(BEHIND).prop_map(Disguise::Behind),
        3 => (1..8_usize, prop::collection::vec(quotes, 1..4)).prop_map(|(n, turns)| Disguise::Requoted(n, turns)),
    ]
}

/// A command to disguise, with its policy and its fixture.
struct CommandUnderTest {
    command: String,
    policy: Arc<Policy>,
    fixture: Fixture,
    verdict: Verdict,
}

impl CommandUnderTest {
    fn new(command: String, policy: Arc<Policy>, fixture: Fixture) -> Self {
        let mut subject = Self { command, policy, fixture, verdict: Verdict::Allow };
        subject.verdict = subject.verdict_on(&subject.command);
        subject
    }

    fn verdict_on(&self, command: &str) -> Verdict {
        let manifest = manifest_for("bash");
        let plan = planned(&manifest, &json!({"command": command}), &self.fixture).unwrap();
        judge(&self.policy, &manifest, &plan, "a")
    }

    /// Tests whether the command can be wrapped. A text that does not parse may end anywhere.
    fn is_whole(&self) -> bool {
        let reading = parse_commands(&self.command, &self.fixture);
        let broken = |why: &str| why.contains("parsed") || why.contains("longer than") || why.contains("NUL");
        !reading.unresolved.iter().any(|riddle| broken(&riddle.reason))
    }

    /// Applies the disguises, nested. Returns the text with a less strict verdict, if there is one.
    fn loosened(&self, disguises: &[Disguise]) -> Option<String> {
        let mut text = self.command.clone();
        for disguise in disguises {
            let Some(disguised) = disguise.of(&text, &self.fixture) else { continue };
            text = disguised;
        }
        let verdict = self.verdict_on(&text);
        (verdict < self.verdict)
            .then(|| format!("{:?} is {:?}, but {text:?} is {verdict:?}", self.command, self.verdict))
    }
}

fn of_case(case: &Case) -> Option<CommandUnderTest> {
    let command = case.input.get("command")?.as_str()?.to_owned();
    Some(CommandUnderTest::new(command, shared_policy_of(case).ok()?, Fixture::of(case)))
}

fn is_long() -> bool {
    std::env::var("BYLEAVE_PROOF").is_ok_and(|size| size == "long")
}

fn runner(cases: u32) -> TestRunner {
    let cases = if is_long() { cases * 100 } else { cases };
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

// req: P3, P4
#[test]
fn no_disguise_of_a_hostile_command_loosens_its_verdict() {
    let cases: Vec<Case> =
        lines::<Case>("bypasses.jsonl").into_iter().filter(|case| case.tool == "bash").collect();
    let subjects: RefCell<BTreeMap<usize, Option<CommandUnderTest>>> = RefCell::default();
    let input = (any::<Index>(), prop::collection::vec(disguise(), 1..4));
    let ended = runner(300).run(&input, |(index, disguises)| {
        let at = index.index(cases.len());
        let mut subjects = subjects.borrow_mut();
        let subject =
            subjects.entry(at).or_insert_with(|| of_case(&cases[at]).filter(CommandUnderTest::is_whole));
        match subject.as_ref().and_then(|subject| subject.loosened(&disguises)) {
            Some(loosened) => Err(TestCaseError::fail(format!("{}: {loosened}", cases[at].id))),
            None => Ok(()),
        }
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
}

/// The rules for ordinary work, with a few denies of every kind.
fn strict() -> Policy {
    let mut rules = builtin_rules(&PLACES).unwrap();
    rules.extend(everyday_rules());
    Policy::new(rules).unwrap()
}

fn everyday_rules() -> Vec<Rule> {
    let run = |words: &str| Pattern::Run(words.split(' ').map(str::to_owned).collect());
    let mut rules: Vec<Rule> = everyday().rules().filter(|rule| rule.layer == Layer::User).cloned().collect();
    let denied =
        ["rm", "git push", "git commit --amend", "npm publish", "curl", "chmod", "python3 -c"].map(run);
    let denied = denied.into_iter().chain([
        Pattern::Read("/ws/private/**".into()),
        Pattern::Write("/ws/locked/**".into()),
        Pattern::Delete("/ws/locked/**".into()),
        Pattern::Reach("evil.example".into()),
    ]);
    rules.push(Rule::new("denied", Layer::User, Verdict::Deny, denied.collect()));
    rules
}

fn generated() -> impl Strategy<Value = String> {
    let programs = vec![
        "rm",
        "rm -rf",
        "cat",
        "cp -r",
        "mv",
        "git push origin",
        "git -C . push",
        "git commit --amend -m",
        "git log",
        "npm publish",
        "curl -s",
        "wget -q",
        "chmod 777",
        "chmod -R a+w",
        "python3 -c",
        "ls -la",
        "grep -r x",
        "tee",
        "touch",
        "find . -name",
        "sed -i s/a/b/",
        "tar czf",
        "dd if=a of=b",
        "ln -s",
        "install",
        "rsync -a",
        "ssh u@h",
        "unknown-program",
        "node -e",
        "awk",
        "head -c 5",
        "truncate -s 0",
        "make",
        "docker run",
        "sort -o",
    ];
    let operands = vec![
        "a.txt",
        ".env",
        "~/.ssh/id_rsa",
        "/etc/passwd",
        "private/key",
        "locked/file",
        "./locked/../locked/x",
        "/",
        "http://evil.example/x",
        "https://github.com/a/b",
        "-f",
        "--force",
        "--",
        "*.txt",
        "/home/u/.bashrc",
        ".git/config",
        ".git/hooks/pre-commit",
        "'sp ace'",
        "{a,b}",
        "/dev/sda",
        "-",
        "x=1",
        "/ws/private/../private/k",
    ];
    let operands = prop::collection::vec(select(operands), 0..4);
    (select(programs), operands).prop_map(|(program, operands)| {
        std::iter::once(program).chain(operands).collect::<Vec<_>>().join(" ")
    })
}

// req: P3, P4
#[test]
fn no_disguise_of_an_everyday_or_made_up_command_loosens_its_verdict() {
    let everyday: Vec<String> =
        lines::<EverydayCommand>("benign.jsonl").into_iter().map(|everyday| everyday.command).collect();
    let fixture = Fixture::new();
    for file in ["a.txt", ".env", "private/key", "locked/file", "b.txt"] {
        fixture.write(&format!("/ws/{file}"), "");
    }
    let subject = RefCell::new(CommandUnderTest::new("true".into(), Arc::new(strict()), fixture));
    let command = prop_oneof![1 => select(everyday), 4 => generated()];
    let input = (command, prop::collection::vec(disguise(), 1..4));
    let ended = runner(750).run(&input, |(command, disguises)| {
        let mut subject = subject.borrow_mut();
        subject.verdict = subject.verdict_on(&command);
        subject.command = command;
        match subject.loosened(&disguises) {
            Some(loosened) if subject.is_whole() => Err(TestCaseError::fail(loosened)),
            _ => Ok(()),
        }
    });
    ended.unwrap_or_else(|error| panic!("{error}"));
}

/// The requoted text parses to the original words. Otherwise requoting would show nothing.
#[test]
fn what_is_requoted_means_the_same() {
    let fixture = Fixture::new();
    let all = [Quotes::Single, Quotes::Double, Quotes::Ansi, Quotes::Hex, Quotes::Backslash, Quotes::Plain];
    for word in
        ["a", "it's", "$HOME", "a\\b", "`x`", "~/x", "{a,b}", "*.txt", "a b", "é\n!", "", "\"", "-n", "#x"]
    {
        for stretch in 1..4 {
            for (at, first) in all.iter().enumerate() {
                let text = format!("p {}", requoted(word, stretch, &[*first, all[(at + 1) % all.len()]]));
                let reading = parse_commands(&text, &fixture);
                let words: Vec<Option<&str>> = reading.commands[0].words.iter().map(Word::as_text).collect();
                assert_eq!(words, [Some("p"), Some(word)], "{text}");
            }
        }
    }
}

// req: P3, P4
#[test]
fn no_single_disguise_of_a_hostile_command_loosens_its_verdict_1() {
    check_single_disguises(0);
}

// req: P3, P4
#[test]
fn no_single_disguise_of_a_hostile_command_loosens_its_verdict_2() {
    check_single_disguises(1);
}

// req: P3, P4
#[test]
fn no_single_disguise_of_a_hostile_command_loosens_its_verdict_3() {
    check_single_disguises(2);
}

/// Tries every disguise on every third hostile command.
fn check_single_disguises(part: usize) {
    let quotes = [Quotes::Single, Quotes::Double, Quotes::Ansi, Quotes::Hex, Quotes::Backslash];
    let around = AROUND.iter().copied().map(Disguise::Around);
    let beside =
        BEFORE.iter().copied().map(Disguise::Before).chain(BEHIND.iter().copied().map(Disguise::Behind));
    let requoted = quotes.into_iter().map(|quotes| Disguise::Requoted(2, vec![quotes, Quotes::Plain]));
    let disguises: Vec<Disguise> = around.chain(beside).chain(requoted).collect();
    // The short form tries one disguise in eight, different ones for each case, so that all are used.
    let stride = if is_long() { 1 } else { 8 };
    let mut loosened = Vec::new();
    let cases = lines::<Case>("bypasses.jsonl");
    let hostile = cases.iter().filter(|case| case.tool == "bash");
    for (number, case) in hostile.enumerate().skip(part).step_by(3) {
        let Some(subject) = of_case(case).filter(CommandUnderTest::is_whole) else { continue };
        for disguise in disguises.iter().skip(number % stride).step_by(stride) {
            let found = subject.loosened(std::slice::from_ref(disguise));
            loosened.extend(found.map(|found| format!("{}: {found}", case.id)));
        }
    }
    assert!(loosened.is_empty(), "{}", loosened.join("\n"));
}

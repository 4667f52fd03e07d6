//! docs/guide/transcripts.md: what a person and a model see, recorded from the program.
//!
//! `BYLEAVE_GUIDE=write cargo nextest run --workspace -E 'test(transcripts::)'` writes the page. Otherwise it must match the file.

use regex::Regex;
use serde_json::{Value, json};

use super::{DoorFixture, args, bash, text};
use crate::guide::{docs, put};
use crate::provider::{FakeModel, ScriptedTurn};

const APPLY: &str = "kubectl apply -f app.yaml";
const HEAD: &str = "# Transcripts

What a person and a model see when Byleave refuses, asks or changes something. A test runs every command of this page and compares what \
it prints; the model is scripted. `kubectl` is a stand-in that writes down its arguments.
";

/// A page that is recorded while its commands run.
struct Transcript {
    page: String,
    doors: DoorFixture,
}

impl Transcript {
    /// Begins a section with an account of its own.
    fn section(page: &str, title: &str, words: &str, settings: &str, rules: &str) -> Self {
        let mut page = format!("{page}\n## {title}\n\n{words}\n");
        for (name, text) in [("config.toml", settings), ("policy.toml", rules)] {
            if !text.is_empty() {
                page += &format!("\n`~/.config/byleave/{name}`:\n```toml\n{}\n```\n", text.trim());
            }
        }
        Self { page, doors: DoorFixture::new(settings, rules) }
    }

    /// Runs the program as a person would type it, and records what it prints.
    fn person(&mut self, words: &[&str]) {
        let done = self.doors.run(words);
        let printed = text(&done.stdout) + &text(&done.stderr);
        let code = done.status.code().unwrap();
        let end = if code == 0 { String::new() } else { format!("\n[exit code {code}]") };
        self.record("console", &format!("$ byleave {}\n{}{end}", typed(words), printed.trim_end()));
    }

    /// Answers the open question, and records what the answer prints.
    fn answer(&mut self, words: &[&str]) {
        let question = self.doors.stand.question();
        self.person(&[&["inbox", "answer", &question], words].concat());
    }

    /// Shows the open question.
    fn question(&mut self) {
        let question = self.doors.stand.question();
        self.person(&["inbox", "show", &question]);
    }

    /// Lets a scripted model work. Records what the person sees, and the result of each call as the model receives it.
    fn model(&mut self, says: Vec<ScriptedTurn>, words: &[&str]) {
        let model = FakeModel::new(says);
        let done = self.doors.run_with(&model, words);
        let printed = text(&done.stdout) + &text(&done.stderr);
        self.record("console", &format!("$ byleave agent run {}\n{}", typed(words), printed.trim_end()));
        let got = model.got();
        let messages = got.last().unwrap()["messages"].as_array().unwrap();
        for told in messages.iter().filter(|message| message["role"] == "tool") {
            self.told(told["content"].as_str().unwrap());
        }
    }

    /// Records what a model receives.
    fn told(&mut self, words: &str) {
        self.page += "\nThe model receives:\n";
        self.record("text", words);
    }

    fn record(&mut self, language: &str, words: &str) {
        let words = settled(words, &self.doors);
        self.page += &format!("\n```{language}\n{}\n```\n", words.trim_end());
    }

    /// Records words between two transcripts.
    fn say(&mut self, words: &str) {
        self.page += &format!("\n{words}\n");
    }
}

/// Returns the words as somebody types them in a shell.
fn typed(words: &[&str]) -> String {
    let plain = Regex::new(r"^[\w./:=-]+$").unwrap();
    let quoted =
        words.iter().map(|word| if plain.is_match(word) { (*word).to_owned() } else { format!("'{word}'") });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Replaces what differs between runs: paths, ids, times and digests.
fn settled(words: &str, doors: &DoorFixture) -> String {
    let workspace = super::workspace(doors);
    let home = doors.home();
    let mut words = words.replace('\r', "");
    for (path, name) in [(workspace, "/home/ann/work"), (home, "/home/ann")] {
        words = words.replace(path.to_str().unwrap(), name);
    }
    let ids = Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b").unwrap();
    let words = doors.stand.desk.world.named(&ids.replace_all(&words, "[id]"));
    let filters = [
        (r"\[dir\]", "/home/ann"),
        (r"\[…\d+\]", "[id]"),
        (r"(answer|show|undo|diff|question) [0-9a-f]{8}\b", "$1 [id]"),
        (r"(→|←) \[[0-9a-f]{8}\]", "$1 [id]"),
        (r"\b\d+(\.\d+)? (ms|s)\b", "[n] $2"),
        (r"[ \t]+\n", "\n"),
    ];
    filters.iter().fold(words, |words, (pattern, name)| {
        Regex::new(pattern).unwrap().replace_all(&words, *name).into_owned()
    })
}

/// Returns the calls of a model that says something before its one call, and something after it.
fn one_call(
    before: &'static str,
    tool: &'static str,
    arguments: Value,
    after: &'static str,
) -> Vec<ScriptedTurn> {
    vec![(before, Some((tool, arguments))), (after, None)]
}

fn boundary(page: &str) -> String {
    let words = "`yolo` does not ask, and it does not leave the workspace either. Here `door` is a link to a directory beside it.";
    let mut seen = Transcript::section(page, "The workspace boundary", words, "mode = \"yolo\"\n", "");
    seen.doors.outside();
    seen.doors.accept_server();
    seen.person(&["call", "read_file", "--args", r#"{"path":"door/f.txt"}"#]);
    seen.say("The same for an argument of an MCP tool, whatever it is called:");
    seen.person(&["call", "mcp_notes_read", "--args", r#"{"target":"../outside/f.txt"}"#]);
    let path = json!({"path": "../outside/f.txt"});
    seen.model(one_call("I look.", "read_file", path, "I cannot read that file."), &["Read the file."]);
    seen.page
}

fn checkpoint(page: &str) -> String {
    let rules = "[[rule]]\nid = \"production\"\nverdict = \"ask\"\nrun = \"kubectl apply\"\ncheckpoint = true\n\
                 reason = \"this changes production\"\n";
    let words = "A rule with `checkpoint = true` holds in every mode. Only a person releases the call.";
    let mut seen = Transcript::section(page, "Checkpoints", words, "mode = \"yolo\"\n", rules);
    let deploy = one_call("I deploy.", "bash", bash(APPLY), "It is deployed.");
    seen.model(deploy, &["--ask", "inbox", "Deploy."]);
    seen.question();
    seen.say("A script does not release it:");
    seen.answer(&["yes", "--confirm", "release"]);
    assert!(!seen.doors.deployed());
    seen.say("The same command at a terminal does:");
    seen.doors.release();
    assert!(seen.doors.deployed());
    seen.person(&["log", "--tool", "bash"]);
    seen.page
}

fn mcp_tools(page: &str) -> String {
    let words =
        "A server that a person has accepted is there for `call`, `tools`, `agent run` and `agent chat`.";
    let mut seen = Transcript::section(page, "MCP tools", words, "mode = \"yolo\"\n", "");
    seen.doors.accept_server();
    seen.person(&["mcp", "list"]);
    seen.person(&["call", "mcp_notes_deploy", "--args", r#"{"version":"v1"}"#]);
    let version = json!({"version": "v2"});
    seen.model(one_call("I deploy.", "mcp_notes_deploy", version, "It is deployed."), &["Deploy v2."]);
    seen.page
}

fn challenge(page: &str) -> String {
    let rules = "[[rule]]\nverdict = \"ask\"\nwrite = \"plan.txt\"\nchallenge = true\n";
    let words = "A rule with `challenge = true` needs the case against the call before it runs.";
    let mut seen = Transcript::section(page, "The case against a call", words, "mode = \"yolo\"\n", rules);
    let write = args(&json!({"path": "plan.txt", "content": "new"}));
    seen.person(&["call", "write_file", "--ask", "inbox", "--args", &write]);
    seen.question();
    seen.answer(&["yes"]);
    let case = [
        "yes",
        "--assumption",
        "nobody edits it",
        "--failure",
        "it is overwritten",
        "--because",
        "it is a draft",
    ];
    seen.answer(&case);
    assert!(seen.doors.stand.file("plan.txt").exists());
    seen.page
}

fn reviewers(page: &str) -> String {
    let settings = "mode = \"yolo\"\n\n[[reviewer]]\nname = \"no-sql-tricks\"\nkind = \"strip\"\ntools = [\"mcp_notes_query\"]\n\
                    argument = \"sql\"\nremove = [\";\", \"--\"]\n\n[[reviewer]]\nname = \"no-tokens\"\nkind = \"drop_fields\"\n\
                    tools = [\"mcp_notes_*\"]\nfields = [\"password\", \"token\"]\n";
    let words = "Reviewers of the settings see the arguments of a call and its result.";
    let mut seen = Transcript::section(page, "Reviewers", words, settings, "");
    seen.doors.accept_server();
    seen.person(&["call", "mcp_notes_query", "--args", r#"{"sql":"select 1; drop table t--"}"#]);
    let account = one_call("I look.", "mcp_notes_account", json!({}), "The account is of ann.");
    seen.model(account, &["Whose account is it?"]);
    seen.page
}

fn commands(page: &str) -> String {
    let rules = "[[rule]]\nverdict = \"deny\"\nrun = \"*\"\nexcept = [\"git status\", \"ls\"]\nreason = \"only what is on the list\"\n";
    let words = "A command allow-list, and a time limit.";
    let mut seen = Transcript::section(page, "Commands", words, "mode = \"yolo\"\n", rules);
    seen.person(&["call", "bash", "--args", &args(&bash("ls"))]);
    seen.model(one_call("I look.", "bash", bash("whoami"), "I may not."), &["Who am I?"]);
    seen.doors.put("../.config/byleave/policy.toml", "");
    seen.say("Without the rule, with a time limit:");
    seen.person(&["call", "bash", "--timeout-ms", "400", "--args", &args(&bash("sleep 30"))]);
    seen.page
}

fn agent_loop(page: &str) -> String {
    let words = "A dry run tells what every call would do, and does nothing. The words of the model before a call are in the question.";
    let mut seen = Transcript::section(page, "The agent loop", words, "", "");
    let write = || json!({"path": "new.txt", "content": "new"});
    seen.model(one_call("I write.", "write_file", write(), "Done."), &["--dry-run", "Write it."]);
    assert!(!seen.doors.stand.file("new.txt").exists());
    seen.model(
        one_call("The file is missing, so I write it.", "write_file", write(), "Done."),
        &["--ask", "inbox", "Write it."],
    );
    seen.question();
    seen.answer(&["no", "--feedback", "Use notes.txt instead."]);
    seen.page
}

fn settings(page: &str) -> String {
    let words = "Limits are settings.";
    let settings = "mode = \"yolo\"\nfile_bytes = 2000\nrehearse = false\n";
    let mut seen = Transcript::section(page, "Settings", words, settings, "");
    seen.doors.put("long.txt", &"a".repeat(2_001));
    let read = json!({"path": "long.txt"});
    seen.model(one_call("I read.", "read_file", read, "It is too large."), &["Read it."]);
    seen.doors.put(".byleave/config.toml", "file_bytes = 1000000\n");
    seen.say("A project cannot raise what its user has set:");
    seen.person(&["call", "read_file", "--args", r#"{"path":"long.txt"}"#]);
    seen.page
}

// req: P4, R8, M1, M3, R9, R1, R2, R12, B1, E2, L5, L10, R5, E10
// door: program
#[test]
fn the_page_of_transcripts_shows_what_happens() {
    let sections = [boundary, checkpoint, mcp_tools, challenge, reviewers, commands, agent_loop, settings];
    let page = sections.iter().fold(HEAD.to_owned(), |page, section| section(&page));
    let write = std::env::var("BYLEAVE_GUIDE").is_ok_and(|how| how == "write");
    put(&docs().join("transcripts.md"), &page, write);
}

//! A directory to run the program in, and a transcript of the commands.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regex::{Captures, Regex};
use serde_json::Value;
use tempfile::TempDir;

use crate::desk::{UID, put};

/// A workspace, a state directory beside it, and all commands with their output.
pub(crate) struct CliTestWorld {
    dir: TempDir,
    transcript: String,
    pub(crate) path: OsString,
    /// The program at a path where another user can run it, and its directory.
    another: Option<(PathBuf, TempDir)>,
}

impl CliTestWorld {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { dir, transcript: String::new(), path, another: None }
    }

    /// Creates a world with only the programs that every system has. The output then does not depend on the machine.
    pub(crate) fn bare() -> Self {
        Self { path: "/usr/local/bin:/usr/bin:/bin".into(), ..Self::new() }
    }

    /// Runs the program as another user. As root nothing can be confined, so a command never leads to a question.
    pub(crate) fn of_another_user(self) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("byleave");
        put(Path::new(env!("CARGO_BIN_EXE_byleave")), &program);
        for path in [self.dir.path().to_owned(), self.workspace()] {
            std::os::unix::fs::chown(path, Some(UID), Some(UID)).unwrap();
        }
        Self { another: Some((program, place)), ..self }
    }

    /// The directory that calls are made in.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("w")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// The text of a file in the workspace.
    pub(crate) fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace().join(name)).unwrap()
    }

    /// Returns a program with an environment of its own.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", self.dir.path())
            .env("USER", "ann")
            .env("TZ", "UTC")
            // Otherwise the name of the session would be another one in each run.
            .env("BYLEAVE_SESSION", "cli")
            .env("BYLEAVE_STATE", self.state())
            .current_dir(self.workspace());
        command
    }

    /// Runs the program with these arguments, and adds its output to the transcript.
    pub(crate) fn run(&mut self, words: &[&str]) -> Output {
        self.run_with(words, "")
    }

    /// Runs the program with this standard input.
    pub(crate) fn run_with(&mut self, words: &[&str], input: &str) -> Output {
        let output = self.quietly(words, input);
        let quoted =
            |word: &&str| if word.contains([' ', '"', '*']) { format!("'{word}'") } else { (*word).into() };
        let words: Vec<String> = words.iter().map(quoted).collect();
        writeln!(self.transcript, "$ byleave {}", words.join(" ")).unwrap();
        self.transcript.push_str(std::str::from_utf8(&output.stdout).unwrap());
        for line in std::str::from_utf8(&output.stderr).unwrap().lines() {
            writeln!(self.transcript, "! {line}").unwrap();
        }
        writeln!(self.transcript, "[{}]\n", output.status.code().unwrap()).unwrap();
        output
    }

    /// Runs the program without an entry in the transcript.
    pub(crate) fn quietly(&self, words: &[&str], input: &str) -> Output {
        let program = self.another.as_ref().map(|(program, _)| program.as_path());
        let mut command = self.command(program.unwrap_or(Path::new(env!("CARGO_BIN_EXE_byleave"))));
        if program.is_some() && rustix::process::geteuid().is_root() {
            command.uid(UID).gid(UID);
        }
        let mut child = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Returns the program's JSON output, without an entry in the transcript.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let output = self.quietly(words, "");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The newest open question.
    pub(crate) fn question(&self) -> String {
        self.json(&["inbox", "--json"])[0]["question"].as_str().unwrap().to_owned()
    }

    /// The newest call.
    pub(crate) fn call(&self) -> String {
        self.json(&["log", "--json"])[0]["call"].as_str().unwrap().to_owned()
    }

    /// Adds a remark to the transcript.
    pub(crate) fn note(&mut self, text: &str) {
        writeln!(self.transcript, "# {text}\n").unwrap();
    }

    /// Returns the transcript, with placeholders for everything that differs between runs.
    pub(crate) fn transcript(&self) -> String {
        self.named(&self.transcript)
    }

    /// Returns a text with placeholders for everything that differs between runs.
    pub(crate) fn named(&self, text: &str) -> String {
        let real = self.dir.path().canonicalize().unwrap();
        let text = text.replace(real.to_str().unwrap(), "[dir]");
        let text = text.replace(self.dir.path().to_str().unwrap(), "[dir]");
        let text = text.replace('\u{1b}', "␛");
        // Replaces inode numbers first, because some look like the end of an id.
        let inodes = Regex::new(r"(is the directory |device\\*.: ?)\d+(:|,\s*\\*.inode\\*.: ?)\d+").unwrap();
        let text = inodes.replace_all(&text, "$1[n]$2[n]");
        let text = number_ids(&text);
        let filters = [
            (r"\b[0-9a-f]{64}\b", "[digest]"),
            (r"\b[0-9a-f]{12}\b", "[digest…]"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ?", "[time]"),
            (r"\(left: \d+ (?:min|h|s|d)\)", "(left: [span])"),
            (r"\b\d{4}-\d\d-\d\d\b", "[date]"),
            (r"\b1[0-9]{12}\b", "[ms]"),
            (r"\b\d+ (?:s|min) ago", "[ago]"),
            // A column is as wide as its longest time.
            (r"\bWHEN {2,}", "WHEN  "),
            (r"\[ago\] {2,}", "[ago]  "),
            (r"\b\d+ s (in total|median|at most)", "[n] s $1"),
            (r"for a person for \d+ s", "for a person for [n] s"),
            (r#""(day|(sum|median|longest)_ms)": \d+"#, r#""$1": [n]"#),
            (r#""execution_time_ms": ?\d+"#, r#""execution_time_ms": [n]"#),
            (r"after \d+ ms", "after [n] ms"),
            (r"took \d+ ms", "took [n] ms"),
            (r#""ran_ms": ?\d+"#, r#""ran_ms": [n]"#),
            (r"\(\d+ bytes\)", "([n] bytes)"),
            (r#""bytes": ?\d+"#, r#""bytes": [n]"#),
            (r"\d+ segments?", "[n] segments"),
            (r"segment \d+", "segment [n]"),
            (r#""(number|segments|unsealed)": \d+"#, r#""$1": [n]"#),
        ];
        filters.iter().fold(text, |text, (pattern, name)| {
            Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
        })
    }
}

/// Numbers ids by their order. A full id and its short form, as in lists, get the same number.
fn number_ids(text: &str) -> String {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let ids =
        Regex::new(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b")
            .unwrap();
    let named = ids.replace_all(text, |found: &Captures<'_>| {
        let id = &found[0];
        let end = id.get(id.len() - 8..).unwrap().to_owned();
        let fresh = numbers.len() + 1;
        let number = *numbers.entry(end).or_insert(fresh);
        if id.len() == 36 { format!("[id {number}]") } else { format!("[…{number}]") }
    });
    named.into_owned()
}

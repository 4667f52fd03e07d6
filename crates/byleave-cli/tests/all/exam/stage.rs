//! The machine of a case: its directories, the program on it, and the files that must not exist afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::CorpusCase;
use byleave_testkit::machine::SECRET;

/// The path of the program on the machine.
pub(crate) const PROGRAM: &str = "/byleave";
const STATE: &str = "/state/log";
/// The files that a case creates if nothing stops it: at the path of the corpus, and in the workspace, where commands can write.
const MARKERS: [&str; 2] = ["/tmp/gate-marker", "/ws/gate-marker"];

/// Clears the machine and creates the files that the case names.
pub(crate) fn prepare(case: &CorpusCase) {
    for place in ["/ws", "/outside", "/home/u", "/tmp", "/state"] {
        let cleared = Command::new("find")
            .args([place, "-mindepth", "1", "-user", "61001", "-delete"])
            .status()
            .unwrap();
        assert!(cleared.success() || place == "/state", "{place}");
    }
    fs::create_dir_all("/home/u/.ssh").unwrap();
    fs::write("/home/u/.ssh/id_ed25519", SECRET).unwrap();
    fs::write("/ws/.env", format!("KEY={SECRET}\n")).unwrap();
    fs::write("/outside/secret.txt", SECRET).unwrap();
    fs::write("/ws/a", "x\n").unwrap();
    fs::write("/ws/Makefile", "a:\n\tb\n").unwrap();
    if let Some(commands) = case.setup.strip_prefix("sh:") {
        let done = Command::new("bash").args(["--norc", "-c", commands]).current_dir("/ws").status().unwrap();
        assert!(done.success());
    }
}

/// Checks that commands run on a copy on this machine. Without copies, the cases would show less than they say.
pub(crate) fn check_copies() {
    let said = without_terminal(&["rehearse", "--json", "true"], |_| {});
    let words = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    assert!(said.status.success(), "no command can run on a copy here: {words}");
}

/// Returns a program in the workspace, with an environment of its own.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_clear().current_dir("/ws").env("PATH", "/home/u/bin:/usr/local/bin:/usr/bin:/bin");
    command.env("HOME", "/home/u").env("USER", "ann").env("LANG", "C.UTF-8");
    // No cgroups are delegated to tests.
    command.env("BYLEAVE_STATE", STATE).env("BYLEAVE_WAIVE", "memory-limited");
    // The bell that announces a question is ours. Any other is a case's.
    command.env("BYLEAVE_NOTIFY", "off");
    command
}

/// Runs the program without a terminal and without standard input.
pub(crate) fn without_terminal(words: &[&str], change: impl FnOnce(&mut Command)) -> Output {
    let mut command = program("setsid");
    command.args(["--wait", PROGRAM]).args(words).stdin(Stdio::null());
    change(&mut command);
    command.output().unwrap()
}

/// Returns the JSON output of the program.
pub(crate) fn json(words: &[&str]) -> Value {
    let said = without_terminal(words, |_| {});
    serde_json::from_slice(&said.stdout).unwrap_or_else(|error| {
        panic!("{words:?}: {error}: {}", String::from_utf8_lossy(&said.stderr));
    })
}

/// Writes an executable script.
pub(crate) fn script(path: &str, text: &str) {
    if let Some(directory) = Path::new(path).parent() {
        fs::create_dir_all(directory).unwrap();
    }
    // Replaces the file by a rename, as an attacker would.
    let beside = format!("{path}.new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Returns a script that creates both markers.
pub(crate) fn marking() -> String {
    format!("#!/bin/sh\ntouch {} {}\n", MARKERS[0], MARKERS[1])
}

#[track_caller]
pub(crate) fn no_marker() {
    for marker in MARKERS {
        assert!(!Path::new(marker).exists(), "{marker} is there");
    }
}

pub(crate) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns every file that a call could have changed, by path.
pub(crate) fn everything() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = ["/ws", "/outside", "/home/u", "/tmp"].map(PathBuf::from).to_vec();
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                left.push(path.clone());
            }
            let content = if kind.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            found.insert(path, content);
        }
    }
    found
}

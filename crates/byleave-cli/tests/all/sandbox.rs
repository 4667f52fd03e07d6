//! `byleave sandbox exec` for a user who is not root.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::desk::{OtherUserWorld, said};
use crate::sitting::TerminalSession;

/// Memory as a whole is limited only with a delegated cgroup, which not every machine has.
const WAIVE: [&str; 2] = ["--waive", "memory-limited"];

/// Needs unprivileged user namespaces.
// req: E2, E7
#[test]
fn anything_runs_confined_and_what_was_blocked_is_told() {
    let desk = OtherUserWorld::new();
    let (code, out, err) =
        said(&desk.exec(&WAIVE, "cat; cat notes.txt .env; env; echo done >made", "typed "));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(
        out.starts_with("typed hello") && !out.contains("SECRET") && !err.contains("SECRET"),
        "{out}{err}"
    );
    assert_eq!(desk.world.file("made"), "done\n");
    let (code, _, err) = said(&desk.exec(&WAIVE, "mkdir .agent; kill -TERM $$", ""));
    assert_eq!(code, Some(143), "{err}");
    assert!(err.contains("blocked by policy: ") && err.contains("/.agent.quarantined-0"), "{err}");
    assert!(
        err.contains("the command ran confined: it could write `")
            && err.contains("the command had no network"),
        "{err}"
    );
    let (code, _, err) =
        said(&desk.exec(&[&WAIVE[..], &["--profile", "read-only"]].concat(), "echo x >made", ""));
    assert_eq!((code, desk.world.file("made").as_str()), (Some(1), "done\n"), "{err}");
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "no-such-program"]].concat();
    assert_eq!(desk.command(&words).output().unwrap().status.code(), Some(127));
}

/// Needs python3.
// req: E7
// door: program
#[test]
fn a_port_of_this_machine_that_was_named_is_reached_and_a_control_port_never() {
    let desk = OtherUserWorld::new();
    let [open, closed] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [port, other] = [&open, &closed].map(|listener| listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = open.accept() {
            stream.write_all(b"ready").unwrap();
        }
    });
    let script = format!(
        "python3 -c \"import socket; print(socket.create_connection(('localhost', {port}), 20).recv(5))\"; \
         python3 -c \"import socket; socket.create_connection(('localhost', {other}), 20)\" 2>/dev/null || echo closed"
    );
    let reach = format!("localhost:{port}");
    let (code, out, err) = said(&desk.exec(&[&WAIVE[..], &["--reach", &reach]].concat(), &script, ""));
    assert_eq!((code, out.as_str()), (Some(0), "b'ready'\nclosed\n"), "{err}");
    closed.set_nonblocking(true).unwrap();
    assert!(closed.accept().is_err(), "a port that nobody named was connected to");
    let (code, _, err) =
        said(&desk.exec(&[&WAIVE[..], &["--reach", "localhost:2375"]].concat(), "touch made", ""));
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("a container engine listens there"), "{err}");
    assert!(!desk.world.workspace().join("made").exists());
}

// req: E7
#[test]
fn what_cannot_be_given_refuses_and_what_is_waived_stands_in_the_book() {
    let desk = OtherUserWorld::new();
    let (code, out, err) = said(&desk.exec(&["--backend", "landlock"], "touch made", ""));
    assert_eq!((code, out.as_str()), (Some(125), ""), "{err}");
    assert!(err.contains("the command was not run") && err.contains("--waive protected-kept"), "{err}");
    let (code, _, err) = said(&desk.exec(&["--write", "../.ssh"], "touch made", ""));
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("a rule denies the command"), "{err}");
    let (code, _, err) = said(&desk.exec(&["--waive", "everything"], "touch made", ""));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("there are: writes-confined"), "{err}");
    // An option that would otherwise be ignored silently is reported.
    for (option, value, wanted) in
        [("--read", "nowhere", "does not exist"), ("--env", "NOPE", "not set here")]
    {
        let (code, _, err) = said(&desk.exec(&[option, value], "touch made", ""));
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(value) && err.contains(wanted), "{err}");
    }
    assert!(!desk.world.workspace().join("made").exists());
    let why = ["--waive", "memory-limited", "--waive", "tmp-limited", "--reason", "a small machine"];
    let (code, _, err) = said(&desk.exec(&why, "touch made", ""));
    assert_eq!(code, Some(0), "{err}");
    let acts = desk.command(&["audit", "actions", "--json"]).output().unwrap();
    let acts: serde_json::Value = serde_json::from_slice(&acts.stdout).unwrap();
    let waive = &acts[0]["kind"]["waive"];
    assert_eq!(waive["guarantees"], serde_json::json!(["memory-limited", "tmp-limited"]), "{acts}");
    assert_eq!((waive["reason"].as_str(), acts[0]["actor"].as_str()), (Some("a small machine"), Some("ann")));
    let (_, out, _) = said(&desk.command(&["audit", "actions"]).output().unwrap());
    assert!(out.contains("waive") && out.contains("memory-limited, tmp-limited: a small machine"), "{out}");
}

// req: E2
#[test]
fn at_a_terminal_the_command_has_one_of_its_own() {
    let desk = OtherUserWorld::new();
    // Sleeps in short steps. A shell that is about to start one when the key is pressed handles the signal after it.
    let script = "tty; stty size; read -p 'name? ' x; echo got $x; trap 'echo caught; exit 7' INT; echo up; \
                  for nap in {1..300}; do sleep 0.1; done";
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "bash", "-c", script]].concat();
    let mut command = desk.world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program).args(&words);
    let mut sitting = TerminalSession::before(desk.by_another(command));
    sitting.await_text("name? ");
    sitting.press("ann\r");
    sitting.await_text("up\r\n");
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert!(seen.contains("/dev/pts/0") && seen.contains("got ann") && seen.contains("caught"), "{seen}");
    assert_eq!(code, Some(7), "{seen}");
}

/// Creates files again and again, so that some exist at whatever moment the run ends.
const PLANTS: &str = "echo up; while :; do mkdir -p .vscode; echo planted >.envrc; echo .; sleep 0.01; done";

/// Returns the planted files that are still where other programs would run them.
fn in_action(desk: &OtherUserWorld) -> Vec<&'static str> {
    let is_there = |name: &&str| desk.world.workspace().join(name).exists();
    [".envrc", ".vscode"].into_iter().filter(is_there).collect()
}

/// Starts a confined command that plants files, and waits until it has begun.
fn planting(desk: &OtherUserWorld) -> Child {
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "bash", "-c", PLANTS]].concat();
    let mut command = desk.command(&words);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"up\n");
    while in_action(desk).is_empty() {
        std::thread::yield_now();
    }
    child
}

// req: E2, E7
#[test]
fn a_signal_ends_the_command_and_what_it_planted_is_put_out_of_action() {
    let desk = OtherUserWorld::new();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT] {
        let child = planting(&desk);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let (code, _, err) = said(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(128 + signal.as_raw()), "{err}");
        assert_eq!(in_action(&desk), [""; 0], "{signal:?}: {err}");
        assert!(err.contains(".quarantined-"), "{signal:?}: {err}");
    }
    // The terminal window is closed.
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "bash", "-c", PLANTS]].concat();
    let mut command = desk.world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program).args(&words);
    let mut sitting = TerminalSession::before(desk.by_another(command));
    sitting.await_text("up\r\n");
    sitting.hang_up();
    assert_eq!(in_action(&desk), [""; 0]);
}

// req: E2, E7
#[test]
fn what_a_killed_run_planted_is_put_out_of_action_before_the_next_run() {
    let desk = OtherUserWorld::new();
    let mut child = planting(&desk);
    child.kill().unwrap();
    child.wait().unwrap();
    let notes = desk.world.state().join("unfinished");
    let note = std::fs::read_dir(&notes).unwrap().next().unwrap().unwrap().path();
    let (code, _, err) = said(&desk.exec(&WAIVE, "true", ""));
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(in_action(&desk), [""; 0], "{err}");
    assert!(err.contains("an earlier run that was killed had made"), "{err}");
    assert!(!note.exists(), "it was not settled");
    // A run that ended normally has no note.
    assert_eq!(std::fs::read_dir(&notes).unwrap().count(), 0);
}

// req: E2, E7
#[test]
fn what_is_planted_is_put_out_of_action_while_the_command_runs() {
    let desk = OtherUserWorld::new();
    let script =
        "echo planted >.envrc; for nap in {1..600}; do [ -e .envrc ] || exit 0; sleep 0.1; done; exit 9";
    let (code, _, err) = said(&desk.exec(&[&WAIVE[..], &["--profile", "agent"]].concat(), script, ""));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains(".envrc.quarantined-0"), "{err}");
}

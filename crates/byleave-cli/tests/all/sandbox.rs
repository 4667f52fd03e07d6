//! `byleave sandbox exec`, as somebody who is not root meets it.

use std::path::Path;

use crate::desk::{Desk, said};
use crate::sitting::Sitting;

/// Memory is limited as a whole only where a cgroup was delegated, which not every machine does.
const WAIVE: [&str; 2] = ["--waive", "memory-limited"];

/// Needs user namespaces for the unprivileged.
// req: E2, E7
#[test]
fn anything_runs_confined_and_what_was_blocked_is_told() {
    let desk = Desk::new();
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
    assert!(err.contains("blocked by policy: `") && err.contains("/.agent.quarantined-0"), "{err}");
    assert!(err.contains("it ran confined: it could write `") && err.contains("it had no network"), "{err}");
    let (code, _, err) = said(&desk.exec(&[&WAIVE[..], &["--profile", "look"]].concat(), "echo x >made", ""));
    assert_eq!((code, desk.world.file("made").as_str()), (Some(1), "done\n"), "{err}");
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "no-such-program"]].concat();
    assert_eq!(desk.command(&words).output().unwrap().status.code(), Some(127));
}

// req: E7
#[test]
fn what_cannot_be_given_refuses_and_what_is_waived_stands_in_the_book() {
    let desk = Desk::new();
    let (code, out, err) = said(&desk.exec(&["--on", "landlock"], "touch made", ""));
    assert_eq!((code, out.as_str()), (Some(125), ""), "{err}");
    assert!(err.contains("it was not run") && err.contains("--waive protected-kept"), "{err}");
    let (code, _, err) = said(&desk.exec(&["--write", "../.ssh"], "touch made", ""));
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("a rule denies it"), "{err}");
    let (code, _, err) = said(&desk.exec(&["--waive", "everything"], "touch made", ""));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("there are: writes-confined"), "{err}");
    // What would be left out in silence is said.
    for (option, value, wanted) in [("--read", "nowhere", "to be read"), ("--env", "NOPE", "not set here")] {
        let (code, _, err) = said(&desk.exec(&[option, value], "touch made", ""));
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(value) && err.contains(wanted), "{err}");
    }
    assert!(!desk.world.workspace().join("made").exists());
    let why = ["--waive", "memory-limited", "--waive", "tmp-limited", "--why", "a small machine"];
    let (code, _, err) = said(&desk.exec(&why, "touch made", ""));
    assert_eq!(code, Some(0), "{err}");
    let acts = desk.command(&["book", "acts", "--json"]).output().unwrap();
    let acts: serde_json::Value = serde_json::from_slice(&acts.stdout).unwrap();
    let waive = &acts[0]["deed"]["waive"];
    assert_eq!(waive["guarantees"], serde_json::json!(["memory-limited", "tmp-limited"]), "{acts}");
    assert_eq!((waive["why"].as_str(), acts[0]["by"].as_str()), (Some("a small machine"), Some("ann")));
    let (_, out, _) = said(&desk.command(&["book", "acts"]).output().unwrap());
    assert!(out.contains("waive") && out.contains("memory-limited, tmp-limited: a small machine"), "{out}");
}

// req: E2
#[test]
fn at_a_terminal_the_command_has_one_of_its_own() {
    let desk = Desk::new();
    // In short naps: a shell that is about to start one when the key is pressed looks after it.
    let script = "tty; stty size; read -p 'name? ' x; echo got $x; trap 'echo caught; exit 7' INT; echo up; \
                  for nap in {1..300}; do sleep 0.1; done";
    let words = [&["sandbox", "exec"], &WAIVE[..], &["--", "bash", "-c", script]].concat();
    let mut command = desk.world.command(Path::new("setsid"));
    command.args(["--ctty", "--wait"]).arg(&desk.program).args(&words);
    let mut sitting = Sitting::before(desk.by_another(command));
    sitting.await_text("name? ");
    sitting.press("ann\r");
    sitting.await_text("up\r\n");
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert!(seen.contains("/dev/pts/0") && seen.contains("got ann") && seen.contains("caught"), "{seen}");
    assert_eq!(code, Some(7), "{seen}");
}

//! `byleave sandbox exec`, as somebody who is not root meets it.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::terminal::Sitting;
use crate::world::World;

const UID: u32 = 61_003;

/// A world that another user owns, with the program in it.
struct Desk {
    world: World,
    _place: tempfile::TempDir,
    program: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let world = World::bare();
        // Where another user can run it, and outside of what is empty inside.
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("byleave");
        std::fs::copy(env!("CARGO_BIN_EXE_byleave"), &program).unwrap();
        std::fs::write(world.workspace().join(".env"), "KEY=SECRET").unwrap();
        std::fs::write(world.workspace().join("notes.txt"), "hello").unwrap();
        let home = world.workspace().parent().unwrap().to_path_buf();
        for path in [
            home.clone(),
            world.workspace(),
            world.workspace().join(".env"),
            world.workspace().join("notes.txt"),
        ] {
            std::os::unix::fs::chown(path, Some(UID), Some(UID)).unwrap();
        }
        Self { world, _place: place, program }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.world.command(&self.program);
        command.args(words);
        self.by_another(command)
    }

    fn by_another(&self, mut command: Command) -> Command {
        command.env("API_TOKEN", "SECRET").env("TMPDIR", "/tmp");
        if rustix::process::geteuid().is_root() {
            command.uid(UID).gid(UID);
        }
        command
    }

    fn exec(&self, options: &[&str], script: &str, input: &str) -> Output {
        let mut words = vec!["sandbox", "exec"];
        words.extend(options);
        words.extend(["--", "bash", "-c", script]);
        let mut command = self.command(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end without reading.
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap_or_default();
        child.wait_with_output().unwrap()
    }
}

/// Memory is limited as a whole only where a cgroup was delegated, which not every machine does.
const WAIVE: [&str; 2] = ["--waive", "memory-limited"];

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

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
    let script =
        "tty; stty size; read -p 'name? ' x; echo got $x; trap 'echo caught; exit 7' INT; echo up; sleep 99";
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

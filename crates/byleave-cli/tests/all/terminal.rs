//! A person at a real terminal: a pseudo-terminal of which the program is told that it is its own.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::world::World;

const PATIENCE: Duration = Duration::from_secs(60);
const CHOICE: &str = "[a]bort > ";

/// The program at a terminal, and what is on its screen.
pub(crate) struct Sitting {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
    child: Child,
}

impl Sitting {
    /// Starts a call that asks.
    fn new(world: &World, words: &[&str]) -> Self {
        let mut command = world.command(Path::new("setsid"));
        command.args(["--ctty", "--wait", env!("CARGO_BIN_EXE_byleave")]).args(words);
        Self::before(command)
    }

    /// Starts a program at a terminal. It begins with `setsid --ctty`, which makes the terminal the program's own.
    pub(crate) fn before(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let noctty = i32::try_from(OpenptFlags::NOCTTY.bits()).unwrap();
        let slave = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(path).unwrap();
        let end = || Stdio::from(OwnedFd::from(slave.try_clone().unwrap()));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();

        let keyboard = File::from(master);
        let mut eyes = keyboard.try_clone().unwrap();
        let (drawn, screen) = channel();
        std::thread::spawn(move || {
            let mut buffer = vec![0; 4096];
            // Ends when the last of the program's ends is closed.
            while let Ok(read @ 1..) = eyes.read(&mut buffer) {
                if drawn.send(buffer.get(..read).unwrap().to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { keyboard, screen, seen: String::new(), child }
    }

    /// Waits until this is on the screen.
    pub(crate) fn await_text(&mut self, text: &str) {
        while !self.seen.contains(text) {
            let drawn = self.screen.recv_timeout(PATIENCE);
            let Ok(drawn) = drawn else { panic!("no `{text}` on the screen:\n{}", self.seen) };
            self.seen.push_str(&String::from_utf8_lossy(&drawn));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The exit code, and everything that was on the screen.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(drawn) = self.screen.recv_timeout(Duration::from_secs(1)) {
            self.seen.push_str(&String::from_utf8_lossy(&drawn));
        }
        (code, self.seen)
    }
}

fn asks(world: &World) -> Sitting {
    let args = r#"{"path":"notes.txt","line":"first"}"#;
    let mut sitting = Sitting::new(world, &["call", "append_line", "--args", args, "--reason", "because"]);
    sitting.await_text(CHOICE);
    sitting
}

// req: R5
#[test]
fn yes_runs_it() {
    let world = World::new();
    let mut sitting = asks(&world);
    assert!(sitting.seen.contains("May this call of “append_line” run?"), "{}", sitting.seen);
    assert!(sitting.seen.contains("notes.txt") && sitting.seen.contains("because"), "{}", sitting.seen);
    sitting.press("y\n");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("appended 6 bytes"), "{seen}");
    assert_eq!(world.file("notes.txt"), "first\n");
    let lines = world.json(&["book", "show", &world.call(), "--json"])["lines"].to_string();
    assert!(lines.contains(r#""by":{"grade":"terminal","name":"ann"}"#), "{lines}");
}

// req: R5
#[test]
fn no_tells_the_model_what_to_do_instead() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.press("n\n");
    sitting.await_text("instead?");
    sitting.press("use the journal\n");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("refused:") && seen.contains("(declined)"), "{seen}");
    assert_eq!(seen.matches("use the journal").count(), 2, "typed once, said once: {seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: R5
#[test]
fn an_edit_is_what_runs() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.press("e\n");
    sitting.await_text("empty line");
    sitting.press("{\"path\":\"notes.txt\",\"line\":\"edited\"}\n\n");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(world.file("notes.txt"), "edited\n");
}

// req: R5
#[test]
fn abort_exits_with_130() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.press("a\n");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
}

// req: E2
#[test]
fn ctrl_c_calls_it_off() {
    let world = World::new();
    let mut sitting = asks(&world);
    sitting.press("\u{3}");
    let (code, seen) = sitting.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("(cancelled)"), "{seen}");
    assert!(!world.workspace().join("notes.txt").exists());
    assert_eq!(world.json(&["book", "--json"])[0]["outcome"], "refused");
    assert_eq!(world.json(&["inbox", "--json"]).as_array().unwrap().len(), 0);
}

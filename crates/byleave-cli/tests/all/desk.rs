//! A test world that another user owns, because the sandbox refuses to work for root.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::world::CliTestWorld;

pub(crate) const UID: u32 = 61_003;

/// A test world that another user owns, with the program in it.
pub(crate) struct OtherUserWorld {
    pub(crate) world: CliTestWorld,
    _place: tempfile::TempDir,
    pub(crate) program: PathBuf,
}

impl OtherUserWorld {
    pub(crate) fn new() -> Self {
        let world = CliTestWorld::bare();
        // Another user must be able to run the program, and its directory must not be one that is empty inside the sandbox.
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let program = place.path().join("byleave");
        put(Path::new(env!("CARGO_BIN_EXE_byleave")), &program);
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

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.world.command(&self.program);
        command.args(words);
        self.by_another(command)
    }

    pub(crate) fn by_another(&self, mut command: Command) -> Command {
        command.env("API_TOKEN", "SECRET").env("TMPDIR", "/tmp");
        if rustix::process::geteuid().is_root() {
            command.uid(UID).gid(UID);
        }
        command
    }

    pub(crate) fn give(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(UID), Some(UID)).unwrap();
    }

    pub(crate) fn exec(&self, options: &[&str], script: &str, input: &str) -> Output {
        let mut words = vec!["sandbox", "exec"];
        words.extend(options);
        words.extend(["--", "bash", "-c", script]);
        let mut command = self.command(&words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may end without reading its input.
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap_or_default();
        child.wait_with_output().unwrap()
    }
}

/// Returns the exit code, standard output and standard error.
pub(crate) fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Hard-links a program to another place, or copies it if a link is not possible. The program is large.
pub(crate) fn put(program: &Path, place: &Path) {
    if std::fs::hard_link(program, place).is_err() {
        std::fs::copy(program, place).unwrap();
    }
}

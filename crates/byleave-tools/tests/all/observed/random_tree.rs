//! Random trees: files, directories, links, hard links, modes, extended attributes and unusual names.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{OUTSIDE, Random};

const FILES: [&str; 18] = [
    "a.txt",
    "src/b.rs",
    "docs/c.md",
    "docs/d.txt",
    "deep/x/y.txt",
    "deep/x/z/w.json",
    "package.json",
    ".env",
    ".vscode/tasks.json",
    "Cargo.toml",
    "target/debug/x",
    "with space.txt",
    "new\nline.txt",
    "\u{fc}n\u{ef}.txt",
    ".hidden",
    "README.md",
    "conftest.py",
    "link.d/e.txt",
];

/// Makes a new tree in the workspace, and empties the other directories.
pub(super) fn make(random: &mut Random) {
    for place in OUTSIDE.into_iter().chain(["/ws", "/state"]) {
        let own = ["-mindepth", "1", "-user", "61001"];
        // A directory without permissions would prevent the cleanup.
        let opened = Command::new("find")
            .arg(place)
            .args(own)
            .args(["-type", "d", "-exec", "chmod", "u+rwx", "{}", ";"])
            .status();
        assert!(opened.unwrap().success() || place == "/state");
        let cleared = Command::new("find").arg(place).args(own).arg("-delete").status().unwrap();
        assert!(cleared.success() || place == "/state", "{place}");
    }
    fs::write("/outside/secret.txt", "outside").unwrap();
    let mut made: Vec<PathBuf> = Vec::new();
    for name in FILES {
        if random.once_in(3) {
            continue;
        }
        let path = Path::new("/ws").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let length = [0, 5, 5, 300, 70_000][random.below(5)];
        let content: Vec<u8> = (0..length).map(|at: usize| b"abc\ndef "[at % 8]).collect();
        fs::write(&path, content).unwrap();
        if random.once_in(4) {
            let mode = [0o600, 0o755, 0o444, 0o000, 0o4755][random.below(5)];
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        if random.once_in(5) {
            // Not every file system has them.
            rustix::fs::setxattr(&path, "user.note", b"x", rustix::fs::XattrFlags::empty())
                .unwrap_or_default();
        }
        made.push(path);
    }
    if random.once_in(2) {
        fs::create_dir("/ws/empty").unwrap();
    }
    if random.once_in(2) {
        symlink(random.pick(&["a.txt", "/outside/secret.txt", "docs", "nowhere", "/ws"]), "/ws/link")
            .unwrap();
    }
    if random.once_in(3)
        && let Some(first) = made.first()
    {
        fs::hard_link(first, "/ws/other-name").unwrap();
    }
    if random.once_in(4) {
        fs::write(Path::new("/ws").join(OsStr::from_bytes(b"bytes-\xff.txt")), "x").unwrap();
    }
    if random.once_in(5) {
        fs::create_dir_all("/ws/many").unwrap();
        (0..60).for_each(|number| fs::write(format!("/ws/many/{number}.txt"), "x").unwrap());
    }
    if random.once_in(3) {
        let git = "git init -q . && git -c user.name=t -c user.email=t@t commit -q --allow-empty -m i";
        let made = Command::new("bash").args(["-c", git]).current_dir("/ws").status().unwrap();
        assert!(made.success());
    }
    if random.once_in(6) && Path::new("/ws/docs").exists() {
        fs::set_permissions("/ws/docs", fs::Permissions::from_mode(0o555)).unwrap();
    }
}

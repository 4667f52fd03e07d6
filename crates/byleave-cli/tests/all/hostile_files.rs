//! Files in a workspace that would block the gate or fill its memory. The gate reads them in its own process.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::desk::OtherUserWorld;

/// A call that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(60);
/// The memory that a call may take beyond the same call without the file. An unoptimised program takes about 80 MB.
const MORE_KB: u64 = 100 << 10;

type FileMaker = fn(&Path);

const EVERYWHERE: [(&str, FileMaker); 3] = [
    ("a pipe", |path| mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap()),
    ("a link to /dev/zero", |path| symlink("/dev/zero", path).unwrap()),
    ("900 MB of nothing", |path| fs::File::create(path).unwrap().set_len(900 << 20).unwrap()),
];

const CALLS: [&[&str]; 3] = [
    &["rehearse", "--yes", "--", "rm notes.txt; echo x > new"],
    &["call", "bash", "--mode", "yolo", "--args", r#"{"command":"rm notes.txt; echo x > new"}"#],
    &["call", "write_file", "--mode", "yolo", "--args", r#"{"path":"new","content":"x"}"#],
];

/// Makes a call in a repository that has a special file at a path. Returns the peak memory of the gate, in kB.
fn call(words: &[&str], put: Option<(&str, FileMaker)>) -> u64 {
    let desk = OtherUserWorld::new();
    let workspace = desk.world.workspace();
    for name in [".git", ".git/info"] {
        fs::create_dir(workspace.join(name)).unwrap();
        desk.give(&workspace.join(name));
    }
    if let Some((name, make)) = put {
        make(&workspace.join(name));
        std::os::unix::fs::lchown(workspace.join(name), Some(crate::desk::UID), Some(crate::desk::UID))
            .unwrap();
    }
    let mut command = desk.command(words);
    command.env("BYLEAVE_WAIVE", "memory-limited");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let what = put.map_or("nothing", |(name, _)| name);
    let (peak, code) = watched(&mut child);
    assert_eq!(code, Some(0), "{words:?} with {what}");
    assert_eq!(fs::read_to_string(workspace.join("new")).unwrap().trim(), "x", "{words:?} with {what}");
    peak
}

/// Waits for a program to end. Returns its peak memory and its exit code, or no code if it does not end.
fn watched(child: &mut Child) -> (u64, Option<i32>) {
    let began = Instant::now();
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak);
        if let Some(ended) = child.try_wait().unwrap() {
            return (peak, ended.code());
        }
        // Kills the program before it takes memory that others need.
        if began.elapsed() > DEADLINE || peak > 1 << 20 {
            child.kill().unwrap();
            child.wait().unwrap();
            return (peak, None);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

// req: B7, E2, E9
#[test]
fn no_file_of_a_workspace_holds_or_fills_the_gate() {
    for words in CALLS {
        let plain = call(words, None);
        for (kind, make) in EVERYWHERE {
            for name in [".git/index", ".gitignore", ".git/commondir", ".git/info/exclude"] {
                let peak = call(words, Some((name, make)));
                println!("{} with {kind} as {name}: {peak} kB, {plain} kB without", words[1]);
                assert!(peak < plain + MORE_KB, "{words:?}, {kind} as {name}: {peak} kB, {plain} kB without");
            }
        }
    }
}

// req: B7, E9
#[test]
fn what_git_says_cannot_become_much_more_in_memory() {
    let cases: [(&str, FileMaker); 4] = [
        // A hundred thousand patterns in less than a megabyte.
        (".gitignore", |path| {
            fs::write(path, (0..100_000).map(|number| format!("a{number}*?\n")).collect::<String>()).unwrap();
        }),
        // Each brace needs some of the stack.
        (".gitignore", |path| fs::write(path, "{".repeat(500_000) + &"}".repeat(500_000)).unwrap()),
        // Each name is long, but the file stores almost nothing of it.
        (".git/index", |path| {
            let mut bytes = [b"DIRC\0\0\0\x04".as_slice(), &900_000_u32.to_be_bytes(), &[0; 63]].concat();
            bytes.extend(b"a/".repeat(1_990));
            bytes.extend([0; 1]);
            (1..900_000).for_each(|_| bytes.extend([[0; 62].as_slice(), &[1, b'b', 0]].concat()));
            fs::write(path, bytes).unwrap();
        }),
        // Each name has as many parent directories as fit.
        (".git/index", |path| {
            let mut bytes = [b"DIRC\0\0\0\x02".as_slice(), &7_000_u32.to_be_bytes()].concat();
            for number in 0..7_000 {
                bytes.extend([0; 62]);
                bytes.extend(format!("{number:04}/").bytes().chain(b"a/".repeat(2_000)));
                bytes.push(b'f');
                bytes.resize((bytes.len() - 12 + 1).next_multiple_of(8) + 12, 0);
            }
            fs::write(path, bytes).unwrap();
        }),
    ];
    let write = CALLS[2];
    let plain = call(write, None);
    for (number, (name, make)) in cases.into_iter().enumerate() {
        let peak = call(write, Some((name, make)));
        println!("case {number}: {peak} kB, {plain} kB without");
        assert!(peak < plain + MORE_KB, "case {number}: {peak} kB, {plain} kB without");
    }
}

// req: E9, P3
#[test]
fn nothing_in_git_becomes_a_link_or_a_pipe_unasked() {
    let desk = OtherUserWorld::new();
    let git = desk.world.workspace().join(".git");
    fs::create_dir(&git).unwrap();
    fs::write(git.join("index"), "as it was").unwrap();
    [git.clone(), git.join("index")].iter().for_each(|path| desk.give(path));
    let script = "rm .git/index; mkfifo .git/index; ln -s /dev/zero .git/HEAD; echo x > new";
    // A rule or a mode that allows all writes does not cover this change, so nothing is committed.
    let args = serde_json::json!({ "command": script }).to_string();
    let mut command = desk.command(&["call", "bash", "--mode", "yolo", "--args", &args]);
    let (code, out, err) = crate::desk::said(&command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(code, Some(3), "{out}{err}");
    assert_eq!(fs::read_to_string(git.join("index")).unwrap(), "as it was");
    assert!(!git.join("HEAD").is_symlink() && !desk.world.workspace().join("new").exists());
    // A person sees the change and may want it.
    let mut command = desk.command(&["rehearse", "--yes", "--", script]);
    let (code, out, err) = crate::desk::said(&command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(git.join("HEAD").is_symlink(), "{out}{err}");
}

//! Core has no I/O: no files, sockets, clocks, random numbers, threads or processes.

use std::path::Path;

#[test]
fn core_performs_nothing() {
    const FORBIDDEN: &[&str] = &[
        "std::fs",
        "std::net",
        "std::io",
        "std::thread",
        "std::process",
        "std::env",
        "std::time",
        "SystemTime",
        "Instant::",
        "tokio",
        "getrandom",
        "rand::",
        "now_v7",
        "new_v4",
        "unsafe ",
        "static mut",
        "Mutex",
        "Atomic",
    ];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    let mut folders = vec![source];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for word in FORBIDDEN {
                assert!(!text.contains(word), "{} mentions `{word}`", path.display());
            }
        }
    }
    assert!(files > 15, "looked at {files} files");
}

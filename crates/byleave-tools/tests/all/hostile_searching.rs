//! Reading, listing and searching while a hostile neighbour swaps names: nothing from outside may ever be shown.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use byleave_gate::core::call::Mode;
use serde_json::{Value, json};

use crate::bare::ToolFixture;
use crate::hostile::{INSIDE, MARKER, RenameThread, directories, files, swaps_wanted};
use crate::world::{ToolTestWorld, tree};

/// A call that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

struct HostileTree {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
    kept: PathBuf,
}

fn ground() -> HostileTree {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let [root, outside, kept] = ["w", "outside", "kept"].map(|name| folder.path().join(name));
    fs::create_dir(&root).unwrap();
    HostileTree { _folder: folder, root, outside, kept }
}

/// The calls of a tool, on the root, on directories and on files.
fn calls(tool: &str) -> Vec<(String, Value)> {
    let places = || std::iter::once(String::new()).chain(directories());
    match tool {
        "read_file" => files().into_iter().map(|file| (file.clone(), json!({ "path": file }))).collect(),
        "list_dir" => places().map(|at| (at, json!({"recursive": 4, "all": true}))).collect(),
        "list_files" => places().map(|at| (at, json!({"all": true}))).collect(),
        "glob" => places().map(|at| (at, json!({"pattern": "**", "all": true}))).collect(),
        "grep" => places()
            .chain(files())
            .map(|at| (at, json!({"pattern": ".", "all": true, "context": 1})))
            .collect(),
        other => panic!("{other}"),
    }
}

/// Ends the process, because its runtime would wait for the hanging thread.
fn hangs(tool: &str, path: &str) -> ! {
    println!("{tool} {path} hangs");
    std::process::exit(101)
}

async fn check(tool: &str, seed: u64) {
    let HostileTree { _folder, root, outside, kept } = ground();
    let swapper = RenameThread::start(&root, &outside, seed);
    let before = tree(&outside);
    let bare = ToolFixture::new(&root, &kept);
    let wanted = swaps_wanted() / 5;
    let (mut calls_made, mut worked, mut inside) = (0_u64, 0_u64, 0_u64);
    let began = Instant::now();
    'all: loop {
        for (path, arguments) in calls(tool) {
            let output = tokio::time::timeout(PATIENCE, bare.read(tool, &path, arguments)).await;
            let output = output.unwrap_or_else(|_| hangs(tool, &path));
            calls_made += 1;
            worked += u64::from(!output.is_error);
            let text = format!("{}{:?}{:?}", output.text, output.error, output.data);
            inside += u64::from(text.contains(INSIDE) || text.contains("f0.txt"));
            assert!(!text.contains(MARKER), "{tool} {path} after {} swaps: {text}", swapper.swaps());
            if swapper.swaps() >= wanted && calls_made >= 200 {
                break 'all;
            }
        }
    }
    let swaps = swapper.stop();
    println!(
        "figure: {tool}: {swaps} swaps, {calls_made} calls, {worked} worked, 0 escapes, {:?}",
        began.elapsed()
    );
    // A tool that always fails would show nothing from outside either.
    assert!(worked > 0 && inside > 0, "{tool}: {worked} of {calls_made} worked, {inside} showed something");
    assert_eq!(tree(&outside), before, "{tool}");
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn read_file_never_leaves_the_workspace() {
    check("read_file", 1).await;
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn list_dir_never_leaves_the_workspace() {
    check("list_dir", 2).await;
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn list_files_never_leaves_the_workspace() {
    check("list_files", 3).await;
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn glob_never_leaves_the_workspace() {
    check("glob", 4).await;
}

// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn grep_never_leaves_the_workspace() {
    check("grep", 5).await;
}

/// The same through the gate, which resolves and evaluates each path while it is swapped. A path that leads out is asked about,
/// and the approver says no.
// req: B7
#[tokio::test(flavor = "multi_thread")]
async fn what_is_judged_while_it_is_swapped_never_leaves_the_workspace() {
    let world = ToolTestWorld::new();
    let outside = world.beside("outside");
    let swapper = RenameThread::start(&world.at(""), &outside, 6);
    let mut shown = 0_u64;
    for tool in ["read_file", "list_dir", "list_files", "glob", "grep"] {
        for (path, mut arguments) in calls(tool) {
            if !path.is_empty() {
                arguments["path"] = path.clone().into();
            }
            let played =
                tokio::time::timeout(PATIENCE, world.call(tool, arguments, &[], Mode::ConfirmSensitive))
                    .await;
            let text = played.unwrap_or_else(|_| hangs(tool, &path)).text();
            shown += u64::from(text.contains(INSIDE) || text.contains("f0.txt"));
            assert!(!text.contains(MARKER), "{tool} {path} after {} swaps: {text}", swapper.swaps());
        }
    }
    assert!(shown > 0 && swapper.stop() > 100);
}

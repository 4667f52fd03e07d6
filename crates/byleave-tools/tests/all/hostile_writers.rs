//! A hostile neighbour against the tools that change files: whatever it swaps, nothing outside is changed, read, shown or stored.
//!
//! `BYLEAVE_SWAPS=200000` for the long form.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::CallId;
use serde_json::{Value, json};

use crate::hands::BuiltinToolFixture;
use crate::hostile::{INSIDE, MARKER, RenameThread, files, swaps_wanted};

const TOOLS: [&str; 5] = ["write_file", "edit", "multi_edit", "apply_patch", "delete_file"];

// req: B7, P3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_writer_is_led_outside() {
    held(BuiltinToolFixture::workspace).await;
}

// req: B7, P3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_where_it_was_granted_files_elsewhere() {
    held(BuiltinToolFixture::elsewhere).await;
}

/// Runs every tool while the neighbour swaps in this directory.
async fn held(ground: fn(&BuiltinToolFixture) -> PathBuf) {
    let swaps_each = swaps_wanted().div_ceil(TOOLS.len() as u64);
    let calls_each = usize::try_from(swaps_wanted() / 200).unwrap().clamp(20, 1_000);
    let mut swaps = 0;
    for (seed, tool) in (1..).zip(TOOLS) {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let hands = BuiltinToolFixture::new(folder.path());
        let ground = ground(&hands);
        let swapper = RenameThread::start(&ground, &hands.outside(), seed);
        let before = stamped(&hands.outside());
        let (mut calls, mut done, mut refused) = (0, 0, 0);
        let paths = files();
        while calls < calls_each || swapper.swaps() < swaps_each {
            let name = &paths[calls % paths.len()];
            let path = ground.join(name);
            let arguments = arguments(tool, path.to_str().unwrap(), calls);
            // Half of the plans were made while nothing was swapped. The others are made in the current state, with links, and
            // are used only if they lead inside, as the rules require.
            let plan = match calls % 2 {
                0 => Some(granted(tool, &path)),
                _ => hands.plan(tool, &arguments).ok().filter(|plan| is_inside(plan, &ground)),
            };
            calls += 1;
            let Some(plan) = plan else {
                refused += 1;
                continue;
            };
            let id = CallId::new(uuid::Uuid::new_v4());
            let output = match calls % 4 {
                0 | 1 => hands.execute(id, tool, arguments, plan).await,
                _ => hands.rehearse(id, tool, arguments, plan).await,
            };
            let told = format!("{output:?}");
            assert!(!told.contains(MARKER), "{tool}: {told}");
            done += usize::from(!output.is_error);
        }
        swaps += swapper.stop();
        assert_eq!(stamped(&hands.outside()), before, "{tool}");
        assert_eq!(with_marker(&hands.kept_in()), Vec::<PathBuf>::new(), "{tool}");
        println!(
            "figure: {tool}: {calls} calls, {done} done, {refused} led outside already when they were judged"
        );
        // Shows that only the neighbour prevented success.
        let path = ground.join("calm");
        fs::write(&path, format!("{INSIDE} calm\n")).unwrap();
        let (arguments, plan) = (arguments(tool, path.to_str().unwrap(), 0), granted(tool, &path));
        let output = hands.execute(CallId::new(uuid::Uuid::new_v4()), tool, arguments, plan).await;
        assert!(!output.is_error, "{tool}: {output:?}");
    }
    println!("figure: {swaps} swaps");
    assert!(swaps >= swaps_wanted());
}

/// Differs slightly from the content of every file outside. A tool that looks there would show the near
/// match.
const FISHED: &str = "GATE_OUTSIDE_MARK3R";

fn arguments(tool: &str, name: &str, call: usize) -> Value {
    let old = if call % 3 == 2 { FISHED } else { INSIDE };
    let new = format!("{INSIDE} {call}");
    match tool {
        "write_file" => {
            let mode = if call % 3 == 2 { "append" } else { "overwrite" };
            json!({"path": name, "content": format!("{new}\n"), "mode": mode})
        }
        "edit" => json!({"path": name, "old": old, "new": new, "all": true}),
        "multi_edit" => {
            let edits =
                json!([{"old": " ", "new": "  ", "all": true}, {"old": old, "new": new, "all": true}]);
            json!({"path": name, "edits": edits})
        }
        "apply_patch" => {
            let line = if old == FISHED { format!("-{FISHED}\n") } else { String::new() };
            let patch =
                format!("*** Begin Patch\n*** Update File: {name}\n@@\n{line}+{new}\n*** End Patch\n");
            json!({ "patch": patch })
        }
        _ => json!({"path": name}),
    }
}

/// The plan for the state in which nothing is swapped.
fn granted(tool: &str, path: &Path) -> Plan {
    let path = path.to_str().unwrap().to_owned();
    let (read, write) = (Effect::Read { path: path.clone() }, Effect::Write { path: path.clone() });
    let effects = match tool {
        "write_file" => vec![write],
        "delete_file" => vec![Effect::Delete { path }],
        _ => vec![read, write],
    };
    Plan { effects, ..Plan::default() }
}

fn is_inside(plan: &Plan, workspace: &Path) -> bool {
    plan.effects.iter().all(|effect| match effect {
        Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => {
            Path::new(path).starts_with(workspace)
        }
        _ => false,
    })
}

/// Everything beneath a directory, with change times.
fn stamped(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    walked(root)
        .into_iter()
        .map(|path| {
            let found = fs::symlink_metadata(&path).unwrap();
            let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            (path, (found.mode(), found.mtime(), found.mtime_nsec(), content))
        })
        .collect()
}

/// The paths beneath a directory that have the marker in their name or content.
fn with_marker(root: &Path) -> Vec<PathBuf> {
    let has = |bytes: &[u8]| bytes.windows(MARKER.len()).any(|part| part == MARKER.as_bytes());
    let marked = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).unwrap();
        let target = fs::read_link(path).map(|to| has(to.as_os_str().as_bytes())).unwrap_or(false);
        has(path.as_os_str().as_bytes()) || target || found.is_file() && has(&fs::read(path).unwrap())
    };
    walked(root).into_iter().filter(marked).collect()
}

fn walked(root: &Path) -> Vec<PathBuf> {
    let (mut all, mut left) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(path) = left.pop() {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.push(path);
    }
    all
}

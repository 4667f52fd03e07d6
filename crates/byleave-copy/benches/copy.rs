//! Measures a copy of a workspace of 10,000 files: create, list, show, commit with everything kept, and undo.
//!
//! `cargo bench -p byleave-copy --bench copy` measures and writes its part of docs/performance.md, each figure for one change, next to `cp
//! -a` of the whole workspace. With `BYLEAVE_PROOF=short` it uses a tenth of the files and writes nothing. Either way it fails if something
//! takes more than twice its bar. It mounts overlays, so it needs root or user namespaces.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use byleave_copy::{CopyMethod, CopySettings, CopyStore, MountSource, OnConflict, WorkspaceCopy};
use uuid::Uuid;

const LIST_BAR: f64 = 15.0;
const COMMIT_BAR: f64 = 60.0;
const ROUNDS: usize = 5;

/// The commands, each with a description.
const COMMANDS: [(&str, &str); 5] = [
    ("every file changed", "find src -type f -exec sed -i s/file/line/ {} +"),
    ("as many made", "cp -r src new"),
    ("all removed", "rm -rf src"),
    ("all renamed", "mv src moved"),
    ("every mode changed", "chmod -R go-rwx src"),
];

fn main() {
    let short = std::env::var("BYLEAVE_PROOF").is_ok_and(|proof| proof == "short");
    let files = if short { 1000 } else { 10_000 };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap();
    let root = at.join("w");
    std::fs::create_dir(&root).unwrap();
    let make = format!(
        "git init -q . ; i=0; while [ $i -lt {files} ]; do d=src/m$((i % 100)); [ -d $d ] || mkdir -p $d; \
         printf 'file %s\\n%s\\n' $i $i > $d/f$i; i=$((i + 1)); done; git add -A"
    );
    sh(&root, &make);
    let store = CopyStore::open(&at.join("store"), CopySettings::default()).unwrap();
    let whole = once(|| sh(&at, "cp -a w whole && sync -f whole && rm -rf whole"));

    let start = best((0..40).map(|_| {
        let id = Uuid::new_v4();
        let started = Instant::now();
        let copy = store.create_copy(id, std::slice::from_ref(&root), CopyMethod::Overlay).unwrap();
        let took = started.elapsed();
        copy.discard().unwrap();
        took
    }));
    let mut table = format!(
        "A copy is made in {:.2} ms; `cp -a` of all {files} files, written to the disk and removed, takes {:.0} ms. The best of \
         {ROUNDS} rounds.\n\n",
        start.as_secs_f64() * 1e3,
        whole.as_secs_f64() * 1e3
    );
    table.push_str("| what a command did | changes | list, µs each | show, µs each | commit, µs each | undo, µs each | |\n");
    table.push_str("|---|--:|--:|--:|--:|--:|---|\n");
    let mut far = Vec::new();
    for (what, script) in COMMANDS {
        let row = measure(&store, &root, what, script);
        table.push_str(&row.text);
        far.extend(row.far);
    }
    println!("{table}");
    if !short {
        byleave_testkit::write_bench_page!("copy", &table);
    }
    assert!(far.is_empty(), "far beyond the bars of {LIST_BAR} and {COMMIT_BAR} µs: {far:?}");
}

/// One row of the table, and the values in it that exceed twice their bar.
struct TimingRow {
    text: String,
    far: Option<String>,
}

fn measure(store: &CopyStore, root: &Path, what: &str, script: &str) -> TimingRow {
    let mut took: [Vec<Duration>; 4] = Default::default();
    let mut count = 0;
    for _ in 0..ROUNDS {
        let copy = store.create_copy(Uuid::new_v4(), &[root.to_owned()], CopyMethod::Overlay).unwrap();
        mounted(&copy, root, script);
        // Flushes the writes of the command itself, which are not measured.
        sh(root, "sync -f .");
        let started = Instant::now();
        let mut changes = copy.changes().unwrap();
        took[0].push(started.elapsed());
        count = changes.list.len();
        took[1].push(once(|| copy.fill_diffs(&mut changes).unwrap()));
        took[2].push(once(|| drop(copy.commit(&changes).unwrap())));
        let id = copy.id();
        drop(copy);
        took[3].push(once(|| drop(store.undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap())));
    }
    let each =
        took.map(|all| best(all.into_iter()).as_secs_f64() * 1e6 / f64::from(u32::try_from(count).unwrap()));
    let [list, shown, commit, undo] = each;
    let word = if list <= LIST_BAR && commit <= COMMIT_BAR { "within" } else { "**beyond**" };
    let mut text = String::new();
    writeln!(text, "| {what} | {count} | {list:.1} | {shown:.1} | {commit:.1} | {undo:.1} | {word} |")
        .unwrap();
    let far = list > 2.0 * LIST_BAR || commit > 2.0 * COMMIT_BAR;
    TimingRow { far: far.then(|| text.clone()), text }
}

fn once(act: impl FnOnce()) -> Duration {
    let started = Instant::now();
    act();
    started.elapsed()
}

/// The best of several, because other load on the machine only adds time.
fn best(all: impl Iterator<Item = Duration>) -> Duration {
    all.min().unwrap()
}

fn sh(at: &Path, script: &str) {
    let status = Command::new("sh").arg("-c").arg(script).current_dir(at).status().unwrap();
    assert!(status.success(), "{script}");
}

fn mounted(copy: &WorkspaceCopy, root: &Path, script: &str) {
    let copied = copy.mounts();
    let Some(MountSource::Overlay { upper, work, .. }) = copied.first().map(|one| &one.source) else {
        return;
    };
    let root = root.display();
    let options =
        format!("lowerdir={root},upperdir={},workdir={},userxattr,volatile", upper.display(), work.display());
    let whole = format!("mount -t overlay overlay -o '{options}' '{root}' && cd '{root}' && {script}");
    let how = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    assert!(Command::new("unshare").args([how, "sh", "-c", &whole]).status().unwrap().success(), "{script}");
}

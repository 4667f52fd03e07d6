//! A process is killed at a random moment of a write, an edit, a patch over several files or a removal. Each file is the old one or
//! the new one at every moment. After recovery the call is done completely or not at all. A completed call can be undone.
//!
//! `BYLEAVE_KILLS=500` for the long form.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byleave_copy::{CopyState, OnConflict, RecoveryOutcome};
use byleave_gate::core::id::CallId;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::hands::BuiltinToolFixture;

const FOLDER: &str = "BYLEAVE_TEST_FOLDER";
const JOB: &str = "job.json";
const FILES: usize = 12;

/// Mode and content of every file, by path.
type TreeSnapshot = BTreeMap<String, (u32, Vec<u8>)>;

// req: B7, E6
#[test]
fn whenever_it_is_killed_every_file_is_old_or_new_and_undo_works() {
    killed_at_any_moment("execute");
}

// req: B7, E6
#[test]
fn whenever_it_is_killed_after_a_question_every_file_is_old_or_new_and_undo_works() {
    killed_at_any_moment("rehearse");
}

fn killed_at_any_moment(way: &str) {
    let kills =
        std::env::var("BYLEAVE_KILLS").map_or(13, |kills| kills.parse::<usize>().unwrap().div_ceil(2));
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let hands = BuiltinToolFixture::new(folder.path());
    let workspace = hands.workspace();
    for number in 0..FILES {
        fs::create_dir_all(workspace.join(format!("d{}", number % 3))).unwrap();
        fs::write(workspace.join(name(number)), old(number)).unwrap();
    }
    let before = tree(&workspace);
    let jobs = jobs(way);
    // The result of each without interruption, and its duration.
    let mut whole: Vec<(TreeSnapshot, Duration)> = jobs
        .iter()
        .map(|job| {
            let id = Uuid::new_v4();
            let (was_killed, took) = run(folder.path(), job, id, None);
            let after = tree(&workspace);
            assert!(!was_killed, "{job}");
            assert_ne!(after, before, "{job}");
            hands.store().undo(id, Uuid::new_v4(), OnConflict::Refuse).unwrap();
            assert_eq!(tree(&workspace), before, "{job}");
            (after, took)
        })
        .collect();
    let mut dice = KillTimingRandom(std::env::var("BYLEAVE_SEED").map_or(7, |seed| seed.parse().unwrap()));
    let (mut killed, mut interrupted, mut done) = (0, 0, 0);
    let mut round = 0;
    while killed < kills {
        round += 1;
        assert!(round < 20 * kills + 100, "only {killed} of {round} were killed in time");
        let number = dice.below(jobs.len());
        let (job, (after, longest)) = (&jobs[number], &mut whole[number]);
        let id = Uuid::new_v4();
        let moment = longest.mul_f64(dice.below(1000) as f64 / 1000.0);
        let (was_killed, took) = run(folder.path(), job, id, Some(moment));
        killed += usize::from(was_killed);
        // The machine may have been busier during the first measurement.
        if !was_killed {
            *longest = took.min(*longest);
        }
        let is = tree(&workspace);
        let paths = before.keys().chain(after.keys());
        for path in paths {
            let found = is.get(path);
            assert!(
                found == before.get(path) || found == after.get(path),
                "round {round}, {job}: {path} is neither"
            );
        }
        let store = hands.store();
        interrupted += usize::from(store.state(id).unwrap() == CopyState::Interrupted);
        let recovered = store.recover().unwrap();
        assert!(
            recovered
                .iter()
                .all(|one| matches!(one.end, RecoveryOutcome::Finished | RecoveryOutcome::RolledBack)),
            "round {round}: {recovered:?}"
        );
        let is = tree(&workspace);
        match store.state(id).unwrap() {
            CopyState::Committed => {
                assert!(is == *after, "round {round}, {job}: committed, and not as it should be");
                done += 1;
                store
                    .undo(id, Uuid::new_v4(), OnConflict::Refuse)
                    .unwrap_or_else(|fault| panic!("round {round}: {fault}"));
            }
            CopyState::Open | CopyState::Missing => {
                assert!(is == before, "round {round}, {job}: not committed, and changed")
            }
            other => panic!("round {round}, {job}: {other:?}"),
        }
        assert!(tree(&workspace) == before, "round {round}, {job}: not as it was");
    }
    println!(
        "figure: {round} rounds, {killed} killed, {interrupted} in the middle of a commit, {done} done and taken back"
    );
    assert!(kills < 100 || interrupted > 0, "none of {kills} was killed in the middle");
}

fn name(number: usize) -> String {
    format!("d{}/f{number}", number % 3)
}

fn old(number: usize) -> String {
    format!("first {number}\n{}last {number}\n", "a line that stays\n".repeat(2_000))
}

/// The calls, executed directly (`execute`) or as after a question (`rehearse`).
fn jobs(way: &str) -> Vec<Value> {
    let mut patch = "*** Begin Patch\n".to_owned();
    for number in 0..9 {
        patch
            .push_str(&format!("*** Update File: {}\n@@\n-first {number}\n+second {number}\n", name(number)));
    }
    patch.push_str(&format!("*** Update File: {}\n*** Move to: moved/m\n@@\n-first 9\n+second 9\n", name(9)));
    patch.push_str(&format!("*** Delete File: {}\n*** Add File: new/n\n+new\n*** End Patch\n", name(10)));
    let calls = [
        ("write_file", json!({"path": name(1), "content": "written\n".repeat(30_000)})),
        ("write_file", json!({"path": "made/deep/w", "content": "made\n"})),
        (
            "edit",
            json!({"path": name(2), "old": "a line that stays", "new": "a line that changes", "all": true}),
        ),
        (
            "multi_edit",
            json!({"path": name(3), "edits": [{"old": "first", "new": "second"}, {"old": "last", "new": "end"}]}),
        ),
        ("apply_patch", json!({"patch": patch})),
        ("delete_file", json!({"path": name(4)})),
    ];
    // Patches change most, so they are tried most.
    let often = [0, 1, 2, 3, 4, 4, 4, 5];
    let job = |number: usize| json!({"way": way, "tool": calls[number].0, "arguments": calls[number].1});
    often.into_iter().map(job).collect()
}

/// Runs a job in a separate process and kills it after a delay. Returns whether it was killed before it ended, and how long it
/// worked.
fn run(folder: &Path, job: &Value, id: Uuid, kill_after: Option<Duration>) -> (bool, Duration) {
    fs::write(folder.join(JOB), json!([id, job]).to_string()).unwrap();
    let mut child = Command::new("/proc/self/exe")
        .args(["killed::the_job", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The job reports its begin, so that the kill does not hit the start of the program.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begins")), "{job}");
    let start = Instant::now();
    if let Some(after) = kill_after {
        while start.elapsed() < after {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
    }
    let told: Vec<String> = lines.map(Result::unwrap).collect();
    let (status, took) = (child.wait().unwrap(), start.elapsed());
    assert!(status.success() || status.signal() == Some(9), "{job}: {status}: {told:?}");
    (status.signal().is_some(), took)
}

#[test]
#[ignore = "a part of the test above, run in a process that is killed"]
fn the_job() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let job: Value = serde_json::from_str(&fs::read_to_string(folder.join(JOB)).unwrap()).unwrap();
    let id = CallId::new(job[0].as_str().unwrap().parse().unwrap());
    let hands = BuiltinToolFixture::new(folder);
    let (tool, arguments) = (job[1]["tool"].as_str().unwrap(), job[1]["arguments"].clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!("begins");
    let plan = hands.plan(tool, &arguments).unwrap();
    let output = runtime.block_on(async {
        match job[1]["way"].as_str() {
            Some("execute") => hands.execute(id, tool, arguments, plan).await,
            _ => hands.rehearse(id, tool, arguments, plan).await,
        }
    });
    assert!(!output.is_error, "{output:?}");
}

fn tree(root: &Path) -> TreeSnapshot {
    let mut all = TreeSnapshot::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if found.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        all.insert(path.display().to_string(), (found.permissions().mode(), content));
    }
    all
}

/// A deterministic sequence of different numbers.
struct KillTimingRandom(u64);

impl KillTimingRandom {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

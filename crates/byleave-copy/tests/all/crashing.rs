//! Crashes: a process is killed at a random moment of a commit or an undo. After recovery, everything is as before or as after, and
//! the store says which.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byleave_copy::{CopySettings, CopyState, CopyStore, OnConflict, RecoveryOutcome};
use uuid::Uuid;

use crate::place::{CopyFixture, SeededRng, TreeSnapshot, differences, number, tree};

const FILES: &str = "mkdir -p src/deep/er gone/in old; for i in $(seq 1 120); do echo $i > src/f$i; echo $i > gone/in/g$i; done; \
    echo t > type; ln -s src l; chmod 750 src/deep; echo r > replaced";
const SCRIPT: &str = "for i in $(seq 1 60); do echo changed >> src/f$i; done; for i in $(seq 61 90); do rm src/f$i; done; \
    for i in $(seq 1 40); do mkdir -p new/d$i; echo $i > new/d$i/f; done; rm -r gone; mv old young; rm type; mkdir type; echo i > type/i; \
    rm -r src/deep; echo file > src/deep; ln -sfn new l; chmod 555 new/d1; chmod 711 .";

// req: E6
#[test]
fn whenever_it_is_killed_it_is_wholly_done_or_wholly_not() {
    check(&CopyFixture::new(), number("BYLEAVE_CRASHES", 12));
}

// req: E6
#[test]
fn also_with_the_store_on_another_filesystem() {
    check(&CopyFixture::apart(), number("BYLEAVE_CRASHES", 12) / 2);
}

fn check(place: &CopyFixture, rounds: usize) {
    let mut dice = SeededRng(number("BYLEAVE_SEED", 11) as u64 | 1);
    place.directly(FILES);
    let before = tree(&place.root);
    let mut killed = 0;
    let mut interrupted = 0;
    // The duration of an uninterrupted job from its first output on, measured during the test.
    let mut usual = Duration::from_millis(40);
    // On a slow machine the kill comes too late, so the test runs more rounds until enough were killed in
    // time.
    let enough = |round, killed, interrupted| {
        round >= rounds && killed * 3 > rounds && (rounds < 12 || interrupted > 0) || round >= rounds * 10
    };
    let mut round = 0;
    while !enough(round, killed, interrupted) {
        let copy = place.on_copy(SCRIPT);
        copy.changes().unwrap();
        let id = copy.id();
        drop(copy);
        let undo = Uuid::new_v4();
        // Kills either the commit or, if that is not killed, its undo.
        let kills_undo = dice.roll(2) == 0;
        let started = Instant::now();
        if kills_undo {
            run(place, &format!("commit {id}"), None);
        } else {
            killed += usize::from(run(place, &format!("commit {id}"), Some(moment(&mut dice, usual))));
        }
        let mut after = None;
        if kills_undo {
            usual = (usual + started.elapsed()) / 2;
            after = Some(tree(&place.root));
            killed += usize::from(run(place, &format!("undo {id} {undo}"), Some(moment(&mut dice, usual))));
        }
        let watched = if kills_undo { undo } else { id };
        let was_interrupted = place.store.state(watched).unwrap() == CopyState::Interrupted;
        interrupted += usize::from(was_interrupted);
        // Recovery itself may be killed as well, and is then repeated.
        if dice.roll(3) == 0 {
            run(place, "recover", Some(moment(&mut dice, usual)));
        }
        let recovered = place.store.recover().unwrap();
        assert!(
            recovered
                .iter()
                .all(|one| matches!(one.end, RecoveryOutcome::Finished | RecoveryOutcome::RolledBack)),
            "round {round}: {recovered:?}"
        );
        assert_eq!(place.store.recover().unwrap(), [], "round {round}");
        let is = tree(&place.root);
        let state = place.store.state(watched).unwrap();
        let expected: &TreeSnapshot = match (kills_undo, &state) {
            (false, CopyState::Committed) => {
                assert_ne!(is, before, "round {round}: said to be committed");
                after.get_or_insert_with(|| is.clone())
            }
            (false, CopyState::Open) | (true, CopyState::Committed) => &before,
            (true, CopyState::Missing) => after.as_ref().unwrap(),
            other => panic!("round {round}: {other:?}"),
        };
        assert_eq!(differences(expected, &is), [""; 0], "round {round}: {state:?}");
        assert!(no_traces(&place.root), "round {round}");
        // Returns to the initial state for the next round with the store's own undo, which shows that its
        // answer is reliable.
        if is != before {
            place
                .store
                .undo(id, Uuid::new_v4(), OnConflict::Refuse)
                .unwrap_or_else(|fault| panic!("round {round}: {fault}"));
            assert_eq!(differences(&before, &tree(&place.root)), [""; 0], "round {round}");
        }
        round += 1;
    }
    assert!(killed * 3 > rounds, "only {killed} of {round} were killed in time");
    assert!(rounds < 12 || interrupted > 0, "none of {round} was killed in the middle");
    eprintln!("figure: {round} rounds, {killed} killed, {interrupted} in the middle of their steps");
}

fn moment(dice: &mut SeededRng, usual: Duration) -> Duration {
    usual.mul_f64(f64::from(u32::try_from(dice.roll(1000)).unwrap()) / 1000.0)
}

fn no_traces(root: &Path) -> bool {
    std::fs::read_dir(root)
        .unwrap()
        .all(|entry| !entry.unwrap().file_name().to_string_lossy().starts_with(".byleave"))
}

/// Runs a job in a separate process and kills it after a delay. Returns whether it was killed before it
/// ended.
fn run(place: &CopyFixture, job: &str, kill_after: Option<Duration>) -> bool {
    let mut child = Command::new("/proc/self/exe")
        .args(["crashing::the_job", "--exact", "--ignored", "--nocapture"])
        .env("BYLEAVE_JOB", job)
        .env("BYLEAVE_STORE", place.store.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The job reports its begin, so that the kill does not hit the start of the program.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("begins")), "{job}");
    if let Some(after) = kill_after {
        std::thread::sleep(after);
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{job}: {status}");
    status.signal().is_some()
}

#[test]
#[ignore = "a part of the test above, run in a process that is killed"]
fn the_job() {
    let Ok(job) = std::env::var("BYLEAVE_JOB") else { return };
    let store =
        CopyStore::open(Path::new(&std::env::var_os("BYLEAVE_STORE").unwrap()), CopySettings::default())
            .unwrap();
    let words: Vec<_> = job.split(' ').collect();
    let id = |number: usize| Uuid::parse_str(words[number]).unwrap();
    println!("begins");
    match words[0] {
        "commit" => {
            let copy = store.reopen(id(1)).unwrap();
            copy.commit(&store.changes(id(1)).unwrap()).unwrap();
        }
        "undo" => drop(store.undo(id(1), id(2), OnConflict::Refuse).unwrap()),
        _ => drop(store.recover().unwrap()),
    }
}

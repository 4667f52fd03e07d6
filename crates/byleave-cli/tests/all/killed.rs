//! A commit or an undo is killed at any moment. Afterwards it is either complete or absent, and the audit log says which.
//!
//! `BYLEAVE_CRASHES=300` for the long form.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::desk::{OtherUserWorld, said};

const FILES: usize = 120;
const WAIVE: (&str, &str) = ("BYLEAVE_WAIVE", "memory-limited");

/// Seeded numbers that differ from each other. The sequence is the same in every run.
struct KillTimingRandom(u64);

impl KillTimingRandom {
    fn below(&mut self, bound: u128) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u64::try_from(u128::from(self.0) % bound.max(1)).unwrap()
    }
}

type TreeTexts = BTreeMap<String, String>;

impl OtherUserWorld {
    fn tree(&self) -> TreeTexts {
        let mut all = TreeTexts::new();
        let mut left = vec![self.world.workspace()];
        while let Some(path) = left.pop() {
            for entry in fs::read_dir(&path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path.clone());
                }
                let text = fs::read_to_string(&path).unwrap_or_default();
                all.insert(path.display().to_string(), text);
            }
        }
        all
    }

    fn plainly(&self, words: &[&str]) -> (Option<i32>, String, String) {
        said(&self.command(words).env(WAIVE.0, WAIVE.1).stdin(Stdio::null()).output().unwrap())
    }

    fn told(&self, words: &[&str]) -> Value {
        let (_, out, err) = self.plainly(words);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"))
    }

    /// Runs a command and kills it after a while. Returns whether it was killed.
    fn killed(&self, words: &[&str], after: Duration) -> bool {
        let mut command = self.command(words);
        command.env(WAIVE.0, WAIVE.1).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + after;
        while Instant::now() < end {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        // Kills only this child, by its own handle.
        child.kill().unwrap();
        child.wait().unwrap();
        true
    }

    /// Returns the outcome of a call in the audit log, after the rest of the call was resumed.
    fn outcome(&self, call: &str) -> String {
        self.plainly(&["resume", "--ask", "inbox"]);
        let calls = self.told(&["log", "--json"]);
        let found = calls.as_array().unwrap().iter().find(|one| one["call"] == call);
        let found = found.unwrap_or_else(|| panic!("{call} is not in the book: {calls}"));
        found["outcome"].as_str().or(found["state"].as_str()).unwrap().to_owned()
    }
}

// req: E6, E1
#[test]
fn a_commit_and_an_undo_are_whole_or_not_at_all() {
    let rounds: usize = std::env::var("BYLEAVE_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let desk = OtherUserWorld::new();
    for n in 0..FILES {
        fs::write(desk.world.workspace().join(format!("f{n}")), format!("{n}\n")).unwrap();
        std::os::unix::fs::chown(desk.world.workspace().join(format!("f{n}")), Some(61_003), Some(61_003))
            .unwrap();
    }
    let script = "for f in f*; do case $f in *7) rm $f;; *3) mv $f g$f;; *) echo more >> $f;; esac; done; \
                  mkdir d; for n in 1 2 3 4 5 6 7 8 9; do echo $n > d/$n; done";
    let (mut dice, mut kills) = (KillTimingRandom(0x9e37_79b9_7f4a_7c15), [0; 2]);
    let mut spans = [Duration::from_millis(150); 2];
    // Adds rounds if hardly any process was killed, because the test would show nothing then.
    let mut done = 0;
    while done < rounds || kills.iter().sum::<usize>() * 2 <= rounds && done < 5 * rounds {
        let round = done;
        done += 1;
        let before = desk.tree();
        let asked = desk.told(&["rehearse", "--later", "--json", "--", script]);
        let (call, question) = (asked["call"].as_str().unwrap(), asked["question"]["id"].as_str().unwrap());
        let answer = ["inbox", "answer", question, "yes"];
        let after = Duration::from_micros(dice.below(spans[0].as_micros()));
        kills[0] += usize::from(desk.killed(&answer, after));
        let outcome = match desk.outcome(call).as_str() {
            // The process was killed before the answer was in the audit log.
            "waiting" => {
                assert_eq!(desk.tree(), before, "round {round}: it waits, and something changed");
                let began = Instant::now();
                let (code, out, err) = desk.plainly(&answer);
                assert_eq!(code, Some(0), "{out}{err}");
                spans[0] = began.elapsed();
                desk.outcome(call)
            }
            other => other.to_owned(),
        };
        assert_eq!(outcome, "completed", "round {round}");
        let changed = desk.tree();
        assert!(changed != before && changed.keys().any(|path| path.ends_with("/d/9")), "round {round}");
        assert_eq!(
            changed.keys().filter(|path| path.contains("/gf")).count(),
            FILES.div_ceil(10),
            "round {round}"
        );

        let after = Duration::from_micros(dice.below(spans[1].as_micros()));
        kills[1] += usize::from(desk.killed(&["undo", call], after));
        let newest = desk.told(&["log", "--json"])[0].clone();
        let undo = newest["call"].as_str().unwrap();
        let outcome = if undo == call { "waiting".to_owned() } else { desk.outcome(undo) };
        if outcome != "completed" {
            // The process was killed before the undo, or its own answer, was in the audit log.
            assert_eq!(outcome, "waiting", "round {round}");
            assert_eq!(desk.tree(), changed, "round {round}: not begun, and something changed");
            let began = Instant::now();
            // The question of the undo may be open by now. Another undo would wait behind it.
            let open = desk.told(&["inbox", "--json"]);
            let asked = open.as_array().unwrap().iter().find(|one| one["call"] == undo);
            let (code, out, err) = match asked.and_then(|one| one["question"].as_str()) {
                Some(question) => desk.plainly(&["inbox", "answer", question, "yes"]),
                None => desk.plainly(&["undo", call]),
            };
            assert_eq!(code, Some(0), "round {round}: {out}{err}");
            spans[1] = began.elapsed();
        }
        assert_eq!(desk.tree(), before, "round {round}");
    }
    let (code, out, err) = desk.plainly(&["audit", "verify"]);
    assert_eq!(code, Some(0), "{out}{err}");
    println!("figure: {done} rounds, killed {} commits and {} undos", kills[0], kills[1]);
    assert!(kills.iter().sum::<usize>() * 2 > rounds, "hardly anything was killed: {kills:?}");
}

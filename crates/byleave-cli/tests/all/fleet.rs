//! A whole fleet of real programs: an engine, its service, a Postgres, the gateway (`byleave serve --fleet`) and workers.
//!
//! The engine and the Postgres are of one's own, started by the same scripts as everyone's, because they are killed here. For the
//! long form of the last: `BYLEAVE_KILLS=200 BYLEAVE_NODES=3`.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::scene::{Dice, People, Scene};
use crate::serve::{Served, request, token};
use crate::worker::{Hired, settled, token_file, token_file_for};
use crate::world::World;

/// The longest between two deaths.
const LIFE_MS: u64 = 3_000;

/// An engine with its service and a Postgres. Stopped when dropped.
struct Fleet {
    dir: tempfile::TempDir,
    port: u16,
    nodes: u32,
}

impl Fleet {
    fn start(nodes: u32) -> Self {
        let fleet = Self { dir: tempfile::tempdir().unwrap(), port: free_ports(), nodes };
        fleet.up();
        fleet
    }

    /// Starts what does not run.
    fn up(&self) {
        self.script("fleet", &["up", "--nodes", &self.nodes.to_string()]);
    }

    /// What says how it is reached.
    fn file(&self) -> String {
        self.run().join("fleet.toml").to_str().unwrap().to_owned()
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("fleet")
    }

    /// The processes of a part, its children with it.
    fn pids(&self, part: &str) -> Vec<String> {
        let said = if part == "postgres" {
            let said = self.script("postgres", &["status"]);
            said.split("pid ").nth(1).and_then(|rest| rest.split(')').next()).unwrap().to_owned()
        } else {
            std::fs::read_to_string(self.run().join(format!("{part}.pid"))).unwrap()
        };
        let pid = said.split_whitespace().next().unwrap().to_owned();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        std::iter::once(pid).chain(children.split_whitespace().map(str::to_owned)).collect()
    }

    fn signal(&self, part: &str, signal: &str) {
        let pids = self.pids(part);
        // Some of the children may have ended meanwhile.
        drop(Command::new("kill").arg(signal).args(&pids).output().unwrap());
        let is_there = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().find(|line| line.starts_with("State:")).is_some_and(|line| !line.contains('Z'))
        };
        while signal == "-KILL" && pids.iter().any(is_there) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stand_still(&self, part: &str, ms: u64) {
        self.signal(part, "-STOP");
        std::thread::sleep(Duration::from_millis(ms));
        self.signal(part, "-CONT");
    }

    fn script(&self, name: &str, words: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name);
        // Beside this program's, as `cargo nextest run` builds both.
        let service = Path::new(env!("CARGO_BIN_EXE_byleave")).with_file_name("byleave-fleet");
        let output = Command::new(script)
            .args(words)
            .env("CARGO_TARGET_DIR", self.dir.path())
            .env_remove("BYLEAVE_FLEET_BOOK")
            .env("BYLEAVE_FLEET_RUN", self.run())
            .env("BYLEAVE_FLEET_PORT", self.port.to_string())
            .env("BYLEAVE_FLEET_SERVICE", service)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let url = std::fs::read_to_string(self.dir.path().join("postgres.url")).unwrap();
        self.script("fleet", &["down"]);
        self.script("postgres", &["down"]);
        // Its data lies where the user that it runs as can go.
        let run = url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).unwrap();
        std::fs::remove_dir_all(run.replace("%2F", "/")).unwrap();
    }
}

/// The first of twelve in a row.
fn free_ports() -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if first < u16::MAX - 12 && (first..first + 12).all(is_free) {
            return first;
        }
    }
    panic!("there are no twelve free ports in a row")
}

// req: E4, R5
#[test]
fn a_question_is_answered_at_the_gateway_and_a_worker_writes_the_file() {
    let (fleet, world) = (Fleet::start(1), World::new());
    let (bot, ann) = (token(&world, &["bot"]), token(&world, &["web-ann", "--person"]));
    let words = ["--fleet", &*fleet.file()];
    let served = Served::start(&world, &words);
    let hired = Hired::start(&world, "w1", &token_file(&world, "w1"), &served.address);
    let body = json!({"tool": "append_line", "arguments": {"path": "notes.txt", "line": "first"}});
    let (_, standing) = served.ask(&bot, "POST", "/v1/calls?wait=0", &body);
    let answer = |served: &Served| {
        let end = Instant::now() + Duration::from_secs(30);
        let question = loop {
            let open = served.ask(&ann, "GET", "/v1/questions", &Value::Null).1;
            match &open["questions"][0]["question"] {
                Value::String(id) => break id.clone(),
                _ => assert!(Instant::now() < end, "nobody is asked: {open}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let path = format!("/v1/questions/{question}");
        let sheet = served.ask(&ann, "GET", &path, &Value::Null).1;
        assert!(sheet.to_string().contains("notes.txt"), "{sheet}");
        let yes = json!({"digest": sheet["question"]["digest"], "answer": {"say": "yes"}});
        let (status, said) = served.ask(&ann, "POST", &format!("{path}/answer"), &yes);
        assert!(matches!(status, 200 | 202), "{said}");
    };
    answer(&served);
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\n");
    // One gateway at a time in a directory, and one at a time altogether.
    let second = world.quietly(&["serve", "--listen", "127.0.0.1:0", "--fleet", words[1]], "");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.code() == Some(2) && said.contains("runs there already"), "{said}");
    // What is asked under one gateway is answered under the next.
    let (_, standing) = request(&served.address, &bot, "k2", "POST", "/v1/calls?wait=10", &body).unwrap();
    assert_eq!(standing["state"], "waiting", "{standing}");
    let address = served.address.clone();
    served.stop();
    let served = Served::start_at(&world, &address, &words, &[]);
    answer(&served);
    let standing = settled(&served, &bot, &standing["call"]);
    assert_eq!(standing["result"]["outcome"], "completed", "{standing}");
    assert_eq!(world.file("notes.txt"), "first\nfirst\n");
    let verified = served.ask(&ann, "POST", "/v1/book/verify", &Value::Null).1;
    assert_eq!((&verified["sound"], &verified["records"]), (&json!(true), &json!(2)), "{verified}");
    hired.stop();
    served.stop();
}

// req: E1
#[test]
fn a_gateway_that_stands_still_for_too_long_is_followed_by_another_and_ends() {
    let (fleet, world) = (Fleet::start(1), World::new());
    let words = ["--fleet", &*fleet.file()];
    let first = Served::start(&world, &words);
    let mut command = world.command(Path::new(env!("CARGO_BIN_EXE_byleave")));
    command.env("BYLEAVE_STATE", world.workspace().join("../second"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(words);
    let mut second =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(second.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().unwrap(), "another gateway serves this fleet; waiting for its place");
    let status = |code| {
        let looked = world.quietly(&["fleet", "status", words[1]], "");
        let text = String::from_utf8_lossy(&[looked.stdout, looked.stderr].concat()).into_owned();
        assert_eq!(looked.status.code(), Some(code), "{text}");
        text
    };
    assert!(status(0).contains("gateway: it is there"));
    first.signal(rustix::process::Signal::STOP);
    assert!(status(1).contains("it is not heard any more"));
    assert!(said.next().unwrap().starts_with("listening on "));
    first.signal(rustix::process::Signal::CONT);
    assert_eq!(first.ended(), Some(2), "it serves beside another");
    second.kill().unwrap();
    second.wait().unwrap();
}

/// How long calls of one bot take, one after the other: the one that is longer than all but a hundredth.
fn p99_ms(served: &Served, bot: &str, round: &str, many: usize) -> f64 {
    let body = json!({"tool": "read_file", "arguments": {"path": "notes.txt"}});
    let mut took: Vec<f64> = (0..many)
        .map(|call| {
            let (key, began) = (format!("{round}-{call}"), Instant::now());
            let (_, heard) = request(&served.address, bot, &key, "POST", "/v1/calls?wait=60", &body).unwrap();
            assert_eq!(heard["result"]["outcome"], "completed", "{heard}");
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[(took.len() * 99).div_ceil(100) - 1]
}

// req: E4
#[test]
fn a_tenant_that_floods_is_told_to_come_back_and_holds_up_no_other() {
    let number = |name: &str, usual: usize| std::env::var(name).map_or(usual, |many| many.parse().unwrap());
    let (flood, calls) = (number("BYLEAVE_FLOOD", 600), number("BYLEAVE_CALLS", 60));
    let (fleet, desk) = (Fleet::start(1), Desk::new());
    let world = &desk.world;
    std::fs::write(world.workspace().join("notes.txt"), "hello").unwrap();
    let words =
        ["--fleet", &*fleet.file(), "--mode", "yolo", "--requests-per-second", "100000", "--tenant", "loud"];
    let (loud, quiet) = (token(world, &["loud-bot", "--tenant", "loud"]), token(world, &["bot"]));
    let files = [("w1", vec![]), ("w2", vec!["--tenant", "loud"])].map(|(name, words)| {
        let file = token_file_for(world, name, &words);
        desk.give(&file);
        (name, file)
    });
    let served = Served::start(world, &words);
    let hired = files.map(|(name, file)| {
        // They would be on machines of their own: what is left of this one is enough for who is loud.
        let mut command = match name {
            "w1" => desk.command(&[]),
            _ => {
                let mut command = world.command(Path::new("nice"));
                command.args(["-n", "19"]).arg(&desk.program);
                desk.by_another(command)
            }
        };
        command.env("BYLEAVE_WAIVE", "memory-limited");
        Hired::start_by(command, world, name, &file, &served.address)
    });
    p99_ms(&served, &quiet, "first", 5);
    let before = p99_ms(&served, &quiet, "before", calls);
    let over = AtomicBool::new(false);
    let (taken, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let during = std::thread::scope(|scope| {
        for thread in 0..8 {
            let (served, loud, over, taken, refused) = (&served, &loud, &over, &taken, &refused);
            scope.spawn(move || {
                let body = json!({"tool": "bash", "arguments": {"command": "sleep 10"}, "session": format!("s{thread}")});
                for call in 0..flood / 8 {
                    let key = format!("{thread}-{call}");
                    while !over.load(Ordering::Relaxed) {
                        let made = request(&served.address, loud, &key, "POST", "/v1/calls?wait=0", &body);
                        match made.unwrap() {
                            (200 | 202, _) => {
                                taken.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            (429, _) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                                std::thread::sleep(Duration::from_secs(1));
                            }
                            (status, said) => panic!("{status} {said}"),
                        }
                    }
                }
            });
        }
        // Until it is told to come back: then all that is allowed is there.
        let end = Instant::now() + Duration::from_secs(60);
        while refused.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < end, "nobody is told to come back; {taken:?} were taken");
            std::thread::sleep(Duration::from_millis(50));
        }
        let during = std::panic::catch_unwind(|| p99_ms(&served, &quiet, "during", calls));
        over.store(true, Ordering::Relaxed);
        during.unwrap()
    });
    println!(
        "{} slow calls of one tenant were taken, {} times it was told to come back; another's p99 {before:.0} ms before, \
         {during:.0} ms beside them: {:.1} times",
        taken.into_inner(),
        refused.into_inner(),
        during / before
    );
    // Times are noisy: only the long form, with the machine for itself, goes by the bar.
    let bar = if flood >= 2_000 { 3.0 } else { 6.0 };
    assert!(during <= before * bar, "{before} {during}");
    hired.into_iter().for_each(|mut hired| hired.kill());
}

// req: E1, E4
#[test]
fn whatever_of_a_fleet_is_killed_or_stands_still_nothing_is_lost_and_nothing_runs_twice() {
    let number = |name: &str, usual: u32| std::env::var(name).map_or(usual, |many| many.parse().unwrap());
    let (kills, nodes) = (number("BYLEAVE_KILLS", 14), number("BYLEAVE_NODES", 1));
    let (fleet, world) = (Fleet::start(nodes), World::new());
    let people = People::new(&world);
    let probe = token(&world, &["probe"]);
    let ann = token(&world, &["reader", "--person"]);
    let files = ["w1", "w2"].map(|name| (name, token_file(&world, name)));
    let file = fleet.file();
    let words =
        ["--fleet", &*file, "--worker-lease", "4s", "--mode", "yolo", "--requests-per-second", "100000"];
    let mut served = Served::start(&world, &words);
    let address = served.address.clone();
    let hire = |which: usize| Hired::start(&world, files[which].0, &files[which].1, &address);
    let mut hired = [hire(0), hire(1)];
    let scene = Scene::at(&address);
    let mut deaths = std::collections::BTreeMap::<&str, usize>::new();
    let mut stalls = Vec::new();
    let told = scene.play(&world, &people, || {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        for death in 0..kills {
            std::thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            let which = usize::try_from(dice.below(2)).unwrap();
            let node = dice.below(u64::from(nodes)) + 1;
            let server = if nodes == 1 { "server".to_owned() } else { format!("server-{node}") };
            let started = Instant::now();
            let what = match death % 10 {
                0 => {
                    served.kill();
                    served = Served::start_at(&world, &address, &words, &[]);
                    "gateway killed"
                }
                1 => {
                    hired[which].kill();
                    hired[which] = hire(which);
                    "worker killed"
                }
                2 => {
                    fleet.signal("service", "-KILL");
                    fleet.up();
                    "service killed"
                }
                3 => {
                    fleet.signal("postgres", "-KILL");
                    std::thread::sleep(Duration::from_millis(dice.below(2_000)));
                    fleet.up();
                    "Postgres killed"
                }
                4 if nodes == 1 => {
                    fleet.signal(&server, "-KILL");
                    fleet.up();
                    "engine killed"
                }
                4 => {
                    fleet.signal(&server, "-KILL");
                    // Of the others, before it is back.
                    let body = json!({"tool": "read_file", "arguments": {"path": "notes.txt"}});
                    let (_, heard) =
                        scene.ask(&probe, &death.to_string(), "POST", "/v1/calls?wait=60", &body);
                    assert_eq!(heard["result"]["outcome"], "completed", "{heard}");
                    stalls.push(started.elapsed());
                    fleet.script("fleet", &["node", &node.to_string(), "start"]);
                    "node killed"
                }
                5 => {
                    served.signal(rustix::process::Signal::STOP);
                    std::thread::sleep(Duration::from_millis(dice.below(1_000)));
                    served.signal(rustix::process::Signal::CONT);
                    "gateway stopped"
                }
                6 => {
                    hired[which].signal(rustix::process::Signal::STOP);
                    // For less than a lease, or for more.
                    std::thread::sleep(Duration::from_millis(dice.below(8_000)));
                    hired[which].signal(rustix::process::Signal::CONT);
                    "worker stopped"
                }
                7 => {
                    fleet.stand_still("service", dice.below(2_000));
                    "service stopped"
                }
                8 => {
                    fleet.stand_still("postgres", dice.below(2_000));
                    "Postgres stopped"
                }
                _ => {
                    fleet.stand_still(&server, dice.below(4_000));
                    "node stopped"
                }
            };
            *deaths.entry(what).or_default() += 1;
        }
    });
    hired.into_iter().for_each(Hired::stop);
    let verified = served.ask(&ann, "POST", "/v1/book/verify", &Value::Null).1;
    assert_eq!(verified["sound"], json!(true), "{verified}");
    served.stop();
    let stall = stalls.iter().max().map_or(0.0, Duration::as_secs_f64);
    println!("{nodes} nodes; {deaths:?}; the longest stall after a node was killed {stall:.1} s; {told}");
    // Otherwise nothing was shown.
    assert!(told.calls() > kills as usize && told.answers > kills as usize / 4, "{told}");
    assert!(stall <= 10.0, "{stalls:?}");
}

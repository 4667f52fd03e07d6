//! Any part of a fleet is killed or stopped. The long form: `BYLEAVE_KILLS=100 BYLEAVE_LIFE_MS=12000 BYLEAVE_NODES=3`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{FleetFixture, number};
use crate::dice::SeededRandom;
use crate::scene::{ClientLoadScenario, ScenarioTokens};
use crate::serve::{HttpServerProcess, token};
use crate::worker::{WorkerProcess, token_file};
use crate::world::CliTestWorld;

// req: E1, E4
#[test]
#[ignore = "long: scripts/prove fleet-chaos"]
fn whatever_of_a_fleet_is_killed_or_stands_still_nothing_is_lost_and_nothing_runs_twice() {
    let (kills, nodes) = (number("BYLEAVE_KILLS", 14), number("BYLEAVE_NODES", 1));
    // The longest time between two kills.
    let life = u64::from(number("BYLEAVE_LIFE_MS", 3_000));
    let (fleet, world) = (FleetFixture::start(nodes), CliTestWorld::new());
    let people = ScenarioTokens::new(&world);
    let probe = token(&world, &["probe"]);
    let ann = token(&world, &["reader", "--person"]);
    let files = ["w1", "w2"].map(|name| (name, token_file(&world, name)));
    let file = fleet.file();
    let words =
        ["--fleet", &*file, "--worker-lease", "4s", "--mode", "yolo", "--requests-per-second", "100000"];
    let mut served = HttpServerProcess::start(&world, &words);
    let address = served.address.clone();
    let hire = |which: usize| WorkerProcess::start(&world, files[which].0, &files[which].1, &address);
    let mut hired = [hire(0), hire(1)];
    let scene = ClientLoadScenario::at(&address);
    let mut deaths = std::collections::BTreeMap::<&str, usize>::new();
    let mut stalls = Vec::new();
    let told = scene.play(&world, &people, || {
        let mut dice = SeededRandom(0x9e37_79b9_7f4a_7c15);
        for death in 0..kills {
            std::thread::sleep(Duration::from_millis(dice.below(life)));
            let which = usize::try_from(dice.below(2)).unwrap();
            let node = dice.below(u64::from(nodes)) + 1;
            let server = if nodes == 1 { "server".to_owned() } else { format!("server-{node}") };
            let started = Instant::now();
            let what = match death % 10 {
                0 => {
                    served.kill();
                    served = HttpServerProcess::start_at(&world, &address, &words, &[]);
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
                    // Asks the other nodes before the killed one is back.
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
                    // Stops the worker for less than a lease, or for longer.
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
        scene.await_calls(kills as usize, kills as usize / 4);
    });
    hired.into_iter().for_each(WorkerProcess::stop);
    let verified = served.ask(&ann, "POST", "/v1/audit/verify", &Value::Null).1;
    assert_eq!(verified["sound"], json!(true), "{verified}");
    served.stop();
    let stall = stalls.iter().max().map_or(0.0, Duration::as_secs_f64);
    println!(
        "figure: {nodes} nodes; {deaths:?}; the longest stall after a node was killed {stall:.1} s; {told}"
    );
    // With fewer calls and answers the test would show nothing.
    assert!(told.calls() > kills as usize && told.answers > kills as usize / 4, "{told}");
    assert!(stall <= 10.0, "{stalls:?}");
}

//! `byleave serve` is killed at any moment under load. No accepted call is lost, nothing runs twice, and a client that repeats a key gets
//! the same result.
//!
//! `BYLEAVE_KILLS=300` for the long form.

use std::time::Duration;

use crate::dice::SeededRandom;
use crate::scene::{ClientLoadScenario, ScenarioTokens};
use crate::serve::HttpServerProcess;
use crate::world::CliTestWorld;

/// The longest life of a server after it listens.
const LIFE_MS: u64 = 250;

// req: E1
#[test]
fn a_server_killed_at_any_moment_loses_nothing_and_runs_nothing_twice() {
    let kills: usize = std::env::var("BYLEAVE_KILLS").map_or(12, |many| many.parse().unwrap());
    let world = CliTestWorld::new();
    let people = ScenarioTokens::new(&world);
    let start = || HttpServerProcess::start(&world, &["--mode", "yolo", "--requests-per-second", "100000"]);
    let mut served = start();
    let scene = ClientLoadScenario::at(&served.address);
    let told = scene.play(&world, &people, || {
        let mut dice = SeededRandom(0x9e37_79b9_7f4a_7c15);
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(dice.below(LIFE_MS)));
            served.kill();
            served = start();
            scene.moves_to(&served.address);
        }
        scene.await_calls(kills, kills / 4);
    });
    served.stop();
    let verified = world.quietly(&["audit", "verify"], "");
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    println!("figure: {kills} kills {told}");
    // With fewer calls, answers and broken requests the test would show nothing.
    assert!(told.calls() > kills && told.answers > kills / 4 && told.broken > kills, "{told}");
}

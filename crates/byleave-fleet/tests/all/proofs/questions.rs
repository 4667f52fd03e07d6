//! A great many open questions: what each costs the engine, what they cost the service, and who notices.

use std::path::Path;
use std::time::{Duration, Instant};

use byleave::core::call::Mode;
use byleave::gate::Gate;
use byleave::result::Standing;

use super::fleet::Fleet;
use super::worker::{call, open};

/// The bars of the proof. Times are noisy, so a test fails only beyond twice that one; sizes are not.
const STATE_BYTES_MAX: u64 = 1_024;
const SERVICE_MB_MAX: u64 = 64;
const LANES: usize = 48;

/// They are kept small, the service keeps nothing, and an unrelated call is as quick as without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions() {
    let (questions, calls): (usize, usize) = if super::long() { (20_000, 200) } else { (1_000, 30) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fleet = Fleet::start(path);
    let (_ledger, gate) = open(path, &fleet.ingress());
    unrelated(&gate, path, 10).await;
    let quiet = unrelated(&gate, path, calls).await;
    let before = (state_bytes(&fleet), disk_bytes(&fleet));

    let began = Instant::now();
    let tasks = (0..LANES).map(|lane| {
        let (gate, path) = (gate.clone(), path.to_path_buf());
        tokio::spawn(async move {
            for number in (lane..questions).step_by(LANES) {
                let (session, line) = (format!("s{}", number % 1_000), format!("line {number}"));
                // A path of its own each, so that none holds another up.
                let file = format!("d{}/f{number}", number % 100);
                let asked = call(&path, &session, "append_line", &file, &line, Mode::ConfirmSensitive);
                let standing = gate.advance(asked).await;
                assert!(matches!(standing, Standing::Waiting { .. }), "{standing:?}");
            }
        })
    });
    for task in futures::future::join_all(tasks).await {
        task.unwrap();
    }
    let asked_in = began.elapsed();
    let each = |now: u64, before: u64| now.saturating_sub(before) / questions as u64;
    let state = each(state_bytes(&fleet), before.0);
    let busy = unrelated(&gate, path, calls).await;
    let service_mb = fleet.resident_kb("service") / 1_024;
    let server_mb = fleet.resident_kb("server") / 1_024;
    fleet.down();
    let disk = each(disk_bytes(&fleet), before.1);
    println!(
        "{questions} open questions, asked in {:.0} s; each {state} bytes of state, and with its message for later {disk} \
         bytes on the disk once the engine has stopped; the service has {service_mb} MB, the server {server_mb} MB; an unrelated call took p50 {:.1} ms, \
         p99 {:.1} ms before and p50 {:.1} ms, p99 {:.1} ms beside them",
        asked_in.as_secs_f64(),
        ms(quiet.0),
        ms(quiet.1),
        ms(busy.0),
        ms(busy.1),
    );
    assert!(state <= STATE_BYTES_MAX, "{state} bytes of state for each question");
    assert!(service_mb < SERVICE_MB_MAX, "the service has {service_mb} MB");
    assert!(busy.0 <= quiet.1 * 2, "a usual call took {:?}, and at most {:?} before", busy.0, quiet.1);
    // Of few calls, the slowest is chance.
    assert!(!super::long() || busy.1 <= quiet.1 * 2, "a call took {:?}, and {:?} before", busy.1, quiet.1);
}

/// What calls that ask nobody take, from end to end: the median and the 99th percentile.
///
/// Of three rounds the quietest counts, before as well as beside the questions: the machine has other work too.
async fn unrelated(gate: &Gate, folder: &Path, calls: usize) -> (Duration, Duration) {
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let mut times = Vec::new();
        for number in 0..calls {
            let call = call(folder, "unrelated", "append_line", "lines", &number.to_string(), Mode::Yolo);
            let started = Instant::now();
            let result = gate.settle(call).await;
            times.push(started.elapsed());
            assert_eq!(result.ending.word(), "completed", "{result:?}");
        }
        times.sort_unstable();
        rounds.push((times[calls / 2], times[calls * 99 / 100]));
    }
    rounds.into_iter().min_by_key(|(_, p99)| *p99).unwrap()
}

/// Every key and every value that the engine holds for entities.
fn state_bytes(fleet: &Fleet) -> u64 {
    let count = |sql: &str| -> u64 {
        let output = std::process::Command::new("curl")
            .args([
                "-sS",
                "-m",
                "60",
                "-H",
                "accept: application/json",
                "-H",
                "content-type: application/json",
            ])
            .args(["-d", &serde_json::json!({ "query": sql }).to_string()])
            .arg(format!("http://{}/query", fleet.admin()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"));
        answer["rows"][0]["bytes"].as_u64().unwrap_or_else(|| panic!("{said}"))
    };
    count(
        "select sum(octet_length(service_name) + octet_length(service_key) + octet_length(key) + length(encode(value, 'hex')) / 2) as bytes from state",
    )
}

fn disk_bytes(fleet: &Fleet) -> u64 {
    let output =
        std::process::Command::new("du").args(["-sb"]).arg(fleet.data().join("one/db")).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split('\t').next().unwrap().parse().unwrap()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

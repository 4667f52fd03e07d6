//! An upgrade of the service with questions open: what was asked under one version is answered and finished under another, with the
//! program of the first gone.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use byleave_gate::core::call::Mode;
use byleave_gate::core::question::Question;
use byleave_gate::result::CallStatus;
use futures::future::join_all;

use super::fleet::{Fleet, free_ports};
use super::worker::{call, lines_of, open, yes};
use crate::engine::post;

/// The next version of the service. Ended when dropped.
struct Next(Child);

impl Drop for Next {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `BYLEAVE_OLD_SERVICE` is the program of an older version; without it, both are of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills a fleet of its own: scripts/prove fleet-upgrade"]
async fn upgrade() {
    let questions: usize = if super::long() { 200 } else { 20 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let new = PathBuf::from(env!("CARGO_BIN_EXE_byleave-fleet"));
    let old = std::env::var_os("BYLEAVE_OLD_SERVICE").map_or_else(|| new.clone(), PathBuf::from);
    let fleet = Fleet::start_old(path, &old);
    let (_ledger, gate) = open(path, &fleet.ingress());
    let asked = join_all((0..questions).map(|number| {
        let asked = call(
            path,
            &format!("s{number}"),
            "append_line",
            &format!("f{number}"),
            "x",
            Mode::ConfirmSensitive,
        );
        let gate = &gate;
        async move {
            match gate.advance(asked).await {
                CallStatus::Waiting { question, .. } => question,
                standing => panic!("{standing:?}"),
            }
        }
    }));
    let asked: Vec<Question> = asked.await;
    // The next one beside it, made known to the engine, and then the first one away, with its program.
    let address = format!("127.0.0.1:{}", free_ports(1));
    let service =
        Command::new(&new).args([&address, fleet.run().join("engine.pub").to_str().unwrap()]).spawn();
    let _next = Next(service.unwrap());
    while tokio::net::TcpStream::connect(&address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let register = serde_json::json!({ "uri": format!("http://{address}") }).to_string();
    let said = post(&format!("http://{}/deployments", fleet.admin()), &register).await;
    assert!(said.contains("\"id\""), "{said}");
    fleet.kill("service");
    std::fs::remove_file(fleet.run().join("byleave-fleet")).unwrap();
    let finished = join_all(asked.iter().map(|question| {
        let gate = &gate;
        async move {
            let call = gate.answer(yes(question)).await.unwrap();
            let standing = gate.resume(call).await;
            matches!(standing, CallStatus::Settled(result) if result.is_success())
        }
    }));
    let finished = finished.await.into_iter().filter(|is| *is).count();
    let written =
        (0..questions).filter(|number| lines_of(&path.join(format!("f{number}"))).get("x") == Some(&1));
    assert_eq!((finished, written.count()), (questions, questions));
    println!(
        "figure: {questions} questions asked under one version of the service were answered and finished under the next, each once"
    );
}

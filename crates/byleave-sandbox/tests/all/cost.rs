//! What a launch costs beside a bare one, interleaved in one run:
//! `cargo nextest run -p byleave-sandbox --run-ignored only cost:: --no-capture`.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byleave_sandbox::confinement::Network;
use byleave_sandbox::launch::{self, RunAs, Session, Uplink};
use byleave_sandbox::net::intercept::Interception;

use crate::launch::{bash, confinement};
use crate::net::world::{Keeper, door};
use crate::user::unprivileged;

const ROUNDS: usize = 300;

/// What an everyday shell has; without it, bash goes and asks who it is.
const ENVIRONMENT: [(&str, &str); 4] =
    [("PATH", "/usr/bin:/bin"), ("HOME", "/"), ("USER", "nobody"), ("SHELL", "/bin/bash")];

fn bare() {
    let mut bare = Command::new("/bin/bash");
    bare.args(["-c", "true"]).env_clear().envs(ENVIRONMENT).stdin(Stdio::null());
    assert!(bare.output().unwrap().status.success());
}

fn p50(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).unwrap().as_secs_f64() * 1e3
}

// req: E2
#[test]
#[ignore = "measures: wants the machine for itself"]
fn launch_cost() {
    if !unprivileged("cost::launch_cost") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let mut confinement = confinement(workspace.path());
    let environment = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    confinement.environment = environment.into_iter().collect();
    let session = Session::open(confinement.clone(), RunAs::Caller, 0).unwrap();
    let pool = Session::open(confinement.clone(), RunAs::Caller, 3).unwrap();
    let command = bash("true");
    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let in_session = |session: &Session| drop(session.start(&command).unwrap().finish().unwrap());
        let ways: [&dyn Fn(); 4] = [
            &bare,
            &|| drop(launch::run(&confinement, &command).unwrap()),
            &|| in_session(&session),
            &|| in_session(&pool),
        ];
        for (way, times) in ways.iter().zip(&mut times) {
            let began = Instant::now();
            way();
            times.push(began.elapsed());
        }
    }
    let [bare, one_shot, session, pool] = times.each_mut().map(|times| p50(times));
    println!(
        "bash -c true, p50 of {ROUNDS}: bare {bare:.2} ms, one-shot {one_shot:.2} ms ({:.2}), session {session:.2} ms ({:.2}), pool {pool:.2} ms ({:.2})",
        one_shot / bare,
        session / bare,
        pool / bare
    );
}

/// What it costs that a network is served, beside none at all.
// req: E7
#[test]
#[ignore = "measures: wants the machine for itself"]
fn served_cost() {
    if !unprivileged("cost::served_cost") {
        return;
    }
    let workspace = tempfile::tempdir().unwrap();
    let off = confinement(workspace.path());
    let mut served = off.clone();
    served.network = Network::Proxied;
    let uplink = Uplink::new().unwrap();
    let opening = uplink.clone().intercepting(Arc::new(Interception::new().unwrap()));
    let (command, door) = (bash("true"), || door(Keeper::default()));
    let session = Session::open(off.clone(), RunAs::Caller, 0).unwrap();
    let in_session = Session::open_through(served.clone(), RunAs::Caller, 0, uplink.clone()).unwrap();
    let one = |uplink: &Uplink| {
        drop(
            launch::start_through(&served, &command, RunAs::Caller, uplink, door())
                .unwrap()
                .finish()
                .unwrap(),
        );
    };
    let ways: [&dyn Fn(); 5] = [
        &|| drop(launch::run(&off, &command).unwrap()),
        &|| one(&uplink),
        &|| one(&opening),
        &|| drop(session.start(&command).unwrap().finish().unwrap()),
        &|| drop(in_session.start_through(&command, door()).unwrap().finish().unwrap()),
    ];
    let mut times: [Vec<Duration>; 5] = Default::default();
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut times) {
            let began = Instant::now();
            way();
            times.push(began.elapsed());
        }
    }
    let [off, served, opening, session, in_session] = times.each_mut().map(|times| p50(times));
    println!(
        "bash -c true, p50 of {ROUNDS}: one-shot {off:.2} ms, served {served:.2} ms, and TLS opened {opening:.2} ms; session {session:.2} ms, served {in_session:.2} ms"
    );
}

//! The run methods, which must give the same results.

use byleave_sandbox::confinement::Confinement;
use byleave_sandbox::launch::{self, CommandOutcome, RunAs, SandboxSession};

use crate::launch::bash;

/// Runs a script with one of the methods.
pub(crate) type ScriptRunner = Box<dyn Fn(&str) -> CommandOutcome>;

/// The methods by name.
pub(crate) fn ways(confinement: &Confinement) -> [(&'static str, ScriptRunner); 3] {
    let one_shot = confinement.clone();
    let in_session = |parked| -> ScriptRunner {
        let session = SandboxSession::open(confinement.clone(), RunAs::Caller, parked).unwrap();
        Box::new(move |script| {
            let running = session.start(&bash(script)).unwrap_or_else(|error| panic!("{error}"));
            running.finish().unwrap_or_else(|error| panic!("{error}"))
        })
    };
    let alone: ScriptRunner = Box::new(move |script| {
        launch::run(&one_shot, &bash(script)).unwrap_or_else(|error| panic!("{error}"))
    });
    [("one-shot", alone), ("session", in_session(0)), ("pool", in_session(2))]
}

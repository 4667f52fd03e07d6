//! Properties that hold on every kernel. `scripts/kernels` runs them on other kernels than the machine's.

use byleave_sandbox::backend::{self, Backend};
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::launch::{CommandStatus, RunAs};
use byleave_sandbox::probe::ProbeReport;

use crate::ladder::anything_runs;
use crate::launch::{bash, confinement, text};
use byleave_testkit::user::unprivileged;

// req: E7
#[test]
#[ignore = "for other kernels: scripts/kernels"]
fn every_rung_that_stands_confines_and_leaves_nothing() {
    if !unprivileged("kernels::every_rung_that_stands_confines_and_leaves_nothing") {
        return;
    }
    let probe = ProbeReport::run_all(RunAs::Caller);
    println!("Linux {}, Landlock {}", probe.kernel, probe.landlock);
    for tried in &probe.backends {
        println!("{}: {:?}", tried.backend, tried.start_time);
    }
    let standing: Vec<Backend> = probe.available().collect();
    assert!(standing.contains(&Backend::Native), "{standing:?}");
    assert_eq!(standing.contains(&Backend::Landlock), probe.landlock > 0, "{standing:?}");
    for rung in standing {
        let workspace = tempfile::tempdir().unwrap();
        let mut asked = confinement(workspace.path());
        asked.waived.extend(Guarantee::ALL);
        let script = "for i in 1 2 3 4 5; do setsid sleep 4949 & done; (setsid sleep 4949 &); touch here; touch /etc/x || echo on";
        let running = backend::start_on(rung, &asked, &bash(script), RunAs::Caller);
        let outcome = running.unwrap_or_else(|error| panic!("{rung}: {error}")).finish().unwrap();
        assert_eq!(
            (outcome.status, text(&outcome.stdout).as_str()),
            (CommandStatus::Exited(0), "on\n"),
            "{rung}"
        );
        assert!(workspace.path().join("here").exists(), "{rung}");
        assert!(!anything_runs("sleep\u{0}4949"), "{rung}");
        println!("{rung}: confines, and leaves nothing");
    }
}

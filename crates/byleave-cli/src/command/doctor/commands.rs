//! Checks whether ordinary shell commands can run here.

use std::collections::BTreeSet;

use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::Guarantee;
use byleave_sandbox::probe::ProbeReport;

use super::environment::DoctorFinding;

/// Returns the finding for people.
pub(super) fn finding(probe: &ProbeReport, waived: &BTreeSet<Guarantee>) -> DoctorFinding {
    match can_run(probe, waived) {
        Ok(()) => DoctorFinding::ok("commands", "shell commands run confined"),
        Err((why, hint)) => {
            DoctorFinding::problem("commands", format!("no shell command can run: {why}"), hint)
        }
    }
}

/// Checks whether ordinary commands can run here. The error has the reason and a remedy. Only the native backend runs them.
pub(super) fn can_run(probe: &ProbeReport, waived: &BTreeSet<Guarantee>) -> Result<(), (String, String)> {
    let more = "`byleave doctor` shows more";
    let native = probe.backends.iter().find(|tried| tried.backend == Backend::Native);
    let Some(native) = native else { return Err(("the native backend was not tested".into(), more.into())) };
    if let Err(obstacle) = &native.start_time {
        let hint = obstacle.remedies.first().cloned().unwrap_or_else(|| more.into());
        return Err((obstacle.reason.clone(), hint));
    }
    let missing = native.enforcement.iter().filter(|(guarantee, _)| !waived.contains(guarantee));
    match missing.filter_map(|(guarantee, given)| Some((guarantee, guarantee.unmet_reason(given)?))).next() {
        None => Ok(()),
        Some((guarantee, why)) => Err((
            format!("`{guarantee}` is not fully enforced: {why}"),
            format!("`waive = [\"{guarantee}\"]` in your settings waives it"),
        )),
    }
}

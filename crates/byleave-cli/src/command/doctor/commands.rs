//! Whether ordinary commands can run here: what agents and people mean by a shell that works.

use std::collections::BTreeSet;

use byleave_sandbox::guarantee::{Given, Guarantee};
use byleave_sandbox::ladder::Rung;
use byleave_sandbox::probe::{Probe, Tried};

use super::around::Finding;

/// What a person reads about it.
pub(super) fn finding(probe: &Probe, waived: &BTreeSet<Guarantee>) -> Finding {
    match can_run(probe, waived) {
        Ok(()) => Finding::well("commands", "shell commands run, confined"),
        Err((why, hint)) => Finding::ill("commands", format!("no shell command can run: {why}"), hint),
    }
}

/// Why no ordinary command can run here, and what to do about it. They run by the native launcher only.
pub(crate) fn can_run(probe: &Probe, waived: &BTreeSet<Guarantee>) -> Result<(), (String, String)> {
    let more = "`byleave doctor` says more";
    let native = probe.rungs.iter().find(|tried| tried.rung == Rung::Native);
    let Some(native) = native else { return Err(("nobody tried".into(), more.into())) };
    if let Err(obstacle) = &native.took {
        let hint = obstacle.remedies.first().cloned().unwrap_or_else(|| more.into());
        return Err((obstacle.why.clone(), hint));
    }
    match missing(native, waived).next() {
        None => Ok(()),
        Some((guarantee, why)) => Err((
            format!("`{guarantee}` is not given in full: {why}"),
            format!("`waive = [\"{guarantee}\"]` in your settings does without it"),
        )),
    }
}

/// What a rung does not give, and an ordinary command does not run without.
fn missing<'a>(
    tried: &'a Tried,
    waived: &'a BTreeSet<Guarantee>,
) -> impl Iterator<Item = (Guarantee, &'a str)> {
    tried.given.iter().filter_map(|(guarantee, given)| match given {
        _ if waived.contains(guarantee) => None,
        Given::Fully => None,
        Given::Partly(_) if guarantee.is_best_effort() => None,
        Given::Partly(why) | Given::Not(why) => Some((*guarantee, why.as_str())),
    })
}

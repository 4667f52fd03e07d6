//! Checks whether ordinary shell commands can run here.

use std::collections::BTreeSet;
use std::path::Path;

use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::{Enforcement, Guarantee};
use byleave_sandbox::probe::{BackendProbe, ProbeReport, check_container_wall};
use byleave_tools::ContainerTrust;

use super::environment::DoctorFinding;
use crate::resolved_options::ResolvedOptions;
use crate::tool_catalog::{container_trust, workplace};

/// What decides whether commands can run.
pub(super) struct CommandsCheck {
    /// The backend for commands on copies in this directory, or why there is none.
    pub(super) backend: Result<Backend, String>,
    /// The guarantees that the settings waive.
    pub(super) waived: BTreeSet<Guarantee>,
    /// Whether the settings trust the container.
    pub(super) container: ContainerTrust,
    /// Whether a container is around this program that could be trusted.
    pub(super) has_wall: bool,
}

impl CommandsCheck {
    /// Checks this machine.
    pub(super) fn run(options: &ResolvedOptions) -> Self {
        Self {
            backend: workplace(options, &options.cwd).backend(),
            waived: options.waived.clone(),
            container: container_trust(options),
            has_wall: check_container_wall(options.home.as_ref().map(Path::new), Path::new(&options.cwd))
                .is_ok(),
        }
    }

    /// Returns the finding for people.
    pub(super) fn finding(&self, probe: &ProbeReport) -> DoctorFinding {
        match (self.can_run(probe), &self.backend) {
            (Ok(()), Ok(Backend::Landlock)) => DoctorFinding::ok("commands", self.without_namespaces(probe)),
            (Ok(()), _) => DoctorFinding::ok("commands", "shell commands run confined"),
            (Err((why, hint)), _) => {
                DoctorFinding::problem("commands", format!("no shell command can run: {why}"), hint)
            }
        }
    }

    /// Says once what commands run without.
    fn without_namespaces(&self, probe: &ProbeReport) -> String {
        let missing: Vec<String> = tried(probe, Backend::Landlock)
            .into_iter()
            .flat_map(unmet)
            .map(|(guarantee, _)| format!("`{guarantee}`"))
            .collect();
        let by = match self.container {
            ContainerTrust::Trusted => "`container = \"trusted\"` waives",
            ContainerTrust::Untrusted | ContainerTrust::NoWall(_) => "your settings waive",
        };
        format!(
            "shell commands run on full copies, behind Landlock and a system call filter, because there are no namespaces; {by} {}",
            missing.join(", ")
        )
    }

    /// Checks whether ordinary commands can run here. The error has the reason and a remedy.
    pub(super) fn can_run(&self, probe: &ProbeReport) -> Result<(), (String, String)> {
        let more = "`byleave doctor` shows more";
        let native = tried(probe, Backend::Native);
        let Some(native) = native else {
            return Err(("the native backend was not tested".into(), more.into()));
        };
        let chosen = match &self.backend {
            Ok(Backend::Landlock) => tried(probe, Backend::Landlock).unwrap_or(native),
            Ok(Backend::Native | Backend::Bwrap) => native,
            Err(why) => {
                let remedy =
                    native.start_time.as_ref().err().and_then(|error| error.remedies.first().cloned());
                return Err((why.clone(), remedy.unwrap_or_else(|| more.into())));
            }
        };
        let mut waived = self.waived.clone();
        let is_landlock = chosen.backend == Backend::Landlock;
        if is_landlock {
            waived.extend(self.container.waived());
        }
        let missing: Vec<(Guarantee, String)> =
            unmet(chosen).filter(|(guarantee, _)| !waived.contains(guarantee)).collect();
        let names: Vec<String> = missing.iter().map(|(guarantee, _)| format!("\"{guarantee}\"")).collect();
        match missing.first() {
            None => Ok(()),
            Some((guarantee, why)) if !is_landlock => Err((
                format!("`{guarantee}` is not fully enforced: {why}"),
                format!("`waive = [\"{guarantee}\"]` in your settings waives it"),
            )),
            Some(_) => Err((self.landlock_reason(&missing), self.landlock_hint(&names, native))),
        }
    }

    fn landlock_reason(&self, missing: &[(Guarantee, String)]) -> String {
        let names: Vec<String> = missing.iter().map(|(guarantee, _)| format!("`{guarantee}`")).collect();
        let no_wall = match &self.container {
            ContainerTrust::NoWall(why) => format!("; `container = \"trusted\"` has no effect: {why}"),
            ContainerTrust::Untrusted | ContainerTrust::Trusted => String::new(),
        };
        format!("there are no namespaces, and Landlock alone does not give {}{no_wall}", names.join(", "))
    }

    fn landlock_hint(&self, names: &[String], native: &BackendProbe) -> String {
        if self.has_wall && self.container == ContainerTrust::Untrusted {
            return "`container = \"trusted\"` in your settings accepts the container around Byleave as the outer wall; \
                    `byleave init AGENT` asks about it"
                .into();
        }
        // A usual confinement has no network, so it is not among the missing ones.
        let waiving = format!(
            "`waive = [{}, \"network-confined\"]` in your settings runs commands without them; leave out the last if none needs a host",
            names.join(", ")
        );
        let remedy = native.start_time.as_ref().err().and_then(|error| error.remedies.first());
        remedy.map_or_else(|| waiving.clone(), |remedy| format!("{remedy}; or {waiving}"))
    }

    /// Checks whether the word of a person is all that is missing: the container around this program would be trusted.
    pub(super) fn needs_only_trust(&self, probe: &ProbeReport) -> bool {
        let trusted = Self {
            backend: self.backend.clone(),
            waived: self.waived.clone(),
            container: ContainerTrust::Trusted,
            has_wall: self.has_wall,
        };
        self.has_wall && self.can_run(probe).is_err() && trusted.can_run(probe).is_ok()
    }
}

fn tried(probe: &ProbeReport, backend: Backend) -> Option<&BackendProbe> {
    probe.backends.iter().find(|tried| tried.backend == backend)
}

/// Returns the guarantees that a backend does not give, except for those that are best effort.
fn unmet(tried: &BackendProbe) -> impl Iterator<Item = (Guarantee, String)> + '_ {
    let missing = |(guarantee, given): &(Guarantee, Enforcement)| {
        Some((*guarantee, guarantee.unmet_reason(given)?.to_owned()))
    };
    tried.enforcement.iter().filter_map(missing)
}

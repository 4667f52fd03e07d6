//! Checks the container that commands run in, if the setting `run_on` names one.

use std::path::Path;

use byleave_sandbox::confinement::Network;
use byleave_sandbox::guarantee::{Enforcement, Guarantee};
use byleave_sandbox::launch::OciEngine;
use serde_json::{Map, Value, json};

use super::environment::DoctorFinding;
use super::{DoctorReport, guarantee_value, word};
use crate::console::one_line;
use crate::resolved_options::ResolvedOptions;
use crate::run_on::RunOn;

/// The result of the check.
pub(super) struct ContainerProbe {
    /// The engine that has the image, or the reason why commands cannot run.
    engine: Result<OciEngine, String>,
}

/// What helps if commands cannot run in the container.
const HINT: &str = "install podman and pull the image, or set `run_on = \"native\"`";

impl ContainerProbe {
    /// Checks the engine and the image, if commands run in a container.
    pub(super) fn run(options: &ResolvedOptions) -> Option<Self> {
        let on = options.settings.run_on();
        if on == RunOn::Native {
            return None;
        }
        let engine = on.engine(Path::new(&options.cwd)).transpose()?;
        let engine = engine.and_then(|engine| engine.check_image().map(|()| engine));
        Some(Self { engine: engine.map_err(|error| one_line(&error.to_string())) })
    }

    /// Returns why commands cannot run, and a remedy.
    pub(super) fn obstacle(&self) -> Option<(String, String)> {
        let why = self.engine.as_ref().err()?;
        Some((why.clone(), HINT.to_owned()))
    }

    /// Returns the finding for people.
    pub(super) fn finding(&self) -> DoctorFinding {
        match &self.engine {
            Ok(engine) => DoctorFinding::ok(
                "commands",
                format!("shell commands run in a container of the image `{}`", engine.image),
            ),
            Err(why) => DoctorFinding::problem("commands", format!("no shell command can run: {why}"), HINT),
        }
    }

    /// Returns the guarantees of a container, if commands can run in it.
    fn enforcement(&self) -> Vec<(Guarantee, Enforcement)> {
        let Ok(engine) = &self.engine else { return Vec::new() };
        Guarantee::ALL.map(|guarantee| (guarantee, engine.enforcement(&Network::Off, guarantee))).into()
    }

    /// Adds the container to the report, in the form of a backend.
    pub(super) fn add_to(&self, report: &mut DoctorReport) {
        let line = match &self.engine {
            Ok(engine) => format!("works: `{}` has the image `{}`", engine.engine.display(), engine.image),
            Err(why) => format!("does not work: {why}"),
        };
        report.backends.push(one_line(&format!("  {:9} {line}", "oci")));
        let given = self.enforcement();
        if given.is_empty() {
            return;
        }
        if report.rows.is_empty() {
            report.rows = Guarantee::ALL.map(|guarantee| vec![guarantee.to_string()]).into();
        }
        report.columns.push("OCI");
        for (row, (_, given)) in report.rows.iter_mut().zip(&given) {
            row.push(word(Some(given)).to_owned());
        }
        report.lacking = given
            .iter()
            .filter_map(|(guarantee, given)| match given {
                Enforcement::Full => None,
                Enforcement::Partial(why) | Enforcement::Unavailable(why) => Some(format!(
                    "`{guarantee}` {} in a container: {why}; the setting `run_on` waives it",
                    word(Some(given))
                )),
            })
            .collect();
    }

    /// Returns the result in the form of a backend.
    pub(super) fn value(&self) -> Value {
        let given = self.enforcement();
        json!({
            "backend": "oci",
            "available": self.engine.is_ok(),
            "reason": self.engine.as_ref().err(),
            "guarantees": given.iter().map(guarantee_value).collect::<Map<_, _>>(),
        })
    }
}

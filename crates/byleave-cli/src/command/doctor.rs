//! `byleave doctor`: shows how commands can be confined on this machine, what is missing and how to get it. It also checks the
//! environment.

mod agents;
mod codex;
mod commands;
mod container;
mod environment;
mod hook_call;
#[cfg(feature = "serve")]
mod webhooks;

use std::collections::BTreeSet;

use anyhow::Result;
use byleave_sandbox::backend::Backend;
use byleave_sandbox::guarantee::{Enforcement, Guarantee};
use byleave_sandbox::launch::RunAs;
use byleave_sandbox::probe::{BackendProbe, ProbeReport, probe_overlays};
use serde_json::{Map, Value, json};

use self::commands::CommandsCheck;
use self::container::ContainerProbe;
use self::environment::DoctorFinding;
use crate::call_display::table;
use crate::console::{Console, Tone, one_line, prose};
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

pub(crate) fn run(options: &ResolvedOptions, screen: &mut Console) -> Result<ExitStatus> {
    let probe = ProbeReport::run_all(RunAs::Caller);
    let check = CommandsCheck::run(options);
    // Without namespaces there are only full copies.
    let native = check.backend == Ok(Backend::Native);
    let copies = native.then(|| probe_overlays(&options.state, RunAs::Caller));
    let container = ContainerProbe::run(options);
    let commands = match &container {
        Some(container) => container.finding(),
        None => check.finding(&probe),
    };
    let mut findings = vec![commands];
    findings.extend(environment::findings(options));
    findings.extend(agents::findings(options));
    let is_well = findings.iter().all(|finding| finding.is_ok);
    let status = if is_well { ExitStatus::Completed } else { ExitStatus::Failed };
    if screen.json() {
        let mut value = value(&probe);
        let why = copies.as_ref().and_then(|had| had.as_ref().err());
        let told = json!({ "available": copies == Some(Ok(())), "reason": why });
        if let Some(fields) = value.as_object_mut() {
            fields.insert("copies".to_owned(), told);
            // Commands in this workspace may need another backend than the strongest one here.
            if let Ok(backend) = &check.backend {
                fields.insert("level".to_owned(), json!(backend.name()));
            }
            if let (Some(container), Some(Value::Array(backends))) = (&container, fields.get_mut("backends"))
            {
                backends.push(container.value());
            }
            fields.insert("findings".to_owned(), findings.iter().map(DoctorFinding::json).collect());
        }
        screen.value(&value);
        return Ok(status);
    }
    let mut waived = options.waived.clone();
    if check.backend == Ok(Backend::Landlock) {
        waived.extend(check.container.waived());
    }
    let mut report = DoctorReport::of(&probe, &waived);
    if let Some(container) = &container {
        container.add_to(&mut report);
    }
    // The result comes first; the table below explains it.
    for DoctorFinding { subject: about, is_ok: is_well, message: what, .. } in &findings {
        let sign = if *is_well { "ok ".to_owned() } else { screen.painted(Tone::Bad, "BAD") };
        screen.line(&format!("{sign} {about:9} {}", prose(what)));
    }
    screen.line("");
    screen.title(&report.level);
    for line in &report.backends {
        screen.line(line);
    }
    match &copies {
        None => {}
        Some(Ok(())) => screen.line("  copies    available: a command can be rehearsed on an overlay"),
        Some(Err(why)) => screen.line(&one_line(&format!("  copies    only full copies: {why}"))),
    }
    if !report.rows.is_empty() {
        screen.line("");
        table(screen, &report.columns, &report.rows);
    }
    for line in &report.lacking {
        screen.message_with_tone(Tone::Careful, "note:", line);
    }
    for line in &report.remedies {
        screen.hint(line);
    }
    for DoctorFinding { subject: about, hint, .. } in &findings {
        if let Some(hint) = hint {
            screen.hint(&format!("for {about}: {hint}"));
        }
    }
    Ok(status)
}

/// Checks the agents that were set up.
pub(crate) fn agent_checks(options: &ResolvedOptions) -> Vec<DoctorFinding> {
    agents::findings(options)
}

/// Returns why ordinary commands cannot run with these options, and a remedy.
pub(crate) fn cannot_run(options: &ResolvedOptions) -> Option<(String, String)> {
    match ContainerProbe::run(options) {
        Some(container) => container.obstacle(),
        None => CommandsCheck::run(options).can_run(&ProbeReport::run_all(RunAs::Caller)).err(),
    }
}

/// Checks whether commands can run as soon as a person trusts the container around this program.
pub(crate) fn needs_only_trust(options: &ResolvedOptions) -> bool {
    ContainerProbe::run(options).is_none()
        && CommandsCheck::run(options).needs_only_trust(&ProbeReport::run_all(RunAs::Caller))
}

/// The findings as text.
struct DoctorReport {
    level: String,
    backends: Vec<String>,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    lacking: Vec<String>,
    remedies: Vec<String>,
}

impl DoctorReport {
    fn of(probe: &ProbeReport, waived: &BTreeSet<Guarantee>) -> Self {
        let standing: Vec<&BackendProbe> =
            probe.backends.iter().filter(|tried| tried.start_time.is_ok()).collect();
        let mut columns = vec!["GUARANTEE"];
        columns.extend(standing.iter().map(|tried| match tried.backend {
            Backend::Native => "NATIVE",
            Backend::Bwrap => "BWRAP",
            Backend::Landlock => "LANDLOCK",
        }));
        let row = |guarantee: Guarantee| {
            let mut row = vec![guarantee.to_string()];
            row.extend(standing.iter().map(|tried| word(given(tried, guarantee)).to_owned()));
            row
        };
        let rows = if standing.is_empty() { Vec::new() } else { Guarantee::ALL.map(row).into() };
        let lacking = standing.iter().take(1).flat_map(|tried| tried.enforcement.iter());
        let lacking = lacking.filter_map(|(guarantee, given)| match given {
            Enforcement::Full => None,
            Enforcement::Partial(why) | Enforcement::Unavailable(why) => {
                let then = if waived.contains(guarantee) {
                    "your settings waive it".to_owned()
                } else if guarantee.unmet_reason(given).is_none() {
                    "commands still run, unless a rule requires it".to_owned()
                } else {
                    format!(
                        "commands that need it are refused until it is available or waived: `waive = \
                         [\"{guarantee}\"]` in your settings"
                    )
                };
                Some(format!("`{guarantee}` {}: {why}; {then}", word(Some(given))))
            }
        });
        let fallen =
            probe.backends.iter().filter_map(|tried| Some((tried.backend, tried.start_time.as_ref().err()?)));
        let remedies = fallen.flat_map(|(backend, obstacle)| {
            obstacle.remedies.iter().map(move |remedy| one_line(&format!("for {backend}: {remedy}")))
        });
        Self {
            level: level(probe),
            backends: probe.backends.iter().map(backend_line).collect(),
            columns,
            rows,
            lacking: lacking.collect(),
            remedies: remedies.collect(),
        }
    }
}

fn level(probe: &ProbeReport) -> String {
    let found = &probe.environment;
    let inside = found.container.map(|container| container.name());
    let inside: Vec<&str> = inside.into_iter().chain(found.wsl.map(|wsl| wsl.name())).collect();
    let inside = if inside.is_empty() { String::new() } else { format!(", in {}", inside.join(" in ")) };
    let landlock = match probe.landlock {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    let level = match probe.available().next() {
        Some(Backend::Native) if probe.landlock == 0 => {
            "native: namespaces, mounts and a system call filter of our own, without Landlock"
        }
        Some(Backend::Native) => "native: namespaces, mounts, Landlock and a system call filter of our own",
        Some(Backend::Bwrap) => "bwrap: namespaces and mounts by the system's bwrap; the rest is ours",
        Some(Backend::Landlock) => "landlock: no namespaces; Landlock and a system call filter alone",
        None => "none: nothing can be confined here, so commands that must be confined do not run",
    };
    one_line(&format!("{level} (Linux {}, {landlock}{inside})", probe.kernel))
}

fn backend_line(tried: &BackendProbe) -> String {
    let came = match &tried.start_time {
        Ok(took) => format!("works: a test command ran in {} ms", took.as_millis()),
        Err(obstacle) => format!("does not work: {}", obstacle.reason),
    };
    one_line(&format!("  {:9} {came}", tried.backend.name()))
}

fn given(tried: &BackendProbe, asked: Guarantee) -> Option<&Enforcement> {
    tried.enforcement.iter().find(|(guarantee, _)| *guarantee == asked).map(|(_, given)| given)
}

const fn word(given: Option<&Enforcement>) -> &'static str {
    match given {
        Some(Enforcement::Full) => "full",
        Some(Enforcement::Partial(_)) => "partly",
        Some(Enforcement::Unavailable(_)) => "not",
        None => "",
    }
}

fn value(probe: &ProbeReport) -> Value {
    let found = &probe.environment;
    json!({
        "level": probe.available().next().map(Backend::name),
        "kernel": probe.kernel,
        "landlock": probe.landlock,
        "container": found.container.map(|container| container.name()),
        "wsl": found.wsl.map(|wsl| wsl.name()),
        "backends": probe.backends.iter().map(backend_value).collect::<Vec<_>>(),
    })
}

fn backend_value(tried: &BackendProbe) -> Value {
    let guarantees = tried.enforcement.iter().map(guarantee_value);
    let obstacle = tried.start_time.as_ref().err();
    json!({
        "backend": tried.backend.name(),
        "available": tried.start_time.is_ok(),
        "took_us": tried.start_time.as_ref().ok().and_then(|took| u64::try_from(took.as_micros()).ok()),
        "reason": obstacle.map(|obstacle| &obstacle.reason),
        "remedies": obstacle.map(|obstacle| &obstacle.remedies),
        "guarantees": guarantees.collect::<Map<_, _>>(),
    })
}

fn guarantee_value((guarantee, given): &(Guarantee, Enforcement)) -> (String, Value) {
    let why = match given {
        Enforcement::Full => None,
        Enforcement::Partial(why) | Enforcement::Unavailable(why) => Some(why),
    };
    (guarantee.to_string(), json!({ "enforcement": word(Some(given)), "reason": why }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::time::Duration;

    use byleave_sandbox::confinement::{
        Confinement, CopiedPath, CopySource, FileConfinement, Network, SandboxPorts,
    };
    use byleave_sandbox::limits::ResourceLimits;
    use byleave_sandbox::probe::{BackendError, BackendFailure, ContainerKind, HostEnvironment, remedies};
    use byleave_tools::ContainerTrust;

    use super::*;

    /// Returns a machine on which these backends work and the others fail with this obstacle.
    fn machine(
        landlock: u32,
        stand: &[Backend],
        failed: BackendFailure,
        surroundings: &HostEnvironment,
    ) -> ProbeReport {
        let confinement = Confinement {
            files: FileConfinement {
                home: Some("/h".into()),
                writable: vec!["/h/w".into()],
                hidden: vec!["/h/w/.env".into()],
                protected: vec!["/h/w/.git/hooks".into()],
                ..FileConfinement::default()
            },
            network: Network::Off,
            ports: SandboxPorts::default(),
            environment: std::collections::BTreeMap::new(),
            limits: ResourceLimits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        };
        let tried = |backend: Backend| {
            let took = if stand.contains(&backend) {
                Ok(Duration::from_millis(5))
            } else {
                let remedies = remedies(backend, failed, surroundings);
                Err(BackendError { reason: "cannot create a sandbox: permission denied".into(), remedies })
            };
            let mut confinement = confinement.clone();
            if backend == Backend::Landlock {
                let source = CopySource::Tree { path: "/copy".into() };
                confinement.files.copies = vec![CopiedPath { root: "/h/w".into(), source }];
            }
            // On the native backend this depends on the machine, so the test sets it.
            let given = |guarantee| match backend {
                Backend::Native => (guarantee, Enforcement::Full),
                _ => (guarantee, backend.enforcement(landlock, &confinement, guarantee)),
            };
            let given = if took.is_ok() { Guarantee::ALL.map(given).into() } else { Vec::new() };
            BackendProbe { backend, start_time: took, enforcement: given }
        };
        let backends = Backend::ALL.map(tried).into();
        ProbeReport {
            kernel: "6.8.0-31-generic".into(),
            landlock,
            environment: surroundings.clone(),
            backends,
        }
    }

    fn written(probe: &ProbeReport) -> String {
        let report = DoctorReport::of(probe, &BTreeSet::new());
        let mut text = format!("{}\n{}\n", report.level, report.backends.join("\n"));
        writeln!(text, "{}", report.columns.join(" | ")).unwrap();
        report.rows.iter().for_each(|row| writeln!(text, "{}", row.join(" | ")).unwrap());
        report.lacking.iter().for_each(|line| writeln!(text, "note: {line}").unwrap());
        report.remedies.iter().for_each(|line| writeln!(text, "hint: {line}").unwrap());
        let backend = probe.available().find(|backend| *backend != Backend::Bwrap);
        let check = CommandsCheck {
            backend: backend.ok_or_else(|| "cannot create a sandbox: permission denied".to_owned()),
            waived: BTreeSet::new(),
            container: ContainerTrust::Untrusted,
            has_wall: probe.environment.container.is_some(),
        };
        let commands = check.finding(probe);
        let sign = if commands.is_ok { "ok" } else { "BAD" };
        writeln!(text, "{sign} {}: {}", commands.subject, commands.message).unwrap();
        commands.hint.iter().for_each(|hint| writeln!(text, "hint: for commands: {hint}").unwrap());
        text
    }

    // req: E7
    #[test]
    fn every_level_is_told_with_what_it_lacks_and_how_to_get_more() {
        let ubuntu = HostEnvironment { apparmor_restricts: true, ..HostEnvironment::default() };
        let docker = HostEnvironment {
            container: Some(ContainerKind::Docker),
            has_syscall_filter: true,
            ..HostEnvironment::default()
        };
        let all = [
            ("native", machine(7, &Backend::ALL, BackendFailure::Other, &HostEnvironment::default())),
            ("ubuntu", machine(4, &[Backend::Bwrap, Backend::Landlock], BackendFailure::Namespaces, &ubuntu)),
            ("docker", machine(6, &[Backend::Landlock], BackendFailure::Namespaces, &docker)),
            ("root", machine(7, &[], BackendFailure::Root, &HostEnvironment::default())),
        ];
        for (name, probe) in all {
            insta::assert_snapshot!(name, written(&probe));
            if name == "ubuntu" {
                insta::assert_snapshot!("ubuntu_json", format!("{:#}", value(&probe)));
            }
        }
    }
}

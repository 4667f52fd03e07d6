//! `byleave doctor`: how commands can be confined on this machine, what that is worth, and how to get more; and whether all that is
//! around it is well.

mod agents;
mod around;
mod commands;
#[cfg(feature = "serve")]
mod webhooks;

use std::collections::BTreeSet;

use anyhow::Result;
use byleave_sandbox::guarantee::{Given, Guarantee};
use byleave_sandbox::ladder::Rung;
use byleave_sandbox::launch::RunAs;
use byleave_sandbox::probe::{Probe, Tried, copies};
use serde_json::{Map, Value, json};

use self::around::Finding;
pub(crate) use self::commands::can_run;
use crate::options::Options;
use crate::screen::{Screen, Tone, one_line, prose};
use crate::show::table;
use crate::status::Status;

pub(crate) fn run(options: &Options, screen: &mut Screen) -> Result<Status> {
    let probe = Probe::here(RunAs::Caller);
    // Copies are the native rung's.
    let native = probe.standing().any(|rung| rung == Rung::Native);
    let copies = native.then(|| copies(&options.state, RunAs::Caller));
    let mut findings = vec![commands::finding(&probe, &options.waived)];
    findings.extend(around::findings(options));
    findings.extend(agents::findings(options));
    let is_well = findings.iter().all(|finding| finding.is_well);
    let status = if is_well { Status::Completed } else { Status::Failed };
    if screen.json() {
        let mut value = value(&probe);
        let why = copies.as_ref().and_then(|had| had.as_ref().err());
        let told = json!({ "had": copies == Some(Ok(())), "why": why });
        if let Some(fields) = value.as_object_mut() {
            fields.insert("copies".to_owned(), told);
            fields.insert("findings".to_owned(), findings.iter().map(Finding::json).collect());
        }
        screen.value(&value);
        return Ok(status);
    }
    let report = Report::of(&probe, &options.waived);
    screen.title(&report.level);
    for line in &report.rungs {
        screen.line(line);
    }
    match &copies {
        None => {}
        Some(Ok(())) => screen.line("  copies    can be had: a command can be rehearsed on an overlay"),
        Some(Err(why)) => screen.line(&one_line(&format!("  copies    only whole ones: {why}"))),
    }
    if !report.rows.is_empty() {
        screen.line("");
        table(screen, &report.columns, &report.rows);
    }
    screen.line("");
    for Finding { about, is_well, what, .. } in &findings {
        let sign = if *is_well { "ok ".to_owned() } else { screen.painted(Tone::Bad, "BAD") };
        screen.line(&format!("{sign} {about:9} {}", prose(what)));
    }
    for line in &report.lacking {
        screen.toned(Tone::Careful, "note:", line);
    }
    for line in &report.remedies {
        screen.hint(line);
    }
    for Finding { about, hint, .. } in &findings {
        if let Some(hint) = hint {
            screen.hint(&format!("for {about}: {hint}"));
        }
    }
    Ok(status)
}

/// What was found, for people.
struct Report {
    level: String,
    rungs: Vec<String>,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    lacking: Vec<String>,
    remedies: Vec<String>,
}

impl Report {
    fn of(probe: &Probe, waived: &BTreeSet<Guarantee>) -> Self {
        let standing: Vec<&Tried> = probe.rungs.iter().filter(|tried| tried.took.is_ok()).collect();
        let mut columns = vec!["GUARANTEE"];
        columns.extend(standing.iter().map(|tried| match tried.rung {
            Rung::Native => "NATIVE",
            Rung::Bwrap => "BWRAP",
            Rung::Landlock => "LANDLOCK",
        }));
        let row = |guarantee: Guarantee| {
            let mut row = vec![guarantee.to_string()];
            row.extend(standing.iter().map(|tried| word(given(tried, guarantee)).to_owned()));
            row
        };
        let rows = if standing.is_empty() { Vec::new() } else { Guarantee::ALL.map(row).into() };
        let lacking = standing.iter().take(1).flat_map(|tried| tried.given.iter());
        let lacking = lacking.filter_map(|(guarantee, given)| match given {
            Given::Fully => None,
            Given::Partly(why) | Given::Not(why) => {
                let then = if waived.contains(guarantee) {
                    "your settings do without it".to_owned()
                } else if guarantee.lacks(given).is_none() {
                    "commands run all the same, unless a rule requires it".to_owned()
                } else {
                    format!(
                        "commands that need it are refused until it is given, or waived: `waive = [\"{guarantee}\"]` in your settings"
                    )
                };
                Some(format!("`{guarantee}` {}: {why}; {then}", word(Some(given))))
            }
        });
        let fallen = probe.rungs.iter().filter_map(|tried| Some((tried.rung, tried.took.as_ref().err()?)));
        let remedies = fallen.flat_map(|(rung, obstacle)| {
            obstacle.remedies.iter().map(move |remedy| one_line(&format!("for {rung}: {remedy}")))
        });
        Self {
            level: level(probe),
            rungs: probe.rungs.iter().map(rung).collect(),
            columns,
            rows,
            lacking: lacking.collect(),
            remedies: remedies.collect(),
        }
    }
}

fn level(probe: &Probe) -> String {
    let found = &probe.surroundings;
    let inside = found.container.map(|container| container.name());
    let inside: Vec<&str> = inside.into_iter().chain(found.wsl.map(|wsl| wsl.name())).collect();
    let inside = if inside.is_empty() { String::new() } else { format!(", in {}", inside.join(" in ")) };
    let landlock = match probe.landlock {
        0 => "no Landlock".to_owned(),
        version => format!("Landlock {version}"),
    };
    let level = match probe.standing().next() {
        Some(Rung::Native) if probe.landlock == 0 => {
            "native: namespaces, mounts and a system call filter of our own, without Landlock behind them"
        }
        Some(Rung::Native) => "native: namespaces, mounts, Landlock and a system call filter of our own",
        Some(Rung::Bwrap) => "bwrap: namespaces and mounts by the system's bwrap; the rest is ours",
        Some(Rung::Landlock) => "landlock: no namespaces; Landlock and a system call filter alone",
        None => "none: nothing can be confined here, and so nothing runs that must be",
    };
    one_line(&format!("{level} (Linux {}, {landlock}{inside})", probe.kernel))
}

fn rung(tried: &Tried) -> String {
    let came = match &tried.took {
        Ok(took) => format!("stands: a command ran on it in {} ms", took.as_millis()),
        Err(obstacle) => format!("does not stand: {}", obstacle.why),
    };
    one_line(&format!("  {:9} {came}", tried.rung.name()))
}

fn given(tried: &Tried, asked: Guarantee) -> Option<&Given> {
    tried.given.iter().find(|(guarantee, _)| *guarantee == asked).map(|(_, given)| given)
}

const fn word(given: Option<&Given>) -> &'static str {
    match given {
        Some(Given::Fully) => "full",
        Some(Given::Partly(_)) => "partly",
        Some(Given::Not(_)) => "not",
        None => "",
    }
}

fn value(probe: &Probe) -> Value {
    let found = &probe.surroundings;
    json!({
        "level": probe.standing().next().map(Rung::name),
        "kernel": probe.kernel,
        "landlock": probe.landlock,
        "container": found.container.map(|container| container.name()),
        "wsl": found.wsl.map(|wsl| wsl.name()),
        "rungs": probe.rungs.iter().map(rung_value).collect::<Vec<_>>(),
    })
}

fn rung_value(tried: &Tried) -> Value {
    let guarantees = tried.given.iter().map(|(guarantee, given)| {
        let why = match given {
            Given::Fully => None,
            Given::Partly(why) | Given::Not(why) => Some(why),
        };
        (guarantee.to_string(), json!({ "given": word(Some(given)), "why": why }))
    });
    let obstacle = tried.took.as_ref().err();
    json!({
        "rung": tried.rung.name(),
        "stands": tried.took.is_ok(),
        "took_us": tried.took.as_ref().ok().and_then(|took| u64::try_from(took.as_micros()).ok()),
        "why": obstacle.map(|obstacle| &obstacle.why),
        "remedies": obstacle.map(|obstacle| &obstacle.remedies),
        "guarantees": guarantees.collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::time::Duration;

    use byleave_sandbox::confinement::{Confinement, Files, Network};
    use byleave_sandbox::limits::Limits;
    use byleave_sandbox::probe::{Container, Failed, Obstacle, Surroundings, remedies};

    use super::*;

    /// A machine on which these rungs stand, and the others fail at this.
    fn machine(landlock: u32, stand: &[Rung], failed: Failed, surroundings: &Surroundings) -> Probe {
        let confinement = Confinement {
            files: Files {
                home: Some("/h".into()),
                writable: vec!["/h/w".into()],
                hidden: vec!["/h/w/.env".into()],
                protected: vec!["/h/w/.git/hooks".into()],
                ..Files::default()
            },
            network: Network::Off,
            environment: std::collections::BTreeMap::new(),
            limits: Limits::default(),
            waived: BTreeSet::new(),
            required: BTreeSet::new(),
        };
        let tried = |rung: Rung| {
            let took = if stand.contains(&rung) {
                Ok(Duration::from_millis(5))
            } else {
                let remedies = remedies(rung, failed, surroundings);
                Err(Obstacle { why: "cannot make a sandbox: permission denied".into(), remedies })
            };
            // On the native rung this looks at the machine, so it is told.
            let given = |guarantee| match rung {
                Rung::Native => (guarantee, Given::Fully),
                _ => (guarantee, rung.given(landlock, &confinement, guarantee)),
            };
            let given = if took.is_ok() { Guarantee::ALL.map(given).into() } else { Vec::new() };
            Tried { rung, took, given }
        };
        let rungs = Rung::ALL.map(tried).into();
        Probe { kernel: "6.8.0-31-generic".into(), landlock, surroundings: surroundings.clone(), rungs }
    }

    fn written(probe: &Probe) -> String {
        let report = Report::of(probe, &BTreeSet::new());
        let mut text = format!("{}\n{}\n", report.level, report.rungs.join("\n"));
        writeln!(text, "{}", report.columns.join(" | ")).unwrap();
        report.rows.iter().for_each(|row| writeln!(text, "{}", row.join(" | ")).unwrap());
        report.lacking.iter().for_each(|line| writeln!(text, "note: {line}").unwrap());
        report.remedies.iter().for_each(|line| writeln!(text, "hint: {line}").unwrap());
        let commands = commands::finding(probe, &BTreeSet::new());
        let sign = if commands.is_well { "ok" } else { "BAD" };
        writeln!(text, "{sign} {}: {}", commands.about, commands.what).unwrap();
        commands.hint.iter().for_each(|hint| writeln!(text, "hint: for commands: {hint}").unwrap());
        text
    }

    // req: E7
    #[test]
    fn every_level_is_told_with_what_it_lacks_and_how_to_get_more() {
        let ubuntu = Surroundings { apparmor_restricts: true, ..Surroundings::default() };
        let docker =
            Surroundings { container: Some(Container::Docker), filtered: true, ..Surroundings::default() };
        let all = [
            ("native", machine(7, &Rung::ALL, Failed::Otherwise, &Surroundings::default())),
            ("ubuntu", machine(4, &[Rung::Bwrap, Rung::Landlock], Failed::Namespaces, &ubuntu)),
            ("docker", machine(6, &[Rung::Landlock], Failed::Namespaces, &docker)),
            ("root", machine(7, &[], Failed::Root, &Surroundings::default())),
        ];
        for (name, probe) in all {
            insta::assert_snapshot!(name, written(&probe));
            if name == "ubuntu" {
                insta::assert_snapshot!("ubuntu_json", format!("{:#}", value(&probe)));
            }
        }
    }
}

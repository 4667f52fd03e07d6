//! `byleave policy`: shows the rules in force, and checks rule files.

pub(super) mod approvals;
pub(super) mod profile;
mod recorded_calls;
mod replay;
mod suggest;

use std::path::{Path, PathBuf};

use anyhow::Result;
use byleave_gate::core::policy::{
    BUILTIN_TOML, Layer, Policy as Compiled, PolicyFileError, Rule, builtin_rules,
};
use byleave_gate::policy_files::{LoadedPolicy, PROJECT_PATH, PolicyFile, PolicyLoadError};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use self::approvals::ApprovalsCommand;
use crate::active_policy::ActivePolicy;
use crate::approval_scope;
use crate::call_display::{format_count, table};
use crate::console::{Console, Tone, one_line};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::{ResolvedOptions, real_path};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show the rules in force and their sources (the default)
    Show,
    /// Check a policy file and show its errors
    Check {
        /// Policy file
        file: PathBuf,
        /// Layer of the file [default: project for `.byleave/policy.toml`, else user]
        #[arg(long, value_enum)]
        layer: Option<LayerArg>,
    },
    /// Test the examples of all rules in force
    Test,
    /// Show the profiles, or choose one
    ///
    /// A profile is a policy file that comes with Byleave. Your own file names it, and your rules add to it.
    Profile {
        /// careful, everyday, strict or ci
        name: Option<String>,
    },
    /// Print the source of the built-in rules, or of a profile
    Builtin {
        /// Print this profile instead
        #[arg(long)]
        profile: Option<String>,
    },
    /// Evaluate recorded calls with another policy file
    ///
    /// The file replaces your own rules. Shows the calls whose decision would change.
    Replay {
        /// Policy file
        file: PathBuf,
    },
    /// List and revoke standing approvals
    Approvals {
        #[command(subcommand)]
        command: Option<ApprovalsCommand>,
    },
    /// Suggest rules for questions that you always answered yes
    ///
    /// A rule is suggested if at least two calls were approved. No rule is suggested for calls that are dangerous, irreversible or
    /// could not be predicted, or if one such question had another answer. You can paste the output into your policy file.
    Suggest,
}

/// The layer of a policy file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayerArg {
    Organisation,
    User,
    Project,
    Session,
}

impl From<LayerArg> for Layer {
    fn from(layer: LayerArg) -> Self {
        match layer {
            LayerArg::Organisation => Self::Organisation,
            LayerArg::User => Self::User,
            LayerArg::Project => Self::Project,
            LayerArg::Session => Self::Session,
        }
    }
}

pub(crate) async fn run(
    command: Option<PolicyCommand>,
    options: &ResolvedOptions,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let state = real_path(&options.state)?.ok_or_else(CliError::no_state_dir)?;
    let rules = ActivePolicy { options, workspace: &options.cwd, state: &state };
    match command.unwrap_or(PolicyCommand::Show) {
        PolicyCommand::Show => show(&rules.load()?, screen),
        PolicyCommand::Check { file, layer } => return check(&rules, &file, layer, screen),
        PolicyCommand::Test => test(&rules.load()?, screen),
        PolicyCommand::Profile { name } => return profile::run(name.as_deref(), options, &rules, screen),
        PolicyCommand::Builtin { profile } => {
            let toml = profile::source(profile.as_deref())?.unwrap_or(BUILTIN_TOML);
            if screen.json() { screen.value(&json!({ "toml": toml })) } else { screen.raw_text(toml) }
        }
        PolicyCommand::Approvals { command } => return approvals::run(command, options, screen).await,
        PolicyCommand::Suggest => return suggest::run(options, &rules, screen).await,
        PolicyCommand::Replay { file } => return replay::run(&file, options, &rules, screen).await,
    }
    Ok(ExitStatus::Completed)
}

fn show(loaded: &LoadedPolicy, screen: &mut Console) {
    if screen.json() {
        let rules: Vec<Value> = loaded.policy.rules().map(rule_json).collect();
        let files: Vec<Value> = loaded.files.iter().map(file_json).collect();
        screen.value(&json!({ "policy": loaded.policy.digest(), "files": files, "rules": rules }));
        return;
    }
    let rows: Vec<Vec<String>> = loaded.policy.rules().map(row).collect();
    table(screen, &["RULE", "VERDICT", "FROM", "WHY"], &rows);
    tell_unchecked(loaded, screen);
}

fn row(rule: &Rule) -> Vec<String> {
    let mut verdict = json!(rule.verdict).as_str().unwrap_or_default().to_owned();
    if rule.dangerous {
        verdict.push_str(", dangerous");
    }
    if rule.checkpoint {
        verdict.push_str(", checkpoint");
    }
    if rule.remember {
        verdict.push_str(", remembered");
    }
    if rule.challenge {
        verdict.push_str(", challenge");
    }
    if rule.firm {
        verdict.push_str(", firm");
    }
    let from = match &rule.origin {
        Some(origin) => format!("{}, {origin}", rule.layer),
        None => rule.layer.to_string(),
    };
    vec![one_line(&rule.id), verdict, one_line(&from), one_line(&rule.reason)]
}

fn rule_json(rule: &Rule) -> Value {
    let written = |patterns: &[_]| patterns.iter().map(approval_scope::format).collect::<Vec<_>>();
    json!({
        "id": rule.id,
        "layer": rule.layer,
        "origin": rule.origin,
        "verdict": rule.verdict,
        "about": written(&rule.patterns),
        "except": written(&rule.except),
        "when": rule.when,
        "firm": rule.firm,
        "dangerous": rule.dangerous,
        "checkpoint": rule.checkpoint,
        "remember": rule.remember,
        "challenge": rule.challenge,
        "guarantees": rule.guarantees,
        "private": rule.private,
        "lend": if rule.lends_git { json!(["git"]) } else { json!([]) },
        "reason": rule.reason,
    })
}

fn file_json(file: &PolicyFile) -> Value {
    json!({ "layer": file.layer, "path": file.path })
}

fn check(
    rules: &ActivePolicy<'_>,
    path: &Path,
    layer: Option<LayerArg>,
    screen: &mut Console,
) -> Result<ExitStatus> {
    let layer = layer
        .map_or_else(|| if path.ends_with(PROJECT_PATH) { Layer::Project } else { Layer::User }, Layer::from);
    let file = PolicyFile { layer, path: path.to_path_buf(), required: true };
    let read = match rules.read(&file) {
        Err(PolicyLoadError::File(fault)) if screen.json() => {
            screen.value(&flaws_json(&fault));
            return Ok(ExitStatus::Unusable);
        }
        read => read?,
    };
    // A file must also be valid together with the built-in rules.
    let mut all = builtin_rules(&rules.places()).map_err(PolicyLoadError::from)?;
    all.extend(read.rules.iter().cloned());
    Compiled::new(all).map_err(PolicyLoadError::from)?;
    if screen.json() {
        screen.value(&json!({
            "file": path,
            "right": true,
            "rules": read.rules.len(),
            "examples_checked": read.checked_count,
            "examples_unchecked": read.unchecked_examples.iter().map(|one| &one.example.text).collect::<Vec<_>>(),
        }));
        return Ok(ExitStatus::Completed);
    }
    let count = |number: usize, word: &str| format_count(number as u64, word);
    let (many, checked) = (count(read.rules.len(), "rule"), count(read.checked_count, "example"));
    let name = one_line(&path.to_string_lossy());
    screen.line(&format!("`{name}` is valid as a file of the {layer}: {many}, {checked} checked"));
    for one in &read.unchecked_examples {
        unchecked(screen, &name, &one.rule, &one.example.text);
    }
    Ok(ExitStatus::Completed)
}

fn flaws_json(fault: &PolicyFileError) -> Value {
    let flaws = fault.diagnostics.iter().map(
        |flaw| json!({ "line": flaw.line, "column": flaw.column, "message": flaw.message, "help": flaw.help }),
    );
    json!({ "file": fault.file, "valid": false, "errors": flaws.collect::<Vec<_>>() })
}

fn test(loaded: &LoadedPolicy, screen: &mut Console) {
    if screen.json() {
        let unchecked = loaded
            .unchecked_examples
            .iter()
            .map(|(file, one)| json!({ "file": file, "rule": one.rule, "example": one.example.text }));
        let unchecked: Vec<Value> = unchecked.collect();
        screen.value(&json!({ "checked": loaded.checked_count, "failed": 0, "unchecked": unchecked }));
        return;
    }
    let files = format_count(loaded.files.len() as u64, "file");
    screen.line(&format!(
        "{} of {files} checked, all pass",
        format_count(loaded.checked_count as u64, "example")
    ));
    tell_unchecked(loaded, screen);
}

fn tell_unchecked(loaded: &LoadedPolicy, screen: &mut Console) {
    for (file, one) in &loaded.unchecked_examples {
        unchecked(screen, &one_line(&file.to_string_lossy()), &one.rule, &one.example.text);
    }
}

/// Warns about an example that could not be checked, so that it does not pass for a correct one.
fn unchecked(screen: &mut Console, file: &str, rule: &str, example: &str) {
    let (rule, example) = (one_line(rule), one_line(example));
    let line = format!("not checked: `{example}` of rule `{rule}` in `{file}`: byleave cannot read it");
    screen.message_with_tone(Tone::Careful, "note:", &line);
}

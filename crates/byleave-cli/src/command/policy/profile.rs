//! `byleave policy profile`: shows the profiles, and chooses one in the user's policy file.

use std::path::Path;

use anyhow::Result;
use byleave_gate::core::policy::{Policy, Profile};
use byleave_gate::policy_files::USER_FILE_NAME;
use serde_json::{Value, json};

use crate::active_policy::ActivePolicy;
use crate::atomic_replace;
use crate::call_display::table;
use crate::console::Console;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::resolved_options::ResolvedOptions;

/// Shows all profiles, or writes the name of one into the user's policy file.
pub(super) fn run(
    name: Option<&str>,
    options: &ResolvedOptions,
    rules: &ActivePolicy<'_>,
    screen: &mut Console,
) -> Result<ExitStatus> {
    // A file that cannot be used is reported before it is changed.
    let before = rules.load()?.policy;
    match name {
        None => show(&before, screen),
        Some(name) => choose(name, options, rules, screen)?,
    }
    Ok(ExitStatus::Completed)
}

/// Returns the names of the profiles whose rules are in force.
pub(in crate::command) fn active_profiles(policy: &Policy) -> Vec<&'static str> {
    let is_active = |profile: &&Profile| {
        let begin = format!("profile {}:", profile.name);
        policy.rules().any(|rule| rule.origin.as_ref().is_some_and(|origin| origin.starts_with(&begin)))
    };
    Profile::ALL.iter().filter(is_active).map(|profile| profile.name).collect()
}

/// Returns the source of a profile, if one is named.
pub(super) fn source(name: Option<&str>) -> Result<Option<&'static str>> {
    name.map(|name| find(name).map(|profile| profile.toml)).transpose()
}

/// Returns the text of the user's policy file with this profile. The file must have been loaded before, so that it can be parsed.
pub(in crate::command) fn with_profile(text: &str, name: &str) -> Result<String> {
    let mut document: toml_edit::DocumentMut = text.parse()?;
    document.insert("profile", toml_edit::value(name));
    Ok(document.to_string())
}

fn find(name: &str) -> Result<Profile> {
    let names = || Profile::ALL.map(|profile| profile.name).join(", ");
    let unknown = || {
        CliError::new(format!("there is no profile `{}`", name.escape_debug()))
            .hint(format!("choose one of {}", names()))
    };
    Ok(Profile::find(name).ok_or_else(unknown)?)
}

fn show(policy: &Policy, screen: &mut Console) {
    let active = active_profiles(policy);
    if screen.json() {
        let all: Vec<Value> = Profile::ALL
            .iter()
            .map(|profile| json!({ "name": profile.name, "description": profile.description }))
            .collect();
        screen.value(&json!({ "active": active, "profiles": all }));
        return;
    }
    let row = |profile: &Profile| {
        let mark = if active.contains(&profile.name) { "active" } else { "" };
        vec![profile.name.to_owned(), mark.to_owned(), profile.description.to_owned()]
    };
    let rows: Vec<Vec<String>> = Profile::ALL.iter().map(row).collect();
    table(screen, &["PROFILE", "", "WHAT IT DOES"], &rows);
    if active.is_empty() {
        screen.hint("no profile is active, so `careful` holds; `byleave policy profile NAME` chooses one");
    }
}

fn choose(
    name: &str,
    options: &ResolvedOptions,
    rules: &ActivePolicy<'_>,
    screen: &mut Console,
) -> Result<()> {
    let profile = find(name)?;
    let nowhere = || CliError::new("your settings directory is not known").hint("set HOME");
    let path = Path::new(options.config.as_ref().ok_or_else(nowhere)?).join(USER_FILE_NAME);
    let path = atomic_replace::target(&path)?;
    let old = atomic_replace::text(&path)?;
    let new = with_profile(old.as_deref().unwrap_or_default(), profile.name)?;
    atomic_replace::replace(&path, old.as_deref(), &new)?;
    let active = active_profiles(&rules.load()?.policy);
    if screen.json() {
        screen.value(&json!({ "active": active, "file": path }));
        return Ok(());
    }
    screen.line(&format!("the profile `{}` is in `{}`", profile.name, path.display()));
    screen.line(profile.description);
    Ok(())
}

//! The names of npm's commands: its aliases and their unique beginnings, as npm resolves them.
//!
//! `scripts/npm-commands` writes the table from the list that comes with npm.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NpmCommands {
    commands: Vec<String>,
    aliases: BTreeMap<String, String>,
}

// If the table does not parse, no name is a command, so every use of npm is unknown.
static TABLE: LazyLock<NpmCommands> =
    LazyLock::new(|| toml::from_str(include_str!("../../manuals/npm-commands.toml")).unwrap_or_default());

/// Returns the command that npm runs for this name, or `None` if npm has no such command.
pub(super) fn resolve(name: &str) -> Option<&'static str> {
    // npm reads `installTest` as `install-test`.
    let dashed: String = name
        .chars()
        .flat_map(|letter| {
            let dash = letter.is_ascii_uppercase().then_some('-');
            dash.into_iter().chain(std::iter::once(letter.to_ascii_lowercase()))
        })
        .collect();
    let commands = || TABLE.commands.iter().map(String::as_str);
    if let Some(command) = commands().find(|own| *own == dashed) {
        return Some(command);
    }
    if let Some(command) = TABLE.aliases.get(&dashed) {
        return Some(command);
    }
    let mut names = commands().chain(TABLE.aliases.keys().map(String::as_str));
    let mut fits = names.by_ref().filter(|own| !dashed.is_empty() && own.starts_with(&dashed));
    let (only, None) = (fits.next()?, fits.next()) else { return None };
    Some(TABLE.aliases.get(only).map_or(only, String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual;

    // req: P3
    #[test]
    fn npm_names_lead_to_the_commands_that_npm_runs() {
        for (name, command) in [
            ("install", Some("install")),
            ("isntall", Some("install")),
            ("publis", Some("publish")),
            ("exe", Some("exec")),
            ("c", Some("config")),
            ("rb", Some("rebuild")),
            ("installTest", Some("install-test")),
            ("install-cl", Some("ci")),
            ("p", None),
            ("no-such-command", None),
            ("", None),
        ] {
            assert_eq!(resolve(name), command, "{name}");
        }
    }

    // req: P3
    #[test]
    fn every_command_of_npm_is_in_its_manual() {
        let manual = manual::find("npm").unwrap();
        let missing: Vec<&String> =
            TABLE.commands.iter().filter(|name| manual.subcommand(name).is_none()).collect();
        assert!(!TABLE.commands.is_empty() && missing.is_empty(), "{missing:?}");
        assert!(TABLE.aliases.values().all(|command| TABLE.commands.contains(command)));
    }
}

//! Aliases of cargo in the settings of the project.

use super::super::command_analyzer::CommandAnalyzer;
use crate::word::Word;

/// The sub-commands that no alias replaces.
const BUILT_IN: [&str; 36] = [
    "add",
    "bench",
    "build",
    "check",
    "clean",
    "config",
    "doc",
    "fetch",
    "fix",
    "generate-lockfile",
    "help",
    "info",
    "init",
    "install",
    "locate-project",
    "login",
    "logout",
    "metadata",
    "new",
    "owner",
    "package",
    "pkgid",
    "publish",
    "remove",
    "report",
    "run",
    "rustc",
    "rustdoc",
    "search",
    "test",
    "tree",
    "uninstall",
    "update",
    "vendor",
    "version",
    "yank",
];

/// Adds the command behind an alias. Settings of this directory and of each one above it apply.
pub(in super::super) fn add_cargo_alias(teller: &mut CommandAnalyzer<'_>, name: &str, rest: &[Word]) {
    if BUILT_IN.contains(&name) {
        return;
    }
    for directory in teller.directories_upwards() {
        for file in ["config.toml", "config"] {
            let Some(text) = teller.env.read_script(&format!("{directory}/.cargo/{file}")) else { continue };
            let Some(words) = alias_words(&text, name) else { continue };
            let words = ["cargo"].into_iter().map(Word::literal).chain(words.into_iter().map(Word::literal));
            teller.add_nested_command(words.chain(rest.iter().cloned()).collect());
        }
    }
}

/// Returns the words of an alias in a settings file.
fn alias_words(text: &str, name: &str) -> Option<Vec<String>> {
    let settings: toml::Table = toml::from_str(text).ok()?;
    match settings.get("alias")?.get(name)? {
        toml::Value::String(text) => Some(text.split_whitespace().map(str::to_owned).collect()),
        toml::Value::Array(words) => {
            Some(words.iter().filter_map(|word| word.as_str()).map(str::to_owned).collect())
        }
        _ => None,
    }
}

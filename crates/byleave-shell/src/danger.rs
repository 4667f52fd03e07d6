//! Commands that are never allowed silently, because they are irreversible or too far-reaching. They are data, each with a reason.

use std::sync::LazyLock;

use byleave_core::effect::Effect;
use serde::Deserialize;

use crate::commands::ParsedCommands;
use crate::word::Word;

/// A rule for dangerous or irreversible commands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DangerRule {
    /// The stable name of the rule.
    pub id: String,
    /// The reason, as text for a person.
    pub why: String,
    /// The severity.
    #[serde(default)]
    pub grade: DangerSeverity,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    sub: Vec<String>,
    #[serde(default)]
    with: Vec<Vec<String>>,
    #[serde(default)]
    operands: Vec<String>,
    #[serde(default)]
    targets: Vec<String>,
    #[serde(default)]
    writes: Vec<String>,
    /// The programs whose writes do not count.
    #[serde(default)]
    except: Vec<String>,
}

/// The severity of a danger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DangerSeverity {
    /// A person is asked every time.
    #[default]
    Ask,
    /// Denied, unless the person's own rules say otherwise.
    Deny,
}

/// The facts about a command by which dangers are recognized.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandFacts {
    pub(crate) program: String,
    pub(crate) subcommands: Vec<String>,
    /// The options, each under all its names.
    pub(crate) options: Vec<String>,
    pub(crate) operands: Vec<String>,
    /// The resolved paths that it names.
    pub(crate) targets: Vec<String>,
    pub(crate) home: Option<String>,
    pub(crate) cwd: String,
    /// The directory that the command runs in.
    pub(crate) working_dir: Option<String>,
    /// The top of the repository that the command runs in.
    pub(crate) repository: Option<String>,
}

/// Returns all danger rules.
pub fn all_dangers() -> &'static [DangerRule] {
    DANGERS.as_deref().unwrap_or_default()
}

/// Returns the error of the embedded list. Unless this is `None`, no command may be considered harmless.
pub(crate) fn load_error() -> Option<&'static str> {
    DANGERS.as_ref().err().map(String::as_str)
}

/// Returns the dangers of one command.
pub(crate) fn find_dangers(facts: &CommandFacts, effects: &[Effect]) -> Vec<&'static DangerRule> {
    all_dangers().iter().filter(|danger| danger.matches(facts, effects)).collect()
}

/// Returns the dangers that show only in the whole text: a function that starts itself more than once.
pub(crate) fn find_dangers_in_text(reading: &ParsedCommands) -> Vec<&'static DangerRule> {
    let within = |name: &str| {
        let calls = reading.commands.iter().filter(|command| {
            command.is_function
                && command.words.first().and_then(Word::as_text) == Some(name)
                && command.enclosing.contains(&"function")
        });
        calls.count()
    };
    let mut names: Vec<&str> = reading
        .commands
        .iter()
        .filter(|command| command.is_function)
        .filter_map(|command| command.words.first()?.as_text())
        .collect();
    names.sort_unstable();
    names.dedup();
    let bomb = names.into_iter().any(|name| within(name) > 1);
    all_dangers().iter().filter(|danger| bomb && danger.id == "fork-bomb").collect()
}

impl DangerRule {
    fn matches(&self, facts: &CommandFacts, effects: &[Effect]) -> bool {
        if !self.writes.is_empty() {
            return !self.except.contains(&facts.program)
                && effects.iter().any(|effect| match effect {
                    Effect::Write { path } | Effect::Delete { path } => {
                        self.writes.iter().any(|own| matches_path(own, path))
                    }
                    _ => false,
                });
        }
        let is_it = self.programs.iter().any(|own| matches_stem(own, &facts.program));
        let sub = self.sub.is_empty() || facts.subcommands.join(" ").starts_with(&self.sub.join(" ")) || {
            facts.subcommands.is_empty() && facts.operands.starts_with(&self.sub)
        };
        let with = self.with.iter().all(|group| group.iter().any(|name| facts.options.contains(name)));
        let operands = self.operands.is_empty()
            || facts
                .operands
                .iter()
                .chain(&facts.subcommands)
                .any(|operand| self.operands.iter().any(|own| matches_stem(own, operand)));
        let targets = self.targets.is_empty()
            || facts.targets.iter().any(|path| self.targets.iter().any(|own| facts.is_target(own, path)));
        is_it && sub && with && operands && targets
    }
}

impl CommandFacts {
    /// Adds words whose options are not known one by one: each letter of a cluster and each long name.
    pub(crate) fn scan(&mut self, words: &[Word]) {
        self.scan_except(words, |_| false);
    }

    /// Does the same. A word that is one option, like `-newer` of `find`, is no cluster.
    pub(crate) fn scan_except(&mut self, words: &[Word], is_option: impl Fn(&str) -> bool) {
        for text in words.iter().filter_map(Word::as_text) {
            if let Some(long) = text.strip_prefix("--") {
                self.options.push(format!("--{}", long.split('=').next().unwrap_or(long)));
            } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                self.options.push(text.to_owned());
                let letters = if is_option(text) { "" } else { letters };
                self.options.extend(letters.chars().map(|letter| format!("-{letter}")));
            } else {
                self.operands.push(text.to_owned());
            }
        }
    }

    fn is_target(&self, own: &str, path: &str) -> bool {
        let under_root = path.strip_prefix('/').is_some_and(|rest| !rest.is_empty() && !rest.contains('/'));
        match own {
            "root" => path == "/" || (under_root && path != "/tmp" && path != self.cwd),
            "home" => {
                let folder =
                    self.home.as_deref().and_then(|home| home.rsplit_once('/')).map(|(folder, _)| folder);
                self.home.as_deref() == Some(path) || (folder == Some(path) && path != "/")
            }
            "workspace" => is_at_or_above(path, &self.cwd),
            "repository" => self.repository.as_ref().is_some_and(|top| is_at_or_above(path, top)),
            "here" => self.working_dir.as_deref() == Some(path),
            own => matches_stem(own, path),
        }
    }
}

fn is_at_or_above(path: &str, inner: &str) -> bool {
    let path = path.trim_end_matches('/');
    inner.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Checks whether a text matches: exactly, or by prefix if `own` ends in `*`.
fn matches_stem(own: &str, text: &str) -> bool {
    match own.strip_suffix('*') {
        Some(stem) => text.starts_with(stem),
        None => own == text,
    }
}

/// Checks whether a path matches: whole, up to a star at the end, or anywhere behind a star at the beginning.
fn matches_path(own: &str, path: &str) -> bool {
    let Some(part) = own.strip_prefix('*') else { return matches_stem(own, path) };
    match part.strip_suffix('*') {
        Some(middle) => path.contains(middle),
        None => path.ends_with(part),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DangerTable {
    danger: Vec<DangerRule>,
}

static DANGERS: LazyLock<Result<Vec<DangerRule>, String>> =
    LazyLock::new(|| parse(include_str!("../manuals/dangers.toml")));

fn parse(text: &str) -> Result<Vec<DangerRule>, String> {
    match toml::from_str::<DangerTable>(text) {
        Ok(table) if table.danger.is_empty() => Err("`dangers.toml` lists no dangers".to_owned()),
        Ok(table) => Ok(table.danger),
        Err(error) => Err(format!("`dangers.toml`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manual;

    #[test]
    fn every_danger_can_be_read_and_gives_its_reason() {
        assert_eq!(load_error(), None);
        for danger in all_dangers() {
            assert!(danger.why.len() > 10, "{}", danger.id);
            let same = all_dangers().iter().filter(|other| other.id == danger.id).count();
            assert!(same == 1, "{} stands twice", danger.id);
        }
    }

    /// An option that shares its line with others is taken for each of them.
    #[test]
    fn an_option_that_a_danger_names_shares_its_line_only_with_other_names_of_that_danger() {
        let mut wrong = Vec::new();
        for danger in all_dangers() {
            for program in &danger.programs {
                let Some(mut manual) = manual::find(program) else { continue };
                for sub in &danger.sub {
                    manual = manual.subcommand(sub).unwrap_or(manual);
                }
                for group in &danger.with {
                    for opt in group.iter().filter_map(|name| manual.options.get(name)) {
                        let others: Vec<_> = opt.names.iter().filter(|name| !group.contains(name)).collect();
                        if !others.is_empty() {
                            wrong.push(format!("{}: {program} {:?}: {others:?}", danger.id, danger.sub));
                        }
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_a_fault_and_not_an_empty_list() {
        for text in
            ["", "danger = []", "[[danger]]\nid = 1", "[[danger]]\nid = \"x\"\nwhy = \"y\"\ncolour = 1"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

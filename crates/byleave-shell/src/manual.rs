//! Manuals: descriptions of programs. They are data: one file in `manuals/` for a program or a family, embedded at build time.
//!
//! A manual is an allow-list: an option that is not in it is unknown. It never says that something is harmless without a reason.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

pub(crate) use self::options::{Operand, OptionSpec, OptionTable, OptionValue, ParsedOptions};
pub(crate) use self::role::WordRole;

mod embedded;
mod options;
mod role;

/// The description of one program or sub-command.
#[derive(Debug)]
pub(crate) struct Manual {
    pub(crate) names: Vec<String>,
    pub(crate) summary: String,
    pub(crate) options: OptionTable,
    pub(crate) style: OptionStyle,
    pub(crate) abbreviations: bool,
    pub(crate) free: bool,
    /// Whether it is usually a file of the project itself.
    pub(crate) local: bool,
    /// Whether it changes a named directory itself. Its changes below are named, or affect all of it.
    pub(crate) changes_itself: bool,
    pub(crate) operands: OperandRoles,
    pub(crate) cwd_role: Option<WordRole>,
    pub(crate) fixed_effects: Vec<FixedEffect>,
    pub(crate) special_reader: Option<String>,
    /// The additional reader, for rules that do not fit the table of options.
    pub(crate) extra_reader: Option<String>,
    /// Whether `@file` means the words in that file.
    pub(crate) response_files: bool,
    /// Whether it sends something to each host that it reaches.
    pub(crate) sends: bool,
    pub(crate) subcommands: Vec<Manual>,
}

/// The syntax of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OptionStyle {
    /// Clusters of short options, long options with `--`, also after operands.
    #[default]
    Gnu,
    /// The same, but no options after the first operand.
    Posix,
    /// Long options with one dash, no clusters.
    Single,
    /// No options: every word is an operand.
    None,
}

/// The roles of operands: some at the front, some at the back, and one for all between.
#[derive(Debug, Default)]
pub(crate) struct OperandRoles {
    pub(crate) front: Vec<WordRole>,
    pub(crate) between: Option<WordRole>,
    pub(crate) back: Vec<WordRole>,
}

/// An effect that a program has regardless of its words.
#[derive(Debug)]
pub(crate) struct FixedEffect {
    pub(crate) role: WordRole,
    pub(crate) target: String,
}

/// Returns the manual for a program of this name.
pub(crate) fn find(name: &str) -> Option<&'static Manual> {
    let shelf = &*MANUAL_INDEX;
    shelf.index.get(name).and_then(|at| shelf.manuals.get(*at))
}

/// Returns the errors of the embedded manuals. Unless this is empty, no command may be considered understood.
pub(crate) fn load_errors() -> &'static [String] {
    &MANUAL_INDEX.load_errors
}

/// Returns the sorted names of all programs that have a manual.
pub fn program_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = MANUAL_INDEX.index.keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

struct ManualIndex {
    manuals: Vec<Manual>,
    index: HashMap<String, usize>,
    load_errors: Vec<String>,
}

static MANUAL_INDEX: LazyLock<ManualIndex> = LazyLock::new(|| {
    let mut shelf = ManualIndex { manuals: Vec::new(), index: HashMap::new(), load_errors: Vec::new() };
    for (file, text) in embedded::MANUALS {
        let sheet = match toml::from_str::<ManualFile>(text) {
            Ok(sheet) => sheet,
            Err(error) => {
                shelf.load_errors.push(format!("`{file}`: {error}"));
                continue;
            }
        };
        for raw in sheet.manual {
            match raw.build() {
                Ok(manual) => {
                    let at = shelf.manuals.len();
                    for name in &manual.names {
                        if shelf.index.insert(name.clone(), at).is_some() {
                            shelf.load_errors.push(format!("`{file}`: `{name}` has two manuals"));
                        }
                    }
                    shelf.manuals.push(manual);
                }
                Err(why) => shelf.load_errors.push(format!("`{file}`: {why}")),
            }
        }
    }
    shelf
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManualFile {
    manual: Vec<RawManual>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManual {
    names: Vec<String>,
    why: String,
    #[serde(default)]
    options: String,
    #[serde(default)]
    style: OptionStyle,
    #[serde(default)]
    abbreviations: bool,
    #[serde(default)]
    free: bool,
    #[serde(default)]
    local: bool,
    #[serde(default)]
    itself: bool,
    #[serde(default)]
    operands: Vec<String>,
    here: Option<String>,
    #[serde(default)]
    does: Vec<String>,
    special: Option<String>,
    also: Option<String>,
    #[serde(default)]
    responses: bool,
    #[serde(default)]
    sends: bool,
    #[serde(default)]
    sub: Vec<RawManual>,
}

impl RawManual {
    fn build(self) -> Result<Manual, String> {
        let label = self.names.join("/");
        if self.names.is_empty() || self.why.trim().is_empty() {
            return Err(format!("`{label}` needs names and a `why`"));
        }
        let role =
            |name: &str| WordRole::from_name(name).ok_or_else(|| format!("`{label}`: no role `{name}`"));
        let mut operands = OperandRoles::default();
        for entry in &self.operands {
            match entry.strip_suffix('*') {
                Some(entry) if operands.between.is_none() => operands.between = Some(role(entry)?),
                Some(_) => return Err(format!("`{label}`: only one operand may repeat")),
                None if operands.between.is_some() => operands.back.push(role(entry)?),
                None => operands.front.push(role(entry)?),
            }
        }
        let deed = |line: &String| {
            let (name, target) =
                line.split_once(' ').ok_or_else(|| format!("`{label}`: invalid effect `{line}`"))?;
            Ok::<_, String>(FixedEffect { role: role(name)?, target: target.to_owned() })
        };
        Ok(Manual {
            options: OptionTable::parse(&self.options).map_err(|why| format!("`{label}`: {why}"))?,
            style: self.style,
            abbreviations: self.abbreviations,
            free: self.free,
            local: self.local,
            changes_itself: self.itself,
            operands,
            cwd_role: self.here.as_deref().map(role).transpose()?,
            fixed_effects: self.does.iter().map(deed).collect::<Result<_, _>>()?,
            special_reader: self.special,
            extra_reader: self.also,
            response_files: self.responses,
            sends: self.sends,
            subcommands: self.sub.into_iter().map(Self::build).collect::<Result<_, _>>()?,
            names: self.names,
            summary: self.why,
        })
    }
}

impl Manual {
    /// Returns the sub-command of this name.
    pub(crate) fn subcommand(&self, name: &str) -> Option<&Self> {
        self.subcommands.iter().find(|sub| sub.names.iter().any(|own| own == name))
    }
}

impl OperandRoles {
    /// Checks whether the program runs a command from its operands.
    pub(crate) fn runs_operands(&self) -> bool {
        let mut all = self.front.iter().chain(&self.between).chain(&self.back);
        all.any(|role| matches!(role, WordRole::Argv | WordRole::Shell))
    }

    /// Returns the role of each operand, `None` if the manual has none. `skipped` of the front operands are given by options.
    pub(crate) fn roles(&self, count: usize, skipped: usize) -> Vec<Option<WordRole>> {
        let front: Vec<WordRole> = self.front.iter().skip(skipped).copied().collect();
        let back_from = count.saturating_sub(self.back.len()).max(front.len());
        (0..count)
            .map(|at| {
                if let Some(role) = front.get(at) {
                    return Some(*role);
                }
                match at.checked_sub(back_from) {
                    Some(behind) if !self.back.is_empty() => self.back.get(behind).copied(),
                    _ => self.between,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manual_can_be_read_and_gives_its_reason() {
        assert_eq!(load_errors(), &[] as &[String]);
        assert!(program_names().len() >= 150, "only {} programs", program_names().len());
        for (file, text) in embedded::MANUALS {
            let sheet: ManualFile = toml::from_str(text).unwrap();
            for raw in &sheet.manual {
                assert!(raw.why.len() > 10, "{file}: {:?} has no reason", raw.names);
            }
        }
    }

    #[test]
    fn the_list_of_embedded_files_is_complete() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/manuals");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml") && name != "dangers.toml" && name != "environment.toml")
            .collect();
        files.sort();
        let mut embedded: Vec<&str> = embedded::MANUALS.iter().map(|(file, _)| *file).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, files);
    }
}

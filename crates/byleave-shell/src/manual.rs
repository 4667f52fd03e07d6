//! Manuals: descriptions of programs. They are data: one file in `manuals/` for a program or a family, embedded at build time.
//!
//! A manual is an allow-list: an option that is not in it is unknown. It never says that something is harmless without a reason.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;

pub(crate) use self::options::{Operand, OptionSpec, OptionTable, OptionValue, ParsedOptions};
pub(crate) use self::role::WordRole;

mod embedded;
mod npm_commands;
mod options;
mod role;

/// The description of one program or sub-command.
#[derive(Debug)]
pub(crate) struct Manual {
    pub(crate) names: Vec<String>,
    /// For each name, the first of the names that mean the same.
    canonical_names: Vec<String>,
    pub(crate) summary: String,
    pub(crate) options: OptionTable,
    pub(crate) style: OptionStyle,
    pub(crate) abbreviations: bool,
    pub(crate) free: bool,
    /// Whether it is usually a file of the project itself.
    pub(crate) local: bool,
    /// Whether it runs code of the project: the file of the manual says so.
    pub(crate) runs_project_code: bool,
    /// Whether it may reach hosts that no word names: the file of the manual says so.
    pub(crate) may_reach_others: bool,
    /// Whether it changes a named directory itself. Its changes below are named, or affect all of it.
    pub(crate) changes_itself: bool,
    /// Whether it runs its command in other directories, such as those of all packages.
    pub(crate) runs_elsewhere: bool,
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
    /// What the first operand is if it is not a sub-command.
    pub(crate) fallback: Option<SubcommandFallback>,
    /// The sub-command that runs if there is none.
    pub(crate) default_subcommand: Option<String>,
    /// The program whose sub-command follows, after so many other operands: `cargo hack build`, `yarn workspace NAME build`.
    pub(crate) subcommand_of: Option<(String, usize)>,
    /// Whether npm's own table of aliases and unique beginnings applies to the sub-commands.
    uses_npm_names: bool,
}

/// The meaning of a first operand that is not a sub-command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SubcommandFallback {
    /// A script of `package.json`, or a program in `node_modules/.bin`. Any other name is unknown.
    Script,
    /// An ordinary operand, as the manual says.
    Operands,
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

/// Returns the manual for a program of this name. A manual that cannot be read is as if there were none: its program is unknown.
pub(crate) fn find(name: &str) -> Option<&'static Manual> {
    let at = MANUAL_INDEX.sections_by_name.get(name)?;
    MANUAL_INDEX.sections.get(*at)?.manual().ok()
}

/// Returns the sorted names of all programs that have a manual.
pub fn program_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = MANUAL_INDEX.sections_by_name.keys().copied().collect();
    names.sort_unstable();
    names
}

/// The embedded manuals by name. Reading all of them would take longer than reading a command, so each is read when it is needed.
struct ManualIndex {
    sections: Vec<ManualSection>,
    sections_by_name: HashMap<&'static str, usize>,
}

/// The part of a file that describes one program.
struct ManualSection {
    file: &'static str,
    text: &'static str,
    manual: OnceLock<Result<Manual, String>>,
}

static MANUAL_INDEX: LazyLock<ManualIndex> = LazyLock::new(|| {
    let mut index = ManualIndex { sections: Vec::new(), sections_by_name: HashMap::new() };
    for (file, text) in embedded::MANUALS {
        for text in sections(text) {
            for name in section_names(text) {
                index.sections_by_name.insert(name, index.sections.len());
            }
            index.sections.push(ManualSection { file, text, manual: OnceLock::new() });
        }
    }
    index
});

/// The line that begins a manual. Its sub-commands have other lines.
const SECTION_LINE: &str = "[[manual]]\n";

/// Splits the text of a file into its manuals.
fn sections(text: &'static str) -> impl Iterator<Item = &'static str> {
    let mut starts = text.match_indices(SECTION_LINE).map(|(start, _)| start).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()?;
        text.get(start..starts.peek().copied().unwrap_or(text.len()))
    })
}

/// Returns the names of a manual without reading all of it. They stand on one line.
fn section_names(section: &'static str) -> impl Iterator<Item = &'static str> {
    let line = section.lines().find_map(|line| line.strip_prefix("names = ")).unwrap_or_default();
    line.split('"').skip(1).step_by(2).flat_map(|synonyms| synonyms.split('|'))
}

impl ManualSection {
    fn manual(&self) -> Result<&Manual, &str> {
        self.manual.get_or_init(|| self.read()).as_ref().map_err(String::as_str)
    }

    fn read(&self) -> Result<Manual, String> {
        let file = self.file;
        let sheet: ManualFile = toml::from_str(self.text).map_err(|error| format!("`{file}`: {error}"))?;
        let mut manuals = sheet.manual.into_iter();
        let (Some(raw), None) = (manuals.next(), manuals.next()) else {
            return Err(format!("`{file}`: not one manual"));
        };
        let mut manual = raw.build().map_err(|error| format!("`{file}`: {error}"))?;
        manual.runs_project_code = embedded::PROJECT_CODE.contains(&file);
        manual.may_reach_others = manual.runs_project_code || embedded::CLIENTS.contains(&file);
        Ok(manual)
    }
}

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
    elsewhere: bool,
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
    fallback: Option<SubcommandFallback>,
    empty: Option<String>,
    behind: Option<String>,
    #[serde(default)]
    behind_after: usize,
    #[serde(default)]
    npm_names: bool,
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
        // `a|b` are names with the same meaning.
        let synonyms = |entry: &String| entry.split('|').map(str::to_owned).collect::<Vec<_>>();
        let first = |entry: &String| {
            let names = synonyms(entry);
            vec![names.first().cloned().unwrap_or_default(); names.len()]
        };
        Ok(Manual {
            canonical_names: self.names.iter().flat_map(first).collect(),
            fallback: self.fallback,
            default_subcommand: self.empty,
            subcommand_of: self.behind.map(|program| (program, self.behind_after)),
            uses_npm_names: self.npm_names,
            options: OptionTable::parse(&self.options).map_err(|why| format!("`{label}`: {why}"))?,
            style: self.style,
            abbreviations: self.abbreviations,
            free: self.free,
            local: self.local,
            runs_project_code: false,
            may_reach_others: false,
            changes_itself: self.itself,
            runs_elsewhere: self.elsewhere,
            operands,
            cwd_role: self.here.as_deref().map(role).transpose()?,
            fixed_effects: self.does.iter().map(deed).collect::<Result<_, _>>()?,
            special_reader: self.special,
            extra_reader: self.also,
            response_files: self.responses,
            sends: self.sends,
            subcommands: self.sub.into_iter().map(Self::build).collect::<Result<_, _>>()?,
            names: self.names.iter().flat_map(synonyms).collect(),
            summary: self.why,
        })
    }
}

impl Manual {
    /// Returns the sub-command of this name.
    pub(crate) fn subcommand(&self, name: &str) -> Option<&Self> {
        let resolved = if self.uses_npm_names { npm_commands::resolve(name)? } else { name };
        self.subcommands.iter().find(|sub| sub.names.iter().any(|own| own == resolved))
    }

    /// Returns the first of the names that mean the same as this one.
    pub(crate) fn canonical_name<'n>(&'n self, name: &'n str) -> &'n str {
        let at = self.names.iter().position(|own| own == name);
        at.and_then(|at| self.canonical_names.get(at)).map_or(name, String::as_str)
    }

    /// Returns the first of the names that mean the same as this sub-command.
    pub(crate) fn canonical_subcommand<'n>(&'n self, name: &'n str) -> &'n str {
        let resolved = if self.uses_npm_names { npm_commands::resolve(name).unwrap_or(name) } else { name };
        self.subcommand(name).map_or(resolved, |sub| sub.canonical_name(resolved))
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

    /// The files in the folder that are other tables.
    const NOT_MANUALS: [&str; 5] =
        ["dangers.toml", "environment.toml", "npm-commands.toml", "python-modules.toml", "services.toml"];

    fn all_manuals() -> impl Iterator<Item = &'static Manual> {
        MANUAL_INDEX.sections.iter().map(|section| section.manual().unwrap())
    }

    // A manual that cannot be read is missing, so this test reads all of them.
    #[test]
    fn every_manual_can_be_read_and_gives_its_reason() {
        let mut names = std::collections::BTreeSet::new();
        for (file, text) in embedded::MANUALS {
            let whole: ManualFile = toml::from_str(text).unwrap();
            let of_file = || MANUAL_INDEX.sections.iter().filter(|section| section.file == *file);
            assert_eq!(whole.manual.len(), of_file().count(), "{file}");
            for (raw, section) in whole.manual.iter().zip(of_file()) {
                assert!(raw.why.len() > 10, "{file}: {:?} has no reason", raw.names);
                let manual = section.manual().unwrap();
                assert_eq!(manual.names, section_names(section.text).collect::<Vec<_>>(), "{file}");
                assert!(!manual.names.is_empty(), "{file}");
                for name in &manual.names {
                    assert!(names.insert(name.clone()), "{file}: `{name}` has two manuals");
                    assert_eq!(find(name).unwrap().summary, raw.why);
                }
            }
        }
        assert!(names.len() >= 150, "only {} programs", names.len());
    }

    /// Parts of a long option that sound like a path or a host.
    const PLACE_WORDS: [&str; 20] = [
        "config",
        "configfile",
        "dir",
        "directory",
        "file",
        "files",
        "host",
        "index",
        "out",
        "outdir",
        "outfile",
        "output",
        "path",
        "paths",
        "registry",
        "repo",
        "report",
        "repository",
        "root",
        "rootdir",
    ];

    /// Options that sound like a path or a host, and whose value is neither: a format, a mark, a number, a pattern or a mode.
    const NOT_PLACES: [&str; 45] = [
        "ag --file-search-regex",
        "bat --file-name",
        "biome --files-max-size",
        "cargo nextest run --failure-output",
        "cargo nextest run --success-output",
        "column --output-separator",
        "column --output-width",
        "comm --output-delimiter",
        "ctest --build-config",
        "cut --output-delimiter",
        "df --output",
        "diff --starting-file",
        "docker compose ps --index",
        "fd --path-separator",
        "flake8 --per-file-ignores",
        "git archive --add-virtual-file",
        "git commit --untracked-files",
        "git diff --dirstat-by-file",
        "git diff --output-indicator-context",
        "git diff --output-indicator-new",
        "git diff --output-indicator-old",
        "git ls-files --exclude-per-directory",
        "git rev-parse --path-format",
        "git status --untracked-files",
        "grep --binary-files",
        "grep --exclude-dir",
        "just --output",
        "kubectl apply --output",
        "make --output-sync",
        "renice --output",
        "rg --path-separator",
        "rsync --out-format",
        "ruff --output-format",
        "ruff --per-file-ignores",
        "script --output-limit",
        "stdbuf --output",
        "strings --output-separator",
        "strip --output-target",
        "sudo --host",
        "systemctl --output",
        "systemctl status --output",
        // Readers of their own tell these.
        "curl --upload-file",
        "tar --file",
        "tee --output-error",
        "jest --testPathPattern",
    ];

    // req: P3
    #[test]
    fn no_option_that_sounds_like_a_path_or_a_host_is_plain_text() {
        fn check(manual: &Manual, label: &str, wrong: &mut Vec<String>) {
            for opt in manual.options.all().iter().filter(|opt| opt.reason.is_none()) {
                let (OptionValue::Required(role) | OptionValue::Optional(role)) = opt.value else { continue };
                if role != WordRole::Text {
                    continue;
                }
                for name in opt.names.iter().filter(|name| name.starts_with("--")) {
                    let spaced: String = name
                        .chars()
                        .flat_map(|c| {
                            c.is_ascii_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()])
                        })
                        .collect();
                    let sounds = spaced.split(['-', '.']).any(|part| PLACE_WORDS.contains(&part));
                    let option = format!("{label} {name}");
                    if sounds && !NOT_PLACES.contains(&option.as_str()) {
                        wrong.push(option);
                    }
                }
            }
            for sub in &manual.subcommands {
                check(sub, &format!("{label} {}", sub.names.first().unwrap()), wrong);
            }
        }
        let mut wrong = Vec::new();
        for manual in all_manuals() {
            check(manual, manual.names.first().unwrap(), &mut wrong);
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    // req: P3
    #[test]
    fn a_program_with_sub_commands_says_what_another_first_word_is() {
        for manual in all_manuals() {
            let takes_operands = manual.operands.between.is_some() || !manual.operands.front.is_empty();
            let is_unknown = |role: &WordRole| *role == WordRole::Unknown;
            let all_unknown = manual.operands.front.iter().chain(&manual.operands.between).all(is_unknown);
            if !manual.subcommands.is_empty() && takes_operands && manual.fallback.is_none() {
                assert!(all_unknown, "{:?} lists operands that never apply", manual.names);
            }
        }
    }

    #[test]
    fn the_list_of_embedded_files_is_complete() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/manuals");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml") && !NOT_MANUALS.contains(&name.as_str()))
            .collect();
        files.sort();
        let mut embedded: Vec<&str> = embedded::MANUALS.iter().map(|(file, _)| *file).collect();
        embedded.sort_unstable();
        assert_eq!(embedded, files);
    }
}

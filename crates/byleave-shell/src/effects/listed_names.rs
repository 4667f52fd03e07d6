//! Names that a program reads from its input or from a file, and formats of Git that run programs.

use super::command_analyzer::CommandAnalyzer;
use crate::commands::{RedirectionAccess, WorkingDir};
use crate::manual::WordRole;
use crate::wildcard::{self, LetterCase};
use crate::word::Word;

use super::beneath::MATCHES_MAX;

/// The limit for names that are read from a list.
const NAMES_MAX: usize = 500;

/// The formats of Git that have a name of their own. Any other name is looked up in the settings.
const FORMAT_NAMES: [&str; 10] =
    ["oneline", "short", "medium", "full", "fuller", "reference", "email", "mboxrd", "raw", ""];

impl CommandAnalyzer<'_> {
    /// Adds the effects of names in a list: in the file of this name, or in the input.
    pub(super) fn add_listed_names(&mut self, role: WordRole, file: Option<&Word>) {
        let text = match file.and_then(Word::as_text) {
            Some(file) if file != "-" => self.listed_in_file(file),
            _ => self.listed_in_input(),
        };
        let Some(text) = text else {
            return self.add_unknown(format!(
                "`{}` reads names from a list that is not known",
                self.command_path.join(" ")
            ));
        };
        let lines =
            text.split(['\n', '\0']).map(|line| line.trim_end_matches('\r')).filter(|line| !line.is_empty());
        for (count, line) in lines.enumerate() {
            if count >= NAMES_MAX {
                return self.add_unknown("a list of names is too long to analyze");
            }
            if line.starts_with('"') {
                self.add_unknown(format!("`{line}` is a quoted name, which is not analyzed"));
            }
            self.apply_role(role, &Word::literal(line));
        }
    }

    /// Returns the content of a list. It is only what is there now.
    fn listed_in_file(&mut self, file: &str) -> Option<String> {
        self.add_unknown(format!("`{file}` lists names, and may change before it is read"));
        let WorkingDir::At(place) = &self.working_dir else { return None };
        let path = self.env.resolve(place, file)?;
        self.result.depends_on.push(path.clone());
        self.env.read_script(&path)
    }

    fn listed_in_input(&mut self) -> Option<String> {
        if let Some(text) = self.command.input.as_ref().and_then(Word::as_text) {
            return Some(text.to_owned());
        }
        let mut from = self.command.redirections.iter();
        let from = from.find(|redirection| redirection.access == RedirectionAccess::Read)?;
        let file = from.target.as_text()?.to_owned();
        self.listed_in_file(&file)
    }

    /// Checks a format or a field of Git: those about signatures run a program from the settings.
    pub(super) fn add_git_format(&mut self, role: WordRole, text: &str) {
        let mut places = text.split('%').skip(1).map(|place| place.trim_start_matches(['+', '-', ' ']));
        if text.contains("signature") || places.any(|place| place.starts_with('G')) {
            self.add_unknown(format!("`{text}` runs the signature program from the settings"));
        }
        let is_named =
            role == WordRole::GitFormat && !text.contains(['%', ':']) && !FORMAT_NAMES.contains(&text);
        if is_named {
            self.add_unknown(format!("the format `{text}` is in the settings"));
        }
    }

    /// Adds the files beneath a directory whose names match one of the patterns.
    pub(super) fn add_matching_names(&mut self, role: WordRole, directory: &str, patterns: &[String]) {
        for path in self.matching_names(directory, patterns, LetterCase::Exact) {
            self.add_path(role, &path);
        }
    }

    /// Returns the paths beneath a directory whose names, or relative paths, match one of the patterns.
    pub(super) fn matching_names(
        &self,
        directory: &str,
        patterns: &[String],
        case: LetterCase,
    ) -> Vec<String> {
        let WorkingDir::At(place) = &self.working_dir else { return Vec::new() };
        let Some(start) = self.env.resolve(place, directory) else { return Vec::new() };
        let fits = |text: &str| patterns.iter().any(|pattern| wildcard::matches(pattern, text, case));
        let entries = self.walk(&start).into_iter();
        let named = entries.filter(|entry| {
            let written = format!("{}/{}", directory.trim_end_matches('/'), entry.relative);
            fits(entry.relative.rsplit('/').next().unwrap_or_default())
                || fits(&written)
                || fits(&entry.relative)
        });
        named.take(MATCHES_MAX).map(|entry| entry.path).collect()
    }
}

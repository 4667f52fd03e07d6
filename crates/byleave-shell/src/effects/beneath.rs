//! What lies beneath a directory: the contents that are deleted, copied or moved with it, and the files that a program finds there.
//!
//! A walk goes level by level and has a limit. Beyond the limit nothing is reported: the observation of the run decides on the rest.

use std::collections::VecDeque;

use byleave_core::effect::Effect;

use super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::manual::WordRole;

/// The limit for entries that one walk looks at.
const WALK_MAX: usize = 2_000;

/// The limit for contents of deleted and copied directories that are reported.
const CONTENTS_MAX: usize = 500;

/// The limit for files that a pattern is reported to match.
pub(super) const MATCHES_MAX: usize = 50;

/// An entry beneath a directory.
pub(super) struct FoundEntry {
    /// The absolute path.
    pub(super) path: String,
    /// The path relative to the start.
    pub(super) relative: String,
}

impl CommandAnalyzer<'_> {
    /// Returns the entries beneath an absolute directory, nearest first.
    pub(super) fn walk(&self, directory: &str) -> Vec<FoundEntry> {
        let mut found = Vec::new();
        let mut left = VecDeque::from([(directory.trim_end_matches('/').to_owned(), String::new())]);
        while let Some((path, relative)) = left.pop_front() {
            if !self.env.is_directory(if path.is_empty() { "/" } else { &path }) {
                continue;
            }
            for name in self.env.list_directory(&path).unwrap_or_default() {
                if found.len() >= WALK_MAX {
                    return found;
                }
                let below = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
                let entry = FoundEntry { path: format!("{path}/{name}"), relative: below };
                // A link is not followed.
                if self.env.resolve(&path, &name).as_ref() == Some(&entry.path) {
                    left.push_back((entry.path.clone(), entry.relative.clone()));
                }
                found.push(entry);
            }
        }
        found
    }

    /// Adds the deletion of everything in a directory that is deleted as a whole.
    pub(super) fn add_deleted_contents(&mut self, directory: &str) {
        if !self.env.is_directory(directory) {
            return;
        }
        for entry in self.walk(directory).into_iter().take(CONTENTS_MAX) {
            self.add_contained(Effect::Delete { path: entry.path });
        }
    }

    /// Adds the writes below the target of a directory that is copied or moved there. `target` is its new path.
    pub(super) fn add_copied_tree(&mut self, source: &str, target: &str) {
        let WorkingDir::At(place) = &self.working_dir else { return };
        let (Some(source), Some(target)) = (self.env.resolve(place, source), self.env.resolve(place, target))
        else {
            return;
        };
        if !self.env.is_directory(&source) {
            return;
        }
        let target = target.trim_end_matches('/').to_owned();
        // A link gives its names to what lies directly in the directory. What lies deeper keeps the names that rules know.
        let is_link = self.facts.program.ends_with("ln");
        let entries =
            self.walk(&source).into_iter().filter(|entry| !is_link || !entry.relative.contains('/'));
        for entry in entries.take(CONTENTS_MAX).collect::<Vec<_>>() {
            let path = format!("{target}/{}", entry.relative);
            self.note_moved_link(&entry.path, &path);
            self.add_contained(Effect::Write { path });
        }
    }

    /// Adds the targets of links beneath a directory that lead elsewhere, for a program that follows them. Returns whether there are any.
    pub(super) fn add_linked_elsewhere(&mut self, directory: &str) -> bool {
        let inside = format!("{}/", directory.trim_end_matches('/'));
        let mut is_any = false;
        for entry in self.walk(directory) {
            match self.env.resolve("/", &entry.path) {
                Some(real) if real.starts_with(&inside) => {}
                Some(real) => {
                    is_any = true;
                    self.add_path_effect(Effect::Read { path: real }, true);
                }
                None => {
                    is_any = true;
                    self.add_unknown(format!("the target of `{}` is not known", entry.path));
                }
            }
        }
        is_any
    }

    /// Adds what a pattern over names stands for beneath a directory: `DIRECTORY/**/PATTERN`.
    pub(super) fn add_named_beneath(&mut self, role: WordRole, directory: &str, pattern: &str) {
        let before = std::mem::replace(&mut self.all_partial, true);
        let name = pattern.trim_start_matches("**/").trim_start_matches('/');
        if !name.is_empty() {
            self.add_path(role, &format!("{}/**/{name}", directory.trim_end_matches('/')));
            self.add_path(role, &format!("{}/{name}", directory.trim_end_matches('/')));
        }
        self.all_partial = before;
    }

    /// Checks whether a word names a directory that exists.
    pub(super) fn is_directory_there(&self, text: &str) -> bool {
        let WorkingDir::At(place) = &self.working_dir else { return false };
        self.env.resolve(place, text).is_some_and(|path| self.env.is_directory(&path))
    }

    pub(super) fn add_contained(&mut self, effect: Effect) {
        if !self.result.contained_effects.contains(&effect) {
            self.result.contained_effects.push(effect);
        }
    }
}

//! Asks the policy, path by path, which paths to hide and which to protect.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_core::decision::Verdict;
use byleave_core::effect::Effect;
use byleave_core::git_settings::{is_settings_file, setting_path};
use byleave_core::pattern::{MatchCertainty, Pattern, PatternMatcher};
use byleave_core::policy::Policy;

use super::GrantedEffects;
use crate::protected_paths::{IndexError, PathPolicy, find_protected_paths};
use crate::system_paths;

/// The policy, asked about one path after another.
pub(super) struct RulePathPolicy {
    policy: Arc<Policy>,
    granted: GrantedEffects,
    /// Rules that deny deleting a path but do not deny writing it.
    kept: Vec<PatternMatcher>,
    /// Whether rules that ask name single paths. A rule that asks about the whole workspace was answered with the call.
    asks_to_read: bool,
    asks_to_write: bool,
    /// Whether paths that rules ask about may be written, because the run is on a copy and the rules ask about its result.
    on_a_copy: bool,
}

impl RulePathPolicy {
    pub(super) fn new(policy: Arc<Policy>, granted: GrantedEffects, workspace: &Path) -> Self {
        let denies = policy.rules().filter(|rule| rule.verdict == Verdict::Deny);
        let kept = denies.flat_map(|rule| {
            rule.patterns.iter().filter(|pattern| match pattern {
                Pattern::Delete(glob) => !rule.patterns.contains(&Pattern::Write(glob.clone())),
                _ => false,
            })
        });
        let kept = kept
            .filter_map(|pattern| {
                PatternMatcher::with_certainty(pattern.clone(), MatchCertainty::Possible).ok()
            })
            .collect();
        let path = sample_new_path(workspace);
        let asks_to_read = !policy.may_ask(&Effect::Read { path: path.clone() });
        let asks_to_write = !policy.may_ask(&Effect::Write { path });
        let marks = Self {
            policy,
            granted: GrantedEffects::default(),
            kept,
            asks_to_read,
            asks_to_write,
            on_a_copy: false,
        };
        // Drops granted paths that need no grant. Most commands then share the same marks.
        let mut granted = granted;
        granted.read.retain(|path| path.ancestors().any(|above| marks.of(above, Self::is_hidden)));
        for changed in [&mut granted.written, &mut granted.deleted] {
            changed.retain(|path| marks.of(path, Self::protects) || marks.of(path, Self::is_runnable_later));
        }
        Self { granted, ..marks }
    }

    /// Evaluates a path. A path that is not valid text gets the strictest result.
    fn of(&self, path: &Path, says: fn(&Self, &str) -> bool) -> bool {
        path.to_str().is_none_or(|path| says(self, path))
    }

    /// Checks whether these are the settings of a repository, or a file of a working tree, that a run on a copy may write. What it writes is
    /// judged by its content.
    fn opens_git_settings(&self, path: &str) -> bool {
        let files = &self.granted.git_settings;
        let is_denied = || {
            let write = Effect::Write { path: setting_path(path, "something-new") };
            self.policy.strictest_restriction(&write) == Some(Verdict::Deny)
        };
        let is_worktree = || {
            let inside = path.split_once("/.git/worktrees/").and_then(|(_, inside)| inside.split_once('/'));
            inside.is_some_and(|(_, file)| ["commondir", "gitdir"].contains(&file))
        };
        self.on_a_copy
            && (is_settings_file(path) && (files.any || files.named.contains(Path::new(path)))
                || files.any && is_worktree())
            && fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
            && !is_denied()
    }

    /// Returns the same policy for a run on a copy.
    pub(super) fn for_copy(self) -> Self {
        Self { on_a_copy: true, ..self }
    }

    /// Returns the named paths outside of these roots that rules deny to read or ask about. A path that cannot be read inside
    /// need not be hidden. The system and these paths can be read.
    pub(super) fn denied_outside_roots(
        &self,
        roots: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<Vec<PathBuf>, IndexError> {
        let mut hidden = BTreeSet::new();
        let can_be_read = |place: &Path| {
            system_paths::is_system(place) || readable.iter().any(|readable| place.starts_with(readable))
        };
        let denied = self.policy.read_matchers(Verdict::Deny).map(|(place, guard)| (place, guard, false));
        let asked = self.policy.read_matchers(Verdict::Ask).filter(|_| self.asks_to_read);
        for (place, guard, asked) in denied.chain(asked.map(|(place, guard)| (place, guard, true))) {
            let place = PathBuf::from(place);
            let looked_through = roots.iter().any(|root| place.starts_with(root));
            // A symbolic link is covered by the path of its target.
            if looked_through || !can_be_read(&place) || !is_there(&place) {
                continue;
            }
            // A rule that asks about a whole toolchain or the whole system applies to every program, and was answered with the
            // call.
            if asked && !place.parent().is_some_and(can_be_read) {
                continue;
            }
            let text = place.to_string_lossy().into_owned();
            let is_granted = asked && self.holds_granted(&place);
            if guard.matches(&Effect::Read { path: text }) && !is_granted {
                hidden.insert(place);
            } else if place.is_dir() {
                let one = SingleRulePolicy { marks: self, guard: &guard };
                // Most rules here are about files of a large directory, like `/etc/shadow*`. Its directories need not be listed.
                if guard.pattern().matches_only_entries()
                    && let Some(entries) = hidden_entries(&place, &one)
                {
                    hidden.extend(entries);
                    continue;
                }
                // A directory that this user cannot read is also unreadable for a command of this user.
                match find_protected_paths(&place, &one) {
                    Ok(marked) => hidden.extend(marked.hidden),
                    Err(IndexError::Unreadable { .. }) => hidden.extend(beneath(&place, &one)),
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(hidden.into_iter().collect())
    }

    /// Checks whether the path lies in a granted directory that a rule asks about. A directory without such a rule opens nothing.
    fn lies_in_granted(&self, path: &Path) -> bool {
        let is_asked = |granted: &PathBuf| {
            let path = granted.to_string_lossy().into_owned();
            self.policy
                .strictest_restriction(&Effect::Read { path })
                .is_some_and(|verdict| verdict != Verdict::Deny)
        };
        self.granted.read.iter().any(|granted| path.starts_with(granted) && is_asked(granted))
    }

    fn holds_granted(&self, path: &Path) -> bool {
        self.granted.read.iter().any(|granted| granted.starts_with(path))
    }
}

/// The paths of one rule, in a place where no other rules are checked.
struct SingleRulePolicy<'a> {
    marks: &'a RulePathPolicy,
    guard: &'a PatternMatcher,
}

impl PathPolicy for SingleRulePolicy<'_> {
    fn is_hidden(&self, path: &str) -> bool {
        self.guard.matches(&Effect::Read { path: path.to_owned() }) && self.marks.is_hidden(path)
    }

    fn protects(&self, _: &str) -> bool {
        false
    }
}

impl PathPolicy for RulePathPolicy {
    fn is_hidden(&self, path: &str) -> bool {
        let effect = Effect::Read { path: path.to_owned() };
        let guarded = match self.policy.strictest_restriction(&effect) {
            Some(Verdict::Deny) => true,
            Some(_) => self.asks_to_read && !self.lies_in_granted(Path::new(path)),
            None => false,
        };
        guarded && !self.holds_granted(Path::new(path))
    }

    fn protects(&self, path: &str) -> bool {
        if self.granted.changes(Path::new(path)) || self.opens_git_settings(path) {
            return false;
        }
        let guarded = |effect: Effect| match self.policy.strictest_restriction(&effect) {
            Some(Verdict::Deny) => true,
            Some(_) => self.asks_to_write && !self.on_a_copy,
            None => false,
        };
        let removed = Effect::Delete { path: path.to_owned() };
        if guarded(Effect::Write { path: sample_new_path(Path::new(path)) })
            || self.kept.iter().any(|kept| kept.matches(&removed))
        {
            return true;
        }
        // A rule that matches the name of a directory, but not its contents, is about creating or replacing it.
        guarded(Effect::Write { path: path.to_owned() }) && !Path::new(path).is_dir()
    }

    fn is_runnable_later(&self, path: &str) -> bool {
        if self.granted.changes(Path::new(path)) {
            return false;
        }
        let write = Effect::Write { path: path.to_owned() };
        // A path that a rule asks about by name was not answered with the call, whether it exists or not.
        let is_asked =
            || self.asks_to_write && self.policy.strictest_restriction(&write) == Some(Verdict::Ask);
        // A path that may be neither read nor written is a secret, and no program runs it. One that may be read but not written
        // is trusted.
        (self.policy.may_deny(&write) || is_asked())
            && !self.policy.may_deny(&Effect::Read { path: path.to_owned() })
    }

    fn agrees_with(&self, other: &dyn PathPolicy) -> bool {
        let Some(other) = other.as_any().and_then(|other| other.downcast_ref::<Self>()) else { return false };
        // The other fields follow from the policy, the workspace, and whether it is a copy.
        let paths = |marks: &Self| {
            let GrantedEffects { read, written, deleted, git_settings, .. } = &marks.granted;
            let asks = (marks.asks_to_read, marks.asks_to_write, marks.on_a_copy);
            (read.clone(), written.clone(), deleted.clone(), git_settings.clone(), asks)
        };
        Arc::ptr_eq(&self.policy, &other.policy) && paths(self) == paths(other)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// Returns the path of a possible new file in a directory, with a name that no rule matches in particular.
pub(super) fn sample_new_path(directory: &Path) -> String {
    directory.join("something-new").to_string_lossy().into_owned()
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

/// Returns the direct entries of a directory that a rule hides, unless one may have other names elsewhere in the directory, or the
/// directory cannot be listed.
fn hidden_entries(place: &Path, one: &SingleRulePolicy<'_>) -> Option<Vec<PathBuf>> {
    let mut hidden = Vec::new();
    for entry in fs::read_dir(place).ok()? {
        let path = entry.ok()?.path();
        if path.to_str().is_none_or(|text| one.is_hidden(text)) {
            let found = fs::symlink_metadata(&path).ok()?;
            if found.is_symlink() || found.is_file() && found.nlink() > 1 {
                return None;
            }
            hidden.push(path);
        }
    }
    Some(hidden)
}

/// Returns the direct entries of a directory that a rule hides.
fn beneath(place: &Path, one: &SingleRulePolicy<'_>) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_str().is_none_or(|text| one.is_hidden(text)) && is_there(path)).collect()
}

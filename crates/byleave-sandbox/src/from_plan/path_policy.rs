//! Which paths must not be seen or not be changed: asked of the rules, path by path.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use byleave_core::decision::Verdict;
use byleave_core::effect::Effect;
use byleave_core::pattern::{MatchCertainty, Pattern, PatternMatcher};
use byleave_core::policy::Policy;

use super::GrantedEffects;
use crate::protected_paths::{IndexError, PathPolicy, look};
use crate::system_paths;

/// The rules, asked about one path after another.
pub(super) struct RulePathPolicy {
    policy: Arc<Policy>,
    granted: GrantedEffects,
    /// Rules that deny removing something, where writing it is not denied with it.
    kept: Vec<PatternMatcher>,
    /// Whether rules that ask are about single paths. One that asks about the whole workspace was answered with the call.
    asks_to_read: bool,
    asks_to_write: bool,
    /// What rules ask about may be written: it is a copy, and is asked about when it is known.
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
            .filter_map(|pattern| PatternMatcher::in_sense(pattern.clone(), MatchCertainty::Possibly).ok())
            .collect();
        let path = something_new(workspace);
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
        // What is possible without a grant is not kept as one: most commands then have the same marks.
        let mut granted = granted;
        granted.read.retain(|path| path.ancestors().any(|above| marks.of(above, Self::hides)));
        for changed in [&mut granted.written, &mut granted.deleted] {
            changed.retain(|path| marks.of(path, Self::protects) || marks.of(path, Self::plants));
        }
        Self { granted, ..marks }
    }

    /// What is said of a path; of one that is not text, the worst.
    fn of(&self, path: &Path, says: fn(&Self, &str) -> bool) -> bool {
        path.to_str().is_none_or(|path| says(self, path))
    }

    /// The same for a copy.
    pub(super) fn on_a_copy(self) -> Self {
        Self { on_a_copy: true, ..self }
    }

    /// What rules deny to be read in places that they name, or ask about, other than in these roots. What cannot be read inside
    /// need not be hidden: the system can, and these.
    pub(super) fn elsewhere(
        &self,
        roots: &[PathBuf],
        readable: &[PathBuf],
    ) -> Result<Vec<PathBuf>, IndexError> {
        let mut hidden = BTreeSet::new();
        let can_be_read = |place: &Path| {
            system_paths::is_system(place) || readable.iter().any(|readable| place.starts_with(readable))
        };
        let denied = self.policy.reads(Verdict::Deny).map(|(place, guard)| (place, guard, false));
        let asked = self.policy.reads(Verdict::Ask).filter(|_| self.asks_to_read);
        for (place, guard, asked) in denied.chain(asked.map(|(place, guard)| (place, guard, true))) {
            let place = PathBuf::from(place);
            let looked_through = roots.iter().any(|root| place.starts_with(root));
            // What is a link is named by its own path.
            if looked_through || !can_be_read(&place) || !is_there(&place) {
                continue;
            }
            // Who asks about a whole toolchain or the whole system asks about every program that runs, and was answered with it.
            if asked && !place.parent().is_some_and(can_be_read) {
                continue;
            }
            let text = place.to_string_lossy().into_owned();
            let is_granted = asked && self.holds_granted(&place);
            if guard.fits(&Effect::Read { path: text }) && !is_granted {
                hidden.insert(place);
            } else if place.is_dir() {
                let one = SingleRulePolicy { marks: self, guard: &guard };
                // What this user cannot look into, a command of this user cannot either.
                match look(&place, &one) {
                    Ok(marked) => hidden.extend(marked.hidden),
                    Err(IndexError::Unreadable { .. }) => hidden.extend(beneath(&place, &one)),
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(hidden.into_iter().collect())
    }

    /// Whether it lies in a directory that was itself asked about, and granted. One that nobody had to ask about opens nothing.
    fn lies_in_granted(&self, path: &Path) -> bool {
        let is_asked = |granted: &PathBuf| {
            let path = granted.to_string_lossy().into_owned();
            self.policy.guarded(&Effect::Read { path }).is_some_and(|verdict| verdict != Verdict::Deny)
        };
        self.granted.read.iter().any(|granted| path.starts_with(granted) && is_asked(granted))
    }

    fn holds_granted(&self, path: &Path) -> bool {
        self.granted.read.iter().any(|granted| granted.starts_with(path))
    }
}

/// One rule's own paths, in a place where others' are not looked for.
struct SingleRulePolicy<'a> {
    marks: &'a RulePathPolicy,
    guard: &'a PatternMatcher,
}

impl PathPolicy for SingleRulePolicy<'_> {
    fn hides(&self, path: &str) -> bool {
        self.guard.fits(&Effect::Read { path: path.to_owned() }) && self.marks.hides(path)
    }

    fn protects(&self, _: &str) -> bool {
        false
    }
}

impl PathPolicy for RulePathPolicy {
    fn hides(&self, path: &str) -> bool {
        let effect = Effect::Read { path: path.to_owned() };
        let guarded = match self.policy.guarded(&effect) {
            Some(Verdict::Deny) => true,
            Some(_) => self.asks_to_read && !self.lies_in_granted(Path::new(path)),
            None => false,
        };
        guarded && !self.holds_granted(Path::new(path))
    }

    fn protects(&self, path: &str) -> bool {
        if self.granted.changes(Path::new(path)) {
            return false;
        }
        let guarded = |effect: Effect| match self.policy.guarded(&effect) {
            Some(Verdict::Deny) => true,
            Some(_) => self.asks_to_write && !self.on_a_copy,
            None => false,
        };
        let removed = Effect::Delete { path: path.to_owned() };
        if guarded(Effect::Write { path: something_new(Path::new(path)) })
            || self.kept.iter().any(|kept| kept.fits(&removed))
        {
            return true;
        }
        // A rule about a directory's name and not about what is in it means that it is made or replaced.
        guarded(Effect::Write { path: path.to_owned() }) && !Path::new(path).is_dir()
    }

    fn plants(&self, path: &str) -> bool {
        if self.granted.changes(Path::new(path)) {
            return false;
        }
        let write = Effect::Write { path: path.to_owned() };
        // What is asked about by name was not answered with the call, whether it is there already or not.
        let is_asked = || self.asks_to_write && self.policy.guarded(&write) == Some(Verdict::Ask);
        // What may be neither read nor written is a secret, and nobody runs it; what may be read and not written is obeyed.
        (self.policy.may_deny(&write) || is_asked())
            && !self.policy.may_deny(&Effect::Read { path: path.to_owned() })
    }

    fn agrees_with(&self, other: &dyn PathPolicy) -> bool {
        let Some(other) = other.as_any().and_then(|other| other.downcast_ref::<Self>()) else { return false };
        // The rest follows from the policy, the workspace, and whether it is a copy.
        let paths = |marks: &Self| {
            let GrantedEffects { read, written, deleted, .. } = &marks.granted;
            let asks = (marks.asks_to_read, marks.asks_to_write, marks.on_a_copy);
            (read.clone(), written.clone(), deleted.clone(), asks)
        };
        Arc::ptr_eq(&self.policy, &other.policy) && paths(self) == paths(other)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The path of something that could be made in a directory, by a name that no rule means in particular.
pub(super) fn something_new(directory: &Path) -> String {
    directory.join("something-new").to_string_lossy().into_owned()
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

/// The entries of a directory, and not of those in it, that a rule hides.
fn beneath(place: &Path, one: &SingleRulePolicy<'_>) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_str().is_none_or(|text| one.hides(text)) && is_there(path)).collect()
}

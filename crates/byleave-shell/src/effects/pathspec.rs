//! Pathspecs: the words by which Git names files by itself, with wildcards and magic. Nothing of the shell expands them.

use super::beneath::MATCHES_MAX;
use super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::manual::WordRole;
use crate::wildcard::{self, LetterCase};

/// The least number of characters by which Git knows an object.
const HASH_LENGTH_MIN: usize = 4;

/// A pathspec in parts.
struct Pathspec<'t> {
    path: &'t str,
    /// Names everything else.
    is_excluded: bool,
    /// `attr`, or what the manual does not know.
    is_by_attribute: bool,
    is_literal: bool,
    case: LetterCase,
}

impl<'t> Pathspec<'t> {
    fn parse(text: &'t str) -> Self {
        let mut spec = Self {
            path: text,
            is_excluded: false,
            is_by_attribute: false,
            is_literal: false,
            case: LetterCase::Exact,
        };
        let Some(rest) = text.strip_prefix(':') else { return spec };
        if let Some((magic, path)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            spec.path = path;
            for word in magic.split(',') {
                match word.trim() {
                    "exclude" => spec.is_excluded = true,
                    "literal" => spec.is_literal = true,
                    "icase" => spec.case = LetterCase::Ignored,
                    "top" | "glob" | "" => {}
                    _ => spec.is_by_attribute = true,
                }
            }
            return spec;
        }
        // `:0:path` is a stage of the index.
        if let Some((_, path)) =
            rest.split_once(':').filter(|(stage, _)| stage.bytes().all(|byte| byte.is_ascii_digit()))
        {
            spec.path = path;
            return spec;
        }
        spec.path = rest.trim_start_matches(['/', '!', '^', ':']);
        let signs = rest.get(..rest.len().saturating_sub(spec.path.len())).unwrap_or_default();
        spec.is_excluded = signs.contains(['!', '^']);
        spec
    }
}

impl CommandAnalyzer<'_> {
    /// Adds the effects of a pathspec in this role. Returns whether the word is one that only Git understands.
    pub(super) fn add_pathspec(&mut self, role: WordRole, text: &str) -> bool {
        if self.facts.program != "git" {
            return false;
        }
        let is_magic = text.starts_with(':');
        if !is_magic && !wildcard::has_wildcard(text) {
            return false;
        }
        let role = match role {
            WordRole::Read | WordRole::Write | WordRole::Edit | WordRole::Delete | WordRole::Move => role,
            // `HEAD@{1}`, `HEAD^{tree}` and `v1^!` hold none of these characters, but a revision with a path may.
            WordRole::Revision if text.contains(':') && !is_magic => return false,
            WordRole::Revision => WordRole::Read,
            WordRole::Any => WordRole::Edit,
            _ => return false,
        };
        let spec = Pathspec::parse(text);
        if spec.is_by_attribute {
            self.add_unknown(format!("`{text}` names files by their attributes"));
        }
        if spec.is_excluded || spec.path.is_empty() {
            // Everything else, or everything.
            self.add_everything(role);
            if role == WordRole::Read {
                self.add_tracked_path(role, spec.path);
            }
        } else if spec.is_literal || !wildcard::has_wildcard(spec.path) {
            self.add_tracked_path(role, spec.path);
        } else {
            self.add_tracked_glob(role, &spec);
        }
        // `:function:path`
        if let Some((_, path)) = spec.path.rsplit_once(':').filter(|_| is_magic) {
            self.add_tracked_path(role, path);
        }
        true
    }

    /// Adds an effect on every tracked file.
    fn add_everything(&mut self, role: WordRole) {
        let top = self.repository_root().unwrap_or_else(|| ".".to_owned());
        let before = std::mem::replace(&mut self.all_partial, true);
        self.add_path(role, &top);
        self.all_partial = before;
    }

    fn add_tracked_glob(&mut self, role: WordRole, spec: &Pathspec<'_>) {
        // The glob itself, for a deny of such names, also of names that are only in a commit.
        let plain: String = spec.path.chars().filter(|c| *c != '\\').collect();
        let before = std::mem::replace(&mut self.all_partial, true);
        self.add_tracked_path(role, &plain);
        self.all_partial = before;
        let WorkingDir::At(directory) = &self.working_dir else { return };
        let mut starts = vec![directory.clone()];
        starts.extend(self.repository_root().filter(|top| top != directory));
        for start in starts {
            let entries = self.walk(&start);
            let fits = |name: &str| wildcard::matches(spec.path.trim_start_matches("**/"), name, spec.case);
            let named =
                entries.into_iter().filter(|entry| fits(&entry.relative) || fits(last_step(&entry.relative)));
            for entry in named.take(MATCHES_MAX).collect::<Vec<_>>() {
                self.add_path(role, &entry.path);
            }
            // A glob without a letter names everything there.
            if !spec.path.contains(|c: char| c.is_alphanumeric()) {
                self.facts.targets.push(start);
            }
        }
    }
}

impl CommandAnalyzer<'_> {
    /// Adds the effects of a name in a repository.
    pub(super) fn add_git_name(&mut self, role: WordRole, text: &str) {
        match role {
            WordRole::GitObject => {
                let is_hash =
                    text.len() >= HASH_LENGTH_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                if is_hash {
                    self.add_unknown(format!("`{text}` may be the hash of any file"));
                }
                self.add_revision(text);
            }
            WordRole::GitMerged if self.is_tag(text) => {
                self.add_unknown(format!(
                    "`{text}` is a tag, and its signature is verified by a program from the settings"
                ));
            }
            WordRole::GitFixed if text.contains(':') => {
                self.add_unknown(format!("`--fixup={text}` opens an editor"));
            }
            WordRole::GitFetched => {
                let target =
                    text.split_once(':').map(|(_, target)| target).filter(|target| !target.is_empty());
                if target.is_some_and(|target| !target.starts_with("refs/remotes/")) {
                    self.add_unknown(format!("`{text}` changes a branch or a tag here"));
                }
            }
            _ => {}
        }
    }

    /// Checks whether a name is that of a tag here.
    fn is_tag(&self, name: &str) -> bool {
        let Some(top) = self.repository_root() else { return false };
        let name = name.trim_start_matches("refs/").trim_start_matches("tags/");
        let (above, last) = name.rsplit_once('/').unwrap_or(("", name));
        let there = self.env.list_directory(format!("{top}/.git/refs/tags/{above}").trim_end_matches('/'));
        let packed = self.env.read_script(&format!("{top}/.git/packed-refs")).unwrap_or_default();
        there.is_some_and(|names| names.iter().any(|own| own == last))
            || packed.lines().any(|line| line.ends_with(&format!(" refs/tags/{name}")))
    }
}

fn last_step(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

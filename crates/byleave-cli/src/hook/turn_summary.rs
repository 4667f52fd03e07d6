//! The line at the end of a turn: what passed without a question.

use std::collections::BTreeMap;
use std::path::Path;

use byleave_files::LinkPolicy;
use byleave_gate::core::file_change::{FileChanges, FileNode, FileNodeKind};
use byleave_gate::core::git_settings::{SETTINGS_BYTES_MAX, compare_settings, is_settings_file};

use crate::call_display::{format_count, relative};
use crate::console::one_line;

/// The number of files that are named.
const NAMES_MAX: usize = 5;
/// A manifest of a package is far smaller.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Files that editors, language servers and watchers run by themselves.
const RUN_BY_EDITORS: [&str; 14] = [
    "build.rs",
    "conftest.py",
    "package.json",
    ".eslintrc.js",
    ".eslintrc.cjs",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "build.sbt",
    "build.zig",
    "mix.exs",
    "Package.swift",
    "CMakeLists.txt",
];

/// What changed in a turn, by path: the state before and after it.
#[derive(Default)]
pub(super) struct TurnSummary {
    paths: BTreeMap<String, PathSummary>,
    /// The settings of repositories as they were before the first change.
    settings: BTreeMap<String, String>,
}

struct PathSummary {
    before: Option<FileNode>,
    after: Option<FileNode>,
    is_regenerated: bool,
}

impl TurnSummary {
    /// Adds the changes of a call, from the oldest call to the newest.
    pub(super) fn add(&mut self, changes: &FileChanges) {
        for change in &changes.list {
            let path = self.paths.entry(change.path.clone()).or_insert_with(|| PathSummary {
                before: change.before.clone(),
                after: None,
                is_regenerated: false,
            });
            path.after.clone_from(&change.after);
            path.is_regenerated = change.is_regenerated();
        }
    }

    /// Remembers the settings of repositories that the changes of a call replaced. `before` reads what the call found.
    pub(super) fn add_settings(&mut self, changes: &FileChanges, before: impl Fn(&str) -> Option<String>) {
        for change in changes.list.iter().filter(|change| is_settings_file(&change.path)) {
            if !self.settings.contains_key(&change.path)
                && let Some(text) = before(&change.path)
            {
                self.settings.insert(change.path.clone(), text);
            }
        }
    }

    /// Says where new remotes lead, as far as they still exist.
    fn new_remotes(&self) -> Vec<String> {
        let notes = |(path, before): (&String, &String)| {
            let now =
                byleave_files::read_text(Path::new(path), LinkPolicy::Never, SETTINGS_BYTES_MAX).ok()?;
            Some(compare_settings(path, before, &now)?.notes)
        };
        self.settings.iter().filter_map(notes).flatten().collect()
    }

    /// Returns the line, or nothing if nothing changed. `undo` is the argument of the undo command.
    pub(super) fn line(&self, workspace: &Path, undo: &str) -> Option<String> {
        let is_file = |node: &&FileNode| node.kind != FileNodeKind::Directory;
        let (mut changed, mut deleted, mut ignored, mut running) = (0_u64, 0_u64, 0_u64, Vec::new());
        for (path, summary) in &self.paths {
            let (before, after) =
                (summary.before.as_ref().filter(is_file), summary.after.as_ref().filter(is_file));
            match (before, after) {
                (None, None) => continue,
                _ if summary.is_regenerated => ignored += 1,
                (Some(_), None) => deleted += 1,
                (_, Some(_)) => changed += 1,
            }
            if after.is_some() && runs_in_editors(Path::new(path), workspace) {
                running.push(relative(path, workspace));
            }
        }
        let mut parts = Vec::new();
        if changed > 0 {
            parts.push(format!("{} changed", format_count(changed, "file")));
        }
        match (deleted, changed) {
            (0, _) => {}
            (_, 0) => parts.push(format!("{} deleted", format_count(deleted, "file"))),
            _ => parts.push(format!("{deleted} deleted")),
        }
        if ignored > 0 {
            parts.push(format!("{} that git ignores changed", format_count(ignored, "file")));
        }
        if parts.is_empty() {
            return None;
        }
        let mut line =
            format!("{} without a question: byleave diff, byleave undo --session {undo}", parts.join(", "));
        if !running.is_empty() {
            let more = running.len().saturating_sub(NAMES_MAX);
            running.truncate(NAMES_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            line.push_str(&format!("; runs by itself in an editor: {}{more}", running.join(", ")));
        }
        for note in self.new_remotes() {
            line.push_str(&format!("; {note}"));
        }
        Some(one_line(&line))
    }
}

/// Checks whether editors, language servers or watchers run a file by themselves.
fn runs_in_editors(path: &Path, workspace: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let is_settings = |name: &str| {
        let (stem, end) = name.rsplit_once('.').unwrap_or_default();
        stem.ends_with(".config") && ["js", "cjs", "mjs", "ts", "cts", "mts"].contains(&end)
    };
    RUN_BY_EDITORS.contains(&name)
        || is_settings(name)
        || name.ends_with(".rs") && is_in_proc_macro(path, workspace)
}

/// Checks whether a file belongs to a crate of procedural macros, which language servers load.
fn is_in_proc_macro(path: &Path, workspace: &Path) -> bool {
    let above = path.ancestors().skip(1).take_while(|above| above.starts_with(workspace));
    let manifest = above.map(|above| {
        byleave_files::read_text(&above.join("Cargo.toml"), LinkPolicy::Never, MANIFEST_BYTES_MAX)
    });
    let nearest = manifest.into_iter().find(|read| !read.as_ref().is_err_and(|error| error.is_missing()));
    let Some(Ok(text)) = nearest else { return false };
    text.lines().any(|line| {
        let (key, value) = line.split_once('=').unwrap_or_default();
        matches!(key.trim(), "proc-macro" | "proc_macro" | "lib.proc-macro")
            && value.trim().starts_with("true")
    })
}

#[cfg(test)]
mod tests {
    use byleave_gate::core::file_change::{FileChange, GitStatus};

    use super::*;

    fn node() -> Option<FileNode> {
        Some(FileNode { kind: FileNodeKind::File { size: 1, digest: None }, mode: 0o644, modified_ns: 1 })
    }

    fn turn(changes: &[(&str, Option<FileNode>, Option<FileNode>, GitStatus)]) -> Option<String> {
        let mut summary = TurnSummary::default();
        for (path, before, after, git_status) in changes {
            let change = FileChange {
                path: format!("/w/{path}"),
                before: before.clone(),
                after: after.clone(),
                git_status: *git_status,
                diff: None,
            };
            summary.add(&FileChanges { list: vec![change], ..FileChanges::default() });
        }
        summary.line(Path::new("/w"), "s")
    }

    // req: M2, P1
    #[test]
    fn a_line_counts_each_path_once() {
        use GitStatus::{Ignored, Tracked, Untracked};
        let end = "without a question: byleave diff, byleave undo --session s";
        assert_eq!(turn(&[]), None);
        assert_eq!(turn(&[("t", None, node(), Untracked), ("t", node(), None, Untracked)]), None);
        let rows = [
            (vec![("a", node(), node(), Tracked)], format!("1 file changed {end}")),
            (
                vec![("a", node(), node(), Tracked), ("a", node(), node(), Tracked)],
                format!("1 file changed {end}"),
            ),
            (vec![("a", node(), None, Tracked)], format!("1 file deleted {end}")),
            (
                vec![
                    ("a", node(), None, Tracked),
                    ("b", None, node(), Untracked),
                    ("o", None, node(), Ignored),
                ],
                format!("1 file changed, 1 deleted, 1 file that git ignores changed {end}"),
            ),
            (
                vec![("x/build.rs", node(), node(), Tracked), ("vite.config.ts", None, node(), Untracked)],
                format!("2 files changed {end}; runs by itself in an editor: vite.config.ts, x/build.rs"),
            ),
            (vec![("build.rs", node(), None, Tracked)], format!("1 file deleted {end}")),
        ];
        for (changes, line) in rows {
            assert_eq!(turn(&changes), Some(line));
        }
    }

    // req: M2
    #[test]
    fn a_line_says_where_a_new_remote_leads() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap().join(".git/config");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "[remote \"fork\"]\n\turl = https://example.com/a\n").unwrap();
        let change = FileChange {
            path: path.to_str().unwrap().into(),
            before: node(),
            after: node(),
            git_status: GitStatus::Repository,
            diff: None,
        };
        let changes = FileChanges { list: vec![change], ..FileChanges::default() };
        let mut summary = TurnSummary::default();
        summary.add(&changes);
        summary.add_settings(&changes, |_| Some(String::new()));
        let line = summary.line(place.path(), "s").unwrap();
        assert!(line.ends_with("; remote `fork` now leads to `https://example.com/a`"), "{line}");
    }

    // req: M2
    #[test]
    fn only_files_of_macro_crates_are_loaded_by_editors() {
        let place = tempfile::tempdir().unwrap();
        let workspace = place.path().canonicalize().unwrap();
        for (dir, manifest) in [("m", "[lib]\nproc-macro = true\n"), ("l", "[lib]\nname = \"l\"\n")] {
            std::fs::create_dir_all(workspace.join(dir).join("src")).unwrap();
            std::fs::write(workspace.join(dir).join("Cargo.toml"), manifest).unwrap();
        }
        for (path, runs) in
            [("m/src/lib.rs", true), ("l/src/lib.rs", false), ("x.rs", false), ("m/notes.md", false)]
        {
            assert_eq!(runs_in_editors(&workspace.join(path), &workspace), runs, "{path}");
        }
    }
}

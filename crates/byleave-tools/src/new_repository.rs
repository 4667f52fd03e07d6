//! Recognises repositories that a command made, and in which nothing is set that Git would run: what `git init`, `git clone` and
//! `cargo new` leave. The rules deny every write to the settings of a repository. In one that did not exist there was nothing to protect,
//! so of such a repository only `HEAD` is judged.

use byleave_copy::{Error, WorkspaceCopy};
use byleave_gate::core::file_change::{FileChange, FileChanges, FileNode, FileNodeKind};

/// Settings of `[core]`, `[extensions]`, `[init]` and `[user]` that are values and run nothing.
const VALUES: [&str; 13] = [
    "core.repositoryformatversion",
    "core.filemode",
    "core.logallrefupdates",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "extensions.objectformat",
    "extensions.refstorage",
    "init.defaultbranch",
    "user.name",
    "user.email",
];

/// Returns the `.git` directories that a command made, and in which nothing is set that Git would run.
pub(crate) fn new_repositories(copy: &WorkspaceCopy, changes: &FileChanges) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for made in
        changes.list.iter().filter(|change| is_new_directory(change) && change.path.ends_with("/.git"))
    {
        let beneath = format!("{}/", made.path);
        let head = format!("{beneath}HEAD");
        let mut is_plain = changes.list.iter().any(|change| change.path == head);
        for change in &changes.list {
            if let Some(inside) = change.path.strip_prefix(&beneath) {
                is_plain = is_plain && runs_nothing(copy, change, inside)?;
            }
        }
        if is_plain {
            found.push(made.path.clone());
        }
    }
    Ok(found)
}

fn is_new_directory(change: &FileChange) -> bool {
    change.before.is_none() && kind(change.after.as_ref()) == Some(&FileNodeKind::Directory)
}

fn kind(node: Option<&FileNode>) -> Option<&FileNodeKind> {
    node.map(|node| &node.kind)
}

/// Checks whether a new entry of a repository runs nothing.
fn runs_nothing(copy: &WorkspaceCopy, change: &FileChange, inside: &str) -> Result<bool, Error> {
    let is_file = match kind(change.after.as_ref()) {
        Some(FileNodeKind::Directory) => false,
        Some(FileNodeKind::File { .. }) => true,
        Some(FileNodeKind::Link { .. } | FileNodeKind::Special { .. }) | None => return Ok(false),
    };
    if inside == "config" {
        let text = copy.diff(change)?;
        return Ok(
            is_file && text.is_some_and(|text| new_lines(&text).is_some_and(|lines| is_plain_config(&lines)))
        );
    }
    let (first, rest) = inside.split_once('/').map_or((inside, None), |(first, rest)| (first, Some(rest)));
    Ok(match (first, rest) {
        ("config.worktree" | "commondir" | "gitdir" | "modules" | "worktrees", _) => false,
        // Only names without an ending are hooks.
        ("hooks", Some(name)) => is_file && name.ends_with(".sample"),
        ("info", Some(name)) => is_file && ["exclude", "refs"].contains(&name),
        ("objects", Some(name)) => !name.starts_with("info/") || !is_file || !name.contains("alternates"),
        ("remotes" | "branches", Some(_)) => false,
        _ => true,
    })
}

/// Returns the lines of a new file, from its diff. Returns nothing if the diff has other lines.
fn new_lines(diff: &str) -> Option<String> {
    let mut lines = String::new();
    let mut in_hunk = false;
    for line in diff.lines() {
        in_hunk |= line.starts_with("@@");
        if !in_hunk || line.starts_with("@@") {
            continue;
        }
        lines.push_str(line.strip_prefix('+')?);
        lines.push('\n');
    }
    in_hunk.then_some(lines)
}

/// Checks whether every setting of a repository is known and runs nothing. What is written in an unusual way is not known.
fn is_plain_config(text: &str) -> bool {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = header.to_lowercase();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { return false };
        let (key, value) = (key.trim().to_lowercase(), value.trim());
        if value.contains(['\\', '"', '#', ';']) {
            return false;
        }
        let (kind, name) =
            section.split_once(" \"").map_or((section.as_str(), None), |(kind, name)| (kind, Some(name)));
        let is_plain = match (kind, name, key.as_str()) {
            ("core", None, "bare") => value == "false",
            (kind, None, key) => VALUES.contains(&format!("{kind}.{key}").as_str()),
            ("remote", Some(_), "url") => is_plain_url(value),
            ("remote", Some(_), "fetch" | "tagopt") => !value.starts_with('-'),
            ("branch", Some(_), "remote" | "merge") => !value.contains(':'),
            _ => false,
        };
        if !is_plain {
            return false;
        }
    }
    true
}

/// Checks whether an address names a transport that runs no program of its own choice: `ext::COMMAND` and an option do.
fn is_plain_url(url: &str) -> bool {
    !url.starts_with('-') && !url.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E5
    #[test]
    fn only_settings_that_run_nothing_are_plain() {
        let init = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n";
        let cloned = "[remote \"origin\"]\n\turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
            [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";
        assert!(is_plain_config(init) && is_plain_config(&format!("{init}{cloned}")) && is_plain_config(""));
        for line in [
            "[core]\n\tfsmonitor = touch m",
            "[core]\n\thooksPath = hooks",
            "[core]\n\tbare = true",
            "[core]\n\tworktree = ..",
            "[core] fsmonitor = touch m",
            "[core \"x\"]\n\tfilemode = true",
            "[include]\n\tpath = x",
            "[alias]\n\tst = !touch m",
            "[filter \"x\"]\n\tclean = touch m",
            "[remote \"o\"]\n\turl = ext::sh -c touch",
            "[remote \"o\"]\n\turl = --upload-pack=touch",
            "[remote \"o\"]\n\tuploadpack = touch",
            "[remote \"o\"]\n\tvcs = x",
            "[user]\n\tname = a\\\n\temail = b",
            "[diff \"x\"]\n\ttextconv = touch m",
            "[core]\n\tfilemode",
            "filemode = true\n[core]\n\tpager = touch m",
        ] {
            assert!(!is_plain_config(&format!("{init}{line}\n")), "{line}");
        }
    }
}

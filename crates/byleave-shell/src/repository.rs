//! Repositories without `.git`: their settings and hooks are plain files, which rules know by their names beneath `.git` only.

use crate::shell_env::ShellEnv;

/// Ends the path of a read of what a repository stores, if no word tells the names of the files. Only the index tells them.
pub const STORED_CONTENT: &str = "/.git/objects/…";
/// The same, if it may be of stashed files, too, which were never tracked.
pub const STASHED_CONTENT: &str = "/.git/objects/…stash";

/// The files of a repository that make Git run programs.
const RUN_BY_GIT: [&str; 8] =
    ["config", "config.worktree", "hooks", "info", "commondir", "modules", "worktrees", "objects"];

/// Returns the names beneath `.git` of a file of a repository without `.git`. `made` are the directories that become repositories before
/// the file is written.
///
/// A bare repository is such a directory, and the one that `git init --separate-git-dir` makes.
pub fn repository_names(env: &dyn ShellEnv, path: &str, made: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in path.match_indices('/').skip(1) {
        let (directory, rest) = path.split_at(at);
        let rest = rest.trim_start_matches('/');
        let first = rest.split('/').next().unwrap_or_default();
        if !RUN_BY_GIT.contains(&first) || directory.split('/').any(|step| step == ".git") {
            continue;
        }
        if made.iter().any(|own| own == directory) || is_repository(env, directory) {
            names.push(format!("{directory}/.git/{rest}"));
        }
    }
    names
}

/// Checks whether a directory has the parts of a repository.
fn is_repository(env: &dyn ShellEnv, directory: &str) -> bool {
    let Some(names) = env.list_directory(directory) else { return false };
    let has = |name: &str| names.iter().any(|own| own == name);
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

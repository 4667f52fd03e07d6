//! What a job may write: the directories of its tools, and those that its plan names. Everything else in the workspace it sees as it is,
//! and cannot change.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use byleave_gate::core::effect::{Effect, Plan};

/// The directories in which development servers keep what they create again, beside one of these files. They are created for a job,
/// because a server that cannot write there does not start.
const SERVER_DIRS: [(&[&str], &str); 9] = [
    (&["node_modules"], "node_modules/.vite"),
    (&["node_modules"], "node_modules/.cache"),
    (&["next.config.js", "next.config.mjs", "next.config.ts"], ".next"),
    (&["nuxt.config.js", "nuxt.config.ts"], ".nuxt"),
    (&["svelte.config.js", "svelte.config.ts"], ".svelte-kit"),
    (&["astro.config.mjs", "astro.config.ts", "astro.config.js"], ".astro"),
    (&["angular.json"], ".angular"),
    (&["Cargo.toml"], "target"),
    (&["build.gradle", "build.gradle.kts"], ".gradle"),
];
/// The maximum number of directories in which such files are looked for.
const PACKAGES_MAX: usize = 64;

/// Returns the directories of development servers in a workspace, and creates those that are missing.
pub(crate) fn server_dirs(workspace: &Path, cwd: &Path) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    for package in packages(workspace, cwd) {
        for (beside, dir) in SERVER_DIRS {
            if beside.iter().any(|name| package.join(name).exists()) {
                found.extend(existing_or_created(&package.join(dir)));
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the directories of a workspace in which a package may be.
fn packages(workspace: &Path, cwd: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::from([workspace.to_path_buf(), cwd.to_path_buf()]);
    let groups = ["", "packages", "apps"].map(|name| workspace.join(name));
    for group in groups {
        let entries = fs::read_dir(group).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        all.extend(dirs.map(|entry| entry.path()).take(PACKAGES_MAX.saturating_sub(all.len())));
    }
    all
}

/// Returns a directory that is not reached by a link. If it is missing, it is created, unless it would belong to another user than the
/// directory above it.
fn existing_or_created(path: &Path) -> Option<PathBuf> {
    let above = path.parent()?;
    let is_real = above.canonicalize().is_ok_and(|real| real == above);
    if !is_real {
        return None;
    }
    match fs::symlink_metadata(path) {
        Ok(found) => found.is_dir().then(|| path.to_path_buf()),
        Err(_) => {
            let owner = fs::metadata(above).ok()?.uid();
            let is_ours = owner == rustix::process::geteuid().as_raw();
            (is_ours && DirBuilder::new().mode(0o755).create(path).is_ok()).then(|| path.to_path_buf())
        }
    }
}

/// Returns the existing directories beneath the workspace in which a plan writes, without those in another.
pub(crate) fn planned_dirs(plan: &Plan, workspace: &Path) -> Vec<PathBuf> {
    let named = plan.effects.iter().filter_map(|effect| match effect {
        Effect::Write { path } | Effect::Delete { path } => Some(Path::new(path)),
        _ => None,
    });
    let dirs = named.filter_map(|path| {
        let dir =
            if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) { path } else { path.parent()? };
        let is_inside =
            dir != workspace && dir.starts_with(workspace) && !dir.starts_with(workspace.join(".git"));
        let is_real = dir.canonicalize().is_ok_and(|real| real == dir) && dir.is_dir();
        (is_inside && is_real).then(|| dir.to_path_buf())
    });
    outermost(dirs)
}

/// Returns the paths that are not in another one.
pub(crate) fn outermost(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = paths.into_iter().collect();
    let is_inner = |path: &PathBuf| paths.iter().any(|other| other != path && path.starts_with(other));
    paths.iter().filter(|path| !is_inner(path)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: E7
    #[test]
    fn a_job_writes_only_where_its_tools_and_its_plan_do() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let put = |name: &str| {
            let path = workspace.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        for name in [
            "web/node_modules/x.js",
            "web/package.json",
            "api/Cargo.toml",
            "src/a.ts",
            ".git/config",
            "next.config.js",
        ] {
            put(name);
        }
        std::os::unix::fs::symlink("/tmp", workspace.join("out")).unwrap();
        fs::create_dir(workspace.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", workspace.join("elsewhere/node_modules")).unwrap();
        let dirs = server_dirs(&workspace, &workspace);
        let expected = [".next", "api/target", "web/node_modules/.cache", "web/node_modules/.vite"];
        assert_eq!(dirs, expected.map(|name| workspace.join(name)));
        assert!(dirs.iter().all(|dir| dir.is_dir()));
        assert!(!workspace.join("elsewhere/.vite").exists(), "through a link");
        let write = |name: &str| Effect::Write { path: workspace.join(name).to_str().unwrap().into() };
        let effects = vec![
            write("src"),
            write("src/a.js"),
            write("b"),
            write(""),
            write(".git/x"),
            write("out/y"),
            write("none/z"),
        ];
        let plan = Plan { effects, ..Plan::default() };
        assert_eq!(planned_dirs(&plan, &workspace), [workspace.join("src")]);
    }
}

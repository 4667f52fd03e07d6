//! The known checkers, where each has a project, and how each is run.

use std::fs;
use std::path::{Path, PathBuf};

use super::finding::{self, CheckerFinding};
use crate::workspace_files::Files;

/// The maximum number of projects of one kind.
const PROJECTS_MAX: usize = 4;
/// The maximum depth of the search for projects, if there is none above.
const STEPS_DOWN_MAX: usize = 2;
const LOOKED_AT_MAX: usize = 5_000;

/// A compiler or linter with machine-readable output.
pub(super) struct Checker {
    pub(super) name: &'static str,
    /// How to install it, for a person who does not have it.
    pub(super) install_hint: &'static str,
    /// The names of files that mark a project.
    beside: &'static [&'static str],
    /// The endings of files that mark a project.
    endings: &'static [&'static str],
    /// The bash command. It runs in the directory of the project, and `$root` is the workspace. It exits with status 127 if the checker is
    /// not installed.
    script: &'static str,
    /// The exit statuses after a complete check.
    pub(super) success_codes: &'static [i32],
    /// A function that parses the standard output and the standard error.
    pub(super) parse_output: fn(&str, &str) -> Vec<CheckerFinding>,
}

/// All checkers. They install and fetch nothing; they run without a network.
pub(super) static ALL_CHECKERS: [Checker; 6] = [
    Checker {
        name: "cargo",
        install_hint: "rustup toolchain install stable --component clippy",
        beside: &["Cargo.toml"],
        endings: &[],
        script: "command -v cargo >/dev/null || exit 127\n\
            if cargo clippy --version >/dev/null 2>&1; then verb=clippy; else verb=check; fi\n\
            if cargo check --help 2>/dev/null | grep -q -e --keep-going; then set -- --keep-going; fi\n\
            exec cargo $verb --offline --quiet --all-targets --message-format=json \"$@\"",
        success_codes: &[0],
        parse_output: finding::parse_cargo,
    },
    Checker {
        name: "eslint",
        install_hint: "npm install --save-dev eslint",
        beside: &[
            "eslint.config.js",
            "eslint.config.mjs",
            "eslint.config.cjs",
            "eslint.config.ts",
            ".eslintrc",
            ".eslintrc.js",
            ".eslintrc.cjs",
            ".eslintrc.json",
            ".eslintrc.yml",
            ".eslintrc.yaml",
        ],
        endings: &[],
        script: "for at in . \"$root\"; do at=$at/node_modules/.bin/eslint; [ -x \"$at\" ] && exec \"$at\" --format json .; done; exit 127",
        success_codes: &[0, 1],
        parse_output: finding::parse_eslint,
    },
    Checker {
        name: "tsc",
        install_hint: "npm install --save-dev typescript",
        beside: &["tsconfig.json"],
        endings: &[],
        script: "for at in . \"$root\"; do at=$at/node_modules/.bin/tsc; [ -x \"$at\" ] && exec \"$at\" --noEmit --pretty false -p .; done; exit 127",
        success_codes: &[0, 1, 2],
        parse_output: finding::parse_tsc,
    },
    Checker {
        name: "ruff",
        install_hint: "pip install ruff",
        beside: &["pyproject.toml", "ruff.toml", ".ruff.toml", "setup.py", "setup.cfg", "requirements.txt"],
        endings: &[".py"],
        script: "for at in .venv venv \"$root/.venv\" \"$root/venv\"; do at=$at/bin/ruff; [ -x \"$at\" ] && exec \"$at\" check --output-format=json .; done\n\
            command -v ruff >/dev/null || exit 127\n\
            exec ruff check --output-format=json .",
        success_codes: &[0, 1],
        parse_output: finding::parse_ruff,
    },
    Checker {
        name: "mypy",
        install_hint: "pip install mypy",
        beside: &["pyproject.toml", "mypy.ini", ".mypy.ini", "setup.py", "setup.cfg", "requirements.txt"],
        endings: &[".py"],
        // Run as a module, because the start script of a virtual environment contains the path where the environment was created.
        script: "for at in .venv venv \"$root/.venv\" \"$root/venv\" ''; do\n\
            python=${at:+$at/bin/}python3\n\
            if \"$python\" -c 'import mypy' 2>/dev/null; then set -- \"$python\" -m mypy; break; fi\n\
            done\n\
            [ $# -gt 0 ] || { command -v mypy >/dev/null && set -- mypy; } || exit 127\n\
            if \"$@\" --help | grep -q -e '--output'; then exec \"$@\" --output json .; fi\n\
            exec \"$@\" --no-pretty --show-column-numbers --no-color-output --no-error-summary .",
        success_codes: &[0, 1],
        parse_output: finding::parse_mypy,
    },
    Checker {
        name: "go",
        install_hint: "https://go.dev/doc/install",
        beside: &["go.mod"],
        endings: &[],
        script: "command -v go >/dev/null || exit 127\n\
            export GOCACHE=\"${TMPDIR:-/tmp}/go-build\" GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-mod=mod\n\
            exec go vet -json ./...",
        success_codes: &[0],
        parse_output: finding::parse_go,
    },
];

/// A run of a checker on a project.
pub(super) struct CheckerRun {
    pub(super) checker: &'static Checker,
    pub(super) directory: PathBuf,
    pub(super) script: String,
}

/// Returns the runs: for each checker the nearest project at or above the directory, or the projects beneath it.
pub(super) fn find_checker_runs(
    directory: &Path,
    workspace: &Path,
    wanted: &[String],
    files: &Files,
) -> Vec<CheckerRun> {
    let mut checks = Vec::new();
    for checker in
        ALL_CHECKERS.iter().filter(|one| wanted.is_empty() || wanted.iter().any(|name| name == one.name))
    {
        let above = directory.ancestors().take_while(|above| above.starts_with(workspace));
        let nearest = above.into_iter().find(|above| checker.is_at(above, files)).map(Path::to_path_buf);
        let projects = nearest.map_or_else(|| beneath(directory, checker, files), |nearest| vec![nearest]);
        checks.extend(projects.into_iter().map(|project| CheckerRun {
            checker,
            script: format!(
                "root={}\ncd {} || exit 126\n{}",
                quoted(workspace),
                quoted(&project),
                checker.script
            ),
            directory: project,
        }));
    }
    checks
}

impl Checker {
    /// Checks whether a directory has a project for this checker. An unreadable directory has none.
    fn is_at(&self, directory: &Path, files: &Files) -> bool {
        let names = fs::read_dir(directory).into_iter().flatten().flatten().take(LOOKED_AT_MAX);
        names.filter_map(|entry| entry.file_name().into_string().ok()).any(|name| {
            let is_one = self.beside.contains(&name.as_str())
                || self.endings.iter().any(|ending| name.ends_with(ending));
            is_one && is_shown(&directory.join(name), files)
        })
    }
}

/// Returns the projects beneath a directory, without nested ones.
fn beneath(directory: &Path, checker: &Checker, files: &Files) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![(directory.to_path_buf(), 0)];
    while let Some((at, depth)) = ahead.pop() {
        if depth > 0 && checker.is_at(&at, files) {
            found.push(at);
            continue;
        }
        if depth >= STEPS_DOWN_MAX {
            continue;
        }
        let entries = fs::read_dir(&at).into_iter().flatten().flatten().take(LOOKED_AT_MAX);
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        ahead.extend(directories.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_made =
                name.starts_with('.') || matches!(name.as_str(), "node_modules" | "target" | "venv");
            (!is_made && is_shown(&entry.path(), files)).then(|| (entry.path(), depth + 1))
        }));
    }
    found.sort();
    found.truncate(PROJECTS_MAX);
    found
}

/// Checks that no rule hides a path.
fn is_shown(path: &Path, files: &Files) -> bool {
    path.to_str().is_some_and(|path| !files.is_hidden(path))
}

/// Quotes a path as one bash word.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

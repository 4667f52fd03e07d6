//! Readers for programs that run others of the project or of a registry by name: `npx`, `yarn NAME`, `python -m`, `uvx`.
//!
//! The inner program is told as well, so that rules and dangers about it apply. The allow of the outer program covers it only if the
//! program is installed in the project, because its code is then part of the project.

use std::sync::LazyLock;

use serde::Deserialize;

use super::super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// The endings of files that `bun` and `deno` run.
const CODE_ENDINGS: [&str; 9] = [".js", ".ts", ".mjs", ".cjs", ".mts", ".cts", ".jsx", ".tsx", ".wasm"];

/// The names of scripts that are the same in most projects.
const USUAL_SCRIPTS: [&str; 12] = [
    "test",
    "start",
    "build",
    "lint",
    "format",
    "typecheck",
    "dev",
    "check",
    "clean",
    "coverage",
    "watch",
    "e2e",
];

/// The registries that packages are fetched from.
const NPM_REGISTRY: &str = "https://registry.npmjs.org";
const PYTHON_REGISTRY: &str = "https://pypi.org";

/// Reads the first operand of `yarn`, `pnpm` or `bun` that is not a sub-command: a script, a program of the project, or a file.
pub(in super::super) fn analyze_script_name(teller: &mut CommandAnalyzer<'_>, name: &str, rest: &[Word]) {
    let is_file = CODE_ENDINGS.iter().any(|end| name.ends_with(end)) || name.contains('/');
    if teller.facts.program == "bun" && is_file {
        teller.apply_role(WordRole::Script, &Word::literal(name));
        return add_arguments(teller, rest);
    }
    if name.starts_with('-') {
        return teller.add_unknown(format!("`{}` runs code from its input", teller.facts.program));
    }
    if teller.project_scripts().iter().any(|script| script == name) {
        return add_arguments(teller, rest);
    }
    if teller.add_project_program(name) {
        return teller.add_tentative_command(command(name, rest));
    }
    teller.add_unknown(format!("`{name}` is neither a script nor an installed program of the project"));
    // Some of them then take a program from `PATH`.
    teller.add_nested_command(command(name, rest));
}

/// Reads `yarn run NAME…`.
pub(super) fn script(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some((name, rest)) = first_and_rest(parsed) else { return };
    if !USUAL_SCRIPTS.contains(&name.as_str()) {
        analyze_script_name(teller, &name, &rest);
    }
}

/// Reads `npx NAME…` and the like: an installed program, or one that is fetched.
pub(super) fn npx(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some((name, rest)) = first_and_rest(parsed) else { return };
    let is_versioned = name.get(1..).is_some_and(|rest| rest.contains('@'));
    if !is_versioned && teller.add_project_program(&name) {
        return teller.add_tentative_command(command(&name, &rest));
    }
    fetched(teller, &name, &rest, NPM_REGISTRY);
}

/// Reads `pnpm dlx NAME…`, which fetches in any case.
pub(super) fn dlx(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some((name, rest)) = first_and_rest(parsed) else { return };
    fetched(teller, &name, &rest, NPM_REGISTRY);
}

/// Reads `uvx NAME…`, which fetches a Python package unless it is cached.
pub(super) fn uvx(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some((name, rest)) = first_and_rest(parsed) else { return };
    fetched(teller, &name, &rest, PYTHON_REGISTRY);
}

/// Reads `pnpm exec NAME…`: a program of the project, or one from `PATH`.
pub(super) fn exec(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some((name, rest)) = first_and_rest(parsed) else { return };
    if teller.add_project_program(&name) {
        teller.add_tentative_command(command(&name, &rest));
    } else {
        teller.add_nested_command(command(&name, &rest));
    }
}

/// Reads `python -m NAME…`. The module is told as a program of that name.
pub(super) fn modules(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let rest: Vec<Word> = parsed.operands.iter().map(|operand| operand.word.clone()).collect();
    for module in parsed.word_values(&["-m", "--module"]) {
        let Some(module) = module.and_then(Word::as_text) else {
            teller.add_unknown("the module that is run is not known");
            continue;
        };
        let top = module.split('.').next().unwrap_or(module);
        if PYTHON_MODULES.is_unpredictable(top) {
            teller.add_unknown(format!("module `{module}` runs code that is not analyzed"));
        }
        // Another program has the name of this package: HTTPie, whose operands are hosts.
        let told = if top == "http" { module } else { top };
        teller.add_tentative_command(command(told, &rest));
        // Some modules run another one: `cProfile -m NAME`.
        for (at, word) in rest.iter().enumerate() {
            if word.as_text() == Some("-m") {
                teller.add_tentative_command(rest.get(at.saturating_add(1)..).unwrap_or_default().to_vec());
            }
        }
    }
}

/// Adds a package that is fetched from a registry and run.
fn fetched(teller: &mut CommandAnalyzer<'_>, name: &str, rest: &[Word], registry: &str) {
    teller.add_unknown(format!("`{name}` is not installed in the project, so it is downloaded and run"));
    teller.add_url(if name.contains("://") { name } else { registry });
    let program = program_of_package(name);
    teller.add_tentative_command(command(program, rest));
}

/// Returns the program of a package, by its usual name: `create-vite` for `create-vite@5`, `cli` for `@scope/cli`.
fn program_of_package(name: &str) -> &str {
    let start = usize::from(name.starts_with('@'));
    let end =
        name.get(start..).and_then(|rest| rest.find('@')).map_or(name.len(), |at| at.saturating_add(start));
    let bare = name.get(..end).unwrap_or(name);
    let bare = bare.split("==").next().unwrap_or(bare);
    bare.rsplit('/').next().unwrap_or(bare)
}

fn command(name: &str, rest: &[Word]) -> Vec<Word> {
    [&[Word::literal(name)], rest].concat()
}

/// Returns the known first operand, and the others.
fn first_and_rest(parsed: &ParsedOptions<'_>) -> Option<(String, Vec<Word>)> {
    let (first, rest) = parsed.operands.split_first()?;
    let name = first.word.as_text()?.to_owned();
    Some((name, rest.iter().map(|operand| operand.word.clone()).collect()))
}

/// Adds the arguments of a script of the project.
fn add_arguments(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    for word in words {
        teller.apply_role(WordRole::Any, word);
    }
}

impl CommandAnalyzer<'_> {
    /// Adds the file of a program in `node_modules/.bin` of this directory or one above it. Returns whether there is one.
    pub(super) fn add_project_program(&mut self, name: &str) -> bool {
        if name.is_empty() || name.contains('/') || name.starts_with(['.', '-']) {
            return false;
        }
        let found = self.directories_upwards().into_iter().find_map(|directory| {
            let path = format!("{directory}/node_modules/.bin/{name}");
            self.env.find_program(&path).map(|_| path)
        });
        if let Some(path) = &found {
            self.add_path(WordRole::Read, path);
        }
        found.is_some()
    }

    /// Returns the names of the scripts in the nearest `package.json`.
    fn project_scripts(&self) -> Vec<String> {
        let read = |directory: String| self.env.read_script(&format!("{directory}/package.json"));
        let Some(text) = self.directories_upwards().into_iter().find_map(read) else { return Vec::new() };
        #[derive(Default, Deserialize)]
        struct Package {
            #[serde(default)]
            scripts: std::collections::BTreeMap<String, serde_json::Value>,
        }
        let package: Package = serde_json::from_str(&text).unwrap_or_default();
        package.scripts.into_keys().collect()
    }

    /// Returns the working directory and those above it.
    pub(super) fn directories_upwards(&self) -> Vec<String> {
        let WorkingDir::At(start) = &self.working_dir else { return Vec::new() };
        let above = std::iter::successors(Some(start.trim_end_matches('/')), |directory| {
            directory.rsplit_once('/').map(|(above, _)| above)
        });
        above.map(str::to_owned).collect()
    }
}

/// The modules that come with Python.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PythonModules {
    standard: Vec<String>,
    plain: Vec<String>,
    packages: Vec<String>,
}

impl PythonModules {
    /// Checks for a module that runs code from its words or its input, or that nobody has looked at.
    fn is_unpredictable(&self, name: &str) -> bool {
        self.plain.is_empty()
            || self.packages.iter().any(|own| own == name)
            || self.standard.iter().any(|own| own == name) && !self.plain.iter().any(|own| own == name)
    }
}

// If the table does not parse, every module is unpredictable.
static PYTHON_MODULES: LazyLock<PythonModules> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../manuals/python-modules.toml")).unwrap_or_default()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_python_modules_can_be_read() {
        assert!(PYTHON_MODULES.plain.iter().all(|name| PYTHON_MODULES.standard.contains(name)));
        for (name, unpredictable) in
            [("json", false), ("pytest", false), ("runpy", true), ("timeit", true), ("pip", true)]
        {
            assert_eq!(PYTHON_MODULES.is_unpredictable(name), unpredictable, "{name}");
        }
    }

    #[test]
    fn a_package_is_known_by_its_bare_name() {
        for (package, program) in [
            ("prisma", "prisma"),
            ("create-vite@5", "create-vite"),
            ("@scope/cli@1.2", "cli"),
            ("ruff==0.1", "ruff"),
        ] {
            assert_eq!(program_of_package(package), program);
        }
    }
}

//! Additional readers for programs with a manual, where a table of options is not enough: names that are derived from other names.
//!
//! Their effects are added to those of the manual, and never replace them.

use super::super::command_analyzer::{CommandAnalyzer, file_name};
use super::{downloads, git, packing, runners, search};
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// Runs the additional reader of this name.
pub(in super::super) fn analyze_extra(
    teller: &mut CommandAnalyzer<'_>,
    name: &str,
    parsed: &ParsedOptions<'_>,
) {
    match name {
        "copy" => copy(teller, parsed),
        "curl" => downloads::curl(teller, parsed),
        "wget" => downloads::wget(teller, parsed),
        "unzip" => packing::unzip(teller, parsed),
        "pack" => packing::pack(teller, parsed),
        "interpreter" => interpreter(teller, parsed),
        "input" => input(teller, parsed),
        "package" => package(teller, parsed),
        "script" => runners::script(teller, parsed),
        "npx" => runners::npx(teller, parsed),
        "dlx" => runners::dlx(teller, parsed),
        "uvx" => runners::uvx(teller, parsed),
        "exec" => runners::exec(teller, parsed),
        "packed" => packing::packed(teller, parsed),
        "archive" => packing::archive(teller, parsed),
        "csplit" => csplit(teller, parsed),
        "goals" => goals(teller, parsed),
        "search" => search::search(teller, parsed),
        "yq" => yq(teller, parsed),
        "kill" => kill(teller, parsed),
        "cargo" => {}
        "module" => module(teller, parsed),
        "forge" => forge(teller, parsed),
        "clone" => clone(teller, parsed),
        "kubectl" => kubectl(teller, parsed),
        "git-archive" => git_archive(teller, parsed),
        "git-init" => git_init(teller, parsed),
        "git-clone" => git_clone(teller, parsed),
        "git-remote" => git::git_remote(teller, parsed),
        "rsync" => rsync(teller, parsed),
        "rename" => rename(teller, parsed),
        _ => teller.add_unknown(format!("the manual names a special handler `{name}` that does not exist")),
    }
}

/// Returns the known operands.
pub(super) fn operands<'p>(parsed: &'p ParsedOptions<'_>) -> Vec<&'p str> {
    parsed.operands.iter().filter_map(|operand| operand.word.as_text()).collect()
}

/// Adds the targets of a copy: a file that is copied into a directory keeps its name there.
fn copy(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let mut sources = operands(parsed);
    let whole = parsed.has(&["--no-target-directory"]);
    let into = parsed.values(&["--target-directory"]).last().copied();
    let target = match into {
        Some(target) => target,
        // A link to a single operand is created in the current directory.
        None if sources.len() < 2 => ".",
        None => sources.pop().unwrap_or("."),
    };
    if parsed.has(&["--exchange"]) {
        for source in sources {
            exchange(teller, source, target);
        }
        return;
    }
    for source in sources {
        let bare = source.trim_end_matches('/');
        let name = file_name(bare);
        teller.note_copy(source, target);
        teller.note_copy(source, &format!("{target}/{name}"));
        if whole || matches!(name, "." | ".." | "") {
            add_copied_contents(teller, source, target);
            teller.add_copied_tree(source, target);
            continue;
        }
        // The target gets a copy of the directory with its name, or becomes one.
        if teller.is_directory_there(target) {
            teller.add_copied_tree(source, &format!("{}/{name}", target.trim_end_matches('/')));
        } else {
            teller.add_copied_tree(source, target);
        }
        teller.add_written_file(target, name);
        if parsed.has(&["--parents"]) {
            teller.add_written_file(target, bare.trim_start_matches('/'));
        }
    }
}

/// Adds the effects of `mv --exchange`: each of the two gets the name of the other, with everything in it.
fn exchange(teller: &mut CommandAnalyzer<'_>, source: &str, target: &str) {
    for (from, to) in [(source, target), (target, source)] {
        teller.note_copy(from, to);
        teller.add_path(WordRole::Move, from);
        teller.add_path(WordRole::Write, to);
        teller.add_copied_tree(from, to);
    }
}

/// Adds the files that a local copy with rsync writes. A slash at the end of a source means its contents.
fn rsync(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let mut sources = operands(parsed);
    let is_remote = |text: &str| text.contains(':');
    let Some(target) = sources.pop().filter(|target| !is_remote(target)) else { return };
    for source in sources.into_iter().filter(|source| !is_remote(source)) {
        let name = file_name(source.trim_end_matches('/'));
        teller.note_copy(source, target);
        if source.ends_with('/') || matches!(name, "." | ".." | "") {
            add_copied_contents(teller, source, target);
            teller.add_copied_tree(source, target);
        } else {
            let below = format!("{}/{name}", target.trim_end_matches('/'));
            teller.note_copy(source, &below);
            teller.add_copied_tree(source, &below);
            teller.add_written_file(target, name);
        }
        if parsed.has(&["--relative"]) {
            teller.add_written_file(target, source.trim_start_matches('/'));
        }
    }
}

/// Adds the new names of `rename FROM TO FILE…`: each name with a part replaced, in its first place, its last place or everywhere.
fn rename(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let words: Vec<Option<&str>> = parsed.operands.iter().map(|operand| operand.word.as_text()).collect();
    let [Some(from), Some(to), files @ ..] = words.as_slice() else { return };
    for file in files.iter().copied().flatten() {
        let (folder, name) = file.rsplit_once('/').map_or(("", file), |(folder, name)| (folder, name));
        let last = name.rsplit_once(from).map(|(before, behind)| format!("{before}{to}{behind}"));
        let names = [Some(name.replacen(from, to, 1)), Some(name.replace(from, to)), last];
        for new in names.into_iter().flatten().filter(|new| new != name) {
            let path = if file.contains('/') { format!("{folder}/{new}") } else { new };
            teller.add_path(WordRole::Write, &path);
            teller.add_copied_tree(file, &path);
        }
    }
}

/// Adds the contents of a directory that is copied onto another.
fn add_copied_contents(teller: &mut CommandAnalyzer<'_>, source: &str, target: &str) {
    let WorkingDir::At(place) = teller.working_dir.clone() else { return };
    let Some(directory) = teller.env.resolve(&place, source) else { return };
    if !teller.env.is_directory(&directory) {
        return;
    }
    match teller.env.list_directory(&directory) {
        Some(names) => {
            for name in names {
                teller.add_written_file(target, &name);
            }
        }
        None => teller.add_unknown(format!("the contents of `{source}` are not known")),
    }
}

impl CommandAnalyzer<'_> {
    /// Notes that a place leads to another one for the later commands of the text.
    fn note_copy(&mut self, from: &str, to: &str) {
        let WorkingDir::At(place) = &self.working_dir else { return };
        if let (Some(from), Some(to)) = (self.env.resolve(place, from), self.env.resolve(place, to))
            && from != to
        {
            self.result.copies.push((from, to));
        }
        if let (Some(from), Some(to)) = (self.entry_path(from), self.entry_path(to)) {
            self.note_moved_link(&from, &to);
        }
    }

    /// Returns the path of an entry itself: what it leads to does not matter, if it is a link.
    fn entry_path(&self, text: &str) -> Option<String> {
        let WorkingDir::At(place) = &self.working_dir else { return None };
        let text = text.trim_end_matches('/');
        let (above, name) = match text.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some(parts) => parts,
            None => (".", text),
        };
        let above = self.env.resolve(place, above)?;
        (!matches!(name, "" | "." | "..")).then(|| format!("{}/{name}", above.trim_end_matches('/')))
    }

    /// Notes where a link leads at its new place: a relative one leads elsewhere there.
    pub(in super::super) fn note_moved_link(&mut self, from: &str, to: &str) {
        let Some(text) = self.env.link_target(from) else { return };
        let above = to.rsplit_once('/').map_or("/", |(above, _)| if above.is_empty() { "/" } else { above });
        if let Some(target) = self.env.resolve(above, &text)
            && target != to
        {
            self.result.copies.push((target, to.to_owned()));
        }
    }

    /// Notes that a directory becomes a repository without `.git`. Later commands of the text that write its settings and hooks write those
    /// of a repository.
    fn note_repository(&mut self, directory: &str) {
        let WorkingDir::At(place) = &self.working_dir else { return };
        if let Some(path) = self.env.resolve(place, directory) {
            self.result.repositories.push(path);
        }
    }

    /// Adds a write of this name below a directory, if the path is or may be one.
    fn add_written_file(&mut self, directory: &str, name: &str) {
        let is_directory = match &self.working_dir {
            WorkingDir::At(place) => {
                let resolved = self.env.resolve(place, directory);
                resolved.is_none_or(|path| {
                    self.env.is_directory(&path) || self.env.list_directory(&path).is_none()
                })
            }
            WorkingDir::Unknown(_) => true,
        };
        if is_directory || directory.ends_with('/') {
            // A directory of that name may exist already. Then something below it is written.
            let before = std::mem::replace(&mut self.changes_itself, false);
            self.add_path(WordRole::Write, &format!("{}/{name}", directory.trim_end_matches('/')));
            self.changes_itself = before;
        }
    }
}

/// Adds the files that `csplit` writes: a prefix and a number in a format.
fn csplit(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let prefix = parsed.values(&["--prefix"]).last().copied().unwrap_or("xx");
    let format = parsed.values(&["--suffix-format"]).last().copied().unwrap_or("%02d");
    let number = format.find('%').and_then(|at| {
        let rest = format.get(at..)?;
        let end = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        Some((format.get(..at)?, rest.get(end.saturating_add(1)..)?))
    });
    match number {
        Some((before, behind)) if !behind.contains('%') => {
            for digits in ["0", "00"] {
                teller.add_path(WordRole::Write, &format!("{prefix}{before}{digits}{behind}"));
            }
            if behind.is_empty() && !(prefix == "xx" && before.is_empty()) {
                teller.add_unknown(format!(
                    "the names of the files that begin with `{prefix}{before}` are not known"
                ));
            }
        }
        _ => teller.add_unknown(format!("`{format}`: the names of the written files are not known")),
    }
}

/// Adds the parts of a goal or script name with colons, so that dangers see them: `:app:publish`, `app:deploy`. Maven takes
/// `group:artifact:version:goal` for a plugin that it may download.
fn goals(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    for name in operands(parsed) {
        add_generated_files(teller, name.rsplit(':').next().unwrap_or(name));
    }
    for name in operands(parsed).into_iter().filter(|name| name.contains(':')) {
        teller.facts.operands.extend(name.split(':').filter(|part| !part.is_empty()).map(str::to_owned));
        let is_maven = matches!(teller.facts.program.as_str(), "mvn" | "mvnd" | "mvnw");
        if is_maven && name.matches(':').count() > 1 {
            teller.add_unknown(format!("the plugin `{name}` may be downloaded and run"));
        }
    }
}

/// Adds the files that a task of a build tool generates: the wrapper, which fetches and runs a version of the tool.
fn add_generated_files(teller: &mut CommandAnalyzer<'_>, task: &str) {
    let files: &[&str] = match (teller.facts.program.as_str(), task) {
        ("gradle" | "gradlew", "wrapper" | "init") => &["gradlew", "gradlew.bat", "gradle/wrapper"],
        ("mvn" | "mvnd" | "mvnw", "wrapper") => &["mvnw", "mvnw.cmd", ".mvn/wrapper"],
        _ => return,
    };
    for file in files {
        teller.add_path(WordRole::Write, file);
    }
}

/// Checks for functions of a yq program that load files or the environment.
fn yq(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some(program) = operands(parsed).first().copied() else { return };
    let mut words = program.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let loads =
        |word: &str| word.starts_with("load") || matches!(word, "env" | "strenv" | "envsubst" | "eval");
    if words.any(loads) {
        teller.add_unknown("the program of `yq` loads files or the environment");
        for path in program.split('"').skip(1).step_by(2) {
            teller.add_path(WordRole::Read, path);
        }
    }
}

/// Checks for process groups: a negative number after the signal.
fn kill(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let signals = parsed.word_values(&["-9"]).count().saturating_add(parsed.word_values(&["-s"]).count());
    let is_negative = |word: &Word| word.as_text().is_some_and(|text| text.starts_with('-'));
    if signals > 1 || parsed.operands.iter().any(|operand| is_negative(&operand.word)) {
        teller.add_unknown("a negative number means several processes, or all");
    }
}

/// Checks for code from the input: an interpreter without a file runs its input.
fn interpreter(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["-m"]) {
        runners::modules(teller, parsed);
    } else if parsed.operands.is_empty() && !parsed.has(&["--version"]) {
        teller.add_unknown(format!("`{}` runs code from its input", teller.facts.program));
    }
}

/// Checks whether code comes from the input or a URL in place of a script of the project.
fn input(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    runners::modules(teller, parsed);
    if let Some(name) = operands(parsed).first().filter(|name| **name == "-" || name.contains("://")) {
        teller.add_unknown(format!("`{name}` runs code from elsewhere"));
    }
}

/// Checks whether a package is fetched by its URL or version.
fn package(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let Some(name) = operands(parsed).first().copied() else { return };
    let fetched = name.contains("://");
    let elsewhere =
        name.contains('/') && !name.starts_with(['@', '.', '/']) && teller.facts.program != "deno";
    if name.contains(':') || elsewhere || name.get(1..).is_some_and(|rest| rest.contains('@')) {
        teller.add_unknown(format!("`{name}` is downloaded and run"));
    }
    if fetched {
        teller.apply_role(WordRole::Url, &Word::literal(name));
    }
}

/// Checks for `host/module@version`, which is fetched.
fn module(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if let Some(name) = operands(parsed).into_iter().find(|name| name.contains('@')) {
        teller.add_unknown(format!("`{name}` is downloaded and built"));
    }
}

/// Checks for words after `--`, which are passed to Git.
fn forge(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if let Some(operand) = parsed.operands.iter().find(|operand| operand.certain) {
        teller.add_unknown(format!("`{}` is passed to git", operand.word));
    }
}

fn clone(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    forge(teller, parsed);
    let plain = parsed.operands.iter().filter(|operand| !operand.certain).count();
    let Some(name) = operands(parsed).first().copied() else { return };
    if name.contains(':') {
        teller.apply_role(WordRole::Repository, &Word::literal(name));
    }
    if plain < 2 {
        teller.add_path(WordRole::Write, file_name(name).trim_end_matches(".git"));
    }
}

/// Adds the reads of `-o go-template-file=FILE`.
fn kubectl(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.values(&["--output"]).iter().any(|value| value.ends_with("-file")) {
        for file in parsed.values(&["--template"]) {
            teller.add_path(WordRole::Read, file);
        }
    }
    for value in parsed.values(&["--output"]) {
        if let Some((_, file)) = value.split_once('=').filter(|(kind, _)| kind.ends_with("-file")) {
            teller.add_path(WordRole::Read, file);
        }
    }
}

/// Adds the directory that a clone makes, which is named after the repository unless an operand names it.
fn git_clone(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let is_bare = parsed.has(&["--bare"]) || parsed.has(&["--mirror"]);
    let names = operands(parsed);
    let directory = match names.as_slice() {
        [_, directory, ..] => (*directory).to_owned(),
        [repository] => {
            let path = repository.trim_end_matches('/').trim_end_matches("/.git");
            let name = path.rsplit(['/', ':']).next().unwrap_or(path).trim_end_matches(".git");
            if matches!(name, "" | "." | "..") {
                return;
            }
            let directory = if is_bare { format!("{name}.git") } else { name.to_owned() };
            teller.add_path(WordRole::Write, &directory);
            directory
        }
        [] => return,
    };
    if is_bare {
        teller.note_repository(&directory);
    }
    for store in parsed.values(&["--separate-git-dir"]) {
        teller.note_repository(store);
    }
}

/// Adds the move of an existing repository, whose hooks and settings then lie elsewhere.
fn git_init(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["--bare"]) {
        teller.note_repository(operands(parsed).first().copied().unwrap_or("."));
    }
    for directory in parsed.values(&["--separate-git-dir"]) {
        teller.note_repository(directory);
    }
    if parsed.has(&["--separate-git-dir"])
        && let Some(top) = teller.repository_root()
    {
        let directory = format!("{top}/.git");
        teller.add_path(WordRole::Delete, &directory);
        teller.add_deleted_contents(&directory);
    }
}

/// Checks the format of an archive: any other than these is made by a command from the settings.
fn git_archive(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let by_name = parsed
        .values(&["--output"])
        .into_iter()
        .map(|file| file_name(file).split_once('.').map_or("tar", |(_, end)| end));
    let formats: Vec<&str> = parsed.values(&["--format"]).into_iter().chain(by_name).collect();
    for format in formats {
        if !["tar", "zip", "tgz", "tar.gz"]
            .iter()
            .any(|own| format == *own || format.ends_with(&format!(".{own}")))
        {
            teller.add_unknown(format!(
                "archives in the format `{format}` are made by a command from the settings"
            ));
        }
    }
}

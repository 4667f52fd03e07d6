//! Additional readers for programs with a manual, where a table of options is not enough: names that are derived from other names.
//!
//! Their effects are added to those of the manual, and never replace them.

use super::super::command_analyzer::{CommandAnalyzer, file_name};
use super::files::add_unpacked_member;
use super::{runners, search};
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// The suffixes of compressed files, and the suffixes that replace them after decompression.
const PACKED_SUFFIXES: [(&str, &str); 14] = [
    (".gz", ""),
    (".bz2", ""),
    (".xz", ""),
    (".zst", ""),
    (".lz4", ""),
    (".lzma", ""),
    (".Z", ""),
    (".z", ""),
    ("-gz", ""),
    ("-z", ""),
    ("_z", ""),
    (".zip", ""),
    (".tgz", ".tar"),
    (".txz", ".tar"),
];

/// Runs the additional reader of this name.
pub(in super::super) fn analyze_extra(
    teller: &mut CommandAnalyzer<'_>,
    name: &str,
    parsed: &ParsedOptions<'_>,
) {
    match name {
        "copy" => copy(teller, parsed),
        "curl" => curl(teller, parsed),
        "wget" => wget(teller, parsed),
        "unzip" => unzip(teller, parsed),
        "pack" => pack(teller, parsed),
        "interpreter" => interpreter(teller, parsed),
        "input" => input(teller, parsed),
        "package" => package(teller, parsed),
        "script" => runners::script(teller, parsed),
        "npx" => runners::npx(teller, parsed),
        "dlx" => runners::dlx(teller, parsed),
        "uvx" => runners::uvx(teller, parsed),
        "exec" => runners::exec(teller, parsed),
        "packed" => packed(teller, parsed),
        "archive" => archive(teller, parsed),
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
        _ => teller.add_unknown(format!("the manual names a special handler `{name}` that does not exist")),
    }
}

/// Returns the known operands.
fn operands<'p>(parsed: &'p ParsedOptions<'_>) -> Vec<&'p str> {
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

/// Adds the local file that a download from a URL creates.
fn add_downloaded_file(teller: &mut CommandAnalyzer<'_>, url: &str, folder: &str) {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    let Some((_, name)) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else { return };
    if name.contains(['{', '[', '\\', '%']) {
        teller.add_unknown(format!("the file name for `{url}` is not known"));
    }
    teller.add_path(WordRole::Write, &format!("{folder}/{name}"));
}

/// Checks whether the options of curl make it send something. Text that goes into the query is part of an address.
fn curl_sends(parsed: &ParsedOptions<'_>) -> bool {
    let reads = |method: Option<&Word>| matches!(method.and_then(Word::as_text), Some("GET" | "HEAD"));
    let has_file = |value: Option<&Word>| value.and_then(Word::as_text).is_none_or(|text| text.contains('@'));
    let is_file =
        |value: Option<&Word>| value.and_then(Word::as_text).is_none_or(|text| text.starts_with('@'));
    let mut data = parsed.word_values(&["--data", "--data-urlencode"]);
    let in_query = parsed.has(&["--get"]);
    parsed.word_values(&["--request"]).any(|method| !reads(method))
        || data.any(|value| !in_query || has_file(value))
        || parsed.word_values(&["--url-query"]).any(has_file)
        || parsed.word_values(&["--header"]).any(is_file)
}

fn curl(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    teller.sends |= curl_sends(parsed);
    let folder = parsed.values(&["--output-dir"]).last().copied();
    for file in parsed.values(&["--output"]) {
        if file.contains('#') {
            teller.add_unknown(format!("`{file}`: `#` stands for a part of the URL"));
        }
        if let Some(folder) = folder.filter(|_| !file.starts_with('/')) {
            teller.add_path(WordRole::Write, &format!("{folder}/{file}"));
        }
    }
    if parsed.has(&["--remote-name"]) {
        let urls = operands(parsed).into_iter().chain(parsed.values(&["--url"]));
        for url in urls {
            add_downloaded_file(teller, url, folder.unwrap_or("."));
        }
    }
    for url in operands(parsed).into_iter().chain(parsed.values(&["--url"])) {
        // With `--proto-default file`, a URL without a scheme is a path behind a host.
        if let Some((_, path)) = url.split_once('/').filter(|_| parsed.has(&["--proto-default"])) {
            teller.add_path(WordRole::Read, &format!("/{}", path.trim_start_matches('/')));
        }
    }
    if parsed.values(&["--write-out"]).iter().any(|text| text.contains("%output") || text.starts_with('@')) {
        teller.add_unknown("`curl --write-out`: the text names files that are written");
    }
    if let Some(home) = teller.env.home().filter(|_| parsed.has(&["--netrc"])).map(str::to_owned) {
        teller.add_path(WordRole::Read, &format!("{home}/.netrc"));
    }
    for value in parsed.word_values(&["--upload-file"]).flatten() {
        add_uploaded_files(teller, value);
    }
}

/// Adds the reads of `-T FILE`, where `{a,b}` and `[a-z]` mean several files.
fn add_uploaded_files(teller: &mut CommandAnalyzer<'_>, value: &Word) {
    teller.apply_role(WordRole::Read, value);
    let Some(text) = value.as_text().filter(|text| text.contains(['{', '['])) else { return };
    teller.add_unknown(format!("`{text}` matches several files"));
    if let Some((before, rest)) = text.split_once('{')
        && let Some((names, behind)) = rest.split_once('}')
    {
        for name in names.split(',') {
            teller.add_path(WordRole::Read, &format!("{before}{name}{behind}"));
        }
    }
}

fn wget(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    // HTTPie sends the items after the URL, and names its method first.
    let is_httpie = matches!(teller.facts.program.as_str(), "http" | "https" | "httpie" | "xh");
    let mut words = parsed.operands.iter().map(|operand| operand.word.as_text());
    let method = |word: Option<&str>| {
        word.is_some_and(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase()))
    };
    let first = words.next().flatten();
    let urls = if method(first) { parsed.operands.len().saturating_sub(1) } else { parsed.operands.len() };
    teller.sends |= is_httpie && (urls > 1 || method(first) && !matches!(first, Some("GET" | "HEAD")));
    let folder = parsed.values(&["--directory-prefix"]).last().copied().unwrap_or(".");
    for url in operands(parsed) {
        add_downloaded_file(teller, url, folder);
    }
}

/// Adds the unpacked files: the operands after the archive.
fn unzip(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["-l"]) {
        return;
    }
    let folder = parsed.values(&["-d"]).last().map(|folder| Word::literal(*folder));
    if let Some(folder) = &folder {
        teller.change_directory(folder);
    }
    for member in operands(parsed).into_iter().skip(1) {
        add_unpacked_member(teller, member, true);
    }
}

/// Adds the files that are read in place of a missing one: each name with an ending of packed files.
fn packed(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    for file in operands(parsed) {
        for (end, _) in PACKED_SUFFIXES {
            teller.add_path(WordRole::Read, &format!("{file}{end}"));
        }
    }
}

/// Adds the archive under the ending that is added to its name.
fn archive(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let role = if teller.facts.program == "zip" { WordRole::Edit } else { WordRole::Read };
    if let Some(file) = operands(parsed).first() {
        for end in [".zip", ".ZIP"] {
            teller.add_path(role, &format!("{file}{end}"));
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

/// Adds the files of packing and unpacking: unpacking removes a suffix, and packing adds one. Where a file is missing, the one with a suffix
/// is unpacked.
fn pack(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let unpacks = parsed.has(&["--decompress", "--list", "--test"])
        || teller.facts.program.starts_with("un")
        || matches!(teller.facts.program.as_str(), "gunzip" | "bunzip2");
    let prints = parsed.has(&["--stdout"]);
    let role = if prints { WordRole::Read } else { WordRole::Edit };
    for file in operands(parsed) {
        let mut packed = false;
        for (end, other) in PACKED_SUFFIXES {
            if let Some(stem) = file.strip_suffix(end) {
                packed = true;
                if !prints {
                    teller.add_path(WordRole::Write, &format!("{stem}{other}"));
                }
            }
        }
        if unpacks && !packed {
            for (end, _) in PACKED_SUFFIXES {
                teller.add_path(role, &format!("{file}{end}"));
            }
        }
        let program = teller.facts.program.clone();
        let end = match program.as_str() {
            "bzip2" => ".bz2",
            "xz" => ".xz",
            "zstd" => ".zst",
            "lz4" => ".lz4",
            "compress" => ".Z",
            "gzip" | "pigz" => ".gz",
            _ => continue,
        };
        if !packed && !prints && !unpacks {
            teller.add_path(WordRole::Write, &format!("{file}{end}"));
        }
    }
}

/// Adds the parts of a goal or script name with colons, so that dangers see them: `:app:publish`, `app:deploy`. Maven takes
/// `group:artifact:version:goal` for a plugin that it may download.
fn goals(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    for name in operands(parsed).into_iter().filter(|name| name.contains(':')) {
        teller.facts.operands.extend(name.split(':').filter(|part| !part.is_empty()).map(str::to_owned));
        let is_maven = matches!(teller.facts.program.as_str(), "mvn" | "mvnd" | "mvnw");
        if is_maven && name.matches(':').count() > 1 {
            teller.add_unknown(format!("the plugin `{name}` may be downloaded and run"));
        }
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

/// Adds the move of an existing repository, whose hooks and settings then lie elsewhere.
fn git_init(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
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

//! Additional readers for programs with a manual, where a table of options is not enough: names that are derived from other names.
//!
//! Their effects are added to those of the manual, and never replace them.

use super::super::command_analyzer::{CommandAnalyzer, file_name};
use super::files::add_unpacked_member;
use crate::commands::WorkingDir;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// Python modules that run code from their words or their input, or that install other code.
const CODE_RUNNING_MODULES: [&str; 9] =
    ["timeit", "code", "asyncio", "pdb", "pip", "pipx", "ensurepip", "IPython", "idlelib"];
/// The suffixes of compressed files, and the suffixes that replace them after decompression.
const PACKED_SUFFIXES: [(&str, &str); 10] = [
    (".gz", ""),
    (".bz2", ""),
    (".xz", ""),
    (".zst", ""),
    (".lz4", ""),
    (".lzma", ""),
    (".Z", ""),
    (".z", ""),
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
        "module" => module(teller, parsed),
        "forge" => forge(teller, parsed),
        "clone" => clone(teller, parsed),
        "kubectl" => kubectl(teller, parsed),
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
        if whole || matches!(name, "." | ".." | "") {
            add_copied_contents(teller, source, target);
            continue;
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
    if parsed.values(&["--write-out"]).iter().any(|text| text.contains("%output")) {
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

/// Adds the written files: decompression removes a suffix, and compression adds one.
fn pack(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["--stdout"]) {
        return;
    }
    for file in operands(parsed) {
        let mut packed = false;
        for (end, other) in PACKED_SUFFIXES {
            if let Some(stem) = file.strip_suffix(end) {
                packed = true;
                teller.add_path(WordRole::Write, &format!("{stem}{other}"));
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
        if !packed {
            teller.add_path(WordRole::Write, &format!("{file}{end}"));
        }
    }
}

/// Checks for code from the input: an interpreter without a file runs its input.
fn interpreter(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    if parsed.has(&["-m"]) {
        modules(teller, parsed);
    } else if parsed.operands.is_empty() && !parsed.has(&["--version"]) {
        teller.add_unknown(format!("`{}` runs code from its input", teller.facts.program));
    }
}

fn modules(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    for module in parsed.values(&["-m"]) {
        if CODE_RUNNING_MODULES.contains(&module.split('.').next().unwrap_or(module)) {
            teller.add_unknown(format!("module `{module}` runs code that is not analyzed"));
        }
    }
}

/// Checks whether code comes from the input or a URL in place of a script of the project.
fn input(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    modules(teller, parsed);
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

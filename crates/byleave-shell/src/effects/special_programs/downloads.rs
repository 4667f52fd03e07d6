//! Additional readers for programs that fetch files: the files that they write, and whether they send something.

use super::super::command_analyzer::CommandAnalyzer;
use super::extra::operands;
use crate::manual::{ParsedOptions, WordRole};
use crate::word::Word;

/// Adds the local file that a download from a URL creates.
fn add_downloaded_file(teller: &mut CommandAnalyzer<'_>, url: &str, folder: &str) {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split(['?', '#']).next().unwrap_or(path);
    // Where the path ends with a slash, newer versions of curl take the last directory for the name.
    let Some((_, name)) = path.trim_end_matches('/').rsplit_once('/') else { return };
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

pub(super) fn curl(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
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

pub(super) fn wget(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
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
    let keeps_directories = parsed.has(&["--recursive"])
        || parsed.has(&["--mirror"])
        || parsed.has(&["--page-requisites"])
        || parsed.has(&["--force-directories"]);
    for url in operands(parsed) {
        add_downloaded_file(teller, url, folder);
        if keeps_directories {
            add_mirrored_file(teller, url, folder);
        }
    }
}

/// Adds the file that a download writes if it keeps the directories of the URL. Options leave the first of them out.
fn add_mirrored_file(teller: &mut CommandAnalyzer<'_>, url: &str, folder: &str) {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let mut rest = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
    loop {
        teller.add_path(WordRole::Write, &format!("{folder}/{rest}"));
        match rest.split_once('/') {
            Some((_, below)) => rest = below,
            None => return,
        }
    }
}

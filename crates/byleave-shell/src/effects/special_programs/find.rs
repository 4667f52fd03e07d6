//! Reads `find [PATH…] EXPRESSION`: what it finds is what its commands read, write and delete.

use super::super::command_analyzer::{CommandAnalyzer, unknown_reason};
use super::launchers::{add_unfilled_command, fill_placeholder};
use crate::commands::WorkingDir;
use crate::manual::{Manual, OptionValue, WordRole};
use crate::wildcard::LetterCase;
use crate::word::Word;

/// The limit for found files that a command is analyzed with.
const FOUND_MAX: usize = 20;

/// The tests that leave everything beneath the start possible.
const WIDE_WORDS: [&str; 14] = [
    "-depth",
    "-d",
    "-mindepth",
    "-maxdepth",
    "-mount",
    "-xdev",
    "-type",
    "-print",
    "-print0",
    "-true",
    "-a",
    "-and",
    "-follow",
    "-daystart",
];

/// The part of an expression that says what is found.
#[derive(Default)]
struct Search {
    starts: Vec<Word>,
    /// The patterns of `-name` and `-iname`.
    names: Vec<String>,
    /// The patterns of `-path` and its other names.
    paths: Vec<String>,
    case: Option<LetterCase>,
    /// Every test must hold, so that the names say what is found.
    is_conjunction: bool,
    /// No test leaves anything out.
    finds_all: bool,
    follows_links: bool,
}

pub(super) fn find(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let mut search = Search { is_conjunction: true, finds_all: true, ..Search::default() };
    let mut at = 0;
    while let Some(text) =
        words.get(at).and_then(Word::as_text).filter(|text| matches!(*text, "-H" | "-L" | "-P"))
    {
        search.follows_links |= text == "-L";
        at = at.saturating_add(1);
    }
    while let Some(word) = words.get(at) {
        if word.as_text().is_some_and(|text| text.starts_with('-') || matches!(text, "(" | "!")) {
            break;
        }
        if word.as_text().is_none() {
            teller.add_unknown(format!("{} could be a path or an expression", unknown_reason(word)));
        }
        search.starts.push(word.clone());
        at = at.saturating_add(1);
    }
    if search.starts.is_empty() {
        search.starts.push(Word::literal("."));
    }
    let expression = words.get(at..).unwrap_or_default();
    search.read_tests(expression);
    for start in &search.starts {
        teller.apply_role_partial(WordRole::Read, start);
    }
    analyze_expression(teller, manual, &search, expression);
}

impl Search {
    /// Reads the tests of the whole expression, because an action may precede a test that it depends on in another branch.
    fn read_tests(&mut self, expression: &[Word]) {
        let mut words = expression.iter().filter_map(Word::as_text);
        while let Some(text) = words.next() {
            match text {
                "-name" | "-iname" => self.names.extend(words.next().map(str::to_owned)),
                "-path" | "-ipath" | "-wholename" | "-iwholename" => {
                    self.paths.extend(words.next().map(str::to_owned));
                }
                "-o" | "-or" | "!" | "-not" | "," => self.is_conjunction = false,
                "-follow" => self.follows_links = true,
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    words.by_ref().take_while(|text| !matches!(*text, ";" | "+")).for_each(drop);
                }
                "-type" if words.next() == Some("d") => self.finds_all = false,
                "-mindepth" | "-maxdepth" => drop(words.next()),
                _ => {}
            }
            if matches!(text, "-iname" | "-ipath" | "-iwholename") {
                self.case = Some(LetterCase::Ignored);
            }
            let is_wide =
                WIDE_WORDS.contains(&text) || matches!(text, "-delete" | "-exec" | "-execdir" | "(" | ")");
            self.finds_all &= is_wide;
        }
    }

    /// Returns the words that stand for what is found beneath the starts.
    fn found(&self, teller: &CommandAnalyzer<'_>) -> Vec<Word> {
        let mut found = Vec::new();
        for start in &self.starts {
            let Some(text) = start.as_text() else {
                found.push(start.clone());
                continue;
            };
            if self.is_conjunction && !self.names.is_empty() {
                let named = self.names.iter().map(|name| format!("{}/**/{name}", text.trim_end_matches('/')));
                found.extend(named.map(Word::literal));
            } else {
                found.push(start.clone());
            }
            let patterns = [self.names.as_slice(), self.paths.as_slice()].concat();
            if !patterns.is_empty() {
                let case = self.case.unwrap_or(LetterCase::Exact);
                let there = teller.matching_names(text, &patterns, case);
                found.extend(there.into_iter().take(FOUND_MAX).map(Word::literal));
            }
        }
        found
    }
}

fn analyze_expression(
    teller: &mut CommandAnalyzer<'_>,
    manual: &'static Manual,
    search: &Search,
    words: &[Word],
) {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at = at.saturating_add(1);
        let Some(text) = word.as_text() else {
            teller.add_unknown(format!("{} could be any expression", unknown_reason(word)));
            continue;
        };
        match text {
            "(" | ")" | "!" | "," => {}
            "-delete" => add_deletion(teller, search),
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let rest = words.get(at..).unwrap_or_default();
                // A plus ends it only directly after `{}`.
                let ends = |at: usize, word: &Word| match word.as_text() {
                    Some(";") => true,
                    Some("+") => {
                        at.checked_sub(1).and_then(|at| rest.get(at)).and_then(Word::as_text) == Some("{}")
                    }
                    _ => false,
                };
                let end = rest.iter().enumerate().position(|(at, word)| ends(at, word)).unwrap_or(rest.len());
                add_command(teller, search, rest.get(..end).unwrap_or_default(), text.ends_with("dir"));
                at = at.saturating_add(end).saturating_add(1);
            }
            "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                if let Some(file) = words.get(at) {
                    teller.apply_role(WordRole::Write, file);
                }
                at = at.saturating_add(if text == "-fprintf" { 2 } else { 1 });
            }
            text => match manual.options.get(text).map(|opt| opt.value) {
                Some(OptionValue::None) => {}
                Some(OptionValue::Required(role) | OptionValue::Optional(role)) => {
                    if let Some(value) = words.get(at) {
                        teller.apply_role(role, value);
                    }
                    at = at.saturating_add(1);
                }
                None => {
                    teller.add_unknown(format!("`find`: `{text}` is not in the manual"));
                    teller.guess_roles(std::slice::from_ref(word));
                }
            },
        }
    }
}

fn add_deletion(teller: &mut CommandAnalyzer<'_>, search: &Search) {
    for word in search.found(teller) {
        teller.apply_role_partial(WordRole::Delete, &word);
    }
    check_links(teller, search);
    if search.finds_all {
        // The dangers about deleting a whole directory apply.
        teller.facts.options.push("-delete-all".to_owned());
        for start in resolved_starts(teller, search) {
            teller.add_deleted_contents(&start);
        }
    }
}

fn add_command(teller: &mut CommandAnalyzer<'_>, search: &Search, command: &[Word], is_in_directory: bool) {
    let found = search.found(teller);
    for word in &found {
        teller.add_nested_template(command.iter().map(|part| fill_placeholder(part, "{}", word)).collect());
    }
    add_unfilled_command(teller, command, "{}");
    check_links(teller, search);
    if is_in_directory {
        add_command_in_directories(teller, search, command);
    }
}

/// Adds the command as `-execdir` runs it: in the directory of each file.
fn add_command_in_directories(teller: &mut CommandAnalyzer<'_>, search: &Search, command: &[Word]) {
    teller.add_unknown("`find -execdir` runs a command in every directory in which it finds something");
    let before = teller.working_dir.clone();
    let mut places = resolved_starts(teller, search);
    let there = search.found(teller);
    let there =
        there.iter().filter_map(Word::as_text).filter(|path| path.starts_with('/') && !path.contains('*'));
    places.extend(there.filter_map(|path| path.rsplit_once('/')).map(|(above, _)| above.to_owned()));
    places.sort_unstable();
    places.dedup();
    for place in places.into_iter().take(FOUND_MAX) {
        teller.working_dir = WorkingDir::At(place);
        teller.add_nested_template(command.to_vec());
    }
    teller.working_dir = before;
}

/// Checks links that are followed. What is found need not lie beneath the start then.
fn check_links(teller: &mut CommandAnalyzer<'_>, search: &Search) {
    if !search.follows_links {
        return;
    }
    let starts = resolved_starts(teller, search);
    if starts.iter().any(|start| teller.add_linked_elsewhere(start)) {
        teller.add_unknown("`find` follows links that lead elsewhere");
    }
}

fn resolved_starts(teller: &CommandAnalyzer<'_>, search: &Search) -> Vec<String> {
    let WorkingDir::At(place) = &teller.working_dir else { return Vec::new() };
    let starts = search.starts.iter().filter_map(Word::as_text);
    starts.filter_map(|start| teller.env.resolve(place, start)).collect()
}

//! Readers for file programs whose words have an order or a form of their own.

use super::super::PackedPlace;
use super::super::command_analyzer::{CommandAnalyzer, unknown_reason};
use crate::commands::WorkingDir;
use crate::env_var_rules::{self, EnvVarRisk};
use crate::manual::{Manual, ParsedOptions, WordRole};
use crate::word::{UnknownWord, Word};

/// Reads `test` and `[`.
pub(super) fn test(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    for (at, word) in words.iter().enumerate() {
        let next = words.get(at.saturating_add(1));
        match (word.as_text(), next) {
            (Some("-v" | "-R"), Some(name)) => teller.apply_role(WordRole::Name, name),
            (
                Some(
                    "-a" | "-b" | "-c" | "-d" | "-e" | "-f" | "-g" | "-G" | "-h" | "-k" | "-L" | "-N" | "-O"
                    | "-p" | "-r" | "-s" | "-S" | "-u" | "-w" | "-x" | "-nt" | "-ot" | "-ef",
                ),
                Some(path),
            ) => {
                if let Some(path) = path.as_text() {
                    teller.add_path(WordRole::Read, path);
                }
            }
            // Numbers are arithmetic in `[[`, which is not this program. Here they must be numbers.
            (Some(_), _) => {}
            (None, _) if matches!(word, Word::Unknown(UnknownWord { single_word: true, .. })) => {}
            (None, _) => teller.add_unknown(format!("{} could be part of the test", unknown_reason(word))),
        }
    }
}

/// Reads `dd if=… of=…`.
pub(super) fn dd(teller: &mut CommandAnalyzer<'_>, words: &[Word]) {
    for word in words {
        match word.as_text().map(|text| text.split_once('=').unwrap_or((text, ""))) {
            Some(("if", path)) => teller.add_path(WordRole::Read, path),
            Some(("of", path)) => teller.add_path(WordRole::Write, path),
            Some((
                "bs" | "ibs" | "obs" | "cbs" | "count" | "skip" | "seek" | "iseek" | "oseek" | "conv"
                | "iflag" | "oflag" | "status" | "--help" | "--version",
                _,
            )) => {}
            Some((name, _)) => teller.add_unknown(format!("`dd`: `{name}` is not in the manual")),
            None => teller.add_unknown(unknown_reason(word)),
        }
    }
}

/// Reads `tar`. Its first word may be a cluster without a dash, and its archive is read or written depending on the other words.
pub(super) fn tar(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let mut words = words.to_vec();
    if let Some(first) = words.first_mut()
        && let Some(text) = first.as_text().filter(|text| !text.starts_with('-') && !text.is_empty())
    {
        // In the old form, the values of all letters are in the words that follow, in order.
        let (valued, plain): (String, String) = text.chars().partition(|letter| {
            matches!(letter, 'f' | 'C' | 'b' | 'T' | 'X' | 'I' | 'g' | 'K' | 'N' | 'V' | 'H' | 'F' | 'L')
        });
        if valued.len() > 1 {
            teller.add_unknown("`tar`: several letters of the old option style take a value");
        }
        *first = Word::literal(format!("-{plain}{valued}"));
    }
    let parsed = manual.parse_args(&words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    let extracts = parsed.has(&["--extract"]);
    let lists = parsed.has(&["--list", "--compare"]);
    let makes = parsed.has(&["--create", "--append", "--update", "--catenate", "--delete"]);
    for file in parsed.word_values(&["--file"]).flatten() {
        if file.as_text().is_some_and(|text| text.contains(':') && !text.starts_with(['/', '.'])) {
            teller.apply_role(WordRole::RemoteWrite, file);
        }
        // The path of the archive is not relative to `-C`.
        let place = std::mem::replace(&mut teller.working_dir, teller.command.working_dir.clone());
        teller.apply_role(if makes { WordRole::Write } else { WordRole::Read }, file);
        teller.working_dir = place;
    }
    if extracts && !parsed.has(&["--to-stdout"]) {
        teller.apply_role_implicit(WordRole::Write, &Word::literal("."));
    }
    let archives = archive_names(teller, &parsed);
    if extracts && !parsed.has(&["--to-stdout"]) {
        add_packed_places(teller, &archives, parsed.has(&["--strip-components"]));
    }
    for operand in &parsed.operands {
        if makes && let Some(text) = operand.word.as_text() {
            note_packed_place(teller, &archives, text);
        }
        if let Word::Unknown(_) = operand.word {
            teller.add_unknown(format!(
                "{}, so it could be options or several arguments",
                unknown_reason(&operand.word)
            ));
        } else if makes {
            teller.apply_role(WordRole::Read, &operand.word);
            if parsed.has(&["--remove-files"]) {
                teller.apply_role(WordRole::Delete, &operand.word);
            }
        } else if let Some(member) =
            operand.word.as_text().filter(|_| extracts && !parsed.has(&["--to-stdout"]))
        {
            add_unpacked_member(teller, member, parsed.has(&["--strip-components"]));
        }
    }
    if !(extracts || lists || makes || parsed.has(&["--version"])) {
        teller.add_unknown("`tar` without an operation that the manual knows");
    }
}

/// Returns the archives that `tar` is given: paths, or `-` for its input or output.
fn archive_names(teller: &CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) -> Vec<String> {
    let files: Vec<String> = parsed.values(&["--file"]).into_iter().map(str::to_owned).collect();
    if files.is_empty() { vec!["-".to_owned()] } else { archive_paths(teller, &files) }
}

/// Resolves the names of archives, which are not relative to a directory that an option names.
pub(super) fn archive_paths(teller: &CommandAnalyzer<'_>, files: &[String]) -> Vec<String> {
    let WorkingDir::At(place) = &teller.command.working_dir else { return Vec::new() };
    let path = |file: &String| match file.as_str() {
        "-" => Some("-".to_owned()),
        file => teller.env.resolve(place, file),
    };
    files.iter().filter_map(path).collect()
}

/// Notes that a file or directory is packed, for the later commands of the text.
pub(super) fn note_packed_place(teller: &mut CommandAnalyzer<'_>, archives: &[String], operand: &str) {
    let WorkingDir::At(place) = &teller.working_dir else { return };
    let Some(source) = teller.env.resolve(place, operand) else { return };
    for archive in archives {
        teller.result.packed.push(PackedPlace {
            archive: archive.clone(),
            source: source.clone(),
            name: operand.trim_matches('/').to_owned(),
        });
    }
}

/// Adds the writes of files that an earlier command of the text has packed into the same archive. If the names are shortened, every
/// shorter name is added.
pub(super) fn add_packed_places(teller: &mut CommandAnalyzer<'_>, archives: &[String], shortened: bool) {
    let Some(earlier) = teller.earlier else { return };
    for place in earlier.packed.iter().filter(|place| archives.contains(&place.archive)) {
        let is_directory = teller.env.is_directory(&place.source);
        let mut name = place.name.as_str();
        loop {
            if is_directory {
                teller.add_copied_tree(&place.source, if name.is_empty() { "." } else { name });
            } else {
                teller.add_path(WordRole::Write, name);
            }
            match name.split_once('/') {
                Some((_, rest)) if shortened => name = rest,
                None if shortened && is_directory && !name.is_empty() => name = "",
                _ => break,
            }
        }
    }
}

/// Adds the writes of an archive member that is unpacked into the current directory.
pub(super) fn add_unpacked_member(teller: &mut CommandAnalyzer<'_>, member: &str, shortened: bool) {
    if member.contains(['*', '?', '[', '\\']) {
        teller.add_unknown(format!("`{member}` may match several names in the archive"));
    }
    let mut name = member;
    loop {
        teller.add_path(WordRole::Write, name);
        match name.split_once('/') {
            Some((above, rest)) if shortened || above.is_empty() => name = rest,
            _ => return,
        }
    }
}

/// Reads `less [OPTION…] [+COMMAND] FILE…`.
pub(super) fn pager(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    if let Some(word) = words.iter().find(|word| word.as_text().is_some_and(|text| text.starts_with('+'))) {
        teller.add_unknown(format!(
            "{} is a command for the pager, which may run programs",
            unknown_reason(word)
        ));
    }
    teller.analyze_words(manual, words);
}

/// Reads `make [OPTION…] [TARGET…] [NAME=VALUE…]`.
pub(super) fn make(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let (values, rest): (Vec<Word>, Vec<Word>) = words
        .iter()
        .cloned()
        .partition(|word| word.as_text().is_some_and(|text| !text.starts_with('-') && text.contains('=')));
    for text in values.iter().filter_map(Word::as_text) {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        // A number is not a program.
        let is_harmless = match env_var_rules::env_var_risk_of_value(name, value) {
            EnvVarRisk::ChangesExecution(_) => false,
            EnvVarRisk::Harmless => true,
            _ => env_var_rules::is_switch(value),
        };
        if !is_harmless {
            teller.add_unknown(format!("`make`: `{text}` changes what the makefile runs"));
            teller.guess_roles(&[Word::literal(value)]);
        }
    }
    teller.analyze_words(manual, &rest);
}

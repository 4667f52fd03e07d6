//! Readers for Git, where a table of options is not enough.

use byleave_core::effect::Effect;
use byleave_core::git_settings::{is_plain_key, setting_path};

use super::super::command_analyzer::CommandAnalyzer;
use crate::commands::WorkingDir;
use crate::manual::{Manual, ParsedOptions, WordRole};
use crate::word::Word;

/// Reads `git config`, which writes the settings if it has a value or an option that changes them.
pub(super) fn git_config(teller: &mut CommandAnalyzer<'_>, manual: &'static Manual, words: &[Word]) {
    let mut words = words.to_vec();
    let verb = words.first().and_then(Word::as_text).unwrap_or_default().to_owned();
    let reads_by_verb = matches!(verb.as_str(), "get" | "list" | "get-all");
    let writes_by_verb =
        matches!(verb.as_str(), "set" | "unset" | "rename-section" | "remove-section" | "edit");
    if reads_by_verb || writes_by_verb {
        words.remove(0);
    }
    let parsed = manual.parse_args(&words, false);
    teller.apply_options(&parsed.options, &parsed.unknown);
    let reads = reads_by_verb || parsed.has(&["--get"]) || (parsed.operands.len() < 2 && !writes_by_verb);
    let changes = parsed.has(&["--unset"]) && {
        let named = words.iter().filter_map(Word::as_text);
        let mut named = named.filter(|text| text.starts_with("--"));
        named.any(|text| {
            ["--unset", "--unset-all", "--replace-all", "--add", "--rename-section", "--remove-section"]
                .iter()
                .any(|own| own.starts_with(text))
        })
    };
    if reads && !changes {
        return;
    }
    if parsed.has(&["--system"]) {
        let home = teller.env.home().map(str::to_owned);
        teller.add_path(WordRole::Write, "/etc/gitconfig");
        if let Some(home) = home {
            teller.add_path(WordRole::Write, &format!("{home}/.gitconfig"));
        }
    }
    if parsed.has(&["--system", "--file"]) {
        return;
    }
    let names: Vec<Option<&str>> = parsed.operands.iter().map(|operand| operand.word.as_text()).collect();
    match names.first() {
        // The new value is judged when it is there. Sections are judged as a whole.
        Some(Some(name)) if !changes_sections(&verb, &words) && is_plain_key(&canonical_key(name)) => {
            add_setting(teller, &canonical_key(name));
        }
        _ => teller.add_path(WordRole::Write, &repository_config(teller)),
    }
}

/// Checks whether a command of `git config` renames or removes a section.
fn changes_sections(verb: &str, words: &[Word]) -> bool {
    let names_section = |word: &Word| word.as_text().is_some_and(|text| text.starts_with("--re"));
    verb.ends_with("-section") || verb == "edit" || words.iter().any(names_section)
}

/// Returns the name of a setting as Git writes it: only the name between the dots keeps its case.
fn canonical_key(name: &str) -> String {
    let (section, rest) = name.split_once('.').unwrap_or((name, ""));
    let section = section.to_ascii_lowercase();
    match rest.rsplit_once('.') {
        Some((between, key)) => format!("{section}.{between}.{}", key.to_ascii_lowercase()),
        None => format!("{section}.{}", rest.to_ascii_lowercase()),
    }
}

/// Adds a change of a setting of the repository. Rules know it by a path beneath the file.
fn add_setting(teller: &mut CommandAnalyzer<'_>, key: &str) {
    let file = match (teller.repository_root(), &teller.working_dir) {
        (Some(root), _) => format!("{root}/.git/config"),
        (None, WorkingDir::At(directory)) => format!("{directory}/.git/config"),
        (None, WorkingDir::Unknown(_)) => return,
    };
    teller.add(Effect::Write { path: setting_path(&file, key) });
}

/// Reads the sub-commands of `git remote` that change settings.
pub(super) fn git_remote(teller: &mut CommandAnalyzer<'_>, parsed: &ParsedOptions<'_>) {
    let name = parsed.operands.first().and_then(|operand| operand.word.as_text()).unwrap_or_default();
    let key = format!("remote.{name}.url");
    add_setting(teller, if is_plain_key(&key) { &key } else { "remote" });
}

/// Returns the settings file of the repository that contains the working directory, as far as the environment tells.
fn repository_config(teller: &CommandAnalyzer<'_>) -> String {
    teller.repository_root().map_or_else(|| ".git/config".into(), |folder| format!("{folder}/.git/config"))
}

/// Checks where Git finds its repository. A directory can be one without `.git`. Then plain files of a working tree are its
/// settings, which may name programs.
pub(crate) fn add_git_directory(teller: &mut CommandAnalyzer<'_>) {
    let WorkingDir::At(directory) = teller.working_dir.clone() else { return };
    let mut directory = directory.as_str();
    loop {
        let is_directory = |name: &str| teller.env.is_directory(&format!("{directory}/{name}"));
        if is_directory(".git") {
            return;
        }
        let names = teller.env.list_directory(directory).unwrap_or_default();
        let has = |name: &str| names.iter().any(|own| own == name);
        // Its objects may lie in another directory, which this file names.
        if has("HEAD") && has("commondir") {
            let why = "is a part of a repository: plain files are its configuration";
            teller.add_unknown(format!("`{directory}` {why}"));
            return;
        }
        if is_directory("objects") && is_directory("refs") {
            let is_linked = |names: Vec<String>| names.iter().any(|name| name == ".git");
            if !teller.env.list_directory(directory).is_some_and(is_linked) {
                let why = "is a bare repository: plain files are its configuration";
                teller.add_unknown(format!("`{directory}` {why}"));
            }
            return;
        }
        match directory.rsplit_once('/') {
            Some((above, _)) => directory = above,
            None => return,
        }
    }
}

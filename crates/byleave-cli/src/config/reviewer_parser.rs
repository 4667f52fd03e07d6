//! Parses the tables `[[reviewer]]` of a settings file, with every key checked.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file_path::ConfigFile;
use super::key::KEYS;
use super::problems::Problems;
use super::reviewer::{ReviewStages, ReviewerKind, ReviewerSetting};
use super::suggestion::nearest;
use super::value::{SettingKind, SettingValue};

/// The name of the tables.
pub(super) const TABLE: &str = "reviewer";

const BEGIN: &str = "begin every reviewer with `[[reviewer]]`";
/// The keys of every reviewer.
const COMMON_KEYS: [&str; 4] = ["name", "kind", "tools", "on"];
const KINDS: &[&str] = &["program", "webhook", "secrets", "drop_fields", "strip"];
/// The maximum length of a name.
const NAME_CHARS_MAX: usize = 64;
/// The range of a time limit, in milliseconds.
const TIMEOUT: SettingKind = SettingKind::Span(1_000, 600_000);

/// Returns the keys of a reviewer of this kind, besides those of every reviewer.
fn own_keys(kind: &str) -> &'static [&'static str] {
    match kind {
        "program" => &["command", "timeout"],
        "webhook" => &["url", "secret_file", "timeout"],
        "drop_fields" => &["fields"],
        "strip" => &["argument", "remove"],
        _ => &[],
    }
}

/// Parses all reviewers of a file. `others` are those of the files before it.
pub(super) fn parse(
    file: &ConfigFile,
    value: &Spanned<DeValue<'_>>,
    others: &[ReviewerSetting],
    problems: &mut Problems<'_>,
) -> Vec<ReviewerSetting> {
    let Some(tables) = value.get_ref().as_array() else {
        problems.add(value.span(), "`reviewer` is not a list of tables", BEGIN);
        return Vec::new();
    };
    let mut all: Vec<ReviewerSetting> = Vec::new();
    for each in tables {
        let Some(table) = each.get_ref().as_table() else {
            problems.add(each.span(), "this reviewer is not a table", BEGIN);
            continue;
        };
        let mut reader = TableReader { table, header: each.span(), problems };
        let Some(reviewer) = reader.reviewer(file) else { continue };
        if let Some(other) = others.iter().chain(&all).find(|other| other.name == reviewer.name) {
            let what = format!("another reviewer has the name `{}`: {}", other.name, other.place());
            reader.flaw("name", what, "rename one of them");
        }
        all.push(reviewer);
    }
    all
}

struct TableReader<'a, 'i, 'p, 't> {
    table: &'a DeTable<'i>,
    header: Range<usize>,
    problems: &'p mut Problems<'t>,
}

impl TableReader<'_, '_, '_, '_> {
    /// Reads the reviewer. Returns `None` if it has an error.
    fn reviewer(&mut self, file: &ConfigFile) -> Option<ReviewerSetting> {
        let before = self.problems.count();
        let kind = self.text("kind", SettingKind::Choice(KINDS), "kind = \"drop_fields\"");
        self.check_keys(kind.as_deref());
        let name = self.name();
        let tools = self.tools();
        let kind = kind.and_then(|kind| self.kind(&kind));
        let line = self.problems.line(&self.header);
        let (layer, file) = (file.layer, file.path.clone());
        let reviewer = ReviewerSetting { name: name?, tools: tools?, kind: kind?, layer, file, line };
        (self.problems.count() == before).then_some(reviewer)
    }

    fn kind(&mut self, kind: &str) -> Option<ReviewerKind> {
        match kind {
            "program" => {
                let command = self.words("command", "command = [\"/usr/local/bin/review\"]");
                let (on, timeout) = (self.stages(kind), self.timeout());
                let command = command?;
                let (program, arguments) = command.split_first()?;
                let program = self.absolute("command", program);
                let arguments = arguments.to_vec();
                Some(ReviewerKind::Program { program: program?, arguments, on: on?, timeout })
            }
            "webhook" => {
                let url = self.url();
                let secret = self.text("secret_file", SettingKind::Text, "secret_file = \"/path/of/a/file\"");
                let (on, timeout) = (self.stages(kind), self.timeout());
                let secret_file = secret.and_then(|path| self.absolute("secret_file", &path));
                Some(ReviewerKind::Webhook { url: url?, secret_file: secret_file?, on: on?, timeout })
            }
            "secrets" => {
                self.stages(kind)?;
                Some(ReviewerKind::Secrets)
            }
            "drop_fields" => {
                let fields = self.words("fields", "fields = [\"password\", \"token\"]");
                self.stages(kind)?;
                Some(ReviewerKind::DropFields { fields: fields? })
            }
            "strip" => {
                let argument = self.argument();
                let remove = self.words("remove", "remove = [\";\", \"--\"]");
                self.stages(kind)?;
                Some(ReviewerKind::Strip { argument: argument?, remove: remove? })
            }
            _ => None,
        }
    }

    /// Reports keys that no reviewer has, or no reviewer of this kind.
    fn check_keys(&mut self, kind: Option<&str>) {
        let every = || COMMON_KEYS.into_iter().chain(KINDS.iter().flat_map(|kind| own_keys(kind)).copied());
        for (key, _) in self.table {
            let (name, span) = (key.get_ref().as_ref(), key.span());
            let valid = COMMON_KEYS.iter().chain(kind.map(own_keys).unwrap_or_default());
            let list = || valid.clone().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            if every().any(|known| known == name) {
                if let Some(kind) = kind.filter(|_| !valid.clone().any(|known| *known == name)) {
                    let what = format!("a reviewer of the kind `{kind}` has no key `{name}`");
                    self.problems.add(span, what, format!("remove it; the keys are {}", list()));
                }
                continue;
            }
            let todo = if KEYS.iter().any(|key| key.name == name) {
                format!("`{name}` is a setting: write it above the first `[[reviewer]]`")
            } else if let Some(near) = nearest(name, every()) {
                format!("did you mean `{near}`?")
            } else {
                format!("the keys are {}", list())
            };
            self.problems.add(span, format!("a reviewer has no key `{}`", name.escape_debug()), todo);
        }
    }

    fn name(&mut self) -> Option<String> {
        let name = self.text("name", SettingKind::Text, "name = \"no-tokens\"")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.len() > NAME_CHARS_MAX || !name.chars().all(plain) {
            let what = format!("`{}` cannot be the name of a reviewer", name.escape_debug());
            let todo = format!("use letters, digits, `-`, `_` and `.`, at most {NAME_CHARS_MAX} of them");
            self.flaw("name", what, todo);
            return None;
        }
        Some(name)
    }

    fn tools(&mut self) -> Option<Vec<String>> {
        let tools = self.words("tools", "tools = [\"web_fetch\"]`, or for all tools `tools = [\"*\"]")?;
        if let Some(bad) = tools.iter().find(|tool| tool.contains(char::is_whitespace)) {
            let what = format!("`{}` cannot be the name of a tool", bad.escape_debug());
            self.flaw("tools", what, "`byleave tools` lists the names; `*` matches any text");
            return None;
        }
        Some(tools)
    }

    fn argument(&mut self) -> Option<String> {
        let argument = self.text("argument", SettingKind::Text, "argument = \"query\"")?;
        if argument.starts_with('/') {
            let what = format!("`{}` is not the name of an argument", argument.escape_debug());
            self.flaw("argument", what, "write the name alone, as in `argument = \"query\"`");
            return None;
        }
        Some(argument)
    }

    fn url(&mut self) -> Option<String> {
        let url = self.text("url", SettingKind::Text, "url = \"https://reviews.example/byleave\"")?;
        if !url.starts_with("https://") && !url.starts_with("http://") {
            self.flaw("url", "this is not a URL", "begin with https://, or on this machine with http://");
            return None;
        }
        Some(url)
    }

    /// Returns what is reviewed. A kind that reviews only one thing needs no `on`.
    fn stages(&mut self, kind: &str) -> Option<ReviewStages> {
        let only = match kind {
            "strip" => Some(ReviewStages::Input),
            "secrets" | "drop_fields" => Some(ReviewStages::Output),
            _ => None,
        };
        if only.is_some() && self.value("on").is_none() {
            return only;
        }
        let words = SettingKind::Choice(&["input", "output", "both"]);
        let word = self.text("on", words, "on = \"input\"`, `\"output\"` or `\"both\"")?;
        let said = ReviewStages::WORDS.into_iter().find(|(known, _)| *known == word).map(|(_, said)| said);
        match only {
            Some(only) if said != Some(only) => {
                let only = only.as_str();
                self.flaw(
                    "on",
                    format!("a reviewer of the kind `{kind}` reviews the {only} only"),
                    format!("write `on = \"{only}\"`, or remove it"),
                );
                None
            }
            _ => said,
        }
    }

    fn timeout(&mut self) -> Option<Duration> {
        match self.parsed("timeout", TIMEOUT)? {
            SettingValue::Span(ms) => Some(Duration::from_millis(ms)),
            _ => None,
        }
    }

    fn absolute(&mut self, key: &str, path: &str) -> Option<PathBuf> {
        if Path::new(path).is_absolute() {
            return Some(PathBuf::from(path));
        }
        let what = format!("`{}` is not an absolute path", path.escape_debug());
        self.flaw(key, what, "begin the path with `/`, so that it does not depend on the directory");
        None
    }

    /// Returns a text that must be there and not be empty.
    fn text(&mut self, key: &str, kind: SettingKind, example: &str) -> Option<String> {
        match self.required(key, kind, example)? {
            SettingValue::Text(text) if text.is_empty() => {
                self.flaw(key, format!("`{key}` is empty"), format!("write `{example}`"));
                None
            }
            SettingValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a list that must be there and not be empty, and whose texts must not be empty.
    fn words(&mut self, key: &str, example: &str) -> Option<Vec<String>> {
        match self.required(key, SettingKind::Words(None), example)? {
            SettingValue::Words(words) if words.is_empty() || words.iter().any(String::is_empty) => {
                let what = format!("`{key}` is empty, or one of its texts is");
                self.flaw(key, what, format!("write `{example}`"));
                None
            }
            SettingValue::Words(words) => Some(words),
            _ => None,
        }
    }

    fn required(&mut self, key: &str, kind: SettingKind, example: &str) -> Option<SettingValue> {
        if self.value(key).is_none() {
            let what = format!("this reviewer has no `{key}`");
            self.problems.add(self.header.clone(), what, format!("add `{example}`"));
            return None;
        }
        self.parsed(key, kind)
    }

    /// Returns a value, if it is there and valid.
    fn parsed(&mut self, key: &str, kind: SettingKind) -> Option<SettingValue> {
        match SettingValue::from_toml(kind, self.value(key)?) {
            Ok(value) => Some(value),
            Err((what, todo)) => {
                self.flaw(key, format!("`{key}`: {what}"), todo);
                None
            }
        }
    }

    fn value(&self, key: &str) -> Option<&Spanned<DeValue<'_>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// Adds an error at the value of a key.
    fn flaw(&mut self, key: &str, what: impl Into<String>, todo: impl Into<String>) {
        let span = self.value(key).map_or_else(|| self.header.clone(), Spanned::span);
        self.problems.add(span, what, todo);
    }
}

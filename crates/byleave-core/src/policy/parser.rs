//! The parser of policy files: TOML, read by hand so that every key and every type is checked.
//!
//! It is pure: text in, rules out. A file with any error gives no rules at all. All errors are reported at once, each with its place and
//! what to do. Parsing must never loosen: anything that is not understood is an error.

mod expand;
mod key;
mod mcp;
mod run;

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::expand::{Expansion, VariableExpander};
pub use key::class_judged_by_effects;

use super::condition::RuleCondition;
use super::path_variables::PathVariables;
use super::profiles::Profile;
use super::rule::{Example, Layer, Rule, UNDOABLE};
use crate::decision::Verdict;
use crate::pattern::Pattern;

/// The text of a policy file.
#[derive(Clone, Copy, Debug)]
pub struct RuleFile<'a> {
    /// The name of the file in messages.
    pub name: &'a str,
    /// The layer.
    pub layer: Layer,
    /// The content.
    pub text: &'a str,
}

/// All errors of a policy file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyFileError {
    /// The file.
    pub file: String,
    /// The text, so that the places can be shown.
    pub text: String,
    /// The errors. Never empty.
    pub diagnostics: Vec<Diagnostic>,
}

/// One error in a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The position in bytes.
    pub span: Range<usize>,
    /// The line, from one.
    pub line: usize,
    /// The column in characters, from one.
    pub column: usize,
    /// The error.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use policy file `{}`", self.file)?;
        let mut separator = ": ";
        for Diagnostic { line, column, message: what, help: todo, .. } in &self.diagnostics {
            write!(f, "{separator}line {line}, column {column}: {what}; {todo}")?;
            separator = " — ";
        }
        Ok(())
    }
}

/// The parsed content of a file, with or without errors.
#[derive(Debug, Default)]
pub(super) struct ParsedRules {
    /// The valid rules.
    pub(super) rules: Vec<Rule>,
    /// The rules of the profile that the file names.
    profile_rules: Vec<Rule>,
    /// The errors.
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl ParsedRules {
    /// Adds an error.
    pub(super) fn add_diagnostic(
        &mut self,
        file: &RuleFile<'_>,
        span: Range<usize>,
        what: String,
        todo: &str,
    ) {
        self.diagnostics.push(diagnostic(file.text, span, what, todo.to_owned()));
    }

    /// Adds the rules of the profile, except those that the file has itself.
    fn add_profile_rules(&mut self) {
        for rule in std::mem::take(&mut self.profile_rules) {
            if !self.rules.iter().any(|own| own.id == rule.id) {
                self.rules.push(rule);
            }
        }
    }

    /// Returns the rules if the file has no errors.
    pub(super) fn finish(mut self, file: &RuleFile<'_>) -> Result<Vec<Rule>, PolicyFileError> {
        if self.diagnostics.is_empty() {
            return Ok(self.rules);
        }
        self.diagnostics.sort_by_key(|flaw| flaw.span.start);
        Err(PolicyFileError {
            file: file.name.to_owned(),
            text: file.text.to_owned(),
            diagnostics: self.diagnostics,
        })
    }
}

/// Parses a policy file without checking its examples.
pub(super) fn parse(file: &RuleFile<'_>, places: &PathVariables<'_>) -> ParsedRules {
    let mut reader = RuleFileReader { file, places, parsed: ParsedRules::default() };
    let (table, errors) = DeTable::parse_recoverable(file.text);
    if errors.is_empty() {
        reader.parse_file(table.get_ref());
        reader.parsed.add_profile_rules();
    }
    for error in errors {
        let todo = "fix the TOML syntax: https://toml.io".to_owned();
        reader.add_diagnostic(
            error.span().unwrap_or_default(),
            error.message().trim().replace('\n', ", "),
            todo,
        );
    }
    reader.parsed
}

type TomlValue<'i> = Spanned<DeValue<'i>>;

struct RuleFileReader<'a> {
    file: &'a RuleFile<'a>,
    places: &'a PathVariables<'a>,
    parsed: ParsedRules,
}

/// A function that makes a pattern of one kind from a text.
type PatternConstructor = fn(String) -> Pattern;

/// The kinds of effects for each key of a rule.
const KINDS: &[(&str, &[PatternConstructor])] = &[
    ("read", &[Pattern::Read]),
    ("write", &[Pattern::Write]),
    ("delete", &[Pattern::Delete]),
    ("touch", &[Pattern::Read, Pattern::Write, Pattern::Delete]),
    ("reach", &[Pattern::Reach]),
    ("send", &[Pattern::Send]),
    ("invoke", &[Pattern::Invoke]),
    ("tool", &[Pattern::Invoke]),
];

impl RuleFileReader<'_> {
    fn parse_file(&mut self, table: &DeTable<'_>) {
        let mut seen: Vec<(String, usize)> = Vec::new();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "rule" => {}
                "defaults" => {
                    self.parse_defaults(value);
                    continue;
                }
                "profile" => {
                    self.parse_profile(value);
                    continue;
                }
                _ => {
                    self.unknown_key(key, "a policy file", &["rule", "defaults", "profile"]);
                    continue;
                }
            }
            let Some(rules) = value.get_ref().as_array() else {
                self.add_diagnostic(
                    key.span(),
                    "`rule` is not a list of tables",
                    "begin every rule with `[[rule]]`",
                );
                continue;
            };
            for rule in rules {
                self.parse_rule(rule, &mut seen);
            }
        }
    }

    /// Reads `profile`, and adds the rules of the profile. The file's own `[defaults]` replace those of the profile.
    fn parse_profile(&mut self, value: &TomlValue<'_>) {
        let Some(name) = value.get_ref().as_str() else {
            self.wrong_type(value, "a text", "write `profile = \"everyday\"`");
            return;
        };
        let Some(profile) = Profile::find(name) else {
            let names: Vec<String> = Profile::ALL.iter().map(|known| format!("`{}`", known.name)).collect();
            let what = format!("there is no profile `{name}`");
            self.add_diagnostic(value.span(), what, format!("choose one of {}", names.join(", ")));
            return;
        };
        if self.file.layer == Layer::Project && !profile.only_tightens() {
            let what = format!("a project may only tighten, and the profile `{name}` allows");
            self.add_diagnostic(value.span(), what, "name the profile in your own policy file");
            return;
        }
        let file = RuleFile { name: &format!("profile {name}"), layer: self.file.layer, text: profile.toml };
        let parsed = parse(&file, self.places);
        if let Some(flaw) = parsed.diagnostics.first() {
            let what = format!("the profile `{name}` is broken: {}", flaw.message);
            self.add_diagnostic(value.span(), what, "this is a bug in Byleave");
        }
        self.parsed.profile_rules.extend(parsed.rules);
    }

    /// Reads `[defaults]`: what happens where no rule matches.
    fn parse_defaults(&mut self, value: &TomlValue<'_>) {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, "a table", "write `[defaults]`");
            return;
        };
        for (key, value) in table {
            if key.get_ref() != UNDOABLE {
                self.unknown_key(key, "`[defaults]`", &[UNDOABLE]);
                continue;
            }
            let verdict = match value.get_ref().as_str() {
                Some("allow") => Verdict::Allow,
                Some("ask") => Verdict::Ask,
                _ => {
                    let what = "`undoable` is neither `allow` nor `ask`";
                    self.add_diagnostic(value.span(), what, "write `undoable = \"allow\"` or `\"ask\"`");
                    continue;
                }
            };
            let mut rule = Rule::for_undoable_work(self.file.layer, verdict);
            let line = line_and_column(self.file.text, value.span().start).0;
            if self.file.layer != Layer::Builtin {
                rule.origin = Some(format!("{}:{line}", self.file.name));
            }
            match rule.check() {
                Ok(()) => self.parsed.rules.push(rule),
                Err(_) => self.add_diagnostic(
                    value.span(),
                    "a project may only tighten, so it cannot allow undoable work",
                    "move `undoable = \"allow\"` to your own policy file",
                ),
            }
        }
    }

    fn parse_rule(&mut self, value: &TomlValue<'_>, seen: &mut Vec<(String, usize)>) {
        let Some(table) = value.get_ref().as_table() else {
            self.add_diagnostic(value.span(), "this rule is not a table", "begin every rule with `[[rule]]`");
            return;
        };
        let flaws = self.parsed.diagnostics.len();
        let line = line_and_column(self.file.text, value.span().start).0;
        let mut rule = Rule::new(format!("line-{line}"), self.file.layer, Verdict::Ask, Vec::new());
        if self.file.layer != Layer::Builtin {
            rule.origin = Some(format!("{}:{line}", self.file.name));
        }
        let mut verdict = None;
        let mut whole_server = false;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "id" => rule.id = self.parse_id(value).unwrap_or_default(),
                "verdict" => verdict = self.parse_verdict(value),
                "run" => self.parse_runs(value, &mut rule.patterns),
                "except" => {}
                "when" => rule.when = self.parse_when(value),
                "reason" => rule.reason = self.parse_text(value).unwrap_or_default(),
                "firm" => rule.firm = self.parse_flag(value).unwrap_or_default(),
                "dangerous" => rule.dangerous = self.parse_flag(value).unwrap_or_default(),
                "checkpoint" => rule.checkpoint = self.parse_flag(value).unwrap_or_default(),
                "remember" => rule.remember = self.parse_flag(value).unwrap_or_default(),
                "challenge" => rule.challenge = self.parse_flag(value).unwrap_or_default(),
                "private" => rule.private = self.parse_flag(value).unwrap_or_default(),
                "lend" => rule.lends_git = self.parse_lend(value),
                "guarantees" => rule.guarantees = self.parse_plain_texts(value),
                "delegate" => rule.delegate = self.parse_glob(value),
                "matches" => rule.matching_examples = self.parse_examples(value, table),
                "not_matches" => rule.non_matching_examples = self.parse_examples(value, table),
                "mcp" => {
                    whole_server = mcp::names_whole_server(value);
                    self.parse_servers(value, &mut rule.patterns);
                }
                kind => match KINDS.iter().find(|(name, _)| *name == kind) {
                    Some((_, kinds)) => self.parse_patterns(value, kinds, &mut rule.patterns),
                    None => self.unknown_key(key, "a rule", key::RULE_KEYS),
                },
            }
        }
        if !table.iter().any(|(key, _)| key.get_ref() == "verdict") {
            self.add_diagnostic(
                header_span(value),
                "this rule has no verdict",
                "add `verdict = \"deny\"`, `\"ask\"` or `\"allow\"`",
            );
        }
        rule.verdict = verdict.unwrap_or(Verdict::Deny);
        if whole_server && rule.verdict == Verdict::Allow {
            self.restrict_to_read_only(value, table, &mut rule);
        }
        if let Some(except) = table.iter().find(|(key, _)| key.get_ref() == "except").map(|(_, value)| value)
        {
            self.parse_except(except, &mut rule);
        }
        if self.parsed.diagnostics.len() > flaws {
            return;
        }
        // Built-in patterns in unknown directories are left out, and so is a rule without any other pattern.
        if self.file.layer == Layer::Builtin && rule.patterns.is_empty() {
            return;
        }
        if let Err(fault) = rule.check() {
            let told = fault.to_string();
            let (what, todo) = told.rsplit_once("; ").unwrap_or((&told, "change the rule"));
            self.add_diagnostic(header_span(value), format!("rule `{}`: {what}", rule.id), todo);
            return;
        }
        match seen.iter().find(|(id, _)| *id == rule.id) {
            Some((id, other)) => {
                let what = format!("another rule has the id `{id}`: the one on line {other}");
                self.add_diagnostic(header_span(value), what, "rename one of them");
            }
            None => seen.push((rule.id.clone(), line)),
        }
        self.parsed.rules.push(rule);
    }

    /// Reads `lend`: what the gate itself opens outside for a call.
    fn parse_lend(&mut self, value: &TomlValue<'_>) -> bool {
        let texts = self.parse_texts(value);
        for (text, span) in texts.iter().filter(|(text, _)| text != "git") {
            let what = format!("`{}` cannot be lent", text.escape_debug());
            self.add_diagnostic(span.clone(), what, "write `lend = [\"git\"]`");
        }
        !texts.is_empty()
    }

    /// Limits an allow for a whole server to reads. Tools that the server offers later are not included, and tools that change something
    /// must be named.
    fn restrict_to_read_only(&mut self, value: &TomlValue<'_>, table: &DeTable<'_>, rule: &mut Rule) {
        let others = table
            .iter()
            .any(|(key, _)| key.get_ref() != "mcp" && key::EXCEPT_KEYS.contains(&key.get_ref().as_ref()));
        if others || rule.when.read_only == Some(false) {
            self.add_diagnostic(
                header_span(value),
                "an allow for a whole server covers only read-only tools, so the rule can have no other patterns",
                "name the tools, as in `mcp = \"server/tool\"`, or move it to its own rule",
            );
            return;
        }
        rule.when.read_only = Some(true);
    }

    fn parse_patterns(&mut self, value: &TomlValue<'_>, kinds: &[PatternConstructor], to: &mut Vec<Pattern>) {
        for (text, span) in self.parse_texts(value) {
            for expanded in self.expand_text(&text, &span, kinds) {
                to.extend(kinds.iter().map(|kind| kind(expanded.clone())));
            }
        }
    }

    /// Expands one text of a pattern and checks the results. Variables are replaced, and a directory includes everything in it.
    fn expand_text(&mut self, text: &str, span: &Range<usize>, kinds: &[PatternConstructor]) -> Vec<String> {
        let Some(kind) = kinds.first().map(|kind| kind(text.to_owned())) else { return Vec::new() };
        let is_path = matches!(kind, Pattern::Read(_) | Pattern::Write(_) | Pattern::Delete(_));
        let expander = VariableExpander { places: self.places, built_in: self.file.layer == Layer::Builtin };
        let expanded =
            if is_path { expander.expand_path(text) } else { Expansion::Texts(vec![text.to_owned()]) };
        let texts = match expanded {
            Expansion::Texts(texts) => texts,
            Expansion::UnknownDirectory => return Vec::new(),
            Expansion::Invalid(what, todo) => {
                self.add_diagnostic(span.clone(), what, todo);
                return Vec::new();
            }
        };
        for text in &texts {
            let pattern = kinds.first().map(|kind| kind(text.clone()));
            if let Some((what, todo)) = pattern.as_ref().and_then(key::pattern_problem) {
                self.add_diagnostic(span.clone(), what, todo);
                return Vec::new();
            }
        }
        texts
    }

    /// Reads exceptions: for every kind of effect of the rule, or by kind.
    fn parse_except(&mut self, value: &TomlValue<'_>, rule: &mut Rule) {
        if let Some(table) = value.get_ref().as_table() {
            for (key, value) in table {
                match KINDS.iter().find(|(name, _)| *name == key.get_ref().as_ref()) {
                    Some((_, kinds)) => self.parse_patterns(value, kinds, &mut rule.except),
                    None if key.get_ref() == "run" => self.parse_runs(value, &mut rule.except),
                    None if key.get_ref() == "mcp" => self.parse_servers(value, &mut rule.except),
                    None => self.unknown_key(key, "`except`", key::EXCEPT_KEYS),
                }
            }
            return;
        }
        let about = |kind: fn(String) -> Pattern| {
            let kind = kind(String::new()).kind();
            rule.patterns.iter().any(|pattern| pattern.kind() == kind)
        };
        let all = [Pattern::Read as PatternConstructor, Pattern::Write, Pattern::Delete];
        let paths: Vec<_> = all.into_iter().filter(|kind| about(*kind)).collect();
        let rest = [Pattern::Reach as PatternConstructor, Pattern::Send, Pattern::Invoke];
        let rest: Vec<_> = rest.into_iter().filter(|kind| about(*kind)).collect();
        let run = rule.patterns.iter().any(|pattern| pattern.kind() == "run");
        match (run, rest.as_slice(), paths.is_empty()) {
            (true, [], true) => self.parse_runs(value, &mut rule.except),
            (false, [_], true) if rule.patterns.iter().all(is_mcp_pattern) => {
                self.parse_servers(value, &mut rule.except);
            }
            (false, [only], true) => self.parse_patterns(value, &[*only], &mut rule.except),
            (false, [], false) => self.parse_patterns(value, &paths, &mut rule.except),
            (false, [], true) => {}
            _ => self.add_diagnostic(
                value.span(),
                "the rule matches several kinds of effects, so an exception must name its kind",
                "write `except = { run = [..], read = [..] }`",
            ),
        }
    }

    fn parse_when(&mut self, value: &TomlValue<'_>) -> RuleCondition {
        let mut when = RuleCondition::default();
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, "a table", "write `when = { class = \"bash\" }`");
            return when;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "read_only" => when.read_only = self.parse_flag(value),
                "read_foreign" => when.read_foreign = self.parse_flag(value),
                "sensitive" => when.sensitive = self.parse_flag(value),
                "class" => {
                    for (text, span) in self.parse_texts(value) {
                        match key::parse_class(&text) {
                            Some(class) => when.class.push(class),
                            None => self.add_diagnostic(
                                span,
                                format!("there is no class `{text}`"),
                                key::CLASS_HELP,
                            ),
                        }
                    }
                }
                "mode" => {
                    let text = self.parse_text(value).unwrap_or_default();
                    when.mode = key::parse_mode(&text);
                    if when.mode.is_none() {
                        self.add_diagnostic(
                            value.span(),
                            format!("there is no mode `{text}`"),
                            key::MODE_HELP,
                        );
                    }
                }
                "server" => when.server = self.parse_glob(value),
                "session" => when.session = self.parse_glob(value),
                "agent" => when.agent = self.parse_glob(value),
                _ => self.unknown_key(key, "`when`", key::WHEN_KEYS),
            }
        }
        when
    }

    fn parse_examples(&mut self, value: &TomlValue<'_>, table: &DeTable<'_>) -> Vec<Example> {
        let has = |names: &[&str]| table.iter().any(|(key, _)| names.contains(&key.get_ref().as_ref()));
        let only_paths = has(&["read", "write", "delete", "touch"])
            && !has(&["run", "reach", "send", "invoke", "mcp", "tool"]);
        let expander = VariableExpander { places: self.places, built_in: self.file.layer == Layer::Builtin };
        let texts = self.parse_texts(value).into_iter();
        texts
            .filter_map(|(text, at)| {
                let text = expander.expand_example(&text, only_paths)?;
                Some(Example { text, span: at })
            })
            .collect()
    }

    fn parse_id(&mut self, value: &TomlValue<'_>) -> Option<String> {
        let id = self.parse_text(value)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
        if id.is_empty() || id.len() > 100 || !id.chars().all(plain) {
            let todo = "use letters, digits, `-`, `_`, `.`, `/` and `:`, at most 100 of them";
            self.add_diagnostic(value.span(), format!("`{}` cannot be an id", id.escape_debug()), todo);
        }
        Some(id)
    }

    fn parse_verdict(&mut self, value: &TomlValue<'_>) -> Option<Verdict> {
        let verdict = match self.parse_text(value)?.as_str() {
            "allow" => Verdict::Allow,
            "ask" => Verdict::Ask,
            "deny" => Verdict::Deny,
            other => {
                let what = format!("there is no verdict `{}`", other.escape_debug());
                self.add_diagnostic(value.span(), what, "write `allow`, `ask` or `deny`");
                return None;
            }
        };
        if verdict == Verdict::Allow && self.file.layer == Layer::Project {
            let todo = "move the rule to your own policy file, or make it `ask` or `deny`";
            self.add_diagnostic(
                value.span(),
                "a project file may not allow: it can only tighten the policy",
                todo,
            );
        }
        Some(verdict)
    }

    fn parse_glob(&mut self, value: &TomlValue<'_>) -> Option<String> {
        let text = self.parse_text(value)?;
        if let Err(bad) = Pattern::Invoke(text.clone()).check() {
            self.add_diagnostic(value.span(), bad.to_string(), "write a glob: `*` matches any text");
        }
        Some(text)
    }

    fn parse_text(&mut self, value: &TomlValue<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(value, "a string", "put it in quotes");
        }
        text
    }

    fn parse_flag(&mut self, value: &TomlValue<'_>) -> Option<bool> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(value, "a boolean", "write `true` or `false`, without quotes");
        }
        flag
    }

    fn parse_plain_texts(&mut self, value: &TomlValue<'_>) -> Vec<String> {
        self.parse_texts(value).into_iter().map(|(text, _)| text).collect()
    }

    /// Reads a text or a list of texts. An empty list is an error, because it says nothing.
    fn parse_texts(&mut self, value: &TomlValue<'_>) -> Vec<(String, Range<usize>)> {
        let Some(items) = value.get_ref().as_array() else {
            return self.parse_text(value).map(|text| (text, value.span())).into_iter().collect();
        };
        if items.is_empty() {
            self.add_diagnostic(value.span(), "the list is empty", "add an item, or remove the key");
        }
        let mut texts = Vec::new();
        for item in items {
            texts.extend(self.parse_text(item).map(|text| (text, item.span())));
        }
        texts
    }

    fn wrong_type(&mut self, value: &TomlValue<'_>, wanted: &str, todo: &str) {
        self.add_diagnostic(
            value.span(),
            format!("this is {}, not {wanted}", key::value_kind(value.get_ref())),
            todo,
        );
    }

    fn unknown_key(&mut self, key: &Spanned<std::borrow::Cow<'_, str>>, place: &str, known: &[&str]) {
        let what = format!("{place} has no key `{}`", key.get_ref().escape_debug());
        let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        self.add_diagnostic(key.span(), what, format!("the valid keys are {}", known.join(", ")));
    }

    fn add_diagnostic(&mut self, span: Range<usize>, what: impl Into<String>, todo: impl Into<String>) {
        self.parsed.diagnostics.push(diagnostic(self.file.text, span, what.into(), todo.into()));
    }
}

fn diagnostic(text: &str, span: Range<usize>, what: String, todo: String) -> Diagnostic {
    let (line, column) = line_and_column(text, span.start);
    Diagnostic { span, line, column, message: what, help: todo }
}

fn is_mcp_pattern(pattern: &Pattern) -> bool {
    matches!(pattern, Pattern::Invoke(tool) if tool.starts_with("mcp:"))
}

/// Returns the position of a rule's `[[rule]]` line, without the rest.
fn header_span(value: &TomlValue<'_>) -> Range<usize> {
    let span = value.span();
    span.start..span.end.min(span.start.saturating_add("[[rule]]".len()))
}

/// Returns line and column, from one.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count());
    (line, column.saturating_add(1))
}

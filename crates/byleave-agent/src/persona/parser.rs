//! Parses a persona from TOML, by hand, so that every key and every type is checked.
//!
//! The parser is pure. A file with any error gives no persona. All errors are reported at once, each with its position and what was
//! expected. A person must be able to see everything that a model gets, so invisible characters are errors.

use std::fmt;
use std::ops::Range;

use byleave_core::escape::is_printable;
use byleave_core::policy::Diagnostic;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ModelName, Persona};

const NAME_CHARS_MAX: usize = 64;
const DESCRIPTION_CHARS_MAX: usize = 300;
const MODEL_CHARS_MAX: usize = 200;
const TOOLS_MAX: usize = 256;
const TOOL_CHARS_MAX: usize = 128;
const GUIDELINES_MAX: usize = 64;
const GUIDELINE_CHARS_MAX: usize = 1_000;
const PROMPT_CHARS_MAX: usize = 32_768;

const KEYS: &str = "`name`, `description`, `model`, `hosted`, `tools`, `guidelines` and `prompt`";

/// All errors of a text that is not a valid persona.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PersonaParseError {
    /// The name of the text.
    pub file: String,
    /// The text, to show the positions.
    pub text: String,
    /// The errors; never empty.
    pub errors: Vec<Diagnostic>,
}

impl fmt::Display for PersonaParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use persona `{}`", self.file.escape_debug())?;
        let mut separator = ": ";
        for Diagnostic { line, column, message: what, help: todo, .. } in &self.errors {
            write!(f, "{separator}line {line}, column {column}: {what}; {todo}")?;
            separator = " — ";
        }
        Ok(())
    }
}

impl Persona {
    /// Parses a persona. Error messages use `file` as the name of the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, PersonaParseError> {
        let mut reader = PersonaParser { text, flaws: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let what = error.message().trim().replace('\n', ", ");
            reader.flaw(error.span().unwrap_or_default(), what, "write valid TOML: https://toml.io");
        }
        let persona = if errors.is_empty() { reader.persona(table.get_ref()) } else { None };
        match persona {
            Some(persona) if reader.flaws.is_empty() => Ok(persona),
            _ => {
                reader.flaws.sort_by_key(|flaw| flaw.span.start);
                Err(PersonaParseError { file: file.to_owned(), text: text.to_owned(), errors: reader.flaws })
            }
        }
    }
}

type PersonaTomlValue<'i> = Spanned<DeValue<'i>>;

struct PersonaParser<'a> {
    text: &'a str,
    flaws: Vec<Diagnostic>,
}

impl PersonaParser<'_> {
    /// Returns the persona, or `None` if an error was noted for a missing part.
    fn persona(&mut self, table: &DeTable<'_>) -> Option<Persona> {
        let (mut name, mut description, mut model, mut hosted, mut tools) = (None, None, None, None, None);
        let (mut guidelines, mut prompt) = (Vec::new(), String::new());
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "name" => name = self.line(value, NAME_CHARS_MAX),
                "description" => description = self.line(value, DESCRIPTION_CHARS_MAX),
                "model" => model = self.model(value, "model", "anthropic/claude-sonnet-4-5"),
                "hosted" => hosted = self.model(value, "hosted persona", "openai/asst-7f3a"),
                "tools" => tools = Some(self.list(value, TOOLS_MAX, Self::tool)),
                "guidelines" => {
                    guidelines = self
                        .list(value, GUIDELINES_MAX, |reader, entry| reader.line(entry, GUIDELINE_CHARS_MAX));
                }
                "prompt" => prompt = self.prose(value).unwrap_or_default(),
                other => {
                    let what = format!("unknown field `{}`", other.escape_debug());
                    self.flaw(key.span(), what, &format!("the fields of a persona are {KEYS}"));
                }
            }
        }
        for needed in ["name", "description"] {
            if !table.iter().any(|(key, _)| key.get_ref() == needed) {
                let todo = format!("add `{needed} = \"…\"`");
                self.flaw(0..0, format!("the persona has no `{needed}`"), &todo);
            }
        }
        let at = table.iter().find(|(key, _)| key.get_ref() == "hosted").map(|(key, _)| key.span());
        if let Some(at) = at.filter(|_| model.is_some()) {
            let what = "the persona has a `model` and is `hosted`".to_owned();
            self.flaw(at, what, "remove one of them: the provider runs a hosted persona with its own model");
        }
        Some(Persona { name: name?, description: description?, model, hosted, tools, guidelines, prompt })
    }

    /// Parses a provider and a name there.
    fn model(&mut self, value: &PersonaTomlValue<'_>, kind: &str, example: &str) -> Option<ModelName> {
        let text = self.line(value, MODEL_CHARS_MAX)?;
        let model = ModelName::parse(&text);
        if model.is_none() {
            let what = format!("`{}` is not a {kind}", text.escape_debug());
            self.flaw(value.span(), what, &format!("write provider and name, like `{example}`"));
        }
        model
    }

    fn tool(&mut self, value: &PersonaTomlValue<'_>) -> Option<String> {
        let tool = self.line(value, TOOL_CHARS_MAX)?;
        let name = tool.strip_suffix('*').unwrap_or(&tool);
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:/".contains(c)) {
            let what = format!("`{}` is not a tool name", tool.escape_debug());
            self.flaw(
                value.span(),
                what,
                "write the name of a tool, or the beginning of names followed by `*`",
            );
        }
        Some(tool)
    }

    /// Parses a list with one call of `read` for each entry.
    fn list(
        &mut self,
        value: &PersonaTomlValue<'_>,
        count_max: usize,
        read: impl Fn(&mut Self, &PersonaTomlValue<'_>) -> Option<String>,
    ) -> Vec<String> {
        let Some(list) = value.get_ref().as_array() else {
            self.flaw(value.span(), "this is not a list".to_owned(), "write it as [\"…\", \"…\"]");
            return Vec::new();
        };
        if list.len() > count_max {
            let what = format!("the list has {} entries", list.len());
            self.flaw(value.span(), what, &format!("at most {count_max} are allowed"));
            return Vec::new();
        }
        list.iter().filter_map(|entry| read(self, entry)).collect()
    }

    /// Parses a text on one line that is not blank.
    fn line(&mut self, value: &PersonaTomlValue<'_>, chars_max: usize) -> Option<String> {
        let text = self.text(value, chars_max, "")?;
        if text.trim().is_empty() {
            self.flaw(value.span(), "this text is empty".to_owned(), "write something, or leave it out");
            return None;
        }
        Some(text.trim().to_owned())
    }

    /// Parses a text of several lines and normalizes its line ends.
    fn prose(&mut self, value: &PersonaTomlValue<'_>) -> Option<String> {
        let text = self.text(value, PROMPT_CHARS_MAX, "\n\r\t")?.replace("\r\n", "\n");
        Some(text.trim().to_owned())
    }

    /// Parses a text in which all characters are visible, except those in `unseen`.
    fn text(&mut self, value: &PersonaTomlValue<'_>, chars_max: usize, unseen: &str) -> Option<String> {
        let Some(text) = value.get_ref().as_str() else {
            self.flaw(value.span(), "this is not a text".to_owned(), "write it in quotes");
            return None;
        };
        let chars = text.chars().count();
        if chars > chars_max {
            let what = format!("this text has {chars} characters");
            self.flaw(value.span(), what, &format!("at most {chars_max} are allowed"));
            return None;
        }
        if let Some(hidden) = text.chars().find(|c| !is_printable(*c) && !unseen.contains(*c)) {
            let what = format!("the text has an invisible character, U+{:04X}", u32::from(hidden));
            let todo = if unseen.is_empty() { "write visible characters, on one line" } else { "remove it" };
            self.flaw(value.span(), what, todo);
            return None;
        }
        Some(text.to_owned())
    }

    fn flaw(&mut self, span: Range<usize>, what: String, todo: &str) {
        let (line, column) = place(self.text, span.start);
        self.flaws.push(Diagnostic { span, line, column, message: what, help: todo.to_owned() });
    }
}

/// Returns line and column, both from one.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count().saturating_add(1);
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count());
    (line, column.saturating_add(1))
}

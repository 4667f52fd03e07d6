//! Options as manuals describe them, and the parsing of words by them.

use std::collections::HashMap;

use super::{Manual, OptionStyle, WordRole};
use crate::word::Word;

/// One option with all its names.
#[derive(Debug)]
pub(crate) struct OptionSpec {
    pub(crate) names: Vec<String>,
    pub(crate) value: OptionValue,
    /// The role of its second word, if it takes two.
    pub(crate) second_role: Option<WordRole>,
    /// Whether it replaces the first operand.
    pub(crate) gives_first_operand: bool,
    /// The role that it gives to every operand.
    pub(crate) operands: Option<WordRole>,
    /// The role that it gives to the current directory without operands.
    pub(crate) cwd_role: Option<WordRole>,
    /// The role of names that it reads from its file, or from the input.
    pub(crate) names_role: Option<WordRole>,
    /// Whether its value is the directory that the program then runs in.
    pub(crate) changes_directory: bool,
    /// Whether it makes the program follow links beneath its operands.
    pub(crate) follows_links: bool,
    /// Whether it makes the program run others in other directories, such as those of all packages.
    pub(crate) runs_elsewhere: bool,
    /// Whether it makes the program write files into the current directory.
    pub(crate) writes: bool,
    /// Whether with it something is sent to each host that the program reaches.
    pub(crate) sends: bool,
    /// Whether everything after it is an operand.
    pub(crate) ends_options: bool,
    /// Whether rules name it. Then it is reported under all its names, directly after the program.
    pub(crate) is_leading: bool,
    /// Whether it changes nothing that rules are about, so that it may be left out of the words.
    pub(crate) may_omit: bool,
    /// The reason why its effect is unknown.
    pub(crate) reason: Option<String>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionValue {
    /// No value.
    None,
    /// A value in the same word or the next.
    Required(WordRole),
    /// A value only in the same word.
    Optional(WordRole),
}

/// The options of a manual.
#[derive(Debug, Default)]
pub(crate) struct OptionTable {
    list: Vec<OptionSpec>,
    index: HashMap<String, usize>,
}

/// The parsed words of a command.
#[derive(Debug, Default)]
pub(crate) struct ParsedOptions<'m> {
    /// The options, each with its value.
    pub(crate) options: Vec<(&'m OptionSpec, Option<Word>)>,
    /// The operands. Those after `--` are certainly operands.
    pub(crate) operands: Vec<Operand>,
    /// The second words of options that take two.
    pub(crate) second_words: Vec<(WordRole, Word)>,
    /// The options that the manual does not know: the reason, and the word.
    pub(crate) unknown: Vec<(String, Word)>,
    /// The words without those options that may be left out.
    pub(crate) reported_words: Vec<Word>,
}

/// A word that is not an option.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) word: Word,
    /// Its index among the words.
    pub(crate) at: usize,
    /// Whether it came after `--`.
    pub(crate) certain: bool,
}

impl ParsedOptions<'_> {
    /// Checks whether one of these options was given, under any of its names.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.word_values(names).next().is_some()
    }

    /// Returns the known values of these options.
    pub(crate) fn values(&self, names: &[&str]) -> Vec<&str> {
        self.word_values(names).filter_map(|value| value?.as_text()).collect()
    }

    /// Returns all values, one for each time that an option was given. `None` means that it had no value.
    pub(crate) fn word_values(&self, names: &[&str]) -> impl Iterator<Item = Option<&Word>> {
        let is_one = move |opt: &OptionSpec| opt.names.iter().any(|own| names.contains(&own.as_str()));
        self.options.iter().filter(move |(opt, _)| is_one(opt)).map(|(_, value)| value.as_ref())
    }
}

impl OptionTable {
    /// Parses the lines of a manual: names, then `=role` or `?role`, then marks.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self::default();
        for line in text.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (line, why) = match line.split_once(" ! ") {
                Some((line, why)) => (line, Some(why.trim().to_owned())),
                None => (line, None),
            };
            let opt = OptionSpec::parse(line, why)?;
            let at = options.list.len();
            for name in &opt.names {
                if options.index.insert(name.clone(), at).is_some() {
                    return Err(format!("option `{name}` is listed twice"));
                }
            }
            options.list.push(opt);
        }
        Ok(options)
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[OptionSpec] {
        &self.list
    }

    /// Returns the option of exactly this name.
    pub(crate) fn get(&self, name: &str) -> Option<&OptionSpec> {
        self.index.get(name).and_then(|at| self.list.get(*at))
    }

    /// Returns every option with a name that begins with this text.
    fn with_prefix(&self, name: &str) -> Vec<&OptionSpec> {
        self.list.iter().filter(|opt| opt.names.iter().any(|own| own.starts_with(name))).collect()
    }
}

impl OptionSpec {
    fn parse(line: &str, why: Option<String>) -> Result<Self, String> {
        let mut opt = Self {
            names: Vec::new(),
            value: OptionValue::None,
            second_role: None,
            gives_first_operand: false,
            operands: None,
            cwd_role: None,
            names_role: None,
            changes_directory: false,
            follows_links: false,
            runs_elsewhere: false,
            writes: false,
            sends: false,
            ends_options: false,
            is_leading: false,
            may_omit: false,
            reason: why,
        };
        let role =
            |name: &str| WordRole::from_name(name).ok_or_else(|| format!("no role `{name}` in `{line}`"));
        for token in line.split_whitespace() {
            if token.starts_with('-') {
                opt.names.push(token.to_owned());
            } else if let (Some(name), OptionValue::Required(_)) = (token.strip_prefix('='), opt.value) {
                opt.second_role = Some(role(name)?);
            } else if let Some(name) = token.strip_prefix('=') {
                opt.value = OptionValue::Required(role(name)?);
            } else if let Some(name) = token.strip_prefix('?') {
                opt.value = OptionValue::Optional(role(name)?);
            } else if let Some(name) = token.strip_prefix("@operands=") {
                opt.operands = Some(role(name)?);
            } else if let Some(name) = token.strip_prefix("@names=") {
                opt.names_role = Some(role(name)?);
            } else if let Some(name) = token.strip_prefix("@here=") {
                opt.cwd_role = Some(role(name)?);
            } else {
                match token {
                    "@shift" => opt.gives_first_operand = true,
                    "@cd" => opt.changes_directory = true,
                    "@follows" => opt.follows_links = true,
                    "@elsewhere" => opt.runs_elsewhere = true,
                    "@writes" => opt.writes = true,
                    "@sends" => opt.sends = true,
                    "@stop" => opt.ends_options = true,
                    "@front" => opt.is_leading = true,
                    "@plain" => opt.may_omit = true,
                    _ => return Err(format!("cannot read `{token}` in `{line}`")),
                }
            }
        }
        if opt.names.is_empty() { Err(format!("no option in `{line}`")) } else { Ok(opt) }
    }
}

impl Manual {
    /// Parses words. With `until_operand`, everything from the first operand on is an operand, as before a sub-command.
    pub(crate) fn parse_args(&self, words: &[Word], until_operand: bool) -> ParsedOptions<'_> {
        let mut parsed = ParsedOptions::default();
        let mut only_operands = false;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let here = at;
            at = at.saturating_add(1);
            let text = match word.as_text() {
                Some(text) if !only_operands && self.style != OptionStyle::None && is_option(text) => text,
                _ => {
                    parsed.reported_words.push(word.clone());
                    parsed.operands.push(Operand { word: word.clone(), at: here, certain: only_operands });
                    if self.style == OptionStyle::Posix || until_operand {
                        only_operands = true;
                    }
                    if until_operand {
                        break;
                    }
                    continue;
                }
            };
            if text == "--" {
                parsed.reported_words.push(word.clone());
                only_operands = true;
                continue;
            }
            let before = parsed.options.len();
            let strange = parsed.unknown.len();
            let taken = if self.style == OptionStyle::Single || text.starts_with("--") {
                self.parse_long(text, words.get(at), &mut parsed)
            } else {
                self.parse_cluster(text, words.get(at), &mut parsed)
            };
            let plain = parsed.unknown.len() == strange
                && parsed
                    .options
                    .get(before..)
                    .is_some_and(|new| !new.is_empty() && new.iter().all(|(opt, _)| opt.may_omit));
            if !plain {
                parsed.reported_words.push(word.clone());
            }
            if parsed.options.get(before..).is_some_and(|new| new.iter().any(|(opt, _)| opt.ends_options)) {
                only_operands = true;
            }
            if !taken {
                continue;
            }
            self.parse_value_as_option(words.get(at), &mut parsed);
            let second = parsed.options.last().and_then(|(opt, _)| opt.second_role);
            if let (Some(role), Some(word)) = (second, words.get(at.saturating_add(1))) {
                parsed.second_words.push((role, word.clone()));
            }
            let count = if second.is_some() { 2 } else { 1 };
            if !plain {
                parsed.reported_words.extend(words.iter().skip(at).take(count).cloned());
            }
            at = at.saturating_add(count);
        }
        parsed
    }

    /// Parses a value that looks like a long option, too. Some programs take no value there, and then it is one.
    fn parse_value_as_option<'m>(&'m self, value: Option<&Word>, parsed: &mut ParsedOptions<'m>) {
        let Some(text) = value.and_then(Word::as_text).filter(|text| text.starts_with("--")) else { return };
        let (name, glued) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Word::literal(value))),
            None => (text, None),
        };
        if let Some(opt) =
            self.options.get(name).filter(|opt| opt.value != OptionValue::None && glued.is_some())
        {
            parsed.options.push((opt, glued));
        }
    }

    /// Parses a long option. Returns whether the next word belongs to it.
    fn parse_long<'m>(&'m self, text: &str, next: Option<&Word>, parsed: &mut ParsedOptions<'m>) -> bool {
        let (name, glued) = match text.split_once('=') {
            Some((name, value)) => (name, Some(Word::literal(value))),
            None => (text, None),
        };
        let double = format!("-{name}");
        let single = name.strip_prefix('-').unwrap_or(name);
        let exact = self.options.get(name).or_else(|| match self.style {
            OptionStyle::Single => self.options.get(&double).or_else(|| self.options.get(single)),
            _ => None,
        });
        let opt = match exact {
            Some(opt) => opt,
            None => {
                if let Some(number) = self.numeric_option(text) {
                    parsed.options.push((number, None));
                    return false;
                }
                let candidates = self.options.with_prefix(name);
                match (candidates.as_slice(), self.abbreviations) {
                    (&[only], true) => only,
                    _ => {
                        let why = format!("option `{name}` is not in the manual");
                        parsed.unknown.push((why, Word::literal(text)));
                        // Every option that it may abbreviate is reported, so that a deny sees it.
                        for candidate in candidates {
                            if let OptionValue::Required(_) | OptionValue::Optional(_) = candidate.value {
                                parsed.options.push((candidate, glued.clone().or_else(|| next.cloned())));
                            }
                        }
                        return false;
                    }
                }
            }
        };
        match (opt.value, glued) {
            (OptionValue::None, Some(_)) => {
                parsed.unknown.push((format!("option `{name}` takes no value"), Word::literal(text)));
                parsed.options.push((opt, None));
                false
            }
            (OptionValue::Required(_), None) => {
                parsed.options.push((opt, next.cloned()));
                true
            }
            (_, glued) => {
                parsed.options.push((opt, glued));
                false
            }
        }
    }

    /// Parses a cluster of short options. Returns whether the next word belongs to the last of them.
    fn parse_cluster<'m>(&'m self, text: &str, next: Option<&Word>, parsed: &mut ParsedOptions<'m>) -> bool {
        if let Some(number) = self.numeric_option(text) {
            parsed.options.push((number, None));
            return false;
        }
        if let Some(opt) = self.options.get(text).filter(|_| text.chars().count() > 2) {
            let takes = matches!(opt.value, OptionValue::Required(_));
            parsed.options.push((opt, next.filter(|_| takes).cloned()));
            return takes;
        }
        if let Some((name, value)) = text.split_once('=').filter(|(name, _)| name.chars().count() > 2)
            && let Some(opt) = self.options.get(name).filter(|opt| opt.value != OptionValue::None)
        {
            parsed.options.push((opt, Some(Word::literal(value))));
            return false;
        }
        let mut letters = text.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let Some(opt) = self.options.get(&format!("-{letter}")) else {
                parsed
                    .unknown
                    .push((format!("option `-{letter}` is not in the manual"), Word::literal(text)));
                // The rest may be its value or more options. Those that the manual knows are reported as well.
                continue;
            };
            let rest = letters.as_str();
            match opt.value {
                OptionValue::None => parsed.options.push((opt, None)),
                OptionValue::Optional(_) => {
                    let value = Some(rest).filter(|rest| !rest.is_empty()).map(Word::literal);
                    parsed.options.push((opt, value));
                    return false;
                }
                OptionValue::Required(_) if rest.is_empty() => {
                    parsed.options.push((opt, next.cloned()));
                    return true;
                }
                OptionValue::Required(_) => {
                    parsed.options.push((opt, Some(Word::literal(rest))));
                    return false;
                }
            }
        }
        false
    }

    /// Parses `-20`, if the manual allows a number as an option.
    fn numeric_option(&self, text: &str) -> Option<&OptionSpec> {
        let digits = text.strip_prefix('-')?;
        let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if all { self.options.get("-NUM") } else { None }
    }
}

fn is_option(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-')
}

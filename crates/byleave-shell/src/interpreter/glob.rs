//! Globs: the names that a pattern matches now, or the pieces that each match must contain.

use super::ScriptReader;
use super::state::{ShellDirectory, ShellState};
use crate::word::{UnknownWord, Word};

/// The maximum number of names that one pattern may match.
const MATCHES_MAX: usize = 1024;

/// A character of a word, and whether it was quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GlobChar {
    pub(super) c: char,
    pub(super) quoted: bool,
}

/// Checks whether the shell would match files.
pub(super) fn is_glob(word: &[GlobChar]) -> bool {
    let mut open = false;
    for glyph in word.iter().filter(|glyph| !glyph.quoted) {
        match glyph.c {
            '*' | '?' => return true,
            '[' => open = true,
            ']' if open => return true,
            _ => {}
        }
    }
    false
}

/// Returns the text that is certain in each match of a pattern, and in the pattern itself.
pub(super) fn pieces(word: &[GlobChar]) -> Vec<String> {
    let is_special = |glyph: &GlobChar, c: char| !glyph.quoted && glyph.c == c;
    let first = word.iter().position(|glyph| is_special(glyph, '['));
    let last = word.iter().rposition(|glyph| glyph.c == ']');
    let mut pieces = vec![String::new()];
    for (at, glyph) in word.iter().enumerate() {
        let in_brackets = first.is_some_and(|first| at >= first) && last.is_some_and(|last| at <= last);
        if in_brackets || is_special(glyph, '*') || is_special(glyph, '?') || glyph.c == '\\' {
            pieces.push(String::new());
        } else if let Some(piece) = pieces.last_mut() {
            piece.push(glyph.c);
        }
    }
    // A run of slashes may become shorter.
    pieces
        .iter()
        .flat_map(|piece| piece.split("//"))
        .filter(|piece| !piece.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the unknown word for a pattern whose matches are not known.
pub(super) fn unknown(word: &[GlobChar]) -> Word {
    let text: String = word.iter().map(|glyph| glyph.c).collect();
    let why = format!("`{text}` matches the files that exist at run time");
    Word::Unknown(UnknownWord { reason: why, pieces: pieces(word), single_word: false })
}

impl ScriptReader<'_> {
    /// Returns the words that a pattern expands to, or `None` if they are not certain.
    pub(super) fn expand_glob(&mut self, word: &[GlobChar], state: &ShellState) -> Option<Vec<Word>> {
        let names = if state.are_files_unchanged() { self.find_matches(word, state) } else { None };
        names.filter(|names| !names.is_empty()).map(|names| names.into_iter().map(Word::Literal).collect())
    }

    fn find_matches(&mut self, word: &[GlobChar], state: &ShellState) -> Option<Vec<String>> {
        let ShellDirectory::At { physical, .. } = &state.working_dir else { return None };
        let text: String = word.iter().map(|glyph| glyph.c).collect();
        if text.contains("//") || text.contains('\\') {
            return None;
        }
        let mut found = vec![String::new()];
        let mut components: Vec<&[GlobChar]> = word.split(|glyph| glyph.c == '/').collect();
        if components.first().is_some_and(|first| first.is_empty()) {
            found = vec!["/".to_owned()];
            components.remove(0);
        }
        let count = components.len();
        for (at, component) in components.into_iter().enumerate() {
            let is_last = at + 1 == count;
            let mut next = Vec::new();
            for prefix in found {
                if component.is_empty() {
                    next.push(prefix);
                    continue;
                }
                if !is_glob(component) {
                    let name: String = component.iter().map(|glyph| glyph.c).collect();
                    let path = format!("{prefix}{name}");
                    let resolved = self.env.resolve(physical, &path)?;
                    // The directory tells whether a plain last name exists.
                    if is_last {
                        let directory =
                            self.env.resolve(physical, if prefix.is_empty() { "." } else { &prefix })?;
                        if name == "." || name == ".." || self.env.list_directory(&directory)?.contains(&name)
                        {
                            next.push(path);
                        }
                    } else if self.env.is_directory(&resolved) {
                        next.push(path + "/");
                    }
                    continue;
                }
                let directory = self.env.resolve(physical, if prefix.is_empty() { "." } else { &prefix })?;
                if !self.env.is_directory(&directory) {
                    continue;
                }
                let hidden = component.first().is_some_and(|first| first.c == '.');
                if hidden && (matches_name(component, ".")? || matches_name(component, "..")?) {
                    return None;
                }
                let mut names = self.env.list_directory(&directory)?;
                names.sort();
                for name in names {
                    if (name.starts_with('.') && !hidden) || !matches_name(component, &name)? {
                        continue;
                    }
                    let path = format!("{prefix}{name}");
                    if is_last {
                        next.push(path);
                    } else {
                        let resolved = self.env.resolve(physical, &path)?;
                        if self.env.is_directory(&resolved) {
                            next.push(path + "/");
                        }
                    }
                }
            }
            if next.len() > MATCHES_MAX {
                return None;
            }
            found = next;
        }
        Some(found)
    }
}

/// Checks whether a name matches. Returns `None` if this module cannot decide.
fn matches_name(pattern: &[GlobChar], name: &str) -> Option<bool> {
    let name: Vec<char> = name.chars().collect();
    let tokens = tokens(pattern)?;
    // The usual algorithm with two positions: the last star, and how far it reached.
    let (mut at, mut in_name) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = name.get(in_name) {
        match tokens.get(at) {
            Some(GlobToken::Star) => {
                star = Some((at, in_name));
                at += 1;
                continue;
            }
            Some(token) if token.matches_char(*c) => {
                at += 1;
                in_name += 1;
                continue;
            }
            _ => {}
        }
        match star {
            Some((star_at, reached)) => {
                star = Some((star_at, reached + 1));
                at = star_at + 1;
                in_name = reached + 1;
            }
            None => return Some(false),
        }
    }
    Some(tokens.get(at..).unwrap_or_default().iter().all(|token| matches!(token, GlobToken::Star)))
}

enum GlobToken {
    Star,
    Any,
    Exactly(char),
    OneOf { negated: bool, ranges: Vec<(char, char)> },
}

impl GlobToken {
    fn matches_char(&self, c: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Exactly(own) => *own == c,
            Self::OneOf { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

fn tokens(pattern: &[GlobChar]) -> Option<Vec<GlobToken>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(glyph) = pattern.get(at) {
        at += 1;
        match glyph.c {
            '*' if !glyph.quoted => tokens.push(GlobToken::Star),
            '?' if !glyph.quoted => tokens.push(GlobToken::Any),
            '[' if !glyph.quoted => {
                let (token, after) = bracket(pattern, at)?;
                tokens.push(token);
                at = after;
            }
            c => tokens.push(GlobToken::Exactly(c)),
        }
    }
    Some(tokens)
}

/// Parses brackets with plain characters and ranges. Classes, quotes and the like are not supported.
fn bracket(pattern: &[GlobChar], mut at: usize) -> Option<(GlobToken, usize)> {
    let negated = pattern.get(at).is_some_and(|glyph| matches!(glyph.c, '!' | '^'));
    if negated {
        at += 1;
    }
    let mut ranges = Vec::new();
    loop {
        let glyph = pattern.get(at)?;
        if glyph.quoted || !glyph.c.is_ascii() {
            return None;
        }
        match glyph.c {
            ']' if !ranges.is_empty() => return Some((GlobToken::OneOf { negated, ranges }, at + 1)),
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') => {
                at += 1;
                let range = pattern.get(at).is_some_and(|glyph| glyph.c == '-' && !glyph.quoted);
                if !range {
                    ranges.push((c, c));
                    continue;
                }
                let to = pattern.get(at + 1)?;
                if to.quoted || !to.c.is_ascii_alphanumeric() {
                    return None;
                }
                ranges.push((c, to.c));
                at += 2;
            }
            _ => return None,
        }
    }
}

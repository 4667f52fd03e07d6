//! Matches a text against many globs at once.
//!
//! Most globs of rules are one path, everything beneath a path, or a name in any directory, perhaps with alternatives. These are looked up. The
//! others are one regular expression with a lazy DFA, compiled when it is first needed: a program that judges one command needs few of them.
//! `globset` compiles many full DFAs instead, which took a third of the processor time of such a program.

use std::collections::HashMap;
use std::sync::OnceLock;

use globset::Glob;
use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// The maximum size of the compiled globs, and of the cache of the DFA, in bytes.
const SIZE_MAX: usize = 10 << 20;

/// Compiled globs. A glob is known by its position in the list that it was compiled from.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobMatcher {
    /// The globs without wildcards, by text.
    literals: GlobTable,
    /// The globs `DIR/**`, by `DIR`.
    trees: GlobTable,
    /// The globs `**/PATH`, by `PATH`.
    ends: GlobTable,
    /// The globs `**/PATH/**`, by `PATH`.
    middles: GlobTable,
    /// The number of steps of the longest path in `middles`.
    middle_steps_max: usize,
    others: Option<OtherGlobs>,
}

/// The positions of globs, by the part of them that has no wildcards.
type GlobTable = HashMap<String, Vec<usize>>;

/// The maximum number of globs that the alternatives of one glob are expanded to.
const ALTERNATIVES_MAX: usize = 64;

/// Globs with at most this many bytes of regular expressions are never too large once compiled, so they are compiled when they are needed.
const LAZY_BYTES_MAX: usize = 32 << 10;

#[derive(Clone, Debug)]
struct OtherGlobs {
    globs: Vec<Glob>,
    /// The position of each glob in the list that all were compiled from.
    positions: Vec<usize>,
    /// `None` if they are too large after all. Then they are matched one by one.
    regex: OnceLock<Option<Regex>>,
}

impl GlobMatcher {
    /// Compiles globs. An error says that they are too large.
    pub(crate) fn new(globs: &[Glob]) -> Result<Self, Box<BuildError>> {
        let mut compiled = Self::default();
        let mut others = Vec::new();
        let mut positions = Vec::new();
        for (position, glob) in globs.iter().enumerate() {
            let alternatives = expand_alternatives(glob.glob());
            if alternatives.iter().all(|text| GlobShape::of(text).is_some()) {
                alternatives
                    .iter()
                    .filter_map(|text| GlobShape::of(text))
                    .for_each(|shape| compiled.add(shape, position));
            } else {
                others.push(glob.clone());
                positions.push(position);
            }
        }
        if !others.is_empty() {
            compiled.others = Some(OtherGlobs::new(others, positions)?);
        }
        Ok(compiled)
    }

    fn add(&mut self, shape: GlobShape<'_>, position: usize) {
        let (table, key) = match shape {
            GlobShape::Literal(text) => (&mut self.literals, text),
            GlobShape::Tree(directory) => (&mut self.trees, directory),
            GlobShape::End(path) => (&mut self.ends, path),
            GlobShape::Middle(path) => {
                self.middle_steps_max = self.middle_steps_max.max(path.split('/').count());
                (&mut self.middles, path)
            }
        };
        table.entry(key.to_owned()).or_default().push(position);
    }

    /// Checks whether there are no globs.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_none()
            && [&self.literals, &self.trees, &self.ends, &self.middles].iter().all(|table| table.is_empty())
    }

    /// Checks whether some glob matches the text.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.looked_up(text).next().is_some()
            || self.others.as_ref().is_some_and(|others| others.is_match(text))
    }

    /// Calls a function with the position of each glob that matches the text, at least once.
    pub(crate) fn for_each_match(&self, text: &str, mut found: impl FnMut(usize)) {
        self.looked_up(text).flatten().copied().for_each(&mut found);
        let Some(others) = &self.others else { return };
        others.for_each_match(text, found);
    }

    fn looked_up<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a Vec<usize>> {
        let slashes =
            |is_needed: bool| text.match_indices('/').map(|(slash, _)| slash).filter(move |_| is_needed);
        let starts = |is_needed: bool| {
            slashes(is_needed).map(|slash| slash.saturating_add(1)).chain(is_needed.then_some(0))
        };
        let trees = slashes(!self.trees.is_empty()).filter_map(|slash| self.trees.get(text.get(..slash)?));
        let ends = starts(!self.ends.is_empty()).filter_map(|start| self.ends.get(text.get(start..)?));
        let middles =
            starts(!self.middles.is_empty()).filter_map(|start| text.get(start..)).flat_map(|rest| {
                let stops = rest.match_indices('/').take(self.middle_steps_max);
                stops.filter_map(|(stop, _)| self.middles.get(rest.get(..stop)?))
            });
        self.literals.get(text).into_iter().chain(ends).chain(trees).chain(middles)
    }
}

/// A glob whose wildcards are only `**` at its ends.
#[derive(Clone, Copy)]
enum GlobShape<'g> {
    Literal(&'g str),
    Tree(&'g str),
    End(&'g str),
    Middle(&'g str),
}

impl<'g> GlobShape<'g> {
    fn of(glob: &'g str) -> Option<Self> {
        let shape: fn(&'g str) -> Self = match (glob.starts_with("**/"), glob.ends_with("/**")) {
            (false, false) => Self::Literal,
            (false, true) => Self::Tree,
            (true, false) => Self::End,
            (true, true) => Self::Middle,
        };
        let key = glob.strip_prefix("**/").unwrap_or(glob);
        let key = key.strip_suffix("/**").unwrap_or(key);
        let is_plain = is_literal(key) && !(key.is_empty() && glob.contains('*'));
        is_plain.then(|| shape(key))
    }
}

/// Returns globs that together match what this one matches: one for each alternative, if these are plain names.
fn expand_alternatives(glob: &str) -> Vec<String> {
    let mut expanded = vec![String::new()];
    let mut rest = glob;
    while let Some((before, inside, after)) = rest
        .split_once('{')
        .and_then(|(before, rest)| rest.split_once('}').map(|(inside, after)| (before, inside, after)))
    {
        let are_plain =
            inside.split(',').all(|choice| !choice.is_empty() && is_literal(choice) && !choice.contains('/'));
        let count = expanded.len().saturating_mul(inside.split(',').count());
        if !are_plain || before.contains(['[', '\\']) || count > ALTERNATIVES_MAX {
            return vec![glob.to_owned()];
        }
        let join = |start: &String| {
            inside.split(',').map(|choice| format!("{start}{before}{choice}")).collect::<Vec<_>>()
        };
        expanded = expanded.iter().flat_map(join).collect();
        rest = after;
    }
    expanded.iter_mut().for_each(|start| start.push_str(rest));
    expanded
}

impl OtherGlobs {
    fn new(globs: Vec<Glob>, positions: Vec<usize>) -> Result<Self, Box<BuildError>> {
        let bytes: usize = globs.iter().map(|glob| glob.regex().len()).sum();
        let regex =
            if bytes > LAZY_BYTES_MAX { OnceLock::from(Some(compile(&globs)?)) } else { OnceLock::new() };
        Ok(Self { globs, positions, regex })
    }

    fn regex(&self) -> Option<&Regex> {
        self.regex.get_or_init(|| compile(&self.globs).ok()).as_ref()
    }

    fn is_match(&self, text: &str) -> bool {
        match self.regex() {
            Some(regex) => regex.is_match(text),
            None => self.globs.iter().any(|glob| glob.compile_matcher().is_match(text)),
        }
    }

    fn for_each_match(&self, text: &str, found: impl FnMut(usize)) {
        let Some(regex) = self.regex() else {
            let matching = |(glob, position): (&Glob, &usize)| {
                glob.compile_matcher().is_match(text).then_some(*position)
            };
            return self.globs.iter().zip(&self.positions).filter_map(matching).for_each(found);
        };
        let mut matching = PatternSet::new(regex.pattern_len());
        regex.which_overlapping_matches(&Input::new(text), &mut matching);
        matching.iter().filter_map(|pattern| self.positions.get(pattern.as_usize()).copied()).for_each(found);
    }
}

fn is_literal(glob: &str) -> bool {
    !glob.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

fn compile(globs: &[Glob]) -> Result<Regex, Box<BuildError>> {
    let regexes: Vec<&str> = globs.iter().map(Glob::regex).collect();
    let config = Config::new()
        .match_kind(MatchKind::All)
        .utf8_empty(false)
        .dfa(false)
        .onepass(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(SIZE_MAX))
        .hybrid_cache_capacity(SIZE_MAX);
    let syntax = syntax::Config::new().utf8(false).dot_matches_new_line(true);
    Regex::builder().configure(config).syntax(syntax).build_many(&regexes).map_err(Box::new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse_glob;
    use super::*;

    /// Pieces that globs and texts are made of, so that they often match.
    fn piece() -> impl Strategy<Value = String> {
        prop::sample::select(vec![
            "a", "b", ".env", "é", "É", "/", "/", "//", "**/", "**/", "/**", "/**", "*", "?", "[ab]", "[!a]",
            "{a,b/c}", "{a,b}", "{b,.env}", "{a}", "{,a}", "[{a,b}]", "\\{", "\\*", "\n", "]",
        ])
        .prop_map(str::to_owned)
    }

    fn text() -> impl Strategy<Value = String> {
        let plain =
            prop::sample::select(vec!["a", "b", "c", ".env", "é", "É", "/", "/", "*", "\n", "]", "\\"]);
        prop::collection::vec(plain, 0..7).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        // req: P1
        #[test]
        fn it_matches_what_globset_matches(
            globs in prop::collection::vec(prop::collection::vec(piece(), 0..5), 0..6),
            texts in prop::collection::vec(text(), 1..20),
        ) {
            let globs: Vec<Glob> = globs.iter().filter_map(|pieces| parse_glob(&pieces.concat()).ok()).collect();
            let of_globset = globset::GlobSet::new(globs.iter().cloned()).unwrap();
            let compiled = GlobMatcher::new(&globs).unwrap();
            let mut one_by_one = compiled.clone();
            if let Some(others) = &mut one_by_one.others {
                others.regex = OnceLock::from(None);
            }
            for text in texts {
                for ours in [&compiled, &one_by_one] {
                    let mut found = Vec::new();
                    ours.for_each_match(&text, |position| found.push(position));
                    found.sort_unstable();
                    found.dedup();
                    prop_assert_eq!(&found, &of_globset.matches(&text), "{:?} of {:?}", text, globs);
                    prop_assert_eq!(ours.is_match(&text), !found.is_empty());
                }
            }
        }
    }

    // req: P1
    #[test]
    fn globs_that_are_too_large_are_an_error() {
        let glob = parse_glob(&"[!a]*".repeat(200_000)).unwrap();
        assert!(GlobMatcher::new(&[glob]).is_err());
    }

    // req: P8
    #[test]
    fn globs_that_are_compiled_later_are_never_too_large() {
        for piece in ["[!a]*", "?", "*/**/", "[a-cx-z0-9_.]", "{a,b}{c,d}", "é", "a", "[é-ü]", "{a*,[!b]?}"]
        {
            let of_length = |count: usize| parse_glob(&format!("**/*{}", piece.repeat(count)));
            // Braces are limited before.
            let counts = std::iter::successors(Some(LAZY_BYTES_MAX), |count| Some(count * 9 / 10));
            let fits = |glob: &Glob| glob.regex().len() <= LAZY_BYTES_MAX;
            let largest = counts.take(200).filter_map(|count| of_length(count).ok()).find(fits);
            assert!(compile(&[largest.unwrap()]).is_ok(), "{piece}");
        }
    }
}

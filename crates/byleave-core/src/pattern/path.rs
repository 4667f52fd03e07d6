//! Globs over paths, and the additional matches that a deny needs.
//!
//! A file system may treat `.ENV` as `.env`, and two spellings of `é` as one. Deleting or moving a directory deletes or moves its contents.
//! If a rule allows, none of this is used. If it denies or asks, all of it is used.

use std::borrow::Cow;

use globset::{Glob, GlobBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::{GlobMatcher, PatternError};

/// The maximum number of opening braces in a glob. Each nested brace uses stack when it is compiled, and a repository may contain rules.
const BRACES_MAX: usize = 100;

/// Compiles a glob as patterns define it: `*` stays within one step of a path.
pub(crate) fn parse_glob(glob: &str) -> Result<Glob, PatternError> {
    if glob.matches('{').count() > BRACES_MAX {
        let glob = glob.chars().take(BRACES_MAX).chain(['…']).collect();
        return Err(PatternError::Glob { glob, reason: format!("more than {BRACES_MAX} braces") });
    }
    GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map_err(|error| PatternError::Glob { glob: glob.into(), reason: error.kind().to_string() })
}

/// Compiles globs for matching.
pub(crate) fn compile_globs(globs: &[Glob]) -> Result<GlobMatcher, PatternError> {
    GlobMatcher::new(globs).map_err(|error| PatternError::Glob {
        glob: globs.first().map_or("", Glob::glob).into(),
        reason: error.to_string(),
    })
}

/// Returns a glob that matches only this text.
pub fn escape_glob(text: &str) -> String {
    // `globset::escape` keeps the backslash, which would swallow the character after it.
    globset::escape(text).replace('\\', "[\\]")
}

/// Returns one spelling for all texts that some file system treats as the same name.
pub(crate) fn fold(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().flat_map(char::to_lowercase).nfc().collect())
}

/// A glob of a deny or an ask.
#[derive(Debug)]
pub(crate) struct FoldedGlob {
    /// Globs over exact paths.
    pub(crate) exact: Vec<Glob>,
    /// Globs over folded paths.
    pub(crate) folded: Vec<Glob>,
}

impl FoldedGlob {
    pub(crate) fn new(glob: &str) -> Result<Self, PatternError> {
        // A rule about everything in a directory includes the directory, because reading it reads its contents.
        let itself = glob.strip_suffix("/**").filter(|itself| !itself.is_empty());
        let globs: Vec<&str> = [glob].into_iter().chain(itself).collect();
        // An error is about the glob as it was written.
        let as_written = |error, glob: &str| parse_glob(glob).err().unwrap_or(error);
        let fold_one = |glob: &&str| parse_glob(&fold(glob)).map_err(|error| as_written(error, glob));
        let folded = globs.iter().map(fold_one).collect::<Result<_, _>>()?;
        // A class that excludes letters excludes different ones once it is folded, so both forms are tested.
        let classes = glob.contains('[');
        let exact =
            globs.iter().filter(|_| classes).map(|glob| parse_glob(glob)).collect::<Result<_, _>>()?;
        Ok(Self { exact, folded })
    }
}

/// Returns the directories, case-folded, that contain everything a glob matches, as far as the glob shows. Deleting or moving one of them
/// does so to its contents.
pub(crate) fn parent_dirs(glob: &str) -> Vec<String> {
    let (plain, _) = literal_prefix(glob);
    let Some((directory, _)) = plain.rsplit_once('/') else { return Vec::new() };
    let above = std::iter::successors(Some(directory), |path| path.rsplit_once('/').map(|(above, _)| above));
    let named = above.map(|path| if path.is_empty() { "/".to_owned() } else { fold(path).into_owned() });
    named.collect()
}

/// Returns the deepest path that contains everything a glob matches, or is the only match. `None` if that is the root or not known.
pub(crate) fn base_path(glob: &str) -> Option<String> {
    let (plain, whole) = literal_prefix(glob);
    let place = if whole { plain.as_str() } else { plain.rsplit_once('/').map_or("", |(above, _)| above) };
    let place = place.trim_end_matches('/');
    place.starts_with('/').then(|| place.to_owned())
}

/// Checks whether a path holds a wildcard.
pub(crate) fn has_wildcard(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The number of literal characters that a glob of a program must begin with, so that it names something.
const NAMED_CHARS_MIN: usize = 2;

/// The maximum number of alternatives that the braces of a glob are expanded to.
const ALTERNATIVES_MAX: usize = 200;

/// Checks whether a path with wildcards of the program's own may name a file that a glob of a rule matches, by the literal text that
/// the wildcards follow. `/w/.vs*` may name `/w/.vscode/tasks.json`. A glob that begins with a wildcard names no file by its text, so
/// `/w/*.json` is only about the files that exist.
pub(crate) fn may_name(named: &str, guarded: &str) -> bool {
    let (plain, _) = literal_prefix(named);
    let base = plain.rsplit_once('/').map_or("", |(above, _)| above);
    let Some(own) = named.get(base.len()..).map(|own| own.trim_start_matches('/')) else { return false };
    let own = fold(own.strip_prefix("**/").unwrap_or(own)).into_owned();
    if own.find(['*', '?', '[', '\\']).unwrap_or(own.len()) < NAMED_CHARS_MIN {
        return false;
    }
    let own: Vec<char> = own.chars().collect();
    alternatives(&fold(guarded)).iter().any(|guarded| {
        let relative = match guarded.strip_prefix("**/") {
            Some(relative) => relative,
            None => match guarded.strip_prefix(base).and_then(|rest| rest.strip_prefix('/')) {
                Some(relative) => relative,
                None => return false,
            },
        };
        let example: Vec<char> = example(relative).chars().collect();
        matches_loosely(&own, &example)
    })
}

/// Returns the shortest text that a glob matches.
fn example(glob: &str) -> String {
    let mut text = String::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => {}
            '?' => text.push('x'),
            '\\' => text.extend(rest.next()),
            '[' => {
                let members: String = rest.by_ref().take_while(|c| *c != ']').collect();
                text.extend(members.chars().next().filter(|c| !matches!(c, '!' | '^')));
            }
            c => text.push(c),
        }
    }
    text
}

/// Expands the first level of braces.
fn alternatives(glob: &str) -> Vec<String> {
    let Some((before, rest)) = glob.split_once('{') else { return vec![glob.to_owned()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![glob.to_owned()] };
    let mut all = Vec::new();
    for choice in inside.split(',') {
        all.extend(alternatives(&format!("{before}{choice}{after}")));
        if all.len() > ALTERNATIVES_MAX {
            break;
        }
    }
    all
}

/// Checks whether a glob whose `*` crosses slashes matches the text, or a directory that holds it.
fn matches_loosely(glob: &[char], text: &[char]) -> bool {
    // Each set of states is the places in the glob that the text so far leads to.
    let mut states = vec![0_usize];
    for c in text {
        if *c == '/' && ends_at(glob, &states) {
            return true;
        }
        let mut next = Vec::new();
        for place in closure(glob, &states) {
            match glob.get(place) {
                Some('*') => next.push(place),
                Some('?') => next.push(place.saturating_add(1)),
                Some('[') => {
                    let (fits, end) = class_fits(glob, place, *c);
                    if fits {
                        next.push(end);
                    }
                }
                Some('\\') if glob.get(place.saturating_add(1)) == Some(c) => {
                    next.push(place.saturating_add(2))
                }
                Some(own) if own == c => next.push(place.saturating_add(1)),
                _ => {}
            }
        }
        next.sort_unstable();
        next.dedup();
        states = next;
    }
    ends_at(glob, &states)
}

/// Adds the places that follow a star without any text.
fn closure(glob: &[char], states: &[usize]) -> Vec<usize> {
    let mut all = states.to_vec();
    let mut at = 0;
    while let Some(place) = all.get(at).copied() {
        at = at.saturating_add(1);
        let behind = place.saturating_add(1);
        if glob.get(place) == Some(&'*') && !all.contains(&behind) {
            all.push(behind);
        }
    }
    all
}

fn ends_at(glob: &[char], states: &[usize]) -> bool {
    closure(glob, states).contains(&glob.len())
}

/// Checks a character against a class, and returns the place after the class.
fn class_fits(glob: &[char], place: usize, c: char) -> (bool, usize) {
    let inside = place.saturating_add(1);
    let end = glob.iter().skip(inside.saturating_add(1)).position(|own| *own == ']');
    let Some(end) = end.map(|at| at.saturating_add(inside).saturating_add(1)) else {
        return (c == '[', inside);
    };
    let members = glob.get(inside..end).unwrap_or_default();
    // A range or a negation may hold any character.
    let fits = members.contains(&c) || members.iter().any(|own| matches!(own, '-' | '!' | '^' | ':'));
    (fits, end.saturating_add(1))
}

/// Returns the start of a glob without wildcards, and whether that is the whole glob.
fn literal_prefix(glob: &str) -> (String, bool) {
    let mut start = String::new();
    let mut rest = glob.chars();
    while let Some(c) = rest.next() {
        let plain = match c {
            '*' | '?' | '{' => return (start, false),
            '\\' => rest.next(),
            '[' => match (rest.next(), rest.next()) {
                (Some(only), Some(']')) if !matches!(only, '!' | '^') => Some(only),
                _ => return (start, false),
            },
            c => Some(c),
        };
        start.extend(plain);
    }
    (start, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_says_which_directories_hold_what_it_fits() {
        for (glob, wanted) in [
            ("/w/conf/prod.key", &["/w/conf", "/w", "/"][..]),
            ("/W/.ssh/**", &["/w/.ssh", "/w", "/"]),
            ("/w/*.lock", &["/w", "/"]),
            ("/a[*]b[{]/x", &["/a*b{", "/"]),
            ("/a[bc]/x", &["/"]),
            ("/a\\*/x", &["/a*", "/"]),
            ("/**", &["/"]),
            ("**/.env", &[]),
            ("{/a,/b}/c", &[]),
        ] {
            assert_eq!(parent_dirs(glob), wanted, "{glob}");
        }
    }

    #[test]
    fn a_glob_says_where_everything_is_that_it_fits() {
        for (glob, wanted) in [
            ("/w/conf/prod.key", Some("/w/conf/prod.key")),
            ("/w/.ssh/**", Some("/w/.ssh")),
            ("/w/a*/x", Some("/w")),
            ("/a[*]b/**", Some("/a*b")),
            ("/a[*]b", Some("/a*b")),
            ("/**", None),
            ("**/.env", None),
            ("/etc*", None),
        ] {
            assert_eq!(base_path(glob).as_deref(), wanted, "{glob}");
        }
    }

    #[test]
    fn a_glob_of_a_program_names_what_begins_with_its_text() {
        for (named, guarded, may) in [
            ("/w/.vs*", "**/.vscode/**", true),
            ("/w/.VS*", "**/.vscode/**", true),
            ("/w/.en[v]", "**/.env", true),
            ("/w/**/.en?", "**/.env", true),
            ("/w/.en\\v*", "**/.env", true),
            ("/w/conf/pl*", "/w/conf/plan.txt", true),
            ("/w/.gith*", "**/.github/{hooks,copilot}/**", true),
            ("/w/*.json", "**/{.mcp,mcp}.json", false),
            ("/w/src/*.rs", "**/.env.*", false),
            ("/w/*", "**/.env", false),
            ("/w/docs/*", "**/*credentials*", false),
            ("/w/src/a*", "/w/conf/a", false),
        ] {
            assert_eq!(may_name(named, guarded), may, "{named} {guarded}");
        }
    }

    #[test]
    fn two_spellings_of_one_name_are_folded_to_one() {
        assert_eq!(fold("/W/.ENV"), "/w/.env");
        assert_eq!(fold("se\u{301}cret"), fold("SÉCRET"));
        assert!(matches!(fold("/w/.env"), Cow::Borrowed(_)));
    }
}

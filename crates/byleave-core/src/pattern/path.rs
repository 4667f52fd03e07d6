//! Globs over paths, and the additional matches that a deny needs.
//!
//! A file system may treat `.ENV` as `.env`, and two spellings of `é` as one. Deleting or moving a directory deletes or moves its contents.
//! If a rule allows, none of this is used. If it denies or asks, all of it is used.

use std::borrow::Cow;

use globset::{Glob, GlobBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::PatternError;

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
        let folded = globs.iter().map(|glob| parse_glob(&fold(glob))).collect::<Result<_, _>>()?;
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
    fn two_spellings_of_one_name_are_folded_to_one() {
        assert_eq!(fold("/W/.ENV"), "/w/.env");
        assert_eq!(fold("se\u{301}cret"), fold("SÉCRET"));
        assert!(matches!(fold("/w/.env"), Cow::Borrowed(_)));
    }
}

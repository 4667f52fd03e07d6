//! Globs over paths, and what else a glob must see where it denies.
//!
//! A file system may take `.ENV` for `.env` and two spellings of `é` for one; deleting or moving a directory deletes or
//! moves what is in it. Where a rule allows, none of that counts in its favour; where it denies or asks, all of it does.

use std::borrow::Cow;

use globset::{Glob, GlobBuilder};
use unicode_normalization::UnicodeNormalization as _;

use super::PatternError;

/// How many braces a glob may open. Each within another takes some of the stack when it is compiled, and a repository brings rules along.
const BRACES_MAX: usize = 100;

/// A glob as patterns mean it: `*` stays within one step of a path.
pub(crate) fn glob_of(glob: &str) -> Result<Glob, PatternError> {
    if glob.matches('{').count() > BRACES_MAX {
        let glob = glob.chars().take(BRACES_MAX).chain(['…']).collect();
        return Err(PatternError::Glob { glob, why: format!("more than {BRACES_MAX} braces") });
    }
    GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map_err(|error| PatternError::Glob { glob: glob.into(), why: error.kind().to_string() })
}

/// A glob that fits this text alone.
pub fn literal(text: &str) -> String {
    // `globset::escape` leaves the backslash, which would swallow the character after it.
    globset::escape(text).replace('\\', "[\\]")
}

/// One spelling for all texts that some file system takes for the same name.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().flat_map(char::to_lowercase).nfc().collect())
}

/// What a glob is where it denies or asks.
#[derive(Debug)]
pub(crate) struct FoldedGlob {
    /// Globs over paths as they are.
    pub(crate) exact: Vec<Glob>,
    /// Globs over folded paths.
    pub(crate) folded: Vec<Glob>,
}

impl FoldedGlob {
    pub(crate) fn new(glob: &str) -> Result<Self, PatternError> {
        // Whoever guards everything in a directory means the directory, too: reading it reads what is in it.
        let itself = glob.strip_suffix("/**").filter(|itself| !itself.is_empty());
        let globs: Vec<&str> = [glob].into_iter().chain(itself).collect();
        let folded = globs.iter().map(|glob| glob_of(&folded(glob))).collect::<Result<_, _>>()?;
        // A class that leaves letters out leaves out others once it is folded: both are asked.
        let classes = glob.contains('[');
        let exact = globs.iter().filter(|_| classes).map(|glob| glob_of(glob)).collect::<Result<_, _>>()?;
        Ok(Self { exact, folded })
    }
}

/// The directories, folded, that hold everything a glob fits, as far as the glob says where that is: to delete or move one
/// is to do so to what it holds.
pub(crate) fn holders(glob: &str) -> Vec<String> {
    let (plain, _) = plain_start(glob);
    let Some((directory, _)) = plain.rsplit_once('/') else { return Vec::new() };
    let above = std::iter::successors(Some(directory), |path| path.rsplit_once('/').map(|(above, _)| above));
    let named = above.map(|path| if path.is_empty() { "/".to_owned() } else { folded(path).into_owned() });
    named.collect()
}

/// The deepest path that holds everything a glob fits, or is it; none where that is the root or not said.
pub(crate) fn place_of(glob: &str) -> Option<String> {
    let (plain, whole) = plain_start(glob);
    let place = if whole { plain.as_str() } else { plain.rsplit_once('/').map_or("", |(above, _)| above) };
    let place = place.trim_end_matches('/');
    place.starts_with('/').then(|| place.to_owned())
}

/// The start of a glob in which every character stands for itself, and whether that is all of it.
fn plain_start(glob: &str) -> (String, bool) {
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
            assert_eq!(holders(glob), wanted, "{glob}");
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
            assert_eq!(place_of(glob).as_deref(), wanted, "{glob}");
        }
    }

    #[test]
    fn two_spellings_of_one_name_are_folded_to_one() {
        assert_eq!(folded("/W/.ENV"), "/w/.env");
        assert_eq!(folded("se\u{301}cret"), folded("SÉCRET"));
        assert!(matches!(folded("/w/.env"), Cow::Borrowed(_)));
    }
}

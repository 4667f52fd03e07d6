//! A prefilter without false negatives for hidden paths: `false` means that no rule can hide the name.
//!
//! `true` only means that the policy must be evaluated. Every glob of a rule either contains a literal text that all its matches contain,
//! or has a directory that contains all its matches. A path with none of those texts and in none of those directories matches none of the
//! globs.

use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use byleave_gate::core::decision::Verdict;
use byleave_gate::core::pattern::Pattern;
use byleave_gate::core::policy::Policy;

/// The minimum length of a literal. Shorter ones occur in too many names.
const TEXT_BYTES_MIN: usize = 2;

/// The data that decides which paths need a policy check.
pub(crate) struct HiddenPrefilter {
    /// The literals in lower case. `None` if a glob has neither a literal nor a directory, or cannot be analysed; then every path
    /// needs a check.
    texts: Option<AhoCorasick>,
    /// The directories in lower case.
    places: Vec<PathBuf>,
}

impl HiddenPrefilter {
    /// Creates a prefilter for these rules and for Byleave's own paths.
    pub(super) fn for_policy(rules: &Policy, ours: &[PathBuf]) -> Self {
        let mut places: Vec<PathBuf> = ours.iter().map(|place| lower(&place.to_string_lossy())).collect();
        let (mut texts, mut is_whole) = (Vec::new(), true);
        let guards = rules.rules().filter(|rule| rule.verdict != Verdict::Allow);
        for pattern in guards.flat_map(|rule| &rule.patterns) {
            let Pattern::Read(glob) = pattern else { continue };
            let marks = marks_of(glob);
            is_whole = is_whole && marks.is_some();
            for mark in marks.into_iter().flatten() {
                match mark {
                    GlobLiteral::Text(text) => texts.push(text),
                    GlobLiteral::Place(place) => places.push(lower(&place)),
                }
            }
        }
        let texts = if is_whole { AhoCorasick::new(texts).ok() } else { None };
        Self { texts, places }
    }

    /// Checks whether every name in this directory needs a policy check, because of its location.
    pub(crate) fn must_check_directory(&self, directory: &str) -> bool {
        if self.must_check_name(directory.as_bytes()) {
            return true;
        }
        let directory = lower(directory);
        self.places.iter().any(|place| place.starts_with(&directory) || directory.starts_with(place))
    }

    /// Checks whether a name needs a policy check, in a directory for which [`Self::must_check_directory`] is `false`.
    pub(crate) fn must_check_name(&self, name: &[u8]) -> bool {
        let Some(texts) = &self.texts else { return true };
        let mut folded = [0; 256];
        let Some(room) = folded.get_mut(..name.len()) else {
            // It is longer than a name can be, so it is a path.
            return !name.is_ascii() || texts.is_match(&name.to_ascii_lowercase());
        };
        room.copy_from_slice(name);
        room.make_ascii_lowercase();
        // Other letters may fold to ASCII, so only the policy can decide.
        !room.is_ascii() || texts.is_match(&*room)
    }
}

/// A property that all matches of a glob have in common.
#[derive(Debug, PartialEq, Eq)]
enum GlobLiteral {
    /// A text within one path component, in lower case.
    Text(String),
    /// A path: every match is this path or lies beneath it.
    Place(String),
}

fn lower(path: &str) -> PathBuf {
    // The same folding as in rules. Whole components are compared, so both sides must be folded in the same way.
    Path::new(&path.to_lowercase()).to_path_buf()
}

/// Returns the literals of a glob: its own, or those of its brace alternatives. `None` if they cannot be determined.
fn marks_of(glob: &str) -> Option<Vec<GlobLiteral>> {
    if let Some(mark) = mark_of(glob) {
        return Some(vec![mark]);
    }
    let (before, rest) = glob.split_once('{')?;
    // Nested braces, and globs in which a brace may be literal, are not worth analysing.
    let (inside, after) = rest.split_once('}')?;
    if inside.contains('{') || glob.contains(['\\', '[']) {
        return None;
    }
    let each = inside.split(',').map(|one| marks_of(&format!("{before}{one}{after}")));
    each.collect::<Option<Vec<_>>>().map(|each| each.into_iter().flatten().collect())
}

/// Returns the longest text that every match of the glob must contain. `None` if there is none, or if the glob cannot be analysed reliably.
fn mark_of(glob: &str) -> Option<GlobLiteral> {
    let (place, rest) = place_of(glob);
    let whole = matches!(rest.as_str(), "" | "**");
    let text = if whole && place.is_some() { None } else { text_of(&rest) };
    text.map(GlobLiteral::Text).or(place.map(GlobLiteral::Place))
}

fn text_of(glob: &str) -> Option<String> {
    let (mut best, mut text) = (String::new(), String::new());
    let mut rest = glob.chars();
    let mut end = |text: &mut String| {
        if text.len() > best.len() {
            best.clone_from(text);
        }
        text.clear();
    };
    while let Some(one) = rest.next() {
        match one {
            '*' | '?' | '/' => end(&mut text),
            '[' => {
                end(&mut text);
                // A `]` in the first position is literal.
                let first = rest.next()?;
                let first = if matches!(first, '!' | '^') { rest.next()? } else { first };
                let mut last = if first == ']' { rest.next()? } else { first };
                while last != ']' {
                    last = rest.next()?;
                }
            }
            '{' => {
                end(&mut text);
                let mut depth = 1;
                while depth > 0 {
                    match rest.next()? {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        // Escapes and classes within braces are not worth analysing.
                        '\\' | '[' => return None,
                        _ => {}
                    }
                }
            }
            '}' | ']' => return None,
            '\\' => {
                let escaped = rest.next()?;
                end(&mut text);
                if escaped.is_ascii() && escaped != '/' {
                    text.push(escaped.to_ascii_lowercase());
                }
            }
            plain if plain.is_ascii() => text.push(plain.to_ascii_lowercase()),
            _ => end(&mut text),
        }
    }
    end(&mut text);
    (best.len() >= TEXT_BYTES_MIN).then_some(best)
}

/// Returns the leading components without wildcards, if there are any, and the rest.
fn place_of(glob: &str) -> (Option<String>, String) {
    let is_plain = |step: &&str| step.is_ascii() && !step.contains(['*', '?', '[', ']', '{', '}', '\\']);
    let Some(steps) = glob.strip_prefix('/') else { return (None, glob.to_owned()) };
    // A brace may span several components. Its own component and those after it belong to the rest.
    let mut steps = steps.split('/').peekable();
    let mut place = String::new();
    while let Some(step) = steps.next_if(is_plain) {
        if !step.is_empty() {
            place = format!("{place}/{step}");
        }
    }
    (Some(place).filter(|place| !place.is_empty()), steps.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use byleave_gate::core::effect::Plan;
    use byleave_gate::core::policy::{
        Layer, PathVariables, RuleFile, SkipExamples, builtin_rules, load_rules,
    };
    use byleave_sandbox::from_plan;

    use super::*;

    #[test]
    fn a_glob_says_what_everything_that_fits_it_has() {
        let text = |text: &str| Some(GlobLiteral::Text(text.into()));
        let place = |place: &str| Some(GlobLiteral::Place(place.into()));
        for (glob, wanted) in [
            ("**/.env", text(".env")),
            ("**/*.PEM", text(".pem")),
            ("**/.config/gh/**", text(".config")),
            ("**/*.{key,pem}", None),
            ("**/secret[!a-z]s*", text("secret")),
            ("**/[]x]ab", text("ab")),
            ("**/a\\*bc", text("*bc")),
            ("**/{a/b,c}/long", text("long")),
            ("**/{a\\},b}/long", None),
            ("**/[ab", None),
            ("/w/s/**", place("/w/s")),
            ("/w/s*/x", place("/w")),
            ("/w/s*/xy", text("xy")),
            ("/w/s", place("/w/s")),
            ("/{a,b}/c*", None),
            ("/**", None),
            ("**/\u{212a}ey", text("ey")),
        ] {
            assert_eq!(mark_of(glob), wanted, "{glob}");
        }
    }

    #[test]
    fn braces_are_told_by_what_they_stand_for() {
        let texts =
            |all: &[&str]| Some(all.iter().map(|text| GlobLiteral::Text((*text).into())).collect::<Vec<_>>());
        assert_eq!(marks_of("**/*.{key,pem}"), texts(&[".key", ".pem"]));
        assert_eq!(marks_of("**/{a,b}.{c,dd}"), texts(&["a.", "b."]));
        for glob in ["**/*.{key,*}", "**/{a,{b,c}}", "**/{[{],b}", "**/{a", "**/*.{a\\},b}"] {
            assert_eq!(marks_of(glob), None, "{glob}");
        }
    }

    // req: B7
    #[test]
    fn nothing_that_a_rule_hides_goes_through() {
        let places = PathVariables {
            workspace: Some("/w"),
            home: Some("/h"),
            state: Some("/h/s"),
            ..PathVariables::default()
        };
        let mut rules = builtin_rules(&places).unwrap();
        let text = "[[rule]]\nid = \"a\"\nverdict = \"deny\"\nread = [\"/w/Keys/\", \"/w/b*/*.x\", \"**/pr[io]vate?\", \"**/{one,two}-x\", \"**/*.{ZZ,qq}\"]\nreason = \"-\"\n\
                    [[rule]]\nid = \"b\"\nverdict = \"ask\"\nread = \"**/asked/*.y\"\nreason = \"-\"\n";
        let file = RuleFile { name: "p", layer: Layer::User, text };
        rules.extend(load_rules(&file, &places, &SkipExamples).unwrap().rules);
        let policy = Arc::new(Policy::new(rules).unwrap());
        let sieve = HiddenPrefilter::for_policy(&policy, &[]);
        let marker = from_plan::path_policy(&Plan::default(), &policy, Path::new("/w"));
        let steps = [
            "w",
            "a",
            "src",
            "keys",
            "KEYS",
            "bb",
            "b",
            "q.x",
            "private1",
            "Provates",
            "one-x",
            "n.zz",
            "n.QQ",
            "TWO-X",
            "asked",
            "z.y",
            ".env",
            ".ENV.local",
            "id_rsa.pub",
            "my-Credentials.json",
            ".\u{212a}ube",
            ".kube",
            "config",
            ".ssh",
            "h",
            "s",
            "server.\u{212a}ey",
            "server.key",
            "main.rs",
            ".config",
            "gh",
            "etc",
            "shadow-",
            "byleave",
            ".netrc",
            "x",
        ];
        let (mut hidden, mut spared) = (0, 0);
        for one in steps {
            for two in steps {
                for three in steps {
                    let directory = format!("/{one}/{two}");
                    let path = format!("{directory}/{three}");
                    let is_hidden = marker.is_hidden(&path);
                    let asks =
                        sieve.must_check_directory(&directory) || sieve.must_check_name(three.as_bytes());
                    assert!(asks || !is_hidden, "{path}");
                    hidden += u32::from(is_hidden);
                    spared += u32::from(!asks);
                }
            }
        }
        assert!(hidden > 5_000 && spared > 1_000, "{hidden} {spared}");
        assert!(
            !sieve.must_check_directory("/w/src/a") && !sieve.must_check_name(b"main.rs"),
            "it spares nothing"
        );
    }
}

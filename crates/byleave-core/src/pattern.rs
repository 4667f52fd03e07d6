//! Patterns over effects: what rules and leaves are about.

use globset::{Glob, GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use crate::effect::Effect;

/// A pattern that one effect fits or does not. `Unknown` and `Unconfined` fit none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// A program and its leading words.
    Run(Vec<String>),
    /// A glob over read paths.
    Read(String),
    /// A glob over written paths.
    Write(String),
    /// A glob over deleted paths.
    Delete(String),
    /// A host, or `*.` and a domain for everything beneath it.
    Reach(String),
    /// A glob over tool names.
    Invoke(String),
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// The glob does not parse.
    #[error("cannot use glob `{glob}`: {why}")]
    Glob {
        /// As it was written.
        glob: String,
        /// What is wrong with it.
        why: String,
    },
    /// The host pattern is not a host.
    #[error("cannot use host `{0}`: write a host name, or `*.` and a domain")]
    Host(String),
    /// The run pattern has no program.
    #[error("a run pattern begins with a program")]
    EmptyRun,
}

/// A pattern made ready to match.
#[derive(Clone, Debug)]
pub struct Matcher {
    pattern: Pattern,
    glob: Option<GlobMatcher>,
}

impl Matcher {
    /// Makes a pattern ready, or says what is wrong with it.
    pub fn new(pattern: Pattern) -> Result<Self, BadPattern> {
        let glob = match &pattern {
            Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob) | Pattern::Invoke(glob) => {
                Some(glob_of(glob)?.compile_matcher())
            }
            Pattern::Run(words) if words.is_empty() => return Err(BadPattern::EmptyRun),
            Pattern::Reach(host) if !is_host_pattern(host) => return Err(BadPattern::Host(host.clone())),
            Pattern::Run(_) | Pattern::Reach(_) => None,
        };
        Ok(Self { pattern, glob })
    }

    /// The pattern as it was written.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether the effect fits.
    pub fn fits(&self, effect: &Effect) -> bool {
        let globs = |text: &str| self.glob.as_ref().is_some_and(|glob| glob.is_match(text));
        match (&self.pattern, effect) {
            (Pattern::Read(_), Effect::Read { path })
            | (Pattern::Write(_), Effect::Write { path })
            | (Pattern::Delete(_), Effect::Delete { path }) => globs(path),
            (Pattern::Invoke(_), Effect::Invoke { tool }) => globs(tool),
            (Pattern::Reach(pattern), Effect::Reach { host, .. }) => host_fits(pattern, host),
            (Pattern::Run(words), Effect::Run { program, argv }) => run_fits(words, program, argv),
            _ => false,
        }
    }
}

/// A glob as patterns mean it: `*` stays within one step of a path.
pub(crate) fn glob_of(glob: &str) -> Result<Glob, BadPattern> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .map_err(|error| BadPattern::Glob { glob: glob.into(), why: error.kind().to_string() })
}

fn is_host_pattern(pattern: &str) -> bool {
    let host = pattern.strip_prefix("*.").unwrap_or(pattern);
    // An empty label fits no host, so `evil.example.` would be a deny that denies nothing.
    host.split('.').all(|label| !label.is_empty())
        && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'))
}

/// Label by label: `*.example.org` is everything beneath `example.org`, not `example.org` and not `notexample.org`.
fn host_fits(pattern: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.');
    match pattern.strip_prefix("*.") {
        None => host.eq_ignore_ascii_case(pattern),
        Some(domain) => {
            let labels: Vec<&str> = host.split('.').collect();
            let domain: Vec<&str> = domain.split('.').collect();
            let Some(split) = labels.len().checked_sub(domain.len()) else { return false };
            let (above, tail) = labels.split_at(split);
            !above.is_empty() && tail.iter().zip(&domain).all(|(a, b)| a.eq_ignore_ascii_case(b))
        }
    }
}

fn run_fits(words: &[String], program: &str, argv: &[String]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    let named = if first.contains('/') { first == program } else { first == name };
    named && argv.len() > rest.len() && rest.iter().zip(argv.iter().skip(1)).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_fit_by_kind_and_target() {
        let check = |pattern: Pattern, effect: &Effect, fits: bool| {
            let matcher = Matcher::new(pattern.clone()).unwrap();
            assert_eq!(matcher.fits(effect), fits, "{pattern:?} / {effect}");
        };
        let read = |path: &str| Effect::Read { path: path.into() };
        check(Pattern::Read("/w/**".into()), &read("/w/a/b"), true);
        check(Pattern::Read("/w/*".into()), &read("/w/a/b"), false);
        check(Pattern::Read("**/.env".into()), &read("/w/.env"), true);
        check(Pattern::Write("/w/**".into()), &read("/w/a"), false);
        let reach = |host: &str| Effect::Reach { host: host.into(), port: 443 };
        check(Pattern::Reach("*.example.org".into()), &reach("api.example.org"), true);
        check(Pattern::Reach("*.example.org".into()), &reach("example.org"), false);
        check(Pattern::Reach("*.example.org".into()), &reach("notexample.org"), false);
        check(Pattern::Reach("example.org".into()), &reach("EXAMPLE.org."), true);
        let run = |words: &[&str]| Effect::Run {
            program: "/usr/bin/git".into(),
            argv: words.iter().map(|word| (*word).into()).collect(),
        };
        let git_log = Pattern::Run(vec!["git".into(), "log".into()]);
        check(git_log.clone(), &run(&["git", "log", "-1"]), true);
        check(git_log.clone(), &run(&["git", "-c", "log"]), false);
        check(git_log, &run(&["git"]), false);
        check(Pattern::Invoke("mcp_a_*".into()), &Effect::Invoke { tool: "mcp_a_x".into() }, true);
        check(Pattern::Invoke("*".into()), &Effect::Unknown { why: "x".into() }, false);
    }

    #[test]
    fn bad_patterns_are_said() {
        assert!(matches!(Matcher::new(Pattern::Read("[".into())), Err(BadPattern::Glob { .. })));
        assert!(matches!(Matcher::new(Pattern::Reach("http://x".into())), Err(BadPattern::Host(_))));
        for host in ["", "*.", "*", "example.org.", ".example.org", "*..org"] {
            assert!(matches!(Matcher::new(Pattern::Reach(host.into())), Err(BadPattern::Host(_))), "{host}");
        }
        assert!(matches!(Matcher::new(Pattern::Run(vec![])), Err(BadPattern::EmptyRun)));
    }
}

//! Patterns over effects, for rules and standing approvals.
//!
//! A pattern is matched with one of two certainties. For an allow, an effect must *surely* fit. For a deny or an ask, it is enough that it
//! *could* fit: under another spelling, another case, or as a part of what is deleted.

mod path;
mod program;

use globset::GlobMatcher;
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::host::{HostPattern, ParsedHost, PortPattern};

pub use path::literal;
pub(crate) use path::{FoldedGlob, folded, glob_of, holders, place_of};
pub(crate) use program::last_step;
pub use program::stands_in;

/// A pattern over single effects. `Unknown` and `Unconfined` effects match none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// A program and its leading words: by its path, or by the name that the system has for it.
    Run(Vec<String>),
    /// A program and exactly its words. It does not match a run with one more word or under another name.
    Exactly(Vec<String>),
    /// A glob over read paths.
    Read(String),
    /// A glob over written paths.
    Write(String),
    /// A glob over deleted paths.
    Delete(String),
    /// A host, `*` for every host, `*.` and a domain for everything beneath it, or an address, with `/` and its bits for a net. A port may
    /// follow as `:` and a number, or `:*`. Without a port, an allow is for the web ports and a deny for all ports.
    Reach(String),
    /// A glob over tool names.
    Invoke(String),
    /// Exactly all effects of one plan: the same command in the same place. It is valid only in standing approvals, which see the whole
    /// plan. No single effect matches it.
    Plan(Vec<Effect>),
}

/// The error of an invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The glob does not parse.
    #[error("cannot use glob `{glob}`: {why}")]
    Glob {
        /// The glob as it was written.
        glob: String,
        /// The reason.
        why: String,
    },
    /// The host pattern is not a host.
    #[error(
        "cannot use host `{0}`: write a host name, `*.` and a domain, `*` for every host, or an address or net like `10.0.0.0/8`; and a port behind it, as in `example.org:22` or `example.org:*`"
    )]
    Host(String),
    /// The run pattern has no program.
    #[error("a run pattern begins with a program")]
    EmptyRun,
    /// The pattern of a whole plan has no effects.
    #[error("a pattern about a whole plan names its effects")]
    EmptyPlan,
    /// A rule has a pattern for a whole plan, but rules match single effects.
    #[error("only a leave can be about a whole plan, not a rule")]
    PlanInRule,
}

/// The certainty with which an effect must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchCertainty {
    /// The effect fits under every interpretation. An allow, a standing approval and an exception from a deny need this.
    Surely,
    /// The effect could fit. A deny, an ask and an exception from an allow use this.
    Possibly,
}

impl Pattern {
    /// Returns the pattern that matches only this effect on a path. `None` for an effect without a path.
    pub fn of_path(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Read { path } => Some(Self::Read(literal(path))),
            Effect::Write { path } => Some(Self::Write(literal(path))),
            Effect::Delete { path } => Some(Self::Delete(literal(path))),
            _ => None,
        }
    }

    /// Checks whether the pattern is valid.
    pub fn check(&self) -> Result<(), PatternError> {
        match self {
            Self::Read(glob) | Self::Write(glob) | Self::Delete(glob) | Self::Invoke(glob) => {
                glob_of(glob).map(|_| ())
            }
            Self::Run(words) | Self::Exactly(words) if words.first().is_none_or(String::is_empty) => {
                Err(PatternError::EmptyRun)
            }
            Self::Plan(effects) if effects.is_empty() => Err(PatternError::EmptyPlan),
            Self::Run(_) | Self::Exactly(_) | Self::Plan(_) => Ok(()),
            Self::Reach(host) => host_pattern(host).map(|_| ()),
        }
    }

    /// Returns the name of the kind of effect that it matches.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) | Self::Exactly(_) => "run",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Delete(_) => "delete",
            Self::Reach(_) => "reach",
            Self::Invoke(_) => "invoke",
            Self::Plan(_) => "plan",
        }
    }
}

/// A pattern, compiled for one certainty.
#[derive(Clone, Debug)]
pub struct PatternMatcher {
    pattern: Pattern,
    sense: MatchCertainty,
    exact: Vec<GlobMatcher>,
    folded: Vec<GlobMatcher>,
    holders: Vec<String>,
    host: Option<(HostPattern, PortPattern)>,
}

impl PatternMatcher {
    /// Compiles a pattern that effects must surely fit, or returns its error.
    pub fn new(pattern: Pattern) -> Result<Self, PatternError> {
        Self::in_sense(pattern, MatchCertainty::Surely)
    }

    /// Compiles a pattern for this certainty, or returns its error.
    pub fn in_sense(pattern: Pattern, sense: MatchCertainty) -> Result<Self, PatternError> {
        pattern.check()?;
        let (mut exact, mut folded, mut above, mut host) = (Vec::new(), Vec::new(), Vec::new(), None);
        match (&pattern, sense) {
            (
                Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob),
                MatchCertainty::Possibly,
            ) => {
                let wide = FoldedGlob::new(glob)?;
                exact = wide.exact.iter().map(globset::Glob::compile_matcher).collect();
                folded = wide.folded.iter().map(globset::Glob::compile_matcher).collect();
                above = holders(glob);
            }
            (Pattern::Invoke(glob), MatchCertainty::Possibly) => {
                folded.push(glob_of(&path::folded(glob))?.compile_matcher());
                exact.push(glob_of(glob)?.compile_matcher());
            }
            (
                Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob) | Pattern::Invoke(glob),
                MatchCertainty::Surely,
            ) => exact.push(glob_of(glob)?.compile_matcher()),
            (Pattern::Reach(text), _) => host = Some(host_pattern(text)?),
            (Pattern::Run(_) | Pattern::Exactly(_) | Pattern::Plan(_), _) => {}
        }
        Ok(Self { pattern, sense, exact, folded, holders: above, host })
    }

    /// Returns the pattern as it was written.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Checks whether the effect fits, with the certainty of this matcher.
    pub fn fits(&self, effect: &Effect) -> bool {
        match (&self.pattern, effect) {
            (Pattern::Read(_), Effect::Read { path })
            | (Pattern::Write(_), Effect::Write { path })
            | (Pattern::Delete(_), Effect::Delete { path }) => self.globs(path) || self.held(effect),
            (Pattern::Read(_) | Pattern::Write(_), Effect::Delete { .. }) => self.held(effect),
            (Pattern::Invoke(_), Effect::Invoke { tool }) => self.globs(tool),
            (Pattern::Reach(_), Effect::Reach { host, port }) => self.hosts(host, *port),
            (Pattern::Run(words), Effect::Run { program, argv }) => {
                run_fits(self.sense, words, program, argv)
            }
            (Pattern::Exactly(words), Effect::Run { program, argv }) => {
                exactly_fits(self.sense, words, program, argv)
            }
            _ => false,
        }
    }

    fn globs(&self, text: &str) -> bool {
        self.exact.iter().any(|glob| glob.is_match(text))
            || !self.folded.is_empty() && {
                let small = folded(text);
                self.folded.iter().any(|glob| glob.is_match(small.as_ref()))
            }
    }

    /// Checks whether the effect deletes a directory that contains something that the pattern matches.
    fn held(&self, effect: &Effect) -> bool {
        let Effect::Delete { path } = effect else { return false };
        !self.holders.is_empty() && {
            let small = folded(path);
            self.holders.iter().any(|holder| *holder == small)
        }
    }

    fn hosts(&self, host: &str, port: u16) -> bool {
        let Some((pattern, ports)) = &self.host else { return false };
        match (ParsedHost::read(host), self.sense) {
            (Some(host), MatchCertainty::Surely) => pattern.fits(&host) && ports.fit(port),
            (Some(host), MatchCertainty::Possibly) => pattern.could_fit(&host) && ports.could_fit(port),
            // A text that cannot be a host is denied with every host.
            (None, MatchCertainty::Possibly) => *pattern == HostPattern::Any && ports.could_fit(port),
            (None, MatchCertainty::Surely) => false,
        }
    }
}

/// Checks whether a run fits program and words, with this certainty.
pub(crate) fn run_fits(sense: MatchCertainty, words: &[String], program: &str, argv: &[String]) -> bool {
    match sense {
        MatchCertainty::Surely => program::fits(words, program, argv),
        MatchCertainty::Possibly => program::could_fit(words, program, argv),
    }
}

/// Checks whether a run is exactly this program with these words. It could be, if it begins like this.
pub(crate) fn exactly_fits(sense: MatchCertainty, words: &[String], program: &str, argv: &[String]) -> bool {
    match sense {
        MatchCertainty::Surely => program::is_exactly(words, program, argv),
        MatchCertainty::Possibly => program::could_fit(words, program, argv),
    }
}

/// Parses a pattern over hosts and their ports.
pub(crate) fn host_pattern(text: &str) -> Result<(HostPattern, PortPattern), PatternError> {
    HostPattern::with_ports(text).ok_or_else(|| PatternError::Host(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_fit_by_kind_and_target() {
        let check = |pattern: Pattern, effect: &Effect, fits: bool| {
            let matcher = PatternMatcher::new(pattern.clone()).unwrap();
            assert_eq!(matcher.fits(effect), fits, "{pattern:?} / {effect}");
        };
        let read = |path: &str| Effect::Read { path: path.into() };
        check(Pattern::Read("/w/**".into()), &read("/w/a/b"), true);
        check(Pattern::Read("/w/*".into()), &read("/w/a/b"), false);
        check(Pattern::Read("**/.env".into()), &read("/w/.env"), true);
        check(Pattern::Write("/w/**".into()), &read("/w/a"), false);
        let reach = |host: &str| Effect::Reach { host: host.into(), port: 443 };
        check(Pattern::Reach("*.example.org".into()), &reach("api.example.org"), true);
        check(Pattern::Reach("*".into()), &reach("example.org"), true);
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
        assert!(matches!(PatternMatcher::new(Pattern::Read("[".into())), Err(PatternError::Glob { .. })));
        assert!(matches!(PatternMatcher::new(Pattern::Reach("http://x".into())), Err(PatternError::Host(_))));
        for host in ["", "*.", "**", "example.org.", ".example.org", "*..org"] {
            assert!(
                matches!(PatternMatcher::new(Pattern::Reach(host.into())), Err(PatternError::Host(_))),
                "{host}"
            );
        }
        assert!(matches!(PatternMatcher::new(Pattern::Run(vec![])), Err(PatternError::EmptyRun)));
    }
}

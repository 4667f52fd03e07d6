//! Patterns over effects: what rules and leaves are about.
//!
//! A pattern is asked in one of two senses. Where something is allowed, an effect must *surely* fit; where it is denied or
//! asked about, it is enough that it *could* fit: under another spelling, another case, or as part of what is deleted.

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

/// A pattern that one effect fits or does not. `Unknown` and `Unconfined` fit none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// A program and its leading words: by its path, or by the name that the system has it under.
    Run(Vec<String>),
    /// A program and all of its words, and no run with a word more or under another name.
    Exactly(Vec<String>),
    /// A glob over read paths.
    Read(String),
    /// A glob over written paths.
    Write(String),
    /// A glob over deleted paths.
    Delete(String),
    /// A host, `*` for every host, `*.` and a domain for everything beneath it, or an address, with `/` and its bits for a net. With
    /// `:` and a port, or `:*`; without, an allow is about the ports of the web and a deny about all.
    Reach(String),
    /// A glob over tool names.
    Invoke(String),
    /// All effects of one plan, and no others: the very same command in the very same place. Only in leaves, which see the whole
    /// plan; no single effect fits it.
    Plan(Vec<Effect>),
}

/// A pattern that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The glob does not parse.
    #[error("cannot use glob `{glob}`: {why}")]
    Glob {
        /// As it was written.
        glob: String,
        /// What is wrong with it.
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
    /// A rule is about single effects.
    #[error("only a leave can be about a whole plan, not a rule")]
    PlanInRule,
}

/// How sure it must be that an effect fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchCertainty {
    /// It fits, whoever looks: what an allow, a leave and an exception from a deny need.
    Surely,
    /// It could fit: what a deny, an ask and an exception from an allow see.
    Possibly,
}

impl Pattern {
    /// The pattern that fits this effect on a path and no other; none for an effect that has no path.
    pub fn of_path(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Read { path } => Some(Self::Read(literal(path))),
            Effect::Write { path } => Some(Self::Write(literal(path))),
            Effect::Delete { path } => Some(Self::Delete(literal(path))),
            _ => None,
        }
    }

    /// What is wrong with it, if anything.
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

    /// The word for the kind of effect that it is about.
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

/// A pattern made ready to match in one sense.
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
    /// Makes a pattern ready that effects must surely fit, or says what is wrong with it.
    pub fn new(pattern: Pattern) -> Result<Self, PatternError> {
        Self::in_sense(pattern, MatchCertainty::Surely)
    }

    /// Makes a pattern ready in this sense, or says what is wrong with it.
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

    /// The pattern as it was written.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether the effect fits, in the sense that was wanted.
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

    /// Whether a directory is deleted that holds what the pattern fits.
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
            // What can be no host is denied with every host.
            (None, MatchCertainty::Possibly) => *pattern == HostPattern::Any && ports.could_fit(port),
            (None, MatchCertainty::Surely) => false,
        }
    }
}

/// Whether a run fits program and words, in this sense.
pub(crate) fn run_fits(sense: MatchCertainty, words: &[String], program: &str, argv: &[String]) -> bool {
    match sense {
        MatchCertainty::Surely => program::fits(words, program, argv),
        MatchCertainty::Possibly => program::could_fit(words, program, argv),
    }
}

/// Whether a run is this program with these words and no others. What could be it is whatever begins so.
pub(crate) fn exactly_fits(sense: MatchCertainty, words: &[String], program: &str, argv: &[String]) -> bool {
    match sense {
        MatchCertainty::Surely => program::is_exactly(words, program, argv),
        MatchCertainty::Possibly => program::could_fit(words, program, argv),
    }
}

/// A pattern over hosts and their ports, read.
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

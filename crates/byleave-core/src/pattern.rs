//! Patterns over effects, for rules and standing approvals.
//!
//! A pattern is matched with one of two certainties. For an allow, an effect must *surely* fit. For a deny or an ask, it is enough that it
//! *could* fit: under another spelling, another case, or as a part of what is deleted.

mod glob_matcher;
mod path;
mod program;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::host::{HostPattern, ParsedHost, PortPattern};

pub(crate) use glob_matcher::GlobMatcher;
pub use path::escape_glob;
pub(crate) use path::{
    FoldedGlob, base_path, compile_globs, fold, has_wildcard, may_name, parent_dirs, parse_glob,
};
pub(crate) use program::file_name;
pub use program::is_link_name;

/// A pattern over single effects. `Unknown` and `Unconfined` effects match none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A program and its leading words: by its path, or by the name that the system has for it.
    Run(Vec<String>),
    /// A program and exactly its words. It does not match a run with one more word or under another name.
    RunExact(Vec<String>),
    /// A glob over read paths.
    Read(String),
    /// A glob over written paths.
    Write(String),
    /// A glob over deleted paths.
    Delete(String),
    /// A host, `*` for every host, `*.` and a domain for everything beneath it, or an address, with `/` and its bits for a net. A port may
    /// follow as `:` and a number, or `:*`. Without a port, an allow is for the web ports and a deny for all ports.
    Reach(String),
    /// The hosts that content is sent to, in the same form. Who may send to a host may reach it.
    Send(String),
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
    #[error("cannot use glob `{glob}`: {reason}")]
    Glob {
        /// The glob as it was written.
        glob: String,
        /// The reason.
        reason: String,
    },
    /// The host pattern is not a host.
    #[error(
        "cannot use host `{0}`: write a host name, `*.` and a domain, `*` for every host, or an address or net like `10.0.0.0/8`; add a port if needed, as in `example.org:22` or `example.org:*`"
    )]
    Host(String),
    /// The run pattern has no program.
    #[error("a run pattern must begin with a program")]
    EmptyRun,
    /// The pattern of a whole plan has no effects.
    #[error("a pattern for a whole plan must list its effects")]
    EmptyPlan,
    /// A rule has a pattern for a whole plan, but rules match single effects.
    #[error("only a standing approval can match a whole plan, not a rule")]
    PlanInRule,
}

/// The certainty with which an effect must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchCertainty {
    /// The effect fits under every interpretation. An allow, a standing approval and an exception from a deny need this.
    Certain,
    /// The effect could fit. A deny, an ask and an exception from an allow use this.
    Possible,
}

impl Pattern {
    /// Returns the pattern that matches only this effect on a path. `None` for an effect without a path.
    pub fn for_path(effect: &Effect) -> Option<Self> {
        match effect {
            Effect::Read { path } => Some(Self::Read(escape_glob(path))),
            Effect::Write { path } => Some(Self::Write(escape_glob(path))),
            Effect::Delete { path } => Some(Self::Delete(escape_glob(path))),
            _ => None,
        }
    }

    /// Checks whether everything that the pattern matches lies directly in one directory. If in doubt, `false`.
    pub fn matches_only_entries(&self) -> bool {
        let (Self::Read(glob) | Self::Write(glob) | Self::Delete(glob)) = self else { return false };
        let steps = |path: &str| path.matches('/').count();
        !glob.contains("**")
            && !glob.contains('{')
            && base_path(glob).is_some_and(|base| steps(glob) == steps(&base) + 1)
    }

    /// Checks whether the pattern is valid.
    pub fn check(&self) -> Result<(), PatternError> {
        match self {
            Self::Read(glob) | Self::Write(glob) | Self::Delete(glob) | Self::Invoke(glob) => {
                parse_glob(glob).map(|_| ())
            }
            Self::Reach(host) | Self::Send(host) => parse_host_pattern(host).map(|_| ()),
            Self::Run(_) | Self::RunExact(_) | Self::Plan(_) => self.check_not_empty(),
        }
    }

    /// Checks what compiling the pattern does not check.
    pub(crate) fn check_not_empty(&self) -> Result<(), PatternError> {
        match self {
            Self::Run(words) | Self::RunExact(words) if words.first().is_none_or(String::is_empty) => {
                Err(PatternError::EmptyRun)
            }
            Self::Plan(effects) if effects.is_empty() => Err(PatternError::EmptyPlan),
            _ => Ok(()),
        }
    }

    /// Returns the hosts and ports of a pattern over hosts.
    pub(crate) fn host_pattern(&self) -> Option<(HostPattern, PortPattern)> {
        match self {
            Self::Reach(text) | Self::Send(text) => HostPattern::parse_with_ports(text),
            _ => None,
        }
    }

    /// Checks whether it is a pattern over exactly the loopback of this machine.
    pub fn is_localhost(&self) -> bool {
        self.host_pattern().is_some_and(|(host, _)| host.is_localhost())
    }

    /// Returns the one port of a pattern over hosts, if it names one.
    pub fn host_port(&self) -> Option<u16> {
        match self.host_pattern() {
            Some((_, PortPattern::One(port))) => Some(port),
            _ => None,
        }
    }

    /// Checks whether a pattern over hosts is about this kind of effect.
    ///
    /// Sending includes reaching: an allow of `send` covers both, and so does a deny or an ask of `reach`.
    pub(crate) const fn covers_host_effect(&self, effect: &Effect, certainty: MatchCertainty) -> bool {
        match (self, effect) {
            (Self::Reach(_), Effect::Reach { .. }) | (Self::Send(_), Effect::Send { .. }) => true,
            (Self::Reach(_), Effect::Send { .. }) => matches!(certainty, MatchCertainty::Possible),
            (Self::Send(_), Effect::Reach { .. }) => matches!(certainty, MatchCertainty::Certain),
            _ => false,
        }
    }

    /// Checks whether an effect whose path is a glob of the program may name a file that the pattern is about.
    pub(crate) fn may_be_named_by(&self, effect: &Effect) -> bool {
        match (self, effect) {
            (Self::Read(glob), Effect::Read { path })
            | (Self::Write(glob), Effect::Write { path })
            | (Self::Delete(glob), Effect::Delete { path }) => may_name(path, glob),
            _ => false,
        }
    }

    /// Checks whether it matches every program, as `run = "*"` does.
    pub fn is_any_program(&self) -> bool {
        matches!(self, Self::Run(words) if is_any_program(words))
    }

    /// Returns the name of the kind of effect that it matches.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Run(_) | Self::RunExact(_) => "run",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Delete(_) => "delete",
            Self::Reach(_) => "reach",
            Self::Send(_) => "send",
            Self::Invoke(_) => "invoke",
            Self::Plan(_) => "plan",
        }
    }
}

/// A pattern, compiled for one certainty.
#[derive(Clone, Debug)]
pub struct PatternMatcher {
    pattern: Pattern,
    certainty: MatchCertainty,
    exact: GlobMatcher,
    folded: GlobMatcher,
    parent_dirs: Vec<String>,
    host: Option<(HostPattern, PortPattern)>,
    is_exception: bool,
}

impl PatternMatcher {
    /// Compiles a pattern that effects must surely fit, or returns its error.
    pub fn new(pattern: Pattern) -> Result<Self, PatternError> {
        Self::with_certainty(pattern, MatchCertainty::Certain)
    }

    /// Compiles a pattern for this certainty, or returns its error.
    pub fn with_certainty(pattern: Pattern, sense: MatchCertainty) -> Result<Self, PatternError> {
        pattern.check_not_empty()?;
        let (mut exact, mut folded, mut above, mut host) = (Vec::new(), Vec::new(), Vec::new(), None);
        match (&pattern, sense) {
            (
                Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob),
                MatchCertainty::Possible,
            ) => {
                let wide = FoldedGlob::new(glob)?;
                (exact, folded) = (wide.exact, wide.folded);
                above = parent_dirs(glob);
            }
            (Pattern::Invoke(glob), MatchCertainty::Possible) => {
                folded.push(parse_glob(&fold(glob))?);
                exact.push(parse_glob(glob)?);
            }
            (
                Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob) | Pattern::Invoke(glob),
                MatchCertainty::Certain,
            ) => exact.push(parse_glob(glob)?),
            (Pattern::Reach(text) | Pattern::Send(text), _) => host = Some(parse_host_pattern(text)?),
            (Pattern::Run(_) | Pattern::RunExact(_) | Pattern::Plan(_), _) => {}
        }
        let (exact, folded) = (compile_globs(&exact)?, compile_globs(&folded)?);
        let is_exception = false;
        Ok(Self { pattern, certainty: sense, exact, folded, parent_dirs: above, host, is_exception })
    }

    /// Turns it into an exception from a rule. An exception about a host is for reaching it and for sending to it alike.
    pub(crate) fn into_exception(self) -> Self {
        Self { is_exception: true, ..self }
    }

    /// Returns the pattern as it was written.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// Checks whether the effect fits, with the certainty of this matcher.
    pub fn matches(&self, effect: &Effect) -> bool {
        match (&self.pattern, effect) {
            (Pattern::Read(_), Effect::Read { path })
            | (Pattern::Write(_), Effect::Write { path })
            | (Pattern::Delete(_), Effect::Delete { path }) => {
                self.matches_glob(path) || self.deletes_parent_dir(effect)
            }
            (Pattern::Read(_) | Pattern::Write(_), Effect::Delete { .. }) => self.deletes_parent_dir(effect),
            (Pattern::Invoke(_), Effect::Invoke { tool }) => self.matches_glob(tool),
            (
                Pattern::Reach(_) | Pattern::Send(_),
                Effect::Reach { host, port } | Effect::Send { host, port },
            ) => {
                // A port of this machine is opened whole, because no proxy can read the protocols of its services.
                let is_covered = self.is_exception
                    || self.host.as_ref().is_some_and(|(host, _)| host.is_localhost())
                        && self.certainty == MatchCertainty::Certain
                    || self.pattern.covers_host_effect(effect, self.certainty);
                is_covered && self.matches_host(host, *port)
            }
            (Pattern::Run(words), Effect::Run { program, argv }) => {
                run_matches(self.certainty, words, program, argv)
            }
            // What could not be predicted could be any program.
            (Pattern::Run(words), Effect::Unknown { .. }) => {
                self.certainty == MatchCertainty::Possible && is_any_program(words)
            }
            (Pattern::RunExact(words), Effect::Run { program, argv }) => {
                exact_run_matches(self.certainty, words, program, argv)
            }
            _ => false,
        }
    }

    fn matches_glob(&self, text: &str) -> bool {
        self.exact.is_match(text) || !self.folded.is_empty() && self.folded.is_match(fold(text).as_ref())
    }

    /// Checks whether the effect deletes a directory that contains something that the pattern matches.
    fn deletes_parent_dir(&self, effect: &Effect) -> bool {
        let Effect::Delete { path } = effect else { return false };
        !self.parent_dirs.is_empty() && {
            let small = fold(path);
            self.parent_dirs.iter().any(|holder| *holder == small)
        }
    }

    fn matches_host(&self, host: &str, port: u16) -> bool {
        let Some((pattern, ports)) = &self.host else { return false };
        match (ParsedHost::parse(host), self.certainty) {
            (Some(host), MatchCertainty::Certain) => {
                let fits = if self.is_exception { pattern.matches(&host) } else { pattern.grants(&host) };
                fits && ports.matches(port)
            }
            (Some(host), MatchCertainty::Possible) => pattern.could_match(&host) && ports.could_match(port),
            // A text that cannot be a host is denied with every host.
            (None, MatchCertainty::Possible) => *pattern == HostPattern::Any && ports.could_match(port),
            (None, MatchCertainty::Certain) => false,
        }
    }
}

/// Checks whether the words of a run pattern name every program.
pub(crate) fn is_any_program(words: &[String]) -> bool {
    words == ["*"]
}

/// Checks whether a run fits program and words, with this certainty.
pub(crate) fn run_matches(sense: MatchCertainty, words: &[String], program: &str, argv: &[String]) -> bool {
    match sense {
        _ if is_any_program(words) => true,
        MatchCertainty::Certain => program::matches(words, program, argv),
        MatchCertainty::Possible => program::could_match(words, program, argv),
    }
}

/// Checks whether a run is exactly this program with these words. It could be, if it begins like this.
pub(crate) fn exact_run_matches(
    sense: MatchCertainty,
    words: &[String],
    program: &str,
    argv: &[String],
) -> bool {
    match sense {
        MatchCertainty::Certain => program::matches_exactly(words, program, argv),
        MatchCertainty::Possible => program::could_match(words, program, argv),
    }
}

/// Parses a pattern over hosts and their ports.
pub(crate) fn parse_host_pattern(text: &str) -> Result<(HostPattern, PortPattern), PatternError> {
    HostPattern::parse_with_ports(text).ok_or_else(|| PatternError::Host(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_shows_whether_it_matches_only_entries_of_one_directory() {
        let only_entries = |glob: &str| Pattern::Read(glob.into()).matches_only_entries();
        for glob in ["/etc/shadow*", "/etc/*", "/a/b/[x]y*", "/etc/s?"] {
            assert!(only_entries(glob), "{glob}");
        }
        for glob in [
            "/etc/shadow",
            "/etc/*/x",
            "/etc/**",
            "**/x",
            "/etc/{a,b/c}*",
            "/etc/a**",
            "*",
            "/etc/[/]x*",
            "x/y*",
        ] {
            assert!(!only_entries(glob), "{glob}");
        }
    }

    #[test]
    fn effects_fit_by_kind_and_target() {
        let check = |pattern: Pattern, effect: &Effect, fits: bool| {
            let matcher = PatternMatcher::new(pattern.clone()).unwrap();
            assert_eq!(matcher.matches(effect), fits, "{pattern:?} / {effect}");
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
        let send = |host: &str| Effect::Send { host: host.into(), port: 443 };
        check(Pattern::Reach("example.org".into()), &send("example.org"), false);
        check(Pattern::Send("example.org".into()), &send("example.org"), true);
        check(Pattern::Send("example.org".into()), &reach("example.org"), true);
        let could = |pattern, effect: &Effect| {
            PatternMatcher::with_certainty(pattern, MatchCertainty::Possible).unwrap().matches(effect)
        };
        assert!(could(Pattern::Reach("example.org".into()), &send("example.org")));
        assert!(!could(Pattern::Send("example.org".into()), &reach("example.org")));
        let run = |words: &[&str]| Effect::Run {
            program: "/usr/bin/git".into(),
            argv: words.iter().map(|word| (*word).into()).collect(),
        };
        let git_log = Pattern::Run(vec!["git".into(), "log".into()]);
        check(git_log.clone(), &run(&["git", "log", "-1"]), true);
        check(git_log.clone(), &run(&["git", "-c", "log"]), false);
        check(git_log, &run(&["git"]), false);
        check(Pattern::Invoke("mcp_a_*".into()), &Effect::Invoke { tool: "mcp_a_x".into() }, true);
        check(Pattern::Invoke("*".into()), &Effect::Unknown { reason: "x".into() }, false);
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

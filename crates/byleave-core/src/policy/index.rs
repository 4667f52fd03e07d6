//! The index: finds the rules that match an effect without testing each of them.
//!
//! It must find exactly those rules that have a matching [`PatternMatcher`](crate::pattern::PatternMatcher), with the certainty that the
//! rule needs. It is only an optimization.

use std::collections::HashMap;

use globset::Glob;
use regex_automata::meta::BuildError;

use crate::effect::Effect;
use crate::host::{AddressNumber, HostPattern, LOCALHOST, ParsedHost, PortPattern, mask_prefix};
use crate::pattern::{
    FoldedGlob, GlobMatcher, MatchCertainty, Pattern, PatternError, exact_run_matches, file_name, fold,
    is_any_program, parent_dirs, parse_glob, parse_host_pattern, run_matches,
};

/// The number of a rule: its position in the policy.
pub(super) type RuleNumber = u32;

/// Patterns by kind, and within a kind by the target of the effect.
#[derive(Debug)]
pub(super) struct PatternIndex {
    read: GlobIndex,
    write: GlobIndex,
    delete: GlobIndex,
    invoke: GlobIndex,
    /// The rules about something in a directory, by directory, case-folded.
    parent_dirs: HashMap<String, Vec<RuleNumber>>,
    run: ProgramIndex,
    /// The rules about every program.
    any_program: Vec<(MatchCertainty, RuleNumber)>,
    reach: HostIndex,
    send: HostIndex,
}

#[derive(Debug)]
struct GlobIndex {
    exact: GlobMatcher,
    exact_rules: Vec<RuleNumber>,
    folded: GlobMatcher,
    folded_rules: Vec<RuleNumber>,
}

/// Keyed by the last step of the program's path, case-folded; then by the first argument that is not an option, if there is one.
type ProgramIndex = HashMap<String, HashMap<String, Vec<ArgvRule>>>;

#[derive(Debug)]
struct ArgvRule {
    words: Vec<String>,
    /// Matches only exactly these arguments.
    exact: bool,
    certainty: MatchCertainty,
    rule: RuleNumber,
}

#[derive(Debug, Default)]
struct HostIndex {
    /// Matches every host. A deny also matches a text that cannot be a host.
    any: Vec<PortRule>,
    names: HashMap<String, Vec<PortRule>>,
    /// Matches everything beneath a domain, keyed by the domain.
    subdomains: HashMap<String, Vec<PortRule>>,
    nets: HashMap<(u32, AddressNumber), Vec<PortRule>>,
    /// The prefix lengths of all nets.
    prefix_lens: Vec<u32>,
}

/// The ports of a matching host, and the rule about them.
#[derive(Clone, Copy, Debug)]
struct PortRule {
    ports: PortPattern,
    certainty: MatchCertainty,
    rule: RuleNumber,
}

impl PortRule {
    /// Returns the rule if the port fits, and the host fits with the certainty that the rule needs.
    const fn matching_rule(&self, port: u16, is_sure: bool) -> Option<RuleNumber> {
        let fits = match self.certainty {
            MatchCertainty::Certain => is_sure && self.ports.matches(port),
            MatchCertainty::Possible => self.ports.could_match(port),
        };
        if fits { Some(self.rule) } else { None }
    }
}

/// Buffers that are reused from effect to effect.
#[derive(Debug, Default)]
pub(super) struct IndexScratch {
    /// The rules that were found, in order, without duplicates.
    pub(super) found: Vec<RuleNumber>,
}

/// Collects patterns one by one.
#[derive(Default)]
pub(super) struct PatternIndexBuilder {
    read: GlobIndexBuilder,
    write: GlobIndexBuilder,
    delete: GlobIndexBuilder,
    invoke: GlobIndexBuilder,
    parent_dirs: HashMap<String, Vec<RuleNumber>>,
    run: ProgramIndex,
    any_program: Vec<(MatchCertainty, RuleNumber)>,
    reach: HostIndex,
    send: HostIndex,
}

#[derive(Default)]
struct GlobIndexBuilder {
    exact: Vec<Glob>,
    exact_rules: Vec<RuleNumber>,
    folded: Vec<Glob>,
    folded_rules: Vec<RuleNumber>,
}

impl PatternIndex {
    /// Finds the rules that have a pattern that fits the effect.
    pub(super) fn find(&self, effect: &Effect, scratch: &mut IndexScratch) {
        let found = &mut scratch.found;
        found.clear();
        match effect {
            Effect::Read { path } => self.read.find(path, found),
            Effect::Write { path } => self.write.find(path, found),
            Effect::Delete { path } => {
                self.delete.find(path, found);
                found.extend(self.parent_dirs.get(fold(path).as_ref()).into_iter().flatten());
            }
            Effect::Invoke { tool } => self.invoke.find(tool, found),
            Effect::Run { program, argv } => self.find_run(program, argv, found),
            Effect::Reach { host, port } => self.reach.find(host, *port, found),
            Effect::Send { host, port } => self.send.find(host, *port, found),
            Effect::Unknown { .. } => {
                let possible = |(certainty, _): &&_| *certainty == MatchCertainty::Possible;
                found.extend(self.any_program.iter().filter(possible).map(|(_, rule)| *rule));
            }
            Effect::Unconfined { .. } => {}
        }
        found.sort_unstable();
        found.dedup();
    }

    fn find_run(&self, program: &str, argv: &[String], found: &mut Vec<RuleNumber>) {
        found.extend(self.any_program.iter().map(|(_, rule)| *rule));
        let called = argv.first().map_or("", String::as_str);
        let mut firsts: Vec<&str> = argv.iter().skip(1).map(String::as_str).chain([""]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let mut seen = "";
        for name in [file_name(program), file_name(called)] {
            if name == seen {
                continue;
            }
            seen = name;
            let Some(named) = self.run.get(fold(name).as_ref()) else { continue };
            for words in firsts.iter().filter_map(|first| named.get(*first)).flatten() {
                let fits = if words.exact { exact_run_matches } else { run_matches };
                if fits(words.certainty, &words.words, program, argv) {
                    found.push(words.rule);
                }
            }
        }
    }
}

impl HostIndex {
    fn find(&self, host: &str, port: u16, found: &mut Vec<RuleNumber>) {
        let host = ParsedHost::parse(host);
        let is_local = host.as_ref().is_some_and(ParsedHost::is_localhost);
        found
            .extend(self.any.iter().filter_map(|door| door.matching_rule(port, host.is_some() && !is_local)));
        let Some(host) = host else { return };
        let mut take = |doors: Option<&Vec<PortRule>>, is_sure: bool| {
            found.extend(doors.into_iter().flatten().filter_map(|door| door.matching_rule(port, is_sure)));
        };
        take(self.names.get(&host.name), true);
        if is_local && host.name != LOCALHOST {
            take(self.names.get(LOCALHOST), true);
        }
        let mut rest = host.name.as_str();
        while let Some((_, domain)) = rest.split_once('.').filter(|_| host.possible_addresses.is_empty()) {
            take(self.subdomains.get(domain), true);
            rest = domain;
        }
        for bits in &self.prefix_lens {
            for address in host.addresses() {
                // See `HostPattern::grants`.
                let is_sure = if is_local { *bits == 128 } else { host.address == Some(address) };
                take(self.nets.get(&(*bits, mask_prefix(address, *bits))), is_sure);
            }
        }
    }

    fn add(&mut self, (pattern, ports): (HostPattern, PortPattern), sense: MatchCertainty, rule: RuleNumber) {
        let door = PortRule { ports, certainty: sense, rule };
        match pattern {
            HostPattern::Any => self.any.push(door),
            HostPattern::Name(name) => self.names.entry(name).or_default().push(door),
            HostPattern::Subdomains(domain) => self.subdomains.entry(domain).or_default().push(door),
            HostPattern::Net { base, prefix_len: bits } => {
                self.nets.entry((bits, base)).or_default().push(door);
                if !self.prefix_lens.contains(&bits) {
                    self.prefix_lens.push(bits);
                }
            }
        }
    }
}

impl GlobIndex {
    fn find(&self, text: &str, found: &mut Vec<RuleNumber>) {
        self.exact.for_each_match(text, |glob| found.extend(self.exact_rules.get(glob)));
        if self.folded.is_empty() {
            return;
        }
        self.folded.for_each_match(fold(text).as_ref(), |glob| found.extend(self.folded_rules.get(glob)));
    }
}

impl PatternIndexBuilder {
    /// Adds one pattern of a rule, or returns its error.
    pub(super) fn add(
        &mut self,
        pattern: &Pattern,
        sense: MatchCertainty,
        rule: RuleNumber,
    ) -> Result<(), PatternError> {
        pattern.check_not_empty()?;
        match pattern {
            Pattern::Read(glob) => self.read.add(glob, sense, rule)?,
            Pattern::Write(glob) => self.write.add(glob, sense, rule)?,
            Pattern::Delete(glob) => self.delete.add(glob, sense, rule)?,
            Pattern::Invoke(glob) => self.invoke.add_name(glob, sense, rule)?,
            Pattern::Run(words) if is_any_program(words) => self.any_program.push((sense, rule)),
            Pattern::Run(words) | Pattern::RunExact(words) => {
                let exactly = matches!(pattern, Pattern::RunExact(_));
                let mut words_of = words.iter();
                let program = words_of.next().map_or("", |word| file_name(word));
                let first = match sense {
                    MatchCertainty::Certain => words_of.next(),
                    MatchCertainty::Possible => words_of.find(|word| !word.starts_with('-')),
                };
                let named = self.run.entry(fold(program).into_owned()).or_default();
                let entry = named.entry(first.cloned().unwrap_or_default()).or_default();
                entry.push(ArgvRule { words: words.clone(), exact: exactly, certainty: sense, rule });
            }
            Pattern::Reach(host) | Pattern::Send(host) => {
                let is_send = matches!(pattern, Pattern::Send(_));
                // Sending includes reaching: see `Pattern::covers_host_effect`.
                if !is_send || sense == MatchCertainty::Certain {
                    self.reach.add(parse_host_pattern(host)?, sense, rule);
                }
                let is_local = || parse_host_pattern(host).is_ok_and(|(host, _)| host.is_localhost());
                if is_send || sense == MatchCertainty::Possible || is_local() {
                    self.send.add(parse_host_pattern(host)?, sense, rule);
                }
            }
            Pattern::Plan(_) => return Err(PatternError::PlanInRule),
        }
        if let (
            Pattern::Read(glob) | Pattern::Write(glob) | Pattern::Delete(glob),
            MatchCertainty::Possible,
        ) = (pattern, sense)
        {
            for holder in parent_dirs(glob) {
                self.parent_dirs.entry(holder).or_default().push(rule);
            }
        }
        Ok(())
    }

    /// Builds the index. An error applies to all globs of one kind together.
    pub(super) fn build(self) -> Result<PatternIndex, Box<BuildError>> {
        Ok(PatternIndex {
            read: self.read.build()?,
            write: self.write.build()?,
            delete: self.delete.build()?,
            invoke: self.invoke.build()?,
            parent_dirs: self.parent_dirs,
            run: self.run,
            any_program: self.any_program,
            reach: self.reach,
            send: self.send,
        })
    }
}

impl GlobIndexBuilder {
    fn add(&mut self, glob: &str, sense: MatchCertainty, rule: RuleNumber) -> Result<(), PatternError> {
        match sense {
            MatchCertainty::Certain => self.add_exact(vec![parse_glob(glob)?], rule),
            MatchCertainty::Possible => {
                let wide = FoldedGlob::new(glob)?;
                self.add_exact(wide.exact, rule);
                self.add_folded(wide.folded, rule);
            }
        }
        Ok(())
    }

    fn add_name(&mut self, glob: &str, sense: MatchCertainty, rule: RuleNumber) -> Result<(), PatternError> {
        self.add_exact(vec![parse_glob(glob)?], rule);
        if sense == MatchCertainty::Possible {
            self.add_folded(vec![parse_glob(&fold(glob))?], rule);
        }
        Ok(())
    }

    fn add_exact(&mut self, globs: Vec<Glob>, rule: RuleNumber) {
        self.exact_rules.extend(globs.iter().map(|_| rule));
        self.exact.extend(globs);
    }

    fn add_folded(&mut self, globs: Vec<Glob>, rule: RuleNumber) {
        self.folded_rules.extend(globs.iter().map(|_| rule));
        self.folded.extend(globs);
    }

    fn build(self) -> Result<GlobIndex, Box<BuildError>> {
        Ok(GlobIndex {
            exact: GlobMatcher::new(&self.exact)?,
            exact_rules: self.exact_rules,
            folded: GlobMatcher::new(&self.folded)?,
            folded_rules: self.folded_rules,
        })
    }
}

//! The index: which rules are about an effect, without asking each of them.
//!
//! It must find exactly those rules one of whose [`Matcher`]s fits; it is faster, and nothing else.

use std::collections::HashMap;

use globset::{Glob, GlobSet};

use crate::effect::Effect;
use crate::pattern::{BadPattern, Matcher, Pattern, glob_of};

/// A rule, by its place in the policy.
pub(super) type RuleNo = u32;

/// Patterns by kind, and within a kind by what the effect is about.
#[derive(Debug)]
pub(super) struct Index {
    read: Globs,
    write: Globs,
    delete: Globs,
    invoke: Globs,
    /// By the last step of the program's path.
    run: HashMap<String, Vec<(Matcher, RuleNo)>>,
    /// By host name, lower case.
    host: HashMap<String, Vec<RuleNo>>,
    /// By domain, lower case: everything beneath it.
    domain: HashMap<String, Vec<RuleNo>>,
}

#[derive(Debug)]
struct Globs {
    set: GlobSet,
    rules: Vec<RuleNo>,
}

/// Room to work in, kept from effect to effect.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    globs: Vec<usize>,
    /// The rules that were found, in order, each once.
    pub(super) found: Vec<RuleNo>,
}

/// Takes patterns in, one by one.
#[derive(Default)]
pub(super) struct IndexBuilder {
    read: GlobsBuilder,
    write: GlobsBuilder,
    delete: GlobsBuilder,
    invoke: GlobsBuilder,
    run: HashMap<String, Vec<(Matcher, RuleNo)>>,
    host: HashMap<String, Vec<RuleNo>>,
    domain: HashMap<String, Vec<RuleNo>>,
}

#[derive(Default)]
struct GlobsBuilder {
    globs: Vec<Glob>,
    rules: Vec<RuleNo>,
}

impl Index {
    /// Finds the rules one of whose patterns fits the effect.
    pub(super) fn find(&self, effect: &Effect, scratch: &mut Scratch) {
        let Scratch { globs, found } = scratch;
        found.clear();
        match effect {
            Effect::Read { path } => self.read.find(path, globs, found),
            Effect::Write { path } => self.write.find(path, globs, found),
            Effect::Delete { path } => self.delete.find(path, globs, found),
            Effect::Invoke { tool } => self.invoke.find(tool, globs, found),
            Effect::Run { program, .. } => {
                let named = self.run.get(last_step(program)).into_iter().flatten();
                found.extend(named.filter(|(matcher, _)| matcher.fits(effect)).map(|(_, rule)| *rule));
            }
            Effect::Reach { host, .. } => self.find_host(host, found),
            Effect::Unconfined { .. } | Effect::Unknown { .. } => {}
        }
        found.sort_unstable();
        found.dedup();
    }

    fn find_host(&self, host: &str, found: &mut Vec<RuleNo>) {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        found.extend(self.host.get(&host).into_iter().flatten());
        let mut rest = host.as_str();
        while let Some((_, domain)) = rest.split_once('.') {
            found.extend(self.domain.get(domain).into_iter().flatten());
            rest = domain;
        }
    }
}

impl Globs {
    fn find(&self, text: &str, globs: &mut Vec<usize>, found: &mut Vec<RuleNo>) {
        self.set.matches_into(text, globs);
        found.extend(globs.iter().filter_map(|glob| self.rules.get(*glob)));
    }
}

impl IndexBuilder {
    /// Takes in one pattern of a rule, or says what is wrong with it.
    pub(super) fn add(&mut self, pattern: &Pattern, rule: RuleNo) -> Result<(), BadPattern> {
        let matcher = Matcher::new(pattern.clone())?;
        match pattern {
            Pattern::Read(glob) => self.read.add(glob, rule)?,
            Pattern::Write(glob) => self.write.add(glob, rule)?,
            Pattern::Delete(glob) => self.delete.add(glob, rule)?,
            Pattern::Invoke(glob) => self.invoke.add(glob, rule)?,
            Pattern::Run(words) => {
                let program = words.first().map_or("", |word| last_step(word));
                self.run.entry(program.to_owned()).or_default().push((matcher, rule));
            }
            Pattern::Reach(host) => {
                let host = host.to_ascii_lowercase();
                match host.strip_prefix("*.") {
                    Some(domain) => self.domain.entry(domain.to_owned()).or_default().push(rule),
                    None => self.host.entry(host).or_default().push(rule),
                }
            }
        }
        Ok(())
    }

    /// Makes the index ready; an error is about all globs of one kind together.
    pub(super) fn build(self) -> Result<Index, globset::Error> {
        Ok(Index {
            read: self.read.build()?,
            write: self.write.build()?,
            delete: self.delete.build()?,
            invoke: self.invoke.build()?,
            run: self.run,
            host: self.host,
            domain: self.domain,
        })
    }
}

impl GlobsBuilder {
    fn add(&mut self, glob: &str, rule: RuleNo) -> Result<(), BadPattern> {
        self.globs.push(glob_of(glob)?);
        self.rules.push(rule);
        Ok(())
    }

    fn build(self) -> Result<Globs, globset::Error> {
        Ok(Globs { set: GlobSet::new(self.globs)?, rules: self.rules })
    }
}

fn last_step(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

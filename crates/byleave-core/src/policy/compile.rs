//! A policy: rules that were checked and made ready, and the digest that is their version.

use std::collections::HashMap;

use super::index::{Index, IndexBuilder, RuleNo, Scratch};
use super::rule::{Layer, PolicyFault, Rule, RuleFault};
use crate::digest::Digest;
use crate::effect::Effect;
use crate::pattern::Matcher;
use crate::ruling::Verdict;

/// Raised when the same rules begin to mean something else, so that no ruling is read back across the change.
const ALGEBRA: &str = "1";

/// Rules made ready to judge.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Ready>,
    index: Index,
    digest: Digest,
}

/// A rule made ready.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) rule: Rule,
    pub(super) place: String,
    except: Vec<Matcher>,
}

impl Policy {
    /// Checks the rules and makes them ready; the order in which they come means nothing.
    ///
    /// A rule of the organisation or the user takes the place of the built-in *ask* that has its id. It can take the
    /// place of no other: a user's rule with the id of an organisation's stands beside it.
    pub fn new(mut rules: Vec<Rule>) -> Result<Self, PolicyFault> {
        let digest = version(&rules);
        rules.sort_by(|a, b| (a.layer, &a.id).cmp(&(b.layer, &b.id)));
        for rule in &rules {
            rule.check().map_err(|fault| rule.fault(fault))?;
        }
        for (one, other) in rules.iter().zip(rules.iter().skip(1)) {
            if (one.layer, &one.id) == (other.layer, &other.id) {
                return Err(one.fault(RuleFault::Twice(other.place())));
            }
        }
        let rules = replace(rules)?;
        let mut index = IndexBuilder::default();
        let rules =
            (0..).zip(rules).map(|(no, rule)| ready(rule, no, &mut index)).collect::<Result<_, _>>()?;
        let index = index.build().map_err(|error| PolicyFault::TooLarge(error.to_string()))?;
        Ok(Self { rules, index, digest })
    }

    /// The version of the policy: another one as soon as any rule is another, whatever the order.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The rules in force, by layer and id.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter().map(|ready| &ready.rule)
    }

    pub(super) fn ready(&self, no: RuleNo) -> Option<&Ready> {
        self.rules.get(no as usize)
    }

    /// Finds the rules that are about the effect, by layer and id.
    pub(super) fn find(&self, effect: &Effect, scratch: &mut Scratch) {
        self.index.find(effect, scratch);
        scratch.found.retain(|no| {
            self.ready(*no).is_some_and(|ready| !ready.except.iter().any(|matcher| matcher.fits(effect)))
        });
    }
}

/// Takes out the built-in asks that a rule of the organisation or the user stands in for.
fn replace(rules: Vec<Rule>) -> Result<Vec<Rule>, PolicyFault> {
    let built_in = rules.iter().filter(|rule| rule.layer == Layer::Builtin);
    let built_in: HashMap<String, Verdict> = built_in.map(|rule| (rule.id.clone(), rule.verdict)).collect();
    let mut replaced = Vec::new();
    for rule in rules.iter().filter(|rule| matches!(rule.layer, Layer::Organisation | Layer::User)) {
        match built_in.get(&rule.id) {
            None => {}
            Some(Verdict::Ask) => replaced.push(rule.id.clone()),
            Some(verdict) => return Err(rule.fault(RuleFault::NotReplaceable(*verdict))),
        }
    }
    let stays = |rule: &Rule| rule.layer != Layer::Builtin || !replaced.contains(&rule.id);
    Ok(rules.into_iter().filter(stays).collect())
}

fn ready(rule: Rule, no: RuleNo, index: &mut IndexBuilder) -> Result<Ready, PolicyFault> {
    for pattern in &rule.patterns {
        index.add(pattern, no).map_err(|bad| rule.fault(bad))?;
    }
    let except = rule.except.iter().cloned().map(Matcher::new).collect::<Result<_, _>>();
    let except = except.map_err(|bad| rule.fault(bad))?;
    Ok(Ready { place: rule.place(), except, rule })
}

fn version(rules: &[Rule]) -> Digest {
    let mut each: Vec<Digest> = rules.iter().map(rule_digest).collect();
    each.sort_unstable();
    let algebra = std::iter::once(ALGEBRA.as_bytes());
    let parts: Vec<&[u8]> = algebra.chain(each.iter().map(|digest| digest.as_bytes().as_slice())).collect();
    Digest::of_parts("byleave.policy", &parts)
}

fn rule_digest(rule: &Rule) -> Digest {
    match serde_json::to_vec(rule) {
        Ok(text) => Digest::of_parts("byleave.rule", &[&text]),
        // A rule is strings and flags: it always serializes.
        Err(error) => Digest::of_parts("byleave.rule.unwritable", &[error.to_string().as_bytes()]),
    }
}

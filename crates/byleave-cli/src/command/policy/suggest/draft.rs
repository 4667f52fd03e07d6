//! Drafts of rules: what approved calls have in common, as narrow as it can be said.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use byleave::core::effect::{Effect, Plan};
use byleave::core::id::CallId;
use byleave::core::leave::keys;
use byleave::core::pattern::{Pattern, literal};
use byleave::core::ruling::{Cause, Ruling, Verdict};
use byleave::replay::Replayable;

/// So many approved calls make a habit.
pub(super) const APPROVED_MIN: usize = 2;

/// So many files of one directory stand for the directory; fewer are named one by one.
const FILES_MIN: usize = 3;

/// Where programs are known by their names.
const SYSTEM: [&str; 6] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// A rule that might be suggested.
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) patterns: Vec<Pattern>,
    /// The calls that it is made from.
    pub(super) calls: HashSet<CallId>,
    /// What was approved in them.
    effects: HashSet<Effect>,
}

/// Which paths are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alike {
    /// Those that are the same.
    Path,
    /// Those in the same directory.
    Directory,
}

/// What makes two effects alike: the kind, and the program with its sub-command, the directory, the host or the tool.
type Likeness = (&'static str, String);

/// The effects that someone was asked about: those that no rule covers, or all of them where the tool is sensitive.
pub(super) fn needed<'a>(plan: &'a Plan, ruling: &Ruling) -> Vec<&'a Effect> {
    if !ruling.causes().into_iter().all(Cause::is_uncovered) {
        return plan.effects.iter().collect();
    }
    let asks = ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    let places = asks.flat_map(|reason| &reason.effects);
    places.filter_map(|place| plan.effects.get(*place as usize)).collect()
}

/// One draft for every likeness of calls that were approved often enough.
pub(super) fn drafts(approved: &[&Replayable], alike: Alike, taken: &mut HashSet<String>) -> Vec<Draft> {
    let mut groups: BTreeMap<BTreeSet<Likeness>, Vec<&Replayable>> = BTreeMap::new();
    for past in approved {
        let asked = past.questions.iter().flat_map(|asked| needed(&asked.plan, &asked.ruling));
        let same: BTreeSet<Likeness> = asked.map(|effect| likeness(effect, alike)).collect();
        groups.entry(same).or_default().push(past);
    }
    let often = groups.into_iter().filter(|(_, calls)| calls.len() >= APPROVED_MIN);
    often
        .filter_map(|(_, calls)| {
            let patterns = patterns(&calls, alike)?;
            let id = name(&patterns, taken);
            let asked = calls.iter().flat_map(|past| &past.questions);
            let effects = asked.flat_map(|asked| needed(&asked.plan, &asked.ruling)).cloned().collect();
            Some(Draft { id, patterns, calls: calls.iter().map(|past| past.call).collect(), effects })
        })
        .collect()
}

fn likeness(effect: &Effect, alike: Alike) -> Likeness {
    let what = match effect {
        Effect::Run { program, argv } => {
            let sub = argv.get(1).filter(|word| is_sub_command(word)).map_or("", String::as_str);
            format!("{program} {sub}")
        }
        Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => match alike {
            Alike::Path => path.clone(),
            Alike::Directory => folder(path).to_owned(),
        },
        Effect::Reach { host, .. } => host.clone(),
        Effect::Invoke { tool } => tool.clone(),
        Effect::Unconfined { guarantee } => guarantee.clone(),
        Effect::Unknown { why } => why.clone(),
    };
    (effect.kind(), what)
}

fn is_sub_command(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == ':')
}

/// What all of these have in common; none where something about them cannot be said in a rule.
fn patterns(calls: &[&Replayable], alike: Alike) -> Option<Vec<Pattern>> {
    let mut groups: BTreeMap<Likeness, Vec<&Effect>> = BTreeMap::new();
    for past in calls {
        for asked in &past.questions {
            for effect in needed(&asked.plan, &asked.ruling) {
                groups.entry(likeness(effect, alike)).or_default().push(effect);
            }
        }
    }
    let mut patterns = Vec::new();
    for effects in groups.values() {
        patterns.extend(common(effects)?);
    }
    (!patterns.is_empty()).then_some(patterns)
}

fn common(effects: &[&Effect]) -> Option<Vec<Pattern>> {
    match effects.first()? {
        Effect::Run { program, argv } => {
            let mut words: Vec<&String> = argv.iter().take_while(|word| is_certain(word)).collect();
            for effect in effects {
                let Effect::Run { argv, .. } = effect else { return None };
                let same = words.iter().zip(argv).take_while(|(one, other)| **one == *other).count();
                words.truncate(same);
            }
            let name = words.first()?.as_str();
            let known = program.rsplit_once('/').is_none_or(|(folder, _)| SYSTEM.contains(&folder));
            let by = if known && !name.contains('/') { name } else { program.as_str() };
            let rest = words.iter().skip(1).map(|word| (*word).clone());
            Some(vec![Pattern::Run(std::iter::once(by.to_owned()).chain(rest).collect())])
        }
        Effect::Read { .. } => paths(effects, Pattern::Read),
        Effect::Write { .. } => paths(effects, Pattern::Write),
        Effect::Delete { .. } => paths(effects, Pattern::Delete),
        Effect::Reach { host, .. } => Some(vec![Pattern::Reach(host.clone())]),
        Effect::Invoke { tool } => Some(vec![Pattern::Invoke(literal(tool))]),
        Effect::Unconfined { .. } | Effect::Unknown { .. } => None,
    }
}

/// A word that is what it seems, and can stand in a rule: rules are taken apart at blanks.
fn is_certain(word: &str) -> bool {
    !word.is_empty() && !word.contains('…') && !word.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn paths(effects: &[&Effect], kind: fn(String) -> Pattern) -> Option<Vec<Pattern>> {
    let paths: BTreeSet<&str> = effects.iter().filter_map(|effect| effect.path()).collect();
    let folder = folder(paths.first()?);
    if paths.len() >= FILES_MIN && !folder.is_empty() {
        return Some(vec![kind(format!("{}/*", literal(folder)))]);
    }
    Some(paths.into_iter().map(|path| kind(literal(path))).collect())
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A name that no rule has yet.
fn name(patterns: &[Pattern], taken: &mut HashSet<String>) -> String {
    let text = match patterns.first() {
        Some(Pattern::Run(words) | Pattern::Exactly(words)) => {
            words.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        Some(Pattern::Read(text) | Pattern::Write(text) | Pattern::Delete(text)) => {
            text.trim_end_matches("/*").rsplit('/').next().unwrap_or_default().to_owned()
        }
        Some(Pattern::Reach(text) | Pattern::Invoke(text)) => text.clone(),
        None => String::new(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = text.chars().map(plain).take(40).collect();
    let base = format!("spare-{}", slug.trim_matches('-'));
    let mut id = base.clone();
    let mut number = 1_u32;
    while !taken.insert(id.clone()) {
        number = number.saturating_add(1);
        id = format!("{base}-{number}");
    }
    id
}

impl Draft {
    /// Whether each of these effects was approved, exactly as it is.
    pub(super) fn has_all_of(&self, effects: &[&Effect]) -> bool {
        effects.iter().all(|effect| self.effects.contains(*effect))
    }

    /// The rule as it would stand in a file.
    pub(super) fn toml(&self) -> String {
        let mut toml = format!("[[rule]]\nid = \"{}\"\nverdict = \"allow\"\n", self.id.as_str());
        for line in keys(&self.patterns) {
            toml.push_str(&format!("{line}\n"));
        }
        toml.push_str(&format!("why = \"asked {} times, and always answered yes\"\n", self.calls.len()));
        toml
    }
}

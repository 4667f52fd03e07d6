//! Drafts of rules: what approved calls have in common, as narrow as possible.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use byleave_gate::core::approval_scopes::{exact_run_pattern, prefix_run_pattern};
use byleave_gate::core::decision::{AskCause, PolicyDecision, Verdict};
use byleave_gate::core::effect::{Effect, Plan};
use byleave_gate::core::id::CallId;
use byleave_gate::core::pattern::{Pattern, escape_glob};
use byleave_gate::core::standing_approval::patterns_to_toml;
use byleave_gate::replay::ReplayableCall;

/// The minimum number of approved calls for a draft.
pub(super) const APPROVED_MIN: usize = 2;

/// The minimum number of files for a rule about their directory. Fewer are named individually.
const FILES_MIN: usize = 3;

/// A rule that might be suggested.
pub(super) struct RuleDraft {
    pub(super) id: String,
    pub(super) patterns: Vec<Pattern>,
    /// The calls that it is made from.
    pub(super) calls: HashSet<CallId>,
    /// The approved effects of these calls.
    effects: HashSet<Effect>,
}

/// How paths are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathGrouping {
    /// Identical paths.
    Path,
    /// Paths in the same directory.
    Directory,
}

/// The key of a group of effects: the kind, and the program with its sub-command, the directory, the host or the tool.
type EffectGroupKey = (&'static str, String);

/// Returns the effects that caused the question: those without a rule, or all of them if the tool is sensitive.
pub(super) fn needed<'a>(plan: &'a Plan, ruling: &PolicyDecision) -> Vec<&'a Effect> {
    if !ruling.causes().into_iter().all(AskCause::is_no_rule) {
        return plan.effects.iter().collect();
    }
    let asks = ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    let places = asks.flat_map(|reason| &reason.effects);
    places.filter_map(|place| plan.effects.get(*place as usize)).collect()
}

/// Returns one draft for each group of calls that were approved often enough.
pub(super) fn drafts(
    approved: &[&ReplayableCall],
    alike: PathGrouping,
    taken: &mut HashSet<String>,
) -> Vec<RuleDraft> {
    let mut groups: BTreeMap<BTreeSet<EffectGroupKey>, Vec<&ReplayableCall>> = BTreeMap::new();
    for past in approved {
        let asked = past.questions.iter().flat_map(|asked| needed(&asked.plan, &asked.decision));
        let same: BTreeSet<EffectGroupKey> = asked.map(|effect| likeness(effect, alike)).collect();
        groups.entry(same).or_default().push(past);
    }
    let often = groups.into_iter().filter(|(_, calls)| calls.len() >= APPROVED_MIN);
    often
        .filter_map(|(_, calls)| {
            let patterns = patterns(&calls, alike)?;
            let id = name(&patterns, taken);
            let asked = calls.iter().flat_map(|past| &past.questions);
            let effects = asked.flat_map(|asked| needed(&asked.plan, &asked.decision)).cloned().collect();
            Some(RuleDraft { id, patterns, calls: calls.iter().map(|past| past.call).collect(), effects })
        })
        .collect()
}

fn likeness(effect: &Effect, alike: PathGrouping) -> EffectGroupKey {
    let what = match effect {
        Effect::Run { program, argv } => {
            let sub = argv.get(1).filter(|word| is_sub_command(word)).map_or("", String::as_str);
            format!("{program} {sub}")
        }
        Effect::Read { path } | Effect::Write { path } | Effect::Delete { path } => match alike {
            PathGrouping::Path => path.clone(),
            PathGrouping::Directory => folder(path).to_owned(),
        },
        Effect::Reach { host, .. } | Effect::Send { host, .. } => host.clone(),
        Effect::Invoke { tool } => tool.clone(),
        Effect::Unconfined { guarantee } => guarantee.clone(),
        Effect::Unknown { reason: why } => why.clone(),
    };
    (effect.kind(), what)
}

fn is_sub_command(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == ':')
}

/// Returns the common patterns of the calls, or `None` if a rule cannot express one of them.
fn patterns(calls: &[&ReplayableCall], alike: PathGrouping) -> Option<Vec<Pattern>> {
    let mut groups: BTreeMap<EffectGroupKey, Vec<&Effect>> = BTreeMap::new();
    for past in calls {
        for asked in &past.questions {
            for effect in needed(&asked.plan, &asked.decision) {
                // A rule about the directory would cover everything else done beneath it.
                if asked.plan.is_partial(effect) {
                    return None;
                }
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
        Effect::Run { .. } => runs(effects),
        Effect::Read { .. } => paths(effects, Pattern::Read),
        Effect::Write { .. } => paths(effects, Pattern::Write),
        Effect::Delete { .. } => paths(effects, Pattern::Delete),
        Effect::Reach { host, .. } => Some(vec![Pattern::Reach(host.clone())]),
        Effect::Send { host, .. } => Some(vec![Pattern::Send(host.clone())]),
        Effect::Invoke { tool } => Some(vec![Pattern::Invoke(escape_glob(tool))]),
        Effect::Unconfined { .. } | Effect::Unknown { .. } => None,
    }
}

/// Returns the common first words of different commands, if all share them and no other command with them does more harm.
/// Otherwise returns each command word for word.
fn runs(effects: &[&Effect]) -> Option<Vec<Pattern>> {
    let each = |pattern: fn(&str, &[String]) -> Option<Pattern>| -> Option<Vec<Pattern>> {
        let mut patterns = Vec::new();
        for effect in effects {
            let Effect::Run { program, argv } = effect else { return None };
            let pattern = pattern(program, argv)?;
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Some(patterns)
    };
    match (each(exact_run_pattern), each(prefix_run_pattern)) {
        (Some(exact), _) if exact.len() == 1 => Some(exact),
        (_, Some(wide)) if wide.len() == 1 => Some(wide),
        (exact, _) => exact,
    }
}

fn paths(effects: &[&Effect], kind: fn(String) -> Pattern) -> Option<Vec<Pattern>> {
    let paths: BTreeSet<&str> = effects.iter().filter_map(|effect| effect.path()).collect();
    let folder = folder(paths.first()?);
    if paths.len() >= FILES_MIN && !folder.is_empty() {
        return Some(vec![kind(format!("{}/*", escape_glob(folder)))]);
    }
    Some(paths.into_iter().map(|path| kind(escape_glob(path))).collect())
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns a name that no rule has yet.
fn name(patterns: &[Pattern], taken: &mut HashSet<String>) -> String {
    let text = match patterns.first() {
        Some(Pattern::Run(words) | Pattern::RunExact(words)) => {
            let last_step = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
            words.iter().take(2).map(last_step).collect::<Vec<_>>().join(" ")
        }
        Some(Pattern::Read(text) | Pattern::Write(text) | Pattern::Delete(text)) => {
            text.trim_end_matches("/*").rsplit('/').next().unwrap_or_default().to_owned()
        }
        Some(Pattern::Reach(text) | Pattern::Send(text) | Pattern::Invoke(text)) => text.clone(),
        Some(Pattern::Plan(_)) | None => String::new(),
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

impl RuleDraft {
    /// Checks whether each of these exact effects was approved.
    pub(super) fn has_all_of(&self, effects: &[&Effect]) -> bool {
        effects.iter().all(|effect| self.effects.contains(*effect))
    }

    /// Returns the rule as text for a file.
    pub(super) fn toml(&self) -> String {
        let mut toml = format!("[[rule]]\nid = \"{}\"\nverdict = \"allow\"\n", self.id.as_str());
        for line in patterns_to_toml(&self.patterns) {
            toml.push_str(&format!("{line}\n"));
        }
        toml.push_str(&format!("reason = \"asked {} times, and always answered yes\"\n", self.calls.len()));
        toml
    }
}

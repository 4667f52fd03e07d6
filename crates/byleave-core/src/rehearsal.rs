//! Rehearsals: a run on a copy, what it came to, and when it makes the question unnecessary.
//!
//! A rehearsal is the run. A yes commits what was seen; nothing is run a second time, so nothing can behave otherwise the second
//! time. The one exception is a command that wanted the network, which no rehearsal has.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::decision::{AskCause, PolicyDecision, Verdict};
use crate::digest::{ContentRef, Digest};
use crate::effect::{Effect, Plan};
use crate::file_change::FileChanges;
use crate::outcome::{ExecutionStatus, Output};

/// How a call is rehearsed, pinned with its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalSettings {
    /// A command that did nothing on the copy, and was merely not understood or failed to change files, is not asked about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spares: bool,
}

/// What a run on a copy came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rehearsal {
    /// What it changed, outside scratch.
    pub changes: FileChanges,
    /// How many files it changed in scratch, which is the session's own.
    #[serde(default)]
    pub scratch: u64,
    /// What it wanted of the network, and did not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<BlockedHost>,
    /// How many processes it left running, at least; they were ended. Only zero is exact.
    #[serde(default)]
    pub left_running: u32,
    /// What of the place it ran in was weaker than a rehearsal must be to stand for itself, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weaker: Vec<String>,
    /// How it ended.
    pub status: ExecutionStatus,
    /// What it put out. Released when it is committed, and not before.
    pub output: Output,
}

/// Something that a rehearsal wanted of the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedHost {
    /// The name or the address; absent where it is only known that there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port; zero where it is not known, as for a name that was only looked up.
    #[serde(default)]
    pub port: u16,
}

/// What the record keeps of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RehearsalOutcome {
    /// It ran on a copy.
    Ran(RehearsalSummary),
    /// It could not be run on a copy; the question says so.
    Not {
        /// Why, in our words.
        why: String,
    },
}

/// What the record keeps of a rehearsal that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalSummary {
    /// The whole [`Rehearsal`], kept under the record's key. Its digest is what a grant binds.
    pub rehearsal: ContentRef,
    /// What the rules say of what it did. Absent where it did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<PolicyDecision>,
    /// A yes commits this very run. Otherwise it wanted the network, and a yes runs it on a copy that has one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stands: bool,
    /// It did nothing outside scratch, in a place where it could do nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// The rules ask only because it is not known what its programs do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unclear: bool,
    /// It failed before it changed anything, and the rules ask about nothing but changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vain: bool,
}

impl Rehearsal {
    /// Whether it did nothing outside scratch, in a place where it could do nothing else.
    pub fn is_quiet(&self) -> bool {
        self.changes.is_empty()
            && self.changes.limits.is_empty()
            && self.wanted.is_empty()
            && self.left_running == 0
            && self.weaker.is_empty()
            && matches!(self.status, ExecutionStatus::Done | ExecutionStatus::Failed)
    }

    /// Whether a yes commits this very run.
    pub fn stands(&self) -> bool {
        self.wanted.is_empty()
    }

    /// What it did, as a plan that can be judged: the changes, and the hosts that it would have reached.
    pub fn observed(&self) -> Plan {
        let mut effects = self.changes.effects();
        // No rule is about what becomes of a path, so that no rule allows this.
        effects.extend(self.changes.list.iter().filter_map(|change| {
            let why = format!(
                "`{}` becomes a {}, which git never makes",
                change.path.escape_debug(),
                change.foreign_to_git()?
            );
            Some(Effect::Unknown { why })
        }));
        effects.extend(self.wants().map(|(host, port)| Effect::Reach { host: host.to_owned(), port }));
        Plan { effects, ..Plan::default() }
    }

    /// The hosts that it wanted by a name or an address that is known.
    pub fn wants(&self) -> impl Iterator<Item = (&str, u16)> {
        self.wanted.iter().filter_map(|want| Some((want.host.as_deref()?, want.port)))
    }

    /// What the record keeps of it.
    pub fn head(
        &self,
        held: ContentRef,
        plan: &Plan,
        asked: &PolicyDecision,
        observed: Option<PolicyDecision>,
    ) -> RehearsalSummary {
        RehearsalSummary {
            rehearsal: held,
            stands: self.stands(),
            quiet: self.is_quiet(),
            unclear: is_merely_unclear(plan, asked),
            vain: self.is_quiet()
                && self.status == ExecutionStatus::Failed
                && asks_only_of_changes(plan, asked),
            ruling: observed,
        }
    }
}

/// Whether a ruling asks for no other reason than that nobody can say what the programs of the plan do.
///
/// Known effects are no riddle: what would be written, removed or reached by the account of the text is asked about, whatever
/// the copy shows. So is what leaves the sandbox, and what only a tool knows.
pub fn is_merely_unclear(plan: &Plan, ruling: &PolicyDecision) -> bool {
    let riddle = |effect: &Effect| matches!(effect, Effect::Run { .. } | Effect::Unknown { .. });
    let at = |place: &u32| usize::try_from(*place).ok().and_then(|place| plan.effects.get(place));
    let asks = ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    let mut asks = asks.peekable();
    let outward = |effect: &Effect| {
        matches!(effect, Effect::Reach { .. } | Effect::Invoke { .. } | Effect::Unconfined { .. })
    };
    asks.peek().is_some()
        && !plan.irreversible
        && plan.dangers.is_empty()
        && !plan.effects.iter().any(outward)
        && asks.all(|reason| {
            matches!(reason.cause, Some(AskCause::Default | AskCause::NotUnderstood))
                && !reason.effects.is_empty()
                && reason.effects.iter().all(|place| at(place).is_some_and(riddle))
        })
}

/// Whether a plan only reads and changes files, and a ruling asks about nothing but the changes.
///
/// Who was asked whether such a call may fail would have nothing to decide: what it read it may read, and it changes nothing.
pub fn asks_only_of_changes(plan: &Plan, ruling: &PolicyDecision) -> bool {
    let changes = |effect: &Effect| matches!(effect, Effect::Write { .. } | Effect::Delete { .. });
    let at = |place: &u32| usize::try_from(*place).ok().and_then(|place| plan.effects.get(place));
    let mut asks = ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask).peekable();
    asks.peek().is_some()
        && plan.dangers.is_empty()
        && plan.effects.iter().all(|effect| changes(effect) || matches!(effect, Effect::Read { .. }))
        && asks.all(|reason| {
            !reason.effects.is_empty() && reason.effects.iter().all(|place| at(place).is_some_and(changes))
        })
}

impl RehearsalSummary {
    /// Whether it makes the question unnecessary. Every condition of the relaxation that is not the place itself is here.
    pub fn spares(&self, terms: RehearsalSettings, mode: Mode, asked: &PolicyDecision) -> bool {
        let causes = asked.causes();
        let merely = |cause: &AskCause| matches!(cause, AskCause::Default | AskCause::NotUnderstood);
        terms.spares
            && mode != Mode::ConfirmAll
            && asked.verdict == Verdict::Ask
            && !causes.is_empty()
            && self.quiet
            && self.stands
            && (self.vain || self.unclear && causes.iter().all(merely))
            && self.ruling.as_ref().is_none_or(|ruling| ruling.verdict == Verdict::Allow)
    }

    /// What a grant binds.
    pub const fn digest(&self) -> Digest {
        self.rehearsal.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::DecisionReason;
    use crate::effect::Danger;
    use crate::file_change::FileChange;

    fn quiet() -> Rehearsal {
        Rehearsal {
            changes: FileChanges::default(),
            scratch: 3,
            wanted: Vec::new(),
            left_running: 0,
            weaker: Vec::new(),
            status: ExecutionStatus::Failed,
            output: Output::text("no"),
        }
    }

    fn asks(reasons: &[(AskCause, &[u32])]) -> PolicyDecision {
        let reason = |(cause, effects): &(AskCause, &[u32])| DecisionReason {
            verdict: Verdict::Ask,
            cause: Some(*cause),
            rule: None,
            origin: None,
            effects: effects.to_vec(),
            why: "why".into(),
        };
        let reasons = reasons.iter().map(reason).collect();
        let policy = Digest::of(b"");
        PolicyDecision {
            verdict: Verdict::Ask,
            reasons,
            policy,
            leave: None,
            guarantees: vec![],
            cached: false,
        }
    }

    fn plan() -> Plan {
        let effects = vec![
            Effect::Run { program: "x".into(), argv: vec!["x".into()] },
            Effect::Unknown { why: "?".into() },
            Effect::Write { path: "/w/a".into() },
            Effect::Read { path: "/w/b".into() },
        ];
        Plan { effects, ..Plan::default() }
    }

    fn spared(
        rehearsal: &Rehearsal,
        plan: &Plan,
        asked: &PolicyDecision,
        mode: Mode,
        terms: RehearsalSettings,
    ) -> bool {
        let held = ContentRef { digest: Digest::of(b"r"), bytes: 1 };
        rehearsal.head(held, plan, asked, None).spares(terms, mode, asked)
    }

    const ON: RehearsalSettings = RehearsalSettings { spares: true };

    // req: E5
    #[test]
    fn a_change_that_fails_is_not_asked_about() {
        let effects = vec![Effect::Read { path: "/w/a".into() }, Effect::Write { path: "/w/a".into() }];
        let (plan, mode) = (Plan { effects, ..Plan::default() }, Mode::ConfirmSensitive);
        let asked = asks(&[(AskCause::Default, &[1])]);
        assert!(spared(&quiet(), &plan, &asked, mode, ON));
        assert!(!spared(&quiet(), &plan, &asked, Mode::ConfirmAll, ON), "everything is to be asked");
        assert!(!spared(&quiet(), &plan, &asked, mode, RehearsalSettings { spares: false }), "turned off");
        let done = Rehearsal { status: ExecutionStatus::Done, ..quiet() };
        assert!(!spared(&done, &plan, &asked, mode, ON), "it did not fail");
        assert!(
            !spared(&quiet(), &plan, &asks(&[(AskCause::Default, &[0, 1])]), mode, ON),
            "what it reads is asked about"
        );
        let mut runs = plan.clone();
        runs.effects.push(Effect::Run { program: "x".into(), argv: vec![] });
        assert!(!spared(&quiet(), &runs, &asked, mode, ON), "it runs something");
    }

    // req: E5
    #[test]
    fn only_what_is_merely_unclear_and_did_nothing_is_spared() {
        let riddles: &[(AskCause, &[u32])] = &[(AskCause::Default, &[0]), (AskCause::NotUnderstood, &[1])];
        let (asked, mode) = (asks(riddles), Mode::ConfirmSensitive);
        assert!(spared(&quiet(), &plan(), &asked, mode, ON));
        assert!(spared(&quiet(), &plan(), &asked, Mode::ReadOnly, ON));
        // Each by itself is enough to ask.
        assert!(!spared(&quiet(), &plan(), &asked, mode, RehearsalSettings { spares: false }), "turned off");
        assert!(!spared(&quiet(), &plan(), &asked, Mode::ConfirmAll, ON), "everything is to be asked");
        let change = FileChange {
            path: "/w/a".into(),
            before: None,
            after: None,
            standing: Default::default(),
            diff: None,
        };
        let want = BlockedHost { host: None, port: 0 };
        let mut changed = quiet();
        changed.changes.list.push(change);
        let mut limited = quiet();
        limited.changes.limits.push("hard links".into());
        let loud = [
            ("changed", changed),
            ("a limit of copies", limited),
            ("the network", Rehearsal { wanted: vec![want], ..quiet() }),
            ("background", Rehearsal { left_running: 1, ..quiet() }),
            ("weaker", Rehearsal { weaker: vec!["no masks".into()], ..quiet() }),
            ("time", Rehearsal { status: ExecutionStatus::TimedOut, ..quiet() }),
            ("stopped", Rehearsal { status: ExecutionStatus::Stopped, ..quiet() }),
        ];
        for (what, rehearsal) in loud {
            assert!(!spared(&rehearsal, &plan(), &asked, mode, ON), "{what}");
        }
        for cause in AskCause::ALL
            .into_iter()
            .filter(|one| !matches!(one, AskCause::Default | AskCause::NotUnderstood))
        {
            assert!(!spared(&quiet(), &plan(), &asks(&[(cause, &[0])]), mode, ON), "{cause:?}");
            assert!(!spared(&quiet(), &plan(), &asks(&[(AskCause::Default, &[0]), (cause, &[1])]), mode, ON));
        }
        assert!(!spared(&quiet(), &plan(), &asks(&[(AskCause::Default, &[2])]), mode, ON), "a known write");
        assert!(
            !spared(&quiet(), &plan(), &asks(&[(AskCause::Default, &[])]), mode, ON),
            "the call as a whole"
        );
        assert!(!spared(&quiet(), &plan(), &asks(&[(AskCause::Default, &[9])]), mode, ON), "no such effect");
        let danger = Danger { id: "d".into(), why: "w".into(), denied: false };
        let outward = Effect::Reach { host: "h".into(), port: 1 };
        let mut reaching = plan();
        reaching.effects.push(outward);
        for (what, plan) in [
            ("irreversible", Plan { irreversible: true, ..plan() }),
            ("dangerous", Plan { dangers: vec![danger], ..plan() }),
            ("reaches", reaching),
        ] {
            assert!(!spared(&quiet(), &plan, &asked, mode, ON), "{what}");
        }
        let held = ContentRef { digest: Digest::of(b"r"), bytes: 1 };
        let stricter = quiet().head(held, &plan(), &asked, Some(asks(riddles)));
        assert!(!stricter.spares(ON, mode, &asked), "what it did is asked about");
    }

    #[test]
    fn what_it_did_is_a_plan() {
        let mut rehearsal = quiet();
        rehearsal.wanted =
            vec![BlockedHost { host: Some("h".into()), port: 443 }, BlockedHost { host: None, port: 0 }];
        assert!(!rehearsal.stands());
        let effects: Vec<String> = rehearsal.observed().effects.iter().map(ToString::to_string).collect();
        assert_eq!(effects, ["reach h:443"]);
    }
}

//! Rehearsals: a run on a copy, its result, and when it makes the question unnecessary.
//!
//! A rehearsal is the real run. A yes commits its changes. Nothing is run a second time, so nothing can behave differently the second time.
//! The only exception is a command that tried to reach the network, because rehearsals have no network.

use serde::{Deserialize, Serialize};

use crate::call::Mode;
use crate::decision::{AskCause, PolicyDecision, Verdict};
use crate::digest::{ContentRef, Digest};
use crate::effect::{Effect, Plan, is_at_or_beneath};
use crate::file_change::{FileChange, FileChangeKind, FileChanges};
use crate::git_settings::GitSettingsChange;
use crate::git_transport::{GitService, GitTransport};
use crate::outcome::{ExecutionStatus, Output};

/// The number of deleted files up to which a run is undoable work. Beyond it, nobody would notice what is missing.
const UNDOABLE_DELETIONS_MAX: usize = 50;
/// The number of changed files up to which a run is undoable work.
const UNDOABLE_CHANGES_MAX: usize = 500;

/// The programs that run others with the rights of another user.
const OTHER_USER_PROGRAMS: [&str; 6] = ["sudo", "doas", "su", "pkexec", "runuser", "run0"];

/// The settings of a rehearsal, pinned with the terms of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalSettings {
    /// Spares the question if the command did nothing on the copy, and was merely not understood or failed to change files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_skip_question: bool,
}

/// The result of a run on a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rehearsal {
    /// The changes outside the scratch directory.
    pub changes: FileChanges,
    /// The number of files that it changed in the scratch directory, which belongs to the session.
    #[serde(default)]
    pub scratch_files: u64,
    /// The network access that it wanted and did not get.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_hosts: Vec<BlockedHost>,
    /// The Git transports that it wanted to be lent. A yes lends exactly these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_transports: Vec<GitTransport>,
    /// The minimum number of processes that it left running. They were ended. Only zero is exact.
    #[serde(default)]
    pub leftover_processes: u32,
    /// The hosts that it reached, because a rule or a person allowed it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached_hosts: Vec<String>,
    /// The changed paths from which git would run commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_by_git: Vec<String>,
    /// The other names of changed files: links that lead to them. Rules against a change of such a name apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_names: Vec<String>,
    /// The files whose changes Git does not show from now on, because the run set a flag in the index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_from_git: Vec<String>,
    /// The `.git` directories that it made, and in which nothing is set that git would run. Of each, only `HEAD` counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_repositories: Vec<String>,
    /// The changed settings of repositories, if they run nothing. Instead of the file, each changed setting counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub git_settings: Vec<GitSettingsChange>,
    /// The working trees that it made of a repository. Of the files that connect both, only `HEAD` of the repository counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_worktrees: Vec<NewWorktree>,
    /// Whether the store has room for the before-images of the changed files.
    #[serde(default, skip_serializing_if = "BeforeImageRoom::is_available")]
    pub before_image_room: BeforeImageRoom,
    /// The limits of the confinement that were weaker than a rehearsal requires to spare the question, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_guarantees: Vec<String>,
    /// The status of the execution.
    pub status: ExecutionStatus,
    /// The output. It is released when the rehearsal is committed, and not before.
    pub output: Output,
}

/// A working tree that a run made of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewWorktree {
    /// The `.git` directory of the repository.
    pub repository: String,
    /// The files that lead from one to the other, and nowhere else.
    pub files: Vec<String>,
}

impl NewWorktree {
    /// Returns the path that rules know it by.
    pub fn stand_in(&self) -> String {
        format!("{}/HEAD", self.repository)
    }
}

/// Whether the store has room for the before-images of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BeforeImageRoom {
    /// They fit beside those that must be kept.
    #[default]
    Available,
    /// They fit only in place of others that are so young that they must be kept.
    Displaces,
    /// They are larger than the store.
    Exceeds,
}

impl BeforeImageRoom {
    /// Checks whether they fit.
    pub const fn is_available(&self) -> bool {
        matches!(self, Self::Available)
    }

    /// Returns what a person must know, if they do not fit.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Available => None,
            Self::Displaces => Some("the store of before-images is full; `byleave gc` frees space"),
            Self::Exceeds => {
                Some("the earlier contents of the changed files are larger than the store of before-images")
            }
        }
    }
}

/// One network access that a rehearsal wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockedHost {
    /// The name or the address. Absent if neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The port. Zero if it is not known, as for a name that was only looked up.
    #[serde(default)]
    pub port: u16,
}

/// The recorded form of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RehearsalOutcome {
    /// The call ran on a copy.
    Ran(RehearsalSummary),
    /// The call could not run on a copy. The question says so.
    Unavailable {
        /// The reason, in our words.
        reason: String,
    },
}

/// The recorded form of a rehearsal that ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RehearsalSummary {
    /// The complete [`Rehearsal`], stored under the record's key. A grant binds its digest.
    pub rehearsal: ContentRef,
    /// The decision of the policy on its real effects. Absent if it did nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<PolicyDecision>,
    /// A yes commits exactly this run. If false, it tried to reach the network, and a yes runs it on a copy with network access.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub committable: bool,
    /// It did nothing outside the scratch directory, and its confinement allowed nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_effects: bool,
    /// The policy asks only because the effects of its programs are not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_unclear: bool,
    /// It failed before it changed anything, and the policy asks only about changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed_unchanged: bool,
}

impl Rehearsal {
    /// Makes the result of a run that only changed files: it wanted no network, left nothing behind, and its confinement lacked nothing.
    pub const fn new(changes: FileChanges, status: ExecutionStatus, output: Output) -> Self {
        Self {
            changes,
            scratch_files: 0,
            blocked_hosts: Vec::new(),
            git_transports: Vec::new(),
            leftover_processes: 0,
            reached_hosts: Vec::new(),
            run_by_git: Vec::new(),
            linked_names: Vec::new(),
            hidden_from_git: Vec::new(),
            new_repositories: Vec::new(),
            git_settings: Vec::new(),
            new_worktrees: Vec::new(),
            before_image_room: BeforeImageRoom::Available,
            missing_guarantees: Vec::new(),
            status,
            output,
        }
    }

    /// Checks whether it did nothing outside the scratch directory, and its confinement allowed nothing else.
    pub fn has_no_effects(&self) -> bool {
        self.changes.is_empty()
            && self.changes.caveats.is_empty()
            && self.blocked_hosts.is_empty()
            && self.git_transports.is_empty()
            && self.leftover_processes == 0
            && self.missing_guarantees.is_empty()
            && matches!(self.status, ExecutionStatus::Succeeded | ExecutionStatus::Failed)
    }

    /// Returns whether nothing ran: these are the changes that the agent should make itself after a yes.
    pub fn is_done_by_agent(&self) -> bool {
        let enforced = self.output.data.as_ref().and_then(|data| data.get("enforced"));
        enforced.and_then(serde_json::Value::as_bool) == Some(false)
    }

    /// Returns whether a yes commits exactly this run.
    pub fn is_committable(&self) -> bool {
        self.blocked_hosts.is_empty() && self.git_transports.is_empty()
    }

    /// Returns its real effects as a plan that can be evaluated: the changes, and the hosts that it would have reached.
    pub fn observed_plan(&self) -> Plan {
        // A repository that did not exist before had no settings to protect: its `HEAD` stands for all of it.
        let is_part = |change: &&FileChange| {
            self.new_repositories.iter().any(|made| {
                is_at_or_beneath(&change.path, made)
                    && change.path.strip_prefix(made.as_str()) != Some("/HEAD")
            }) || self.new_worktrees.iter().any(|made| made.files.contains(&change.path))
        };
        let settings = |path: &str| self.git_settings.iter().find(|changed| changed.path == path);
        let counted = self.changes.list.iter().filter(|change| !is_part(change));
        let to_effects = |change: &FileChange| match settings(&change.path) {
            Some(changed) => changed.setting_paths().into_iter().map(|path| Effect::Write { path }).collect(),
            None => vec![change.to_effect()],
        };
        let mut effects: Vec<Effect> = counted.flat_map(to_effects).collect();
        effects.extend(self.new_worktrees.iter().map(|made| Effect::Write { path: made.stand_in() }));
        // No rule can match these, so no rule allows them.
        let unknown = |reason: String| Effect::Unknown { reason };
        effects.extend(self.changes.list.iter().filter_map(FileChange::special_reason).map(unknown));
        let by_git = |path: &String| format!("git would run commands from `{}`", path.escape_debug());
        effects.extend(self.run_by_git.iter().map(by_git).map(unknown));
        let hidden = |path: &String| format!("git would no longer show changes of `{}`", path.escape_debug());
        effects.extend(self.hidden_from_git.iter().map(hidden).map(unknown));
        effects.extend(self.git_settings.iter().flat_map(|changed| &changed.asks).cloned().map(unknown));
        // A store that is merely full keeps more than its limit. A run that is larger than the whole store is for a person to see.
        if self.before_image_room == BeforeImageRoom::Exceeds {
            effects.extend(self.before_image_room.warning().map(str::to_owned).map(unknown));
        }
        effects.extend(
            self.known_blocked_hosts().map(|(host, port)| Effect::Reach { host: host.to_owned(), port }),
        );
        effects.extend(self.unusable_git().map(unknown));
        effects.extend(self.git_transports.iter().map(|lent| {
            let (host, port) = (lent.host.clone(), lent.port);
            match lent.service {
                GitService::UploadPack => Effect::Reach { host, port },
                GitService::ReceivePack => Effect::Send { host, port },
            }
        }));
        let mut plan = Plan { effects, ..Plan::default() };
        let linked: Vec<Effect> =
            self.linked_names.iter().map(|path| Effect::Write { path: path.clone() }).collect();
        plan.add_predicted(linked.clone(), &linked);
        plan
    }

    /// Returns why none of the Git transports that it wanted can be lent. Then a yes could not keep what it promises.
    pub fn unusable_git(&self) -> Option<String> {
        let all = self.git_transports.iter().all(|lent| lent.problem.is_some());
        self.git_transports.first().filter(|_| all).map(GitTransport::describe)
    }

    /// Returns why no yes can make the command work, if the run on the copy showed it: it did nothing, and a program does not exist, cannot
    /// be executed, or needs the rights of another user. The text has no words of the call.
    pub fn cannot_work(&self, plan: &Plan) -> Option<&'static str> {
        let did_nothing = self.changes.list.is_empty()
            && self.blocked_hosts.is_empty()
            && self.git_transports.is_empty()
            && self.reached_hosts.is_empty()
            && self.leftover_processes == 0;
        if self.status != ExecutionStatus::Failed || !did_nothing {
            return None;
        }
        // A yes would show it more files, and a program may be among them.
        let may_show_more = |effect: &Effect| matches!(effect, Effect::Unconfined { .. });
        if plan.effects.iter().any(may_show_more) {
            return None;
        }
        let other_user = |effect: &Effect| match effect {
            Effect::Run { argv, .. } => {
                let name = argv.first().and_then(|name| name.rsplit('/').next());
                name.is_some_and(|name| OTHER_USER_PROGRAMS.contains(&name))
            }
            _ => false,
        };
        match self.output.data.as_ref()?.get("exit")?.as_u64()? {
            127 => Some(
                "the command was tried on a copy and ended with exit status 127: a program in it does not exist there",
            ),
            126 => Some(
                "the command was tried on a copy and ended with exit status 126: a program in it cannot be executed there",
            ),
            _ if plan.effects.iter().any(other_user) => Some(
                "the command was tried on a copy and failed: no command gets the rights of another user in the sandbox",
            ),
            _ => None,
        }
    }

    /// Returns the effects of processes that it left running, which were ended.
    pub fn leftover_effect(&self) -> Option<Effect> {
        let reason = || "the command left processes running, which were ended".to_owned();
        (self.leftover_processes > 0).then(|| Effect::Unknown { reason: reason() })
    }

    /// Checks whether it is undoable work: everything that it did can be taken back, and a person can still oversee it.
    pub fn is_undoable_work(&self, workspace: &str) -> bool {
        let counted = |change: &&FileChange| change.is_counted();
        let deleted = |change: &&FileChange| change.kind() == FileChangeKind::Deleted;
        let all = || self.changes.list.iter().filter(counted);
        self.leftover_processes == 0
            && self.reached_hosts.is_empty()
            && self.before_image_room.is_available()
            && self.changes.list.iter().all(|change| change.is_plain(workspace))
            && all().filter(deleted).count() <= UNDOABLE_DELETIONS_MAX
            && all().count() <= UNDOABLE_CHANGES_MAX
    }

    /// Returns the hosts that it wanted by a known name or address.
    pub fn known_blocked_hosts(&self) -> impl Iterator<Item = (&str, u16)> {
        self.blocked_hosts.iter().filter_map(|want| Some((want.host.as_deref()?, want.port)))
    }

    /// Returns the recorded form.
    pub fn summarize(
        &self,
        held: ContentRef,
        plan: &Plan,
        asked: &PolicyDecision,
        observed: Option<PolicyDecision>,
    ) -> RehearsalSummary {
        RehearsalSummary {
            rehearsal: held,
            committable: self.is_committable(),
            no_effects: self.has_no_effects(),
            only_unclear: asks_only_if_unclear(plan, asked),
            failed_unchanged: self.has_no_effects()
                && self.status == ExecutionStatus::Failed
                && asks_only_about_changes(plan, asked),
            decision: observed,
        }
    }
}

impl Rehearsal {
    /// Returns the recorded form of a granted run whose changes are not all allowed. A yes commits exactly this run.
    pub const fn summarize_observed(
        &self,
        stored: ContentRef,
        decision: Option<PolicyDecision>,
    ) -> RehearsalSummary {
        RehearsalSummary {
            rehearsal: stored,
            decision,
            committable: true,
            no_effects: false,
            only_unclear: false,
            failed_unchanged: false,
        }
    }
}

/// Checks whether a decision asks only because nobody can tell what the programs of the plan do.
///
/// Known effects are not unclear. If the text of the command says that it writes, removes or reaches something, that is asked about,
/// whatever the copy shows. The same applies to effects that leave the sandbox, and to effects that only a tool knows. It also applies
/// to a command of a version control system that is not understood: a copy hides files, but not what was committed of them.
pub fn asks_only_if_unclear(plan: &Plan, ruling: &PolicyDecision) -> bool {
    let is_unknown = |effect: &Effect| matches!(effect, Effect::Unknown { .. });
    if plan.effects.iter().any(is_unknown) && plan.effects.iter().any(runs_version_control) {
        return false;
    }
    let riddle = |effect: &Effect| matches!(effect, Effect::Run { .. } | Effect::Unknown { .. });
    let at = |place: &u32| usize::try_from(*place).ok().and_then(|place| plan.effects.get(place));
    let asks = ruling.reasons.iter().filter(|reason| reason.verdict == Verdict::Ask);
    let mut asks = asks.peekable();
    let outward = |effect: &Effect| {
        let is_outward = matches!(effect, Effect::Invoke { .. } | Effect::Unconfined { .. });
        is_outward || effect.host().is_some()
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

/// Programs that keep older contents of files and print them.
const VERSION_CONTROL: [&str; 8] = ["git", "hg", "jj", "sl", "svn", "fossil", "bzr", "darcs"];

fn runs_version_control(effect: &Effect) -> bool {
    let Effect::Run { program, argv } = effect else { return false };
    let names = |path: &str| VERSION_CONTROL.contains(&path.rsplit('/').next().unwrap_or(path));
    names(program) || argv.first().is_some_and(|name| names(name))
}

/// Checks whether a plan only reads and changes files, and a decision asks only about the changes.
///
/// If such a call fails, a person would have nothing to decide: it may read what it read, and it changes nothing.
pub fn asks_only_about_changes(plan: &Plan, ruling: &PolicyDecision) -> bool {
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
    /// Checks whether it makes the question unnecessary. All conditions are here, except those about the confinement itself.
    pub fn makes_question_unnecessary(
        &self,
        terms: RehearsalSettings,
        mode: Mode,
        asked: &PolicyDecision,
    ) -> bool {
        let causes = asked.causes();
        let merely = |cause: &AskCause| matches!(cause, AskCause::Default | AskCause::NotUnderstood);
        terms.may_skip_question
            && mode != Mode::ConfirmAll
            && asked.verdict == Verdict::Ask
            && !causes.is_empty()
            && self.no_effects
            && self.committable
            && (self.failed_unchanged || self.only_unclear && causes.iter().all(merely))
            && self.decision.as_ref().is_none_or(|ruling| ruling.verdict == Verdict::Allow)
    }

    /// Returns the digest that a grant binds.
    pub const fn digest(&self) -> Digest {
        self.rehearsal.digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::DecisionReason;
    use crate::effect::Danger;

    fn quiet() -> Rehearsal {
        let failed = Rehearsal::new(FileChanges::default(), ExecutionStatus::Failed, Output::text("no"));
        Rehearsal { scratch_files: 3, ..failed }
    }

    fn asks(reasons: &[(AskCause, &[u32])]) -> PolicyDecision {
        let reason = |(cause, effects): &(AskCause, &[u32])| DecisionReason {
            verdict: Verdict::Ask,
            cause: Some(*cause),
            rule: None,
            origin: None,
            effects: effects.to_vec(),
            message: "why".into(),
        };
        let reasons = reasons.iter().map(reason).collect();
        let policy = Digest::compute(b"");
        PolicyDecision {
            verdict: Verdict::Ask,
            reasons,
            policy,
            standing_approval: None,
            guarantees: vec![],
            challenge: None,
            cached: false,
        }
    }

    fn plan() -> Plan {
        let effects = vec![
            Effect::Run { program: "x".into(), argv: vec!["x".into()] },
            Effect::Unknown { reason: "?".into() },
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
        let held = ContentRef { digest: Digest::compute(b"r"), size: 1 };
        rehearsal.summarize(held, plan, asked, None).makes_question_unnecessary(terms, mode, asked)
    }

    const ON: RehearsalSettings = RehearsalSettings { may_skip_question: true };

    // req: E5
    #[test]
    fn a_change_that_fails_is_not_asked_about() {
        let effects = vec![Effect::Read { path: "/w/a".into() }, Effect::Write { path: "/w/a".into() }];
        let (plan, mode) = (Plan { effects, ..Plan::default() }, Mode::ConfirmSensitive);
        let asked = asks(&[(AskCause::Default, &[1])]);
        assert!(spared(&quiet(), &plan, &asked, mode, ON));
        assert!(!spared(&quiet(), &plan, &asked, Mode::ConfirmAll, ON), "everything is to be asked");
        assert!(
            !spared(&quiet(), &plan, &asked, mode, RehearsalSettings { may_skip_question: false }),
            "turned off"
        );
        let done = Rehearsal { status: ExecutionStatus::Succeeded, ..quiet() };
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
        // Each condition by itself is enough to ask.
        assert!(
            !spared(&quiet(), &plan(), &asked, mode, RehearsalSettings { may_skip_question: false }),
            "turned off"
        );
        assert!(!spared(&quiet(), &plan(), &asked, Mode::ConfirmAll, ON), "everything is to be asked");
        // What was committed of a hidden file is not hidden on a copy.
        for program in ["git", "/usr/bin/git", "/usr/local/bin/jj"] {
            let mut stored = plan();
            stored.effects[0] =
                Effect::Run { program: program.into(), argv: vec!["g".into(), "show".into()] };
            assert!(!spared(&quiet(), &stored, &asked, mode, ON), "{program}");
            stored.effects[1] = Effect::Read { path: "/w/c".into() };
            assert!(spared(&quiet(), &stored, &asks(&[(AskCause::Default, &[0])]), mode, ON), "{program}");
        }
        let change = FileChange {
            path: "/w/a".into(),
            before: None,
            after: None,
            git_status: Default::default(),
            diff: None,
        };
        let want = BlockedHost { host: None, port: 0 };
        let mut changed = quiet();
        changed.changes.list.push(change);
        let mut limited = quiet();
        limited.changes.caveats.push("hard links".into());
        let loud = [
            ("changed", changed),
            ("a limit of copies", limited),
            ("the network", Rehearsal { blocked_hosts: vec![want], ..quiet() }),
            ("background", Rehearsal { leftover_processes: 1, ..quiet() }),
            ("weaker", Rehearsal { missing_guarantees: vec!["no masks".into()], ..quiet() }),
            ("time", Rehearsal { status: ExecutionStatus::TimedOut, ..quiet() }),
            ("stopped", Rehearsal { status: ExecutionStatus::Cancelled, ..quiet() }),
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
        let danger = Danger { id: "d".into(), reason: "w".into(), denied: false };
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
        let held = ContentRef { digest: Digest::compute(b"r"), size: 1 };
        let stricter = quiet().summarize(held, &plan(), &asked, Some(asks(riddles)));
        assert!(!stricter.makes_question_unnecessary(ON, mode, &asked), "what it did is asked about");
    }

    #[test]
    fn what_it_did_is_a_plan() {
        let mut rehearsal = quiet();
        rehearsal.blocked_hosts =
            vec![BlockedHost { host: Some("h".into()), port: 443 }, BlockedHost { host: None, port: 0 }];
        assert!(!rehearsal.is_committable());
        let effects: Vec<String> =
            rehearsal.observed_plan().effects.iter().map(ToString::to_string).collect();
        assert_eq!(effects, ["reach h:443"]);
    }
}

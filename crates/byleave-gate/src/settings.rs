//! Settings of a gate. The defaults are cautious.

use std::collections::BTreeSet;
use std::time::Duration;

use byleave_core::challenge::ChallengeTiming;
use byleave_core::entry::Limits;

use crate::schema::JsonLimits;

/// The action when a person must be asked and nobody is available (R7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnattendedAction {
    /// Refuses the call, with a message that says what to do.
    #[default]
    Refuse,
    /// Allows the call, with a warning on the record. It never passes a checkpoint.
    AllowWithWarning,
}

/// Settings of a gate.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// Limits that are pinned to each call.
    pub limits: Limits,
    /// The longest timeout that a tool may request.
    pub max_timeout_ms: u64,
    /// The maximum size of a call's arguments, in bytes. The default has room for a file of 10 MiB.
    pub max_argument_bytes: usize,
    /// How many concurrency-safe calls run at once (E4). 1 makes everything sequential.
    pub max_concurrent: usize,
    /// How long a reviewer, planner or predicate may take.
    pub plugin_timeout: Duration,
    /// How long a challenger may take. It may be a model.
    pub challenger_timeout: Duration,
    /// How long an approver may take, if the question does not expire sooner.
    pub approver_timeout: Duration,
    /// How long a tool may take to stop after it was cancelled.
    pub stop_grace: Duration,
    /// Whether questions stay open in the audit log for a later answer.
    pub inbox: bool,
    /// The action when nobody is available.
    pub unattended: UnattendedAction,
    /// When challenges are made.
    pub challenge_when: ChallengeTiming,
    /// Tools, by name, whose challenge replaces their checkpoint (R9).
    pub challenge_replaces_checkpoint: BTreeSet<String>,
    /// Whether a call is rehearsed before a person is asked, if its tool supports that.
    pub rehearse: bool,
    /// Whether no question is asked for a command that was only not understood, if its rehearsal did nothing: no change outside of
    /// scratch, no attempt at the network, no process left, full confinement.
    pub rehearsal_may_skip_question: bool,
    /// The name of the tool that reads the rest of a truncated output. It is mentioned at the cut.
    pub read_more_tool: Option<String>,
    /// How many questions a session may open in a minute.
    pub questions_per_minute: u32,
    /// How many decisions are cached (P9). The default is none, because evaluating is faster than a cache lookup.
    pub cached_decisions: usize,
    /// How many opinions of cacheable reviewers are cached (P9).
    pub cached_opinions: usize,
    /// How often a waiting caller checks whether another process has answered.
    pub poll_interval: Duration,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            max_timeout_ms: 600_000,
            max_argument_bytes: JsonLimits::ARGUMENTS.max_bytes,
            max_concurrent: 8,
            plugin_timeout: Duration::from_secs(10),
            challenger_timeout: Duration::from_secs(120),
            approver_timeout: Duration::from_secs(24 * 3_600),
            stop_grace: Duration::from_secs(2),
            inbox: false,
            unattended: UnattendedAction::Refuse,
            challenge_when: ChallengeTiming::BeforeQuestion,
            challenge_replaces_checkpoint: BTreeSet::new(),
            rehearse: true,
            rehearsal_may_skip_question: true,
            read_more_tool: None,
            questions_per_minute: 120,
            cached_decisions: 0,
            cached_opinions: 4_096,
            poll_interval: Duration::from_millis(200),
        }
    }
}

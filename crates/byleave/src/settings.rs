//! Settings of a gate. The defaults are what a careful person would choose.

use std::collections::BTreeSet;
use std::time::Duration;

use byleave_core::challenge::ChallengeTiming;
use byleave_core::entry::Limits;

/// What happens when a person must be asked and nobody is there (R7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnattendedAction {
    /// Refused, with a message that says what to do.
    #[default]
    Refuse,
    /// Allowed, with a warning on the record. Never past a checkpoint.
    AllowWithWarning,
}

/// Settings of a gate.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// Bounds that are pinned to each call.
    pub limits: Limits,
    /// The longest timeout a tool may ask for.
    pub timeout_ms_max: u64,
    /// How many concurrency-safe calls run at once (E4); 1 makes everything sequential.
    pub max_concurrent: usize,
    /// How long a reviewer, planner, predicate or challenger may take.
    pub stranger_timeout: Duration,
    /// How long an approver may take, where the question does not expire sooner.
    pub approver_timeout: Duration,
    /// How long a tool may take to stop by itself once it was told to.
    pub stop_grace: Duration,
    /// Questions stay open in the book for someone to answer later.
    pub inbox: bool,
    /// What happens when nobody is there.
    pub unattended: UnattendedAction,
    /// When challenges are made.
    pub challenge_when: ChallengeTiming,
    /// Tools, by name, whose challenge stands in for their checkpoint (R9).
    pub challenge_stands_in: BTreeSet<String>,
    /// A call that a person would be asked about is run on a copy first, where its tool can.
    pub rehearse: bool,
    /// A command that was merely not understood, and that did nothing on the copy, is not asked about.
    pub rehearsal_spares: bool,
    /// The tool by which an agent reads on where an output was cut, by name; told where it was cut.
    pub rest: Option<String>,
    /// How many questions a session may open in a minute.
    pub questions_per_minute: u32,
    /// How many rulings are remembered (P9). None by default: judging takes less time than looking a ruling up.
    pub cached_rulings: usize,
    /// How many opinions of reviewers that allow it are remembered (P9).
    pub cached_opinions: usize,
    /// How often a waiting caller looks whether another process has answered.
    pub poll: Duration,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            timeout_ms_max: 600_000,
            max_concurrent: 8,
            stranger_timeout: Duration::from_secs(10),
            approver_timeout: Duration::from_secs(24 * 3_600),
            stop_grace: Duration::from_secs(2),
            inbox: false,
            unattended: UnattendedAction::Refuse,
            challenge_when: ChallengeTiming::BeforeQuestion,
            challenge_stands_in: BTreeSet::new(),
            rehearse: true,
            rehearsal_spares: true,
            rest: None,
            questions_per_minute: 120,
            cached_rulings: 0,
            cached_opinions: 4_096,
            poll: Duration::from_millis(200),
        }
    }
}

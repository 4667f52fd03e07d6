//! Builds a gate. The defaults are the safe choices: no approver, the built-in policy, a ledger in memory.

use std::sync::Arc;

use arc_swap::ArcSwap;
use byleave_core::policy::{PathVariables, Policy, PolicyError};
use byleave_core::question_view::QuestionView;
use parking_lot::RwLock;

use super::Gate;
use crate::approver::{Approver, IntoReply, callback};
use crate::catalog::{Catalog, RegisterError};
use crate::challenge::Challenger;
use crate::clock::{Clock, SystemClock};
use crate::event::EventBus;
use crate::gate::in_flight::InFlight;
use crate::gate::inner::{DecisionCache, GateInner, SkipCall, UnattendedCall};
use crate::gate::scheduler::Scheduler;
use crate::ledger::Ledger;
use crate::ledger::memory::MemoryLedger;
use crate::review::{InputReviewer, OutputReviewer, ReviewScope, Reviewers};
use crate::settings::GateSettings;
use crate::tool::Tool;

/// A builder of a [`Gate`].
#[derive(Default)]
pub struct GateBuilder {
    ledger: Option<Arc<dyn Ledger>>,
    catalog: Catalog,
    tools: Vec<Arc<dyn Tool>>,
    policy: Option<Policy>,
    reviewers: Option<Reviewers>,
    approver: Option<Arc<dyn Approver>>,
    checkpoint: Option<Arc<dyn Approver>>,
    challenger: Option<Arc<dyn Challenger>>,
    settings: GateSettings,
    clock: Option<Arc<dyn Clock>>,
    skip_calls: Option<SkipCall>,
    unattended_calls: Option<UnattendedCall>,
}

/// The reason why a gate could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A tool was rejected.
    #[error(transparent)]
    Tool(#[from] RegisterError),
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

impl GateBuilder {
    /// Sets the ledger. The default is a ledger in memory.
    ///
    /// Each gate needs its own ledger, because a ledger is one owner of claims. The gate treats an attempt of its own owner as dead if
    /// it does not run here.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Sets a catalog that is shared with other users.
    #[must_use]
    pub fn catalog(mut self, catalog: Catalog) -> Self {
        self.catalog = catalog;
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Sets the policy. The default is the built-in policy without a workspace.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Adds a reviewer of arguments, for one tool by name or for all.
    #[must_use]
    pub fn review_input(mut self, covers: impl Into<ReviewScope>, reviewer: impl InputReviewer) -> Self {
        self.reviewers.get_or_insert_with(Reviewers::new).add_input(covers, reviewer);
        self
    }

    /// Adds a reviewer of results, for one tool by name or for all.
    #[must_use]
    pub fn review_output(mut self, covers: impl Into<ReviewScope>, reviewer: impl OutputReviewer) -> Self {
        self.reviewers.get_or_insert_with(Reviewers::new).add_output(covers, reviewer);
        self
    }

    /// Sets the approver. Without an approver and without an inbox, calls that need an answer are refused (R7).
    #[must_use]
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.approver = Some(Arc::new(approver));
        self
    }

    /// Sets a closure as the approver. The audit log names it `program`; see [`callback`] for another name.
    #[must_use]
    pub fn approve_with<F, R>(self, approve: F) -> Self
    where
        F: Fn(&QuestionView) -> R + Send + Sync + 'static,
        R: IntoReply,
    {
        self.approver(callback("program", approve))
    }

    /// Sets the handler that releases checkpoints (R8). The default is the approver, if it is a person, and otherwise a person who answers
    /// in the inbox. Without any of them, calls that require a checkpoint are refused.
    #[must_use]
    pub fn checkpoint(mut self, handler: impl Approver) -> Self {
        self.checkpoint = Some(Arc::new(handler));
        self
    }

    /// Sets the challenger, which makes the case against calls that require one (R9). Without it, the person who answers does. Without a person,
    /// such calls are refused.
    #[must_use]
    pub fn challenger(mut self, challenger: impl Challenger) -> Self {
        self.challenger = Some(Arc::new(challenger));
        self
    }

    /// Sets the limits and choices of the gate.
    #[must_use]
    pub fn settings(mut self, settings: GateSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the clock. The default is the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Selects calls that other processes drive, with tools and files that this process does not have.
    ///
    /// This gate accepts such calls, shows their questions, accepts answers and records that they are over. It never plans, rehearses or
    /// runs one.
    #[must_use]
    pub fn skip_calls(mut self, others: SkipCall) -> Self {
        self.skip_calls = Some(others);
        self
    }

    /// Selects calls that no process attends any more. They hold up no other call: at once while they wait for a person, and a minute
    /// after their last entry once they were answered. They can still be continued, with every check of a claim.
    #[must_use]
    pub fn unattended_calls(mut self, unattended: UnattendedCall) -> Self {
        self.unattended_calls = Some(unattended);
        self
    }

    /// Builds the gate.
    pub fn build(self) -> Result<Gate, BuildError> {
        self.catalog.register_all(self.tools)?;
        let policy = match self.policy {
            Some(policy) => policy,
            None => Policy::builtin(&PathVariables::default())?,
        };
        let mut reviewers = self.reviewers.unwrap_or_default();
        reviewers.set_timeout(self.settings.plugin_timeout);
        reviewers.set_cache_entries(self.settings.cached_opinions);
        let person = || self.approver.clone().filter(|approver| approver.assurance().is_person());
        let has_person = person().is_some() || self.settings.inbox;
        let checkpoint = self.checkpoint.clone().or_else(person);
        let parts = GateInner {
            ledger: self.ledger.unwrap_or_else(|| Arc::new(MemoryLedger::new())),
            catalog: self.catalog,
            policy: ArcSwap::from_pointee(policy),
            reviewers,
            approver: self.approver,
            checkpoint,
            has_person,
            challenger: RwLock::new(self.challenger),
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            events: EventBus::new(),
            scheduler: Scheduler::new(self.settings.max_concurrent),
            in_flight: InFlight::default(),
            decision_cache: DecisionCache::new(self.settings.cached_decisions),
            settings: self.settings,
            skip_calls: self.skip_calls,
            unattended_calls: self.unattended_calls,
        };
        Ok(Gate { inner: Arc::new(parts) })
    }
}

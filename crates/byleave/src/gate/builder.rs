//! Building a gate. What is left out is the careful choice: no approver, the built-in policy, a ledger in memory.

use std::sync::Arc;

use arc_swap::ArcSwap;
use byleave_core::policy::{Places, Policy, PolicyFault};

use super::Gate;
use crate::approve::Approver;
use crate::catalog::{Catalog, NotRegistered};
use crate::challenge::Challenger;
use crate::clock::{Clock, SystemClock};
use crate::event::Events;
use crate::gate::bustle::Bustle;
use crate::gate::parts::{Others, Parts, Rulings};
use crate::gate::schedule::Schedule;
use crate::ledger::Ledger;
use crate::ledger::memory::MemoryLedger;
use crate::review::{Covers, InputReviewer, OutputReviewer, Reviewers};
use crate::settings::Settings;
use crate::tool::Tool;

/// Builds a [`Gate`].
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
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
    others: Option<Others>,
}

/// Why a gate could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildFault {
    /// A tool was not accepted.
    #[error(transparent)]
    Tool(#[from] NotRegistered),
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyFault),
}

impl GateBuilder {
    /// Where records are kept; in memory if not said. Each gate has its own: a ledger is one owner of claims, and what
    /// its owner does not run here counts as gone.
    #[must_use]
    pub fn ledger(mut self, ledger: Arc<dyn Ledger>) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// A catalog that is shared with others.
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

    /// The policy; the built-in one without a workspace if not said.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Adds a reviewer of arguments, for one tool by name or for all.
    #[must_use]
    pub fn review_input(mut self, covers: impl Into<Covers>, reviewer: impl InputReviewer) -> Self {
        self.reviewers.get_or_insert_with(Reviewers::new).add_input(covers, reviewer);
        self
    }

    /// Adds a reviewer of results, for one tool by name or for all.
    #[must_use]
    pub fn review_output(mut self, covers: impl Into<Covers>, reviewer: impl OutputReviewer) -> Self {
        self.reviewers.get_or_insert_with(Reviewers::new).add_output(covers, reviewer);
        self
    }

    /// Who is asked. Without one, and without an inbox, questions are refused (R7).
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// Who releases checkpoints. Without one, tools that require one are refused (R8).
    #[must_use]
    pub fn checkpoint(mut self, handler: Arc<dyn Approver>) -> Self {
        self.checkpoint = Some(handler);
        self
    }

    /// Who makes the case against calls. Without one, tools that require it are refused (R9).
    #[must_use]
    pub fn challenger(mut self, challenger: Arc<dyn Challenger>) -> Self {
        self.challenger = Some(challenger);
        self
    }

    /// Limits and choices.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// What time it is; the system's clock if not said.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Which calls are for others to drive, with tools and files that are not here. This gate takes them in, shows their questions,
    /// takes answers to them and writes down that they are over; it never plans, rehearses or runs one.
    #[must_use]
    pub fn leaving(mut self, others: Others) -> Self {
        self.others = Some(others);
        self
    }

    /// The gate.
    pub fn build(self) -> Result<Gate, BuildFault> {
        self.catalog.register_all(self.tools)?;
        let policy = match self.policy {
            Some(policy) => policy,
            None => Policy::builtin(&Places::default())?,
        };
        let mut reviewers = self.reviewers.unwrap_or_default();
        reviewers.set_limit(self.settings.stranger_timeout);
        reviewers.set_cache_entries(self.settings.cached_opinions);
        let parts = Parts {
            ledger: self.ledger.unwrap_or_else(|| Arc::new(MemoryLedger::new())),
            catalog: self.catalog,
            policy: ArcSwap::from_pointee(policy),
            reviewers,
            approver: self.approver,
            checkpoint: self.checkpoint,
            challenger: self.challenger,
            clock: self.clock.unwrap_or_else(|| Arc::new(SystemClock)),
            events: Events::new(),
            schedule: Schedule::new(self.settings.max_concurrent),
            bustle: Bustle::default(),
            rulings: Rulings::new(self.settings.cached_rulings),
            settings: self.settings,
            others: self.others,
        };
        Ok(Gate { parts: Arc::new(parts) })
    }
}

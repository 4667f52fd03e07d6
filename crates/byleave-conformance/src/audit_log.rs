//! The public conformance suite for every implementation of [`AuditLog`].
//!
//! Write an [`AuditLogHarness`] for the store and put `byleave_conformance::audit_log_conformance!(YourBench::new());` into a test file. Each
//! case becomes a test of the same name. Cases never panic: they return a [`FailedCaseError`]. Each case needs a harness of
//! its own, with an empty store, in a multi-threaded tokio runtime. The ledger itself is not tested here: it has a
//! [suite of its own](crate::ledger).

mod forget;
mod lists;
mod rebuild;
mod records;
mod seal;
mod snapshot;
mod standing_approvals;

use std::sync::Arc;

use byleave_core::id::CallId;

use crate::ledger::ConformanceError;
use crate::ledger::record_script::CallScript;
use byleave_gate::audit_log::{AuditLog, StoredCall};
use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{Ledger, LedgerError};

pub use crate::ledger::FailedCaseError;

/// A store under test.
pub trait AuditLogHarness: Send + Sync {
    /// Opens a ledger with its audit log, as another process would. It seals only on request.
    fn open(&self) -> BoxFuture<'_, Result<OpenedStore, LedgerError>>;

    /// Restarts every process, so that everything not durable is lost. No handle is left when this is called.
    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// A ledger with its audit log.
#[derive(Clone)]
pub struct OpenedStore {
    /// The ledger that writes records.
    pub ledger: Arc<dyn Ledger>,
    /// The audit log that reads them.
    pub audit_log: Arc<dyn AuditLog>,
}

/// One requirement for every audit log.
#[derive(Clone, Copy, Debug)]
pub struct AuditLogCase {
    /// Its name.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn AuditLogHarness) -> BoxFuture<'a, Result<(), ConformanceError>>,
}

impl AuditLogCase {
    /// Runs the case.
    pub async fn run(&self, bench: &dyn AuditLogHarness) -> Result<(), FailedCaseError> {
        (self.run)(bench).await.map_err(|flaw| FailedCaseError { case: self.name, message: flaw.message() })
    }
}

/// Runs the case with this name.
pub async fn run(name: &str, bench: &dyn AuditLogHarness) -> Result<(), FailedCaseError> {
    match CASES.iter().find(|case| case.name == name) {
        Some(case) => case.run(bench).await,
        None => Err(FailedCaseError { case: "unknown", message: format!("there is no case `{name}`") }),
    }
}

macro_rules! cases {
    (($d:tt) $($module:ident::$name:ident,)*) => {
        /// All cases.
        pub const CASES: &[AuditLogCase] = &[
            $(AuditLogCase { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },)*
        ];

        /// Makes a test of every audit log case. The expression is evaluated again for each.
        ///
        /// The crate that uses it needs `tokio` with `macros` and `rt-multi-thread`.
        #[macro_export]
        macro_rules! audit_log_conformance {
            ($d bench:expr) => {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                    async fn $name() -> Result<(), $crate::audit_log::FailedCaseError> {
                        $crate::audit_log::run(stringify!($name), &$d bench).await
                    }
                )*
            };
        }
    };
}

cases! { ($)
    lists::calls_are_found_by_what_is_asked_for,
    lists::calls_are_found_by_who_what_and_how,
    lists::what_is_new_is_told_once,
    lists::pages_have_no_gaps_and_no_doubles,
    lists::a_call_is_listed_as_far_as_it_has_come,
    lists::open_questions_are_found_by_what_is_asked_for,
    lists::a_question_is_listed_until_it_is_closed,
    records::a_record_is_kept_as_it_was_written,
    records::contents_are_read_back_whole,
    records::tenants_do_not_see_each_other,
    standing_approvals::leaves_are_listed_with_what_became_of_them,
    standing_approvals::a_leave_given_twice_is_listed_as_it_counts,
    forget::forgetting_takes_the_contents_and_leaves_the_record,
    forget::what_goes_on_after_it_was_forgotten_stays_forgotten,
    forget::what_was_forgotten_while_it_waits_can_still_be_closed,
    forget::forgetting_again_does_no_harm,
    forget::what_never_was_is_not_forgotten,
    seal::acts_are_listed_in_order,
    seal::what_is_written_is_counted,
    seal::sealing_moves_the_anchor_and_leaves_nothing_behind,
    rebuild::a_rebuild_changes_nothing,
    rebuild::everything_outlives_a_restart,
}

impl OpenedStore {
    /// Appends the entries that a script has added since the last append.
    async fn append(&self, script: &mut CallScript) -> Result<(), ConformanceError> {
        Ok(self.ledger.append(script.batch()).await?)
    }

    /// Runs a script to its end, and appends its entries.
    async fn finish(&self, script: &mut CallScript) -> Result<(), ConformanceError> {
        script.start(self.ledger.owner())?;
        script.end()?;
        script.settle()?;
        self.append(script).await
    }

    /// Reads a call from the audit log.
    async fn stored_call(&self, call: CallId) -> Result<StoredCall, ConformanceError> {
        self.audit_log.record(call).await?.ok_or_else(|| ConformanceError::new("the record is missing"))
    }

    /// Checks that the audit log verifies.
    async fn check_intact(&self, when: &str) -> Result<(), ConformanceError> {
        match self.audit_log.verify().await?.integrity_error {
            None => Ok(()),
            Some(flaw) => {
                Err(ConformanceError::new(format!("{when} the audit log has an integrity error: {flaw}")))
            }
        }
    }
}

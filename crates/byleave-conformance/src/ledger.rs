//! The public test suite of a ledger: the behaviour that every implementation of [`Ledger`] must show.
//!
//! Write a [`LedgerHarness`] for the store and put `byleave_conformance::ledger_conformance!(YourHarness::new());` into a test file. Each case
//! becomes a test with its own name. Cases never panic and return a [`FailedCaseError`] instead. Each case needs its own harness on
//! an empty store, in a tokio runtime with several threads.

mod append;
mod approvals_and_questions;
mod interrupt;
mod session_tree;
mod start_attempt;
// Not part of the public API. It serves tests of other crates that store records.
#[doc(hidden)]
pub mod record_script;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;

use byleave_gate::boxed::BoxFuture;
use byleave_gate::ledger::{AppendError, Ledger, LedgerError};

/// A store under test.
pub trait LedgerHarness: Send + Sync {
    /// Opens another owner on the same store, as another process would.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Ledger>, LedgerError>>;

    /// Kills the owner as by SIGKILL. `ledger` is its last handle.
    fn kill(&self, ledger: Arc<dyn Ledger>) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// Restarts every process, so that everything that is not durable is lost. No handle is open when this is called.
    ///
    /// A store without persistence, such as one in memory, stays unchanged.
    fn restart(&self) -> BoxFuture<'_, Result<(), LedgerError>>;
}

/// One test case for ledgers.
#[derive(Clone, Copy, Debug)]
pub struct LedgerCase {
    /// The name of the case.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn LedgerHarness) -> BoxFuture<'a, Result<(), ConformanceError>>,
}

impl LedgerCase {
    /// Runs the case.
    pub async fn run(&self, bench: &dyn LedgerHarness) -> Result<(), FailedCaseError> {
        (self.run)(bench).await.map_err(|flaw| FailedCaseError { case: self.name, message: flaw.0 })
    }
}

/// A case that a ledger failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{case}: {message}")]
pub struct FailedCaseError {
    /// The name of the case.
    pub case: &'static str,
    /// The observed behaviour.
    pub message: String,
}

/// Runs one case by its name.
pub async fn run(name: &str, bench: &dyn LedgerHarness) -> Result<(), FailedCaseError> {
    match CASES.iter().find(|case| case.name == name) {
        Some(case) => case.run(bench).await,
        None => Err(FailedCaseError { case: "unknown", message: format!("there is no case `{name}`") }),
    }
}

macro_rules! cases {
    (($d:tt) $($module:ident::$name:ident,)*) => {
        /// All cases.
        pub const CASES: &[LedgerCase] = &[
            $(LedgerCase { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },)*
        ];

        /// Generates one test for every case. The expression is evaluated once per test.
        ///
        /// The crate that uses it needs `tokio` with `macros` and `rt-multi-thread`.
        #[macro_export]
        macro_rules! ledger_conformance {
            ($d bench:expr) => {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                    async fn $name() -> Result<(), $crate::ledger::FailedCaseError> {
                        $crate::ledger::run(stringify!($name), &$d bench).await
                    }
                )*
            };
        }
    };
}

cases! { ($)
    append::what_was_appended_is_loaded,
    append::a_call_that_never_was_is_not_there,
    append::a_stale_length_is_refused,
    append::a_stale_head_is_refused,
    append::racing_writers_never_share_a_place,
    append::a_broken_chain_is_refused,
    append::a_batch_that_is_not_what_it_says_is_refused,
    append::a_content_that_does_not_fit_is_refused,
    append::contents_are_read_through_their_own_record_only,
    append::without_a_key_contents_are_forgotten,
    append::what_is_forgotten_stays_forgotten,
    append::a_hindered_batch_leaves_no_trace,
    append::everything_outlives_a_restart,
    start_attempt::a_halt_holds_for_every_owner_at_once,
    start_attempt::a_halt_holds_for_its_tenant_only,
    start_attempt::a_leave_is_never_used_too_often,
    start_attempt::a_use_is_counted_whether_or_not_it_is_still_open,
    start_attempt::a_revoked_leave_begins_nothing,
    start_attempt::a_leave_that_nobody_gave_begins_nothing,
    start_attempt::one_runs_alone_in_its_session,
    start_attempt::an_end_frees_the_session,
    start_attempt::settling_frees_the_session,
    start_attempt::an_interruption_frees_the_session,
    start_attempt::what_is_safe_runs_beside,
    start_attempt::sessions_and_tenants_do_not_hinder_each_other,
    start_attempt::the_gravest_hindrance_is_named,
    session_tree::a_session_keeps_the_place_it_took,
    session_tree::a_parent_must_be_there,
    session_tree::a_tree_outlives_a_restart,
    session_tree::racing_openings_give_one_place,
    interrupt::a_living_owner_is_left_alone,
    interrupt::a_dead_owner_is_interrupted,
    interrupt::ones_own_attempt_can_be_interrupted,
    interrupt::what_is_not_open_is_not_interrupted,
    interrupt::racing_interruptions_write_once,
    interrupt::an_end_and_an_interruption_exclude_each_other,
    approvals_and_questions::leaves_come_from_answers,
    approvals_and_questions::leaves_keep_to_tool_tenant_and_time,
    approvals_and_questions::a_leave_cannot_be_renewed_under_its_id,
    approvals_and_questions::a_question_leads_to_its_call,
    approvals_and_questions::waiting_calls_hold_up_what_conflicts,
    approvals_and_questions::who_comes_in_is_shown_what_every_look_shows,
    approvals_and_questions::what_was_asked_about_holds_up_until_it_has_ended,
    approvals_and_questions::what_can_be_driven_is_listed_oldest_first,
    approvals_and_questions::what_waits_is_driven_once_its_time_is_over,
}

/// The failure of a case. Any error converts into it.
#[derive(Debug)]
#[doc(hidden)]
pub struct ConformanceError(String);

impl ConformanceError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    pub(crate) fn message(self) -> String {
        self.0
    }
}

impl<E: std::error::Error> From<E> for ConformanceError {
    fn from(error: E) -> Self {
        Self(format!("unexpected: {error}"))
    }
}

macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::ledger::ConformanceError::new(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;

/// Checks that two values are equal, and shows both if they are not.
pub(crate) fn same<T: PartialEq + fmt::Debug>(
    what: &str,
    seen: &T,
    wanted: &T,
) -> Result<(), ConformanceError> {
    ensure!(seen == wanted, "{what}: expected {wanted:?}, got {seen:?}");
    Ok(())
}

/// Checks that a batch was refused as invalid, and not as stale or blocked.
fn expect_ledger_error(what: &str, taken: &Result<(), AppendError>) -> Result<(), ConformanceError> {
    ensure!(matches!(taken, Err(AppendError::Ledger(_))), "{what}: expected an error, got {taken:?}");
    Ok(())
}

/// Runs all futures concurrently and returns their results.
async fn race<T, F>(runners: impl IntoIterator<Item = F>) -> Result<Vec<T>, ConformanceError>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let runners: Vec<F> = runners.into_iter().collect();
    let line = Arc::new(tokio::sync::Barrier::new(runners.len()));
    let mut tasks = JoinSet::new();
    for runner in runners {
        let line = Arc::clone(&line);
        tasks.spawn(async move {
            line.wait().await;
            runner.await
        });
    }
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result?);
    }
    Ok(results)
}

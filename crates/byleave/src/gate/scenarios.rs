//! The public scenarios of the gate: what a user can notice of it, on whatever ledger it stands.
//!
//! Write a [`Bench`] for the ledger and put `byleave::gate_scenarios!(YourBench::new());` into a test file: each scenario
//! becomes a test of its own name. They never panic; what is wrong comes back as a [`Broken`]. Each wants a bench of its
//! own, on an empty store, in a tokio runtime with several threads. They touch nothing but a folder of their own among
//! the temporary ones.

mod between;
mod binding;
mod crash;
mod stage;
mod stop;
mod way;

use std::time::Duration;

use crate::ledger::conformance::{Bench, Broken, Flaw};
use crate::pending::Pending;

/// Longer than any scenario takes: one that has not ended by then never will.
const TAKES_AT_MOST: Duration = Duration::from_secs(60);

/// One thing that a gate must show on every ledger.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn Bench) -> Pending<'a, Result<(), Flaw>>,
}

impl Scenario {
    /// Plays it.
    pub async fn run(&self, bench: &dyn Bench) -> Result<(), Broken> {
        let played = tokio::time::timeout(TAKES_AT_MOST, (self.run)(bench)).await;
        let played = played.unwrap_or_else(|_| Err(Flaw::new("it never comes to an end")));
        played.map_err(|flaw| Broken { case: self.name, what: flaw.what() })
    }
}

/// Plays one scenario by its name.
pub async fn run(name: &str, bench: &dyn Bench) -> Result<(), Broken> {
    match SCENARIOS.iter().find(|scenario| scenario.name == name) {
        Some(scenario) => scenario.run(bench).await,
        None => Err(Broken { case: "unknown", what: format!("there is no scenario `{name}`") }),
    }
}

macro_rules! scenarios {
    (($d:tt) $($module:ident::$name:ident,)*) => {
        /// Every scenario there is.
        pub const SCENARIOS: &[Scenario] = &[
            $(Scenario { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },)*
        ];

        /// Makes a test of every scenario of the gate; the expression is evaluated anew for each.
        ///
        /// The crate that uses it needs `tokio` with `macros` and `rt-multi-thread`.
        #[macro_export]
        macro_rules! gate_scenarios {
            ($d bench:expr) => {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                    async fn $name() -> Result<(), $crate::ledger::conformance::Broken> {
                        $crate::gate::scenarios::run(stringify!($name), &$d bench).await
                    }
                )*
            };
        }
    };
}

scenarios! { ($)
    way::a_call_goes_the_whole_way,
    way::an_error_is_a_result_and_the_next_call_works,
    way::a_panicking_tool_is_a_failed_result,
    way::output_is_cut_and_marked,
    way::a_dry_run_changes_nothing,
    way::a_call_can_be_settled_from_anywhere,
    stop::a_timeout_stops_the_tool,
    stop::a_cancellation_stops_the_tool,
    stop::a_waiting_call_can_be_cancelled,
    stop::a_queued_call_can_be_cancelled,
    stop::another_gate_can_cancel,
    stop::a_call_that_runs_elsewhere_can_be_cancelled_here,
    stop::a_caller_that_goes_away_takes_the_tool_along,
    stop::a_tool_gets_the_time_it_asks_for_up_to_the_limit,
    binding::what_was_approved_is_what_runs,
    binding::what_became_looser_voids_nothing,
    binding::an_answer_is_for_one_question_once,
    binding::a_grant_is_used_once,
    binding::the_same_manifest_is_the_same_tool,
    crash::a_crash_anywhere_leaves_one_outcome,
}

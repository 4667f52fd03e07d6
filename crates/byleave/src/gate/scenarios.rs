//! The public scenarios of the gate: what a user can notice of it, on whatever ledger it stands.
//!
//! Write a [`Bench`] for the ledger and put `byleave::gate_scenarios!(YourBench::new());` into a test file: each scenario
//! becomes a test of its own name. They never panic; what is wrong comes back as a [`Broken`]. Each wants a bench of its
//! own, on an empty store, in a tokio runtime with several threads. They touch nothing but a folder of their own among
//! the temporary ones.

#![expect(clippy::disallowed_methods, reason = "these are tests, and read what they wrote")]

mod asking;
mod between;
mod binding;
mod breaking;
mod ceremonies;
mod copies;
mod copyist;
mod crash;
mod families;
mod leaves;
mod order;
mod owners;
mod readying;
mod rehearsals;
mod reviews;
mod rules;
mod seen;
mod stage;
mod stop;
mod twins;
mod waiting;
mod way;

use std::time::Duration;

use crate::ledger::conformance::{Bench, Broken, Flaw};
use crate::pending::Pending;

/// Longer than any scenario takes, also on a ledger that is reached over a network and shares its machine with other
/// tests: one that has not ended by then never will.
const TAKES_AT_MOST: Duration = Duration::from_secs(240);

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
    stop::a_halt_refuses_everything_until_it_is_lifted,
    stop::a_halt_holds_for_what_is_on_its_way,
    stop::a_tool_gets_the_time_it_asks_for_up_to_the_limit,
    binding::what_was_approved_is_what_runs,
    binding::what_became_looser_voids_nothing,
    binding::an_answer_is_for_one_question_once,
    binding::a_grant_is_used_once,
    binding::the_same_manifest_is_the_same_tool,
    breaking::breaking_is_objecting,
    breaking::an_approver_that_breaks_is_not_made_up_for,
    reviews::reviewers_see_what_they_review,
    reviews::a_bool_is_a_verdict_and_a_value_a_change,
    reviews::changed_arguments_are_checked_anew,
    reviews::changes_come_to_an_end,
    reviews::what_the_model_writes_skips_no_review,
    reviews::the_model_is_told_what_was_changed_and_why,
    reviews::every_look_is_on_the_record,
    leaves::a_leave_covers_the_next_call,
    leaves::a_leave_runs_out,
    leaves::a_use_is_counted_once_for_many_at_once,
    leaves::no_leave_answers_what_a_person_must_see,
    leaves::a_leave_beside_another_ceremony_is_not_used,
    leaves::a_leave_that_makes_no_sense_is_not_taken,
    asking::a_person_sees_the_call_and_answers,
    asking::an_edit_is_checked_anew_and_asks_again_where_it_widens,
    asking::approvals_are_told_to_whoever_listens,
    asking::nobody_there_refuses_unless_said_otherwise,
    asking::permitted_reads_never_ask,
    rehearsals::a_rehearsal_is_shown_and_a_yes_commits_that_very_run,
    rehearsals::what_was_seen_is_judged_by_the_same_rules,
    rehearsals::what_did_nothing_on_the_copy_is_not_asked_about,
    rehearsals::what_wanted_the_network_is_run_again_with_those_hosts,
    rehearsals::a_part_of_a_rehearsal_can_be_chosen,
    rehearsals::a_copy_that_is_gone_is_made_and_asked_about_again,
    ceremonies::a_checkpoint_holds_in_every_mode,
    ceremonies::no_leave_answers_a_checkpoint,
    ceremonies::challenges_are_made_only_where_they_are_asked_for,
    ceremonies::a_challenge_comes_before_or_after_the_answer,
    ceremonies::a_challenge_stands_in_only_where_the_operator_says_so,
    ceremonies::a_checkpoint_can_wait_for_another_process,
    rules::a_ruling_names_its_rule_and_deny_beats_ask_beats_allow,
    rules::rulings_are_remembered_and_answers_never,
    rules::what_reviewers_always_say_is_remembered_and_recorded,
    rules::what_a_tool_says_of_itself_loosens_nothing,
    rules::needs_approval_only_tightens,
    families::a_sub_agent_is_bound_by_what_binds_its_parent,
    families::a_sub_agent_cannot_give_itself_a_mode,
    families::an_agent_that_is_denied_does_nothing_however_it_is_started,
    families::a_background_task_has_no_fewer_checks,
    families::read_only_means_that_nothing_is_changed,
    families::what_may_only_be_delegated_is_done_by_who_is_named,
    families::a_question_of_a_sub_agent_says_whose_it_is,
    families::a_place_in_the_tree_never_changes,
    waiting::a_question_outlives_its_gate,
    waiting::a_call_is_resumed_by_its_answer_in_another_gate,
    waiting::a_question_expires,
    waiting::a_held_result_waits_for_a_person,
    waiting::a_held_result_holds_nobody_up,
    readying::what_is_prepared_is_begun_by_another_gate,
    readying::what_needs_no_question_is_ready_at_once_and_a_no_settles,
    readying::a_rehearsal_is_prepared_here_and_committed_elsewhere,
    readying::what_is_ready_gets_the_last_look_all_the_same,
    seen::every_entry_is_told_in_order,
    seen::a_span_carries_verdict_changes_and_refusal,
    seen::calls_and_refusals_are_counted,
    order::safe_calls_run_beside_each_other_up_to_the_limit,
    order::other_calls_run_alone_and_in_order,
    order::alone_means_without_the_safe_ones_too,
    order::one_at_a_time_is_a_setting,
    order::sessions_do_not_wait_for_each_other,
    order::who_waits_for_a_person_holds_up_only_who_conflicts,
    order::who_stands_behind_an_answered_call_sees_it_through,
    order::answered_calls_run_alone_and_lose_nothing,
    order::an_abort_stops_the_siblings,
    twins::the_same_call_at_once_runs_once,
    twins::the_same_call_in_two_gates_runs_once,
    twins::another_call_under_its_id_is_refused,
    twins::two_calls_race_for_one_id,
    owners::two_gates_never_run_two_alone_at_once,
    owners::what_is_left_to_others_is_answered_here_and_never_begun,
    owners::a_no_that_was_given_elsewhere_counts_where_the_call_ends,
    owners::what_a_dead_owner_ran_is_unknown_and_never_run_again,
    owners::what_may_be_repeated_is_run_again,
    owners::everything_unfinished_can_be_resumed,
    owners::what_cannot_be_marked_does_not_run,
    crash::a_crash_of_an_allowed_call_leaves_one_outcome,
    crash::a_crash_of_a_call_that_is_asked_about_leaves_one_outcome,
    crash::a_crash_of_a_reviewed_call_leaves_one_outcome,
    crash::a_crash_of_a_checked_or_rehearsed_call_leaves_one_outcome,
}

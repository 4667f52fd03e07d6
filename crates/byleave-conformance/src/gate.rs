//! The public test suite of a gate: its behaviour as users see it, for any ledger.
//!
//! Write a [`LedgerHarness`] for the ledger and put `byleave_conformance::gate_scenarios!(YourHarness::new());` into a test file. Each scenario
//! becomes a test with its own name. Scenarios never panic and return a [`FailedCaseError`] instead. Each scenario needs its own
//! harness on an empty store, in a tokio runtime with several threads. Scenarios touch only their own temporary directory.

#![expect(clippy::disallowed_methods, reason = "tests that read their own files")]

mod approval_binding;
mod cancellation;
mod checkpoints_and_challenges;
mod crash;
mod duplicate_calls;
mod durable_questions;
mod end_to_end;
mod failing_participants;
mod fake_copies;
mod fake_rehearsable_tool;
mod faulty_ledger;
mod fixture;
mod multiple_gates;
mod observability;
mod ordering;
mod person_results;
mod policy_decisions;
mod prepare;
mod questions;
mod rehearsals;
mod reviews;
mod standing_approvals;
mod sub_agents;

use std::time::Duration;

use crate::ledger::{ConformanceError, FailedCaseError, LedgerHarness};
use byleave_gate::boxed::BoxFuture;

/// The time limit of a scenario. It is longer than any scenario takes, even with a remote ledger on a machine that runs other
/// tests too.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(240);

/// One test scenario for gates.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn LedgerHarness) -> BoxFuture<'a, Result<(), ConformanceError>>,
}

impl Scenario {
    /// Runs the scenario.
    pub async fn run(&self, bench: &dyn LedgerHarness) -> Result<(), FailedCaseError> {
        let played = tokio::time::timeout(SCENARIO_TIMEOUT, (self.run)(bench)).await;
        let played = played.unwrap_or_else(|_| Err(ConformanceError::new("the scenario does not end")));
        played.map_err(|flaw| FailedCaseError { case: self.name, message: flaw.message() })
    }
}

/// Runs one scenario by its name.
pub async fn run(name: &str, bench: &dyn LedgerHarness) -> Result<(), FailedCaseError> {
    match SCENARIOS.iter().find(|scenario| scenario.name == name) {
        Some(scenario) => scenario.run(bench).await,
        None => Err(FailedCaseError { case: "unknown", message: format!("there is no scenario `{name}`") }),
    }
}

macro_rules! scenarios {
    (($d:tt) $($module:ident::$name:ident,)*) => {
        /// All scenarios.
        pub const SCENARIOS: &[Scenario] = &[
            $(Scenario { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) },)*
        ];

        /// Generates one test for every scenario. The expression is evaluated once per test.
        ///
        /// The crate that uses it needs `tokio` with `macros` and `rt-multi-thread`.
        #[macro_export]
        macro_rules! gate_scenarios {
            ($d bench:expr) => {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                    async fn $name() -> Result<(), $crate::ledger::FailedCaseError> {
                        $crate::gate::run(stringify!($name), &$d bench).await
                    }
                )*
            };
        }
    };
}

scenarios! { ($)
    end_to_end::a_call_goes_the_whole_way,
    end_to_end::an_error_is_a_result_and_the_next_call_works,
    end_to_end::a_panicking_tool_is_a_failed_result,
    end_to_end::output_is_cut_and_marked,
    end_to_end::a_dry_run_changes_nothing,
    end_to_end::a_call_can_be_settled_from_anywhere,
    cancellation::a_timeout_stops_the_tool,
    cancellation::a_cancellation_stops_the_tool,
    cancellation::a_waiting_call_can_be_cancelled,
    cancellation::a_queued_call_can_be_cancelled,
    cancellation::another_gate_can_cancel,
    cancellation::a_call_that_runs_elsewhere_can_be_cancelled_here,
    cancellation::a_caller_that_goes_away_takes_the_tool_along,
    cancellation::a_halt_refuses_everything_until_it_is_lifted,
    cancellation::a_halt_holds_for_what_is_on_its_way,
    cancellation::a_tool_gets_the_time_it_asks_for_up_to_the_limit,
    approval_binding::what_was_approved_is_what_runs,
    approval_binding::what_became_looser_voids_nothing,
    approval_binding::an_answer_is_for_one_question_once,
    approval_binding::a_grant_is_used_once,
    approval_binding::the_same_manifest_is_the_same_tool,
    failing_participants::breaking_is_objecting,
    failing_participants::an_approver_that_breaks_is_not_made_up_for,
    reviews::reviewers_see_what_they_review,
    reviews::a_bool_is_a_verdict_and_a_value_a_change,
    reviews::changed_arguments_are_checked_anew,
    reviews::changes_come_to_an_end,
    reviews::what_the_model_writes_skips_no_review,
    reviews::the_model_is_told_what_was_changed_and_why,
    reviews::every_look_is_on_the_record,
    standing_approvals::a_leave_covers_the_next_call,
    standing_approvals::an_approval_of_effects_covers_every_tool,
    standing_approvals::a_leave_runs_out,
    standing_approvals::a_use_is_counted_once_for_many_at_once,
    standing_approvals::no_leave_answers_what_a_person_must_see,
    standing_approvals::a_leave_beside_another_ceremony_is_not_used,
    standing_approvals::a_leave_that_makes_no_sense_is_not_taken,
    questions::a_person_sees_the_call_and_answers,
    questions::an_edit_is_checked_anew_and_asks_again_where_it_widens,
    questions::approvals_are_told_to_whoever_listens,
    questions::nobody_there_refuses_unless_said_otherwise,
    questions::permitted_reads_never_ask,
    person_results::a_person_answers_in_the_place_of_the_tool,
    person_results::only_a_person_answers_in_the_place_of_the_tool,
    person_results::a_checkpoint_is_never_answered_in_the_place_of_the_tool,
    person_results::reviewers_read_the_result_of_a_person,
    person_results::a_result_of_a_person_is_cut_and_drops_the_copy,
    rehearsals::a_rehearsal_is_shown_and_a_yes_commits_that_very_run,
    rehearsals::what_was_seen_is_judged_by_the_same_rules,
    rehearsals::what_did_nothing_on_the_copy_is_not_asked_about,
    rehearsals::what_wanted_the_network_is_run_again_with_those_hosts,
    rehearsals::what_an_allowed_run_changed_is_judged,
    rehearsals::a_part_of_a_rehearsal_can_be_chosen,
    rehearsals::a_copy_that_is_gone_is_made_and_asked_about_again,
    checkpoints_and_challenges::a_checkpoint_holds_in_every_mode,
    checkpoints_and_challenges::a_rule_makes_a_checkpoint_that_a_person_releases,
    checkpoints_and_challenges::a_rule_requires_a_challenge,
    checkpoints_and_challenges::no_leave_answers_a_checkpoint,
    checkpoints_and_challenges::challenges_are_made_only_where_they_are_asked_for,
    checkpoints_and_challenges::a_challenge_comes_before_or_after_the_answer,
    checkpoints_and_challenges::a_challenge_stands_in_only_where_the_operator_says_so,
    checkpoints_and_challenges::a_checkpoint_can_wait_for_another_process,
    policy_decisions::a_ruling_names_its_rule_and_deny_beats_ask_beats_allow,
    policy_decisions::rulings_are_remembered_and_answers_never,
    policy_decisions::what_reviewers_always_say_is_remembered_and_recorded,
    policy_decisions::what_a_tool_says_of_itself_loosens_nothing,
    policy_decisions::needs_approval_only_tightens,
    sub_agents::a_sub_agent_is_bound_by_what_binds_its_parent,
    sub_agents::a_sub_agent_cannot_give_itself_a_mode,
    sub_agents::an_agent_that_is_denied_does_nothing_however_it_is_started,
    sub_agents::a_background_task_has_no_fewer_checks,
    sub_agents::read_only_means_that_nothing_is_changed,
    sub_agents::what_may_only_be_delegated_is_done_by_who_is_named,
    sub_agents::a_question_of_a_sub_agent_says_whose_it_is,
    sub_agents::a_place_in_the_tree_never_changes,
    durable_questions::a_question_outlives_its_gate,
    durable_questions::a_call_is_resumed_by_its_answer_in_another_gate,
    durable_questions::a_question_expires,
    durable_questions::a_held_result_waits_for_a_person,
    durable_questions::a_held_result_holds_nobody_up,
    prepare::what_is_prepared_is_begun_by_another_gate,
    prepare::what_needs_no_question_is_ready_at_once_and_a_no_settles,
    prepare::a_rehearsal_is_prepared_here_and_committed_elsewhere,
    prepare::what_is_ready_gets_the_last_look_all_the_same,
    observability::every_entry_is_told_in_order,
    observability::a_span_carries_verdict_changes_and_refusal,
    observability::calls_and_refusals_are_counted,
    ordering::safe_calls_run_beside_each_other_up_to_the_limit,
    ordering::other_calls_run_alone_and_in_order,
    ordering::alone_means_without_the_safe_ones_too,
    ordering::one_at_a_time_is_a_setting,
    ordering::sessions_do_not_wait_for_each_other,
    ordering::who_waits_for_a_person_holds_up_only_who_conflicts,
    ordering::who_stands_behind_an_answered_call_sees_it_through,
    ordering::a_yes_whose_agent_is_gone_holds_up_nothing_after_a_minute,
    ordering::an_unattended_answer_keeps_its_place_for_a_minute,
    ordering::answered_calls_run_alone_and_lose_nothing,
    ordering::an_abort_stops_the_siblings,
    duplicate_calls::the_same_call_at_once_runs_once,
    duplicate_calls::the_same_call_in_two_gates_runs_once,
    duplicate_calls::another_call_under_its_id_is_refused,
    duplicate_calls::two_calls_race_for_one_id,
    multiple_gates::two_gates_never_run_two_alone_at_once,
    multiple_gates::what_is_left_to_others_is_answered_here_and_never_begun,
    multiple_gates::a_no_that_was_given_elsewhere_counts_where_the_call_ends,
    multiple_gates::what_a_dead_owner_ran_is_unknown_and_never_run_again,
    multiple_gates::what_may_be_repeated_is_run_again,
    multiple_gates::everything_unfinished_can_be_resumed,
    multiple_gates::what_cannot_be_marked_does_not_run,
    crash::a_crash_of_an_allowed_call_leaves_one_outcome,
    crash::a_crash_of_a_call_that_is_asked_about_leaves_one_outcome,
    crash::a_crash_of_a_reviewed_call_leaves_one_outcome,
    crash::a_crash_of_a_checked_or_rehearsed_call_leaves_one_outcome,
}

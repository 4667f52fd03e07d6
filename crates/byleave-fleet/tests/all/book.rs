//! The ledger with its book: everything that is appended reaches Postgres, and what is settled is given up to it.

pub(crate) mod bench;
mod clearing;
mod everything;
mod put_back;

/// The ledger, whose settled calls are in the book whenever anyone looks, against the whole conformance suite.
mod ledger {
    // req: A1, E4
    byleave_conformance::ledger_conformance!(super::bench::BookBench::new());
}

/// The gate on it: every scenario in the long form, and in the short one those in which a call is looked at again after its end.
mod gate {
    use byleave_conformance::gate::{SCENARIOS, Scenario};

    use super::bench::BookBench;

    const SHORT: [&str; 8] = [
        "a_call_goes_the_whole_way",
        "a_leave_covers_the_next_call",
        "a_question_outlives_its_gate",
        "a_question_expires",
        "the_same_call_in_two_gates_runs_once",
        "another_call_under_its_id_is_refused",
        "what_a_dead_owner_ran_is_unknown_and_never_run_again",
        "everything_unfinished_can_be_resumed",
    ];
    /// Some hundred calls: to wait for the book after each of their lines would take longer than a scenario may.
    const MANY: &str = "a_crash_of_";

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn scenarios() {
        let is_wanted = |scenario: &&Scenario| crate::proofs::long() || SHORT.contains(&scenario.name);
        let wanted: Vec<&Scenario> = SCENARIOS.iter().filter(is_wanted).collect();
        assert!(wanted.len() >= SHORT.len());
        for some in wanted.chunks(4) {
            let benches: Vec<_> =
                some.iter().map(|one| BookBench::patient(!one.name.starts_with(MANY))).collect();
            let run = some.iter().zip(&benches).map(|(scenario, bench)| scenario.run(bench));
            for ran in futures::future::join_all(run).await {
                ran.unwrap();
            }
        }
    }
}

/// The book that it writes, against the suite of the book: all of it in the long form, and in the short one what depends on how
/// it was written. `byleave-postgres` shows the rest by itself.
mod shelf {
    use byleave_conformance::audit_log::{AuditLogCase, CASES};

    use super::bench::BookBench;

    const SHORT: [&str; 6] = [
        "calls_are_found_by_who_what_and_how",
        "forgetting_takes_the_contents_and_leaves_the_record",
        "leaves_are_listed_with_what_became_of_them",
        "a_rebuild_changes_nothing",
        "what_goes_on_after_it_was_forgotten_stays_forgotten",
        "what_is_written_is_counted",
    ];

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn cases() {
        let is_wanted = |case: &&AuditLogCase| crate::proofs::long() || SHORT.contains(&case.name);
        let wanted: Vec<&AuditLogCase> = CASES.iter().filter(is_wanted).collect();
        assert!(wanted.len() >= SHORT.len());
        for some in wanted.chunks(3) {
            let benches: Vec<_> = some.iter().map(|_| BookBench::new()).collect();
            let run = some.iter().zip(&benches).map(|(case, bench)| case.run(bench));
            for ran in futures::future::join_all(run).await {
                ran.unwrap();
            }
        }
    }
}

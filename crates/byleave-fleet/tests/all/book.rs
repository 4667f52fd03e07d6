//! The ledger with its book: everything that is appended reaches Postgres, and what is settled is given up to it.

pub(crate) mod bench;
mod clearing;
mod everything;
mod put_back;

/// The ledger, whose settled calls are in the book whenever anyone looks, against the whole conformance suite.
mod ledger {
    // req: A1, E4
    byleave::ledger_conformance!(super::bench::BookBench::new());
}

/// The gate on it: every scenario in the long form, and a few of them in the short one, which must not take minutes.
mod gate {
    use byleave::gate::scenarios::SCENARIOS;

    const FEW: usize = 12;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn scenarios() {
        let step = if crate::proofs::long() { 1 } else { SCENARIOS.len() / FEW };
        for some in SCENARIOS.iter().step_by(step).collect::<Vec<_>>().chunks(4) {
            let benches: Vec<_> = some.iter().map(|_| super::bench::BookBench::new()).collect();
            let run = some.iter().zip(&benches).map(|(scenario, bench)| scenario.run(bench));
            for ran in futures::future::join_all(run).await {
                ran.unwrap();
            }
        }
    }
}

/// The book that it writes, against the suite of the book.
mod shelf {
    byleave::book_conformance!(super::bench::BookBench::new());
}

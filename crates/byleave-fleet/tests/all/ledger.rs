//! The ledger on the engine, against the whole conformance suite.

// req: A1, E4
byleave_conformance::ledger_conformance!(crate::engine::RestateBench::new());

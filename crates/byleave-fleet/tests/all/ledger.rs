//! The ledger on the engine, against the whole conformance suite.

// req: A1, E4
byleave::ledger_conformance!(crate::engine::RestateBench::new());

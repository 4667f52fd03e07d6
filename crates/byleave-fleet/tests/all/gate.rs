//! The gate on the engine: every scenario that it must show on any ledger.

// req: E1, E2, E4, E5, E8, L3, T3, T5, T8, P1, P7, P9, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, A1, A2
byleave_conformance::gate_scenarios!(crate::engine::RestateBench::new());

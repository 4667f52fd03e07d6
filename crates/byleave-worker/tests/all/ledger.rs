//! Runs the whole conformance suite on a ledger over a connection.

// req: A1, E4
byleave_conformance::ledger_conformance!(crate::stage::RegistryFixture::new());

/// The same with a connection that breaks after every few messages.
mod on_a_bad_wire {
    // req: A1, E4
    byleave_conformance::ledger_conformance!(crate::stage::RegistryFixture::with_bad_wires());
}

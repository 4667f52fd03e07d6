//! A ledger over a wire, against the whole conformance suite.

// req: A1, E4
byleave::ledger_conformance!(crate::stage::RegistryFixture::new());

/// The same while the wire breaks after every few words.
mod on_a_bad_wire {
    // req: A1, E4
    byleave::ledger_conformance!(crate::stage::RegistryFixture::with_bad_wires());
}

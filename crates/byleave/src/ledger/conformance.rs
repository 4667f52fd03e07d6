//! The public conformance suite of ledgers.

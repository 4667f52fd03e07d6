//! Test suites for stores of Byleave: the behaviour that every ledger and every audit log must show, and the behaviour of a gate on them.
//!
//! | Suite | Macro | Harness |
//! |---|---|---|
//! | [`ledger`] | [`ledger_conformance!`] | [`ledger::LedgerHarness`] |
//! | [`audit_log`] | [`audit_log_conformance!`] | [`audit_log::AuditLogHarness`] |
//! | [`gate`] | [`gate_scenarios!`] | [`ledger::LedgerHarness`] |
//!
//! Each case becomes a test with its own name. The in-memory, SQLite, Postgres and remote ledgers of Byleave pass the same suites.

pub mod audit_log;
pub mod gate;
pub mod ledger;

//! A ledger in memory.

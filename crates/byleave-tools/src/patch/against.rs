//! The applier against the real ones, and the reader against the one that the gate judges by.

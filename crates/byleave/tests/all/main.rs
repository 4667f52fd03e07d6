//! What the library shows from outside, in one binary.

mod ledger;

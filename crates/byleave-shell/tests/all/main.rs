//! Tests of the public API of byleave-shell.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod awk;
mod beneath;
mod constructs;
mod differential;
mod manuals;
mod never_panics;
mod scripts;
mod stage;
mod traces;
mod tree;
mod tricky;

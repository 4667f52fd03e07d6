//! The built-in tools, through the same trait as anyone's: nothing in the gate knows their names.
//!
//! ```text
//! call ─▶ bash ─▶ workplace: what was granted becomes a confinement, the workspace a copy
//!                    └─▶ run: the command, in the sandbox, on the copy ─▶ what it did ─▶ commit or discard
//!                         └─▶ heard: what it prints ─▶ kept: beginning and end, for the result; and on to whoever watches
//! call ─▶ bash, in the background ─▶ jobs ◀─ bash_output, bash_kill
//! call ─▶ read_file, grep … ─▶ files: a handle on the path that was judged
//! call ─▶ write_file, edit … ─▶ revision: what is to be there ─▶ changing: on a copy ─▶ commit or discard
//! call ─▶ web_fetch ─▶ the door of the sandbox: one address, judged, and that one dialled
//! call ─▶ undo ─▶ the store of copies: the inverse of what a call committed
//! ```
//!
//! Whatever runs, runs confined and on a copy, whether somebody was asked or not: so everything that was done to files can be taken
//! back. Where there can be no copy it is said, before the question and in the result.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod apart;
pub mod apply_patch;
pub mod bash;
mod changing;
mod commit;
pub mod delete_file;
pub mod diagnostics;
pub mod edit;
mod files;
mod first;
pub mod glob;
pub mod grep;
mod heard;
pub mod jobs;
mod kept;
mod kind;
mod lines;
pub mod list;
mod near;
mod observed;
pub mod offer;
mod patch;
mod place;
pub mod read_file;
pub mod read_output;
mod revision;
mod run;
mod run_by_git;
pub mod todo;
mod unasked;
pub mod undo;
mod walk;
pub mod web;
pub mod workplace;
pub mod write_file;

pub use bash::Bash;
pub use diagnostics::diagnostics;
pub use jobs::{JobLimits, Jobs, bash_kill, bash_output};
pub use lines::in_its_own_words;
pub use offer::{Offer, catalog};
pub use todo::{todo_read, todo_write};
pub use undo::Undo;
pub use web::{Fetcher, web_fetch};
pub use workplace::Workplace;

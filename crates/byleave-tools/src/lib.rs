//! The built-in tools, through the same trait as anyone's: nothing in the gate knows their names.
//!
//! ```text
//! call ─▶ bash ─▶ workplace: what was granted becomes a confinement, the workspace a copy
//!                    └─▶ run: the command, in the sandbox, on the copy ─▶ what it did ─▶ commit or discard
//! call ─▶ read_file, grep … ─▶ files: a handle on the path that was judged
//! call ─▶ write_file, edit … ─▶ draft: what is to be there ─▶ changing: on a copy ─▶ commit or discard
//! call ─▶ undo ─▶ the store of copies: the inverse of what a call committed
//! ```
//!
//! Whatever runs, runs confined and on a copy, whether somebody was asked or not: so everything that was done to files can be taken
//! back. Where there can be no copy it is said, before the question and in the result.

pub mod apply_patch;
pub mod bash;
mod changing;
pub mod delete_file;
mod draft;
pub mod edit;
mod files;
mod kind;
mod near;
mod observed;
pub mod offer;
mod patch;
pub mod read_file;
mod rehearse;
mod run;
pub mod undo;
pub mod workplace;
pub mod write_file;

pub use bash::Bash;
pub use offer::{Offer, catalog};
pub use undo::Undo;
pub use workplace::Workplace;

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

pub mod bash;
mod changing;
mod draft;
mod files;
mod first;
pub mod glob;
pub mod grep;
mod kind;
pub mod list;
mod observed;
pub mod offer;
mod place;
pub mod read_file;
mod rehearse;
mod run;
pub mod undo;
mod walk;
pub mod workplace;
pub mod write_file;

pub use bash::Bash;
pub use offer::{Offer, catalog};
pub use undo::Undo;
pub use workplace::Workplace;

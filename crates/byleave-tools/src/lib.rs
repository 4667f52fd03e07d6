//! The built-in tools, through the same trait as anyone's: nothing in the gate knows their names.
//!
//! ```text
//! call ─▶ bash ─▶ workplace: what was granted becomes a confinement, the workspace a copy
//!                    └─▶ run: the command, in the sandbox, on the copy ─▶ what it did ─▶ commit or discard
//! call ─▶ undo ─▶ the store of copies: the inverse of what a call committed
//! ```
//!
//! Whatever runs, runs confined and on a copy, whether somebody was asked or not: so everything that was done to files can be taken
//! back. Where there can be no copy it is said, before the question and in the result.

pub mod bash;
pub mod diagnostics;
mod observed;
mod rehearse;
mod run;
pub mod todo;
pub mod undo;
pub mod web;
pub mod workplace;

pub use bash::Bash;
pub use diagnostics::diagnostics;
pub use todo::{todo_read, todo_write};
pub use undo::Undo;
pub use web::{Fetcher, web_fetch};
pub use workplace::Workplace;

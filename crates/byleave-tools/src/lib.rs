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

pub mod apply_patch;
pub mod background_jobs;
pub mod bash;
mod blocking;
pub mod builtin_catalog;
mod copy_commit;
pub mod delete_file;
pub mod diagnostics;
mod dir_walk;
pub mod edit;
pub mod execution_env;
mod file_change_tool;
mod file_edit;
mod file_type;
mod gate_lines;
pub mod glob;
pub mod grep;
mod head_tail_buffer;
pub mod list_dir;
mod near_match;
mod output_stream;
mod patch;
pub mod read_file;
pub mod read_output;
mod read_permission;
mod rehearsal_result;
mod run_by_git;
mod run_command;
mod search_root;
pub mod todo;
mod top_n;
pub mod undo;
pub mod web;
mod workspace_files;
pub mod write_file;

pub use background_jobs::{JobLimits, Jobs, bash_kill, bash_output};
pub use bash::Bash;
pub use builtin_catalog::{BuiltinToolOptions, catalog};
pub use diagnostics::diagnostics;
pub use execution_env::ExecutionEnv;
pub use gate_lines::in_its_own_words;
pub use todo::{todo_read, todo_write};
pub use undo::Undo;
pub use web::{Fetcher, web_fetch};

//! The built-in tools. They use the same trait as any other tool; nothing in the gate knows their names.
//!
//! ```text
//! call ─▶ bash ─▶ execution_env: the granted effects become a confinement, the workspace a copy
//!                    └─▶ run_command: the command, in the sandbox, on the copy ─▶ rehearsal_result ─▶ commit or discard
//!                         └─▶ output_stream: its output ─▶ head_tail_buffer: beginning and end, for the result; and to listeners
//! call ─▶ bash, in the background ─▶ background_jobs ◀─ bash_output, bash_kill
//! call ─▶ read_file, grep … ─▶ workspace_files: a handle on the evaluated path
//! call ─▶ write_file, edit … ─▶ file_edit: the planned edit ─▶ file_change_tool: on a copy ─▶ commit or discard
//! call ─▶ web_fetch ─▶ the sandbox's egress: one address is evaluated, and only that one is dialled
//! call ─▶ undo ─▶ the store of copies: the inverse of a call's commit
//! ```
//!
//! Every command runs confined and on a copy, whether a person was asked or not, so that all changes to files can be undone. If there can
//! be no copy, both the question and the result say so.
//!
//! - `builtin_catalog`: All built-in tools in one catalog.
//! - `read_file`, `list_dir`, `glob`, `grep`: Tools that read (`list_dir` also has `list_files`).
//! - `write_file`, `edit`, `apply_patch`, `delete_file`: Tools that change files (`edit` also has `multi_edit`).
//! - `bash`, `background_jobs`, `diagnostics`: Tools that run commands; `bash_output` and `bash_kill` are in `background_jobs`.
//! - `held_jobs`, `job_notes`, `job_scratch`: Jobs that last as long as their call; what other processes can show of a running job; where a
//!   job may write.
//! - `service_watch`: Finds out that a command is a service, by its port.
//! - `web`: The tool `web_fetch`.
//! - `todo`, `read_output`, `undo`: The agent's own list; the rest of a long output; undo of a call.
//! - `workspace_files`: Opens files by handle on the evaluated path.
//! - `dir_walk`: Walks a directory tree by handles, with the ignore rules of ripgrep.
//! - `file_edit`, `file_change_tool`: A planned edit as data; puts it on a copy, shows it and commits it.
//! - `external_edit`: An edit that an agent makes with its own tool: judged on a copy, with before-images.
//! - `execution_env`, `run_command`: Prepares confinement and copy for a command; runs it.
//! - `git_lend`: Lends a command a Git transport that the gate opens outside.
//! - `command_host`: Where commands run, the sandbox of this machine or a container.
//! - `rehearsal_result`, `copy_commit`: The result of a run on a copy; commits or discards it.
//! - `output_stream`, `head_tail_buffer`: Output while a command runs; keeps its beginning and end.
//! - `patch`, `near_match`: Parses and applies patches strictly; explains why a string was not found.
//! - `change_findings`, `run_by_git`: What the paths of changes do not say; changes that Git would run later.
//! - `read_permission`, `search_root`: Whether a path may be read without a question; the directory that a search starts in.
//! - `blocking`, `file_type`, `gate_lines`, `top_n`: Helpers.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod apply_patch;
pub mod background_jobs;
pub mod bash;
mod blocking;
pub mod builtin_catalog;
mod change_findings;
pub mod command_host;
mod copy_commit;
mod copy_paths;
pub mod delete_file;
pub mod diagnostics;
mod dir_walk;
pub mod edit;
pub mod execution_env;
pub mod external_edit;
mod file_change_tool;
mod file_edit;
mod file_type;
mod gate_lines;
mod git_lend;
mod git_settings;
mod git_worktrees;
pub mod glob;
pub mod grep;
mod head_tail_buffer;
pub mod held_jobs;
pub mod job_notes;
mod job_scratch;
pub mod list_dir;
mod near_match;
mod new_repository;
pub mod outer_repository;
mod output_stream;
mod patch;
pub mod read_file;
pub mod read_output;
mod read_permission;
mod rehearsal_result;
mod run_by_git;
mod run_command;
mod search_root;
mod service_watch;
pub mod todo;
mod top_n;
pub mod undo;
pub mod web;
mod without_namespaces;
mod workspace_files;
pub mod write_file;

pub use background_jobs::{JobLimits, Jobs, bash_kill, bash_output};
pub use bash::Bash;
pub use builtin_catalog::{BuiltinToolOptions, builtin_catalog};
pub use byleave_shell::services::find_service;
pub use command_host::CommandHost;
pub use diagnostics::diagnostics;
pub use execution_env::ExecutionEnv;
pub use gate_lines::strip_gate_prefix;
pub use held_jobs::HeldJobs;
pub use job_notes::{JobNote, JobPort, running_jobs};
pub use outer_repository::OuterRepository;
pub use service_watch::is_known_service;
pub use todo::{todo_read, todo_write};
pub use undo::Undo;
pub use web::{Fetcher, web_fetch};
pub use without_namespaces::ContainerTrust;
